"""A real server that is killed, whose clock is moved, and which misbehaving clients keep busy."""

import http.client
import json
import mmap
import socket
import struct
import threading
import time
from contextlib import suppress

from crashing.server import Server, small

ANSWER_S = 20.0  # longest time for an answer on a busy machine
RECONNECT_S = 0.05


def serve(store, port, clock):
    """What the process does: a server whose clock is as many seconds ahead as the file `clock` says at that moment."""
    from adjudge.service.http import campaigns, server
    from adjudge.service.http.clock import Clock
    from adjudge.service.http.server import Settings

    with open(clock, "rb") as file:  # noqa: PTH123
        ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    opened = campaigns.Campaigns.open.__func__

    async def open_with_clock(cls, *given, **more):
        more["clock"] = Clock(lambda: time.time_ns() + int(struct.unpack_from("<d", ahead)[0] * 1e9))
        return await opened(cls, *given, **more)

    campaigns.Campaigns.open = classmethod(open_with_clock)
    with small():
        server.serve(Settings(store=store, port=port, log_level="error", grace=5.0), started=lambda _: None)


class FuzzedServer(Server):
    """A server on one port for all of its lives; `clock` is a file of 8 bytes."""

    def __init__(self, store, clock):
        super().__init__(store)
        self.clock = clock
        self.set_ahead(0.0)
        self.is_up = threading.Event()

    def set_ahead(self, seconds):
        mode = "r+b" if self.clock.exists() else "w+b"
        with self.clock.open(mode) as file:
            file.write(struct.pack("<d", seconds))

    def start(self, ahead=None):
        if ahead is not None:
            self.set_ahead(ahead)
        self.process = self._context.Process(target=serve, args=(self.store, self.port, str(self.clock)), daemon=True)
        self.process.start()

    def until_ready(self):
        super().until_ready()
        self.is_up.set()

    def kill(self):
        self.is_up.clear()
        super().kill()

    def end(self):
        self.is_up.clear()
        super().end()

    def close(self):
        self.is_up.clear()
        super().close()


def send(port, method, path, body=None, *, token=None, headers=()):
    """Send one request over its own connection; return status and body, or None if the connection broke."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    sent = dict(headers)
    if token is not None:
        sent.setdefault("Authorization", f"Bearer {token}")
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Thread(threading.Thread):
    """A thread that keeps its error for the test."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stop, self.failed = server, threading.Event(), None

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:
            self.failed = error

    def end(self):
        self.stop.set()
        self.join(ANSWER_S)
        if self.failed is not None:
            raise self.failed


class HealthPoller(Thread):
    """Asks /healthz as long as the server is up."""

    answered = 0

    def step(self):
        if self.server.is_up.wait(0.1):
            life = self.server.process
            answer = send(self.server.port, "GET", "/healthz")
            if answer is None:
                assert self.server.process is not life or not self.server.is_up.is_set(), "/healthz was not answered"
            else:
                assert answer[0] == 200, answer
                self.answered += 1
        time.sleep(0.02)


class Listener(Thread):
    """Follows /events from the beginning, and resumes by the last id after every break."""

    def __init__(self, server, path, token):
        super().__init__(server)
        self.path, self.token = path, token
        self.events = []  # (id, decision)
        self.last = None
        self.ended_by = None  # status of an answer that refused the stream
        self.connection = None

    def step(self):
        if not self.server.is_up.wait(0.1):
            return
        headers = {"Authorization": f"Bearer {self.token}"}
        if self.last is not None:
            headers["Last-Event-ID"] = self.last
        self.connection = connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=ANSWER_S)
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            connection.request("GET", f"{self.path}/events{'' if self.last else '?after=0'}", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                assert answer.status in (401, 503), answer.status
                self.ended_by = answer.status
            else:
                self._read(answer)
        connection.close()
        time.sleep(RECONNECT_S)

    def _read(self, answer):
        mark = None
        while not self.stop.is_set() and (line := answer.readline()):
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "id":
                mark = value
            elif field == "data" and mark is not None:
                self.events.append((mark, json.loads(value)))
                self.last, mark = mark, None

    def end(self):
        self.stop.set()
        with suppress(OSError, AttributeError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        super().end()


class SlowClient:
    """A connection that sends or reads next to nothing."""

    def __init__(self, port, draw, token):
        self.draw, self.kind = draw, draw.choice(("silent", "headers", "body", "unread", "stream"))
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self.socket.setblocking(False)
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        begins = {
            "silent": "",
            "headers": "GET /healthz HTTP/1.1\r\n",
            "body": f"POST /v1/campaigns/c/votes HTTP/1.1\r\n{head}Content-Length: 100\r\n\r\n{{",
            "unread": "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 40,
            "stream": f"POST /v1/campaigns/c/votes:stream HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n",
        }
        self._send(begins[self.kind].encode())

    def _send(self, data):
        with suppress(OSError):  # the server may close such connections, and may stop reading from them
            self.socket.send(data)

    def trickle(self):
        if self.kind == "headers":
            self._send(f"X-{self.draw.randrange(10**6)}: {'x' * self.draw.randrange(200)}\r\n".encode())
        elif self.kind == "stream":
            self._send(b"1\r\n \r\n")

    def close(self):
        self.socket.close()
