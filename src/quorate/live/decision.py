"""A decision as people and programs are told it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

Status: TypeAlias = Literal["open", "held", "decided", "escalated", "locked"]


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
    reason: str  # which rule of the policy: see live/rule.py
    flips: int = 0  # how often the decided label has changed
    by: str | None = None  # the person who decided, where one did
