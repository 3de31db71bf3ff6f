"""Query parameters of the routes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from adjudge.service.campaigns.decision import Status
from adjudge.service.http.types import Cursor, Id, Limit, Meta, Place, Position, says


class _Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the query parameters of a route."""


class VotesQuery(_Query, frozen=True, kw_only=True):
    """Where the page begins, and its length."""

    after: Position = 0
    limit: Limit = 1000


class TasksQuery(_Query, frozen=True, kw_only=True):
    """Which tasks, in which order."""

    status: Status | None = None
    sort: Annotated[Literal["uncertainty", "age"], says("The least certain first, or the oldest.")] = "uncertainty"
    limit: Limit = 100
    after: Cursor | None = None


class WorkersQuery(_Query, frozen=True, kw_only=True):
    """Where the page begins, and its length."""

    after: Position = 0
    limit: Limit = 100


class NextQuery(_Query, frozen=True, kw_only=True):
    """For whom, and how many."""

    worker: Id
    n: Annotated[int, Meta(ge=1, le=100)] = 1


class QueueQuery(_Query, frozen=True, kw_only=True):
    """For whom, and how many."""

    by: Annotated[Id | None, says("Who asks: they get no task they have voted on. Without it, the name of the token.")] = None
    n: Annotated[int, Meta(ge=1, le=100)] = 1


class DecisionsQuery(_Query, frozen=True, kw_only=True):
    """Where the page begins, and its length."""

    after: Annotated[Place, says("The `next` of the page before, or a position.")] = "0"
    limit: Limit = 1000


class EventsQuery(_Query, frozen=True, kw_only=True):
    """Where to resume."""

    after: Annotated[Place | None, says("A position; without it only new decisions are sent.")] = None


class LabelStudioQuery(_Query, frozen=True, kw_only=True):
    """Which question of the labelling interface holds the label."""

    question: Id | None = None


class DeadQuery(_Query, frozen=True, kw_only=True):
    """Where the page begins, and its length."""

    after: Position = 0
    limit: Limit = 100


class WebhookKey(_Query, frozen=True):
    """Which webhook."""

    id: Position
