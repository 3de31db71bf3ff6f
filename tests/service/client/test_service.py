"""Clients and the real service: every call, and restarts in the middle."""

import asyncio
import inspect
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

import adjudge
from adjudge.service import running
from adjudge.service.campaigns.decision import Decision
from adjudge.service.client import errors
from adjudge.service.client.client import Client
from adjudge.service.http.routes import ROUTES

NOT_OURS = {  # the OpenAPI description, Label Studio's webhook, routes that `bans` covers, and an operator's own
    "GET /openapi.json",
    "POST /v1/clock",
    "POST /v1/campaigns/{campaign}/labelstudio",
    "POST /v1/campaigns/{campaign}/workers/{worker}/ban",
}


@pytest.fixture(scope="module")
def url():
    with running(labels=["spam", "fine"]) as address:
        yield address


def test_every_call_is_answered(client, url):
    ours = client(url)
    name = f"all / é: {type(ours.client).__name__}"
    ours = client(url, campaign=name)
    assert ours.health().status == "ok"
    assert ours.ready().ready
    made = ours.create(["spam", "fine"], policy=adjudge.Policy(minimum_votes=2, confidence=0.5), model="ds")
    assert (made.name, made.model) == (name, "ds")
    assert ours.create(["spam", "fine"], policy={"minimum_votes": 2, "confidence": 0.5}, model="ds").position == made.position, (
        "idempotent"
    )
    assert name in ours.campaigns()

    assert ours.vote("a/b", "ann", "spam").status == "open"
    assert ours.vote("a/b", "bob", "spam").status == "decided"
    assert ours.vote_many([("..", worker, "fine") for worker in ("ann", "bob")]).accepted == 2
    assert [one.votes for one in ours.stream([("s", "ann", "spam"), ("s", "bob", "spam")], window=1)] == [1, 2]
    assert ours.vote("s", "ann", "spam", id="mine").votes == ours.vote("s", "ann", "spam", id="mine").votes
    with pytest.raises(errors.Conflict):
        ours.vote("s", "bob", "fine", id="mine")
    assert ours.retract("s", "bob").votes == 1
    with pytest.raises(errors.NotFound, match="has no vote on task"):
        ours.retract("s", "bob")
    assert {(vote.task, vote.worker) for vote in ours.votes()} == {
        ("a/b", "ann"),
        ("a/b", "bob"),
        ("..", "ann"),
        ("..", "bob"),
        ("s", "ann"),
    }

    view = ours.task("a/b")
    assert (view.decision.label, len(view.evidence)) == ("spam", 2)
    assert view.why
    assert {one.task for one in ours.tasks()} == {"a/b", "..", "s"}
    assert {one.task for one in ours.tasks(status="decided", sort="age")} == {"a/b", ".."}
    assert [one.status for one in ours.history("..")] == ["decided"]
    assert ours.add_tasks(["new", "s", {"task": "shown", "data": {"text": "Buy"}}]).position > 0
    assert ours.task("shown").data == {"text": "Buy"}
    assert ours.erase_data("shown").position > 0
    assert ours.task("shown").data is None
    assert {one.task for one in ours.next("eve", n=9)} >= {"s"}
    assert ours.gold("a/b", "spam").label == "spam"
    assert ours.task("a/b").gold == "spam"
    ours.gold("a/b", None)
    with pytest.raises(errors.Conflict, match="has changed since"):
        ours.override("s", "fine", position=1)
    assert ours.override("s", "fine", by="mod", reason="seen").by == "mod"
    assert ours.reopen("s", by="mod").status == "open"

    assert {one.worker for one in ours.workers()} >= {"ann", "bob"}
    assert ours.set_worker("ann", group="team", expert=True).group == "team"
    assert ours.worker("ann").expert
    assert ours.ban("bob", dry_run=True).dry_run
    assert not ours.worker("bob").banned
    assert not ours.ban(["bob", "ann"], by="mod", reason="ring").dry_run
    assert ours.worker("bob").banned
    ours.unban("bob", by="mod")
    assert not ours.worker("bob").banned
    assert ours.erase_worker("ann").position > 0
    with pytest.raises(errors.NotFound):
        ours.worker("ann")

    assert ours.add_label("rude", name="Rude")[-1].name == "Rude"
    assert ours.rename_label("rude", "Impolite")[-1].name == "Impolite"
    assert ours.change(names={"rude": "Rude again"}).labels[-1].name == "Rude again"
    assert ours.set_policy(adjudge.Policy(minimum_votes=5), by="mod").version == 2
    assert ours.policy().policy["minimum_votes"] == 5
    assert len(ours.policies()) == 2
    assert ours.backtest({"minimum_votes": 1}).tasks > 0
    assert ours.refit().position > 0
    assert ours.reset_breaker(by="mod").position > 0
    assert ours.describe().policy == 2

    assert ours.set_policy({"minimum_votes": 1, "confidence": 0.1, "audit": {"share": 1.0}}).policy["audit"]["error"] == 0.05
    drawn = ours.vote("audited", "ann", "spam")
    assert drawn.status == "decided"
    assert [one.task for one in ours.queue(by="eve", n=100) if one.task == "audited"] == ["audited"]
    waiting = ours.audits().waiting
    assert ours.judge("audited", "fine", by="eve").position > 0
    assert (ours.audits().waiting, ours.audits().wrong) == (waiting - 1, int(drawn.label != "fine"))
    with pytest.raises(errors.Conflict, match="does not wait"):
        ours.judge("audited", "fine", by="eve")
    assert ours.task("audited").decision.label == "fine"

    hook = ours.add_webhook("https://example.org/hook", statuses=["decided"])
    assert hook.secret
    assert [one.id for one in ours.webhooks()] == [hook.id]
    assert ours.delete_webhook(hook.id) == []
    assert ours.dead_letters() == []
    with pytest.raises(errors.NotFound):
        ours.redeliver(17)
    decisions = ours.decisions()
    assert [one.task for one in decisions[:2]] == ["a/b", ".."]
    events = ours.events(after=0)
    told = ours.take(events, len(decisions))
    assert told == decisions
    assert ours.decisions(after=events.last) == []
    asked = set(re.findall(r'requests_total\{route="([^"]+)"', ours.metrics()))
    asked |= set(re.findall(r'requests_total\{route="([^"]+)"', ours.metrics()))  # this one is counted when it is answered
    assert {route.name for route in ROUTES} - asked == NOT_OURS, "every route has a call"


