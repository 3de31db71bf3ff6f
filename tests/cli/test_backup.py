"""`adjudge backup`: a copy, the way back, tables; nothing half written."""

import json
import os
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from live_store import fill, small, stored


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return stored("votes.db", [*small(), ("t/1", "ann\x1b", "spam"), ("'; --", "bob", "ok")])


def events_of(path):
    opened = open_store(path, readonly=True)
    try:
        assert all(not found.problems for found in verify(opened))
        return [event for number, _ in opened.campaigns() for _, page in opened.read(number) for event in page]
    finally:
        opened.close()


def test_a_copy_is_made_while_the_store_is_written_and_restored(adjudge, store):
    writer = open_store(store)
    fill(writer, small(), name="another")
    code, out, err = adjudge("backup", store, "copy.db")
    assert (code, out) == (0, "")
    assert err.startswith("wrote copy.db, ")
    fill(writer, small(), name="too late")
    writer.close()
    copied = events_of("copy.db")
    assert 0 < len(copied) < len(events_of(store))
    assert adjudge("backup", "--restore", "copy.db", "restored.db") == (0, "", "restored copy.db to restored.db\n")
    assert events_of("restored.db") == copied
    assert adjudge("backup", store, "copy.db", "--quiet") == (0, "", ""), "an earlier backup is replaced"
    assert events_of("copy.db") == events_of(store)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_votes_and_decisions_are_exported(adjudge, store, suffix):
    code, out, err = adjudge("backup", store, "--votes", f"votes.{suffix}", "--decisions", f"decisions.{suffix}")
    assert (code, out, err) == (0, "", "")
    read = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}[suffix]
    votes = read(f"votes.{suffix}")
    assert votes.select("task", "worker", "label").rows() == [*small(), ("t/1", "ann\x1b", "spam"), ("'; --", "bob", "ok")]
    assert adj.read(f"votes.{suffix}").understood.votes == len(votes), "the library reads them as they are"
    decisions = read(f"decisions.{suffix}")
    assert set(decisions["status"]) <= {"open", "held", "decided", "escalated", "locked"}
    assert decisions["position"].is_sorted()
    assert len(decisions) > 5


def test_history_has_what_is_no_longer_in_force(adjudge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from adjudge.service.store import events
    from adjudge.service.store.batch import Batch

    opened = open_store("votes.db")
    number = fill(opened, [("t", "ann", "spam"), ("t", "bob", "spam"), ("u", "ann", "ok")])
    batch = Batch()
    batch.extend(number, 5, [events.Change(time=2**51, task="t", worker=1, label=1)])
    batch.extend(number, 6, [events.Retraction(time=2**51, task="t", worker=2)])
    opened.write(batch)
    opened.close()
    assert adjudge("backup", "votes.db", "--votes", "now.csv")[0] == 0
    assert pl.read_csv("now.csv").select("task", "worker", "label").rows() == [("u", "ann", "ok"), ("t", "ann", "ok")]
    assert adjudge("backup", "votes.db", "--votes", "all.csv", "--history")[0] == 0
    assert pl.read_csv("all.csv")["event"].to_list() == ["vote", "vote", "vote", "change", "retraction"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["votes.db"], "nothing to write: give a file for the backup"),
        (["votes.db", "votes.db"], "votes.db"),
        (["none.db", "copy.db"], "there is no store none.db"),
        (["text.txt", "copy.db"], "not a database"),
        (["votes.db", "none/copy.db"], "none"),
        (["votes.db", "--votes", "votes.db"], "votes.db"),
        (["votes.db", "--votes", "a.csv", "--decisions", "a.csv"], "a.csv"),
        (["votes.db", "--votes", "a.xyz"], "xyz"),
        (["votes.db", "--votes", "a.csv", "--campaign", "defualt"], "did you mean 'default'?"),
        (["votes.db", "copy.db", "--campaign", "default"], "a backup has all campaigns"),
        (["votes.db", "copy.db", "--history"], "--history says which votes go to --votes FILE"),
        (["--restore", "text.txt", "new.db"], "not a database"),
        (["--restore", "none.db", "new.db"], "there is no store none.db"),
        (["--restore", "votes.db", "text.txt"], "it is there already; move it away, or give another path"),
        (["--restore", "votes.db"], "adjudge backup --restore FILE STORE"),
        (["--restore", "votes.db", "new.db", "--votes", "a.csv"], "adjudge backup --restore FILE STORE"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(adjudge, store, tmp_path, arguments, says):
    (tmp_path / "text.txt").write_text("text, and no database\n" * 99)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, out, err = adjudge("backup", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert says in err
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert {name: data for name, data in after.items() if name[-4:] not in ("-shm", "-wal")} == before


def test_several_campaigns_have_to_be_distinguished(adjudge, store):
    opened = open_store(store)
    fill(opened, small(tasks=2), name="another")
    opened.close()
    code, _, err = adjudge("backup", store, "--votes", "a.csv")
    assert (code, err) == (1, "adjudge: the store has 2 campaigns: say which one with --campaign (default, another)\n")
    assert not os.path.lexists("a.csv")
    assert adjudge("backup", store, "--votes", "a.jsonl", "--campaign", "another")[0] == 0
    assert [json.loads(line)["task"] for line in Path("a.jsonl").read_text().splitlines()] == [
        task for task, _, _ in small(tasks=2)
    ]


def test_a_damaged_backup_is_not_restored(adjudge, store, tmp_path):
    adjudge("backup", store, "copy.db")
    data = (tmp_path / "copy.db").read_bytes()
    assert b'"t3"' in data
    (tmp_path / "copy.db").write_bytes(data.replace(b'"t3"', b'"t4"', 1))
    code, _, err = adjudge("backup", "--restore", "copy.db", "new.db")
    assert (code, err.count("\n")) == (1, 1)
    assert "the backup copy.db is damaged" in err
    assert not (tmp_path / "new.db").exists()
