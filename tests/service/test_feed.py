"""Decisions as server-sent events: followed, resumed, ended."""

import asyncio
import json
import threading

import pytest

from adjudge.service.campaigns.decision import Decision, moment
from adjudge.service.http import feed
from adjudge.service.http.errors import Malformed
from adjudge.service.http.feed import MAX_DECISIONS_PER_POSITION, Place, Tail
from adjudge.service.http.tokens import FULL_GRANT, Authority, Permit, TokenIndex
from adjudge.service.store.batch import DecisionRow
from service.serving import BASE, serving


class Stream:
    """An open stream of events, read event by event."""

    def __init__(self, client, query="", headers=(), campaign=BASE):
        self.connection = client.connection(timeout=30)
        self.connection.request("GET", f"{campaign}/events{query}", headers=dict(headers))
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        assert self.response.headers["X-Request-Id"]
        while self.response.readline().strip():  # listens once this has come
            pass

    def event(self):
        fields = {}
        while (line := self.response.readline()) not in (b"\n", b""):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        return fields

    def tasks(self, n):
        found = [self.event() for _ in range(n)]
        return [(event["id"], json.loads(event["data"])["task"]) for event in found]

    def close(self):
        self.connection.close()
        self.response.close()


def test_decisions_come_as_they_are_made(server):
    stream = Stream(server)
    made = server.decide("sse 1")
    event = stream.event()
    assert (event["event"], event["id"], json.loads(event["data"])) == ("decision", str(made["position"]), made)
    stream.close()


def test_a_client_goes_on_where_it_was(server):
    made = [server.decide(f"resumed {n}") for n in range(5)]
    places = [(str(each["position"]), each["task"]) for each in made]
    first = Stream(server, f"?after={made[0]['position'] - 1}")
    assert first.tasks(2) == places[:2]
    first.close()
    for query, headers in ((f"?after={places[1][0]}", {}), ("", {"Last-Event-ID": places[1][0]})):
        again = Stream(server, query, headers)
        assert again.tasks(len(places) - 2) == places[2:]
        late = server.decide(f"late {headers}")
        places.append((str(late["position"]), late["task"]))
        assert again.tasks(1) == places[-1:]
        again.close()


def test_nothing_is_missed_or_told_twice_while_votes_come(server):
    server("PUT", "/v1/campaigns/busy", {"labels": ["spam", "ok"], "policy": {"minimum_votes": 1, "confidence": 0.01}})
    done = threading.Event()

    def load():
        for n in range(150):
            server("POST", "/v1/campaigns/busy/votes", [{"task": f"{n}.{k}", "worker": "w", "label": "ok"} for k in range(4)])
        done.set()

    loading = threading.Thread(target=load)
    loading.start()
    seen = []
    last = None
    while len(seen) < 600:
        query, headers = ("?after=0", {}) if last is None else ("", {"Last-Event-ID": last})
        stream = Stream(server, query, headers, "/v1/campaigns/busy")
        found = stream.tasks(min(70, 600 - len(seen)))
        last = found[-1][0]
        seen += found
        stream.close()
    loading.join()
    assert done.is_set()
    assert len({task for _, task in seen}) == 600
    assert [int(place) for place, _ in seen] == sorted({int(place) for place, _ in seen})


def test_decisions_at_one_position_are_told_apart(server):
    path = "/v1/campaigns/policies"
    server("PUT", path, {"labels": ["spam", "ok"]})
    for n in range(5):
        server("POST", f"{path}/votes", {"task": f"t{n}", "worker": f"w{n}", "label": "ok"})
    server("PUT", f"{path}/policy", {"policy": {"minimum_votes": 1, "confidence": 0.01}})
    position = server("GET", path).json["position"]
    stream = Stream(server, "?after=0", (), path)
    found = stream.tasks(5)
    stream.close()
    assert [place for place, _ in found] == [str(position), *(f"{position}.{k}" for k in range(2, 6))]
    for k, (place, _) in enumerate(found[:-1], 1):
        again = Stream(server, "", {"Last-Event-ID": place}, path)
        assert again.tasks(5 - k) == found[k:]
        again.close()
    pages, after = [], "0"
    while after is not None:
        page = server("GET", f"{path}/decisions?limit=2&after={after}").json
        assert len(page["decisions"]) <= 2
        pages += [decision["task"] for decision in page["decisions"]]
        after = page["next"]
    assert pages == [task for _, task in found]
    assert server("GET", f"{path}/decisions?after={position}").json == {"decisions": [], "next": None}


@pytest.mark.parametrize("last", ["x", "1.x", "-1", "1.2.3", "٣", "1" * 40, "1" * 19, "1." + "1" * 10])
def test_ids_that_are_none(server, last):
    answer = server("GET", "events", headers={"Last-Event-ID": last.encode()})
    assert (answer.status, answer.json["error"]) == (400, "malformed")