def test_both_clients_have_the_same_calls():
    def calls(kind):
        return {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    ours, theirs = calls(adjudge.Client), calls(adjudge.AsyncClient)
    assert list(ours) == list(theirs)
    assert inspect.signature(adjudge.Client).parameters == inspect.signature(adjudge.AsyncClient).parameters
    for name, call in ours.items():
        own, other = (inspect.signature(one).parameters for one in (call, theirs[name]))
        assert list(own) == list(other), name
        for parameter in own:
            assert (own[parameter].default, own[parameter].kind) == (other[parameter].default, other[parameter].kind), name
        assert theirs[name] is call or f"s for `Client.{name}`" in theirs[name].__doc__ or name == "close"
        missing = [
            parameter for parameter in own if parameter != "self" and not re.search(rf"\b{parameter}\b.* : ", call.__doc__)
        ]
        assert missing == [], name


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as there:
        return there.getsockname()[1]


def test_a_restart_loses_and_repeats_nothing(client, tmp_path):
    """Votes are streamed and decisions followed while the service stops and comes back."""
    port, store, number = free_port(), tmp_path / "votes.db", 300
    asked, back = threading.Event(), threading.Event()
    seen, problems = [], []

    def votes():
        for n in range(number):
            if n == number // 2:
                asked.set()
                assert back.wait(60)
            yield f"t{n // 3}", f"w{n % 3}", "spam"

    def follow(address):
        try:
            with Client(address, deadline=60, retries=100) as watching, watching.events(after=0) as events:
                for decision in events:
                    seen.append(decision)
                    if len(seen) == number // 3:
                        return
        except errors.ServiceError as error:
            problems.append(error)

    def restarts():
        with running(labels=["spam", "fine"], store=store, port=port):
            assert asked.wait(60)
        with running(store=store, port=port):
            back.set()
            done.wait(60)

    done = threading.Event()
    server = threading.Thread(target=restarts)
    server.start()
    address = f"http://127.0.0.1:{port}"
    ours = client(address, deadline=60, retries=100)
    ours.health()
    watcher = threading.Thread(target=follow, args=(address,))
    watcher.start()
    try:
        answered = ours.stream(votes(), window=20)
        assert [one.task for one in answered] == [f"t{n // 3}" for n in range(number)]
        watcher.join(60)
        assert problems == []
        assert [one.task for one in seen] == [f"t{n}" for n in range(number // 3)]
        assert all(one.status == "decided" for one in seen)
        view = ours.describe()
        assert (view.votes, view.position) == (number, number + 1), "no vote is there twice"
    finally:
        back.set()
        done.set()
        server.join(60)


def test_threads_share_a_client(url):
    with adjudge.Client(url, campaign="threads") as ours:
        ours.create(["spam", "fine"])
        threads = [
            threading.Thread(target=lambda w=w: [ours.vote(f"t{n}", f"w{w}", "spam") for n in range(20)]) for w in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (ours.describe().votes, len(list(ours.tasks()))) == (120, 20)


def test_calls_are_awaited_at_once(url):
    async def ask():
        async with adjudge.AsyncClient(url, campaign="at once") as ours:
            await ours.create(["spam", "fine"])
            await asyncio.gather(*(ours.vote("t", f"w{n}", "spam") for n in range(30)))
            return (await ours.describe()).votes

    assert asyncio.run(ask()) == 30


def test_an_asynchronous_source_is_taken(url):
    async def votes():
        for n in range(5):
            await asyncio.sleep(0)
            yield "t", f"w{n}", "spam"

    async def ask():
        async with adjudge.AsyncClient(url, campaign="source") as ours:
            await ours.create(["spam", "fine"])
            streamed = [one.votes async for one in ours.stream(votes(), window=1)]
            return streamed, (await ours.vote_many(votes(), ids=False)).repeated

    assert asyncio.run(ask()) == ([1, 2, 3, 4, 5], 5)


def test_a_stream_that_is_left_lets_go(url):
    with adjudge.Client(url, campaign="left") as ours:
        ours.create(["spam", "fine"])
        stream = ours.stream(((f"t{n}", "w", "spam") for n in range(100)), window=2)
        next(stream)
        stream.close()
        assert 1 <= ours.describe().votes <= 3


def test_a_service_that_cannot_start_says_why(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as there:
        ours = running(port=there.getsockname()[1])
        with pytest.raises(adjudge.AdjudgeError, match="cannot listen on 127.0.0.1"):
            ours.__enter__()


def test_nothing_of_the_server_is_needed():
    code = "import adjudge; c = adjudge.Client(); adjudge.AsyncClient(); import sys; print(*sys.modules)"
    modules = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not modules & {"starlette", "uvicorn", "uvloop", "polars", "pandas", "typer", "rich", "httptools", "psycopg"}
    server = ("adjudge.service.store", "adjudge.service.http.", "adjudge.io", "adjudge.models")
    loaded = {name for name in modules if name.startswith(server)}
    assert loaded <= {"adjudge.service.http.types", "adjudge.service.http.errors"}
    code = "import adjudge, sys; print(*sys.modules)"
    assert (
        "adjudge.service.client"
        not in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


@pytest.fixture
def secured(tmp_path):
    """A server with a certificate of its own making: (port, the certificate)."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"status": "ok"}')

        def do_POST(self):  # a stream of one vote
            line = json.loads(self.rfile.read(int(self.rfile.readline(), 16)))
            told = Decision(line["task"], "spam", 0.9, "open", 1, 1, datetime(2026, 1, 1, tzinfo=UTC), 1, "minimum_votes")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(msgspec.json.encode(told) + b"\n")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    server.shutdown()
    server.server_close()
    thread.join(30)


def test_certificates_are_checked(client, secured, monkeypatch):
    address, certificate = secured
    vote = ("t1", "ann", "spam")
    with pytest.raises(errors.ConnectionFailed, match="certificate of .* is not trusted"):
        client(address).health()
    with pytest.raises(errors.ConnectionFailed, match="certificate of .* is not trusted"):
        client(address).stream([vote])
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert client(address).health().status == "ok"
    assert [one.task for one in client(address).stream([vote])] == ["t1"]
