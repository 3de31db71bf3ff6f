"""A real server on loopback in a thread, and a client that sends exactly the given bytes."""

import asyncio
import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote

import uvloop

from adjudge.service.http import tokens
from adjudge.service.http.server import Settings, run
from adjudge.service.store.opening import open_store

BASE = "/v1/campaigns/default"


class Answer:
    """What came back."""

    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """One request at a time, over connections of its own."""

    def __init__(self, address, token=None):
        self.address, self.token = address, token
        self.host, _, port = address.removeprefix("http://").rpartition(":")
        self.port = int(port)

    def connection(self, timeout=30):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def __call__(self, method, path, body=None, headers=()):
        """Send bytes as they are, anything else as JSON; relative paths are of the campaign "default"."""
        if not path.startswith("/"):
            path = f"{BASE}/{path}"
        sent = dict(headers)
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = self.connection()
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def vote(self, task, worker, label, id=None):  # noqa: A002
        return self("POST", "votes", {"task": task, "worker": worker, "label": label} | ({} if id is None else {"id": id}))

    def decide(self, task, label="spam"):
        """A worker votes, and a person decides: this is a decision regardless of the workers."""
        self.vote(task, "ann", label)
        return self("POST", f"tasks/{segment(task)}/override", {"label": label, "by": "eve"}).json

    def raw(self, data, until, timeout=10):
        """Send bytes to the socket, and return what comes back up to these bytes."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as sock:
            sock.sendall(data)
            found = b""
            while until not in found and (chunk := sock.recv(65536)):
                found += chunk
        return found


def segment(text):
    """An id as one segment of a path; a dot is a letter of an id here, and never a folder."""
    return quote(text, safe="").replace(".", "%2E")


@contextmanager
def serving(folder, *, given=(), **settings):
    """Yield a client of a new server whose store is in a folder; `given` are tokens: (name, scopes, campaign)."""
    path = str(folder / "votes.db")
    made = {}
    if given:
        store = open_store(path)
        for name, scopes, campaign in given:
            made[name] = tokens.make_token()
            store.tokens.add(tokens.hash_token(made[name]), name, tokens.parse_scopes(scopes), campaign, time.time_ns() // 1000)
        store.close()
    options = {"port": 0, "labels": ("spam", "ok"), "log_level": "error", "grace": 2.0, **settings}
    listening, failed, address = threading.Event(), [], []
    loop, stop = uvloop.new_event_loop(), []

    def started(where):
        address.append(where)
        listening.set()

    async def main():
        stop.append(asyncio.Event())
        await run(Settings(store=path, **options), started, stop[0])

    def work():
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(main())
        except BaseException as error:  # told to the test
            failed.append(error)
        finally:
            listening.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert listening.wait(30)
    if failed:
        thread.join(30)
        raise failed[0]
    client = Client(address[0])
    client.tokens = made
    client.path = path
    try:
        yield client
    finally:
        if not failed:
            loop.call_soon_threadsafe(stop[0].set)
        thread.join(30)
        assert not thread.is_alive()
        if failed:
            raise failed[0]
