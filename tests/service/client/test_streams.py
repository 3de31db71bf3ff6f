"""Votes as lines and decisions as events: after any failure each vote has one answer, and each decision arrives once."""

import json
import random
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge
from adjudge.service.campaigns.decision import Decision
from adjudge.service.client import errors, streams, transport
from adjudge.service.client.streams import EventCursor, Refusal, VoteLines
from adjudge.service.http.types import StreamError
from flaky_service import DROP, answer, chunks, flaky, problem

pytestmark = pytest.mark.usefixtures("no_pauses")
VOTES = [(f"t{n}", "ann", "spam") for n in range(10)]


def decided(task, position=1):
    return Decision(task, "spam", 0.9, "open", 1, 1, datetime(2026, 1, 1, tzinfo=UTC), position, "minimum_votes")


def line(task, position=1):
    return msgspec.json.encode(decided(task, position)) + b"\n"


def head(kind="application/x-ndjson"):
    return answer(body=b"", length=False, headers=[("Content-Type", kind)])[0]


def voting(number, then=b""):
    """Answers so many votes, each when it has come; then says something, and closes the connection."""

    def serve(seen, stream, there):
        there.sendall(head())
        left, rest = number, b""
        for piece in chunks(stream):
            seen.body += piece
            *whole, rest = (rest + piece).split(b"\n")
            for one in whole[:left]:
                there.sendall(line(json.loads(one)["task"]))
            left -= min(left, len(whole))
            if not left:
                break
        there.sendall(then)

    return serve


def reading_first(seen, stream, there):
    """Answer as a proxy does that reads the whole request before it passes it on."""
    seen.body = b"".join(chunks(stream))
    there.sendall(head() + b"".join(line(json.loads(one)["task"]) for one in seen.body.splitlines()))


def sent(service):
    return [[json.loads(one) for one in request.body.splitlines()] for request in service.seen]


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1000])
def test_every_vote_is_answered_in_order(client, window):
    with flaky(voting(len(VOTES))) as service:
        found = client(service.url).stream(VOTES, window=window)
    assert [one.task for one in found] == [task for task, _, _ in VOTES]
    (votes,) = sent(service)
    assert [vote["task"] for vote in votes] == [task for task, _, _ in VOTES]
    assert len({vote["id"] for vote in votes}) == len(VOTES)


def test_items_travel_with_their_votes(client):
    votes = [{"task": "t1", "worker": "ann", "label": "spam", "data": {"text": "Buy"}}, ("t2", "ann", "spam", "own", 7)]
    with flaky(voting(len(votes))) as service:
        client(service.url).stream(votes)
    ((first, second),) = sent(service)
    assert (first["data"], second["data"], second["id"]) == ({"text": "Buy"}, 7, "own")
    assert first["id"]


@pytest.mark.parametrize("window", [1, 4, 1000])
def test_behind_a_proxy_that_reads_first_every_group_is_a_request(client, window, monkeypatch):
    monkeypatch.setattr(transport, "FIRST_ANSWER_S", 0.05)
    with flaky(*[reading_first] * len(VOTES)) as service:
        found = client(service.url).stream(VOTES, window=window)
    assert [one.task for one in found] == [task for task, _, _ in VOTES]
    groups = [[vote["task"] for vote in votes] for votes in sent(service)]
    assert [task for group in groups for task in group] == [one.task for one in found]
    assert len(groups) == {1: 10, 4: 5, 1000: 1}[window]


def test_behind_such_a_proxy_a_lost_request_is_sent_again(client, monkeypatch):
    monkeypatch.setattr(transport, "FIRST_ANSWER_S", 0.05)
    with flaky(reading_first, DROP, problem(503, "unavailable"), *[reading_first] * 3) as service:
        found = client(service.url).stream(VOTES, window=4)
    assert [one.task for one in found] == [task for task, _, _ in VOTES]


@pytest.mark.parametrize("single", [1, 2])
def test_a_service_that_was_slow_once_gets_a_stream_again(client, monkeypatch, single):
    monkeypatch.setattr(transport, "FIRST_ANSWER_S", 0.05)
    monkeypatch.setattr(streams, "FIRST_SINGLE_GROUPS", single)
    with flaky(*[reading_first] * (1 + single), voting(9 - single)) as service:
        found = client(service.url).stream(VOTES, window=1)
    assert [one.task for one in found] == [task for task, _, _ in VOTES]
    assert [len(votes) for votes in sent(service)] == [1] * (1 + single) + [9 - single]


def test_a_proxy_that_reads_first_is_tried_less_and_less(client, monkeypatch):
    monkeypatch.setattr(transport, "FIRST_ANSWER_S", 0.05)
    monkeypatch.setattr(streams, "FIRST_SINGLE_GROUPS", 2)
    monkeypatch.setattr(streams, "SINGLE_GROUPS_GROWTH", 3)
    ends, write = [], transport.Exchange.write

    async def note(exchange, piece, *, end):
        ends.append(end)
        await write(exchange, piece, end=end)

    monkeypatch.setattr(transport.Exchange, "write", note)
    with flaky(*[reading_first] * len(VOTES)) as service:
        client(service.url).stream(VOTES, window=1)
    assert ends == [False, True, True, False, True, True, True, True, True, True]


