"""Webhooks of Label Studio, as it sends them."""

import pytest

from quorate.service.labelstudio import PREFIX, Votes
from service.serving import Client, serving


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("studio")) as client:
        client("PATCH", "/v1/campaigns/default", {"names": {"spam": "Spam!"}})
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


def test_made_changed_and_deleted(studio):
    first = send(studio, "ANNOTATION_CREATED", made(1, by=1))
    assert (first["accepted"], first["decisions"][0]["task"], first["decisions"][0]["label"]) == (1, "7", "spam")
    assert send(studio, "ANNOTATION_CREATED", made(1, by=1))["repeated"] == 1  # Label Studio sends again what was not answered
    send(studio, "ANNOTATION_CREATED", made(2, by={"id": 5, "email": "bo@example.org"}, choice="ok"))
    assert evidence(studio, 7) == [("1", "spam"), ("bo@example.org", "ok")]
    changed = send(studio, "ANNOTATION_UPDATED", made(1, by=1, choice="ok", updated_at="2026-01-02T00:00:00Z"))
    assert changed["accepted"] == 1
    assert dict(evidence(studio, 7))["1"] == "ok"
    deleted = send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": 1}, {"id": 99}])
    assert (deleted["retracted"], deleted["skipped"]) == (1, ["no vote came from a deleted annotation"])
    assert evidence(studio, 7) == [("bo@example.org", "ok")]


def test_a_deletion_finds_the_vote_in_the_log(studio):
    send(studio, "ANNOTATION_CREATED", made(31, by="late", task=31))
    studio.vote("31", "other", "ok", id=f"{PREFIX}310:x")  # another annotation whose number begins alike
    votes = studio("GET", "votes").json["votes"]
    assert f"{PREFIX}31:2026-01-01T00:00:00Z" in [vote["id"] for vote in votes]
    Votes.__init__.__globals__["REMEMBERED"], before = 0, Votes.__init__.__globals__["REMEMBERED"]
    try:
        send(studio, "ANNOTATION_CREATED", made(32, by="x", task=32))  # pushes everything out of memory
        assert send(studio, "ANNOTATIONS_DELETED", annotations=[{"id": 31}])["retracted"] == 1
    finally:
        Votes.__init__.__globals__["REMEMBERED"] = before
    assert evidence(studio, 31) == [("other", "ok")]


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
        "the annotation was skipped by its annotator"
    ]
    assert send(studio, "ANNOTATION_CREATED", made(51, result=[]))["skipped"] == ["the annotation has no choice"]
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
        posted("ANNOTATION_CREATED", made(70, choice="ham")),
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
    body = posted("ANNOTATIONS_CREATED", annotations=[made(80, task=80, choice="ok", ground_truth=True), made(81, choice="ham")])
    assert studio("POST", "labelstudio", body).status == 422
    assert studio("GET", "tasks/80").status == 404
