"""A server in a process that can be killed at any moment; everything that happens rarely happens often here."""

import http.client
import json
import multiprocessing
import os
import signal
import socket
import time
from contextlib import contextmanager, suppress

WAIT_S = 60
SPEC = {
    "labels": ["spam", "ok", "unsure"],
    "policy": {
        "minimum_votes": 2,
        "confidence": 0.6,
        "maximum_votes": 9,
        "hold": 0.05,
        "audit": {"share": 0.4, "run": 1e9, "deadline_days": 0.001},  # clocks of later lives are up to an hour ahead
    },
    "refit": {"votes": 60, "share": 0.0},
    "retention": {"tasks": 12, "waiting": 24},
}
PRELOADED = ["adjudge.service.http.server", "adjudge.online", "adjudge.models", "adjudge.results", "crashing.server"]


@contextmanager
def small():
    """Let files of ids, snapshots and groups of tasks be small, so that each is written many times."""
    from adjudge.service.http import maintenance
    from adjudge.service.store import ids

    sizes = {
        (ids, "IDS_PER_GENERATION"): 64,
        (ids, "IDS_PER_PAGE"): 8,
        (maintenance, "SNAPSHOT_EVENTS"): 150,
        (maintenance, "SWEPT_AT_ONCE"): 5,
    }
    before = {(module, name): getattr(module, name) for module, name in sizes}
    try:
        for (module, name), size in sizes.items():
            setattr(module, name, size)
        yield
    finally:
        for (module, name), size in before.items():
            setattr(module, name, size)


def serve(store, port, ahead):
    """What the process does: a server whose clock is so many seconds ahead (or behind)."""
    from adjudge.service.http import campaigns, server
    from adjudge.service.http.clock import Clock
    from adjudge.service.http.server import Settings

    opened = campaigns.Campaigns.open.__func__

    async def with_clock(cls, url):
        return await opened(cls, url, clock=Clock(lambda: time.time_ns() + int(ahead * 1e9)))

    campaigns.Campaigns.open = classmethod(with_clock)
    with small():
        server.serve(Settings(store=store, port=port, log_level="error", grace=5.0), started=lambda _: None)


class Server:
    """A server on one port for all of its lives."""

    def __init__(self, store):
        self.store = str(store)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self.process = None

    def start(self, ahead=0.0):
        self.process = self._context.Process(target=serve, args=(self.store, self.port, ahead), daemon=True)
        self.process.start()

    def kill(self):
        """Without a word of warning."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(WAIT_S)
        assert self.process.exitcode == -signal.SIGKILL, f"the server had ended by itself: {self.process.exitcode}"

    def end(self):
        """As a service manager stops it."""
        self.process.terminate()
        self.process.join(WAIT_S)
        assert self.process.exitcode == 0, self.process.exitcode

    def close(self):
        if self.process is not None and self.process.is_alive():
            self.process.kill()
            self.process.join(WAIT_S)

    def until_ready(self):
        """Wait until votes are taken; set the log back where the clock of the last life was far ahead, as an operator does."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                status, answer = self.ask("GET", "/readyz")
                if status == 200:
                    return
                if any("ahead of the clock" in reason for reason in answer["reasons"]):
                    self.ask("POST", "/v1/clock")
            assert self.process.is_alive(), f"the server ended: {self.process.exitcode}"
            time.sleep(0.01)
        raise AssertionError("the server does not become ready")

    def ask(self, method, path, body=None):
        """(status, what was answered), over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()
