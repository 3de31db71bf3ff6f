"""Random requests to a real server, compared with a naive fold: legal and illegal ones, killed servers, a clock that jumps,
clients that do not read, tokens that are revoked; over SQLite, and over PostgreSQL where its programs are installed.
"""

import http.client
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.parse import quote

import postgres
from fuzzing._naive import Naive
from quorate.live.replay import check
from quorate.service import tokens
from quorate.store.beside import open_beside
from quorate.store.opening import open_store
from quorate.store.verify import verify

SERVER = Path(__file__).with_name("_clocked_server.py")
BASE = "/v1/campaigns/default"
WAIT_S = 30
REVOKED_S = 3.0  # the promise is one second; the machine may be busy
TASKS = [f"t{n}" for n in range(8)] + ["ü/%?#", "\u202e", "."]
WORKERS = [f"w{n}" for n in range(6)] + ["ann@example.org", "né"]
POLICIES = (
    {},
    {"minimum_votes": 1, "confidence": 0.6},
    {"minimum_votes": 2, "confidence": 0.6, "hold": 0.3},
    {"minimum_votes": 2, "confidence": 0.6, "lock": 0.2, "hysteresis": 0.1},
    {"minimum_votes": 1, "confidence": 0.6, "probation": {"votes": 2, "accuracy": 0.5}},
    {"minimum_votes": 2, "confidence": 0.6, "experts": {"decide": True}, "escalate": {"disagreement": 0.4, "tie": True}},
    {"minimum_votes": 2, "confidence": 0.6, "quorum": {"groups": 2, "votes": 1}},
    {"minimum_votes": 1, "confidence": 0.5, "breakers": {"window": 4}},
    {"minimum_votes": 1, "costs": {"*": {"*": 1.0}}, "maximum_cost": 0.4},
)
ILLEGAL = (
    ("POST", f"{BASE}/votes", b"{", {400}),
    ("POST", f"{BASE}/votes", b"\xff\xfe", {400}),
    ("POST", f"{BASE}/votes", b"[" * 5000, {400, 422}),
    ("POST", f"{BASE}/votes", b'{"task": "", "worker": "w", "label": "a"}', {422}),
    ("POST", f"{BASE}/votes", b'{"task": "t", "worker": "w", "label": "a", "more": 1}', {422}),
    ("POST", f"{BASE}/votes", json.dumps({"task": "x" * 257, "worker": "w", "label": "a"}).encode(), {422}),
    ("POST", f"{BASE}/votes?x=1", b"[]", {422}),
    ("GET", f"{BASE}/votes?limit=0", None, {400, 422}),
    ("GET", f"{BASE}/tasks?after=zzz", None, {400, 422}),
    ("PUT", f"{BASE}/policy", b'{"policy": {"confidence": 7}}', {422}),
    ("PUT", f"{BASE}/tasks/t0/gold", b'{"label": "nobody knows it"}', {422}),
    ("DELETE", f"{BASE}/votes", b'{"task": "unknown", "worker": "unknown"}', {404}),
    ("POST", f"{BASE}/workers/unknown/ban", None, {404}),
    ("GET", f"{BASE}/tasks/unknown", None, {404}),
    ("GET", "/v1/campaigns/other", None, {404}),
    ("PATCH", "/healthz", None, {405}),
    ("GET", "/nothing", None, {404}),
)
STEPS = {
    "vote": 12,
    "batch": 6,
    "stream": 2,
    "retract": 3,
    "gold": 2,
    "override": 2,
    "reopen": 1,
    "ban": 2,
    "preview": 1,
    "unban": 2,
    "worker": 2,
    "erase": 1,
    "policy": 1,
    "label": 1,
    "tasks": 1,
    "refit": 1,
    "retention": 1,
    "annotate": 4,
    "illegal": 4,
    "check": 3,
    "slow": 1,
}
RARE = ("kill", "kill", "jump", "revoke")  # one of them in most cases: each takes seconds


