"""The client whose calls are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from adjudge.service.campaigns.decision import Decision, Status
from adjudge.service.campaigns.policy import Policy
from adjudge.service.client.calls import Chunks, Cursor, ListPage, Sort, Total, Vote, document, given, vote_of, with_id
from adjudge.service.client.client import MAX_STREAM_SILENCE_S, ROWS_PER_PAGE, STREAM_REQUEST, WINDOW_RULE, ClientOptions
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
from adjudge.service.http import types as t

if TYPE_CHECKING:
    from adjudge.service.client.transport import AsyncExchange

T = TypeVar("T")


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

    def in_campaign(self, campaign: str) -> Self:
        """Return a client for another campaign, over the same connections.

        - `campaign`: its name.
        """
        return self._of(campaign)

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

    async def _pages(self, ask: Callable[[Cursor], Request[ListPage[T]]], after: Cursor) -> AsyncIterator[T]:
        """Yield the rows of page after page."""
        while True:
            page = await self._ask(ask(after))
            for row in page.rows:
                yield row
            if page.next is None:
                return
            after = page.next

    # --- votes

    async def vote(self, task: str, worker: str, label: str, *, id: str | None = None) -> Decision:  # noqa: A002
        """Send a vote, and return what is decided of its task once the vote is on disk. See `Client.vote`."""
        answer = await self._ask(self._calls.vote(with_id(vote_of((task, worker, label, id)))))
        return answer.decisions[0]

    async def vote_many(self, votes: Iterable[Vote] | AsyncIterable[Vote], *, ids: bool = True) -> t.VoteAnswer:
        """Send votes in requests of up to 5,000, and return the last decision of every task. See `Client.vote_many`."""
        total, chunks = Total(), Chunks(ids=ids)
        async for vote in each(votes):
            full = chunks.add(vote)
            if full is not None:
                total.add(await self._ask(self._calls.vote(full)))
        if rest := chunks.rest():
            total.add(await self._ask(self._calls.vote(rest)))
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
            return await self._connections.exchange(self._calls.lines(), NDJSON_TYPE, timeout=self._timeout, silence=silence)

        lines = VoteLines(window=window, ids=ids)
        return send_lines_async(votes, lines, connect, lambda: self._attempts(STREAM_REQUEST), refused)

    async def retract(self, task: str, worker: str) -> Decision:
        """Take back the vote of a `worker` on a `task`, and return what is decided then. See `Client.retract`."""
        return await self._ask(self._calls.retract(task, worker))

    def votes(self, *, after: int = 0) -> AsyncIterator[t.VoteRow]:
        """Yield the votes in force, in the order of the log. See `Client.votes`."""
        return self._pages(lambda at: self._calls.votes(at, ROWS_PER_PAGE), after)

    # --- tasks

    async def task(self, task: str) -> t.TaskView:
        """Return a task: what is decided and why, how likely every label is, every vote in force. See `Client.task`."""
        return await self._ask(self._calls.task(task))

    def tasks(self, *, status: Status | None = None, sort: Sort = "uncertainty") -> AsyncIterator[Decision]:
        """Yield what is decided of the tasks in memory. See `Client.tasks`."""
        return self._pages(lambda at: self._calls.tasks(status, sort, at, ROWS_PER_PAGE), None)

    async def add_tasks(self, tasks: Iterable[str]) -> t.Done:
        """Make tasks known before their first votes. See `Client.add_tasks`."""
        return await self._ask(self._calls.add_tasks(tasks))

    async def history(self, task: str) -> list[Decision]:
        """Return every decision on a task, oldest first. See `Client.history`."""
        return await self._ask(self._calls.history(task))

    async def next(self, worker: str, *, n: int = 1) -> list[t.NextTask]:
        """Return tasks for a worker to vote on, the most valuable first; none that they have voted on. See `Client.next`."""
        return await self._ask(self._calls.next(worker, n))

    async def gold(self, task: str, label: str | None) -> Decision:
        """Say what the true label of a task is; workers are judged by it. See `Client.gold`."""
        return await self._ask(self._calls.gold(task, label))

    async def override(self, task: str, label: str, *, by: str | None = None, reason: str | None = None) -> Decision:
        """Decide a task by hand, regardless of its votes. See `Client.override`."""
        return await self._ask(self._calls.override(task, given(label=label, by=by, reason=reason)))

    async def reopen(self, task: str, *, by: str | None = None, reason: str | None = None) -> Decision:
        """Open a task again, as after an appeal. See `Client.reopen`."""
        return await self._ask(self._calls.reopen(task, given(by=by, reason=reason)))

    def decisions(self, *, after: int | str = 0) -> AsyncIterator[Decision]:
        """Yield every decision that was made until now, in the order of the log. See `Client.decisions`."""
        return self._pages(lambda at: self._calls.decisions(at, ROWS_PER_PAGE), str(EventCursor(after)))

    async def events(self, *, after: int | str | None = None) -> AsyncEvents:
        """Return decisions as they come, each once: an iterator that has no end. See `Client.events`."""
        seen = EventCursor((await self.describe()).position if after is None else after)

        def connect(at: str) -> AbstractAsyncContextManager[AsyncIterable[ServerSentEvent]]:
            return self._connections.events(self._calls.events(at), timeout=self._timeout, silence=MAX_EVENT_SILENCE_S)

        return AsyncEvents(seen, connect, lambda forever: self._attempts(STREAM_REQUEST, forever=forever))

    # --- workers

    def workers(self) -> AsyncIterator[t.WorkerView]:
        """Yield what is known of every worker, in the order of their first votes. See `Client.workers`."""
        return self._pages(lambda at: self._calls.workers(at, ROWS_PER_PAGE), 0)

    async def worker(self, worker: str) -> t.WorkerView:
        """Return what is known of a worker. See `Client.worker`."""
        return await self._ask(self._calls.worker(worker))

    async def set_worker(self, worker: str, *, group: str | None = None, expert: bool | None = None) -> t.WorkerView:
        """Set the group and the expert flag of a worker. See `Client.set_worker`."""
        return await self._ask(self._calls.set_worker(worker, given(group=group, expert=expert)))

    async def erase_worker(self, worker: str) -> t.Done:
        """Erase the name of a worker; votes and everything learned from them remain. See `Client.erase_worker`."""
        return await self._ask(self._calls.erase_worker(worker))

    async def ban(
        self, workers: str | Iterable[str], *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> t.BanAnswer:
        """Let the votes of workers count no longer, and return the decisions that change. See `Client.ban`."""
        return await self._ask(self._calls.ban(workers, given(dry_run=dry_run, by=by, reason=reason)))

    async def unban(self, worker: str, *, dry_run: bool = False, by: str | None = None) -> t.BanAnswer:
        """Let the votes of a worker count again, and return the decisions that change. See `Client.unban`."""
        return await self._ask(self._calls.unban(worker, given(dry_run=dry_run, by=by)))

    # --- the campaign

    async def campaigns(self) -> list[str]:
        """Return the names of the campaigns that the token reaches. See `Client.campaigns`."""
        return await self._ask(self._calls.campaigns())

    async def create(
        self,
        labels: Iterable[str | t.Label],
        *,
        model: t.ModelChoice = "fds",
        policy: Policy | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        refit: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
    ) -> t.CampaignView:
        """Make the campaign of this client. The same content again changes nothing. See `Client.create`."""
        more = given(
            model=model, policy=None if policy is None else document(policy), settings=settings, refit=refit, retention=retention
        )
        return await self._ask(self._calls.create(labels, more))

    async def describe(self) -> t.CampaignView:
        """Return the campaign as it stands: labels, settings, how many votes and tasks it has. See `Client.describe`."""
        return await self._ask(self._calls.describe())

    async def change(
        self,
        *,
        names: Mapping[str, str] | None = None,
        refit: Mapping[str, Any] | None = None,
        retention: Mapping[str, Any] | None = None,
    ) -> t.CampaignView:
        """Change settings of the campaign; what is left out stays. See `Client.change`."""
        return await self._ask(self._calls.change(given(names=names, refit=refit, retention=retention)))

    async def add_label(self, label: str, *, name: str | None = None) -> list[t.Label]:
        """Add a label, which votes may carry from now on; return all labels. See `Client.add_label`."""
        return await self._ask(self._calls.add_label(label, name))

    async def rename_label(self, label: str, name: str) -> list[t.Label]:
        """Give a label another name, and return all labels. See `Client.rename_label`."""
        return await self._ask(self._calls.rename_label(label, name))

    async def policy(self) -> t.PolicyView:
        """Return the version of the policy that holds. See `Client.policy`."""
        return (await self._ask(self._calls.policies()))[-1]

    async def policies(self) -> list[t.PolicyView]:
        """Return every version of the policy, oldest first. See `Client.policies`."""
        return await self._ask(self._calls.policies())

    async def set_policy(self, policy: Policy | Mapping[str, Any], *, by: str | None = None) -> t.PolicyView:
        """Make a new version of the policy, which holds at once. See `Client.set_policy`."""
        return await self._ask(self._calls.set_policy(policy, by))

    async def backtest(
        self, policy: Policy | Mapping[str, Any] | None = None, *, model: t.ModelChoice | None = None, timeout: float = 600.0
    ) -> t.BacktestAnswer:
        """Replay the votes of the past under another policy or model. See `Client.backtest`."""
        return await self._ask(self._calls.backtest(policy, model, timeout))

    async def refit(self) -> t.RefitAnswer:
        """Begin a refit of the votes in memory, in the background. See `Client.refit`."""
        return await self._ask(self._calls.refit())

    async def reset_breaker(self, *, by: str | None = None) -> t.Done:
        """Let automatic decisions continue after a circuit breaker has held them. See `Client.reset_breaker`."""
        return await self._ask(self._calls.reset_breaker(by))

    # --- webhooks

    async def webhooks(self) -> list[t.WebhookView]:
        """Return where decisions are posted. See `Client.webhooks`."""
        return await self._ask(self._calls.webhooks())

    async def add_webhook(
        self, url: str, *, statuses: Iterable[Status] | None = None, secret: str | None = None
    ) -> t.WebhookView:
        """Have decisions posted to an address, signed. The secret is in this answer alone. See `Client.add_webhook`."""
        chosen = None if statuses is None else list(statuses)
        return await self._ask(self._calls.add_webhook(given(url=url, statuses=chosen, secret=secret)))

    async def delete_webhook(self, id: int) -> list[t.WebhookView]:  # noqa: A002
        """Remove a webhook, and return those that stay. See `Client.delete_webhook`."""
        return await self._ask(self._calls.delete_webhook(id))

    def dead_letters(self) -> AsyncIterator[t.DeadLetter]:
        """Yield the deliveries that were given up, oldest first. See `Client.dead_letters`."""
        return self._pages(lambda at: self._calls.dead_letters(at, ROWS_PER_PAGE), 0)

    async def redeliver(self, id: int) -> int:  # noqa: A002
        """Try a delivery again that was given up, and return its number. See `Client.redeliver`."""
        return await self._ask(self._calls.redeliver(id))

    # --- the server

    async def health(self) -> t.HealthAnswer:
        """Return that the process answers, or raise `ConnectionFailed`. See `Client.health`."""
        return await self._ask(self._calls.health())

    async def ready(self) -> t.ReadyAnswer:
        """Return whether votes can be taken now, and if not, why. See `Client.ready`."""
        return await self._ask(self._calls.ready())

    async def metrics(self) -> str:
        """Return the figures of the server in the text format of Prometheus. See `Client.metrics`."""
        return await self._ask(self._calls.metrics())
