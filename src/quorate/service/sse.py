"""Decisions as server-sent events: first those of the store after the place where a client stopped, then what comes.

An event's id is the position of its decision. One event of the log (a refit, a ban) can decide many tasks: then the second
decision at position 17 has the id `17.2`, the third `17.3`. A client that resumes with the last id that it has seen gets
everything after it, once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quorate.live.decision import Decision
from quorate.service.campaign import Campaign
from quorate.service.errors import Lagged, Malformed
from quorate.store.protocol import Store

KEEP_ALIVE: Final = 15.0  # seconds of silence after which a comment shows that the connection stands
STUCK: Final = 30.0  # seconds after which a client that reads nothing is cut off
PAGE: Final = 500  # decisions that are read from the store at once
_ID: Final = re.compile("[0-9]{1,18}([.][0-9]{1,9})?")  # numbers that a store can compare with
ALL: Final = 10**9  # decisions at one position, all of them

decision: Callable[[bytes], Decision] = msgspec.json.Decoder(Decision).decode
encode: Final = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """A place in the sequence of decisions: after the first `seen` at a position.

    >>> str(Place(17, 1)), str(Place(17, 3)), Place.of_event("17"), Place.of_query("17") > Place(17, 5)
    ('17', '17.3', Place(position=17, seen=1), True)
    """

    position: int
    seen: int

    def __str__(self) -> str:
        return str(self.position) if self.seen == 1 else f"{self.position}.{self.seen}"

    @classmethod
    def of_event(cls, text: str) -> Place:
        """Return the place right after the event with this id."""
        if not _ID.fullmatch(text):
            raise Malformed("Last-Event-ID has to be the id of an event: a position such as 17, or 17.2")
        position, _, seen = text.partition(".")
        return cls(int(position), int(seen or 1))

    @classmethod
    def of_query(cls, text: str) -> Place:
        """Return the place after a cursor; after a bare position it is after all of its decisions."""
        return cls.of_event(text) if "." in text else cls(int(text), ALL)


def stored(store: Store, campaign: int, after: Place, limit: int) -> list[tuple[Place, bytes]]:
    """Return stored decisions after a place, as JSON, each with its own place.

    - `store`: is read in the thread that calls.
    - `campaign`: its number.
    - `after`: where to begin.
    - `limit`: how many at most.
    """
    whole = after.seen >= ALL
    skipped = 0 if whole else after.seen
    rows = store.decisions(campaign, after=after.position if whole else after.position - 1, limit=limit + skipped)
    found: list[tuple[Place, bytes]] = []
    position = seen = 0
    for row in rows:
        position, seen = row.position, seen + 1 if row.position == position else 1
        place = Place(position, seen)
        if place > after:
            found.append((place, row.body))
            if len(found) == limit:
                break
    return found


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
    campaign: Campaign, store: Store, after: Place | None, ends: set[asyncio.Future[Any]], stopping: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield events as bytes.

    - `campaign`: whose decisions.
    - `store`: has those of the past.
    - `after`: where to begin; None: with what comes.
    - `ends`: whatever of these is done first ends the stream.
    - `stopping`: whether that is because the server stops.
    """
    listener = campaign.listen()
    coming: asyncio.Task[Decision] = asyncio.ensure_future(_next(listener))  # listens from now on, before the store is read
    try:
        await asyncio.sleep(0)
        yield b"retry: 2000\n: quorate\n\n"
        last = Place(0, 0)
        while after is not None:
            page = await asyncio.to_thread(stored, store, campaign.number, after, PAGE)
            if page:
                yield b"".join(event(*each) for each in page)
                after = last = page[-1][0]
            if len(page) < PAGE:
                break
        position = seen = 0
        while True:
            await asyncio.wait({coming, *ends}, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
            if stopping():
                yield last_event("stopping", "the server stops: connect again, with the last id")
                return
            if any(end.done() for end in ends):
                return
            if not coming.done():
                yield b": still here\n\n"
                continue
            told = coming.result()
            coming = asyncio.ensure_future(_next(listener))
            position, seen = told.position, seen + 1 if told.position == position else 1
            place = Place(position, seen)
            if place > last:  # others were read from the store already
                yield event(place, encode(told))
    except Lagged:
        yield last_event("lagged", "too slow: connect again, with the last id, and nothing is lost")
    except StopAsyncIteration:
        return
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, Lagged):
            await coming
        if hasattr(listener, "aclose"):
            await listener.aclose()


async def _next(listener: AsyncIterator[Decision]) -> Decision:
    try:
        return await anext(listener)
    except StopAsyncIteration:  # a task cannot end with it
        raise Lagged from None


class EventStream(Response):
    """The answer: events until the client goes, is too slow, or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, campaign: Campaign, store: Store, after: Place | None, stopping: asyncio.Event) -> None:
        super().__init__()
        self._campaign, self._store, self._after, self._stopping = campaign, store, after, stopping

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
        stream = events(self._campaign, self._store, self._after, {gone, stop}, self._stopping.is_set)
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
            await stream.aclose()  # type: ignore[attr-defined]


async def _gone(receive: Callable[[], Any]) -> None:
    message: MutableMapping[str, Any] = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
