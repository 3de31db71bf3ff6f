"""What `/events` tells is what the store has, once and in order: over lost replies, take-overs, expiry and restarts."""

import asyncio
import http.client
import threading
import time

import pytest

import postgres
from adjudge.service.http import feed
from adjudge.service.http.feed import MAX_DECISIONS_PER_POSITION, Place, read_decisions
from adjudge.service.store.opening import open_store
from postgres_proxy import Proxy
from server_process import Served, until
from service.test_expiry import Clock, expire, fill, opened, serving
from service.test_feed import allowed, ids

CAMPAIGN = "/v1/campaigns/quick"
SPEC = {"labels": ["spam", "ok"], "policy": {"minimum_votes": 1, "confidence": 0.01}}


class Listener:
    """Reads events in a thread, and resumes with the last id wherever `server()` is, until it has seen enough."""

    def __init__(self, server, last=None):
        self._server, self.last = server, last
        self.seen = []
        self.connections = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stopped.is_set():
            try:
                self._read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)

    def _read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._server().port, timeout=1)
        try:
            query, headers = ("?after=0", {}) if self.last is None else ("", {"Last-Event-ID": self.last})
            connection.request("GET", f"{CAMPAIGN}/events{query}", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                time.sleep(0.05)
                return
            self.connections += 1
            while line := answer.readline():
                if line.startswith(b"id: "):
                    self.last = line[4:].strip().decode()
                    self.seen.append(self.last)
        finally:
            connection.close()

    def until(self, wanted):
        """Wait until all of these were seen; fail with the difference."""
        end = time.monotonic() + 20
        while len(self.seen) < len(wanted) and time.monotonic() < end:
            time.sleep(0.05)
        self._stopped.set()
        self._thread.join(20)
        assert self.seen == wanted, sorted(set(wanted) ^ set(self.seen))


def in_store(url):
    """The ids of all decisions that a store has."""
    store = open_store(url, readonly=True)
    try:
        number = next(row.number for row in store.campaigns() if row.name == "quick")
        return [str(each.place) for each in read_decisions(store, number, Place(0, MAX_DECISIONS_PER_POSITION), 10**6)]
    finally:
        store.close()


def cast(server, task, label="ok", worker="w"):
    """Vote until it is taken: 503 is answered while nobody can."""
    vote = {"task": task, "worker": worker, "label": label}
    return until(lambda: _status(server, vote) == 200)


def _status(server, vote):
    try:
        return server.ask("POST", f"{CAMPAIGN}/votes", vote)[0]
    except (OSError, http.client.HTTPException):
        return 0


@pytest.fixture
def database():
    return postgres.server().fresh()


@pytest.mark.slow
def test_commits_whose_reply_was_lost(database, tmp_path):
    proxy = Proxy(postgres.server(), tmp_path / "proxy")
    with Served(proxy.url()) as server:
        assert server.ask("PUT", CAMPAIGN, SPEC)[0] == 201
        listener = Listener(lambda: server)
        cast(server, "first")
        for n in range(3):
            proxy.lose_next()
            lost = {"task": f"lost {n}", "worker": "w", "label": "ok"}
            assert _status(server, lost) == 503, "nobody knows whether it is committed"
            assert proxy.lost.wait(10)
            cast(server, f"after {n}")
            status, answer, _ = server.ask("POST", f"{CAMPAIGN}/votes", lost)
            assert (status, answer["repeated"]) == (200, 1), "it was"
        wanted = in_store(database)
        assert len(wanted) == 7
        listener.until(wanted)
    proxy.close()


@pytest.mark.slow
def test_take_overs(database):
    """Listeners at the owner, at a follower, and one at the first server that answers."""
    with Served(database) as one, Served(database) as two:
        servers = {"owner": one, "follower": two}
        assert servers["owner"].ask("PUT", CAMPAIGN, SPEC)[0] == 201
        until(lambda: servers["follower"].ask("GET", CAMPAIGN)[0] == 200)
        moving = [Listener(lambda: servers["owner"]), Listener(lambda: servers["follower"])]
        standing = Listener(lambda second=two: second)
        for n in range(3):
            for k in range(5):
                cast(servers["owner"], f"{n}.{k}")
            if n == 0:
                servers["owner"].kill()
            else:
                _cut_off(database, servers["owner"])
            if n == 0:
                servers["owner"] = two
                cast(two, "taken over")
                servers["follower"] = third = Served(database)
            else:
                for each in (two, third):  # in either order
                    if any(_status(each, {"task": f"again {n}", "worker": "w", "label": "ok"}) == 200 for _ in range(40)):
                        servers["owner"] = each
                        break
        wanted = in_store(database)
        assert len(wanted) >= 16
        for listener in (*moving, standing):
            listener.until(wanted)
        third.__exit__()


def _cut_off(database, server):
    """End all connections of a server to the database."""
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
            [f"adjudge % {server.process.pid} %"],
        )


@pytest.mark.slow
def test_votes_that_expire_at_a_follower():
    """A follower behind the deleted part reloads the campaign, and still delivers the decisions made meanwhile."""
    database = postgres.server().fresh()

    async def story():
        clock = Clock()
        async with serving(database, clock) as owner:
            await fill(owner, clock, days=5)
            other = await opened(database, clock)
            follower = other.get("default")
            stream = feed.events(follower.tail, None, allowed(), set(), lambda: False)
            await anext(stream)
            begins = Place(follower.committed, MAX_DECISIONS_PER_POSITION)
            for days in (15, 2, 15):
                await fill(owner, clock, days=days)
                await expire(owner)
                await other.follower.look()
            wanted = [str(each.place) for each in read_decisions(other.store, owner.number, begins, 10**6)]
            seen = []
            while len(seen) < len(wanted):
                seen += ids((await asyncio.wait_for(anext(stream), 10)).decode())
            await stream.aclose()
            await other.close()
            return wanted, seen

    wanted, seen = asyncio.run(story())
    assert len(wanted) > 25
    assert seen == wanted


@pytest.mark.slow
def test_restarts_and_many_decisions_at_one_position(tmp_path):
    """A client cut off after any decision resumes with the next one, also within a position."""
    store = tmp_path / "votes.db"
    strict = {"labels": ["spam", "ok"], "policy": {"minimum_votes": 2}}
    with Served(store) as server:
        assert server.ask("PUT", CAMPAIGN, strict)[0] == 201
        for n in range(5):
            cast(server, f"t{n}", worker=f"w{n}")
        assert server.ask("PUT", f"{CAMPAIGN}/policy", {"policy": SPEC["policy"]})[0] == 200
        cast(server, "one more")
        assert server.end() == 0
    wanted = in_store(store)
    assert [place.partition(".")[2] for place in wanted] == ["", "2", "3", "4", "5", ""]
    for at in range(0, len(wanted), 2):
        with Served(store) as server:
            listener = Listener(lambda now=server: now, wanted[at])
            cast(server, f"after restart {at}")
            listener.until(in_store(store)[at + 1 :])
        wanted = in_store(store)
