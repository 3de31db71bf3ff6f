"""The live service under random requests, kills, clock jumps, slow clients and revoked tokens, against a naive fold.

`run(seed)` starts a real server over SQLite or PostgreSQL, sends legal and illegal requests, and compares every answer and
read with `NaiveCampaign`. What the model alone knows (probabilities, decisions by votes) is compared with a replay of the log.
At the end each acknowledged vote is in the log exactly once, `/events` has told each decision once, and `doctor` and
`replay` find nothing wrong.

`python -m fuzzing --case service SEED` runs a case again; when the server is killed within a request differs from run to run.
"""

import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path

from adjudge.service.http import tokens
from crashing.server import small
from fuzzing._naive_campaign import NaiveCampaign, Refused
from fuzzing._service_process import ANSWER_S, FuzzedServer, HealthPoller, Listener, SlowClient, send
from service.serving import segment

PATH = "/v1/campaigns/c"
TASKS = [*(f"t{n}" for n in range(9)), "a/b", "..", "ü\u202e", "x" * 256, " "]
WORKERS = ["ann", "bob", "cy", "dee", "w/é", "%41"]
STUDIO_TASKS, STUDIO_WORKERS = (901, 902), (71, 72)  # no other request touches these
GROUPS = ("north", "south")
POLICIES = (
    {"minimum_votes": 2, "confidence": 0.6},
    {"minimum_votes": 1, "maximum_votes": 3, "confidence": 0.7, "hold": 0.3},
    {"minimum_votes": 2, "confidence": 0.55, "lock": 0.5, "hysteresis": 0.1},
    {"minimum_votes": 1, "confidence": 0.6, "probation": {"votes": 2, "accuracy": 0.5}},
    {"minimum_votes": 2, "confidence": 0.6, "experts": {"decide": True}, "escalate": {"disagreement": 0.4, "tie": True}},
    {"minimum_votes": 2, "confidence": 0.6, "quorum": {"groups": 2, "votes": 1}},
    {"minimum_votes": 1, "confidence": 0.5, "breakers": {"window": 4}},
    {"minimum_votes": 1, "costs": {"*": {"*": 1.0}}, "maximum_cost": 0.4},
    {"minimum_votes": 1, "confidence": 0.5, "audit": {"share": 0.6, "error": 0.3, "run": 10, "deadline_days": 30}},
)
RETENTIONS = ({}, {"tasks": 2, "waiting": 4}, {"tasks": 3}, {"votes_days": 30.0})
SCOPES = ("vote", "read", "moderate", "admin")
BY_PERSON = ("override", "audit")
REVOKED_WITHIN_S = 3.0  # promised: one second; the machine may be busy
YEAR_S = 366 * 86_400.0

OPERATIONS = {
    "vote": 30,
    "batch": 8,
    "stream": 6,
    "retract": 5,
    "repeat": 5,
    "gold": 3,
    "drop_gold": 2,
    "override": 3,
    "reopen": 2,
    "judge": 4,
    "ban": 4,
    "unban": 3,
    "worker": 3,
    "label": 1,
    "policy": 2,
    "refit": 2,
    "tasks": 2,
    "studio": 5,
    "read": 14,
    "malformed": 8,
    "unauthorized": 4,
    "trickle": 4,
    "tick": 3,
}


