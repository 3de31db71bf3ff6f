"""The loop's time budget: no legal request, however large, keeps the loop's thread busy for 100 ms in one callback.

What is measured is the processor time of that thread, not the wall clock, so that a busy machine fails nothing.
"""

import asyncio
import json
import threading
import time
from asyncio import events as asyncio_events
from contextlib import contextmanager

from adjudge.service.http.routes import ROUTES
from adjudge.service.http.server import Settings, run
from service.serving import Client

MAX_CALLBACK_S = 0.1
MAX_VOTES = 10_000  # per request
MAX_LABELS = 1000
DEEP = 30_000  # votes on one task
TASKS = 20_000  # in memory when the policy changes
QUORUM = {
    "minimum_votes": 2,
    "confidence": 0.8,
    "quorum": {"groups": 2},
    "experts": {"decide": True},
    "escalate": {"disagreement": 0.45},
    "breakers": {"window": 100_000},
}


class Callbacks:
    """Takes the processor time of every callback of the loop."""

    def __init__(self, monkeypatch):
        self._longest, self._thread = (0.0, ""), None
        plain = asyncio_events.Handle._run

        def timed(handle):
            if threading.get_ident() != self._thread:
                return plain(handle)
            began = time.thread_time()
            try:
                return plain(handle)
            finally:
                took = time.thread_time() - began
                if took > self._longest[0]:
                    self._longest = took, repr(handle)

        monkeypatch.setattr(asyncio_events.Handle, "_run", timed)

    def watch(self):
        """Watch the loop of this thread."""
        self._thread = threading.get_ident()

    def take(self):
        """The longest callback since the last call."""
        longest, self._longest = self._longest, (0.0, "")
        return longest


@contextmanager
def serving(folder, callbacks):
    """A client of a server on a plain loop of asyncio, whose callbacks are objects of Python."""
    listening, address, failed, stop = threading.Event(), [], [], asyncio.Event()
    loop = asyncio.new_event_loop()
    settings = Settings(store=str(folder / "votes.db"), port=0, labels=("spam", "ok"), log_level="error", allow_private=True)

    def started(where):
        address.append(where)
        listening.set()

    def work():
        callbacks.watch()
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(run(settings, started, stop))
        except BaseException as error:  # told to the test
            failed.append(error)
        finally:
            listening.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert listening.wait(30)
    assert not failed, failed
    try:
        yield Client(address[0])
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)


@contextmanager
def polling(client):
    """Ask for /healthz on a connection of its own, again and again; yields the statuses that came back."""
    ended, statuses = threading.Event(), []

    def work():
        connection = client.connection(timeout=120)
        while not ended.wait(0.01):
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join()


class Largest:
    """The largest legal request of every route, in an order in which each finds what it needs."""

    def __init__(self, client):
        self.client, self.driven = client, []

    def __call__(self, method, path, body=None, *, campaign="big", task="", worker="", query="", status=200, **ids):
        """Ask a route by its pattern, and return what it answered."""
        self.driven.append(f"{method} {path}")
        filled = path.format(campaign=campaign, task=task, worker=worker, **ids)
        connection = self.client.connection(timeout=120)
        try:
            content = body if isinstance(body, bytes | None) else json.dumps(body, separators=(",", ":")).encode()
            connection.request(method, filled + query, content)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == status, (method, filled, answer.status, said[:300])
            return json.loads(said) if answer.headers.get_content_type() == "application/json" else said
        finally:
            connection.close()

    def listen(self, path, *, campaign, query):
        """Read the first decisions of a stream of events, and go away."""
        self.driven.append(f"GET {path}")
        connection = self.client.connection(timeout=120)
        connection.request("GET", path.format(campaign=campaign) + query)
        answer = connection.getresponse()
        assert answer.status == 200
        for _ in range(30_000):
            assert answer.readline()
        connection.close()


C = "/v1/campaigns/{campaign}"
TASK, WORKER = f"{C}/tasks/{{task}}", f"{C}/workers/{{worker}}"


def votes(n, task, worker, label, mark=None):
    made = [{"task": task(i), "worker": worker(i), "label": label(i)} for i in range(n)]
    return made if mark is None else [{**vote, "id": f"{mark}{i:0>240}"} for i, vote in enumerate(made)]


