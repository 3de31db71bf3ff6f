"""Faulty requests get 4xx with a reason, and change nothing."""

import http.client
import json

import pytest

from adjudge.service.http.errors import PROBLEMS
from adjudge.service.http.limits import MAX_BODY
from service.serving import BASE

VOTE = {"task": "t", "worker": "w", "label": "spam"}


def position(server):
    return server("GET", BASE).json["position"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "truncated"),
        (b"nonsense", 400, "not JSON"),
        (b"{", 400, "truncated"),
        (b'{"task": "\xff", "worker": "w", "label": "spam"}', 400, "UTF-8"),
        (b'{"task": "\\ud800", "worker": "w", "label": "spam"}', 400, "surrogate"),
        (b"[" * 100_000, 422, "expected `object`, got `array`"),
        (b'{"task":' * 100_000, 422, "expected `str`, got `object`"),
        (b"null", 422, "expected `object | array`, got `null`"),
        (b'"text"', 422, "got `str`"),
        (b"1e999", 422, "out of range"),
        (b"[1]", 422, "$[0]"),
        ({"task": 7, "worker": "w", "label": "spam"}, 422, "expected `str`, got `int` - at `$.task`"),
        ({"task": 10**400, "worker": "w", "label": "spam"}, 422, "task"),
        ({"task": "t", "worker": "w"}, 422, "missing required field `label`"),
        ({**VOTE, "lable": "x"}, 422, "unknown field `lable`"),
        ({**VOTE, "x\u001b[31m": 1}, 422, "unknown field"),
        ({**VOTE, "y" * 100_000: 1}, 422, "unknown field"),
        ({**VOTE, "task": ""}, 422, "length >= 1"),
        ({**VOTE, "task": "x" * 257}, 422, "length <= 256"),
        ({**VOTE, "worker": "a\0b"}, 422, "NUL"),
        ({**VOTE, "id": ""}, 422, "length >= 1"),
        ({**VOTE, "label": "ham"}, 422, "'ham' is unknown: the labels are spam, ok"),
        ([VOTE, {**VOTE, "label": "ham"}], 422, "vote 1"),
        ([VOTE] * 10_001, 422, "length <= 10000"),
    ],
)
@pytest.mark.parametrize("path", [f"{BASE}/votes", "/v1/campaigns/%64efault/votes"], ids=["short way", "long way"])
def test_votes_that_cannot_be_taken(server, path, body, status, says):
    before = position(server)
    answer = server("POST", path, body)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
    told = answer.json
    assert set(told) == {"error", "detail", "request"}
    assert told["request"] == answer.headers["X-Request-Id"]
    assert told["error"] in {problem.code for problem in PROBLEMS}
    assert says in told["detail"]
    assert len(told["detail"]) < 400
    assert "\x1b" not in told["detail"]
    assert position(server) == before


def test_a_backslash_before_u0000_is_text(server):
    assert (
        server("POST", "votes", rb'{"task": "\\u0000", "worker": "w", "label": "spam"}').json["decisions"][0]["task"] == "\\u0000"
    )


def test_bodies_too_large_are_refused_before_they_are_read(server):
    head = f"POST {BASE}/votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n".encode()
    assert server.raw(head, until=b"request").startswith(b"HTTP/1.1 413 ")
    chunk = b"%x\r\n%b\r\n" % (1_000_000, b" " * 1_000_000)
    for path in ("votes", "bans"):
        whole = f"POST {BASE}/{path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk * 9
        assert server.raw(whole, until=b"request").startswith(b"HTTP/1.1 413 ")
    assert server("POST", "votes", b" " * MAX_BODY).status == 400  # the largest that is read


@pytest.mark.parametrize(
    "text",
    [
        "limit=0",
        "limit=10001",
        "limit=x",
        "limit=",
        "limit=1&limit=2",
        "limt=1",
        "after=-1",
        "after=1.5",
        "after=9999999999999999999999",
        "%FF=1",
        "limit=%FF",
        "after=%00",
    ],
)
def test_queries_that_cannot_be_read(server, text):
    answer = server("GET", f"votes?{text}")
    assert answer.status in (400, 422)
    assert answer.json["detail"]


def test_queries_where_there_are_none(server):
    assert server("GET", f"{BASE}?x=1").status == 422
    assert server("GET", "tasks?after=nonsense").status == 422
    assert server("GET", "tasks?sort=colour").status == 422
    assert server("GET", "next").status == 422


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"labels": []},
        {"labels": ["a"]},
        {"labels": ["a", "a"]},
        {"labels": "ab"},
        {"labels": ["a", 1]},
        {"labels": ["a", {"id": "b"}]},
        {"labels": ["a", "b"], "model": "best"},
        {"labels": ["a", "b"], "policy": {"minimum": 3}},
        {"labels": ["a", "b"], "policy": {"minimum_votes": -3}},
        {"labels": ["a", "b"], "refit": {"when": 3}},
        {"labels": ["a", "b"], "retention": {"tasks": 0}},
        {"labels": ["a", "b"], "settings": {"colour": "red"}},
    ],
)
def test_campaigns_that_cannot_be_made(server, spec):
    answer = server("PUT", "/v1/campaigns/never", spec)
    assert (answer.status, answer.json["error"]) == (422, "invalid")
    assert server("GET", "/v1/campaigns/never").status == 404


def test_nested_documents_are_refused(server):
    deep = b'{"policy": {"escalate": ' + b'{"x":' * 100_000 + b"1" + b"}" * 100_000 + b"}}"
    answer = server("PUT", "policy", deep)
    assert (answer.status, answer.json["detail"]) == (400, "the body is nested too deeply")


def test_a_body_may_be_left_out_where_all_of_it_is_optional(server):
    assert server("POST", "breaker/reset").status == 200
    assert server("POST", "breaker/reset", b"[]").status == 422


@pytest.mark.parametrize("request_id", ["short-1.a_b", "x" * 64])
def test_request_ids_are_taken_over(server, request_id):
    assert server("GET", "/healthz", headers={"X-Request-Id": request_id}).headers["X-Request-Id"] == request_id
    assert server("POST", "votes", b"", {"X-Request-Id": request_id}).headers["X-Request-Id"] == request_id


@pytest.mark.parametrize("request_id", ["x" * 65, "a b", "", "a;b", "é"])
def test_request_ids_that_are_not_plain_are_replaced(server, request_id):
    for method, path in (("GET", "/healthz"), ("POST", "votes")):
        got = server(method, path, b"" if method == "POST" else None, {"X-Request-Id": request_id}).headers["X-Request-Id"]
        assert got != request_id
        assert got.replace("-", "").isalnum()


def test_errors_that_nobody_expected_tell_nothing(server, monkeypatch):
    from adjudge.service.http.campaign import Campaign

    def broken(*_):
        raise RuntimeError("a secret path")

    monkeypatch.setattr(Campaign, "_take_one", broken)
    monkeypatch.setattr(Campaign, "_codes", broken)
    monkeypatch.setattr(Campaign, "view", broken)
    with pytest.raises(http.client.IncompleteRead):  # an answer that has begun is cut off, and not ended
        server("POST", "votes:stream", json.dumps(VOTE).encode())
    for answer in (server("POST", "votes", VOTE), server("GET", BASE)):
        assert (answer.status, answer.json["error"]) == (500, "internal")
        assert "secret" not in json.dumps(answer.json)