def test_a_server_that_stops_says_so(tmp_path):
    with serving(tmp_path) as client:
        stream = Stream(client)
    assert stream.event()["event"] == "stopping"
    assert stream.event() == {}
    stream.close()


def test_places():
    assert [str(Place(3, 1)), str(Place(3, 2))] == ["3", "3.2"]
    assert Place.of_event("3") == (3, 1)
    assert Place.of_event("3.2") == Place.of_query("3.2") == (3, 2)
    assert Place.of_query("3") == (3, MAX_DECISIONS_PER_POSITION)
    with pytest.raises(Malformed, match="Last-Event-ID"):
        Place.of_event("")


def decided(position, task):
    return Decision(task, "a", 0.9, "decided", 3, 1, moment(0), position, "confidence")


class Stored:
    """Decisions as a test adds them."""

    def __init__(self, rows=()):
        self.rows = list(rows)

    def decisions(self, campaign, *, after, limit):
        return iter([row for row in self.rows if row.position > after])


def row(position, task):
    return DecisionRow(position, task, json.dumps({"task": task}).encode())


def allowed():
    """A permit that holds."""
    return Permit(Authority(TokenIndex(), None), FULL_GRANT, "read", "default")


async def taken(stream, n):
    return b"".join([await asyncio.wait_for(anext(stream), 10) for _ in range(n)]).decode()


def ids(text):
    return [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id")]


def test_silence_is_broken_by_comments(monkeypatch):
    monkeypatch.setattr(feed, "KEEP_ALIVE", 0.01)

    async def main():
        stream = feed.events(Tail(Stored(), 1, lambda: 0), None, allowed(), set(), lambda: False)
        text = await taken(stream, 3)
        await stream.aclose()
        return text

    assert asyncio.run(main()).endswith(": still here\n\n: still here\n\n")


@pytest.mark.parametrize("window", [2, 2000])
def test_every_listener_gets_what_is_after_its_place(monkeypatch, window):
    """A wake-up carries nothing: listeners before, in and behind the window read the same sequence."""
    monkeypatch.setattr(feed, "MAX_WINDOW_DECISIONS", window)
    monkeypatch.setattr(feed, "MAX_PAGE_DECISIONS", 3)
    store = Stored([row(4, "a"), row(4, "b"), row(6, "c"), row(7, "d"), row(7, "e")])

    async def main():
        tail = Tail(store, 1, lambda: 7)
        every = [
            feed.events(tail, after, allowed(), set(), lambda: False)
            for after in (Place(0, MAX_DECISIONS_PER_POSITION), Place(4, 1), None)
        ]
        for stream in every:
            await anext(stream)
        found = [ids(await taken(every[0], 2)), ids(await taken(every[1], 2)), []]
        for n in range(9, 19):
            store.rows += [row(n, f"{n}"), row(n, f"{n} too")]
            tail.wake()
            await asyncio.sleep(0.03)
        for got, stream in zip(found, every, strict=True):
            while got[-1:] != ["18.2"]:
                got.extend(ids(await taken(stream, 1)))
            await stream.aclose()
        return found

    later = [str(Place(n, k)) for n in range(9, 19) for k in (1, 2)]
    assert asyncio.run(main()) == [["4", "4.2", "6", "7", "7.2", *later], ["4.2", "6", "7", "7.2", *later], later]


def test_memory_for_listeners_is_bounded(monkeypatch):
    monkeypatch.setattr(feed, "MAX_WINDOW_BYTES", 100)
    store = Stored([row(n, "x" * 20) for n in range(1, 30)])

    async def main():
        tail = Tail(store, 1, lambda: 0)
        with tail.listen():
            await tail.more()
            return sum(len(each.body) for each in tail._window), tail.after(Place(3, 1))

    size, behind = asyncio.run(main())
    assert 0 < size <= 100
    assert behind is None, "its place is behind the window: the store is read"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_every_decision_of_an_event_that_decides_many_tasks(server, limit):
    """A page may end among the decisions of one position: the next one begins there."""
    path = f"/v1/campaigns/paged-{limit}"
    server("PUT", path, {"labels": ["spam", "ok"], "policy": {"minimum_votes": 1, "confidence": 0.01}})
    server("POST", f"{path}/votes", [{"task": f"t{n}", "worker": "w", "label": "ok"} for n in range(5)])
    assert server("POST", f"{path}/workers/w/ban").status == 200
    whole = server("GET", f"{path}/decisions").json["decisions"]
    assert len({each["position"] for each in whole}) < len(whole)
    found, after = [], "0"
    while after is not None:
        page = server("GET", f"{path}/decisions?limit={limit}&after={after}").json
        found += page["decisions"]
        after = page["next"]
    assert found == whole
