"""Rates, requests under way, and a writer that cannot keep up."""

import asyncio

import pytest

from adjudge.service.http import limits
from adjudge.service.http.errors import TooLarge, TooMany, TooSlow, Unavailable
from adjudge.service.http.limits import Bucket, Gate
from service.serving import BASE, Client, serving


def test_a_token_has_a_rate(tmp_path):
    with serving(tmp_path, given=[("one", "admin", None), ("two", "admin", None)], rate=0.01) as client:
        one, two = (Client(client.address, client.tokens[name]) for name in ("one", "two"))
        assert one("GET", BASE).status == 200  # a full bucket, less than one request, on credit
        assert [one("GET", BASE).status, one("POST", "votes", b"").status, one("GET", "/healthz").status] == [429, 429, 200]
        assert two("GET", BASE).status == 200


def test_votes_of_a_batch_count_one_by_one(tmp_path):
    with serving(tmp_path, given=[("one", "admin", None)], rate=10) as client:
        one = Client(client.address, client.tokens["one"])
        votes = [{"task": str(n), "worker": "w", "label": "spam"} for n in range(30)]
        assert one("POST", "votes", votes).status == 200  # more than the bucket holds: on credit
        answer = one("POST", "votes", votes[:1])
        assert (answer.status, answer.json["error"]) == (429, "too-many")
        assert int(answer.headers["Retry-After"]) >= 1


def test_a_bucket_fills_again():
    bucket = Bucket(rate=2, burst=4)
    assert bucket.wait(4, now=0) == 0
    assert bucket.wait(1, now=0) == pytest.approx(0.5)
    assert bucket.wait(1, now=0.5) == 0
    assert bucket.wait(100, now=100) == 0  # on credit
    assert bucket.wait(1, now=101) > 40
    slow = Bucket(rate=0.001, burst=1)
    slow.take(1)
    with pytest.raises(TooMany, match="more than 0.001 requests or votes per second"):
        slow.take(1)
    assert Bucket(None).wait(10**9) == 0


def test_a_gate_has_room_for_so_many():
    gate = Gate(1, "requests")
    with gate:
        with pytest.raises(Unavailable, match="1 requests are under way") as raised, gate:
            pass
        assert raised.value.retry_after == 1
    with gate:
        assert gate.now == 1
    assert gate.now == 0


def test_more_requests_than_there_is_room_for(server, monkeypatch):
    monkeypatch.setattr(Gate, "most", 0)
    for answer in (server("GET", BASE), server("POST", "votes", {"task": "t", "worker": "w", "label": "ok"})):
        assert (answer.status, answer.headers["Retry-After"], answer.json["error"]) == (503, "1", "unavailable")
    assert server("GET", "/nowhere").status == 404


def test_a_writer_that_cannot_keep_up(server, monkeypatch):
    from adjudge.service.http import campaigns

    monkeypatch.setattr(campaigns, "MOST_WAITING", 0)
    answer = server("POST", "votes", {"task": "t", "worker": "w", "label": "ok"})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert server("GET", "/readyz").status == 503
    assert "too many" in server("GET", "/readyz").json["reasons"][0]


def receiving(*messages):
    left = list(messages)

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return left.pop(0)

    return receive


def test_bodies_in_pieces(monkeypatch):
    def part(body, more):
        return {"type": "http.request", "body": body, "more_body": more}

    assert asyncio.run(limits.read_body(receiving(part(b"a", True), part(b"b", False)), None)) == b"ab"
    monkeypatch.setattr(limits, "MAX_BODY", 10)
    with pytest.raises(TooLarge):
        asyncio.run(limits.read_body(receiving(part(b"a" * 9, True), part(b"b" * 9, False)), None))
    with pytest.raises(TooLarge):
        asyncio.run(limits.read_body(receiving(), b"11"))
    with pytest.raises(limits.Disconnected):
        asyncio.run(limits.read_body(receiving({"type": "http.disconnect"}), None))
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.01)
    with pytest.raises(TooSlow):
        asyncio.run(limits.read_body(receiving(part(b"a", True)), None))
