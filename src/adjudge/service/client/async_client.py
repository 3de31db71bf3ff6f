"""The client whose calls are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from adjudge.service.campaigns.decision import Decision
from adjudge.service.client.client import MAX_STREAM_SILENCE_S, STREAM_REQUEST, WINDOW_RULE, Client, ClientOptions
from adjudge.service.client.errors import ServiceError
from adjudge.service.client.request import DEFAULT_URL, Request
from adjudge.service.client.streams import (
    DEFAULT_WINDOW,
    MAX_EVENT_SILENCE_S,
    NDJSON_TYPE,
    AsyncEvents,
    EventCursor,
    Refused,
    ServerSentEvent,
    VoteLines,
    each,
    send_lines_async,
)
from adjudge.service.client.votes import Chunks, Total, Vote, vote_of, with_id
from adjudge.service.http import types as t

if TYPE_CHECKING:
    from adjudge.service.client.transport import AsyncExchange

P = ParamSpec("P")
T = TypeVar("T")


def make_awaitable(call: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a call of `Client` as one that is awaited: it returns what `_ask` returns, here a coroutine."""
    return call  # type: ignore[return-value]


def iterate_async(call: Callable[Concatenate[Client, P], Iterator[T]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """Return a list of `Client` as an asynchronous one: it returns what `_pages` returns."""
    return call  # type: ignore[return-value]


class AsyncClient(ClientOptions):
    """A client of the live service whose calls are awaited; apart from that, those of `Client`, which explains them.

    One event loop uses a client. Lists are asynchronous iterators.

    - `url`: address of the service; https:// is verified with the certificates that the system trusts.
    - `token`: access token, required beyond loopback; None: the environment variable ADJUDGE_TOKEN.
    - `campaign`: name of the campaign.
    - `timeout`: seconds to wait for each step of a request: connecting, sending, reading.
    - `retries`: how many times a request is retried.
    - `deadline`: seconds after which a request is no longer retried.

    >>> import asyncio, adjudge
    >>> from adjudge.service import running
    >>> async def ask(url):
    ...     async with adjudge.AsyncClient(url) as client:
    ...         votes = [("post 7", worker, "spam") for worker in ("ann", "bob", "eve")]
    ...         async for decision in client.stream(votes, window=1):
    ...             print(decision.status, decision.votes)
    >>> with running(labels=["spam", "fine"]) as url:
    ...     asyncio.run(ask(url))
    open 1
    open 2
    decided 3
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        campaign: str = "default",
        timeout: float = 10.0,
        retries: int = 5,
        deadline: float = 60.0,
    ) -> None:
        super().__init__(url, token=token, campaign=campaign, timeout=timeout, retries=retries, deadline=deadline)
        from adjudge.service.client.transport import AsyncConnections

        self._connections = AsyncConnections(self._address, self._headers)

    async def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _ask(self, request: Request[T]) -> T:
        attempts = self._attempts(request)
        while True:
            try:
                return attempts.request.value(await self._connections.send(attempts.request, attempts.timeout(self._timeout)))
            except ServiceError as error:
                pause = attempts.after(error)
            await asyncio.sleep(pause)

    async def _pages(self, kind: type[T], *parts: str, **query: Any) -> AsyncIterator[T]:
        """Yield the rows of page after page."""
        while True:
            page = await self._ask(self._page_request(kind, *parts, **query))
            for row in page.rows:
                yield row
            if page.next is None:
                return
            query["after"] = page.next

    async def _call(self, kind: type[T], method: str, *parts: str, **options: Any) -> T:
        return await self._ask(self._request(kind, method, *parts, **options))

    # --- votes

    async def vote(self, task: str, worker: str, label: str, *, id: str | None = None) -> Decision:  # noqa: A002
        """Send a vote, and return what is decided of its task once the vote is on disk. See `Client.vote`."""
        return await self._ask(self._vote_request(with_id(vote_of((task, worker, label, id)))))

    async def vote_many(self, votes: Iterable[Vote] | AsyncIterable[Vote], *, ids: bool = True) -> t.VoteAnswer:
        """Send votes in requests of up to 5,000, and return the last decision of every task. See `Client.vote_many`."""
        total, chunks = Total(), Chunks(ids=ids)
        async for vote in each(votes):
            full = chunks.add(vote)
            if full is not None:
                total.add(await self._ask(self._votes_request(full)))
        if last := chunks.take():
            total.add(await self._ask(self._votes_request(last)))
        return total.answer()

    def stream(
        self,
        votes: Iterable[Vote] | AsyncIterable[Vote],
        *,
        window: int = DEFAULT_WINDOW,
        ids: bool = True,
        refused: Refused | None = None,
    ) -> AsyncGenerator[Decision, None]:
        """Send votes for as long as they come, and yield one decision per vote, in their order. See `Client.stream`."""
        WINDOW_RULE.check("window", window)

        async def connect() -> AsyncExchange:
            silence = max(self._timeout, MAX_STREAM_SILENCE_S)
            return await self._connections.exchange(
                self._path("votes:stream"), NDJSON_TYPE, timeout=self._timeout, silence=silence
            )

        lines = VoteLines(window=window, ids=ids)
        return send_lines_async(votes, lines, connect, lambda: self._attempts(STREAM_REQUEST), refused)

    retract = make_awaitable(Client.retract)
    votes = iterate_async(Client.votes)

    # --- tasks

    task = make_awaitable(Client.task)
    tasks = iterate_async(Client.tasks)
    add_tasks = make_awaitable(Client.add_tasks)
    history = make_awaitable(Client.history)
    next = make_awaitable(Client.next)
    gold = make_awaitable(Client.gold)
    override = make_awaitable(Client.override)
    reopen = make_awaitable(Client.reopen)
    decisions = iterate_async(Client.decisions)

    async def events(self, *, after: int | str | None = None) -> AsyncEvents:
        """Return decisions as they come, each once: an iterator that has no end. See `Client.events`."""
        seen = EventCursor((await self.describe()).position if after is None else after)

        def connect(at: str) -> AbstractAsyncContextManager[AsyncIterable[ServerSentEvent]]:
            return self._connections.events(
                self._path("events", query={"after": at}), timeout=self._timeout, silence=MAX_EVENT_SILENCE_S
            )

        return AsyncEvents(seen, connect, lambda forever: self._attempts(STREAM_REQUEST, forever=forever))

    # --- workers

    workers = iterate_async(Client.workers)
    worker = make_awaitable(Client.worker)
    set_worker = make_awaitable(Client.set_worker)
    erase_worker = make_awaitable(Client.erase_worker)
    ban = make_awaitable(Client.ban)
    unban = make_awaitable(Client.unban)

    # --- the campaign

    campaigns = make_awaitable(Client.campaigns)
    create = make_awaitable(Client.create)
    describe = make_awaitable(Client.describe)
    change = make_awaitable(Client.change)
    add_label = make_awaitable(Client.add_label)
    rename_label = make_awaitable(Client.rename_label)
    policy = make_awaitable(Client.policy)
    policies = make_awaitable(Client.policies)
    set_policy = make_awaitable(Client.set_policy)
    backtest = make_awaitable(Client.backtest)
    refit = make_awaitable(Client.refit)
    reset_breaker = make_awaitable(Client.reset_breaker)

    # --- webhooks

    webhooks = make_awaitable(Client.webhooks)
    add_webhook = make_awaitable(Client.add_webhook)
    delete_webhook = make_awaitable(Client.delete_webhook)
    dead_letters = iterate_async(Client.dead_letters)
    redeliver = make_awaitable(Client.redeliver)

    # --- the server

    health = make_awaitable(Client.health)
    ready = make_awaitable(Client.ready)
    metrics = make_awaitable(Client.metrics)
