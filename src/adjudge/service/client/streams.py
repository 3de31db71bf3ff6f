"""Streams of the client: votes as lines, decisions as events. Lost connections are made again."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias

import msgspec

from adjudge.errors import OptionError, quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.client.blocking import iterate
from adjudge.service.client.errors import (
    BY_CODE,
    ConnectionFailed,
    Forbidden,
    ServiceError,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from adjudge.service.client.request import Attempts, encode
from adjudge.service.client.votes import Vote, vote_of
from adjudge.service.http.types import StreamError, VoteIn

if TYPE_CHECKING:
    from adjudge.service.client.transport import Exchange

NDJSON_TYPE: Final = "application/x-ndjson"
DEFAULT_WINDOW: Final = 1000  # votes that are sent before their decisions are waited for
MAX_GROUP_BYTES: Final = (
    32_000  # of a group: two of them fit into what lies between two machines, so that neither waits for the other
)
# After a late first answer, groups are requests of their own: so many of them, in case only the service was slow for a moment,
# and this many times as many after the next one, as behind a proxy that reads whole requests each of them takes seconds.
FIRST_SINGLE_GROUPS: Final = 64
SINGLE_GROUPS_GROWTH: Final = 16
MAX_ANSWER_LINE_BYTES: Final = 1_000_000  # bytes of an answer without an end
FINAL_CODES: Final = (Unavailable.code, Unauthorized.code, Forbidden.code)  # after which the service takes no more
MAX_EVENT_SILENCE_S: Final = 45.0  # seconds after which a connection is taken for lost: the service says something every 15
WHOLE_POSITION: Final = 10**9  # decisions at one position, all of them

_decision: Final = msgspec.json.Decoder(Decision).decode
_error: Final = msgspec.json.Decoder(StreamError).decode
Refused: TypeAlias = Callable[[VoteIn, ServiceError], object]


class Refusal(NamedTuple):
    """A vote that was not taken, and why."""

    vote: VoteIn
    error: ServiceError


def fresh_ids() -> Callable[[], str]:
    """Return what makes ids that nobody has used: one random part, and a number behind it."""
    base, number = uuid.uuid4().hex, 0

    def make() -> str:
        nonlocal number
        number += 1
        return f"{base}-{number}"

    return make


class VoteLines:
    """A stream of votes without I/O: the driver adds votes, sends the bytes of `outgoing`, and passes received bytes on.

    Every vote is answered by one line, in the order of the votes. So those at the front of the queue are answered first, and
    when a connection is lost, those in the queue are sent again. With ids the service counts them once.

    - `window`: how many votes may be unanswered.
    - `ids`: whether votes without an id get one.

    >>> lines = VoteLines(window=2)
    >>> lines.add(("t1", "ann", "spam"))
    >>> lines.wants
    False
    """

    def __init__(self, *, window: int = DEFAULT_WINDOW, ids: bool = True) -> None:
        self._window, self._group = window, max(window // 2, 1)
        self._make: Callable[[], str] | None = fresh_ids() if ids else None
        self._queue: deque[tuple[VoteIn, bytes]] = deque()  # not answered
        self._fresh: list[bytes] = []  # not sent
        self._size = 0  # bytes of those
        self._rest = b""  # the beginning of a line
        self._number = 0  # of votes given
        self._answered = 0  # lines of this connection
        self.ended = False  # whether there are no more votes
        self._fault: ServiceError | None = None

    @property
    def wants(self) -> bool:
        """Whether a vote is to be added now, before anything is sent or waited for."""
        if self.ended or len(self._fresh) == self._group or self._size >= MAX_GROUP_BYTES:
            return False
        return bool(self._fresh) or len(self._queue) <= self._window - self._group

    @property
    def is_answered(self) -> bool:
        """Whether every vote so far is answered."""
        return not self._queue

    @property
    def finished(self) -> bool:
        """Whether everything is answered."""
        return self.ended and not self._queue

    def add(self, source: Vote) -> None:
        """Take a vote."""
        vote = vote_of(source, self._number)
        self._number += 1
        if self._make is not None and vote.id is None:
            vote = msgspec.structs.replace(vote, id=self._make())
        line = encode(vote) + b"\n"
        self._queue.append((vote, line))
        self._fresh.append(line)
        self._size += len(line)

    def end(self) -> None:
        """Note that there are no more votes."""
        self.ended = True

    def begin(self) -> None:
        """Note that a new connection carries the stream: all that is unanswered is sent again."""
        self._fresh = [line for _, line in self._queue]
        self._rest, self._answered, self._fault = b"", 0, None

    def outgoing(self) -> bytes:
        """Return what is to be sent now."""
        lines, self._fresh, self._size = self._fresh, [], 0
        return b"".join(lines)

    def check(self) -> None:
        """Raise if the service has ended the stream."""
        if self._fault is not None:
            raise self._fault

    def received(self, piece: bytes) -> list[Decision | Refusal]:
        """Return what a piece of the answer says, vote by vote.

        - `piece`: bytes as they came; none: the answer has ended.
        """
        if not piece:
            raise ConnectionFailed("the answer ended before all votes were answered", sent=True)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MAX_ANSWER_LINE_BYTES:
            raise Unexpected("a line of the answer has no end")
        answers: list[Decision | Refusal] = []
        for line in whole:
            if line and self._fault is None:
                self._one(line, answers)
        return answers

    def _one(self, line: bytes, answers: list[Decision | Refusal]) -> None:
        try:
            answer: Decision | StreamError = _error(line) if line.startswith(b'{"error"') else _decision(line)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"a line of the answer is not understood: {error}") from None
        if isinstance(answer, StreamError) and answer.error in FINAL_CODES:
            status, kind = BY_CODE[answer.error]
            self._fault = kind(answer.detail, status=status)
            return
        self._answered += 1
        matches = answer.line == self._answered if isinstance(answer, StreamError) else self._queue_task() == answer.task
        if not self._queue or not matches:
            raise Unexpected("lines of the answer are not those of the votes")
        vote, _ = self._queue.popleft()
        if isinstance(answer, Decision):
            answers.append(answer)
            return
        status, kind = BY_CODE.get(answer.error, (500, Unexpected))
        which = f"task {vote.task!r}, worker {vote.worker!r}: {answer.detail}"
        answers.append(Refusal(vote, kind(which, status=status, code=answer.error)))

    def _queue_task(self) -> str | None:
        return self._queue[0][0].task if self._queue else None


def refuse(refusal: Refusal, refused: Refused | None) -> None:
    """Tell of a vote that was not taken, or raise."""
    if refused is None:
        raise refusal.error
    refused(*refusal)


async def send_lines(
    votes: Iterable[Vote] | AsyncIterable[Vote],
    lines: VoteLines,
    connect: Callable[[], Awaitable[Exchange]],
    sleep: Callable[[float], Awaitable[None]],
    attempts: Callable[[], Attempts[Any]],
    refused: Refused | None,
) -> AsyncGenerator[Decision, None]:
    """Yield one decision per vote.

    - `votes`: are taken as there is room for them.
    - `lines`: which are sent and answered.
    - `connect`: begins an exchange.
    - `sleep`: waits some seconds.
    - `attempts`: makes the retry state; there is a new one after every answer.
    - `refused`: called with each rejected vote; None: the first one raises.
    """
    source, tries = each(votes), attempts()
    exchange: Exchange | None = None
    single, more_single = 0, FIRST_SINGLE_GROUPS  # groups that are requests of their own: now, and after the next late answer
    try:
        while True:
            while lines.wants and (exchange is None or not exchange.is_ended):
                try:
                    lines.add(await anext(source))
                except StopAsyncIteration:
                    lines.end()
            if lines.finished:
                return
            try:
                if exchange is None:
                    exchange = await connect()
                    lines.begin()
                lines.check()
                if not exchange.is_ended:
                    await exchange.write(lines.outgoing(), end=lines.ended or single > 0)
                    single -= single > 0
                was_ended = exchange.is_ended
                piece = await exchange.piece()
                if exchange.is_ended and not was_ended:
                    single, more_single = more_single, SINGLE_GROUPS_GROWTH * more_single
                if not piece and lines.is_answered:
                    await exchange.close()
                    exchange = None
                    continue
                answers = lines.received(piece)
            except ServiceError as error:
                if exchange is not None:
                    await exchange.close()
                    exchange = None
                await sleep(tries.after(error))
                continue
            if answers:
                tries = attempts()
            for answer in answers:
                if isinstance(answer, Decision):
                    yield answer
                else:
                    refuse(answer, refused)
    finally:
        if exchange is not None:
            await exchange.close()


async def each(votes: Iterable[Vote] | AsyncIterable[Vote]) -> AsyncIterator[Vote]:
    """Yield votes of either kind of iterable."""
    if isinstance(votes, AsyncIterable):
        async for vote in votes:
            yield vote
    else:
        for vote in votes:
            yield vote


class ServerSentEvent(Protocol):
    """A server-sent event."""

    @property
    def id(self) -> str:
        """The id, "" if there is none."""

    @property
    def event(self) -> str:
        """The kind."""

    @property
    def data(self) -> str:
        """The content."""


class EventCursor:
    """Where in the sequence of decisions a reader is: it gets each of them once, over any number of connections.

    - `after`: a position, behind all of whose decisions it begins; or the place of a decision, such as "17.2".

    >>> seen = EventCursor("17.2")
    >>> str(seen), str(EventCursor(17))
    ('17.2', '17')
    """

    def __init__(self, after: int | str) -> None:
        text = str(after) if isinstance(after, int | str) and not isinstance(after, bool) else ""
        position, dot, number = text.partition(".")
        if not _is_number(position) or (dot and not _is_number(number)):
            raise OptionError(f"after is {quote(after)}: give a position such as 17, or the place of a decision such as '17.2'")
        self._place = int(position), int(number) if dot else WHOLE_POSITION

    def __str__(self) -> str:
        position, number = self._place
        return str(position) if number == WHOLE_POSITION else f"{position}.{number}"

    def new(self, event: ServerSentEvent) -> tuple[str, Decision] | None:
        """Return the decision of an event with its place; None if it was seen, or if the event has none."""
        if event.event != "decision":
            return None
        position, dot, number = event.id.partition(".")
        if not _is_number(position) or (dot and not _is_number(number)):
            raise Unexpected(f"an event has the id {event.id!r}, which is not a position")
        place = int(position), int(number) if dot else 1
        if place <= self._place:
            return None
        try:
            decision = _decision(event.data)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"an event is not understood: {error}") from None
        self._place = place
        return str(self), decision


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


async def follow_events(
    seen: EventCursor,
    connect: Callable[[str], AbstractAsyncContextManager[AsyncIterable[ServerSentEvent]]],
    sleep: Callable[[float], Awaitable[None]],
    attempts: Callable[[bool], Attempts[Any]],
) -> AsyncGenerator[tuple[str, Decision], None]:
    """Yield decisions with their places, each once, over any number of connections.

    - `seen`: where to begin; it moves on.
    - `connect`: opens the events after a place.
    - `sleep`: waits some seconds.
    - `attempts`: makes the retry state; True retries for as long as it takes.
    """
    tries, answered = attempts(False), False
    while True:
        try:
            async with connect(str(seen)) as events:
                async for event in events:
                    decision = seen.new(event)
                    if decision is not None or not answered:
                        tries, answered = attempts(True), True  # from now on a lost connection is waited for
                    if decision is not None:
                        yield decision
            # The server stops, or this reader was too slow.
            raise ConnectionFailed("the stream of events has ended", sent=True)
        except ServiceError as error:
            pause = tries.after(error)
        await sleep(pause)


class Events:
    """Decisions as they are made, each once: an iterator that reconnects by itself.

    `last` is the position of the latest decision, as "17.1". A program that stores it and starts from it the next time
    (`client.events(after=last)`) misses none and gets none twice.

    Parameters
    ----------
    after : str
        Position after which to start.
    running : async generator
        The decisions with their positions.

    """

    def __init__(self, after: str, running: AsyncGenerator[tuple[str, Decision], None]) -> None:
        self.last, self._running = after, iterate(running)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Decision:
        self.last, decision = next(self._running)
        return decision

    def close(self) -> None:
        """Let go of the connection."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEvents:
    """Decisions as they come, each once: `Events` to be awaited."""

    def __init__(self, after: str, running: AsyncGenerator[tuple[str, Decision], None]) -> None:
        self.last, self._running = after, running

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Decision:
        self.last, decision = await anext(self._running)
        return decision

    async def close(self) -> None:
        """Let go of the connection."""
        await self._running.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
