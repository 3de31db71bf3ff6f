"""Connections: uvicorn's protocol for HTTP/1.1 with limits on clients, and a fast path for votes.

uvicorn bounds neither the size of headers nor the time they take, lets pipelined requests pile up, and waits forever for a client
that does not read. A sweep over all connections checks deadlines every second, which costs requests nothing.

uvicorn runs each request as a task that exchanges messages with the application. For a vote this costs more than the vote: the
fast path takes 1.5 times as many votes per second as a plain ASGI application (docs/decisions/046). It takes a vote when the last
byte of its request is parsed, and answers all votes of a commit when they are on disk. Unusual requests take the normal path.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from adjudge.service.http import limits
from adjudge.service.http.app import HEADERS, Service
from adjudge.service.http.errors import HeadersTooLarge, Malformed, Problem
from adjudge.service.http.parsing import Headers, read_headers

END_OF_HEADERS: Final = b"\r\n\r\n"
IDLE: Final = 0  # what a connection receives: nothing since the last request …
IN_HEADERS: Final = 1  # … the headers of a request …
IN_BODY: Final = 2  # … or its body (integers, as a member of an enumeration takes long to find)
VOTES_PATH_SUFFIX: Final = b"/votes"
MAX_FAST_BODY_BYTES: Final = 1 << 16  # bytes of a body
BODY_TIMEOUT_S: Final = 1.0  # seconds for a body to come in


def count_queued_bytes(handle: int) -> int:
    """Return how many bytes the kernel has not delivered to the peer; 0 if it is not Linux, which alone tells."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    size = bytearray(4)
    with suppress(OSError, ValueError):  # of a socket that is closed
        fcntl.ioctl(handle, termios.TIOCOUTQ, size)
    return int.from_bytes(size, sys.byteorder)


class Flow(FlowControl):
    """uvicorn's flow control, which resumes reading for a request that waits for its body, unless data is held back."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, if nothing is held back."""
        if not self.is_held:
            super().resume_reading()


