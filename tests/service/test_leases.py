"""Two servers over one PostgreSQL: after a take-over the former owner acknowledges nothing that contradicts the log."""

import http.client
import json
import signal
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

import postgres
from server_process import Served, until

CAMPAIGN = "/v1/campaigns/default"
TAKE_OVERS = 12


@pytest.fixture
def database():
    return postgres.server().fresh()


@pytest.fixture
def two(database):
    with Served(database, "--labels", "spam,ok") as one, Served(database) as other:
        yield [one, other]


def vote(server, task, label, worker="ann"):
    """(status, accepted)."""
    status, answer, _ = server.ask("POST", f"{CAMPAIGN}/votes", {"task": task, "worker": worker, "label": label})
    return status, answer.get("accepted")


class Hammer:
    """Sends the same vote again and again, over some connections, and asks for its task: (when sent, when answered, what)."""

    def __init__(self, server, task, label):
        self.votes, self.reads = [], []
        self._server, self._stopped = server, threading.Event()
        body = json.dumps({"task": task, "worker": "ann", "label": label})
        work = [("POST", f"{CAMPAIGN}/votes", body, self.votes)] * 2 + [("GET", f"{CAMPAIGN}/tasks/{task}", None, self.reads)]
        self._threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def _run(self, method, path, body, seen):
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        while not self._stopped.is_set():
            sent = time.monotonic()
            connection.request(method, path, body)
            answer = connection.getresponse()
            seen.append((sent, time.monotonic(), answer.status, json.loads(answer.read())))
            time.sleep(0.002)
        connection.close()

    def stop(self):
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)


def cut_off(connection, server):
    """End every connection of a server to the database."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
        [f"adjudge % {server.process.pid} %"],
    )


@contextmanager
def hammered(owner, task):
    assert until(lambda: vote(owner, task, "spam")[0] == 200)
    hammer = Hammer(owner, task, "spam")
    until(lambda: len(hammer.votes) > 20)
    try:
        yield hammer
    finally:
        hammer.stop()


def change(owner, server, task, again):
    """Have the other server take over, and change the vote there; when that was acknowledged."""

    def changed():
        again()
        return vote(server, task, "ok") == (200, 1)

    until(changed, wait=60)
    return time.monotonic()


def test_an_owner_that_lost_its_connection_acknowledges_nothing(two, database):
    with psycopg.connect(database, autocommit=True) as connection:
        for turn in range(TAKE_OVERS):
            owner, other = two if turn % 2 == 0 else two[::-1]
            task = f"cut-{turn}"
            with hammered(owner, task) as hammer:
                changed = change(owner, other, task, lambda server=owner: cut_off(connection, server))
                time.sleep(1.2)  # the former owner looks at the locks once a second
            assert any(status == 200 for _, _, status, _ in hammer.votes), "it was the owner before"
            wrong = [answer for sent, _, status, answer in hammer.votes if sent > changed and status == 200]
            assert not wrong, f"{len(wrong)} answers contradict the log: {wrong[:1]}"


def test_an_owner_that_was_stopped_acknowledges_nothing(two, database):
    with psycopg.connect(database, autocommit=True) as connection:
        for turn in range(4):
            owner, other = two if turn % 2 == 0 else two[::-1]
            task = f"stopped-{turn}"
            with hammered(owner, task) as hammer:
                owner.process.send_signal(signal.SIGSTOP)  # as a machine that hangs, with requests under way
                try:
                    changed = change(owner, other, task, lambda server=owner: cut_off(connection, server))
                finally:
                    owner.process.send_signal(signal.SIGCONT)
                time.sleep(1.2)
            wrong = [answer for _, came, status, answer in hammer.votes if came > changed and status == 200]
            assert not wrong, f"{len(wrong)} answers contradict the log: {wrong[:1]}"
            late = [answer for _, came, status, answer in hammer.reads if came > changed and status == 200]
            assert late, "as a follower it answers again"
            assert {answer["decision"]["label"] for answer in late} == {"ok"}, "and never from its old state"


def test_without_a_database_an_owner_answers_503_and_goes_on_afterwards(database):
    with Served(database, "--labels", "spam,ok") as server:
        assert vote(server, "t", "spam") == (200, 1)
        postgres.server().stop()
        try:
            for method, path, body in (
                ("POST", "/votes", {"task": "t", "worker": "ann", "label": "spam"}),
                ("GET", "/tasks/t", None),
                ("GET", "/tasks/unknown", None),
                ("GET", "/workers", None),
                ("GET", "", None),
            ):
                status, answer, headers = until(lambda: _refused(server, method, path, body))  # noqa: B023
                assert (status, answer["error"], headers["Retry-After"]) == (503, "unavailable", "1"), path
        finally:
            postgres.server().start()
        assert until(lambda: vote(server, "t", "spam") == (200, 0))


def _refused(server, *request):
    """What is answered once proofs are too old: they hold for 0.3 s."""
    answer = server.ask(request[0], CAMPAIGN + request[1], request[2])
    return answer if answer[0] == 503 else None
