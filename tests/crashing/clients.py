"""Clients that vote, change their minds and take votes back, and know what the log has to hold because of it."""

import http.client
import json
import random
import threading
import time
from contextlib import suppress
from urllib.parse import quote

from crashing.server import SPEC

CAMPAIGN = "/v1/campaigns/default"
VOTES = f"{CAMPAIGN}/votes"
TASKS = [f"task {i}" for i in range(240)] + ["ü/ö?#%", 'a"b\\c', "<b>&amp;", "\u2028 line", "x" * 200]
LABELS = SPEC["labels"]
WORKERS = 6  # of each client
FORGOTTEN = 0.2  # of the requests without an answer: they are not sent again


class Pair:
    """What a worker has done on a task: events that are in the log, and how the last of them may be missing."""

    def __init__(self):
        self.events = []  # ("vote", label, id) or ("retraction",)
        self.doubt = None  # a group of events that are all in the log or none: this pair has its last one from it

    @property
    def label(self):
        """The label in force; None without one."""
        return self.events[-1][1] if self.events and self.events[-1][0] == "vote" else None


class Sender:
    """A connection that reconnects after every failure."""

    def __init__(self, port, timeout=20.0):
        self._port, self._timeout = port, timeout
        self._connection = None

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self):
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        return self._connection

    def send(self, method, path, body=None):
        """(status, JSON), or None where no answer came and nobody knows what was done."""
        try:
            connection = self._open()
            connection.request(method, path, None if body is None else json.dumps(body).encode())
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return None
        return None if answer.status == 503 else (answer.status, json.loads(text))

    def stream(self, votes):
        """The answers to a stream of votes, line by line, as far as they came."""
        body = b"".join(json.dumps(vote).encode() + b"\n" for vote in votes)
        answers = []
        try:
            connection = self._open()
            connection.request("POST", f"{CAMPAIGN}/votes:stream", body)
            answer = connection.getresponse()
            if answer.status == 200:
                for line in answer:
                    if not line.endswith(b"\n"):
                        break
                    answers.append(json.loads(line))
            else:
                answer.read()
        except (OSError, http.client.HTTPException):
            pass
        self.close()
        return answers


class Client(threading.Thread):
    """One client: workers of its own, tasks that it shares with all others."""

    def __init__(self, number, port, stop, seed):
        super().__init__(name=f"client {number}", daemon=True)
        self.random = random.Random(f"{seed} {number}")
        self.workers = [f"worker {number}.{i}" for i in range(WORKERS)]
        self.pairs = {}  # (task, worker): Pair
        self.sender = Sender(port)
        self.stop = stop
        self.lost = self.acknowledged = 0
        self.failed = None
        self._ids = 0
        self._prefix = f"{seed}-{number}-"

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:  # the proof raises it
            self.failed = error
        finally:
            self.sender.close()

    def step(self):
        """Do something."""
        kinds = {self.vote: 8, self.batch: 3, self.stream: 1, self.retract: 3, self.repeat: 2, self.conflict: 1, self.missing: 1}
        self.random.choices([*kinds], [*kinds.values()])[0]()

    # --- requests

    def vote(self):
        vote = self.new_vote(self.free_pair())
        self.settle([vote], vote)

    def batch(self):
        votes = self.new_votes(self.random.randint(2, 6))
        self.settle(votes, votes)

    def settle(self, votes, body):
        """Send votes until it is known what became of them."""
        lost = 0
        while (answer := self.sender.send("POST", VOTES, body)) is None:
            lost += 1
            self.lost += 1
            if self.stop.is_set() or self.random.random() < FORGOTTEN:
                self.doubt(votes)
                return
            time.sleep(0.01)
        status, said = answer
        assert status == 200, answer
        assert said["accepted"] + said["repeated"] == len(votes), said
        assert lost or not said["repeated"], f"counted as repeated, and sent once: {votes}"
        self.acknowledged += len(votes)
        for vote in votes:
            self.note(vote)

    def stream(self):
        votes = self.new_votes(self.random.randint(5, 20))
        answers = self.sender.stream(votes)
        for vote, answer in zip(votes, answers, strict=False):
            if "error" in answer:
                assert answer["error"] == "unavailable", answer
                break
            assert answer["task"] == vote["task"]
            self.note(vote)
            self.acknowledged += 1
            votes = votes[1:]
        for vote in votes:  # unanswered
            self.lost += 1
            self.again(vote)

    def again(self, vote):
        """Send a vote once more that may be in the log already."""
        while (answer := self.sender.send("POST", VOTES, vote)) is None:
            if self.stop.is_set():
                self.doubt([vote])
                return
            time.sleep(0.01)
        assert answer[0] == 200, answer
        self.note(vote)
        self.acknowledged += 1

    def retract(self):
        voted = [key for key, pair in self.pairs.items() if pair.label is not None and pair.doubt is None]
        if not voted:
            return
        task, worker = key = self.random.choice(voted)
        lost = 0
        while (answer := self.sender.send("DELETE", VOTES, {"task": task, "worker": worker})) is None:
            lost += 1
            self.lost += 1
            if self.stop.is_set() or self.random.random() < FORGOTTEN:
                self.pairs[key].events.append(("retraction",))
                self.pairs[key].doubt = [key]
                return
            time.sleep(0.01)
        assert answer[0] == 200 or (lost and answer[0] == 404), answer
        self.pairs[key].events.append(("retraction",))
        self.acknowledged += 1

    def repeat(self):
        """Send a vote that is in the log: nothing may change."""
        known = [(key, event) for key, pair in self.pairs.items() if pair.doubt is None for event in pair.events]
        known = [
            (key, event)
            for key, event in known
            if event[0] == "vote" and (event[2] is not None or self.pairs[key].events[-1] is event)
        ]
        if known:
            (task, worker), (_, label, mark) = self.random.choice(known)
            answer = self.sender.send("POST", VOTES, _vote(task, worker, label, mark))
            assert answer is None or (answer[0] == 200 and answer[1]["repeated"] == 1), (answer, task, worker, label, mark)

    def conflict(self):
        """Use an id a second time, for something else."""
        used = [(key, e) for key, pair in self.pairs.items() if not pair.doubt for e in pair.events if e[0] == "vote" and e[2]]
        if used:
            (task, worker), (_, label, mark) = self.random.choice(used)
            other = self.random.choice([one for one in LABELS if one != label])
            answer = self.sender.send("POST", VOTES, _vote(task, worker, other, mark))
            assert answer is None or answer[0] == 409, answer

    def missing(self):
        """Take back what is not there."""
        task, worker = key = self.free_pair()
        if key not in self.pairs or (self.pairs[key].label is None and self.pairs[key].doubt is None):
            answer = self.sender.send("DELETE", VOTES, {"task": task, "worker": worker})
            assert answer is None or answer[0] == 404, answer

    # --- the model

    def free_pair(self):
        """A task and a worker of which everything is known."""
        while True:
            key = self.random.choice(TASKS), self.random.choice(self.workers)
            if key not in self.pairs or self.pairs[key].doubt is None:
                return key
            with suppress(ValueError):  # few are left: work with new workers
                if self.random.random() < 0.01:
                    self.workers.append(f"{self.workers[0]}+{len(self.workers)}")

    def new_votes(self, number):
        keys = {self.free_pair() for _ in range(number)}
        return [self.new_vote(key) for key in sorted(keys)]

    def new_vote(self, key):
        """A vote that changes something: with an id, or with another label than the one in force."""
        pair = self.pairs.setdefault(key, Pair())
        mark = None
        if self.random.random() < 0.5:
            self._ids += 1
            mark = self._prefix + str(self._ids)
        labels = LABELS if mark is not None else [label for label in LABELS if label != pair.label]
        return _vote(*key, self.random.choice(labels), mark)

    def note(self, vote):
        self.pairs[vote["task"], vote["worker"]].events.append(("vote", vote["label"], vote.get("id")))

    def doubt(self, votes):
        """Note votes that are all in the log, or none of them; nothing more is done with them."""
        group = [(vote["task"], vote["worker"]) for vote in votes]
        for vote in votes:
            self.note(vote)
            self.pairs[vote["task"], vote["worker"]].doubt = group


