"""A long stream of votes: lines in, lines out, while more is coming.

Lines are taken in groups as they arrive. Each group is applied in order, and several of them wait for the disk at once, so
that reading, voting and writing overlap. A client that sends faster is read more slowly, so nothing piles up.

Many clients send everything before they read. Their answers are kept for them, up to a limit. A client that then still reads
nothing would wait for the server as the server waits for it: so the stream ends with an error that names the line to resume
from, and the rest of the request is read and dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjudge.errors import itemize, quote
from adjudge.service.http import limits
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.errors import Forbidden, Invalid, Problem, TooLarge, Unauthorized, Unavailable
from adjudge.service.http.leases import Lease
from adjudge.service.http.limits import MAX_LINE_BYTES, Bucket, Streams
from adjudge.service.http.parsing import decode_body
from adjudge.service.http.tokens import Permit
from adjudge.service.http.types import StreamError, VoteAnswer, VoteIn

MAX_PENDING_GROUPS: Final = 8  # that wait for the disk at once
MAX_VOTES_PER_GROUP: Final = 1000  # votes of a group
SENT_BYTES: Final = 64_000  # of the answer, about, that are sent at once
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
STREAM_ENDING_PROBLEMS: Final = (Unavailable, TooLarge, Unauthorized, Forbidden)  # problems that end a stream

_decoder: Final = msgspec.json.Decoder(VoteIn)
_encode: Final = msgspec.json.Encoder().encode


class Group(NamedTuple):
    """Votes under way."""

    line: int  # of the first
    votes: list[VoteIn]
    task: asyncio.Task[VoteAnswer]


Part: TypeAlias = Group | StreamError  # of an answer, in the order of the lines


class VoteStream(Response):
    """The answer to a stream of votes.

    - `campaign`: takes them.
    - `bucket`: the rate of the token; a stream waits where a request would be refused.
    - `stopping`: set when the server is about to stop.
    - `permit`: of the request; it is checked before every vote.
    - `streams`: counts the bytes that clients of all streams have not read.
    """

    media_type = NDJSON_MEDIA_TYPE

    def __init__(
        self,
        campaign: Campaign,
        bucket: Bucket,
        stopping: asyncio.Event,
        permit: Permit,
        streams: Streams | None = None,
    ) -> None:
        super().__init__()
        self._campaign, self._bucket, self._stopping, self._permit = campaign, bucket, stopping, permit
        self._backlog = Backlog(Streams() if streams is None else streams)
        self._line = 0  # the last one that was taken apart
        self._parts: asyncio.Queue[Part | None] = asyncio.Queue(MAX_PENDING_GROUPS)
        self._labels: set[str] = set()
        self._answering: asyncio.Future[None]
        self._is_whole = False  # the request has come to its end
        self._revoked: asyncio.Future[Problem]

    def init_headers(self, headers: Any = None) -> None:
        """Set headers: no length is known."""
        self.raw_headers = [
            (b"content-type", NDJSON_MEDIA_TYPE.encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, vote and answer until the lines end."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._answering = answering = asyncio.ensure_future(self._answer())
        sending = asyncio.ensure_future(self._backlog.send_to(send))
        dropping: asyncio.Future[None] | None = None
        try:
            with suppress(_Ended), self._permit.watch() as self._revoked:
                await self._read(receive, answering)
                await self._put(None)
            if not self._is_whole:
                dropping = asyncio.ensure_future(_drop(receive))
            await answering
            self._backlog.end()
            await sending
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in (answering, sending, dropping):
                if task is not None:
                    task.cancel()
            self._backlog.clear()
            while not self._parts.empty():
                _forget(self._parts.get_nowait())

    async def _read(self, receive: Receive, answering: asyncio.Future[None]) -> None:
        """Take lines as they come, until they end."""
        unfinished = b""
        stop = asyncio.ensure_future(self._stopping.wait())
        clock = asyncio.get_running_loop().time
        last_line_at = clock()
        try:
            while not answering.done():
                coming: asyncio.Future[Any] = asyncio.ensure_future(receive())
                await asyncio.wait(
                    {coming, stop, answering, self._revoked},
                    timeout=max(0.0, last_line_at + limits.STREAM_IDLE_SECONDS - clock()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._revoked.done():
                    coming.cancel()
                    await self._refuse(self._revoked.result())
                    return
                if not coming.done():
                    coming.cancel()
                    if stop.done():
                        await self._refuse(Unavailable("the server stops: send this line and those after it again"))
                    elif not answering.done():
                        idle = f"no line for {limits.STREAM_IDLE_SECONDS:g} seconds: the stream ends here"
                        await self._refuse(Unavailable(f"{idle}; open another one to continue"))
                    return
                message = coming.result()
                if message["type"] == "http.disconnect":
                    self._is_whole = True
                    return
                unfinished += message.get("body", b"")
                more = message.get("more_body", False)
                self._is_whole = not more
                if not await self._backlog.has_room(stop):
                    await self._refuse(Unavailable("too many answers are unread: read them, and resend from this line on"))
                    return
                whole, end, unfinished = unfinished.rpartition(b"\n") if more else (unfinished, b"", b"")
                if whole or end:
                    await self._take(whole)
                    last_line_at = clock()
                if len(unfinished) > MAX_LINE_BYTES:
                    await self._refuse(TooLarge(f"a line is longer than {MAX_LINE_BYTES} bytes: the stream ends here"))
                    return
                if not more:
                    return
        finally:
            stop.cancel()

    async def _put(self, part: Part | None) -> None:
        """Add to the answer when there is room; raise `_Ended` if the answer has ended early."""
        if self._parts.full():
            room = asyncio.ensure_future(self._parts.put(part))
            await asyncio.wait({room, self._answering}, return_when=asyncio.FIRST_COMPLETED)
            if room.done():
                return
            room.cancel()
        if self._answering.done():
            _forget(part)
            raise _Ended
        self._parts.put_nowait(part)

    async def _refuse(self, problem: Problem) -> None:
        await self._put(StreamError(problem.code, self._line + 1, str(problem)))

    async def _take(self, text: bytes) -> None:
        """Take lines apart, and hand the votes on; faults of single lines keep their places in the answer."""
        self._labels = {label.id for label in self._campaign.labels}
        try:
            votes = _decoder.decode_lines(text) if b"\\u0000" not in text else []
        except (ValueError, RecursionError):
            votes = []
        if len(votes) == text.count(b"\n") + 1 and {vote.label for vote in votes} <= self._labels:
            for start in range(0, len(votes), MAX_VOTES_PER_GROUP):
                group = votes[start : start + MAX_VOTES_PER_GROUP]
                await self._vote(range(self._line + 1, self._line + 1 + len(group)), group)
                self._line += len(group)
        else:
            await self._one_by_one(text)

    async def _one_by_one(self, text: bytes) -> None:
        """Take lines apart of which some are empty, or wrong."""
        lines: list[int] = []
        group: list[VoteIn] = []
        for line in text.split(b"\n"):
            self._line += 1
            if not line.strip():
                continue
            try:
                vote = decode_body(_decoder.decode, line)
                if vote.label not in self._labels:
                    raise Invalid(f"label {quote(vote.label)} is unknown: the labels are {itemize(self._labels, 20)}")
            except Problem as problem:
                if group:
                    await self._vote(lines, group)
                    lines, group = [], []
                await self._put(StreamError(problem.code, self._line, str(problem)))
            else:
                lines.append(self._line)
                group.append(vote)
                if len(group) == MAX_VOTES_PER_GROUP:
                    await self._vote(lines, group)
                    lines, group = [], []
        if group:
            await self._vote(lines, group)

    async def _vote(self, lines: Sequence[int], votes: list[VoteIn]) -> None:
        """Hand a group to the campaign, with the numbers of its lines; one with a conflict is handed over vote by vote."""
        while not self._revoked.done() and (seconds := self._bucket.wait(len(votes))):
            await asyncio.wait({self._revoked}, timeout=seconds)
        try:
            await self._fold(lines[0], votes)
        except STREAM_ENDING_PROBLEMS as problem:
            await self._put(StreamError(problem.code, lines[0], str(problem)))
        except Problem as problem:
            if len(votes) == 1:
                await self._put(StreamError(problem.code, lines[0], str(problem)))
                return
            for line, vote in zip(lines, votes, strict=True):
                try:
                    await self._fold(line, [vote])
                except Problem as single:
                    await self._put(StreamError(single.code, line, str(single)))

    async def _fold(self, line: int, votes: list[VoteIn]) -> None:
        """Have votes folded, before those of the next lines, and answer them once they are on disk."""
        self._permit.check()
        lease = self._permit.authority.lease(self._campaign)
        answer, has_items = await self._campaign.fold_votes(votes)
        written = self._on_disk(answer, lease, has_items=has_items)
        await self._put(Group(line, votes, asyncio.ensure_future(written)))

    async def _on_disk(self, answer: VoteAnswer, lease: Lease | None, *, has_items: bool) -> VoteAnswer:
        """Return an answer once its votes are on disk and the lease that it rests on is proven."""
        await self._campaign.votes_on_disk(has_items=has_items)
        await self._permit.authority.confirm(lease)
        return answer

    async def _answer(self) -> None:
        """Tell what became of the lines, in their order; end early where nothing can be taken any more."""
        while (part := await self._parts.get()) is not None:
            if isinstance(part, StreamError):
                error = part
            else:
                try:
                    answer = await part.task
                except Problem as problem:
                    error = StreamError(problem.code, part.line, str(problem))
                else:
                    told = {decision.task: _encode(decision) for decision in answer.decisions}
                    self._backlog.add(b"\n".join([told[vote.task] for vote in part.votes]) + b"\n")
                    continue
            self._backlog.add(_encode(error) + b"\n")
            if error.error in [problem.code for problem in STREAM_ENDING_PROBLEMS]:
                break


class Backlog:
    """Answers on their way to a client, which may not read them yet.

    - `streams`: counts the bytes of all streams.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._chunks: deque[bytes] = deque()
        self._size = 0  # bytes, those that are being sent among them
        self._is_ended = False
        self._changed, self._sent = asyncio.Event(), asyncio.Event()

    async def has_room(self, stop: asyncio.Future[Any]) -> bool:
        """Wait for room as long as the client reads; return False if it reads nothing for a while.

        - `stop`: ends the wait.
        """
        while self._size > limits.MAX_UNREAD_BYTES or self._streams.unread_bytes > limits.MAX_UNREAD_BYTES_IN_ALL:
            self._sent.clear()
            sent = asyncio.ensure_future(self._sent.wait())
            await asyncio.wait({sent, stop}, timeout=limits.UNREAD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not sent.done():
                sent.cancel()
                return False
        return True

    def add(self, chunk: bytes) -> None:
        """Queue bytes for sending."""
        self._chunks.append(chunk)
        self._count(len(chunk))
        self._changed.set()

    def end(self) -> None:
        """Note that nothing more will be added."""
        self._is_ended = True
        self._changed.set()

    def clear(self) -> None:
        """Forget what was not sent."""
        self._chunks.clear()
        self._count(-self._size)

    def _count(self, size: int) -> None:
        self._size += size
        self._streams.unread_bytes += size

    async def send_to(self, send: Send) -> None:
        """Send chunks as they come, until the end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._chunks:
                chunks, size = [], 0
                while self._chunks and size < SENT_BYTES:
                    chunks.append(self._chunks.popleft())
                    size += len(chunks[-1])
                await _send(send, b"".join(chunks))
                self._count(-size)
                self._sent.set()
            if self._is_ended:
                return


class _Ended(Exception):  # noqa: N818 (it only leads out of the reading)
    """The answer has ended, so the remaining lines are not read."""


def _forget(part: Part | None) -> None:
    """Let a vote under way finish, and ignore its result."""
    if isinstance(part, Group):
        part.task.add_done_callback(lambda task: task.cancelled() or task.exception())


async def _drop(receive: Receive) -> None:
    """Read the rest of a request and drop it, so that a client that sends everything first comes to read the answer."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
