"""Votes as a stream of lines: which are sent, which are answered, and which are to be sent again."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from adjudge.client.calls import Vote, vote_of
from adjudge.client.errors import BY_CODE, ConnectionFailed, Forbidden, ServiceError, Unauthorized, Unavailable, Unexpected
from adjudge.client.request import encode
from adjudge.live.decision import Decision
from adjudge.service.types import StreamError, VoteIn

CONTENT: Final = "application/x-ndjson"
WINDOW: Final = 1000  # votes that are sent before their decisions are waited for
MAX_BYTES: Final = 32_000  # of a group: two of them fit into what lies between two machines, so that neither waits for the other
MAX_LINE: Final = 1_000_000  # bytes of an answer without an end
LAST: Final = (Unavailable.kind, Unauthorized.kind, Forbidden.kind)  # after which the service takes no more

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


class Lines:
    """A stream of votes, whatever carries it: the driver adds votes, sends what `outgoing` gives, and hands over what comes.

    Every vote is answered by one line, in the order of the votes. So those at the front of the queue are answered first, and
    when a connection is lost, those in the queue are sent again. With ids the service counts them once.

    - `window`: how many votes may be unanswered.
    - `ids`: whether votes without an id get one.

    >>> lines = Lines(window=2)
    >>> lines.add(("t1", "ann", "spam"))
    >>> lines.wants
    False
    """

    def __init__(self, *, window: int = WINDOW, ids: bool = True) -> None:
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
        if self.ended or len(self._fresh) == self._group or self._size >= MAX_BYTES:
            return False
        return bool(self._fresh) or len(self._queue) <= self._window - self._group

    @property
    def finished(self) -> bool:
        """Whether everything is answered."""
        return self.ended and not self._queue

    def add(self, given: Vote) -> None:
        """Take a vote."""
        vote = vote_of(given, self._number)
        self._number += 1
        if self._make is not None and vote.id is None:
            vote = VoteIn(vote.task, vote.worker, vote.label, self._make())
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
        """Raise where the service has said that it cannot go on."""
        if self._fault is not None:
            raise self._fault

    def received(self, piece: bytes) -> list[Decision | Refusal]:
        """Return what a piece of the answer says, vote by vote.

        - `piece`: bytes as they came; none: the answer has ended.
        """
        if not piece:
            raise ConnectionFailed("the answer ended before all votes were answered", sent=True)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MAX_LINE:
            raise Unexpected("a line of the answer has no end")
        found: list[Decision | Refusal] = []
        for line in whole:
            if line and self._fault is None:
                self._one(line, found)
        return found

    def _one(self, line: bytes, found: list[Decision | Refusal]) -> None:
        try:
            answer: Decision | StreamError = _error(line) if line.startswith(b'{"error"') else _decision(line)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"a line of the answer is not understood: {error}") from None
        if isinstance(answer, StreamError) and answer.error in LAST:
            status, kind = BY_CODE[answer.error]
            self._fault = kind(answer.detail, status=status)
            return
        self._answered += 1
        matches = answer.line == self._answered if isinstance(answer, StreamError) else self._queue_task() == answer.task
        if not self._queue or not matches:
            raise Unexpected("lines of the answer are not those of the votes")
        vote, _ = self._queue.popleft()
        if isinstance(answer, Decision):
            found.append(answer)
            return
        status, kind = BY_CODE.get(answer.error, (500, Unexpected))
        which = f"task {vote.task!r}, worker {vote.worker!r}: {answer.detail}"
        found.append(Refusal(vote, kind(which, status=status, code=answer.error)))

    def _queue_task(self) -> str | None:
        return self._queue[0][0].task if self._queue else None
