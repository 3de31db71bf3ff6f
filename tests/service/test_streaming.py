"""Streams of votes: a line for a line, in order, while more is coming."""

import asyncio
import json
import math
import threading
import time

import pytest

from adjudge.service.http import limits, streaming
from adjudge.service.http.errors import Conflict, Unavailable
from adjudge.service.http.limits import MAX_LINE_BYTES, Bucket
from adjudge.service.http.streaming import VoteStream
from adjudge.service.http.tokens import FULL_GRANT, Authority, Permit, TokenIndex
from adjudge.service.http.types import Label, VoteAnswer
from service.serving import BASE, serving
from service.test_feed import decided


def line(task, worker="w", label="spam", **more):
    return json.dumps({"task": task, "worker": worker, "label": label, **more}).encode()


def streamed(client, body):
    answer = client("POST", "votes:stream", body)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(each) for each in answer.body.splitlines()]


def test_every_line_is_answered_in_order(server):
    body = b"\n".join(line(f"stream {n % 700}", f"w{n}") for n in range(3000))
    found = streamed(server, body)
    assert [each["task"] for each in found] == [f"stream {n % 700}" for n in range(3000)]
    assert server("GET", "tasks/stream%200").json["decision"]["votes"] == found[2800]["votes"] == 5
    assert streamed(server, b"") == streamed(server, b"\n\n") == []


def test_bad_lines_are_told_and_the_stream_goes_on(server):
    lines = [
        line("good 1"),
        b"nonsense",
        b"",
        line("good 2", label="ham"),
        line("\xff").replace(b"\\u00ff", b"\xff"),
        line("nul\0"),
        b"[" * 30_000,
        line("good 3"),
        line("x" * 300),
        line("good 4", id="stream-4"),
        line("good 5", id="stream-4"),
        line("good 6"),
    ]
    found = streamed(server, b"\r\n".join(lines))
    assert [each.get("task") or (each["line"], each["error"]) for each in found] == [
        "good 1",
        (2, "malformed"),
        (4, "invalid"),
        (5, "malformed"),
        (6, "invalid"),
        (7, "invalid"),
        "good 3",
        (9, "invalid"),
        "good 4",
        (11, "conflict"),
        "good 6",
    ]
    assert "'ham' is unknown" in found[2]["detail"]


