"""Decisions: the standing of a task and its reason, the evidence that a rule reads, and a decision as clients see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

import msgspec

Status: TypeAlias = Literal["open", "held", "decided", "escalated", "locked"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)  # a status as a code is its index here
CODES: Final[Mapping[str, int]] = {status: code for code, status in enumerate(STATUSES)}
NO_EXPERT: Final = -1  # in `Evidence.expert`: no expert has voted
EXPERTS_DIFFER: Final = -2
# Every status and reason that a rule can give, with the meaning of each combination. A reason is the
# field of the policy that is in charge, or who decided.
REASONS: Final[Mapping[tuple[Status, str], str]] = {
    ("open", "minimum_votes"): "There are fewer votes than `minimum_votes`.",
    ("open", "reopened"): "The decision was appealed, and the further votes that `reopen` asks for are not there yet.",
    ("open", "confidence"): "The leading label has less than its `confidence`.",
    ("open", "costs"): "Every label has an expected cost above `maximum_cost`.",
    ("open", "quorum"): "The label would be decided, but votes for it come from too few groups.",
    ("held", "hold"): "The label would be decided, and has to stay so until the `hold` ends.",
    ("held", "breaker"): "The label would be decided, but a breaker has tripped: a person has to look.",
    ("decided", "confidence"): "The leading label has at least its `confidence`.",
    ("decided", "costs"): "The label has the least expected cost, at most `maximum_cost`.",
    ("decided", "expert"): "An expert voted for the label, and no expert for another.",
    ("decided", "gold"): "The true label is known.",
    ("decided", "override"): "A person decided.",
    ("decided", "audit"): "A person judged the decision in an audit, without seeing it.",
    ("escalated", "maximum_votes"): "There are `maximum_votes`, and they do not suffice: a person has to decide.",
    ("escalated", "disagreement"): "Too many votes are against the leading label (`escalate`): a person has to decide.",
    ("escalated", "tie"): "The best labels tie (`escalate`): a person has to decide.",
    ("escalated", "experts"): "Experts voted for different labels: a person has to decide.",
    ("locked", "confidence"): "Decided by `confidence`; the `lock` has begun, so that votes no longer change it.",
    ("locked", "costs"): "Decided by `costs`; the `lock` has begun.",
    ("locked", "expert"): "Decided by an expert; the `lock` has begun.",
}


@lru_cache(1024)  # votes of one request have one time
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
    by: str | None = None  # the person who decided, if any


class Standing(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where a task stands. Times are in microseconds since 1970.

    - `status`: open, held, decided, escalated or locked.
    - `label`: the index of the label that is held, decided or locked; -1 where there is none.
    - `since`: when this status, with this label, began.
    - `due`: when the clock alone changes it (a hold ends, or a lock begins); 0 where it does not.
    - `reason`: which rule made it so: see `REASONS`.
    - `by`: the person who decided, if any.
    - `floor`: the votes that a reopened task needs before votes decide it again.
    - `experts`: the votes of experts that a task had when it was reopened: these no longer decide it at once.

    >>> Standing().status
    'open'
    """

    status: Status = "open"
    label: int = -1
    since: int = 0
    due: int = 0
    reason: str = "minimum_votes"
    by: str | None = None
    floor: int = 0
    experts: int = 0


NEW: Final = Standing()  # a task without votes


class Evidence(msgspec.Struct, gc=False):
    """What is known of a task at a moment. A rule reads it and never keeps it, so one object can serve many calls.

    The last fields are looked at by some policies alone: `Rule.needs_counts`, `needs_groups`, `needs_experts` and
    `needs_probabilities` say which, and a caller leaves the others out.

    - `votes`: how many votes count.
    - `label`: the index of the leading label; the true one where `gold` is set; -1 without votes.
    - `confidence`: how likely the leading label is right.
    - `probabilities`: how likely each label is right, [K].
    - `tie`: whether the best labels tie.
    - `time`: the moment, in microseconds since 1970.
    - `gold`: whether the true label is known.
    - `breaker`: whether a breaker has tripped.
    - `counts`: effective votes for each label, [K].
    - `groups`: for each label, the groups of workers with as many votes for it as the quorum asks of each, [K]. Workers
      without a group are in none.
    - `expert`: the index of the label that all votes of experts name; -1 without such votes, -2 where they differ.
    - `experts`: how many votes of experts there are.
    """

    votes: int
    label: int
    confidence: float
    probabilities: Sequence[float] = ()
    tie: bool = False
    time: int = 0
    gold: bool = False
    breaker: bool = False
    counts: Sequence[float] = ()
    groups: Sequence[int] = ()
    expert: int = NO_EXPERT
    experts: int = 0