def run(seed):
    """Make one case from a seed, and raise AssertionError where the service is wrong."""
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="quorate-fuzz-service-") as folder:
        case = Case(random, Path(folder))
        try:
            case.run()
        finally:
            case.end()


class Case:
    """One server, one store, one client that does one thing after the other, and one that listens."""

    def __init__(self, random, folder):
        self.random, self.naive = random, Naive(["a", "b", "c"])
        has_postgres = postgres.programs() is not None and importlib.util.find_spec("psycopg") is not None
        is_postgres = has_postgres and random.random() < 0.3
        self.store = postgres.server().fresh(f"fuzz_{os.getpid()}") if is_postgres else str(folder / "votes.db")
        self._offset = os.open(folder / "offset", os.O_RDWR | os.O_CREAT, 0o600)
        self.offset_path = folder / "offset"
        self.move_clock(0.0)
        self.slow, self.process, self.listener, self.stamp, self.count = [], None, None, 0, 0
        self.token = self.add_token("admin", "admin") if random.random() < 0.8 else None
        self.start()

    def add_token(self, name, scope):
        store, secret = open_beside(self.store), tokens.make()
        try:
            store.tokens.add(tokens.digest(secret), name, tokens.scopes(scope), None, time.time_ns() // 1000)
        finally:
            store.close()
        return secret

    # --- the process

    def start(self):
        command = [sys.executable, str(SERVER), self.store, str(self.offset_path)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "listens on" in line:
                break
        assert any("listens on" in line for line in said), "".join(said)
        self.said, self.port = said, int(said[-1].rpartition(":")[2])
        threading.Thread(target=said.extend, args=[self.process.stderr], daemon=True).start()

    def move_clock(self, seconds):
        os.pwrite(self._offset, struct.pack("<d", seconds), 0)

    def end(self):
        if self.listener is not None:
            self.listener.stop()
        for sock in self.slow:
            sock.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        os.close(self._offset)

    # --- requests

    def request(self, method, path, body=None, token=None):
        """The status, and what was answered."""
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status < 500 or answer.status == 503, (answer.status, method, path, text, "".join(self.said)[-3000:])
        return answer.status, json.loads(text)

    def ask(self, method, path, body=None, *, refused=None):
        """Send a request until it is not answered 503; it must succeed, or be refused as expected."""
        end = time.monotonic() + WAIT_S
        while True:
            status, answer = self.request(method, path, body)
            if status != 503:
                break
            assert time.monotonic() < end, (method, path, answer)
            time.sleep(0.1)
        if refused is None:
            assert status in (200, 201, 202), (status, method, path, body, answer)
        else:
            assert status in refused, (status, refused, method, path, body, answer)
        return answer

    def run(self):
        random = self.random
        self.ask("PUT", f"{BASE}/policy", {"policy": random.choice(POLICIES)})
        if random.random() < 0.5:
            self.ask("PATCH", BASE, {"retention": {"votes_days": 1}})
        self.listener = Listener(self)
        rare = [random.choice(RARE) for _ in range(random.choice((0, 1, 1, 2)))]
        steps = random.choices(list(STEPS), list(STEPS.values()), k=random.randrange(40, 120))
        for name in rare:
            steps.insert(random.randrange(len(steps)), name)
        for name in steps:
            getattr(self, f"do_{name}")()
        self.do_check()
        self.compare_listener()
        self.finish()

    # --- steps

    def vote(self):
        random = self.random
        self.count += 1
        vote = {
            "task": random.choice(TASKS),
            "worker": random.choice(WORKERS),
            "label": random.choice([*self.naive.labels, *(["unknown"] if random.random() < 0.02 else [])]),
        }
        chance = random.random()
        if chance < 0.2:
            vote["id"] = f"id-{self.count}"
        elif chance < 0.25 and self.naive.ids:  # once more, perhaps with other content
            vote["id"] = random.choice(list(self.naive.ids))
        return vote

    def cast(self, body, votes):
        refused = self.naive.refuses(votes)
        answer = self.ask("POST", f"{BASE}/votes", body, refused=None if refused is None else {refused})
        if refused is None:
            accepted = self.naive.cast(votes)
            assert (answer["accepted"], answer["repeated"]) == (accepted, len(votes) - accepted), (votes, answer)
            assert [one["task"] for one in answer["decisions"]] == list(dict.fromkeys(vote["task"] for vote in votes))

    def do_vote(self):
        vote = self.vote()
        self.cast(vote, [vote])

    def do_batch(self):
        votes = [self.vote() for _ in range(self.random.randrange(self.random.choice((3, 30))))]
        self.cast(votes, votes)

    def do_stream(self):
        votes = [self.vote() for _ in range(self.random.randrange(1, 20))]
        lines = b"\n".join(json.dumps(vote).encode() for vote in votes)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("POST", f"{BASE}/votes:stream", lines, headers)
        answer = connection.getresponse()
        told = [json.loads(line) for line in answer.read().splitlines()]
        connection.close()
        assert answer.status == 200, told
        assert len(told) == len(votes), (votes, told)
        for vote, line in zip(votes, told, strict=True):
            refused = self.naive.refuses([vote])
            assert ("error" in line) == (refused is not None), (vote, line)
            if refused is None:
                self.naive.cast([vote])

    def do_retract(self):
        known = [(task, self.naive.names[number]) for task, number in self.naive.votes if not task.startswith("7000")]
        known = [pair for pair in known if pair[1] is not None]
        if known:
            task, worker = self.random.choice(known)
            self.ask("DELETE", f"{BASE}/votes", {"task": task, "worker": worker})
            del self.naive.votes[task, self.naive.numbers[worker]]
            self.ask("DELETE", f"{BASE}/votes", {"task": task, "worker": worker}, refused={404})

    def do_gold(self):
        task, label = self.random.choice(TASKS), self.random.choice(self.naive.labels)
        path = f"{BASE}/tasks/{segment(task)}/gold"
        if task in self.naive.gold and self.random.random() < 0.5:
            self.ask("DELETE", path)
            del self.naive.gold[task]
        else:
            answer = self.ask("PUT", path, {"label": label})
            self.naive.gold[task] = label
            self.naive.tasks.add(task)
            if answer["reason"] == "gold":
                assert answer["label"] == label, answer

    def do_override(self):
        if self.naive.tasks:
            task, label = self.random.choice(sorted(self.naive.tasks)), self.random.choice(self.naive.labels)
            answer = self.ask("POST", f"{BASE}/tasks/{segment(task)}/override", {"label": label, "by": "eve"})
            assert (answer["status"], answer["label"], answer["by"]) == ("decided", label, "eve"), answer

    def do_reopen(self):
        if self.naive.tasks:
            task = self.random.choice(sorted(self.naive.tasks))
            self.ask("POST", f"{BASE}/tasks/{segment(task)}/reopen", {})

    def workers(self):
        return sorted(self.naive.numbers)

    def do_ban(self, dry_run=False):
        if not (known := self.workers()):
            return
        ring = self.random.sample(known, self.random.randrange(1, min(3, len(known)) + 1))
        answer = self.ask("POST", f"{BASE}/bans", {"workers": ring, "dry_run": dry_run, "by": "eve"})
        voted = {task for task, number in self.naive.votes if self.naive.names[number] in ring}
        assert {pair["before"]["task"] for pair in answer["changes"]} <= voted, answer
        if not dry_run:
            self.naive.banned |= {self.naive.numbers[worker] for worker in ring}

    def do_preview(self):
        self.do_ban(dry_run=True)

    def do_unban(self):
        banned = sorted(name for number in self.naive.banned if (name := self.naive.names[number]) is not None)
        if banned:
            worker = self.random.choice(banned)
            self.ask("POST", f"{BASE}/workers/{segment(worker)}/unban", {})
            self.naive.banned.discard(self.naive.numbers[worker])

    def do_worker(self):
        worker = self.random.choice(WORKERS)
        change = self.random.choice(({"group": "g1"}, {"group": "g2"}, {"expert": True}, {"expert": False}))
        self.ask("PATCH", f"{BASE}/workers/{segment(worker)}", change)
        self.naive.number(worker)

    def do_erase(self):
        if known := self.workers():
            worker = self.random.choice(known)
            if any(of == worker for _, of, *_ in self.naive.annotations.values()):
                return
            self.ask("DELETE", f"{BASE}/workers/{segment(worker)}")
            self.naive.names[self.naive.numbers.pop(worker)] = None

    def do_policy(self):
        self.ask("PUT", f"{BASE}/policy", {"policy": self.random.choice(POLICIES), "by": "eve"})

    def do_label(self):
        label = f"l{len(self.naive.labels)}"
        if len(self.naive.labels) < 6:
            self.ask("POST", f"{BASE}/labels", {"id": label, "name": label.upper()})
            self.naive.labels.append(label)
        self.ask("POST", f"{BASE}/labels", {"id": "a", "name": "again"}, refused={409})

    def do_tasks(self):
        tasks = self.random.sample(TASKS, 3)
        self.ask("POST", f"{BASE}/tasks", {"tasks": tasks})
        self.naive.tasks |= set(tasks)

    def do_refit(self):
        self.ask("POST", f"{BASE}/refit")

    def do_retention(self):
        few = self.random.choice((1, 3, 1000))
        self.ask("PATCH", BASE, {"retention": {"tasks": few, "waiting": few}})
        time.sleep(self.random.choice((0.0, 0.3)))

    def do_annotate(self):
        """Annotations of Label Studio: made, changed, cancelled, emptied, deleted."""
        random, known = self.random, self.naive.annotations
        self.stamp += 1
        number = random.choice(sorted(known)) if known and random.random() < 0.6 else len(known) + 100 + self.stamp
        if number in known and random.random() < 0.3:
            self.ask("POST", f"{BASE}/labelstudio", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}]})
            del known[number]
        else:
            is_known = number in known
            task, worker = known[number][:2] if is_known else (random.choice(("70001", "70002")), random.choice(("901", "902")))
            label = random.choice(self.naive.labels)
            cancelled, emptied = random.random() < 0.15, random.random() < 0.1
            choice = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
            annotation = {
                "id": number,
                "task": int(task),
                "completed_by": int(worker),
                "result": [] if emptied else [choice],
                "was_cancelled": cancelled,
                "updated_at": f"2026-01-01T{self.stamp // 3600:02}:{self.stamp // 60 % 60:02}:{self.stamp % 60:02}Z",
            }
            action = "ANNOTATION_UPDATED" if is_known else "ANNOTATION_CREATED"
            self.ask("POST", f"{BASE}/labelstudio", {"action": action, "annotation": annotation})
            known[number] = task, worker, None if cancelled or emptied else label, self.stamp
        self.naive.annotate()

    def do_illegal(self):
        method, path, body, statuses = self.random.choice(ILLEGAL)
        self.ask(method, path, body, refused=statuses)
        if self.token is not None:
            status, _ = self.request("POST", f"{BASE}/votes", [], token="qr_wrong")
            assert status == 401

    def do_check(self):
        """What readers are told is what the naive fold has."""
        votes, after = [], 0
        while after is not None:
            page = self.ask("GET", f"{BASE}/votes?after={after}&limit={self.random.choice((1, 7, 1000))}")
            votes += [(vote["task"], vote["worker"] or "", vote["label"]) for vote in page["votes"]]
            after = page["next"]
        assert sorted(votes) == self.naive.in_force(), (sorted(votes), self.naive.in_force())
        for task in self.random.sample(sorted(self.naive.tasks), min(3, len(self.naive.tasks))):
            view = self.ask("GET", f"{BASE}/tasks/{segment(task)}")
            told = sorted((vote["worker"] or "", vote["label"]) for vote in view["evidence"])
            wanted = self.naive.evidence(task)
            assert told == [(worker, label) for worker, label, _ in wanted], (task, told, wanted)
            aside = {(vote["worker"] or "", vote["label"]) for vote in view["evidence"] if not vote["counts"]}
            assert {(worker, label) for worker, label, banned in wanted if banned} <= aside, (task, aside, wanted)
            assert view["gold"] == self.naive.gold.get(task), view
        status, _ = self.request("GET", "/healthz")
        assert status == 200

    def do_slow(self):
        """Leave a connection that does not read, or does not finish what it began."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(5)
        sock.connect(("127.0.0.1", self.port))
        self.slow.append(sock)
        host = b"Host: 127.0.0.1\r\n"
        with suppress(OSError):
            sock.sendall(
                self.random.choice(
                    (
                        b"GET /openapi.json HTTP/1.1\r\n" + host + b"\r\n",
                        (b"GET /openapi.json HTTP/1.1\r\n" + host + b"\r\n") * 30,
                        b"GET /hea",
                        b"POST " + BASE.encode() + b"/votes HTTP/1.1\r\n" + host + b'Content-Length: 50\r\n\r\n{"task"',
                        b"GET /healthz HTTP/1.1\r\n" + host + b"X: " + b"x" * 10_000,
                    )
                )
            )

    # --- faults

    def do_kill(self):
        """Kill the server while votes come in: what was acknowledged is there, what was not can be sent again."""
        acknowledged, unknown, stop = [], [], threading.Event()
        prefix, random = f"k{self.count}", Random(self.random.random())

        def send():
            number = 0
            while not stop.is_set():
                number += 1
                vote = {"task": f"{prefix}-{number % 5}", "worker": f"k{number % 7}", "label": random.choice(["a", "b"])}
                vote["id"] = f"{prefix}-{number}"
                unknown.append(vote)
                try:
                    status, _ = self.request("POST", f"{BASE}/votes", vote)
                except (OSError, http.client.HTTPException):
                    return
                if status == 200:
                    acknowledged.append(unknown.pop())
                elif status == 503:
                    unknown.pop()

        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(self.random.random() * 0.2)
        self.process.send_signal(signal.SIGKILL)
        thread.join(WAIT_S)
        stop.set()
        self.process.wait(WAIT_S)
        for sock in self.slow:
            sock.close()
        self.slow.clear()
        self.start()
        self.count += 1000
        for vote in acknowledged:
            assert self.naive.refuses([vote]) is None
            self.naive.cast([vote])
            answer = self.ask("POST", f"{BASE}/votes", vote)
            assert (answer["accepted"], answer["repeated"]) == (0, 1), (vote, answer)
        for vote in unknown:
            self.ask("POST", f"{BASE}/votes", vote)
            self.naive.cast([vote])
        self.do_check()

    def do_jump(self):
        """Move the clock for a moment: votes may be refused meanwhile, and nothing is lost."""
        self.move_clock(self.random.choice((-1, 1)) * self.random.choice((20.0, 600.0, 86_400.0 * 3, 86_400.0 * 365)))
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            vote = self.vote()
            if self.naive.refuses([vote]) is None:
                status, answer = self.request("POST", f"{BASE}/votes", vote)
                assert status in (200, 503), (status, answer)
                if status == 200:
                    self.naive.cast([vote])
            time.sleep(0.05)
        self.move_clock(0.0)
        self.do_vote()
        self.do_check()

    def do_revoke(self):
        """Revoke a token that has streams open: they end, and cast nothing more."""
        if self.token is None:
            return
        self.count += 1
        name = f"revoked-{self.count}"
        token = self.add_token(name, "vote,read")
        wait_for(lambda: self.request("GET", BASE, token=token)[0] == 200)
        votes = Lines(self.port, "POST", f"{BASE}/votes:stream", token)
        vote = {"task": "t0", "worker": name, "label": "a"}
        votes.send(json.dumps(vote).encode() + b"\n")
        assert b'"task":"t0"' in votes.line()
        self.naive.cast([vote])
        events = Lines(self.port, "GET", f"{BASE}/events", token)
        assert events.line()
        store = open_beside(self.store)
        try:
            row = next(row for row in store.tokens.all() if row.name == name)
            store.tokens.revoke(row.number, time.time_ns() // 1000)
        finally:
            store.close()
        time.sleep(REVOKED_S)
        assert self.request("GET", BASE, token=token)[0] == 401
        with suppress(OSError):
            votes.send(json.dumps({**vote, "label": "b"}).encode() + b"\n")
        assert votes.ends(), "an open stream of votes outlives its token"
        assert events.ends(), "an open stream of events outlives its token"
        self.do_check()

    # --- the end

    def compare_listener(self):
        """Whoever listens, and resumes by id, has each decision of the log once, in order."""
        decisions, after = [], "0"
        while after is not None:
            page = self.ask("GET", f"{BASE}/decisions?after={after}")
            decisions += page["decisions"]
            after = page["next"]
        end = time.monotonic() + WAIT_S
        while len(self.listener.heard) < len(decisions) and time.monotonic() < end:
            time.sleep(0.05)
        self.listener.stop()
        heard = self.listener.heard[: len(decisions)]
        assert heard == decisions, f"{len(heard)} heard, {len(decisions)} in the log"

    def finish(self):
        """Stop the server in order; the log gives the same decisions, and every checksum is right."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0, "".join(self.said)[-3000:]
        store = open_store(self.store, readonly=True)
        try:
            for number, _ in store.campaigns():
                assert check(store, number).difference is None, check(store, number).difference
            assert [problem for one in verify(store) for problem in one.problems] == []
        finally:
            store.close()


