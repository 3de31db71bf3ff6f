"""Webhooks of Label Studio, as it sends them."""

import asyncio
import itertools
import logging
import sqlite3
import time
from contextlib import closing, contextmanager

import msgspec
import pytest

import postgres
from adjudge.service.campaigns.replay import check
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.clock import Clock
from adjudge.service.http.labelstudio import Incoming, Made, take
from adjudge.service.http.types import CampaignSpec
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from server_process import Served, until
from service.serving import Client, serving


@contextmanager
def receiving(folder, **settings):
    """A server whose label spam is called as the choice in Label Studio is."""
    with serving(folder, **settings) as client:
        client("PATCH", "/v1/campaigns/default", {"names": {"spam": "Spam!"}})
        yield client


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with receiving(tmp_path_factory.mktemp("studio")) as client:
        yield client


def posted(action, annotation=None, **more):
    """What Label Studio sends, with much that is not looked at."""
    body = {"action": action, "project": {"id": 3, "title": "x", "label_config": "<View/>"}, **more}
    if annotation is not None:
        body["annotation"] = annotation
    return body


def made(number, by=1, choice="Spam!", task=7, **more):
    result = [
        {"id": "r", "from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [choice]}, "origin": "manual"}
    ]
    return {
        "id": number,
        "task": task,
        "completed_by": by,
        "result": result,
        "was_cancelled": False,
        "lead_time": 3.2,
        "updated_at": "2026-01-01T00:00:00Z",
    } | more


def send(client, *arguments, query="", **more):
    answer = client("POST", f"labelstudio{query}", posted(*arguments, **more))
    assert answer.status == 200, answer.body
    return answer.json


def evidence(client, task):
    return [(vote["worker"], vote["label"]) for vote in client("GET", f"tasks/{task}").json["evidence"]]


def votes_of(client, task):
    """Worker and label of every vote on a task."""
    return dict(evidence(client, task))


def at(second):
    """A time as Label Studio writes it."""
    return f"2026-01-01T00:00:{second:02}.000001Z"


def test_made_changed_and_deleted(studio):
    first = send(studio, "ANNOTATION_CREATED", made(1, by=1))
    assert (first["accepted"], first["decisions"][0]["task"], first["decisions"][0]["label"]) == (1, "7", "spam")
    assert send(studio, "ANNOTATION_CREATED", made(1, by=1))["repeated"] == 1
    send(studio, "ANNOTATION_CREATED", made(2, by={"id": 5, "email": "bo@example.org"}, choice="ok"))
    assert evidence(studio, 7) == [("1", "spam"), ("bo@example.org", "ok")]
    changed = send(studio, "ANNOTATION_UPDATED", made(1, by=1, choice="ok", updated_at="2026-01-02T00:00:00Z"))
    assert changed["accepted"] == 1
    assert dict(evidence(studio, 7))["1"] == "ok"
    deleted = send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": 1}, {"id": 99}])
    assert (deleted["retracted"], deleted["skipped"]) == (1, ["annotation 99 was deleted, and never taken"])
    assert evidence(studio, 7) == [("bo@example.org", "ok")]


def test_a_choice_toggled_back(studio):
    for second, choice in enumerate(["ok", "Spam!", "ok", "Spam!"]):
        answer = send(studio, "ANNOTATION_UPDATED", made(100, task=100, choice=choice, updated_at=at(second)))
        assert answer["accepted"] == 1
        assert votes_of(studio, 100) == {"1": {"ok": "ok", "Spam!": "spam"}[choice]}


def test_toggling_needs_no_times(studio):
    for choice in ["ok", "Spam!", "ok"]:
        send(studio, "ANNOTATION_UPDATED", made(101, task=101, choice=choice, updated_at=None))
    assert votes_of(studio, 101) == {"1": "ok"}


@pytest.mark.parametrize(("deleted", "left"), [(110, "ok"), (111, "spam")])
def test_one_of_two_annotations_of_a_worker_is_deleted(studio, deleted, left):
    task, first, second = 1000 + deleted, 10 * deleted, 10 * deleted + 1
    send(studio, "ANNOTATION_CREATED", made(first, task=task, choice="Spam!", updated_at=at(1)))
    send(studio, "ANNOTATION_CREATED", made(second, task=task, choice="ok", updated_at=at(2)))
    assert votes_of(studio, task) == {"1": "ok"}
    send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": first if deleted == 110 else second}])
    assert votes_of(studio, task) == {"1": left}
    send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": first}, {"id": second}])
    assert votes_of(studio, task) == {}


def test_of_two_annotations_the_one_changed_last_counts(studio):
    send(studio, "ANNOTATION_CREATED", made(120, task=120, choice="Spam!", updated_at=at(1)))
    send(studio, "ANNOTATION_CREATED", made(121, task=120, choice="ok", updated_at=at(2)))
    send(studio, "ANNOTATION_UPDATED", made(120, task=120, choice="Spam!", updated_at=at(3)))
    assert votes_of(studio, 120) == {"1": "spam"}


NO_VOTES = {
    "cancelled": {"was_cancelled": True},
    "empty": {"result": []},
    "no option": {"result": [{"from_name": "kind", "type": "choices", "value": {"choices": []}}]},
    "two options": {"result": [{"from_name": "kind", "type": "choices", "value": {"choices": ["ok", "Spam!"]}}]},
    "no label": {"choice": "ham"},
}


@pytest.mark.parametrize(("number", "change"), list(enumerate(NO_VOTES.values(), 130)), ids=NO_VOTES)
def test_an_annotation_that_is_no_vote_any_more(studio, number, change):
    send(studio, "ANNOTATION_CREATED", made(number, task=number, choice="ok", updated_at=at(1)))
    assert votes_of(studio, number) == {"1": "ok"}
    answer = send(studio, "ANNOTATION_UPDATED", made(number, task=number, updated_at=at(2), **change))
    assert (answer["retracted"], len(answer["skipped"])) == (1, 1)
    assert votes_of(studio, number) == {}
    send(studio, "ANNOTATION_UPDATED", made(number, task=number, choice="ok", updated_at=at(3)))
    assert votes_of(studio, number) == {"1": "ok"}


def gold(client, task):
    return client("GET", f"tasks/{task}").json["gold"]


def test_ground_truth_is_set_and_withdrawn(studio):
    send(studio, "ANNOTATION_CREATED", made(150, task=150, choice="ok", updated_at=at(1)))
    send(studio, "ANNOTATION_UPDATED", made(150, task=150, choice="ok", updated_at=at(2), ground_truth=True))
    assert (gold(studio, 150), votes_of(studio, 150)) == ("ok", {})
    send(studio, "ANNOTATION_UPDATED", made(150, task=150, choice="Spam!", updated_at=at(3), ground_truth=True))
    assert gold(studio, 150) == "spam"
    send(studio, "ANNOTATION_UPDATED", made(150, task=150, choice="ok", updated_at=at(4), ground_truth=False))
    assert (gold(studio, 150), votes_of(studio, 150)) == (None, {"1": "ok"})


def test_ground_truth_moves_to_another_annotation(studio):
    """Label Studio withdraws it from the first without a word."""
    send(studio, "ANNOTATION_CREATED", made(160, by=1, task=160, choice="ok", updated_at=at(1), ground_truth=True))
    send(studio, "ANNOTATION_CREATED", made(161, by=2, task=160, choice="Spam!", updated_at=at(2), ground_truth=True))
    assert (gold(studio, 160), votes_of(studio, 160)) == ("spam", {"1": "ok"})
    send(studio, "ANNOTATION_UPDATED", made(161, by=2, task=160, choice="Spam!", updated_at=at(3)))
    assert (gold(studio, 160), votes_of(studio, 160)) == (None, {"1": "ok", "2": "spam"})


def test_ground_truth_is_deleted(studio):
    send(studio, "ANNOTATION_CREATED", made(165, task=165, choice="ok", ground_truth=True))
    send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": 165}])
    assert (gold(studio, 165), votes_of(studio, 165)) == (None, {})


def test_gold_set_by_hand_is_not_withdrawn(studio):
    studio("PUT", "tasks/166/gold", {"label": "ok"})
    send(studio, "ANNOTATION_CREATED", made(166, task=166, choice="ok", updated_at=at(1), ground_truth=True))
    send(studio, "ANNOTATION_UPDATED", made(166, task=166, choice="ok", updated_at=at(2), ground_truth=False))
    assert gold(studio, 166) == "ok"
    send(studio, "ANNOTATION_UPDATED", made(166, task=166, choice="Spam!", updated_at=at(3), ground_truth=True))
    assert gold(studio, 166) == "spam"
    studio("PUT", "tasks/166/gold", {"label": "ok"})
    send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": 166}])
    assert gold(studio, 166) == "ok"


def test_a_deleted_task_has_no_votes_and_no_gold(studio):
    send(studio, "ANNOTATION_CREATED", made(170, by=1, task=170, choice="ok"))
    send(studio, "ANNOTATION_CREATED", made(171, by=2, task=170))
    send(studio, "ANNOTATION_CREATED", made(172, by=3, task=170, choice="ok", ground_truth=True))
    studio.vote("170", "somebody else", "ok")
    answer = send(studio, "TASKS_DELETED", tasks=[{"id": 170}, {"id": 179}])
    assert (answer["retracted"], answer["skipped"]) == (2, ["task 179 was deleted, and has no annotation that is known"])
    assert (gold(studio, 170), votes_of(studio, 170)) == (None, {"somebody else": "ok"})
    late = send(studio, "ANNOTATION_CREATED", made(173, by=4, task=170))  # was posted before, and came after
    assert (late["accepted"], late["skipped"]) == (0, ["annotation 173 was deleted before"])
    assert send(studio, "ANNOTATION_CREATED", made(174, task=179))["accepted"] == 0


STORY = [  # everything that one annotation of a worker, and a second one, went through
    ("ANNOTATION_CREATED", {"number": 1, "choice": "ok", "updated_at": at(1)}),
    ("ANNOTATION_UPDATED", {"number": 1, "choice": "Spam!", "updated_at": at(2)}),
    ("ANNOTATION_CREATED", {"number": 2, "choice": "ok", "updated_at": at(3)}),
    ("ANNOTATION_UPDATED", {"number": 2, "was_cancelled": True, "updated_at": at(4)}),
    ("ANNOTATIONS_DELETED", {"number": 3}),
    ("ANNOTATION_CREATED", {"number": 3, "choice": "ok", "updated_at": at(5)}),
]


def test_every_order_of_deliveries_gives_the_same_votes(studio):
    for order, story in enumerate(itertools.permutations(STORY)):
        if order % 7:  # some hundred of them
            continue
        task, base = f"order-{order}", 10_000 + 10 * order
        for action, fields in (*story, story[0]):  # one of them twice
            more = dict(fields)
            number = base + more.pop("number")
            if action == "ANNOTATIONS_DELETED":
                send(studio, action, annotations=[{"id": number}])
            else:
                send(studio, action, made(number, task=task, **more))
        assert votes_of(studio, task) == {"1": "spam"}, story


def test_ground_truth_in_every_order(studio):
    claims = [
        {"number": 0, "choice": "ok", "by": 1, "updated_at": at(1), "ground_truth": True},
        {"number": 1, "choice": "Spam!", "by": 2, "updated_at": at(2), "ground_truth": True},
        {"number": 1, "choice": "Spam!", "by": 2, "updated_at": at(3)},
    ]
    for order, story in enumerate(itertools.permutations(claims)):
        task, base = f"truth-{order}", 50_000 + 10 * order
        for fields in story:
            more = dict(fields)
            send(studio, "ANNOTATION_UPDATED", made(base + more.pop("number"), task=task, **more))
        assert (gold(studio, task), votes_of(studio, task)) == (None, {"1": "ok", "2": "spam"}), story


def test_an_annotation_of_somebody_else_now(studio):
    send(studio, "ANNOTATION_CREATED", made(180, by=1, task=180, choice="ok", updated_at=at(1)))
    send(studio, "ANNOTATION_UPDATED", made(180, by=2, task=180, choice="ok", updated_at=at(2)))
    assert votes_of(studio, 180) == {"2": "ok"}


def test_annotations_made_from_predictions(studio):
    """Label Studio has a list where one annotation is otherwise."""
    several = [made(190, task=190, choice="ok"), made(191, task=191)]
    tasks = [{"id": 190, "data": {}}, {"id": 191, "data": {}}]
    assert send(studio, "ANNOTATIONS_CREATED", several, task=tasks)["accepted"] == 2
    assert (votes_of(studio, 190), votes_of(studio, 191)) == ({"1": "ok"}, {"1": "spam"})


PROJECT = {"id": 1, "title": "Spam", "task_number": 7, "ground_truth_number": 0, "parsed_label_config": {"kind": {}}}
TASK = {"id": 903, "data": {"text": "text 2"}, "meta": {}, "is_labeled": True, "overlap": 1, "project": 1, "updated_by": 1}
ANNOTATION = {
    "id": 901,
    "result": [
        {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": ["ok"]}},
        {"from_name": "tone", "to_name": "text", "type": "choices", "value": {"choices": ["calm"]}},
    ],
    "was_cancelled": False,
    "ground_truth": False,
    "created_at": "2026-11-18T02:53:41.244748Z",
    "updated_at": "2026-11-18T02:53:41.244767Z",
    "draft_created_at": None,
    "lead_time": None,
    "prediction": {"id": 3, "model_version": "model", "created_ago": "0\u00a0minutes", "score": None, "task": 903},
    "result_count": 1,
    "unique_id": "c72d260b-9290-4465-a174-c58df98c9aa1",
    "import_id": None,
    "last_action": None,
    "bulk_created": False,
    "task": 903,
    "project": 1,
    "completed_by": 2,
    "updated_by": 1,
    "parent_prediction": None,
    "parent_annotation": None,
    "last_created_by": None,
}
RECORDED = [  # as Label Studio 1.23.2 posted them, but for their numbers and most of the project: (body, votes on task 903)
    ({"action": "TASKS_CREATED", "tasks": [TASK], "project": PROJECT}, None),
    ({"action": "ANNOTATION_CREATED", "annotation": ANNOTATION, "project": PROJECT, "task": TASK}, {"2": "ok"}),
    (
        {
            "action": "ANNOTATION_UPDATED",
            "annotation": ANNOTATION | {"result": [], "result_count": 0, "updated_at": "2026-11-18T02:53:42.332112Z"},
            "project": PROJECT,
            "task": TASK,
        },
        {},
    ),
    (
        {
            "action": "ANNOTATIONS_CREATED",
            "annotation": [ANNOTATION | {"id": 902, "completed_by": 1, "updated_by": None, "parent_prediction": 1}],
            "project": PROJECT,
            "task": [TASK],
        },
        {"1": "ok"},
    ),
    ({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 901}], "project": PROJECT}, {"1": "ok"}),
    ({"action": "TASKS_DELETED", "tasks": [{"id": 903}], "project": PROJECT}, {}),
]


