"""The client whose calls are awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from adjudge.service.campaigns.decision import Decision
from adjudge.service.client.base import ClientOptions
from adjudge.service.client.client import Client
from adjudge.service.client.request import Address, Request
from adjudge.service.client.streams import DEFAULT_WINDOW, AsyncEvents, EventCursor, Refused
from adjudge.service.client.votes import Vote
from adjudge.service.http import types as t

if TYPE_CHECKING:
    from adjudge.service.client.transport import Connections

P = ParamSpec("P")
T = TypeVar("T")


def make_awaitable(call: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a call of `Client` as one that is awaited: it returns what `_ask` or `_call` return, here a coroutine."""
    return call  # type: ignore[return-value]


def iterate_async(call: Callable[Concatenate[Client, P], Iterator[T]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """Return a list of `Client` as an asynchronous one: it returns what `_pages` returns."""
    return call  # type: ignore[return-value]


class AsyncClient(ClientOptions):
    """A client of the live service whose calls are awaited; otherwise they are those of `Client`, which documents them.

    A client belongs to one event loop. Lists are asynchronous iterators.

    Parameters
    ----------
    url, token, campaign, timeout, retries, deadline : as for `Client`
        Address, access, and retries.

    Examples
    --------
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

    def _connect(self, address: Address, headers: Mapping[str, str]) -> Connections:
        from adjudge.service.client.transport import AwaitedConnections

        return AwaitedConnections(address, headers)

    async def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _ask(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        return self._send(request)

    def _call(self, kind: type[T], method: str, *parts: str, **options: Any) -> Coroutine[Any, Any, T]:
        return self._send(self._request(kind, method, *parts, **options))

    def _pages(self, kind: type[T], *parts: str, **query: Any) -> AsyncIterator[T]:
        return self._iterate_rows(kind, *parts, **query)

    # --- votes

    vote = make_awaitable(Client.vote)

    async def vote_many(self, votes: Iterable[Vote] | AsyncIterable[Vote], *, ids: bool = True) -> t.VoteAnswer:
        """Send votes in requests of up to 5,000, and return the last decision on every task.

        Parameters
        ----------
        votes, ids : as for `Client.vote_many`
            The votes; an async iterable is accepted, too.

        """
        return await self._send_votes(votes, ids)

    def stream(
        self,
        votes: Iterable[Vote] | AsyncIterable[Vote],
        *,
        window: int = DEFAULT_WINDOW,
        ids: bool = True,
        refused: Refused | None = None,
    ) -> AsyncGenerator[Decision, None]:
        """Send votes as they come, and yield one decision per vote, in order.

        Parameters
        ----------
        votes, window, ids, refused : as for `Client.stream`
            The votes; an async iterable is accepted, too.

        """
        return self._stream_votes(votes, window, ids, refused)

    retract = make_awaitable(Client.retract)
    votes = iterate_async(Client.votes)

    # --- tasks

    task = make_awaitable(Client.task)
    tasks = iterate_async(Client.tasks)
    add_tasks = make_awaitable(Client.add_tasks)
    erase_data = make_awaitable(Client.erase_data)
    history = make_awaitable(Client.history)
    next = make_awaitable(Client.next)
    gold = make_awaitable(Client.gold)
    override = make_awaitable(Client.override)
    queue = make_awaitable(Client.queue)
    judge = make_awaitable(Client.judge)
    reopen = make_awaitable(Client.reopen)
    decisions = iterate_async(Client.decisions)

    async def events(self, *, after: int | str | None = None) -> AsyncEvents:
        """Return decisions as they are made, each once, without end.

        Parameters
        ----------
        after : int or str, optional
            As for `Client.events`.

        """
        seen = EventCursor((await self.describe()).position if after is None else after)
        return AsyncEvents(str(seen), self._follow_events(seen))

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
    audits = make_awaitable(Client.audits)
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
