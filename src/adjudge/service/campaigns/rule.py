"""A policy compiled for the labels of a campaign: from a standing and the evidence on a task to its next standing.

Who decides, first to last: a person (an override), gold, an expert, the lock, a breaker, the votes. Everything here is a
pure function of its arguments, and times are whole microseconds, so that a replay of a log gives the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from adjudge.errors import OptionError, itemize, quote
from adjudge.service.campaigns.decision import CODES, NO_EXPERT, Evidence, Standing
from adjudge.service.campaigns.policy import ANY_LABEL, Policy

if TYPE_CHECKING:
    from adjudge.service.campaigns.decision import Status

SECOND: Final = 1_000_000  # microseconds
THRESHOLD_TOLERANCE: Final = 1e-9  # a confidence of 0.9 that was summed from shares passes a threshold of 0.9
MAX_EXACT_COST_LABELS: Final = 32  # whose costs are compared one by one
UNLIMITED_VOTES: Final = 1 << 62  # a number of votes that no task has
BY_PERSON_REASONS: Final = frozenset(("override", "audit"))  # votes, gold and the clock do not change what a person decided
BY_VOTES: Final = frozenset(("confidence", "costs", "hold", "breaker"))  # reasons of decisions that votes made


class Rule:
    """A policy compiled for a list of labels. A label is its index in that list.

    - `policy`: the policy.
    - `labels`: the ids of the labels, in the order of their codes.

    `needs_counts`, `needs_groups`, `needs_experts` and `needs_probabilities` say which of the costly parts of `Evidence` it
    looks at; `needs_votes` is True where it looks at any of the first three. `thresholds` are the
    confidences that the labels need; empty if the policy has costs instead.

    >>> from adjudge.service.campaigns.decision import NEW, Evidence
    >>> rule = Rule(Policy(), ["spam", "ok"])
    >>> rule.decide(NEW, Evidence(votes=3, label=0, confidence=0.94)).status
    'decided'
    """

    __slots__ = (
        "_by",
        "_cost_of",
        "_costs",
        "_disagreement",
        "_enough",
        "_hold",
        "_hysteresis",
        "_lock",
        "_maximum",
        "_maximum_cost",
        "_minimum",
        "_quorum",
        "_tie",
        "labels",
        "needs_counts",
        "needs_experts",
        "needs_groups",
        "needs_probabilities",
        "needs_votes",
        "policy",
        "thresholds",
    )

    def __init__(self, policy: Policy, labels: Sequence[str]) -> None:
        self.policy = policy
        self.labels = tuple(labels)
        self._minimum = policy.minimum_votes
        runs_out = policy.maximum_votes is not None and policy.escalate.votes_run_out
        self._maximum = policy.maximum_votes if policy.maximum_votes is not None and runs_out else UNLIMITED_VOTES
        self.thresholds = thresholds(policy, self.labels)
        self._enough = [threshold - THRESHOLD_TOLERANCE for threshold in self.thresholds]
        self._costs = build_costs(policy, self.labels)
        self._cost_of: list[list[float]] | None = None if self._costs is None else self._costs.tolist()
        self._maximum_cost = THRESHOLD_TOLERANCE + (policy.maximum_cost or 0.0)
        self._by = "confidence" if self._cost_of is None else "costs"
        self._hysteresis = policy.hysteresis
        self._hold = round(policy.hold * SECOND)
        self._lock = None if policy.lock is None else round(policy.lock * SECOND)
        self._disagreement = policy.escalate.disagreement
        self._tie = policy.escalate.tie
        self._quorum = policy.quorum
        self.needs_counts = self._disagreement is not None
        self.needs_groups = self._quorum is not None
        self.needs_experts = policy.experts.decide
        self.needs_votes = self.needs_counts or self.needs_groups or self.needs_experts
        self.needs_probabilities = self._cost_of is not None or self._hysteresis > 0

    def decide(self, standing: Standing, evidence: Evidence) -> Standing:
        """Return where the task stands now: the same object where nothing changes.

        - `standing`: its previous standing.
        - `evidence`: what is known of it.
        """
        if standing.due and evidence.time >= standing.due:
            standing = self.tick(standing, evidence.time, breaker=evidence.breaker)
        if standing.reason in BY_PERSON_REASONS:
            return standing
        if evidence.gold:
            return self._settle(standing, evidence.label, "gold", evidence.time)
        if self.needs_experts and evidence.expert != NO_EXPERT and evidence.experts > standing.experts:
            if evidence.expert < 0:
                return _withhold(standing, "escalated", "experts", evidence.time)
            return self._settle(standing, evidence.expert, "expert", evidence.time)
        if standing.status == "locked":
            return standing
        votes = evidence.votes
        if votes < standing.floor:
            return _withhold(standing, "open", "reopened", evidence.time)
        if votes < self._minimum:
            return _withhold(standing, "open", "minimum_votes", evidence.time)
        if (self._tie or self._disagreement is not None) and (doubt := self._doubt(evidence)):
            return _withhold(standing, "escalated", doubt, evidence.time)
        label = self.best(evidence)
        missing = self._by
        if label >= 0 and self._quorum is not None and not self.has_quorum(label, evidence):
            label, missing = -1, "quorum"
        if label < 0 and self._hysteresis and self._keeps(standing, evidence):
            label = standing.label
        if label >= 0:
            return self._take(standing, label, evidence)
        if votes >= self._maximum:
            return _withhold(standing, "escalated", "maximum_votes", evidence.time)
        return _withhold(standing, "open", missing, evidence.time)

    def due(self, standing: Standing) -> int:
        """Return the time at which the clock alone changes where a task stands, in microseconds; 0: it does not.

        - `standing`: its current standing.
        """
        return standing.due

    def tick(self, standing: Standing, time: int, *, breaker: bool = False) -> Standing:
        """Return the standing at this time if no vote comes: the same object if nothing was due.

        The end of a hold and the beginning of a lock are dated to when they were due, however late the clock is read.

        - `standing`: its previous standing.
        - `time`: now, in microseconds.
        - `breaker`: whether a breaker has tripped: a hold that ends then is held on.
        """
        while standing.due and time >= standing.due:
            if standing.status == "decided":
                standing = _move(standing, "locked", standing.label, standing.due, 0, standing.reason)
            elif breaker:
                standing = _move(standing, "held", standing.label, standing.since, 0, "breaker")
            else:
                standing = self._decide_at(standing, standing.label, standing.due, self._by)
        return standing

    def override(self, standing: Standing, label: int, time: int, *, by: str | None = None, reason: str = "override") -> Standing:
        """Return where a task stands once a person has decided it, until it is reopened.

        - `standing`: its previous standing.
        - `label`: the index of the label.
        - `time`: when, in microseconds.
        - `by`: who.
        - `reason`: "override", or "audit" if they did not see the decision.
        """
        return _move(standing, "decided", label, time, 0, reason, by)

    def reopen(self, standing: Standing, votes: int, time: int, *, experts: int = 0) -> Standing:
        """Return where a task stands once its decision is appealed: open, until there are more votes.

        - `standing`: its previous standing.
        - `votes`: the votes that it has.
        - `time`: when, in microseconds.
        - `experts`: the votes of experts that it has: from now on, only further ones decide it at once.
        """
        return Standing("open", -1, time, 0, "reopened", None, votes + self.policy.reopen.votes, experts)

    def clamp(self, standing: Standing, time: int) -> Standing:
        """Return a standing none of whose times is later than now, because the clock was ahead.

        - `standing`: where the task stands.
        - `time`: now, in microseconds since 1970.
        """
        if max(standing.since, standing.due) <= time:
            return standing
        earlier = msgspec.structs.replace(standing, since=min(standing.since, time))
        return msgspec.structs.replace(earlier, due=min(standing.due, self.adopt(earlier, time).due))

    def adopt(self, standing: Standing, time: int) -> Standing:
        """Return a standing under an earlier policy with the clock of this one; `decide` does the rest.

        A lock that has begun stays.

        - `standing`: its standing under the earlier policy.
        - `time`: when this policy took its place, in microseconds.
        """
        due = standing.due
        if standing.status == "held" and standing.reason == "hold":
            due = max(standing.since + self._hold, time)
        elif standing.status == "decided" and standing.reason not in ("gold", *BY_PERSON_REASONS):
            due = 0 if self._lock is None else max(standing.since + self._lock, time)
        return (
            standing
            if due == standing.due
            else _move(standing, standing.status, standing.label, standing.since, due, standing.reason)
        )

    def why(self, standing: Standing, evidence: Evidence) -> list[str]:
        """Explain the standing in sentences: the rule in charge, the evidence, and anything that is missing.

        - `standing`: its current standing.
        - `evidence`: what is known of it.

        >>> from adjudge.service.campaigns.decision import NEW, Evidence
        >>> Rule(Policy(), ["spam", "ok"]).why(NEW, Evidence(votes=2, label=0, confidence=0.84))
        ['2 of at least 3 votes: 1 more needed at least', '0.84 of 0.90 confidence for spam', 'open']
        """
        from adjudge.service.campaigns.outcome import why

        return why(self, standing, evidence)

    def has_quorum(self, label: int, evidence: Evidence) -> bool:
        """Return whether votes for the label come from enough groups.

        - `label`: the index of the label.
        - `evidence`: what is known of the task.
        """
        return self._quorum is None or self.groups_for(label, evidence) >= self._quorum.groups

    def groups_for(self, label: int, evidence: Evidence) -> int:
        """Return how many groups have the votes for the label that the quorum asks of each.

        - `label`: the index of the label.
        - `evidence`: what is known of the task.
        """
        return evidence.groups[label] if evidence.groups else 0

    def disagreement(self, evidence: Evidence) -> float:
        """Return the share of the effective votes that is against the leading label.

        - `evidence`: what is known of the task.
        """
        total = math.fsum(evidence.counts)
        return 1 - evidence.counts[evidence.label] / total if total > 0 else 0.0

    def expected_cost(self, label: int, evidence: Evidence) -> float:
        """Return the expected cost of deciding for a label; NaN for a policy without costs.

        - `label`: the index of the label.
        - `evidence`: what is known of the task.
        """
        if self._cost_of is None:
            return math.nan
        # The exact sum does not depend on the order of the labels.
        return math.fsum(map(mul, evidence.probabilities, self._cost_of[label]))

    def _doubt(self, evidence: Evidence) -> str:
        """Return the reason for escalating although the votes might suffice, or nothing."""
        if self._tie and evidence.tie:
            return "tie"
        if self._disagreement is not None and self.disagreement(evidence) > self._disagreement + THRESHOLD_TOLERANCE:
            return "disagreement"
        return ""

    def best(self, evidence: Evidence) -> int:
        """Return the index of the label that the votes would decide if the task were new and every quorum there; or -1.

        - `evidence`: what is known of the task.
        """
        if self._cost_of is None:
            return evidence.label if evidence.confidence >= self._enough[evidence.label] else -1
        label = self.cheapest(evidence)
        return label if self.expected_cost(label, evidence) <= self._maximum_cost else -1

    def cheapest(self, evidence: Evidence) -> int:
        """Return the index of the label of least expected cost; the leading label for a policy without costs.

        Of several such labels it is the leading one, else the likeliest, else the first by its id.

        - `evidence`: what is known of the task.
        """
        if self._cost_of is None:
            return evidence.label
        cheap = self._find_cheapest(evidence)
        if evidence.label in cheap:
            return evidence.label
        return min(cheap, key=lambda label: (-evidence.probabilities[label], self.labels[label]))

    def _find_cheapest(self, evidence: Evidence) -> list[int]:
        """Return the labels of least expected cost, by exact sums; of many labels only those near the limit are summed."""
        candidates: Sequence[int] = range(len(self.labels))
        if self._costs is not None and len(self.labels) > MAX_EXACT_COST_LABELS:
            costs = self._costs @ np.asarray(evidence.probabilities)
            limit, slack = costs.min() + THRESHOLD_TOLERANCE, 1e-12 * float(np.max(self._costs))
            surely: list[int] = np.flatnonzero(costs <= limit - 2 * slack).tolist()
            candidates = np.flatnonzero(costs <= limit + 2 * slack).tolist()
            if len(candidates) == len(surely):
                return surely
        exact = {label: self.expected_cost(label, evidence) for label in candidates}
        least = min(exact.values()) + THRESHOLD_TOLERANCE
        return [label for label, cost in exact.items() if cost <= least]

    def _keeps(self, standing: Standing, evidence: Evidence) -> bool:
        """Return whether hysteresis keeps the label that votes had decided."""
        label = standing.label
        if label < 0 or standing.reason not in BY_VOTES or not self.has_quorum(label, evidence):
            return False
        if self._cost_of is not None:
            return self.expected_cost(label, evidence) <= self._maximum_cost + self._hysteresis
        confidence = evidence.confidence if label == evidence.label else evidence.probabilities[label]
        return confidence >= self._enough[label] - self._hysteresis

    def _take(self, standing: Standing, label: int, evidence: Evidence) -> Standing:
        """Return the standing of a task whose votes decide for this label."""
        time = evidence.time
        if standing.label == label and standing.status == "decided":
            if standing.reason == self._by:
                return standing
            return self.tick(self._decide_at(standing, label, standing.since, self._by), time)  # gold or expert was taken back
        held = standing.label == label and standing.status == "held"
        since = standing.since if held else time
        if evidence.breaker:
            return standing if held and standing.reason == "breaker" else _move(standing, "held", label, since, 0, "breaker")
        if held and standing.due > time:
            return standing
        if since + self._hold > time:
            return _move(standing, "held", label, since, since + self._hold, "hold")
        return self._decide_at(standing, label, time, self._by)

    def _settle(self, standing: Standing, label: int, reason: str, time: int) -> Standing:
        """Return the standing of a task that gold or an expert decides, at once."""
        same = standing.label == label
        if same and standing.reason == reason:
            return standing
        if reason == "gold":
            since = standing.since if same and standing.status == "decided" else time
            return _move(standing, "decided", label, since, 0, reason)
        if same and standing.status == "locked":
            return _move(standing, "locked", label, standing.since, 0, reason)
        since = standing.since if same and standing.status == "decided" else time
        return self.tick(self._decide_at(standing, label, since, reason), time)

    def _decide_at(self, standing: Standing, label: int, since: int, reason: str) -> Standing:
        """Return the standing decided since a time, with the clock of the lock."""
        if self._lock is None:
            return _move(standing, "decided", label, since, 0, reason)
        if self._lock == 0:
            return _move(standing, "locked", label, since, 0, reason)
        return _move(standing, "decided", label, since, since + self._lock, reason)

    def might_change(
        self,
        status: NDArray[np.uint8],
        label: NDArray[np.int32],
        votes: NDArray[np.int64],
        winner: NDArray[np.int32],
        confidence: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which of n tasks `decide` might move after a refit, [n]; never False where it would.

        A refit changes what is thought of the votes, and neither the votes nor the clock nor a breaker.

        - `status`: codes of the statuses (the index in `STATUSES`), [n].
        - `label`: the labels of the standings, -1 for none, [n].
        - `votes`: the votes that count, [n].
        - `winner`: the leading labels, [n].
        - `confidence`: how likely these are right, [n].
        - `probabilities`: how likely each label is right, [n, K]; where `needs_probabilities` says so.
        """
        enough = votes >= self._minimum
        undecided = (status == CODES["open"]) & enough
        others = (status != CODES["open"]) & (status != CODES["locked"])
        if self.needs_votes or self._tie:
            return np.asarray(undecided | others)
        passes, stays = self._vector_passes(label, winner, confidence, probabilities)
        ends = votes >= self._maximum
        stays &= enough & (status == CODES["decided"])
        stays |= (status == CODES["escalated"]) & enough & ends & ~passes
        return np.asarray((undecided & (passes | ends)) | (others & ~stays))

    def _vector_passes(
        self,
        label: NDArray[np.int32],
        winner: NDArray[np.int32],
        confidence: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where a label might pass, and where the decided one surely stays, both [n]."""
        if self._costs is None:
            bar = np.asarray(self._enough)[np.maximum(winner, 0)]
            return confidence >= bar, (winner == label) & (confidence >= bar - self._hysteresis)
        if probabilities is None:
            raise OptionError("probabilities is None: give them, [tasks, labels], as costs need them")
        costs = probabilities @ self._costs.T  # [n, K]: the sums round differently from the exact ones
        slack = THRESHOLD_TOLERANCE + 1e-12 * float(np.max(self._costs, initial=0.0))
        least = costs.min(axis=1)
        own = np.take_along_axis(costs, np.maximum(label, 0).astype(np.intp)[:, None], axis=1)[:, 0]
        rivals = (costs <= least[:, None] + 2 * slack).sum(axis=1)
        stays = (label >= 0) & (own <= least) & (rivals == 1) & (own <= self._maximum_cost - slack)
        return least <= self._maximum_cost + slack, stays


def thresholds(policy: Policy, labels: Sequence[str]) -> list[float]:
    """Return the confidence that each label needs; empty for a policy with costs.

    - `policy`: the policy.
    - `labels`: the ids of the labels.
    """
    asked = policy.confidence
    if asked is None:
        return []
    if not isinstance(asked, dict):
        return [asked] * len(labels)
    _check_known("confidence", asked, labels)
    for label in labels:
        if label not in asked and ANY_LABEL not in asked:
            raise OptionError(f'confidence has nothing for the label {quote(label)}: name it, or give "*" for all others')
    return [asked.get(label, asked.get(ANY_LABEL, math.nan)) for label in labels]


def build_costs(policy: Policy, labels: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the cost of deciding for each label, by the true one, [decided, true]; None for a policy without costs.

    What names both labels counts before what names the true one, the decided one, or neither.

    - `policy`: the policy.
    - `labels`: the ids of the labels.
    """
    if policy.costs is None:
        return None
    named, place = policy.costs, {label: place for place, label in enumerate(labels)}
    _check_known("costs", named, labels)
    for line in named.values():
        _check_known("costs", line, labels)
    others = named.get(ANY_LABEL, {})
    costs = np.full((len(labels), len(labels)), others.get(ANY_LABEL, math.nan))
    for decided, cost in others.items():
        if decided != ANY_LABEL:
            costs[place[decided], :] = cost
    for true, line in named.items():
        if true != ANY_LABEL and ANY_LABEL in line:
            costs[:, place[true]] = line[ANY_LABEL]
    np.fill_diagonal(costs, 0.0)  # a right decision costs nothing unless it is named
    for true, line in named.items():
        for decided, cost in line.items() if true != ANY_LABEL else ():
            if decided != ANY_LABEL:
                costs[place[decided], place[true]] = cost
    missing = np.argwhere(np.isnan(costs))
    if len(missing):
        decided, true = (labels[place] for place in missing[0])
        raise OptionError(f'costs has nothing for deciding {quote(decided)} where {quote(true)} is true: give it, or "*"')
    return costs


def _check_known(field: str, named: dict[str, float] | dict[str, dict[str, float]], labels: Sequence[str]) -> None:
    known = {*labels, ANY_LABEL}
    for label in named:
        if label not in known:
            raise OptionError(f'{field} names the label {quote(label)}: give labels of the campaign ({itemize(labels)}), or "*"')


def _withhold(standing: Standing, status: Status, reason: str, time: int) -> Standing:
    """Return the standing without a label, dated to when its status began."""
    if standing.status == status:
        return standing if standing.reason == reason else _move(standing, status, -1, standing.since, 0, reason)
    return _move(standing, status, -1, time, 0, reason)


def _move(standing: Standing, status: Status, label: int, since: int, due: int, reason: str, by: str | None = None) -> Standing:
    """Return a new standing of the same task."""
    return Standing(status, label, since, due, reason, by, standing.floor, standing.experts)
