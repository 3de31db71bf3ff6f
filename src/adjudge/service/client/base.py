"""What both clients have in common (options and requests), and the plumbing of the one that blocks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from adjudge import __version__
from adjudge.data.options import Number, Rules, check
from adjudge.service.campaigns.decision import Decision, Status
from adjudge.service.client.blocking import iterate, run
from adjudge.service.client.errors import ServiceError
from adjudge.service.client.request import (
    DEFAULT_URL,
    Address,
    Attempts,
    ListPage,
    Request,
    encode,
    encode_fields,
    page_reader,
    path,
    query_string,
    reader,
    text,
    token_of,
)
from adjudge.service.client.streams import (
    MAX_EVENT_SILENCE_S,
    NDJSON_TYPE,
    EventCursor,
    Refused,
    ServerSentEvent,
    VoteLines,
    each,
    follow_events,
    send_lines,
)
from adjudge.service.client.votes import Chunks, Total, Vote
from adjudge.service.http import types as t

if TYPE_CHECKING:
    from adjudge.service.client.transport import Connections

T = TypeVar("T")
STREAM_REQUEST: Final[Request[Any]] = Request("", "", bytes)  # stands for an exchange that has no one answer
WINDOW_RULE: Final = Number(1, 10_000, whole=True)  # votes that may be under way
ROWS_PER_PAGE: Final = 1000  # rows that a list asks for at once
MAX_STREAM_SILENCE_S: Final = 60.0  # seconds without a word after which a stream of votes is taken for lost: rates slow it down
CLIENT_RULES: Final[Rules] = {
    "timeout": Number(0.001, 86_400),
    "retries": Number(0, 1_000_000, whole=True),
    "deadline": Number(0, 86_400),
}


class ClientOptions:
    """Options of a client, which `Client` explains, and the requests that both clients have in common."""

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
        check({"timeout": timeout, "retries": retries, "deadline": deadline}, CLIENT_RULES)
        self._address, known = Address.of(url), token_of(token)
        headers = {"User-Agent": f"adjudge/{__version__}"}
        if known is not None:
            headers["Authorization"] = f"Bearer {known}"
        self.campaign = text("campaign", campaign)
        self._timeout, self._retries, self._deadline = float(timeout), int(retries), float(deadline)
        self._connections = self._connect(self._address, headers)

    def _connect(self, address: Address, headers: Mapping[str, str]) -> Connections:
        """Return the connections, which load httpx2."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Where the service is."""
        return str(self._address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, campaign={self.campaign!r})"

    def _attempts(self, request: Request[T], *, forever: bool = False) -> Attempts[T]:
        if forever:
            return Attempts(request, retries=None, deadline=float("inf"))
        return Attempts(request, retries=self._retries, deadline=self._deadline)

    def in_campaign(self, campaign: str) -> Self:
        """Return a client for another campaign, over the same connections.

        Parameters
        ----------
        campaign : str
            Name of the campaign.

        """
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.campaign = text("campaign", campaign)
        return other

    def _path(self, *parts: str, query: Mapping[str, object] = MappingProxyType({})) -> str:
        return path("v1", "campaigns", self.campaign, *parts) + query_string(query.items())

    def _request(
        self,
        kind: type[T],
        method: str,
        *parts: str,
        field: str | None = None,
        fields: Mapping[str, object] | None = None,
        query: Mapping[str, object] = MappingProxyType({}),
        **options: Any,
    ) -> Request[T]:
        """Return a request about the campaign.

        - `kind`, `field`: the type of the answer, or of one field of it.
        - `parts`, `query`: of the path, after that of the campaign.
        - `fields`: of the body; those that are None are left out.
        - `options`: further ones of the request.
        """
        body = None if fields is None else encode_fields(fields)
        return Request(method, self._path(*parts, query=query), reader(kind, field), body, **options)

    def _page_request(self, kind: type[T], *parts: str, **query: object) -> Request[ListPage[T]]:
        return Request("GET", self._path(*parts, query={**query, "limit": ROWS_PER_PAGE}), page_reader(kind, parts[-1]))

    def _votes_request(self, votes: list[t.VoteIn]) -> Request[t.VoteAnswer]:
        return Request("POST", self._path("votes"), reader(t.VoteAnswer), encode(votes))

    def _vote_request(self, vote: t.VoteIn) -> Request[Decision]:
        read = reader(list[Decision], "decisions")
        return Request("POST", self._path("votes"), lambda body: read(body)[0], encode(vote))

    def _task_decision(self, task: str) -> Request[Decision]:
        return self._request(Decision, "GET", "tasks", text("task", task), field="decision")

    async def _send(self, request: Request[T]) -> T:
        """Send a request until it is answered, or not worth repeating."""
        attempts = self._attempts(request)
        while True:
            try:
                return attempts.request.value(await self._connections.send(attempts.request, attempts.timeout(self._timeout)))
            except ServiceError as error:
                pause = attempts.after(error)
            await self._connections.sleep(pause)

    async def _iterate_rows(self, kind: type[T], *parts: str, **query: Any) -> AsyncGenerator[T, None]:
        """Yield the rows of page after page."""
        while True:
            page = await self._send(self._page_request(kind, *parts, **query))
            for row in page.rows:
                yield row
            if page.next is None:
                return
            query["after"] = page.next

    async def _send_votes(self, votes: Iterable[Vote] | AsyncIterable[Vote], ids: bool) -> t.VoteAnswer:
        """Send votes in several requests."""
        total, chunks = Total(), Chunks(ids=ids)
        async for vote in each(votes):
            full = chunks.add(vote)
            if full is not None:
                total.add(await self._send(self._votes_request(full)))
        if last := chunks.take():
            total.add(await self._send(self._votes_request(last)))
        return total.answer()

    def _stream_votes(
        self, votes: Iterable[Vote] | AsyncIterable[Vote], window: int, ids: bool, refused: Refused | None
    ) -> AsyncGenerator[Decision, None]:
        """Yield one decision per vote, over one connection at a time."""
        WINDOW_RULE.check("window", window)
        connections, silence = self._connections, max(self._timeout, MAX_STREAM_SILENCE_S)
        connect = partial(connections.exchange, self._path("votes:stream"), NDJSON_TYPE, timeout=self._timeout, silence=silence)
        lines = VoteLines(window=window, ids=ids)
        return send_lines(votes, lines, connect, connections.sleep, lambda: self._attempts(STREAM_REQUEST), refused)

    def _follow_events(self, seen: EventCursor) -> AsyncGenerator[tuple[str, Decision], None]:
        """Yield decisions with their places."""
        connections = self._connections

        def connect(at: str) -> AbstractAsyncContextManager[AsyncIterable[ServerSentEvent]]:
            path = self._path("events", query={"after": at})
            return connections.events(path, timeout=self._timeout, silence=MAX_EVENT_SILENCE_S)

        return follow_events(seen, connect, connections.sleep, lambda forever: self._attempts(STREAM_REQUEST, forever=forever))