def run(seed):
    """Run the case of this seed; an answer, a read or a log that is wrong is an AssertionError."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="adjudge-fuzz-service-") as folder:
        wants_postgres = draw.random() < 0.35
        store = _postgres() if wants_postgres else None
        case = Case(draw, store or str(Path(folder) / "votes.db"), Path(folder))
        try:
            case.play()
        except BaseException as error:
            where = f"seed {seed}, {'PostgreSQL' if store else 'SQLite'}, retention {case.retention}"
            error.add_note(f"{where}; last requests: {case.said[-12:]}")
            raise
        finally:
            case.close()


def _postgres():
    """Return the address of an empty database, or None if PostgreSQL cannot run here."""
    server = _cluster()
    return None if server is None else server.fresh(f"fuzz{os.getpid()}")


@cache
def _cluster():
    import pytest

    import postgres

    try:
        return postgres.server()
    except pytest.skip.Exception as reason:
        print(f"cases of the service run over SQLite alone: {reason}")
        return None


class Case:
    """One case: a server, the naive fold of its acknowledged requests, and the faults."""

    def __init__(self, draw, store, folder):
        self.draw, self.store, self.folder = draw, store, folder
        self.said = []
        self.server = FuzzedServer(store, folder / "clock")
        self.tokens = self._make_tokens()
        self.retention = draw.choice(RETENTIONS)
        self.fold = NaiveCampaign(["spam", "ok", "unsure"][: draw.choice((2, 3))])
        self.policy = draw.choice(POLICIES)
        self.slow = []
        self.threads = []
        self.sent_ids = 0

    def _make_tokens(self):
        from adjudge.service.store.opening import open_token_store

        made = {name: tokens.make_token() for name in (*SCOPES, "revoked", "listener", "elsewhere")}
        opened = open_token_store(self.store)
        try:
            for name, secret in made.items():
                scope = {"revoked": "vote,read", "listener": "read", "elsewhere": "admin"}.get(name, name)
                campaign = "other" if name == "elsewhere" else None
                opened.tokens.add(tokens.hash_token(secret), name, tokens.parse_scopes(scope), campaign, time.time_ns() // 1000)
        finally:
            opened.close()
        return made

    # --- the story

    def play(self):
        self.server.start()
        self.server.until_ready()
        spec = {
            "labels": self.fold.labels,
            "policy": self.policy,
            "retention": self.retention,
            "refit": {"votes": 25, "share": 0.0},
            "model": self.draw.choice(("fds", "ds", "auto")),
        }
        assert self.ask("PUT", PATH, spec)[0] == 201
        self.listener = Listener(self.server, PATH, self.tokens["listener"])
        self.threads = [self.listener, HealthPoller(self.server)]
        for thread in self.threads:
            thread.start()
        steps = self.draw.randint(40, 90)
        events = dict.fromkeys(self.draw.sample(range(10, steps), self.draw.randint(0, 2)), self.kill)
        events |= dict.fromkeys(self.draw.sample(range(5, steps), 2), self.move_clock)
        if self.draw.random() < 0.5:
            events[steps - 3] = self.revoke
        if self.retention.get("votes_days") or self.draw.random() < 0.2:
            events[self.draw.randrange(20, steps - 4)] = self.jump_a_year
        kinds, weights = list(OPERATIONS), list(OPERATIONS.values())
        for step in range(steps):
            if step in events:
                events[step]()
            kind = self.draw.choices(kinds, weights)[0]
            self.said.append(kind)
            getattr(self, f"do_{kind}")()
        self.check_all()
        self.check_end()

    def ask(self, method, path, body=None, *, token="admin", **more):
        """Send a request until the status is not 503; return status and decoded body."""
        ends = time.monotonic() + ANSWER_S
        while True:
            self.said.append(f"{method} {path[len(PATH) :] or '/'} {'' if body is None else str(body)[:120]}")
            answer = send(self.server.port, method, path, body, token=self.tokens.get(token), **more)
            assert answer is None or answer[0] == 503 or answer[0] < 500, answer
            if answer is not None and answer[0] != 503:
                return answer[0], json.loads(answer[1]) if answer[1] else None
            assert time.monotonic() < ends, f"no answer but {answer}"
            time.sleep(0.05)

    def expect(self, change, method, path, body=None, *, token="admin"):
        """Send a request whose outcome the fold knows: a change that returns what the answer has to say, or refuses."""
        try:
            wanted, refused = change(), None
        except Refused as refusal:
            wanted, refused = None, refusal.status
        status, answer = self.ask(method, path, body, token=token)
        if refused is not None:
            assert status == refused, (status, refused, answer)
        else:
            assert status in (200, 201, 202), (status, answer)
        return wanted, answer if refused is None else None

    # --- operations

    def new_vote(self):
        vote = {"task": self.draw.choice(TASKS), "worker": self.draw.choice(WORKERS), "label": self.draw.choice(self.fold.labels)}
        if self.draw.random() < 0.5:
            self.sent_ids += 1
            vote["id"] = f"id {self.sent_ids}"
        if self.draw.random() < 0.03:
            vote["label"] = "no such label"
        if self.fold.ids and self.draw.random() < 0.05:
            vote["id"] = self.draw.choice(sorted(self.fold.ids))  # of another vote, most likely
        return vote

    def do_vote(self):
        self.send_votes([self.new_vote()], single=True)

    def do_batch(self):
        self.send_votes([self.new_vote() for _ in range(self.draw.choice((0, 2, 3, 10)))])

    def do_repeat(self):
        """Send again what was taken: with its id, or the same label."""
        if self.fold.ids and self.draw.random() < 0.6:
            mark = self.draw.choice(sorted(self.fold.ids))
            task, worker, label = self.fold.ids[mark]
            self.send_votes([{"task": task, "worker": worker, "label": label, "id": mark}], single=True)
        elif plain := [key for key in sorted(self.fold.votes) if key[0] in TASKS]:
            task, worker = self.draw.choice(plain)
            self.send_votes([{"task": task, "worker": worker, "label": self.fold.votes[task, worker][0]}], single=True)

    def send_votes(self, votes, *, single=False):
        body = votes[0] if single else votes
        counts, answer = self.expect(lambda: self.fold.vote(votes), "POST", f"{PATH}/votes", body, token="vote")
        if answer is None:
            return
        assert (answer["accepted"], answer["repeated"]) == counts, (answer, counts)
        assert [one["task"] for one in answer["decisions"]] == list(dict.fromkeys(vote["task"] for vote in votes))
        for decision in answer["decisions"]:
            self.check_decision(decision)

    def do_stream(self):
        """A short stream, lines that cannot be taken among the others."""
        lines, fails = [], []
        for _ in range(self.draw.randint(1, 12)):
            if self.draw.random() < 0.1:
                lines.append(
                    self.draw.choice((b"{", b"[]", b'{"task": 1}', b'{"task": "t", "worker": "w", "label": "spam", "x": 1}'))
                )
                fails.append(True)
                continue
            vote = self.new_vote()
            lines.append(json.dumps(vote).encode())
            try:
                self.fold.vote([vote])
                fails.append(False)
            except Refused:
                fails.append(True)
        answer = send(self.server.port, "POST", f"{PATH}/votes:stream", b"\n".join(lines), token=self.tokens["vote"])
        assert answer is not None, "a stream was not answered"
        assert answer[0] == 200, answer
        said = [json.loads(line) for line in answer[1].splitlines()]
        assert [("error" in one) for one in said] == fails, (lines, said)

    def do_retract(self):
        plain = [key for key in sorted(self.fold.votes) if key[0] in TASKS]
        known = plain and self.draw.random() < 0.8
        task, worker = self.draw.choice(plain) if known else (self.draw.choice(TASKS), self.draw.choice(WORKERS))
        key = {"task": task, "worker": worker}
        _, decision = self.expect(lambda: self.fold.retract(task, worker), "DELETE", f"{PATH}/votes", key, token="vote")
        if decision is not None:
            self.check_decision(decision)

    def do_gold(self):
        task, label = self.draw.choice(TASKS), self.draw.choice([*self.fold.labels, "?"])
        path = f"{PATH}/tasks/{segment(task)}/gold"
        _, decision = self.expect(lambda: self.fold.set_gold(task, label), "PUT", path, {"label": label}, token="moderate")
        if decision is not None:
            self.check_decision(decision)
            assert task in self.fold.overrides or decision["label"] == label, decision

    def do_drop_gold(self):
        task = self.draw.choice(sorted(self.fold.gold) or TASKS)
        self.expect(lambda: self.fold.drop_gold(task), "DELETE", f"{PATH}/tasks/{segment(task)}/gold", token="moderate")

    def do_override(self):
        task, label = self.draw.choice(TASKS), self.draw.choice(self.fold.labels)
        body = {"label": label, "by": "mo", "reason": "looked at it"}
        path = f"{PATH}/tasks/{segment(task)}/override"
        _, decision = self.expect(lambda: self.fold.override(task, label), "POST", path, body, token="moderate")
        if decision is not None:
            self.check_decision(decision)

    def do_judge(self):
        """Judge tasks from the queue, blind. Time may have decided one since: then it is refused."""
        status, answer = self.ask("GET", f"{PATH}/queue?by=mo&n=3", token="moderate")
        assert status == 200, answer
        for row in answer["tasks"]:
            assert set(row) == {"task", "data"}, row
            task, label = row["task"], self.draw.choice(self.fold.labels)
            status, answer = self.ask("POST", f"{PATH}/queue", {"task": task, "label": label, "by": "mo"}, token="moderate")
            assert status in (200, 409), answer
            _, view = self.ask("GET", f"{PATH}/tasks/{segment(task)}", token="read")
            if view["decision"]["reason"] in BY_PERSON and task not in self.fold.overrides:
                assert view["decision"]["label"] == label, view
                self.fold.overrides[task] = label
            assert status == 409 or task in self.fold.overrides or task in self.fold.gold, view

    def do_reopen(self):
        task = self.draw.choice(TASKS)
        self.expect(lambda: self.fold.reopen(task), "POST", f"{PATH}/tasks/{segment(task)}/reopen", token="moderate")

    def do_ban(self):
        workers, dry_run = (
            sorted(set(self.draw.choices([*WORKERS, "nobody"], k=self.draw.randint(1, 3)))),
            self.draw.random() < 0.4,
        )
        change = lambda: self.fold.ban(workers, banned=True, dry_run=dry_run)  # noqa: E731
        if len(workers) == 1:
            self.expect(change, "POST", f"{PATH}/workers/{segment(workers[0])}/ban", {"dry_run": dry_run}, token="moderate")
        else:
            self.expect(change, "POST", f"{PATH}/bans", {"workers": workers, "dry_run": dry_run, "by": "mo"}, token="moderate")

    def do_unban(self):
        worker, dry_run = self.draw.choice(sorted(self.fold.banned) or WORKERS), self.draw.random() < 0.3
        change = lambda: self.fold.ban([worker], banned=False, dry_run=dry_run)  # noqa: E731
        self.expect(change, "POST", f"{PATH}/workers/{segment(worker)}/unban", {"dry_run": dry_run}, token="moderate")

    def do_worker(self):
        worker, group, expert = (
            self.draw.choice(WORKERS),
            self.draw.choice((None, *GROUPS)),
            self.draw.choice((None, True, False)),
        )
        body = {name: value for name, value in (("group", group), ("expert", expert)) if value is not None}
        path = f"{PATH}/workers/{segment(worker)}"
        self.expect(lambda: self.fold.set_worker(worker, group, expert), "PATCH", path, body, token="moderate")

    def do_label(self):
        label = self.draw.choice(("spam", "more", "most"))
        self.expect(lambda: self.fold.add_label(label), "POST", f"{PATH}/labels", {"id": label, "name": label.upper()})

    def do_policy(self):
        if self.draw.random() < 0.2:
            bad = self.draw.choice(({"minimum_votes": 0}, {"confidence": 2}, {"no": 1}, {"hold": -1}, {"quorum": {"groups": 99}}))
            status, answer = self.ask("PUT", f"{PATH}/policy", {"policy": bad})
            assert status == 422, (status, answer)
            return
        before, self.policy = self.policy, self.draw.choice(POLICIES)
        status, answer = self.ask("PUT", f"{PATH}/policy", {"policy": self.policy, "by": "mo"})
        assert status == 200, answer
        self.fold.policies += before != self.policy  # an identical policy makes no new version
        assert answer["version"] == self.fold.policies, answer

    def do_refit(self):
        status, answer = self.ask("POST", f"{PATH}/refit")
        assert status == 202, answer

    def do_tasks(self):
        some = self.draw.sample(TASKS, 2)
        self.expect(lambda: self.fold.add_tasks(some), "POST", f"{PATH}/tasks", {"tasks": some}, token="vote")

    def do_studio(self):
        """A webhook of Label Studio: an annotation made, sent again, changed, cancelled, left without a choice or deleted."""
        fold, draw = self.fold, self.draw
        known = sorted(fold.annotations)
        action = draw.choice(("make", "change", "change", "cancel", "clear", "delete", "again")) if known else "make"
        self.sent_ids += 1
        if action == "make":
            number, task, worker = 1000 + self.sent_ids, draw.choice(STUDIO_TASKS), draw.choice(STUDIO_WORKERS)
        else:
            number = draw.choice(known)
            task, worker = (int(text) for text in fold.annotations[number][:2])
        if action == "delete":
            body = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}]}
            fold.drop_annotation(number)
        else:
            label, updated = draw.choice(fold.labels), f"2026-01-01T00:00:00.{self.sent_ids:06d}Z"
            if action == "again":
                *_, label, updated = fold.annotations[number]
            elif action in ("cancel", "clear"):
                label = None
            shown = [] if label is None else [{"from_name": "kind", "type": "choices", "value": {"choices": [label]}}]
            annotation = {"id": number, "task": task, "completed_by": worker, "result": shown, "updated_at": updated}
            annotation["was_cancelled"] = action == "cancel"
            made = "ANNOTATION_CREATED" if action == "make" else "ANNOTATION_UPDATED"
            body = {"action": made, "project": {"id": 1}, "annotation": annotation}
            fold.annotate(number, str(task), str(worker), label, updated)
        status, answer = self.ask("POST", f"{PATH}/labelstudio", body, token="vote")
        assert status == 200, answer
        self.check_task(str(task))

    def do_read(self):
        kind = self.draw.randrange(7)
        if kind <= 2:
            self.check_task(self.draw.choice(TASKS))
        elif kind == 3:
            self.check_votes()
        elif kind == 4:
            self.check_workers()
        elif kind == 5:
            self.check_campaign()
        else:
            path = self.draw.choice(
                ("/tasks?limit=3", "/next?worker=ann&n=3", "/decisions?limit=2", "/policy", "/audits", "/tasks/t1/history")
            )
            status, answer = self.ask("GET", PATH + path)
            has_audits = "audit" in self.policy
            is_missing = not has_audits if path == "/audits" else "t1" not in self.fold.tasks
            assert status == 200 or (status == 404 and is_missing), (path, status, answer)

    def do_malformed(self):
        """Requests that nobody should send: each is refused, and nothing comes of it."""
        draw = self.draw
        long = "x" * 257
        bodies = (
            b"{",
            b"",
            b"\xff\xfe",
            b"[" * 5000,
            b'{"task":"t","task":"u"',
            b'"x"',
            b"null",
            b"1e999",
            b'{"task": "\\u0000"}',
        )
        odd = ({"task": "t"}, {"task": long, "worker": "w", "label": "spam"}, {"task": "", "worker": "w", "label": "spam"})
        choice = draw.randrange(8)
        if choice == 0:
            status, _ = self.ask("POST", f"{PATH}/votes", draw.choice(bodies))
        elif choice == 1:
            status, _ = self.ask("POST", f"{PATH}/votes", draw.choice(odd))
        elif choice == 2:
            status, _ = self.ask(draw.choice(("PUT", "PATCH", "TRACE")), f"{PATH}/votes", b"{}")
        elif choice == 3:
            status, _ = self.ask(
                "GET", PATH + draw.choice(("/nowhere", "/tasks/", "/tasks/never%20seen", "/workers/nobody", "/%ff"))
            )
        elif choice == 4:
            status, _ = self.ask(
                "GET", PATH + draw.choice(("/votes?after=-1", "/votes?limit=0", "/events?after=x", "/votes?no=1"))
            )
        elif choice == 5:
            status, _ = self.ask("DELETE", f"{PATH}/votes", {"task": "t0", "worker": long})
        elif choice == 6:
            answer = self.raw(draw.choice(self.strange_heads()))
            assert not answer.startswith(b"HTTP/1.1 5"), answer[:200]
            return
        else:
            status, _ = self.ask(
                "POST",
                f"{PATH}/labelstudio",
                draw.choice(({"action": 1}, {}, {"action": "ANNOTATION_CREATED", "annotation": {}})),
            )
            assert status < 500
            return
        assert 400 <= status < 500, status

    def strange_heads(self):
        path, token = f"{PATH}/votes", self.tokens["vote"]
        vote = json.dumps({"task": "smuggled", "worker": "x", "label": "spam"}).encode()
        return (
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(80),
            b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Y: " + b"z" * 40_000 + b"\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(300)) + b"\r\n",
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nContent-Length: 3\r\n\r\n%b"
            % (path.encode(), len(vote), vote),
            # Trailers do not count as headers: without a token before the body, the vote is refused.
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n%x\r\n%b\r\n0\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % (path.encode(), len(vote), vote, token.encode()),
        )

    def raw(self, data):
        """Send bytes; return what comes back within a second."""
        import socket

        with socket.create_connection(("127.0.0.1", self.server.port), timeout=1.0) as sock:
            try:
                sock.sendall(data)
                return sock.recv(65536)
            except OSError:
                return b""

    def do_unauthorized(self):
        vote = self.new_vote() | {"label": "spam"}
        for token, wanted in (("no such token", 401), ("read", 403), ("elsewhere", 403)):
            headers = {"Authorization": f"Bearer {self.tokens.get(token, token)}"}
            answer = send(self.server.port, "POST", f"{PATH}/votes", vote, headers=headers)
            assert answer is not None, token
            assert answer[0] == wanted, (token, answer)
        path, body, token = self.draw.choice(
            (("/refit", None, "moderate"), ("/bans", {"workers": ["ann"]}, "vote"), ("/labels", {"id": "z", "name": "z"}, "read"))
        )
        status, answer = self.ask("POST", PATH + path, body, token=token)
        assert status == 403, (path, status, answer)

    def do_trickle(self):
        if len(self.slow) < 6:
            self.slow.append(SlowClient(self.server.port, self.draw, self.tokens["admin"]))
        for client in self.slow:
            client.trickle()

    def do_tick(self):
        time.sleep(self.draw.random() * 0.2)  # holds, locks, sweeps and refits have a moment

    # --- what disturbs it

    def kill(self):
        """Kill the server while votes with ids are under way; send them again until they are answered."""
        votes = [
            {
                "task": self.draw.choice(TASKS),
                "worker": self.draw.choice(WORKERS),
                "label": self.fold.labels[0],
                "id": f"killed {self.sent_ids} {n}",
            }
            for n in range(self.draw.choice((1, 4)))
        ]
        self.sent_ids += 1
        answers = []
        sending = threading.Thread(
            target=lambda: answers.append(send(self.server.port, "POST", f"{PATH}/votes", votes, token=self.tokens["vote"]))
        )
        sending.start()
        time.sleep(self.draw.random() * 0.02)
        self.server.kill()
        sending.join()
        self.server.start(ahead=self.draw.uniform(-20, 20))
        self.server.until_ready()
        self.said.append(f"killed; the votes under way were answered by {answers}")
        self.fold.vote(votes)
        status, answer = self.ask("POST", f"{PATH}/votes", votes, token="vote")
        assert status == 200, answer
        acknowledged = answers[0] is not None and answers[0][0] == 200
        wanted = [(0, len(votes))] if acknowledged else [(0, len(votes)), (len(votes), 0)]
        assert (answer["accepted"], answer["repeated"]) in wanted, f"a part of one request was taken, or none: {answer}"

    def move_clock(self):
        self.server.set_ahead(self.draw.uniform(-20, 20))

    def jump_a_year(self):
        """Show a wrong time briefly: nothing may be deleted, and the service must resume when the clock is right again."""
        self.server.set_ahead(YEAR_S)
        time.sleep(0.5)
        vote = self.new_vote() | {"label": self.fold.labels[0], "id": f"in a year {self.sent_ids}"}
        answer = send(self.server.port, "POST", f"{PATH}/votes", vote, token=self.tokens["vote"])
        assert answer is not None, "no answer while the clock is wrong"
        assert answer[0] in (200, 503), answer
        self.server.set_ahead(0.0)
        if answer[0] == 200:
            self.fold.vote([vote])
        else:
            self.send_votes([vote], single=True)  # until it is taken
        self.check_votes()

    def revoke(self):
        """Revoke a token: requests are refused soon, and so is what was begun with it."""
        from adjudge.service.store.opening import open_token_store

        token = self.tokens["revoked"]
        assert self.ask("GET", PATH, token="revoked")[0] == 200
        stream = OpenStream(self.server.port, token)
        listener = Listener(self.server, PATH, token)
        listener.start()
        stream.vote(self.fold)
        opened = open_token_store(self.store)
        try:
            number = next(row.number for row in opened.tokens.all() if row.name == "revoked")
            opened.tokens.revoke(number, time.time_ns() // 1000)
        finally:
            opened.close()
        ends = time.monotonic() + REVOKED_WITHIN_S
        while (answer := send(self.server.port, "GET", PATH, token=token)) is None or answer[0] != 401:
            assert time.monotonic() < ends, f"a revoked token still gets {answer}"
            time.sleep(0.05)
        while listener.ended_by != 401:
            assert time.monotonic() < ends, "a revoked token still listens"
            time.sleep(0.05)
        listener.end()
        stream.require_refused(ends)

    # --- checks

    def check_decision(self, decision):
        task = decision["task"]
        if "probation" not in self.policy:
            assert decision["votes"] == self.fold.counting(task), (decision, self.fold.on_task(task))
        if task in self.fold.overrides:
            assert decision["label"] == self.fold.overrides[task], decision
            assert decision["reason"] in BY_PERSON, decision

    def check_task(self, task):
        status, view = self.ask("GET", f"{PATH}/tasks/{segment(task)}", token="read")
        if task not in self.fold.tasks:
            assert status == 404 or task in map(str, STUDIO_TASKS), (status, view)
            return
        assert status == 200, view
        assert {vote["worker"]: vote["label"] for vote in view["evidence"]} == self.fold.on_task(task), view
        assert len(view["evidence"]) == len(self.fold.on_task(task)), view
        assert view["gold"] == self.fold.gold.get(task), view
        for vote in view["evidence"]:
            if vote["worker"] in self.fold.banned:
                assert not vote["counts"], vote
            assert (vote["group"], vote["expert"]) == (self.fold.groups.get(vote["worker"]), vote["worker"] in self.fold.experts)
        assert not view["posterior"] or abs(sum(view["posterior"].values()) - 1) < 1e-6, view
        self.check_decision(view["decision"])

    def pages(self, path, name, *, token="read"):
        rows, after = [], ""
        while after is not None:
            status, page = self.ask("GET", f"{PATH}/{path}?limit=7{after}", token=token)
            assert status == 200, page
            rows += page[name]
            after = None if page["next"] is None else f"&after={page['next']}"
        return rows

    def check_votes(self):
        rows = self.pages("votes", "votes")
        assert [row["position"] for row in rows] == sorted({row["position"] for row in rows})
        found = {(row["task"], row["worker"]): row["label"] for row in rows}
        wanted = {key: label for key, (label, _) in self.fold.votes.items() if key[1] not in self.fold.banned}
        assert found == wanted, {"missing": wanted.items() - found.items(), "extra": found.items() - wanted.items()}
        assert len(rows) == len(found), "a vote is listed twice"
        for row in rows:
            if row["task"] in TASKS:
                assert row["id"] == self.fold.votes[row["task"], row["worker"]][1], row

    def check_workers(self):
        rows = self.pages("workers", "workers")
        assert {row["worker"] for row in rows} == self.fold.workers, [row["worker"] for row in rows]
        cast = Counter(worker for _, worker in self.fold.votes)
        for row in rows:
            name = row["worker"]
            assert row["votes"] == cast[name], row
            assert (row["banned"], row["expert"], row["group"]) == (
                name in self.fold.banned,
                name in self.fold.experts,
                self.fold.groups.get(name),
            ), row

    def check_campaign(self):
        status, view = self.ask("GET", PATH, token="read")
        assert status == 200, view
        assert [label["id"] for label in view["labels"]] == self.fold.labels
        assert (view["votes"], view["workers"], view["policy"]) == (
            len(self.fold.votes),
            len(self.fold.workers),
            self.fold.policies,
        ), view

    def check_all(self):
        self.check_votes()
        self.check_workers()
        self.check_campaign()
        for task in sorted(self.fold.tasks):
            self.check_task(task)
        for client in self.slow:
            client.close()

    def check_end(self):
        """Stop the server, and compare its log with everything that was acknowledged and told."""
        self.server.set_ahead(0.0)
        ends = time.monotonic() + ANSWER_S
        while True:  # sweeps and refits may still decide something
            told = [(one["position"], one["task"]) for one in self.pages("decisions", "decisions")]
            heard = [(one["position"], one["task"]) for _, one in self.listener.events]
            if heard == told or time.monotonic() > ends:
                break
            time.sleep(0.1)
        assert heard == told, {"missing": Counter(told) - Counter(heard), "extra": Counter(heard) - Counter(told)}
        for thread in self.threads:
            thread.end()
        self.server.end()
        with small():
            self.check_log()
            self.check_doctor()

    def check_log(self):
        from adjudge.service.campaigns import replay
        from adjudge.service.store.events import Change, Retraction, Vote
        from adjudge.service.store.opening import open_store

        store = open_store(self.store, readonly=True)
        try:
            ((number, _),) = store.campaigns()
            names = dict(store.workers(number))
            logged, last, before = Counter(), 0, 0
            for first, page in store.read(number):
                for position, event in enumerate(page, first):
                    assert position == last + 1 or last == 0, position
                    assert event.time >= before, f"the time falls at position {position}"
                    last, before = position, event.time
                    if isinstance(event, Vote | Change | Retraction) and event.task in TASKS:
                        label = None if isinstance(event, Retraction) else self.fold.labels[event.label]
                        logged[event.task, names[event.worker], label, getattr(event, "id", None)] += 1
            assert logged == self.fold.logged, {"missing": self.fold.logged - logged, "extra": logged - self.fold.logged}
            checked = replay.check(store, number)
            assert checked.difference is None, checked.difference
            assert checked.position == last
        finally:
            store.close()

    def check_doctor(self):
        from adjudge.cli import doctor

        found = list(doctor.store_findings(self.store))
        assert all(finding.state == "ok" for finding in found), found

    def close(self):
        for client in self.slow:
            client.close()
        for thread in self.threads:
            thread.stop.set()
        self.server.close()
        for thread in self.threads:
            thread.join(1)


class OpenStream:
    """A `votes:stream` that stays open."""

    def __init__(self, port, token):
        import http.client

        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
        self.connection.putrequest("POST", f"{PATH}/votes:stream")
        self.connection.putheader("Authorization", f"Bearer {token}")
        self.connection.putheader("Transfer-Encoding", "chunked")
        self.connection.endheaders()
        self.answer = None

    def _send(self, vote):
        line = json.dumps(vote).encode() + b"\n"
        self.connection.send(b"%x\r\n%b\r\n" % (len(line), line))

    def vote(self, fold):
        """Cast a vote while the token holds."""
        vote = {"task": "t0", "worker": "streamer", "label": fold.labels[0], "id": "streamed"}
        self._send(vote)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.status
        assert "error" not in json.loads(self.answer.readline())
        fold.vote([vote])

    def require_refused(self, ends):
        """No vote is taken any more: the stream answers an error, or is closed."""
        try:
            self._send({"task": "t0", "worker": "streamer", "label": "spam", "id": "after"})
            line = self.answer.readline()
        except OSError:
            line = b""
        finally:
            self.connection.close()
        assert not line or "error" in json.loads(line), f"a revoked token still votes: {line}"
        assert time.monotonic() < ends + ANSWER_S
