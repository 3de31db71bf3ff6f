"""The items of tasks: sent with votes or tasks, kept once, shown, erased, expired, backed up."""

import json
import time

import pytest

from adjudge.service.board.items import open_item
from adjudge.service.http.types import MAX_ITEM_BYTES
from adjudge.service.store.batch import Batch, ItemRow
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from adjudge.service.store.writer import Writer


def data_of(server, task):
    return server("GET", f"tasks/{task}").json["data"]


@pytest.mark.parametrize("data", [{"text": "Buy"}, "plain", [1, 2.5, None, {"a": "\u2028"}], 7, True, {"text": ""}, {}, ""])
def test_any_json_comes_back_as_it_was_sent(server, data):
    name = f"any-{json.dumps(data).encode().hex()}"
    assert server("POST", "tasks", {"tasks": [{"task": name, "data": data}, f"{name}-bare"]}).status == 200
    assert data_of(server, name) == data
    assert data_of(server, f"{name}-bare") is None


def test_a_vote_carries_the_item_of_a_task_that_has_none(server):
    vote = {"task": "by-vote", "worker": "w", "label": "ok"}
    assert server("POST", "votes", vote).json["accepted"] == 1
    assert data_of(server, "by-vote") is None
    assert server("POST", "votes", vote | {"data": {"text": "first"}}).json["repeated"] == 1  # and is kept, all the same
    assert data_of(server, "by-vote") == {"text": "first"}
    assert server("POST", "votes", vote | {"worker": "x", "data": {"text": "second"}}).json["accepted"] == 1
    assert server("POST", "tasks", {"tasks": [{"task": "by-vote", "data": "third"}]}).status == 200
    assert data_of(server, "by-vote") == {"text": "first"}


def test_lines_of_a_stream_carry_items(server):
    lines = [{"task": f"line-{n}", "worker": "w", "label": "ok", "data": {"n": n}} for n in range(3)]
    body = "\n".join(map(json.dumps, lines)).encode()
    assert server("POST", "votes:stream", body).body.count(b"\n") == 3
    assert data_of(server, "line-2") == {"n": 2}


def test_an_item_is_stored_before_its_line_is_answered(server, monkeypatch):
    vote = {"task": "again", "worker": "w", "label": "ok"}
    server("POST", "votes", vote)
    write = Writer._write
    monkeypatch.setattr(Writer, "_write", lambda writer, batch: (time.sleep(0.2), write(writer, batch)))
    body = json.dumps(vote | {"data": {"text": "new"}}).encode()  # the vote is known: only the item is written
    assert server("POST", "votes:stream", body).status == 200
    assert data_of(server, "again") == {"text": "new"}


def test_what_is_too_large_is_refused_whole(server):
    fits, large = "x" * (MAX_ITEM_BYTES - 2), "x" * (MAX_ITEM_BYTES - 1)
    votes = [{"task": "small", "worker": "w", "label": "ok"}, {"task": "large", "worker": "w", "label": "ok", "data": large}]
    answer = server("POST", "votes", votes)
    assert answer.status == 422
    assert answer.json["detail"] == "the data of task 'large' has 16001 bytes: at most 16000 are taken"
    assert server("GET", "tasks/small").status == 404
    assert server("POST", "tasks", {"tasks": [{"task": "fits", "data": fits}]}).status == 200
    assert data_of(server, "fits") == fits
    assert server("POST", "tasks", {"tasks": [{"task": "large", "data": large}]}).status == 422
    assert server("POST", "tasks", {"tasks": [{"task": "large"}]}).status == 422


@pytest.mark.parametrize("levels", [101, 600, 975, 985, 2000])
def test_what_is_nested_too_deep_is_refused(server, levels):
    deep = "[" * levels + "]" * levels
    vote = f'{{"task": "deep", "worker": "w", "label": "ok", "data": {deep}}}'.encode()
    answers = [
        server("POST", "votes", vote),
        server("POST", "tasks", f'{{"tasks": [{{"task": "deep", "data": {deep}}}]}}'.encode()),
    ]
    assert {answer.status for answer in answers} <= {400, 422}
    line = server("POST", "votes:stream", vote + b'\n{"task": "next", "worker": "w", "label": "ok"}')
    first, second = map(json.loads, line.body.splitlines())
    assert (first["error"] in ("invalid", "malformed"), second["task"]) == (True, "next")
    if levels < 900:
        assert answers[0].json["detail"] == "the data of task 'deep' is nested too deep: at most 100 levels are taken"


def test_brackets_in_text_are_not_levels(server):
    data = {"text": '\\"' + "[{" * 300, "rows": [[]] * 150}
    assert server("POST", "tasks", {"tasks": [{"task": "brackets", "data": data}]}).status == 200
    assert data_of(server, "brackets") == data


def test_an_item_is_erased_alone(server):
    server("POST", "votes", {"task": "gone", "worker": "w", "label": "ok", "data": {"text": "a name"}})
    assert server("DELETE", "tasks/gone/data").status == 200
    assert data_of(server, "gone") is None
    assert len(server("GET", "tasks/gone").json["evidence"]) == 1
    assert server("DELETE", "tasks/gone/data").status == 404


def test_items_are_in_backups_and_checked(tmp_path):
    store = open_store(str(tmp_path / "votes.db"))
    number = store.create_campaign("c")
    store.write(Batch(items=[ItemRow(number, f"t{n}", b'{"n":%d}' % n, n) for n in range(5)]))
    store.write(Batch(items=[ItemRow(number, "t1", b'"later"', 9)]))
    assert store.items.find(number, "t1") == b'{"n":1}'
    assert list(store.items.seen_before(number, 3)) == [["t0", "t1", "t2"]]
    assert verify(store)[0].items == 5
    store.backup(tmp_path / "copy.db")
    copy = open_store(str(tmp_path / "copy.db"), readonly=True)
    assert copy.items.find(number, "t4") == b'{"n":4}'
    copy.close()
    assert store.items.remove(number, ["t0", "t1", "nothing"]) == 2
    assert store.items.find(number, "t0") is None
    store.close()


def test_items_are_taken_apart():
    item = open_item({"text": "a", "url": "https://e.org/x", "image_url": "https://img.e.org/i.png", "size": 3}, ["img.e.org"])
    assert item == ("a", "https://e.org/x", "https://img.e.org/i.png", None, [("size", "3")])
    for url in (
        "javascript:alert(1)",
        "data:text/html,x",
        "//e.org",
        "https:/e.org",
        " https://e.org",
        "https://e.org/\n",
        "ftp://e.org",
        7,
    ):
        item = open_item({"url": url, "image_url": url}, ["e.org"])
        assert (item.url, item.image) == (None, None)
        assert [name for name, _ in item.others] == ["url", "image_url"]  # shown as text
    assert open_item({"image_url": "http://img.e.org/i.png"}, ["img.e.org"]).image is None  # not over TLS
    assert open_item({"image_url": "https://img.e.org.evil.example/i.png"}, ["img.e.org"]).image is None
    assert open_item({"image_url": "https://img.e.org@evil.example/i.png"}, ["img.e.org"]).image is None
    assert open_item(["a", 1], []).text == '[\n  "a",\n  1\n]'
