"""Fingerprints of the live service for `golden.py`: folded logs, a store in SQLite, and the answers to fixed requests."""

import asyncio
import json
import re
import sqlite3
from hashlib import sha256

import msgspec

from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.backtest import backtest
from adjudge.service.campaigns.replay import check
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http.app import HEADERS, Service
from adjudge.service.http.call import Context
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.clock import Clock
from adjudge.service.http.openapi import describe
from adjudge.service.http.parsing import read_headers
from adjudge.service.http.routes import ROUTES
from adjudge.service.http.tokens import TokenIndex
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive, StoreArchive
from adjudge.service.store.backup import restore
from adjudge.service.store.batch import Batch, DecisionRow
from adjudge.service.store.export import decision_frames, vote_frames
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify, verify_shared
from live_store import cut, small
from live_stories import POLICIES, Story, make_ops

START_US = 1_700_000_000_000_000
SEEDS = 3


def of(value):
    data = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return sha256(data).hexdigest()[:16]


def service_fingerprints(folder):
    yield "service openapi", of(json.dumps(_without_prose(describe(ROUTES)), sort_keys=True))
    yield from _folds()
    yield from _store(folder)
    for number, answer in enumerate(asyncio.run(_answers(folder / "http.db"))):
        yield f"service answer {number} {answer[0]}", answer[1]


def _without_prose(document):
    """What programs read of the description: sentences may be reworded."""
    if isinstance(document, dict):
        return {key: _without_prose(value) for key, value in document.items() if key not in ("description", "summary")}
    return [_without_prose(value) for value in document] if isinstance(document, list) else document


# --- logs


def _log(policy, seed):
    """A log with every kind of event; at its end the clock is set back and votes expire."""
    log = Story(policy=policy).tell(make_ops(seed, 160)).log
    end = log[-1].time
    log += [
        events.ClockSet(time=end - 1, by="mo", reason="ahead"),
        events.Truncated(time=end, until=40, before=log[40].time),
        events.Sweep(time=end, decided=2, others=1, emptied=1),
        events.Vote(time=end + 1, task="t99", worker=1, label=0),
    ]
    return log


def _fold(log):
    state, decisions = CampaignState(log[0], MemoryArchive()), []
    for position, event in enumerate(log, 1):
        state.apply(position, event)
        decisions.append(state.changes)
        state.changes = []
    return state, decisions


def _folds():
    for number, policy in enumerate(POLICIES):
        for seed in range(SEEDS):
            log = _log(policy, 100 * number + seed)
            state, decisions = _fold(log)
            key = f"service policy {number} seed {seed}"
            yield f"{key} decisions", of(decisions)
            yield f"{key} state", snapshot.digest(state) if not state.refit_read else of([state.position, state.votes])
            tasks = [
                [name, task.standing, state.rule.why(task.standing, state.evidence(task, state.answer(name)))]
                for name, task in state.tasks.by_name.items()
            ]
            yield f"{key} tasks", of(tasks)
            workers = list(state.crowd.all.values())
            yield f"{key} workers", of([workers, [[*each] for each in state.accuracy_of(workers)]])
        yield f"service policy {number} backtest", of(backtest(log, policy={"minimum_votes": 3, "confidence": 0.8}))
        yield f"service policy {number} backtest model", of(backtest(log, model="ds"))


# --- a store


def _tables(path):
    connection = sqlite3.connect(path)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    for name in names:
        yield name, of(repr(connection.execute(f"SELECT * FROM {name}").fetchall()))
    connection.close()