def test_no_votes_are_no_request(client):
    with flaky() as service:
        assert client(service.url).stream([]) == []
    assert service.seen == []


def test_with_a_window_of_one_a_vote_waits_for_the_decision_before_it(client):
    if not isinstance(client("http://127.0.0.1:1").client, adjudge.Client):
        pytest.skip("the order of awaited calls is that of the others")
    happened = []

    def votes():
        for task, worker, label in VOTES[:3]:
            happened.append(f"vote {task}")
            yield task, worker, label

    with flaky(voting(3)) as service, adjudge.Client(service.url) as ours:
        for decision in ours.stream(votes(), window=1):
            happened.append(f"decision {decision.task}")
    assert happened == [f"{what} t{n}" for n in range(3) for what in ("vote", "decision")]


STOPS = msgspec.json.encode(StreamError("unavailable", 4, "the server stops")) + b"\n"


@pytest.mark.parametrize("then", [b"", line("t3")[:20], STOPS])
@pytest.mark.parametrize("window", [1, 4, 1000])
def test_votes_without_an_answer_are_sent_again_and_no_others(client, then, window):
    with flaky(voting(3, then), DROP, voting(2), voting(5)) as service:
        found = client(service.url).stream(VOTES, window=window)
    assert [one.task for one in found] == [task for task, _, _ in VOTES]
    first, _, third, fourth = sent(service)
    assert [third[0]["task"], fourth[0]["task"]] == ["t3", "t5"]
    ids = {vote["task"]: vote["id"] for vote in first}
    assert all(vote["id"] == ids[vote["task"]] for vote in [*third, *fourth] if vote["task"] in ids)


def test_it_ends_when_no_vote_comes_through_any_more(client):
    with flaky(voting(3), *[DROP] * 9) as service, pytest.raises(errors.ConnectionFailed):
        client(service.url, retries=2).stream(VOTES)
    assert len(service.seen) == 3


def refusing(seen, stream, there):
    there.sendall(head())
    for _ in chunks(stream):
        break
    there.sendall(line("t0") + msgspec.json.encode(StreamError("invalid", 2, "label 'spam' is unknown")) + b"\n" + line("t2"))


def test_a_vote_that_is_refused_raises_or_is_handed_over(client):
    with flaky(refusing) as service, pytest.raises(errors.Invalid, match="task 't1', worker 'ann': label 'spam' is unknown"):
        client(service.url).stream(VOTES[:3])
    refused = []
    with flaky(refusing) as service:
        found = client(service.url).stream(VOTES[:3], refused=lambda vote, error: refused.append((vote.task, error.status)))
    assert [one.task for one in found] == ["t0", "t2"]
    assert refused == [("t1", 422)]


def test_a_stream_that_is_refused_says_why(client):
    with flaky(problem(401, "unauthorized", close=True)) as service, pytest.raises(errors.Unauthorized):
        client(service.url).stream(VOTES)
    busy = problem(503, "unavailable", headers=[("Retry-After", "0")], close=True)
    with flaky(busy, voting(10)) as service:
        assert len(client(service.url).stream(VOTES)) == 10


def test_answers_that_are_not_those_of_the_votes_are_noticed(client):
    def wrong(seen, stream, there):
        there.sendall(head() + line("t7"))
        stream.read(1)

    with flaky(wrong) as service, pytest.raises(errors.Unexpected, match="not those of the votes"):
        client(service.url).stream(VOTES)


def test_errors_of_the_source_are_its_own(client):
    def votes():
        yield VOTES[0]
        raise OSError("the source broke")

    with flaky(voting(1)) as service, pytest.raises(OSError, match="the source broke"):
        client(service.url).stream(votes(), window=1)
    assert len(service.seen) == 1


@pytest.mark.parametrize("window", [0, 1.5, 10_001])
def test_windows_are_checked(client, window):
    with pytest.raises(adjudge.OptionError, match="window is"):
        client("http://127.0.0.1:1").stream(VOTES, window=window)


@given(
    number=st.integers(0, 60),
    window=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    breaks=st.lists(st.integers(0, 30), max_size=6),
)
def test_lines_count_every_vote_once_whatever_breaks(number, window, seed, breaks):
    """This test's service knows votes by their ids, and breaks connections after some steps."""
    chance, counted, answered = random.Random(seed), {}, []
    lines, source, breaks = VoteLines(window=window), iter(range(number)), list(breaks)
    coming = going = b""
    steps, begun = breaks.pop() if breaks else -1, False
    while True:
        while lines.wants:
            vote = next(source, None)
            if vote is None:
                lines.end()
            else:
                lines.add((vote, "ann", "spam"))
        if lines.finished:
            break
        if not begun:
            lines.begin()
            coming, going, begun = b"", b"", True
        coming += lines.outgoing()
        *whole, coming = coming.split(b"\n")
        for one in whole:
            vote = json.loads(one)
            counted.setdefault(vote["id"], vote["task"])
            going += line(vote["task"])
        cut = chance.randint(1, max(len(going), 1))
        steps -= 1
        if steps == 0:  # the connection breaks: what was under way to the client is lost
            begun, steps = False, breaks.pop() if breaks else -1
            continue
        if going:
            answered += [one.task for one in lines.received(going[:cut])]
            going = going[cut:]
    assert answered == [str(n) for n in range(number)]
    assert sorted(counted.values(), key=int) == answered