def steps(ask):
    """Yield the name of each step, after it was taken."""
    big = [f"l{n}" for n in range(MAX_LABELS)]
    for name, labels, policy in (
        ("big", ["a", "b"], QUORUM),
        ("deep", ["a", "b"], QUORUM),
        ("crowd", ["a", "b"], {"minimum_votes": 1, "confidence": 0.5}),
        ("hundred", big[:100], {}),
        ("wide", big, {}),
        ("studio", ["a", "b"], QUORUM),
    ):
        ask("PUT", C, {"labels": labels, "policy": policy}, campaign=name, status=201)
        yield f"make {name}"

    # many votes on one task
    for start in range(0, DEEP, MAX_VOTES):
        some = votes(MAX_VOTES, lambda i: "t", lambda i, start=start: f"w{start + i}", lambda i: "ab"[i % 2])
        assert ask("POST", f"{C}/votes", some, campaign="deep")["accepted"] == MAX_VOTES
        yield f"{MAX_VOTES} votes on a task of {start}"
    changed = votes(MAX_VOTES, lambda i: "t", lambda i: f"w{i}", lambda i: "ba"[i % 2])
    assert ask("POST", f"{C}/votes", changed, campaign="deep")["accepted"] == MAX_VOTES
    yield f"{MAX_VOTES} changed votes on a task of {DEEP}"
    deep = {"campaign": "deep", "task": "t"}
    assert len(ask("GET", TASK, **deep)["evidence"]) == DEEP
    yield f"a task of {DEEP} votes"
    for method, path, body in (
        ("PUT", f"{TASK}/gold", {"label": "a"}),
        ("DELETE", f"{TASK}/gold", None),
        ("POST", f"{C}/tasks", {"tasks": [{"task": "t", "data": {"text": "x" * 15_000}}]}),
        ("DELETE", f"{TASK}/data", None),
        ("POST", f"{TASK}/override", {"label": "a", "by": "e" * 256, "reason": "r" * 256}),
        ("POST", f"{TASK}/reopen", {"reason": "r" * 256}),
        ("GET", f"{TASK}/history", None),
    ):
        ask(method, path, body, **deep)
        yield f"{method} {path} of {DEEP} votes"
    ask("PATCH", WORKER, {"group": "g", "expert": True}, campaign="deep", worker="w5")
    yield f"a group on a task of {DEEP} votes"
    ask("POST", f"{WORKER}/ban", {"dry_run": True}, campaign="deep", worker="w5")
    yield f"a ban tried out on a task of {DEEP} votes"
    ask("DELETE", f"{C}/votes", {"task": "t", "worker": "w5"}, campaign="deep")
    yield "retract"

    # many tasks, with the longest ids
    for worker in range(3):
        for start in range(0, TASKS, MAX_VOTES):
            some = votes(
                MAX_VOTES,
                lambda i, start=start: f"t{start + i:0>200}",
                lambda i, worker=worker: f"w{worker}-{i % 100:0>200}",
                lambda i: "ab"[i % 3 == 0],
                mark=f"{worker}{start}" if worker == 0 else None,
            )
            assert ask("POST", f"{C}/votes", some)["accepted"] == MAX_VOTES
            yield f"{MAX_VOTES} votes on {MAX_VOTES} tasks"
    some = votes(MAX_VOTES, lambda i: f"s{i}", lambda i: f"w{i % 7}", lambda i: "a")
    assert ask("POST", f"{C}/votes:stream", b"\n".join(json.dumps(vote).encode() for vote in some)).count(b"\n") == MAX_VOTES
    yield f"a stream of {MAX_VOTES} votes"
    ask("POST", f"{C}/tasks", {"tasks": [f"n{i:0>200}" for i in range(MAX_VOTES)]})
    yield f"{MAX_VOTES} new tasks"
    ask("PUT", f"{C}/policy", {"policy": {**QUORUM, "quorum": None, "confidence": 0.6, "minimum_votes": 1}})
    yield f"a policy for {TASKS} tasks"
    ask("POST", f"{C}/breaker/reset", {})
    yield "breaker"
    ask("POST", f"{C}/refit", status=202)
    yield "refit"
    for path, query in (
        (f"{C}/tasks", "?limit=10000"),
        (f"{C}/votes", "?limit=10000"),
        (f"{C}/decisions", "?limit=10000"),
        (f"{C}/workers", "?limit=10000"),
        (f"{C}/next", "?worker=new&n=100"),
        (f"{C}/policy", ""),
        (C, ""),
        ("/v1/campaigns", ""),
        ("/metrics", ""),
        ("/openapi.json", ""),
        ("/healthz", ""),
        ("/readyz", ""),
    ):
        ask("GET", path, query=query)
        yield f"GET {path}{query}"
    ask("POST", "/v1/clock", {"by": "ann", "reason": "r" * 256})
    yield "clock"
    ask.listen(f"{C}/events", campaign="big", query="?after=0")
    yield "events"
    ask("POST", f"{C}/labels", {"id": "c", "name": "c"}, status=201)
    yield "a label more"
    ask("PATCH", f"{C}/labels/{{label}}", {"name": "n" * 256}, label="c")
    yield "rename"
    ask("PATCH", C, {"retention": {"tasks": 1, "waiting": 1}, "refit": {"votes": 10_000_000}})
    time.sleep(1)  # old tasks leave memory
    yield "retention"

    # many workers
    ring = [f"w{i}" for i in range(MAX_VOTES)]
    ask("POST", f"{C}/votes", votes(MAX_VOTES, lambda i: f"t{i % 2000}", lambda i: ring[i], lambda i: "a"), campaign="crowd")
    for number in range(20):
        hook = ask("POST", f"{C}/webhooks", {"url": f"http://127.0.0.1:9/{number}"}, campaign="crowd", status=201)
    yield "webhooks"
    assert ask("POST", f"{C}/bans", {"workers": ring, "dry_run": True}, campaign="crowd")["changes"]
    yield f"a ban of {MAX_VOTES} workers, tried out"
    assert ask("POST", f"{C}/bans", {"workers": ring}, campaign="crowd")["changes"]
    yield f"a ban of {MAX_VOTES} workers, with 20 webhooks"
    ask("POST", f"{WORKER}/unban", {}, campaign="crowd", worker="w5")
    yield "unban"
    ask("DELETE", WORKER, campaign="crowd", worker="w6")
    yield "erase"
    ask("POST", f"{C}/policy/backtest", {"policy": QUORUM}, campaign="crowd")
    yield "backtest"
    ask("GET", f"{C}/webhooks", campaign="crowd")
    ask("GET", f"{C}/webhooks/dead", campaign="crowd", query="?limit=10000")
    ask("POST", f"{C}/webhooks/dead/{{delivery}}/redeliver", campaign="crowd", delivery=1, status=404)
    ask("DELETE", f"{C}/webhooks", campaign="crowd", query=f"?id={hook['id']}")
    yield "webhooks"

    # many labels
    some = votes(1000, lambda i: f"t{i % 50}", lambda i: f"w{i}", lambda i: big[i % 100])
    ask("POST", f"{C}/votes", some, campaign="hundred")
    yield "votes for 100 labels"
    ask("GET", f"{C}/workers", campaign="hundred", query="?limit=1000")
    yield "workers of 100 labels"
    for i in range(3):
        ask("POST", f"{C}/votes", votes(1, lambda i: "t", lambda _, i=i: f"w{i}", lambda _, i=i: big[i]), campaign="wide")
        yield f"vote {i} for {MAX_LABELS} labels"
    ask("POST", f"{C}/votes", votes(300, lambda i: f"t{i % 30}", lambda i: f"w{i}", lambda i: big[i]), campaign="wide")
    yield f"300 votes for {MAX_LABELS} labels"
    ask("GET", WORKER, campaign="wide", worker="w5")
    yield f"a worker of {MAX_LABELS} labels"
    ask("GET", f"{C}/next", campaign="wide", query="?worker=new&n=100")
    yield f"the next task of {MAX_LABELS} labels"
    line = dict.fromkeys(big, 0.125)
    costs = {"*": {"*": 1.0}, **dict.fromkeys(big[:500], line)}
    ask("PUT", f"{C}/policy", {"policy": {"costs": costs, "maximum_cost": 0.5}}, campaign="wide")
    yield f"costs of {MAX_LABELS} labels"
    ask("POST", f"{C}/votes", votes(30, lambda i: f"t{i}", lambda i: f"w{i + 1}", lambda i: big[i]), campaign="wide")
    yield f"votes under costs of {MAX_LABELS} labels"
    ask("GET", f"{C}/policy", campaign="wide")
    yield f"the policy of {MAX_LABELS} labels"

    # Label Studio
    choice = [{"type": "choices", "from_name": "q", "value": {"choices": ["a"]}}]
    made = [{"id": i, "task": 1, "completed_by": i, "result": choice} for i in range(MAX_VOTES)]
    ask("POST", f"{C}/labelstudio", {"action": "ANNOTATIONS_CREATED", "annotations": made}, campaign="studio")
    yield f"{MAX_VOTES} annotations"


def test_no_request_keeps_the_loop_busy(tmp_path, monkeypatch, quiet_collector):
    callbacks = Callbacks(monkeypatch)
    with serving(tmp_path, callbacks) as client, polling(client) as statuses:
        ask, longest = Largest(client), []
        for step in steps(ask):
            longest.append((*callbacks.take(), step))
            print(f"{longest[-1][0] * 1000:7.1f} ms  {step}")
    assert {route.name for route in ROUTES} == set(ask.driven), "every route has its largest request here"
    assert set(statuses) == {200}
    busy = [f"{step}: {took * 1000:.0f} ms in {callback}" for took, callback, step in longest if took > MAX_CALLBACK_S]
    assert not busy, "\n".join(busy)