class Listener:
    """Follows the events of the campaign from the first, and resumes with the last id it has seen."""

    def __init__(self, case):
        self._case, self._stopped = case, threading.Event()
        self.heard, self._last = [], None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stopped.set()

    def _run(self):
        while not self._stopped.is_set():
            with suppress(OSError, http.client.HTTPException):
                self._read()
            time.sleep(0.02)

    def _read(self):
        case = self._case
        headers = {"Authorization": f"Bearer {case.token}"} if case.token else {}
        if self._last is not None:
            headers["Last-Event-ID"] = self._last
        connection = http.client.HTTPConnection("127.0.0.1", case.port, timeout=5)
        try:
            connection.request("GET", f"{BASE}/events?after=0", headers=headers)
            answer = connection.getresponse()
            fields = {}
            for line in answer:
                if self._stopped.is_set():
                    return
                text = line.decode().rstrip("\n")
                if not text and fields.get("event") == "decision":
                    self._last = fields["id"]
                    self.heard.append(json.loads(fields["data"]))
                if not text:
                    fields = {}
                elif not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    fields[name] = value
        finally:
            connection.close()


class Lines:
    """A request whose answer is lines, over a bare socket; a body goes out in chunks."""

    def __init__(self, port, method, path, token):
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        chunked = "Transfer-Encoding: chunked\r\n" if method == "POST" else ""
        self._sock.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{chunked}\r\n".encode()
        )
        self._file = self._sock.makefile("rb")
        while self._file.readline().strip():
            pass  # the header

    def send(self, data):
        self._sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def line(self):
        """The next line that is not the length of a chunk."""
        while True:
            line = self._file.readline()
            if not line or not all(letter in b"0123456789abcdefABCDEF\r\n" for letter in line):
                return line

    def ends(self):
        """Whether the answer ends within some seconds; what comes before that is no decision."""
        self._sock.settimeout(REVOKED_S)
        try:
            while line := self.line():
                if b'"status"' in line and b"error" not in line:
                    return False
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


def segment(text):
    return quote(text, safe="").replace(".", "%2E")


def wait_for(holds):
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