def test_recorded_webhooks(studio):
    for body, votes in RECORDED:
        assert studio("POST", "labelstudio?question=kind", body).status == 200
        if votes is not None:
            assert votes_of(studio, 903) == votes, body["action"]


def test_what_was_skipped_is_logged_and_counted(studio, caplog):
    studio("PUT", "/v1/campaigns/other", {"labels": ["spam", "ok"]})
    with caplog.at_level(logging.INFO, logger="adjudge.service.http.labelstudio"):
        body = posted(
            "ANNOTATIONS_CREATED", [made(1, choice="ham"), made(2, by=2, was_cancelled=True), made(3, by=3, choice="egg")]
        )
        studio("POST", "/v1/campaigns/other/labelstudio", body)
        studio("POST", "/v1/campaigns/other/labelstudio", {"action": "ANNOTATIONS_DELETED"})
    logged = [(record.reason, record.count, record.detail) for record in caplog.records]
    assert logged == [
        (
            "label",
            2,
            "annotation 1 has the choice 'ham', which is neither the id nor the name of a label; "
            "annotation 3 has the choice 'egg', which is neither the id nor the name of a label",
        ),
        ("cancelled", 1, "annotation 2 was skipped by its annotator"),
        ("nothing", 1, "ANNOTATIONS_DELETED names nothing: Label Studio posted it without a payload"),
    ]
    metrics = studio("GET", "/metrics").body.decode()
    assert 'adjudge_label_studio_skipped_total{campaign="other",reason="label"} 2' in metrics