def test_lines_are_answered_while_more_is_coming(server):
    connection = server.connection()
    connection.putrequest("POST", f"{BASE}/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    response = None
    for n in range(5):
        body = line(f"duplex {n}") + b"\n" + line("cut")[:7]  # half a line waits for its other half
        body = body if n == 0 else line("cut")[7:] + b"\n" + body
        connection.send(b"%x\r\n%b\r\n" % (len(body), body))
        if response is None:
            response = connection.response_class(connection.sock, method="POST")
            response.begin()
        else:
            assert json.loads(response.readline())["task"] == "cut"
        assert json.loads(response.readline())["task"] == f"duplex {n}"
    connection.send(b"0\r\n\r\n")
    assert json.loads(response.readline())["error"] == "malformed"  # what was left of a line
    assert response.read() == b""
    response.close()
    connection.close()


def test_a_line_without_end(server):
    found, _ = through(Campaign(), [line("before") + b"\n" + b" " * (MAX_LINE_BYTES + 1), b"x", line("after")])
    assert [each.get("task") or (each["line"], each["error"]) for each in found] == ["before", (2, "too-large")]
    connection = server.connection()
    connection.putrequest("POST", f"{BASE}/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    connection.send(b"%x\r\n%b\r\n" % (MAX_LINE_BYTES + 1, b"x" * (MAX_LINE_BYTES + 1)))
    response = connection.getresponse()
    assert json.loads(response.read()) == {
        "error": "too-large",
        "line": 1,
        "detail": f"a line is longer than {MAX_LINE_BYTES} bytes: the stream ends here",
    }
    connection.close()


def test_a_server_that_stops_says_from_where_on_to_send_again(tmp_path):
    with serving(tmp_path) as client:
        connection = client.connection()
        connection.putrequest("POST", f"{BASE}/votes:stream")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        body = line("one") + b"\n" + line("two") + b"\n"
        connection.send(b"%x\r\n%b\r\n" % (len(body), body))
        response = connection.getresponse()
        assert [json.loads(response.readline())["task"] for _ in range(2)] == ["one", "two"]
    last = json.loads(response.readline())
    assert (last["error"], last["line"]) == ("unavailable", 3)
    assert response.read() == b""
    connection.close()


@pytest.fixture
def loud(server):
    """A campaign whose ids are long, so that answers are large."""
    server("PUT", "/v1/campaigns/loud", {"labels": ["spam", "ok"]})
    return "/v1/campaigns/loud/votes:stream"


LINES = 60_000


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_client_that_sends_everything_before_it_reads(server, loud, monkeypatch, is_kept):
    """http.client does so, and requests: both sides waited for each other for ever."""
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", 10**9 if is_kept else 500_000)
    monkeypatch.setattr(limits, "UNREAD_SECONDS", 0.5)
    tasks = [f"{is_kept} {n:0>200}" for n in range(LINES)]  # long, so that no socket holds the request
    votes = [line(task) for task in tasks]
    first, answered, refusals = 0, [], 0
    while first < LINES:
        answer = server("POST", loud, b"\n".join(votes[first:]))
        assert answer.status == 200
        found = [json.loads(each) for each in answer.body.splitlines()]
        if "error" in found[-1]:
            last = found.pop()
            refusals += 1
            assert (last["error"], last["line"]) == ("unavailable", len(found) + 1)
            assert "read them, and resend from this line on" in last["detail"]
        answered += found
        first += len(found)
        monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", 10**9)
    assert refusals == (0 if is_kept else 1)
    assert [each["task"] for each in answered] == tasks
    assert {each["votes"] for each in answered} == {1}  # none was taken twice
    assert server("GET", "/healthz").status == 200


def test_a_client_that_reads_slowly_gets_every_answer(server, loud, monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", 100_000)
    connection = server.connection()
    connection.putrequest("POST", loud)
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    body = b"".join(line(f"slowly {n}") + b"\n" for n in range(60_000))

    def send():
        for start in range(0, len(body), 100_000):
            piece = body[start : start + 100_000]
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.send(b"0\r\n\r\n")

    sender = threading.Thread(target=send)
    sender.start()
    response = connection.response_class(connection.sock, method="POST")
    response.begin()
    found = b""
    while piece := response.read(400_000):
        found += piece
        time.sleep(0.02)
    sender.join()
    assert [json.loads(each)["task"] for each in found.splitlines()] == [f"slowly {n}" for n in range(60_000)]
    connection.close()


def test_unread_answers_of_all_streams_are_limited_together(server, loud, monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES_IN_ALL", -1)
    monkeypatch.setattr(limits, "UNREAD_SECONDS", 0.1)
    found = streamed(server, line("one too many"))
    assert [(each["error"], each["line"]) for each in found] == [("unavailable", 1)]


@pytest.mark.parametrize("sent", [b"", b"x"])  # half a line does not count
def test_a_stream_without_lines_ends(server, monkeypatch, sent):
    monkeypatch.setattr(limits, "STREAM_IDLE_SECONDS", 0.4)
    connection = server.connection()
    connection.putrequest("POST", f"{BASE}/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    first = line("before idling") + b"\n"
    connection.send(b"%x\r\n%b\r\n" % (len(first), first))
    response = connection.getresponse()
    assert json.loads(response.readline())["task"] == "before idling"
    for _ in range(3):
        if sent:
            connection.send(b"%x\r\n%b\r\n" % (len(sent), sent))
        time.sleep(0.1)
    last = json.loads(response.readline())
    assert (last["error"], last["line"]) == ("unavailable", 2)
    assert "no line for 0.4 seconds" in last["detail"]
    assert response.read() == b""
    connection.close()


def test_empty_lines_keep_a_stream_open(server, monkeypatch):
    monkeypatch.setattr(limits, "STREAM_IDLE_SECONDS", 0.5)
    connection = server.connection()
    connection.putrequest("POST", f"{BASE}/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    for _ in range(10):
        connection.send(b"1\r\n\n\r\n")
        time.sleep(0.1)
    last = line("after silence") + b"\n"
    connection.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
    response = connection.getresponse()
    assert json.loads(response.read())["task"] == "after silence"
    connection.close()


class Campaign:
    """Takes votes as a test says; it is slow, as a disk may be."""

    labels = (Label("spam", "spam"),)
    lease, follows, current = None, "another process", math.inf  # nothing to prove

    def __init__(self, refuse=lambda _: None, seconds=0.0):
        self.refuse, self.seconds = refuse, seconds
        self.taken = []
        self.under_way = self.most = 0

    async def fold_votes(self, votes):
        for vote in votes:
            if error := self.refuse(vote):
                raise error
            await asyncio.sleep(0)  # as a group that is folded in slices
        self.taken += [vote.task for vote in votes]
        return VoteAnswer(len(votes), 0, [decided(1, task) for task in {vote.task for vote in votes}])

    async def votes_on_disk(self, votes):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1


def through(campaign, chunks, bucket=None, gone=False):
    """Send chunks through a stream; return what came out, and how many chunks were read."""
    left = list(chunks)
    sent = []

    async def receive():
        await asyncio.sleep(0)
        if not left and gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or gone}

    async def send(message):
        sent.append(message.get("body", b""))

    async def main():
        permit = Permit(Authority(TokenIndex(), None), FULL_GRANT, "vote", "default")
        stream = VoteStream(campaign, bucket or Bucket(None), asyncio.Event(), permit)
        await asyncio.wait_for(stream({}, receive, send), 20)

    asyncio.run(main())
    return [json.loads(each) for each in b"".join(sent).splitlines()], len(chunks) - len(left)


def test_groups_wait_for_the_disk_together_and_not_without_bound():
    campaign = Campaign(seconds=0.002)
    found, _ = through(campaign, [line(f"t{n}") + b"\n" for n in range(100)])
    assert [each["task"] for each in found] == [f"t{n}" for n in range(100)]
    assert 2 < campaign.most <= streaming.MAX_PENDING_GROUPS + 2


def test_votes_stay_in_order_around_a_conflict():
    campaign = Campaign(lambda vote: Conflict("twice") if vote.task == "bad" else None, seconds=0.001)
    chunks = [b"".join(line(task) + b"\n" for task in ("a", "bad", "b")), b"".join(line(task) + b"\n" for task in ("c", "d"))]
    found, _ = through(campaign, chunks)
    assert [each.get("task") or each["error"] for each in found] == ["a", "conflict", "b", "c", "d"]
    assert campaign.taken == ["a", "b", "c", "d"]


def test_a_store_that_cannot_be_written_ends_the_stream():
    campaign = Campaign(lambda vote: Unavailable("full", retry_after=1) if vote.task == "t5" else None)
    found, read = through(campaign, [line(f"t{n}") + b"\n" for n in range(1000)])
    assert [each.get("task") or (each["error"], each["line"]) for each in found] == [
        *(f"t{n}" for n in range(5)),
        ("unavailable", 6),
    ]
    assert read < 100


def test_a_rate_slows_a_stream_down():
    bucket = Bucket(1000, burst=1)
    found, _ = through(Campaign(), [line(f"t{n}") + b"\n" for n in range(5)], bucket)
    assert len(found) == 5
    assert bucket.level < 1


def test_a_client_that_goes_away_leaves_whole_lines():
    campaign = Campaign()
    through(campaign, [line("a") + b"\n" + line("b")[:5]], gone=True)
    assert campaign.taken == ["a"]


def test_empty_lines_count_however_they_come():
    for chunks in ([b"\n", b"x\n"], [b"\nx\n"], [b"\n", b"x"], [b"\nx"]):
        assert through(Campaign(), [*chunks, b""])[0][0]["line"] == 2


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 2500])
def test_groups_of_every_size(size):
    found, _ = through(Campaign(), [b"\n".join(line(str(n)) for n in range(size))])
    assert [each["task"] for each in found] == [str(n) for n in range(size)]
