"""Decisions as server-sent events: those that the store has after the place where a client stopped, as they come to be there.

An event's id is the position of its decision. One event of the log (a refit, a ban) can decide many tasks: then the second
decision at position 17 has the id `17.2`, the third `17.3`. A client that resumes with the last id that it has seen gets
everything after it, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, MutableMapping
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.authority import Permit
from adjudge.service.http.listening import Place, Placed, Tail

KEEP_ALIVE: Final = 15.0  # seconds of silence after which a comment shows that the connection stands
STUCK: Final = 30.0  # seconds after which a client that reads nothing is cut off

decision: Callable[[bytes], Decision] = msgspec.json.Decoder(Decision).decode
encode: Final = msgspec.json.Encoder().encode


def event(place: Place, body: bytes) -> bytes:
    r"""Return one event; JSON has no line breaks of its own.

    >>> event(Place(17, 1), b'{"task":"a"}')
    b'id: 17\nevent: decision\ndata: {"task":"a"}\n\n'
    """
    return b"id: %b\nevent: decision\ndata: %b\n\n" % (str(place).encode(), body)


def last_event(name: str, detail: str) -> bytes:
    """Return the event that ends a stream, and says why; it has no id, so that the client resumes where it was."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode({"detail": detail}))


async def events(
    tail: Tail,
    after: Place | None,
    permit: Permit,
    ends: set[asyncio.Future[Any]],
    stopping: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    """Yield events as bytes.

    - `tail`: of the campaign.
    - `after`: where to begin; None: with what comes.
    - `permit`: of the request; the stream ends when it does.
    - `ends`: whatever of these is done first ends the stream.
    - `stopping`: whether that is because the server stops.
    """
    reading: asyncio.Future[tuple[list[Placed], Place]] | None = None  # for a client that is behind the window
    with tail.listen() as here, permit.watched() as revoked:
        place = here if after is None else after
        try:
            yield b"retry: 2000\n: adjudge\n\n"
            while True:
                more = tail.more()  # before the window is looked at: nothing comes between the two
                page = tail.after(place)
                if page is None and reading is None:
                    reading = asyncio.ensure_future(tail.catch_up(place))
                if not page:
                    waited: set[asyncio.Future[Any]] = {more if reading is None else reading, revoked, *ends}
                    await asyncio.wait(waited, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
                if stopping():
                    yield last_event("stopping", "the server stops: connect again, with the last id")
                    return
                if revoked.done():
                    problem = revoked.result()
                    yield last_event(problem.code, str(problem))
                    return
                if any(end.done() for end in ends):
                    return
                if reading is not None and reading.done():
                    page, place = reading.result()
                    reading = None
                elif page:
                    place = page[-1].place
                elif not more.done():
                    yield b": still here\n\n"
                if page:
                    yield b"".join(event(*each) for each in page)
        finally:
            if reading is not None:
                reading.cancel()


class EventStream(Response):
    """The answer: events until the client goes or reads nothing, its token is revoked, or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, tail: Tail, after: Place | None, permit: Permit, stopping: asyncio.Event) -> None:
        super().__init__()
        self._tail, self._after, self._permit, self._stopping = tail, after, permit, stopping

    def init_headers(self, headers: Any = None) -> None:
        """Set headers: no length, nothing kept or gathered on the way."""
        self.raw_headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events as they come."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(_gone(receive))
        stop = asyncio.ensure_future(self._stopping.wait())
        stream = events(self._tail, self._after, self._permit, {gone, stop}, self._stopping.is_set)
        try:
            async for chunk in stream:
                async with asyncio.timeout(STUCK):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            async with asyncio.timeout(STUCK):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # the connection is closed by the server, as the answer has no end
        finally:
            gone.cancel()
            stop.cancel()
            await stream.aclose()


async def _gone(receive: Callable[[], Any]) -> None:
    message: MutableMapping[str, Any] = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
