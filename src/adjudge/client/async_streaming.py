"""Long exchanges of the client that is awaited: votes in lines, decisions as they come. Lost connections are made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self

from adjudge.client.awaiting import AsyncExchange
from adjudge.client.calls import Vote
from adjudge.client.errors import ServiceError
from adjudge.client.events import Parser, Seen, ended
from adjudge.client.lines import Lines, Refused
from adjudge.client.retry import Attempts
from adjudge.client.streaming import refuse
from adjudge.live.decision import Decision


async def send_lines(
    votes: Iterable[Vote] | AsyncIterable[Vote],
    lines: Lines,
    connect: Callable[[], Awaitable[AsyncExchange]],
    attempts: Callable[[], Attempts[Any]],
    refused: Refused | None,
) -> AsyncGenerator[Decision, None]:
    """Yield one decision per vote.

    - `votes`: are taken as there is room for them.
    - `lines`: which are sent and answered.
    - `connect`: begins an exchange.
    - `attempts`: decides about trying again; begins anew whenever something was answered.
    - `refused`: is told of votes that are not taken; None: the first one raises.
    """
    source, tries = each(votes), attempts()
    exchange: AsyncExchange | None = None
    try:
        while True:
            while lines.wants:
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
                await exchange.write(lines.outgoing())
                if lines.ended:
                    await exchange.end()
                found = lines.received(await exchange.piece())
            except ServiceError as error:
                if exchange is not None:
                    await exchange.close()
                    exchange = None
                await asyncio.sleep(tries.after(error))
                continue
            if found:
                tries = attempts()
            for one in found:
                if isinstance(one, Decision):
                    yield one
                else:
                    refuse(one, refused)
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


class AsyncEvents:
    """Decisions as they come, each once: an iterator that makes lost connections again.

    `last` is the place of the decision that came last, as "17.1". A program that stores it, and begins with it the next time
    (`await client.events(after=last)`), misses none and gets none twice.
    """

    def __init__(
        self, seen: Seen, connect: Callable[[str], Awaitable[AsyncExchange]], attempts: Callable[[bool], Attempts[Any]]
    ) -> None:
        self.last = str(seen)
        self._seen, self._connect, self._attempts = seen, connect, attempts
        self._exchange: AsyncExchange | None = None
        self._running = self._run()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Decision:
        self.last, decision = await anext(self._running)
        return decision

    async def _run(self) -> AsyncGenerator[tuple[str, Decision], None]:
        tries, parser, answered = self._attempts(False), Parser(), False
        try:
            while True:
                try:
                    if self._exchange is None:
                        self._exchange, parser = await self._connect(str(self._seen)), Parser()
                    piece = await self._exchange.piece()
                    if not piece:
                        raise ended()
                    found = self._seen.new(parser.feed(piece))
                except ServiceError as error:
                    await self._drop()
                    await asyncio.sleep(tries.after(error))
                    continue
                if found or not answered:
                    tries, answered = self._attempts(True), True  # from now on a lost connection is waited for
                for one in found:
                    yield one
        finally:
            await self._drop()

    async def _drop(self) -> None:
        if self._exchange is not None:
            await self._exchange.close()
            self._exchange = None

    async def close(self) -> None:
        """Let go of the connection."""
        await self._running.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
