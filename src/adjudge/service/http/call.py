"""What a handler is given: the request, taken apart and checked, and the service that it is a part of."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adjudge.service.http.campaign import Campaign
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.limits import MAX_UNDER_WAY, ConnectionCounter, Gate, Streams
from adjudge.service.http.metrics import Metrics
from adjudge.service.http.parsing import Headers
from adjudge.service.http.tokens import Authority, Grant, Permit, TokenIndex
from adjudge.service.http.webhooks import Outbox


@dataclass
class Context:
    """What all requests of a server share.

    - `campaigns`: all of them.
    - `tokens`: who may do what; `authority`: whether they still may.
    - `allow_private`: whether webhooks may be posted to addresses that are not public.
    - `metrics`: what is counted.
    - `outbox`: what is to be posted to webhooks.
    - `stopping`: set when the server is about to stop, so that long answers end.
    - `under_way`, `streams`, `connections`: how many there may be at once.
    """

    campaigns: Campaigns
    tokens: TokenIndex
    allow_private: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    authority: Authority = field(init=False)
    outbox: Outbox = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: Gate = field(default_factory=lambda: Gate(MAX_UNDER_WAY, "requests"))
    streams: Streams = field(default_factory=Streams)
    connections: ConnectionCounter = field(default_factory=ConnectionCounter)
    descriptions: dict[bool, bytes] = field(default_factory=dict)  # OpenAPI's, by whether a token is needed
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # deliveries of webhooks are due

    def __post_init__(self) -> None:
        self.authority = Authority(self.tokens, self.campaigns.leases)
        self.outbox = Outbox(self.metrics.count_decision, self.campaigns.clock.read)
        self.campaigns.on_decision = self.outbox
        self.campaigns.on_commit = self.metrics.count_commit


@dataclass(slots=True)
class Call:
    """One request.

    - `context`: what all requests share.
    - `headers`: those of the request.
    - `grant`: what the token allows.
    - `ids`: those in the path, in order; the campaign's name is the first.
    - `query`, `body`: what was sent, as the route's types.
    - `request_id`: by which logs know it.
    - `permit`: whether it is still allowed, for answers that take long.
    """

    context: Context
    headers: Headers
    grant: Grant
    ids: list[str]
    query: Any
    body: Any
    request_id: str
    permit: Permit

    @property
    def campaign(self) -> Campaign:
        """The campaign that the path names, or `NotFound`."""
        return self.context.campaigns.get(self.ids[0])


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with another status than 200."""

    status: int
    content: msgspec.Struct
