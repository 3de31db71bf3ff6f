"""Why a task stands as it does, in sentences for people: which rule holds, and what is missing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from adjudge.errors import make_visible
from adjudge.service.campaigns.standing import EXPERTS_DIFFER, Evidence, Standing

if TYPE_CHECKING:
    from adjudge.service.campaigns.rule import Rule

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
AUTHORITIES: Final = ("override", "gold", "expert", "experts")  # reasons that do not look at the other votes


def why(rule: Rule, standing: Standing, evidence: Evidence) -> list[str]:
    """Return what is in charge, what there is of what is needed, and the status, as sentences.

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
    until = f" until {moment(standing.due)}" if standing.due else ""
    if standing.status == "open":
        return "open"
    if standing.status == "escalated":
        return "escalated: a person has to decide, or more votes"
    if standing.status == "held":
        return f"held: {name} is decided if it stays so{until}" if until else f"held: {name}"
    if standing.status == "locked":
        return f"locked: {name}, and votes no longer change it"
    return f"decided: {name}" + (f", and votes can change it{until}" if until else "")


def moment(time: int) -> str:
    """Return a time as text.

    - `time`: in microseconds since 1970.

    >>> moment(60_000_000)
    '1970-01-01T00:01:00+00:00'
    """
    return (EPOCH + timedelta(microseconds=time)).isoformat()


def _share(share: float, beside: float | None = None) -> str:
    """Return a share with the digits of the one beside it, two at least, rounded down: too little never looks enough."""
    digits = max(2, len(f"{share if beside is None else beside:.9g}".partition(".")[2]))
    return f"{math.floor((share + 1e-9) * 10**digits) / 10**digits:.{digits}f}"
