"""The outcome of a policy for evidence given by hand, and the sentences that explain where a task stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adjudge.data.options import Number
from adjudge.errors import InputError, OptionError, label_error, make_visible, quote
from adjudge.service.campaigns.decision import EXPERTS_DIFFER, NEW, NO_EXPERT, Evidence, Standing, Status, moment
from adjudge.service.campaigns.policy import SECONDS_RANGE

if TYPE_CHECKING:
    from adjudge.service.campaigns.policy import Policy
    from adjudge.service.campaigns.rule import Rule

SECOND: Final = 1_000_000  # microseconds
TIED: Final = 1e-9
COUNT_RANGE: Final = Number(0, 1e9, whole=True)
PROBABILITY: Final = Number(0, 1)
AUTHORITIES: Final = ("override", "audit", "gold", "expert", "experts")  # reasons that do not look at the other votes


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy makes of the evidence on a task: see `Policy.decide`.

    - `status`: open, held, decided, escalated or locked.
    - `label`: the label that is held, decided or locked; None where there is none.
    - `confidence`: how likely that label is right, or else the leading one.
    - `reason`: the field of the policy that is in charge, or who decided.
    - `until`: the time at which the clock alone changes the status, in seconds; None where it does not.
    - `why`: the same in sentences.
    - `standing`: the state from which a rule continues.
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
    by_label = [_counts(f"group {quote(name)}", group_votes, labels) for name, group_votes in groups.items()]
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


def _counts(name: str, votes: Mapping[str, int], labels: Sequence[str]) -> list[int]:
    """Return votes per label, in the order of the labels."""
    counts = [0] * len(labels)
    for label, count in votes.items():
        COUNT_RANGE.check(f"{name} for {quote(label)}", count)
        counts[_index(label, labels)] = int(count)
    return counts


def _index(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        raise label_error(label, labels)
    return labels.index(label)


def why(rule: Rule, standing: Standing, evidence: Evidence) -> list[str]:
    """Explain the reason, the evidence against its requirements, and the status, in sentences.

    - `rule`: the rule that decided.
    - `standing`: where the task stands.
    - `evidence`: what is known of it.
    """
    if standing.reason in AUTHORITIES:
        return [_authority(rule, standing, evidence), _status(rule, standing)]
    told = [_votes(rule, standing, evidence)]
    if evidence.label >= 0:
        told += [_sureness(rule, standing, evidence), *_doubts(rule, evidence), *_quorum(rule, standing, evidence)]
    if standing.reason == "breaker":
        told.append("a breaker has tripped: new decisions wait until a person resets it")
    return [*told, _status(rule, standing)]


def _name(rule: Rule, label: int) -> str:
    return make_visible(rule.labels[label])


def _authority(rule: Rule, standing: Standing, evidence: Evidence) -> str:
    if standing.reason == "override":
        return f"a person decided{f' ({make_visible(standing.by)})' if standing.by else ''}, whatever the votes say"
    if standing.reason == "audit":
        return (
            f"a person judged it in an audit{f' ({make_visible(standing.by)})' if standing.by else ''}, without seeing the votes"
        )
    if standing.reason == "gold":
        return "the true label is known, whatever the votes say"
    if standing.reason == "experts" or evidence.expert == EXPERTS_DIFFER:
        return f"{evidence.experts} experts voted, for different labels"
    return f"an expert voted for {_name(rule, standing.label)}"


def _votes(rule: Rule, standing: Standing, evidence: Evidence) -> str:
    policy, votes = rule.policy, evidence.votes
    needed = max(policy.minimum_votes, standing.floor)
    after = ", as the decision was appealed" if standing.floor > policy.minimum_votes else ""
    if votes < needed:
        return f"{votes} of at least {needed} votes{after}: {needed - votes} more needed at least"
    most = policy.maximum_votes
    at_most = f", at most {max(most, standing.floor)}" if most is not None else ""
    return f"{votes} of at least {needed} votes{after}{at_most}"


def _sureness(rule: Rule, standing: Standing, evidence: Evidence) -> str:
    """Return what the label has of its confidence, or of its cost."""
    policy = rule.policy
    best = rule.best(evidence)
    kept = best < 0 <= standing.label and policy.hysteresis > 0
    label = standing.label if standing.label >= 0 else evidence.label
    if policy.costs is not None:
        label = standing.label if standing.label >= 0 else rule.cheapest(evidence)
        told = f"expected cost {rule.expected_cost(label, evidence):.4g} of at most {policy.maximum_cost:.4g}"
        band = f" (it stays up to {(policy.maximum_cost or 0) + policy.hysteresis:.4g})" if kept else ""
        return f"{told} for deciding {_name(rule, label)}{band}"
    confidence = evidence.confidence if label == evidence.label else evidence.probabilities[label]
    asked = rule.thresholds[label]
    band = f" (it stays down to {_share(asked - policy.hysteresis)})" if kept else ""
    return f"{_share(confidence, asked)} of {_share(asked)} confidence for {_name(rule, label)}{band}"


def _doubts(rule: Rule, evidence: Evidence) -> list[str]:
    told = ["the best labels tie"] if evidence.tie else []
    most = rule.policy.escalate.disagreement
    if most is not None and evidence.counts:
        against = _share(rule.disagreement(evidence), most)
        told.append(f"{against} of the votes against {_name(rule, evidence.label)}, where at most {_share(most)} may be")
    return told


def _quorum(rule: Rule, standing: Standing, evidence: Evidence) -> list[str]:
    quorum = rule.policy.quorum
    if quorum is None:
        return []
    label = standing.label if standing.label >= 0 else max(rule.best(evidence), -1)
    label = evidence.label if label < 0 else label
    each = f" with {quorum.votes} votes or more for it" if quorum.votes > 1 else " with a vote for it"
    return [f"{rule.groups_for(label, evidence)} of at least {quorum.groups} groups{each}"]


def _status(rule: Rule, standing: Standing) -> str:
    name = _name(rule, standing.label) if standing.label >= 0 else ""
    until = f" until {moment(standing.due).isoformat()}" if standing.due else ""
    if standing.status == "open":
        return "open"
    if standing.status == "escalated":
        return "escalated: a person has to decide, or more votes"
    if standing.status == "held":
        return f"held: {name} is decided if it stays so{until}" if until else f"held: {name}"
    if standing.status == "locked":
        return f"locked: {name}, and votes no longer change it"
    return f"decided: {name}" + (f", and votes can change it{until}" if until else "")


def _share(share: float, threshold: float | None = None) -> str:
    """Format a share with as many digits as its threshold, at least two, rounded down so that it never looks sufficient."""
    digits = max(2, len(f"{share if threshold is None else threshold:.9g}".partition(".")[2]))
    return f"{math.floor((share + 1e-9) * 10**digits) / 10**digits:.{digits}f}"
