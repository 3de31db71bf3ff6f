"""A service on loopback that follows a test's script of responses and broken connections."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

DROP = "drop"  # the request is read, and the connection closed without an answer
REFUSE = "refuse"  # answered before the body is read, and closed


@dataclass
class Seen:
    method: str
    path: str
    headers: dict
    body: bytes
    connection: int

    @property
    def json(self):
        return json.loads(self.body)


def answer(content=None, status=200, *, headers=(), body=None, chunked=False, length=True, cut=None, close=False):
    """An answer as bytes; `cut` leaves out what is behind so many bytes, and the connection is closed then."""
    body = json.dumps(content).encode() if body is None else body
    lines = [f"HTTP/1.1 {status} Reason", *(f"{name}: {value}" for name, value in headers)]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:]) if part) + b"0\r\n\r\n"
    elif length:
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    return (whole if cut is None else whole[:cut], cut is not None or close or not length)


def problem(status, code, detail="so it is", **more):
    return answer({"error": code, "detail": detail, "request": "r-1"}, status, **more)


@dataclass
class Flaky:
    """The service's next responses (`script` has one item per request) and the requests received."""

    script: list
    seen: list = field(default_factory=list)
    url: str = ""
    connections: int = 0
    open: list = field(default_factory=list)

    def serve(self, listening):
        while True:
            try:
                there, _ = listening.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(there)
            threading.Thread(target=self._serve_one, args=(there, self.connections), daemon=True).start()

    def _serve_one(self, there, number):
        with there, suppress(OSError, ValueError), there.makefile("rb") as stream:
            self._one(there, stream, number)

    def _one(self, there, stream, number):
        while line := stream.readline():
            method, path, _ = line.decode().split()
            headers = {}
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.decode().partition(": ")
                headers[name.lower()] = value
            next_is = self.script[0] if self.script else None
            streams = callable(next_is)
            body = b"" if next_is == REFUSE or streams else _body(stream, headers, whole=next_is not in (DROP, None))
            self.seen.append(Seen(method, path, headers, body, number))
            step = self.script.pop(0) if self.script else DROP
            if step == DROP:
                return
            if step == REFUSE:
                there.sendall(problem(413, "too-large", close=True)[0])
                there.shutdown(socket.SHUT_WR)
                while there.recv(1 << 16):  # a reset would take the answer away from the client
                    pass
                return
            if streams:
                step(self.seen[-1], stream, there)
                there.shutdown(socket.SHUT_WR)
                while stream.read1(1 << 16):  # as above
                    pass
                return
            content, ends = step
            there.sendall(content)
            if ends:
                return


def _body(stream, headers, whole):
    """The body; of a chunked one only the first chunk, if the service must not read it all."""
    if "content-length" in headers:
        return stream.read(int(headers["content-length"]))
    if headers.get("transfer-encoding") != "chunked":
        return b""
    return b"".join(chunks(stream)) if whole else next(chunks(stream), b"")


def chunks(stream):
    """The chunks of a body, as they come."""
    while size := int(stream.readline() or b"0", 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()


@contextmanager
def flaky(*script):
    """Yields a service that does what the script says, one item per request; behind it, it only drops connections."""
    service = Flaky(list(script))
    listening = socket.create_server(("127.0.0.1", 0))
    service.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread = threading.Thread(target=service.serve, args=(listening,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for there in service.open:  # those that clients keep
            with suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)
        thread.join(30)
