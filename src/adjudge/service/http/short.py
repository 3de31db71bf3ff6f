"""The short way of votes, which are nearly all requests: no task, no messages, no object that others need.

uvicorn's protocol hands a request to the application as a task that receives and sends messages. For a vote that costs more
than the vote: the short way takes 1.5 times as many votes per second as a plain ASGI application (docs/decisions/046). Here a
vote is taken when the last byte of its request is parsed, and all answers of a commit are sent when it is on disk. Whatever
is unusual about a request goes the way of all others.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from adjudge.service.http.connections import LimitedConnection

VOTES_PATH_SUFFIX: Final = b"/votes"
MAX_FAST_BODY_BYTES: Final = 1 << 16  # bytes of a body
BODY_TIMEOUT_S: Final = 1.0  # seconds for a body to come in


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
        first = b"".join([b"%b: %b\r\n" % field for field in protocol.server_state.default_headers])  # the date
        last = b"" if self.keep_alive else b"connection: close\r\n"
        protocol.transport.write(b"%b%b%b%b\r\n%b" % (STATUS_LINE[status], first, fields, last, content))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()