def _store(folder):
    store = open_store(folder / "service.db")
    log, batch, number = _log(POLICIES[0], 7), Batch(), store.create_campaign("spam")
    log = [event for event in log if not isinstance(event, events.Truncated)]
    archived = []
    state = CampaignState(log[0], StoreArchive(store, number, archived.append))
    batch.workers += [(number, worker, f"worker {worker}") for worker in range(1, 6)]
    for position, event in enumerate(log, 1):
        state.apply(position, event)
        batch.extend(number, position, [event])
        for decision in state.changes:
            batch.decide(number, [DecisionRow(decision.position, decision.task, msgspec.json.encode(decision))])
        state.changes = []
        if position % 20 == 0:
            batch.archived += archived
            archived.clear()
            store.write(batch)
            batch = Batch()
    batch.archived += archived
    batch.erased.append((number, 2))
    store.write(batch)
    store.tokens.add(b"hash", "ann", ["vote"], None, 1)
    store.webhooks.add(number, "https://example.org/hook", "a secret of some length", {"statuses": ["decided"]}, 2)
    found = check(store, number)
    yield "service replay", [found.position, found.decisions, found.digest, str(found.difference)]
    for name, frames in (("votes", vote_frames(store, number)), ("decisions", decision_frames(store, number))):
        yield f"service export {name}", of("".join(frame.write_ndjson() for frame in frames))
    yield "service verified", of([[*each] for each in verify(store)] + [*verify_shared(store)])
    yield "service backtest of a store", of(backtest(store, policy={"minimum_votes": 4}))
    store.snapshots(number).save(found.position, snapshot.bundle(snapshot.to_bytes(state), b"", b""))
    yield "service snapshot", of((folder / "service.db.snapshots" / f"{number}-{found.position}.snapshot").read_bytes())
    yield "service cut", cut(store, number, 41)
    yield "service verified after the cut", of([[*each] for each in verify(store)])
    yield "service backtest after the cut", of(backtest(store, policy={"minimum_votes": 4}))
    store.backup(folder / "backup.db")
    store.close()
    restore(folder / "backup.db", folder / "restored.db")
    for name, content in _tables(folder / "restored.db"):
        yield f"service table {name}", content


# --- requests

SPEC = {
    "labels": ["spam", {"id": "ok", "name": "Fine"}],
    "policy": {"minimum_votes": 2, "confidence": 0.7},
    "refit": {"votes": 10**9},
}
HOOK = {"url": "https://example.org/hook", "secret": "a secret of some length", "statuses": ["decided"]}
LABEL_STUDIO = {
    "action": "ANNOTATION_CREATED",
    "annotation": {
        "id": 5, "task": 17, "completed_by": {"email": "liz@example.org"}, "ground_truth": False,
        "updated_at": "2026-01-31T12:00:00Z",
        "result": [{"type": "choices", "from_name": "kind", "value": {"choices": ["spam"]}}],
    },
}  # fmt: skip