def _vote(task, worker, label, mark):
    return {"task": task, "worker": worker, "label": label} | ({} if mark is None else {"id": mark})


class Moderator(threading.Thread):
    """Gold, bans, overrides, appeals, audits and new policies, each sent until it is answered."""

    def __init__(self, port, stop, seed, workers):
        super().__init__(name="moderator", daemon=True)
        self.random = random.Random(f"{seed} moderator")
        self.sender = Sender(port)
        self.stop, self.workers = stop, workers
        self.banned = set()
        self.failed = None

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
                time.sleep(self.random.random() * 0.05)
        except BaseException as error:
            self.failed = error
        finally:
            self.sender.close()

    def until_done(self, method, path, body=None, also=()):
        while (answer := self.sender.send(method, path, body)) is None and not self.stop.is_set():
            time.sleep(0.01)
        assert answer is None or answer[0] in (200, 202, *also), answer
        return answer

    def step(self):
        task = f"{CAMPAIGN}/tasks/{quote(self.random.choice(TASKS), safe='')}"
        label, worker = self.random.choice(LABELS), self.random.choice(self.workers)
        kind = self.random.randrange(8)
        if kind == 0:
            self.until_done("PUT", f"{task}/gold", {"label": label})
        elif kind == 1:
            self.until_done("DELETE", f"{task}/gold", also=(404,))
        elif kind == 2:
            self.until_done("POST", f"{task}/override", {"label": label, "by": "mo"}, also=(404,))
        elif kind == 3:
            self.until_done("POST", f"{task}/reopen", {"by": "mo"}, also=(404,))
        elif kind == 4:
            policy = {**SPEC["policy"], "confidence": self.random.choice([0.55, 0.6, 0.7])}
            self.until_done("PUT", f"{CAMPAIGN}/policy", {"policy": policy})
        elif kind == 5:
            self.banned.add(worker)  # before it is known whether: all are let in again in the end
            self.until_done("POST", f"{CAMPAIGN}/workers/{quote(worker, safe='')}/ban", {}, also=(404,))
        elif kind == 6:
            status, answer = self.until_done("GET", f"{CAMPAIGN}/queue?by=mo&n=5", also=(503,)) or (0, None)
            for row in answer["tasks"] if status == 200 else ():
                body = {"task": row["task"], "label": self.random.choice(LABELS), "by": "mo"}
                self.until_done("POST", f"{CAMPAIGN}/queue", body, also=(404, 409))
        elif self.banned:
            self.let_in(self.random.choice(sorted(self.banned)))

    def let_in(self, worker):
        if self.until_done("POST", f"{CAMPAIGN}/workers/{quote(worker, safe='')}/unban", {}, also=(404,)) is not None:
            self.banned.discard(worker)
