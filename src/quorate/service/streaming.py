"""A long stream of votes: lines in, lines out, while more is coming.

Lines are taken in groups as they arrive. Each group is applied in order, and several of them wait for the disk at once, so
that reading, voting and writing overlap. Whoever sends faster than that is read more slowly: nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quorate.errors import listed, shown
from quorate.service.campaign import Campaign
from quorate.service.errors import Invalid, Problem, TooLarge, Unavailable
from quorate.service.limits import MAX_LINE, Bucket
from quorate.service.reading import decoded
from quorate.service.types import StreamError, VoteAnswer, VoteIn

GROUPS: Final = 8  # that wait for the disk at once
MOST: Final = 1000  # votes of a group
CONTENT: Final = "application/x-ndjson"

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
    """

    media_type = CONTENT

    def __init__(self, campaign: Campaign, bucket: Bucket, stopping: asyncio.Event) -> None:
        super().__init__()
        self._campaign, self._bucket, self._stopping = campaign, bucket, stopping
        self._line = 0  # the last one that was taken apart
        self._parts: asyncio.Queue[Part | None] = asyncio.Queue(GROUPS)
        self._labels: set[str] = set()
        self._answering: asyncio.Future[None]

    def init_headers(self, headers: Any = None) -> None:
        """Set headers: no length is known."""
        self.raw_headers = [(b"content-type", CONTENT.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, vote and answer until the lines end."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._answering = answering = asyncio.ensure_future(self._answer(send))
        try:
            with suppress(_Ended):
                await self._read(receive, answering)
                await self._put(None)
            await answering
        finally:
            answering.cancel()
            while not self._parts.empty():
                _forget(self._parts.get_nowait())
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read(self, receive: Receive, answering: asyncio.Future[None]) -> None:
        """Take lines as they come, until they end."""
        rest = b""
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            while not answering.done():
                coming: asyncio.Future[Any] = asyncio.ensure_future(receive())
                await asyncio.wait({coming, stop, answering}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    await self._refuse(Unavailable("the server stops: send this line and those after it again"))
                    return
                message = coming.result()
                if message["type"] == "http.disconnect":
                    return
                rest += message.get("body", b"")
                more = message.get("more_body", False)
                whole, end, rest = rest.rpartition(b"\n") if more else (rest, b"", b"")
                if whole or end:
                    await self._take(whole)
                if len(rest) > MAX_LINE:
                    await self._refuse(TooLarge(f"a line is longer than {MAX_LINE} bytes: the stream ends here"))
                    return
                if not more:
                    return
        finally:
            stop.cancel()

    async def _put(self, part: Part | None) -> None:
        """Add to the answer, when there is room; or stop, where the answer has ended early."""
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
            for start in range(0, len(votes), MOST):
                group = votes[start : start + MOST]
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
                vote = decoded(_decoder.decode, line)
                if vote.label not in self._labels:
                    raise Invalid(f"label {shown(vote.label)} is unknown: the labels are {listed(self._labels, 20)}")
            except Problem as problem:
                if group:
                    await self._vote(lines, group)
                    lines, group = [], []
                await self._put(StreamError(problem.code, self._line, str(problem)))
            else:
                lines.append(self._line)
                group.append(vote)
                if len(group) == MOST:
                    await self._vote(lines, group)
                    lines, group = [], []
        if group:
            await self._vote(lines, group)

    async def _vote(self, lines: Sequence[int], votes: list[VoteIn]) -> None:
        """Hand a group to the campaign, with the numbers of its lines; one with a conflict is handed over vote by vote."""
        while seconds := self._bucket.wait(len(votes)):
            await asyncio.sleep(seconds)
        try:
            await self._fold(lines[0], votes)
        except Unavailable as problem:
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
        answer = await self._campaign.fold_votes(votes)
        await self._put(Group(line, votes, asyncio.ensure_future(self._on_disk(answer))))

    async def _on_disk(self, answer: VoteAnswer) -> VoteAnswer:
        await self._campaign.on_disk_now()
        return answer

    async def _answer(self, send: Send) -> None:
        """Send what became of the lines, in their order; end early where nothing can be taken any more."""
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
                    await _send(send, b"\n".join([told[vote.task] for vote in part.votes]) + b"\n")
                    continue
            await _send(send, _encode(error) + b"\n")
            if error.error in (Unavailable.code, TooLarge.code):
                break


class _Ended(Exception):  # noqa: N818 (it only leads out of the reading)
    """The answer has ended: there is no use in reading on."""


def _forget(part: Part | None) -> None:
    """Let a vote under way end by itself, without anybody who is told."""
    if isinstance(part, Group):
        part.task.add_done_callback(lambda task: task.cancelled() or task.exception())


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