class BlockingCalls(ClientOptions):
    """What `Client` sends requests with, and its calls about webhooks and the server."""

    def _connect(self, address: Address, headers: Mapping[str, str]) -> Connections:
        from adjudge.service.client.transport import BlockingConnections

        return BlockingConnections(address, headers)

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        run(self._connections.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Request[T]) -> T:
        return run(self._send(request))

    def _call(self, kind: type[T], method: str, *parts: str, **options: Any) -> T:
        return self._ask(self._request(kind, method, *parts, **options))

    def _pages(self, kind: type[T], *parts: str, **query: Any) -> Iterator[T]:
        return iterate(self._iterate_rows(kind, *parts, **query))

    # --- webhooks

    def webhooks(self) -> list[t.WebhookView]:
        """Return where decisions are posted."""
        return self._call(list[t.WebhookView], "GET", "webhooks", field="webhooks")

    def add_webhook(self, url: str, *, statuses: Iterable[Status] | None = None, secret: str | None = None) -> t.WebhookView:
        """Post decisions to an address, signed. Only this answer contains the secret.

        Parameters
        ----------
        url : str
            A public address, http:// or https://.
        statuses : iterable of str, optional
            Post only decisions with one of these statuses; by default every change.
        secret : str, optional
            Key that signs deliveries; made by default.

        """
        fields = {"url": url, "statuses": None if statuses is None else list(statuses), "secret": secret}
        return self._call(t.WebhookView, "POST", "webhooks", fields=fields, repeatable=False)  # twice would post each twice

    def delete_webhook(self, id: int) -> list[t.WebhookView]:  # noqa: A002
        """Remove a webhook, and return the remaining ones.

        Parameters
        ----------
        id : int
            Number of the webhook.

        """
        kind, where = list[t.WebhookView], "webhooks"
        others = self._request(kind, "GET", where, field=where)
        return self._call(kind, "DELETE", where, field=where, query={"id": id}, instead=others)

    def dead_letters(self) -> Iterator[t.DeadLetter]:
        """Yield the deliveries that were given up, oldest first."""
        return self._pages(t.DeadLetter, "webhooks", "dead", after=0)

    def redeliver(self, id: int) -> int:  # noqa: A002
        """Retry a delivery that was given up, and return its number.

        Parameters
        ----------
        id : int
            Number of the delivery.

        """
        return self._call(int, "POST", "webhooks", "dead", text("delivery", id), "redeliver", field="id", repeatable=False)

    # --- the server

    def health(self) -> t.HealthAnswer:
        """Return that the process answers, or raise `ConnectionFailed`."""
        return self._ask(Request("GET", path("healthz"), reader(t.HealthAnswer)))

    def ready(self) -> t.ReadyAnswer:
        """Return whether votes can be taken now, and if not, why."""
        return self._ask(Request("GET", path("readyz"), reader(t.ReadyAnswer), accepts=(503,)))

    def metrics(self) -> str:
        """Return the figures of the server in the text format of Prometheus."""
        return self._ask(Request("GET", path("metrics"), bytes.decode))