def everything(client):
    """What every task of the story of `tell` ends up as."""
    return {task: (gold(client, task), votes_of(client, task)) for task in ("t1", "t2", "t3", "t4")}


def tell(client, *, pause):
    """Every sequence that used to part votes from Label Studio; `pause` yields a client after each webhook."""
    script = [
        ("ANNOTATION_CREATED", made(1, task="t1", choice="ok", updated_at=at(1))),
        ("ANNOTATION_UPDATED", made(1, task="t1", choice="Spam!", updated_at=at(2))),
        ("ANNOTATION_UPDATED", made(1, task="t1", choice="ok", updated_at=at(3))),
        ("ANNOTATION_CREATED", made(2, task="t2", choice="ok", updated_at=at(1))),
        ("ANNOTATION_CREATED", made(3, task="t2", choice="Spam!", updated_at=at(2))),
        ("ANNOTATION_CREATED", made(4, by=2, task="t3", choice="ok", updated_at=at(1), ground_truth=True)),
        ("ANNOTATION_CREATED", made(5, by=2, task="t4", choice="ok", updated_at=at(1))),
        ("ANNOTATIONS_DELETED", 2),
        ("ANNOTATION_UPDATED", made(4, by=2, task="t3", choice="ok", updated_at=at(2))),
        ("TASKS_DELETED", "t4"),
    ]
    for action, what in script:
        client = pause(client)
        if action == "ANNOTATIONS_DELETED":
            send(client, action, annotations=[{"id": what}])
        elif action == "TASKS_DELETED":
            send(client, action, tasks=[{"id": what}])
        else:
            send(client, action, what)
    return client