class LimitedConnection(HttpToolsProtocol):
    """A connection within limits."""

    flow: Flow

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.service = cast(Service, self.app)
        self.fields: Headers  # of the request that is being received …
        self._source: tuple[str, int, list[tuple[bytes, bytes]]] | None = None  # … and the source that they were read from
        self.phase = IDLE
        self._deadline = math.inf  # for the data being received, unless a response is under way
        self._framing_bytes = 0  # received since the last content
        self._held = b""  # received, and not parsed yet, as too much is unanswered
        self._unanswered: deque[RequestResponseCycle] = deque()  # requests that are being answered, or wait for that
        self._problem: Problem | None = None  # which ends the connection
        self._is_refused = self._is_counted = False
        self._unsent_bytes, self._unsent_since = 0, 0.0

    # --- the connection

    def connection_made(self, transport: Any) -> None:
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._deadline = self.loop.time() + limits.HEADER_SECONDS
        problem = self.service.context.connections.admit(self._peer)
        if problem is not None:
            self._refuse(problem)
            transport.close()  # at once, as every one that lingers would take the place of another
        self._is_counted = problem is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the place of the connection."""
        if self._is_counted:
            self._is_counted = False
            self.service.context.connections.release(self._peer)
        self._release()
        for cycle in self._unanswered:  # uvicorn tells only the last one
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else ""

    def check_deadlines(self, now: float) -> None:
        """Close the connection if its client keeps it waiting; called every second.

        - `now`: by the clock of the loop.
        """
        if now > self._deadline and (self._is_refused or not self._is_answering):
            self.transport.close()
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            unsent += count_queued_bytes(self.transport.get_extra_info("socket").fileno())
        if not unsent or not self._unsent_bytes or self._unsent_bytes - unsent >= limits.MIN_SENT_BYTES:
            self._unsent_bytes, self._unsent_since = unsent, now
            return
        self._unsent_bytes = max(unsent, self._unsent_bytes)  # more may have been written meanwhile
        if now - self._unsent_since > (limits.SEND_WHILE_RECEIVING_SECONDS if self.phase == IN_BODY else limits.SEND_SECONDS):
            self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        """Whether a response is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    # --- what is received

    def data_received(self, data: bytes) -> None:
        """Parse the data, unless too many earlier requests are unanswered."""
        if self._problem is not None or self._is_refused:
            self._framing_bytes += len(data)
            if self._framing_bytes > limits.MAX_LINGER_BYTES:
                self.transport.close()
            return
        if self._held or (self.phase != IN_BODY and self._is_full):
            self._hold(self._held + data)
        else:
            self._parse(data)

    @property
    def _is_full(self) -> bool:
        return len(self.pipeline) >= limits.MAX_PIPELINED or self.flow.write_paused

    def _parse(self, data: bytes) -> None:
        """Parse the data in slices that hold the headers of one request each."""
        start, end = 0, data.find(END_OF_HEADERS)
        while end >= 0 and (following := data.find(END_OF_HEADERS, end + 4)) >= 0:
            self._parse_slice(data[start : end + 4])
            start, end = end + 4, following
            if self._problem is not None:
                return
            if self.phase != IN_BODY and self._is_full:
                self._hold(data[start:])
                return
        self._parse_slice(data[start:] if start else data)

    def _parse_slice(self, data: bytes) -> None:
        if self.phase == IDLE:
            self.phase = IN_HEADERS
            self._deadline = min(self._deadline, self.loop.time() + limits.HEADER_SECONDS)
        self._framing_bytes += len(data)
        super().data_received(data)
        if self._framing_bytes > limits.MAX_HEADER_BYTES and self._problem is None and self.phase != IDLE:
            self._problem = HeadersTooLarge(f"the headers exceed {limits.MAX_HEADER_BYTES} bytes")
            self.send_400_response("")

    def _hold(self, data: bytes) -> None:
        """Keep data for later, and read no more until it is parsed."""
        self._held, self.flow.is_held = data, True
        self.flow.pause_reading()

    def _release(self) -> bytes:
        """Return the data that was kept."""
        data, self._held, self.flow.is_held = self._held, b"", False
        return data

    def _parse_held(self) -> None:
        """Parse the data that was held back."""
        while self._held and not self._is_full and self._problem is None:
            self._parse(self._release())
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def on_headers_complete(self) -> None:
        """Freeze the headers: fields after them are trailers, and are dropped."""
        headers, self.headers = self.headers, []
        source = self.parser.get_http_version(), len(self.url), headers
        if source != self._source:  # as they often are those of the request before
            try:
                self.fields = read_headers(headers, version=source[0], size=source[1])
            except Problem as problem:
                self._problem = problem
                raise
            self._source = source
        self.phase, self._framing_bytes, self._deadline = IN_BODY, 0, math.inf
        self.scope["headers"] = headers
        self.scope["state"][HEADERS] = self.fields
        self.begin()

    def begin(self) -> None:
        """Begin to answer the request whose headers have come."""
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request has come in full."""
        self.end_of_request()
        super().on_message_complete()

    def end_of_request(self) -> None:
        """Wait for the next request."""
        self.phase, self._framing_bytes = IDLE, 0
        if not self._is_answering:
            self._deadline = self.loop.time() + limits.KEEP_ALIVE_SECONDS

    # --- what is sent

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        if self._unanswered:
            self._unanswered.popleft()
        if self.pipeline:
            super().on_response_complete()
        else:  # as uvicorn does, without a timer per response
            self.server_state.total_requests += 1
            self.flow.resume_reading()
            if self._problem is not None:
                if not self._is_refused and not self.transport.is_closing():
                    self._refuse(self._problem)
                return
            if self.phase == IDLE:
                self._deadline = self.loop.time() + limits.KEEP_ALIVE_SECONDS
            else:
                self._deadline = self.loop.time() + (limits.HEADER_SECONDS if self.phase == IN_HEADERS else limits.BODY_SECONDS)
        if self._held:
            self._parse_held()

    def resume_writing(self) -> None:
        """Parse the data that was held back while the client did not read."""
        super().resume_writing()
        self._parse_held()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, after the requests before it are answered."""
        if self._problem is None:
            self._problem = Malformed("this is not HTTP/1.1")
        if self.pipeline or (self.phase != IN_BODY and self._is_answering):
            if self.phase == IN_BODY:
                self.pipeline.popleft()
                self._unanswered.pop()  # the rest of this request will not come
            self.flow.pause_reading()
        elif self._is_answering and self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(self._problem)

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, and close the connection when the client has read it."""
        self._is_refused = True
        self._release()
        self._deadline = self.loop.time() + limits.LINGER_SECONDS
        headers, content = self.service.refuse_unread(problem)
        lines = [b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *headers, (b"connection", b"close"))]
        self.transport.write(b"".join([STATUS_LINE[problem.status], *lines, b"\r\n", content]))
        self.transport.write_eof()
        self.flow.resume_reading()  # and drop what comes: to close on unread data would take the answer away


class Protocol(LimitedConnection):
    """A connection with the short way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_short = False  # the request that is being parsed may go the short way
        self._body = b""
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        super().data_received(data)
        if self._is_short and self._timer is None:  # its body is still to come, as many clients send it on its own
            self._timer = self.loop.call_later(BODY_TIMEOUT_S, self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was held back."""
        self._end()
        super().connection_lost(exc)

    def begin(self) -> None:
        """Hold a request with votes back until its body is there; begin to answer any other."""
        if (
            self.url.endswith(VOTES_PATH_SUFFIX)
            and (self.cycle is None or self.cycle.response_complete)  # else answers would come out of order
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self.parser.should_keep_alive()
            and self.parser.get_method() == b"POST"
            and self.fields.version == "1.1"
        ):
            self._is_short, self._body = True, b""
        else:
            super().begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if not self._is_short:
            super().on_body(body)
            return
        self._framing_bytes = 0
        self._body += body
        if len(self._body) > MAX_FAST_BODY_BYTES:
            self._go_on()

    def on_message_complete(self) -> None:
        """Take the votes of a request that is whole."""
        if self._is_short:
            before, self.cycle = self.cycle, (vote := FastVoteCycle(self))
            self.end_of_request()
            if self.service.take(self.url, self.fields, self._body, vote.answer):
                self._end()
                return
            self.cycle = before
            self._go_on()
        super().on_message_complete()

    def _end(self) -> None:
        self._is_short = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on(self) -> None:
        """Let a request that was held back go the way of all others."""
        self._end()
        if self._problem is None:
            super().begin()
            super().on_body(self._body)


class _DisconnectEvent:
    """What uvicorn sets when a client has gone: nobody waits for it here."""

    def set(self) -> None:
        """Do nothing."""


class FastVoteCycle(RequestResponseCycle):
    """A request on the short way, from its last byte to its answer: what uvicorn's protocol asks of one of its own."""

    message_event: Any = _DisconnectEvent()

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self.keep_alive = True  # until the server stops
        self.disconnected = self.response_complete = False

    def answer(self, status: int, fields: bytes, content: bytes) -> None:
        """Send the answer, with one write.

        - `status`: of HTTP.
        - `fields`: the lines of the header, each with its end; the length of the content is among them.
        - `content`: the body.
        """
        self.response_complete = True
        protocol = self._protocol
        if self.disconnected:
            return
        first = protocol.service.default_lines(protocol.server_state.default_headers)
        last = b"" if self.keep_alive else b"connection: close\r\n"
        protocol.transport.write(b"%b%b%b%b\r\n%b" % (STATUS_LINE[status], first, fields, last, content))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()
