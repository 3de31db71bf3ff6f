"""What a handler is given: the request, taken apart and checked, and the service that it is a part of."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request

from quorate.service.campaign import Campaign
from quorate.service.campaigns import Campaigns
from quorate.service.labelstudio import Votes
from quorate.service.limits import MAX_LISTENERS, MAX_UNDER_WAY, Gate
from quorate.service.metrics import Metrics
from quorate.service.outbox import Outbox
from quorate.service.tokens import Grant, Tokens


@dataclass
class Context:
    """What all requests of a server share.

    - `campaigns`: all of them.
    - `tokens`: who may do what.
    - `allow_private`: whether webhooks may be posted to addresses that are not public.
    - `metrics`: what is counted.
    - `outbox`: what is to be posted to webhooks.
    - `stopping`: set when the server is about to stop, so that long answers end.
    - `under_way`, `listeners`: how many requests and streams of events there may be at once.
    """

    campaigns: Campaigns
    tokens: Tokens
    allow_private: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    outbox: Outbox = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: Gate = field(default_factory=lambda: Gate(MAX_UNDER_WAY, "requests"))
    listeners: Gate = field(default_factory=lambda: Gate(MAX_LISTENERS, "streams of events"))
    descriptions: dict[bool, bytes] = field(default_factory=dict)  # OpenAPI's, by whether a token is needed
    annotations: Votes = field(default_factory=Votes)  # of Label Studio
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # deliveries of webhooks are due

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.metrics.decided)
        self.campaigns.on_decision = self.outbox
        self.campaigns.on_commit = self.metrics.committed


@dataclass(slots=True)
class Call:
    """One request.

    - `context`: what all requests share.
    - `request`: Starlette's, for whoever needs headers or the body as it comes.
    - `grant`: what the token allows.
    - `ids`: those in the path, in order; the campaign's name is the first.
    - `query`, `body`: what was sent, as the route's types.
    - `request_id`: by which logs know it.
    """

    context: Context
    request: Request
    grant: Grant
    ids: list[str]
    query: Any
    body: Any
    request_id: str

    @property
    def campaign(self) -> Campaign:
        """The campaign that the path names, or `NotFound`."""
        return self.context.campaigns.get(self.ids[0])


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with another status than 200."""

    status: int
    content: msgspec.Struct