def _requests():
    """Method, path (of the campaign, unless it begins with a slash) and body: every route, with some faulty requests."""
    yield "PUT", "", SPEC
    yield "PUT", "", SPEC
    yield "PUT", "", {**SPEC, "labels": ["a", "b"]}
    yield "PUT", "", {"labels": ["a"], "typo": 1}
    for task, worker, label in small():
        yield "POST", "/votes", {"task": task, "worker": worker, "label": label}
    yield "POST", "/votes", [{"task": "t0", "worker": "new", "label": "ok", "id": "x1"}] * 2
    yield "POST", "/votes", {"task": "t0", "worker": "new", "label": "spam", "id": "x1"}
    yield "POST", "/votes", {"task": "t0", "worker": "new", "label": "none"}
    yield "POST", "/votes", {"task": "t0", "worker": "w1", "label": "spam"}
    yield "POST", "/votes", b"{"
    yield "DELETE", "/votes", {"task": "t1", "worker": "w1"}
    yield "DELETE", "/votes", {"task": "t1", "worker": "w1"}
    yield "GET", "/votes?limit=5", None
    yield "GET", "/votes?limit=0&after=x", None
    yield "POST", "/tasks", {"tasks": ["fresh", "t1"]}
    yield "GET", "/tasks?status=open&limit=2", None
    yield "GET", "/tasks?after=x", None
    yield "GET", "/tasks/t1", None
    yield "GET", "/tasks/none", None
    yield "PUT", "/tasks/t2/gold", {"label": "ok"}
    yield "DELETE", "/tasks/t2/gold", None
    yield "DELETE", "/tasks/t2/gold", None
    yield "POST", "/tasks/t3/override", {"label": "spam", "by": "mo", "reason": "seen"}
    yield "POST", "/tasks/t3/reopen", None
    yield "GET", "/tasks/t3/history", None
    yield "GET", "/decisions?limit=3", None
    yield "GET", "/next?worker=w1&n=2", None
    yield "GET", "/workers?limit=3", None
    yield "PATCH", "/workers/w0", {"group": "east", "expert": True}
    yield "POST", "/workers/w1/ban", {"dry_run": True}
    yield "POST", "/workers/w1/ban", {"by": "mo", "reason": "spam"}
    yield "GET", "/workers/w1", None
    yield "POST", "/workers/w1/unban", None
    yield "POST", "/bans", {"workers": ["w1", "w2"]}
    yield "DELETE", "/workers/w3", None
    yield "GET", "/workers/w3", None
    yield "GET", "/policy", None
    yield "PUT", "/policy", {"policy": {"minimum_votes": 3}, "by": "mo"}
    yield "PUT", "/policy", {"policy": {"minimum_votes": 0}}
    yield "POST", "/policy/backtest", {"policy": {"minimum_votes": 4}}
    yield "POST", "/policy/backtest", {}
    yield "POST", "/labels", {"id": "late", "name": "Late"}
    yield "PATCH", "/labels/late", {"name": "Later"}
    yield "PATCH", "", {"names": {"ok": "All right"}, "retention": {"days": 30}}
    yield "PATCH", "", {"retention": {"days": -1}}
    yield "POST", "/breaker/reset", None
    yield "POST", "/webhooks", HOOK
    yield "POST", "/webhooks", {**HOOK, "url": "http://127.0.0.1/"}
    yield "GET", "/webhooks", None
    yield "GET", "/webhooks/dead", None
    yield "POST", "/webhooks/dead/1/redeliver", None
    yield "DELETE", "/webhooks?id=1", None
    yield "POST", "/labelstudio", LABEL_STUDIO
    yield (
        "POST",
        "/labelstudio",
        {**LABEL_STUDIO, "action": "ANNOTATIONS_DELETED", "annotations": [{"id": 5}], "annotation": None},
    )
    yield "GET", "", None
    yield "GET", "/v1/campaigns", None
    yield "GET", "/v1/campaigns/other", None
    yield "POST", "/v1/clock", None
    yield "GET", "/healthz", None
    yield "GET", "/readyz", None
    yield "GET", "/metrics", None
    yield "PUT", "/healthz", None
    yield "GET", "/nowhere", None
    yield "GET", "/healthz?a=1", None


async def _answers(path):
    clock_us = [START_US]
    clock = Clock(lambda: clock_us[0] * 1000, lambda: clock_us[0] * 1000)
    campaigns = await Campaigns.open(str(path), clock=clock)
    answers = []
    try:
        context = Context(campaigns, TokenIndex())
        service = Service(context)
        for method, where, body in _requests():
            clock_us[0] += 1_000_000
            full = (
                where
                if where.startswith(("/v1", "/healthz", "/readyz", "/metrics", "/nowhere"))
                else f"/v1/campaigns/default{where}"
            )
            status, content = await _ask(service, method, full, body)
            if where == "/metrics":
                content = "\n".join(line for line in content.splitlines() if line.startswith(("#", "adjudge_votes")))
            if status >= 400 and where != "/readyz":
                content = json.loads(content)["error"]  # the detail may be reworded
            content = re.sub(r'"created":"[^"]*"', '"created":""', content)
            answers.append((f"{method} {where}", [status, of(content)]))
    finally:
        await campaigns.close()
    return answers


async def _ask(service, method, url, body):
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = url.partition("?")
    fields = [(b"host", b"localhost"), (b"x-request-id", b"golden"), (b"content-length", b"%d" % len(content))]
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": fields,
        "state": {HEADERS: read_headers(fields)},
    }
    received = [{"type": "http.request", "body": content, "more_body": False}]
    sent = []

    async def receive():
        if received:
            return received.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await service(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()
