"""A decision as people and programs are told it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

import msgspec

Status: TypeAlias = Literal["open", "held", "decided", "escalated", "locked"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time: int) -> datetime:
    """Return the moment that is so many microseconds after 1970 began."""
    return _EPOCH + timedelta(microseconds=time)


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What is decided of a task, by which version of the policy, when, and why."""

    task: str
    label: str | None  # the label's id: the decided one, else the likeliest; None without votes
    confidence: float  # how likely that label is right
    status: Status
    votes: int  # that count
    policy: int  # its version
    time: datetime  # at which the status or the label was taken
    position: int  # of the event in the log that made it so
    reason: str  # which rule of the policy: see service/campaigns/rule.py
    flips: int = 0  # how often the decided label has changed
    by: str | None = None  # the person who decided, where one did
