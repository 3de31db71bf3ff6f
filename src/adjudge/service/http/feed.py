"""The feed of decisions: server-sent events, read from the store from the place where a client stopped.

A wake-up only says that there may be more; a listener keeps its place and reads what the store has after it. So the feed does
not depend on which code wrote a decision, or whether that code learned of the commit: the reply may have been lost, the
campaign reloaded, or the decision written by another process.

The id of an event is the position of its decision. One event of the log (a refit, a ban) can decide many tasks: the second
decision at position 17 has the id `17.2`, the third `17.3`. A client that resumes with the last id it has seen gets
everything after it, once.

Whether breakers hold decisions is a state, not a decision. It is sent when it changes, and to clients that connect while they do,
as an event without an id. It follows the commit of the event that tripped or reset the breakers.
"""

from __future__ import annotations

import asyncio
import logging
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjudge.errors import AdjudgeError
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.errors import Malformed
from adjudge.service.http.tokens import Permit
from adjudge.service.store.store import Store

log = logging.getLogger(__name__)
MAX_PAGE_DECISIONS: Final = 500  # read from the store at once
MAX_WINDOW_DECISIONS: Final = 2000  # kept for listeners who are nearly up to date
MAX_WINDOW_BYTES: Final = 2_000_000
MIN_LOOK_INTERVAL_S: Final = 0.02  # between two reads while decisions keep coming
MAX_LOOK_INTERVAL_S: Final = 5.0  # without a wake-up
RETRY_S: Final = 0.5  # after a read that failed
_ID: Final = re.compile("[0-9]{1,18}([.][0-9]{1,9})?")  # numbers that a store can compare with
MAX_DECISIONS_PER_POSITION: Final = 10**9  # decisions at one position, all of them
KEEP_ALIVE: Final = 15.0  # seconds of silence after which a comment shows that the connection stands
STUCK: Final = 30.0  # seconds after which a client that reads nothing is cut off
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
        return cls.of_event(text) if "." in text else cls(int(text), MAX_DECISIONS_PER_POSITION)


class Placed(NamedTuple):
    """A decision as JSON, and its place."""

    place: Place
    body: bytes


def read_decisions(store: Store, campaign: int, after: Place, limit: int) -> list[Placed]:
    """Return stored decisions after a place.

    - `store`: is read in the thread that calls.
    - `campaign`: its number.
    - `after`: where to begin.
    - `limit`: how many at most.
    """
    whole = after.seen >= MAX_DECISIONS_PER_POSITION
    skipped = 0 if whole else after.seen
    rows = store.decisions(campaign, after=after.position if whole else after.position - 1, limit=limit + skipped)
    decisions: list[Placed] = []
    position = seen = 0
    for row in rows:
        position, seen = row.position, seen + 1 if row.position == position else 1
        place = Place(position, seen)
        if place > after:
            decisions.append(Placed(place, row.body))
            if len(decisions) == limit:
                break
    return decisions