STORY_ENDS = {
    "t1": (None, {"1": "ok"}),
    "t2": (None, {"1": "spam"}),
    "t3": (None, {"2": "ok"}),
    "t4": (None, {}),
}


def test_annotations_survive_restarts(tmp_path):
    running = []

    def restart(_):
        stop()
        running.append(receiving(tmp_path))
        return running[-1].__enter__()

    def stop():
        if running:
            running.pop().__exit__(None, None, None)

    try:
        client = tell(None, pause=restart)
        assert everything(client) == STORY_ENDS
        client("DELETE", "workers/1")  # erases the name
        assert send(client, "ANNOTATIONS_DELETED", annotations=[{"id": 1}, {"id": 3}])["retracted"] == 2
        assert (votes_of(client, "t1"), votes_of(client, "t2")) == ({}, {})
    finally:
        stop()
    with closing(open_store(tmp_path / "votes.db", readonly=True)) as store:
        assert [found.problems for found in verify(store)] == [[]]
        store.backup(tmp_path / "copy.db")
    for table in ("annotation", "annotated_task"):
        rows = []
        for name in ("votes.db", "copy.db"):
            with closing(sqlite3.connect(tmp_path / name)) as connection:
                rows.append(connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall())
        assert rows[0] == rows[1] != []