def test_lines_keep_what_is_under_way_small():
    lines = VoteLines(window=1000)
    size = 0
    while lines.wants:
        lines.add(("t" * 256, "w" * 256, "spam"))
    size += len(lines.outgoing())
    assert 32_000 <= size < 34_000


def test_a_refusal_names_the_vote():
    lines = VoteLines(ids=False)
    lines.add(("t1", "ann\x1b", "spam"))
    lines.begin()
    (refusal,) = lines.received(b'{"error":"conflict","line":1,"detail":"no"}\n')
    assert isinstance(refusal, Refusal)
    assert isinstance(refusal.error, errors.Conflict)
    assert str(refusal.error) == r"task 't1', worker 'ann\x1b': no (409 conflict)"


# --- events

TOLD = [("5", "a"), ("9", "b"), ("9.2", "c"), ("9.3", "d"), ("12", "e")]


def event(place, task):
    return b"id: %b\nevent: decision\ndata: %b\n\n" % (place.encode(), line(task, int(float(place))).strip())


def telling(*pieces):
    """Tells events, piece by piece, and closes the connection."""

    def serve(seen, stream, there):
        there.sendall(head("text/event-stream") + b"retry: 2000\n: adjudge\n\n")
        for piece in pieces:
            there.sendall(piece)

    return serve


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_are_the_same_however_they_are_cut(client, size, end):
    text = b": hello\n\nretry: 7\n\n" + b"".join(event(*one) for one in TOLD) + b"event: lagged\ndata: {}\n\nid: 99\ndata: half"
    text = text.replace(b"\n", end)
    with flaky(telling(*(text[at : at + size] for at in range(0, len(text), size)))) as service:
        ours = client(service.url)
        found = ours.take(ours.events(after=0), len(TOLD))
    assert [one.task for one in found] == [task for _, task in TOLD]


@pytest.mark.parametrize(
    ("kind", "content", "match"),
    [
        ("text/html", b"<html>", "address of an adjudge service"),
        ("text/event-stream", b"data: " + b"x" * 1_100_000, "byte limit"),
    ],
)
def test_a_stream_that_is_none_of_events_is_noticed(client, kind, content, match):
    def serve(seen, stream, there):
        there.sendall(head(kind) + content)

    with flaky(serve) as service:
        ours = client(service.url)
        events = ours.events(after=0)
        with pytest.raises(errors.Unexpected, match=match):
            ours.take(events, 1)


def test_each_decision_is_told_once_over_lost_connections(client):
    first, second, third, fourth, fifth = (event(*one) for one in TOLD)
    ended = b"event: stopping\ndata: {}\n\n"
    script = [
        telling(first, second, third[:30]),
        DROP,
        telling(),
        telling(second, third, ended),  # repeats earlier events, as a proxy may
        telling(fourth + fifth),
    ]
    with flaky(*script) as service:
        ours = client(service.url)
        events = ours.events(after=0)
        found = ours.take(events, 5)
    assert [one.task for one in found] == ["a", "b", "c", "d", "e"]
    assert [one.path.rpartition("after=")[2] for one in service.seen] == ["0", "9.1", "9.1", "9.1", "9.2"]
    assert events.last == "12.1"


def test_without_a_place_events_begin_with_what_comes(client):
    view = {"name": "default", "labels": [], "model": "fds", "policy": 1, "position": 8}
    with flaky(answer(view), telling(), telling(event("9", "b"))) as service:
        ours = client(service.url)
        (found,) = ours.take(ours.events(), 1)
    assert found.task == "b"
    assert [one.path.rpartition("after=")[2] for one in service.seen[1:]] == ["8", "8"], "nothing is missed in between"


def test_the_first_connection_is_not_waited_for_forever(client):
    with flaky(*[DROP] * 9) as service:
        ours = client(service.url, retries=2)
        events = ours.events(after=0)
        with pytest.raises(errors.ConnectionFailed):
            ours.take(events, 1)
    assert len(service.seen) == 3
    with flaky(problem(404, "not-found", close=True)) as service:
        ours = client(service.url)
        events = ours.events(after=0)
        with pytest.raises(errors.NotFound):
            ours.take(events, 1)


@pytest.mark.parametrize("after", ["x", "1.x", -1, "1.", True, 1.5, ""])
def test_places_are_checked(after):
    with pytest.raises(adjudge.OptionError, match="after is"):
        EventCursor(after)
