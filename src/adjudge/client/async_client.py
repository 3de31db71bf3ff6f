"""The client whose calls are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from adjudge.client.address import URL
from adjudge.client.async_streaming import AsyncEvents, each, send_lines
from adjudge.client.awaiting import AsyncConnections, AsyncExchange
from adjudge.client.base import LONG, PAGE, PATIENCE, WINDOWS, Chunks, ClientOptions, Total, given, with_id
from adjudge.client.calls import Cursor, Page, Sort, Vote, document, vote_of
from adjudge.client.errors import ServiceError
from adjudge.client.events import SILENCE, Seen
from adjudge.client.lines import CONTENT, WINDOW, Lines, Refused
from adjudge.client.request import Request
from adjudge.live.decision import Decision, Status
from adjudge.live.policy import Policy
from adjudge.service import types as t

T = TypeVar("T")


class AsyncClient(ClientOptions):
    """A client of the live service whose calls are awaited; apart from that, those of `Client`, which explains them.

    One event loop uses a client. Lists are asynchronous iterators.

    - `url`: where the service is; https:// is checked against the certificates that the system trusts.
    - `token`: what the service asks for beyond loopback; None: that in the variable ADJUDGE_TOKEN of the environment.
    - `campaign`: which campaign the calls are about.
    - `timeout`: seconds to wait for an answer.
    - `retries`: how often a request is sent again.
    - `deadline`: seconds after which a request is not sent again.

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
        url: str = URL,
        *,
        token: str | None = None,
        campaign: str = "default",
        timeout: float = 10.0,
        retries: int = 5,
        deadline: float = 60.0,
    ) -> None:
        super().__init__(url, token=token, campaign=campaign, timeout=timeout, retries=retries, deadline=deadline)
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

    async def _pages(self, ask: Callable[[Cursor], Request[Page[T]]], after: Cursor) -> AsyncIterator[T]:
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
        window: int = WINDOW,
        ids: bool = True,
        refused: Refused | None = None,
    ) -> AsyncGenerator[Decision, None]:
        """Send votes for as long as they come, and yield one decision per vote, in their order. See `Client.stream`."""
        WINDOWS.check("window", window)

        async def connect() -> AsyncExchange:
            headers = {"Content-Type": CONTENT}
            return await AsyncExchange.begin(
                self._connections,
                "POST",
                self._calls.lines(),
                headers,
                timeout=self._timeout,
                silence=max(self._timeout, PATIENCE),
            )

        lines = Lines(window=window, ids=ids)
        return send_lines(votes, lines, connect, lambda: self._attempts(LONG), refused)

    async def retract(self, task: str, worker: str) -> Decision:
        """Take back the vote of a `worker` on a `task`, and return what is decided then. See `Client.retract`."""
        return await self._ask(self._calls.retract(task, worker))

    def votes(self, *, after: int = 0) -> AsyncIterator[t.VoteRow]:
        """Yield the votes in force, in the order of the log. See `Client.votes`."""
        return self._pages(lambda at: self._calls.votes(at, PAGE), after)

    # --- tasks

    async def task(self, task: str) -> t.TaskView:
        """Return a task: what is decided and why, how likely every label is, every vote in force. See `Client.task`."""
        return await self._ask(self._calls.task(task))

    def tasks(self, *, status: Status | None = None, sort: Sort = "uncertainty") -> AsyncIterator[Decision]:
        """Yield what is decided of the tasks in memory. See `Client.tasks`."""
        return self._pages(lambda at: self._calls.tasks(status, sort, at, PAGE), None)

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
        """Decide a task as a person, whatever the votes say. See `Client.override`."""
        return await self._ask(self._calls.override(task, given(label=label, by=by, reason=reason)))

    async def reopen(self, task: str, *, by: str | None = None, reason: str | None = None) -> Decision:
        """Open a task again, as after an appeal. See `Client.reopen`."""
        return await self._ask(self._calls.reopen(task, given(by=by, reason=reason)))

    def decisions(self, *, after: int | str = 0) -> AsyncIterator[Decision]:
        """Yield every decision that was made until now, in the order of the log. See `Client.decisions`."""
        return self._pages(lambda at: self._calls.decisions(at, PAGE), str(Seen(after)))

    async def events(self, *, after: int | str | None = None) -> AsyncEvents:
        """Return decisions as they come, each once: an iterator that has no end. See `Client.events`."""
        seen = Seen((await self.describe()).position if after is None else after)

        async def connect(at: str) -> AsyncExchange:
            headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
            path = self._calls.events(at)
            return await AsyncExchange.begin(self._connections, "GET", path, headers, timeout=self._timeout, silence=SILENCE)

        return AsyncEvents(seen, connect, lambda forever: self._attempts(LONG, forever=forever))

    # --- workers

    def workers(self) -> AsyncIterator[t.WorkerView]:
        """Yield what is known of every worker, in the order of their first votes. See `Client.workers`."""
        return self._pages(lambda at: self._calls.workers(at, PAGE), 0)

    async def worker(self, worker: str) -> t.WorkerView:
        """Return what is known of a worker. See `Client.worker`."""
        return await self._ask(self._calls.worker(worker))

    async def set_worker(self, worker: str, *, group: str | None = None, expert: bool | None = None) -> t.WorkerView:
        """Say what is known of a worker beside their votes. See `Client.set_worker`."""
        return await self._ask(self._calls.set_worker(worker, given(group=group, expert=expert)))

    async def erase_worker(self, worker: str) -> t.Done:
        """Erase the name of a worker; their votes, and what was learned from them, stay without it. See `Client.erase_worker`."""
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
        return self._pages(lambda at: self._calls.dead_letters(at, PAGE), 0)

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