def test_an_erased_worker_is_nowhere_among_annotations(tmp_path):
    with receiving(tmp_path) as client:
        send(client, "ANNOTATION_CREATED", made(1, by="bo@example.org", task="t", choice="ok", updated_at=at(1)))
        client("DELETE", "workers/bo%40example%2Eorg")
        answer = send(client, "ANNOTATION_UPDATED", made(1, by="bo@example.org", task="t", updated_at=at(2)))
        assert (answer["retracted"], answer["accepted"]) == (1, 1)  # Label Studio still knows the name, and says it again
        assert votes_of(client, "t") == {"bo@example.org": "spam"}
        client("DELETE", "workers/bo%40example%2Eorg")
    with closing(sqlite3.connect(tmp_path / "votes.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"bo@example.org" not in (tmp_path / "votes.db").read_bytes()


def test_archived_tasks_are_reached(tmp_path):
    with receiving(tmp_path) as client:
        client("PATCH", "/v1/campaigns/default", {"retention": {"tasks": 1, "waiting": 1}})
        for number in range(8):
            send(client, "ANNOTATION_CREATED", made(number + 1, task=f"t{number}", choice="ok"))
        while client("GET", "/v1/campaigns/default").json["archived"] < 5:
            pass
        send(client, "ANNOTATIONS_DELETED", annotations=[{"id": 1}])
        send(client, "ANNOTATION_UPDATED", made(2, task="t1", updated_at="2026-01-02T00:00:00Z"))
        send(client, "ANNOTATION_UPDATED", made(3, task="t2", choice="ok", updated_at="2026-01-02T00:00:00Z", ground_truth=True))
        assert (votes_of(client, "t0"), votes_of(client, "t1"), votes_of(client, "t2")) == ({}, {"1": "spam"}, {})
        assert gold(client, "t2") == "ok"
        for number in range(8, 16):
            send(client, "ANNOTATION_CREATED", made(number + 1, task=f"t{number}", choice="ok"))
        while client("GET", "/v1/campaigns/default").json["archived"] < 13:
            pass
        send(client, "ANNOTATION_UPDATED", made(3, task="t2", choice="ok", updated_at="2026-01-03T00:00:00Z"))
        assert (gold(client, "t2"), votes_of(client, "t2")) == (None, {"1": "ok"})


def test_many_deletions_take_few_queries(tmp_path, monkeypatch):
    from adjudge.service.store.sqlite import SqliteLink

    queries = []
    original = SqliteLink.rows

    def counted(self, sql, *values):
        queries.append(sql)
        return original(self, sql, *values)

    with receiving(tmp_path) as client:
        for start in range(0, 10_000, 2000):
            numbers = range(start, start + 2000)
            send(client, "ANNOTATIONS_CREATED", [made(number + 1, by=number % 50, task=number // 50) for number in numbers])
        assert client("GET", "/v1/campaigns/default").json["votes"] == 10_000
        monkeypatch.setattr(SqliteLink, "rows", counted)
        answer = send(client, "ANNOTATIONS_DELETED", annotations=[{"id": number + 1} for number in range(10_000)])
        assert answer["retracted"] == 10_000
        asked = [sql for sql in queries if "annotat" in sql]
        assert 1 <= len(asked) <= 60
        assert not [sql for sql in queries if "FROM log" in sql and "first >=" in sql]  # the log is not read
        assert client("GET", "/v1/campaigns/default").json["votes"] == 0
        answer = send(client, "ANNOTATIONS_DELETED", annotations=[{"id": number} for number in range(100_000, 110_000)])
        assert (answer["retracted"], len(answer["skipped"])) == (0, 10_000)


def test_many_annotations_leave_the_loop_free(tmp_path, monkeypatch, quiet_collector):
    """Neither 10,000 new annotations nor their deletion takes the loop's thread for long at a stretch."""
    longest, original = [0.0], asyncio.events.Handle._run

    def timed(self):
        began = time.thread_time()
        original(self)
        longest[0] = max(longest[0], time.thread_time() - began)

    async def story():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"))
        try:
            campaign, _ = await campaigns.put("default", CampaignSpec(labels=["spam", "ok"]))
            numbers = range(10_000)
            result = [{"from_name": "kind", "type": "choices", "value": {"choices": ["ok"]}}]
            bodies = [
                {"annotation": [{"id": n, "task": n // 20, "completed_by": n % 20, "result": result} for n in numbers]},
                {"annotations": [{"id": n} for n in numbers]},
            ]
            found = []
            for action, body in zip(("ANNOTATIONS_CREATED", "ANNOTATIONS_DELETED"), bodies, strict=True):
                incoming = msgspec.convert(body | {"action": action}, Incoming)
                with monkeypatch.context() as patch:
                    patch.setattr(asyncio.events.Handle, "_run", timed)
                    found.append(await take(campaign, incoming, None, lambda: None, lambda *_: None))
            assert [(answer.accepted, answer.retracted) for answer in found] == [(10_000, 0), (0, 10_000)]
        finally:
            await campaigns.close()

    asyncio.run(story())
    assert longest[0] < 0.1


def test_annotations_go_when_votes_expire(tmp_path):
    day, now = 86_400 * 1_000_000_000, [1_700_000_000_000_000_000]

    def clock():
        now[0] += 1_000_000
        return now[0]

    def incoming(number, task, second, **more):
        return msgspec.convert(
            posted("ANNOTATION_UPDATED", made(number, task=task, choice="ok", updated_at=at(second), **more)), Incoming
        )

    async def story():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"), clock=Clock(clock, clock))
        await asyncio.sleep(0)
        for task in campaigns._endless:  # nothing expires by itself
            task.cancel()
        try:
            spec = CampaignSpec(labels=["spam", "ok"], retention={"votes_days": 10})
            campaign, _ = await campaigns.put("default", spec)

            def post(body):
                return take(campaign, body, None, lambda: None, lambda *_: None)

            def left():
                rows = [row for page in campaigns.store.annotations.seen_before(campaign.number, 1 << 62) for row in page]
                tasks = [row for page in campaigns.store.annotations.tasks_seen_before(campaign.number, 1 << 62) for row in page]
                return sorted(row.annotation for row in rows), sorted(row.task for row in tasks)

            await post(incoming(1, "old", 1))
            await post(incoming(2, "touched", 1))
            await post(incoming(3, "true", 1, ground_truth=True))
            await post(incoming(4, "untrue", 1, ground_truth=True))
            await post(incoming(4, "untrue", 2))
            await post(Incoming("ANNOTATIONS_DELETED", annotations=[Made(5)]))
            now[0] += 9 * day
            await post(incoming(6, "touched", 1, completed_by=2))
            assert left() == (["1", "2", "3", "4", "5", "6"], ["true", "untrue"])
            now[0] += 2 * day
            campaigns.clock.read()
            now[0] += day // 24  # an hour after the later time was seen
            await campaign.duties.expiry.run()
            assert left() == (["2", "3", "6"], ["true"])  # votes in force and gold keep theirs
            assert (await post(Incoming("ANNOTATIONS_DELETED", annotations=[Made(2)]))).retracted == 1
        finally:
            await campaigns.close()

    asyncio.run(story())


@pytest.mark.slow
def test_a_server_that_takes_over_knows_the_annotations():
    database, hook = postgres.server().fresh(), "/v1/campaigns/default/labelstudio"
    with Served(database, "--labels", "spam,ok") as owner, Served(database) as follower:

        def post(server, action, annotation=None, **more):
            return server.ask("POST", hook, posted(action, annotation, **more))

        for number, choice in enumerate(["ok", "spam", "ok"], 1):
            body = made(number, by="ann", task=f"t{number // 3}", choice=choice, updated_at=at(number))
            assert post(owner, "ANNOTATION_CREATED", body)[1]["accepted"] == 1
        assert post(owner, "ANNOTATION_CREATED", made(4, by="bo", task="t1", choice="ok", ground_truth=True))[0] == 200
        status, answer, _ = post(follower, "ANNOTATIONS_DELETED", annotations=[{"id": 2}])
        assert (status, "is written by" in answer["detail"]) == (503, True)
        owner.kill()
        deleted = until(
            lambda: (found := post(follower, "ANNOTATIONS_DELETED", annotations=[{"id": 2}, {"id": 4}]))[0] == 200 and found[1]
        )
        assert (deleted["accepted"], deleted["retracted"], deleted["skipped"]) == (1, 0, [])
        votes = {task: follower.ask("GET", f"/v1/campaigns/default/tasks/{task}")[1] for task in ("t0", "t1")}
        assert [(vote["worker"], vote["label"]) for vote in votes["t0"]["evidence"]] == [("ann", "ok")]
        assert (votes["t1"]["gold"], len(votes["t1"]["evidence"])) == (None, 1)
    with closing(open_store(database)) as store:
        assert verify(store)[0].problems == []
        assert check(store, 1).difference is None


def test_gold_and_tasks_of_every_form(studio):
    answer = send(studio, "ANNOTATION_CREATED", made(40, task={"id": "forty"}, choice="ok", ground_truth=True))
    assert (answer["accepted"], answer["decisions"][0]["task"]) == (0, "forty")
    assert studio("GET", "tasks/forty").json["gold"] == "ok"
    send(studio, "ANNOTATION_CREATED", made(41, task=None), task={"id": 41, "data": {"text": "x"}})
    assert evidence(studio, 41) == [("1", "spam")]


def test_texts_that_are_not_looked_at_may_be_anything(studio):
    answer = send(studio, "ANNOTATION_CREATED", made(42, task=42), task={"id": 42, "data": {"text": "nul \0"}})
    assert answer["accepted"] == 1


def test_what_is_no_vote_is_said(studio):
    assert send(studio, "TASKS_CREATED", tasks=[])["skipped"] == ["the action TASKS_CREATED says nothing about votes"]
    assert send(studio, "ANNOTATION_CREATED", made(50, was_cancelled=True))["skipped"] == [
        "annotation 50 was skipped by its annotator"
    ]
    assert send(studio, "ANNOTATION_CREATED", made(51, result=[]))["skipped"] == ["annotation 51 has no choice"]
    boxes = made(52)
    boxes["result"][0]["value"]["choices"] = ["ok", "Spam!"]
    assert "several choices" in send(studio, "ANNOTATION_CREATED", boxes)["skipped"][0]


def test_a_question_is_chosen(studio):
    two = made(60, task=60)
    two["result"].append({"from_name": "tone", "type": "choices", "value": {"choices": ["loud"]}})
    answer = studio("POST", "labelstudio", posted("ANNOTATION_CREATED", two))
    assert (answer.status, "kind, tone" in answer.json["detail"]) == (422, True)
    assert send(studio, "ANNOTATION_CREATED", two, query="?question=kind")["accepted"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": 3},
        posted("ANNOTATION_CREATED", made(None)),
        posted("ANNOTATION_CREATED", made(70, updated_at="yesterday")),
        posted("TASKS_DELETED", tasks=[{"id": ""}]),
        posted("ANNOTATION_CREATED", made(70, by=None)),
        posted("ANNOTATION_CREATED", made(70, task=None)),
        posted("ANNOTATION_CREATED", made(70, by="x" * 300)),
        posted("ANNOTATION_CREATED", made(70, by="a\0b")),
        posted("ANNOTATIONS_DELETED", annotations=[{}]),
        posted("ANNOTATION_CREATED", {"result": 7}),
    ],
)
def test_what_cannot_be_taken(studio, body):
    assert studio("POST", "labelstudio", body).status == 422


def test_gold_takes_a_token_that_may_moderate(tmp_path):
    with serving(tmp_path, given=[("voter", "vote", None), ("studio", "vote,moderate", None)]) as client:
        voter, studio = (Client(client.address, client.tokens[name]) for name in ("voter", "studio"))
        true = posted("ANNOTATION_CREATED", made(1, choice="ok", ground_truth=True))
        several = posted("ANNOTATIONS_CREATED", annotations=[made(2, choice="ok"), made(3, by=2, choice="ok", ground_truth=True)])
        assert [voter("POST", "labelstudio", body).status for body in (true, several)] == [403, 403]
        assert studio("GET", "tasks/7").status == 404  # nothing was taken
        assert voter("POST", "labelstudio", posted("ANNOTATION_CREATED", made(2, choice="ok"))).json["accepted"] == 1
        assert studio("POST", "labelstudio", true).json["decisions"][0]["reason"] == "gold"


def test_nothing_is_taken_where_one_annotation_is_wrong(studio):
    body = posted("ANNOTATIONS_CREATED", annotations=[made(80, task=80, choice="ok", ground_truth=True), made(81, by=None)])
    assert studio("POST", "labelstudio", body).status == 422
    assert studio("GET", "tasks/80").status == 404
