"""What a policy does to given probabilities: a policy tried out by hand, without a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adjudge.data.options import Number
from adjudge.errors import InputError, OptionError, label_error, quote
from adjudge.service.campaigns.decision import Status
from adjudge.service.campaigns.sections import SECONDS_RANGE
from adjudge.service.campaigns.standing import EXPERTS_DIFFER, NEW, NO_EXPERT, Evidence, Standing

if TYPE_CHECKING:
    from adjudge.service.campaigns.policy import Policy

SECOND: Final = 1_000_000  # microseconds
TIED: Final = 1e-9
COUNT_RANGE: Final = Number(0, 1e9, whole=True)
PROBABILITY: Final = Number(0, 1)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy makes of the evidence on a task: see `Policy.decide`.

    - `status`: open, held, decided, escalated or locked.
    - `label`: the label that is held, decided or locked; None where there is none.
    - `confidence`: how likely that label is right, or else the leading one.
    - `reason`: the field of the policy that is in charge, or who decided.
    - `until`: the time at which the clock alone changes the status, in seconds; None where it does not.
    - `why`: the same in sentences.
    - `standing`: what a rule needs to go on from here.
    """

    status: Status
    label: str | None
    confidence: float
    reason: str
    until: float | None = None
    why: list[str] = msgspec.field(default_factory=list)
    standing: Standing = NEW
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        until = "" if self.until is None else f", until={self.until:g}"
        told = f"status={self.status!r}, label={self.label!r}, confidence={self.confidence:.4g}, reason={self.reason!r}"
        return f"Outcome({told}{until})"


def outcome(
    policy: Policy,
    probabilities: Mapping[str, float],
    *,
    votes: int | Mapping[str, int],
    groups: Mapping[str, Mapping[str, int]],
    experts: Sequence[str],
    gold: str | None,
    breaker: bool,
    time: float,
    before: Outcome | None,
) -> Outcome:
    """Return what the policy makes of the evidence; `Policy.decide` explains the arguments."""
    labels = _labels(probabilities)
    rule = policy.rule(labels)
    chances = [float(probabilities[label]) for label in labels]
    counts: list[int] = []
    if isinstance(votes, Mapping):
        counts = _counts("votes", votes, labels)
        votes = sum(counts)
    elif rule.needs_counts:
        raise OptionError(f"votes is {quote(votes)}: give votes per label, as escalate.disagreement looks at them")
    COUNT_RANGE.check("votes", votes)
    SECONDS_RANGE.check("time", time)
    if before is not None and before.labels != labels:
        raise InputError(
            f"probabilities are of the labels {quote(labels)}: give those of the outcome before, {quote(before.labels)}"
        )
    best = sorted(chances)
    leading = chances.index(best[-1]) if gold is None else _index(gold, labels)
    cast = {_index(label, labels) for label in experts}
    asked = 1 if policy.quorum is None else policy.quorum.votes
    by_label = [_counts(f"group {quote(name)}", given, labels) for name, given in groups.items()]
    evidence = Evidence(
        votes=int(votes),
        label=leading,
        confidence=chances[leading] if gold is None else 1.0,
        probabilities=chances,
        tie=len(best) > 1 and best[-1] - best[-2] <= TIED,
        time=round(time * SECOND),
        gold=gold is not None,
        breaker=breaker,
        counts=counts,
        groups=[sum(votes >= asked for votes in by_group) for by_group in zip(*by_label, strict=True)],
        expert=NO_EXPERT if not cast else cast.pop() if len(cast) == 1 else EXPERTS_DIFFER,
        experts=len(experts),
    )
    standing = rule.decide(NEW if before is None else before.standing, evidence)
    label = standing.label if standing.label >= 0 else leading
    return Outcome(
        status=standing.status,
        label=labels[standing.label] if standing.label >= 0 else None,
        confidence=1.0 if standing.reason == "gold" else chances[label],
        reason=standing.reason,
        until=standing.due / SECOND if standing.due else None,
        why=rule.why(standing, evidence),
        standing=standing,
        labels=labels,
    )


def _labels(probabilities: Any) -> tuple[str, ...]:
    """Return the labels in order, once their probabilities are checked."""
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise InputError(f"probabilities is {quote(probabilities)}: give label to probability")
    for label, probability in probabilities.items():
        if not isinstance(label, str):
            raise InputError(f"label {quote(label)} of probabilities: give the ids of labels, which are text")
        PROBABILITY.check(f"probability of {quote(label)}", probability)
    if abs((total := sum(probabilities.values())) - 1) > 1e-6:
        raise InputError(f"probabilities sum to {total:.6g}: give one per label, that sum to 1")
    return tuple(sorted(probabilities))


def _counts(name: str, given: Mapping[str, int], labels: Sequence[str]) -> list[int]:
    """Return votes per label, in the order of the labels."""
    counts = [0] * len(labels)
    for label, count in given.items():
        COUNT_RANGE.check(f"{name} for {quote(label)}", count)
        counts[_index(label, labels)] = int(count)
    return counts


def _index(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        raise label_error(label, labels)
    return labels.index(label)