class Tail:
    """The newest decisions of a campaign, read once for all who listen, and only while somebody does.

    - `store`: has the decisions.
    - `campaign`: its number.
    - `committed`: returns the position up to which this process knows the log.
    """

    def __init__(self, store: Store, campaign: int, committed: Callable[[], int]) -> None:
        self._store, self._number, self._committed = store, campaign, committed
        self.listeners = 0
        self.tripped: str | None = None  # the reason for which breakers hold decisions, once it is on disk
        self._reader: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._window: list[Placed] = []  # the decisions between these two places, without a gap
        self._start = self._end = Place(0, MAX_DECISIONS_PER_POSITION)
        self._more: asyncio.Future[None] | None = None  # done when the window has grown

    def note_breaker(self, tripped: str | None) -> None:
        """Note the reason for which breakers hold decisions, None if they do not, and wake listeners if it is new."""
        if tripped != self.tripped:
            self.tripped = tripped
            self._wake_listeners()

    def wake(self) -> None:
        """Have the store looked at: there may be more."""
        if self.listeners:
            self._wake.set()

    @contextmanager
    def listen(self) -> Iterator[Place]:
        """Read the store for a listener for as long as this lasts; yield the place from which new decisions come."""
        start = Place(self._committed(), MAX_DECISIONS_PER_POSITION)
        if not self.listeners:
            self._window, self._start, self._end = [], start, start
            self._reader = asyncio.ensure_future(self._read_on())
        self.listeners += 1
        try:
            yield start
        finally:
            self.listeners -= 1
            if not self.listeners and self._reader is not None:
                self._reader.cancel()

    def after(self, place: Place) -> list[Placed] | None:
        """Return the decisions of the window after a place, maybe none; None: the place is behind the window."""
        if place < self._start:
            return None
        begin = bisect_right(self._window, place, key=_place)
        return self._window[begin : begin + MAX_PAGE_DECISIONS]

    async def catch_up(self, place: Place) -> tuple[list[Placed], Place]:
        """Return decisions of the store after a place that is behind the window, and the place after them."""
        start = self._start
        page = await self._read(place)
        return page, page[-1].place if page else start

    def more(self) -> asyncio.Future[None]:
        """Return the future of decisions that are not in the window yet."""
        if self._more is None or self._more.done():
            self._more = asyncio.get_running_loop().create_future()
        return self._more

    async def _read_on(self) -> None:
        """Keep the window up to date."""
        while True:
            self._wake.clear()
            page = await self._read(self._end)
            if page:
                self._add(page)
            if len(page) < MAX_PAGE_DECISIONS:
                await asyncio.sleep(MIN_LOOK_INTERVAL_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(MAX_LOOK_INTERVAL_S):
                        await self._wake.wait()

    def _add(self, page: list[Placed]) -> None:
        self._window += page
        self._end = page[-1].place
        kept = size = 0
        for each in reversed(self._window):
            size += len(each.body)
            if kept == MAX_WINDOW_DECISIONS or size > MAX_WINDOW_BYTES:
                break
            kept += 1
        if dropped := len(self._window) - kept:
            self._start = self._window[dropped - 1].place
            del self._window[:dropped]
        self._wake_listeners()

    def _wake_listeners(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def _read(self, after: Place) -> list[Placed]:
        is_logged = False
        while True:
            try:
                return await asyncio.to_thread(read_decisions, self._store, self._number, after, MAX_PAGE_DECISIONS)
            except (AdjudgeError, OSError) as error:  # as while the database is down: the place stays
                if not is_logged:
                    log.warning("decisions cannot be read for those who listen: %s", error)
                is_logged = True
                await asyncio.sleep(RETRY_S)


def _place(placed: Placed) -> Place:
    return placed.place


def format_event(place: Place, body: bytes) -> bytes:
    r"""Return one event; JSON has no line breaks of its own.

    >>> format_event(Place(17, 1), b'{"task":"a"}')
    b'id: 17\nevent: decision\ndata: {"task":"a"}\n\n'
    """
    return b"id: %b\nevent: decision\ndata: %b\n\n" % (str(place).encode(), body)


def format_breaker(tripped: str | None) -> bytes:
    r"""Return the event that says whether breakers hold decisions, and why; it has no id.

    >>> format_breaker(None)
    b'event: breaker\ndata: {"tripped":null}\n\n'
    """
    return b"event: breaker\ndata: %b\n\n" % encode({"tripped": tripped})


def format_last_event(name: str, detail: str) -> bytes:
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
    - `after`: where to begin; None: with the next decision.
    - `permit`: of the request; the stream ends when it does.
    - `ends`: the stream ends when one of these is done.
    - `stopping`: whether that is because the server stops.
    """
    reading: asyncio.Future[tuple[list[Placed], Place]] | None = None  # for a client that is behind the window
    with tail.listen() as newest, permit.watch() as revoked:
        place, tripped = newest if after is None else after, None
        try:
            yield b"retry: 2000\n: adjudge\n\n"
            while True:
                more = tail.more()  # before the window is looked at: nothing comes between the two
                if tail.tripped != tripped:
                    tripped = tail.tripped
                    yield format_breaker(tripped)
                page = tail.after(place)
                if page is None and reading is None:
                    reading = asyncio.ensure_future(tail.catch_up(place))
                if not page:
                    waited: set[asyncio.Future[Any]] = {more if reading is None else reading, revoked, *ends}
                    await asyncio.wait(waited, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
                if stopping():
                    yield format_last_event("stopping", "the server stops: connect again, with the last id")
                    return
                if revoked.done():
                    problem = revoked.result()
                    yield format_last_event(problem.code, str(problem))
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
                    yield b"".join(format_event(*each) for each in page)
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
