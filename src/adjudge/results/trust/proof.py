"""Proofs that the workers of a ring copy: what their agreement takes, and what everybody else says of their answers.

Workers who know agree with each other if the others are wrong, "beyond what the truth explains". So rings that
`find_copies` finds may be copies or experts. Independent workers who agree in a share A of their pairs of votes must be right
with a probability a that follows from A. The votes of everybody else say how often the ring is right. Only if these votes say
clearly less than a, the answers are copied. docs/decisions/027-verdicts.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from adjudge.results.trust.copies import Copies
from adjudge.results.trust.posterior import Flags, Floats, Integers

MIN_AGREEING: Final = 0.975  # share of agreeing pairs of votes in a ring from which its answers may be called copied
AGREEING_RISK: Final = 0.01  # probability that the share is less, if some pairs differ: experts may agree by luck
MIN_LOG_RATIO: Final = 1.0  # log-likelihood by which the others' votes must prefer a lower accuracy
EXACT_PAIRS: Final = 100  # from this many pairs without a difference, the next ratio is enough:
MIN_LOG_RATIO_EXACT: Final = 1 / 3  # independent workers hardly ever agree like that
MAX_REFITS: Final = 64  # fits without some rings: if there are more rings, several are left out together
QUANTILE_POINTS: Final = 4001
MAX_HALVINGS: Final = 60

# How likely labels of tasks are right without the votes of some workers. From who is left out, [workers], follows a function
# from labels, [tasks], to probabilities, [tasks], which are NaN if no other vote is left.
JudgeWithout = Callable[[Flags], Callable[[Integers], Floats]]


class RingProof(NamedTuple):
    """What the pairs of a ring say, and what everybody else says of its answers."""

    members: Integers  # [members]
    agreeing: int  # pairs of votes that give the same label
    pairs: int
    needed: float  # accuracy that would explain the agreement of independent workers
    found: float  # accuracy that the others' votes make likeliest; NaN if they were not asked
    log_ratio: float  # log-likelihood of `found` less that of `needed`; 0 where `found` is not below it

    @property
    def is_copied(self) -> bool:
        """Whether the answers are copied, and not those of a minority that is right."""
        exact = self.pairs == self.agreeing >= EXACT_PAIRS
        needed = MIN_LOG_RATIO_EXACT if exact else MIN_LOG_RATIO
        return self.log_ratio > needed and answer_alike(self.agreeing, self.pairs)


def prove_rings(found: Copies, judge_without: JudgeWithout, labels: int, per_set: int = 1) -> list[RingProof]:
    """Return the proof of each ring, in the order of their smallest members; `labels` is the number of labels there are.

    If votes are answers to the options of a set, `per_set` of them count as one: they may be right or wrong together.
    """
    rings = np.unique(found.ring[found.ring >= 0])
    if labels < 2:
        return [RingProof(np.flatnonzero(found.ring == ring), 0, 0, np.nan, np.nan, 0.0) for ring in rings]
    answers = [_in_sets(one, per_set) for one in _answers(found, rings)]
    needed = [accuracy_of_agreement(one.agreeing, one.pairs, labels) for one in answers]
    asked = [n for n, one in enumerate(answers) if answer_alike(one.agreeing, one.pairs)]
    best = dict.fromkeys(range(len(rings)), (np.nan, 0.0))
    for batch in (asked[start::MAX_REFITS] for start in range(min(MAX_REFITS, len(asked)))):
        chance = judge_without(np.isin(found.ring, rings[batch]))
        for n in batch:
            wanted = np.zeros(len(found.compared), np.int64)
            wanted[answers[n].task] = answers[n].label
            p = chance(wanted)[answers[n].task]
            accuracy, ratio = likeliest_accuracy(p[~np.isnan(p)], needed[n], labels)
            best[n] = accuracy, ratio / per_set
    return [
        RingProof(np.flatnonzero(found.ring == ring), one.agreeing, one.pairs, needed[n], *best[n])
        for n, (ring, one) in enumerate(zip(rings, answers, strict=True))
    ]


class RingAnswers(NamedTuple):
    """The answers of a ring: one per task, by the plurality of its members. Tasks on which they are tied are left out."""

    task: Integers  # [tasks of the ring] codes among all tasks
    label: Integers
    agreeing: int  # pairs of votes
    pairs: int


def _in_sets(answers: RingAnswers, per_set: int) -> RingAnswers:
    """Return the answers of a ring with so many pairs counted as one; of those that differ none is lost."""
    pairs, differing = (-(-number // per_set) for number in (answers.pairs, answers.pairs - answers.agreeing))
    return answers._replace(agreeing=pairs - differing, pairs=pairs)


def _answers(found: Copies, rings: Integers) -> list[RingAnswers]:
    """Return the answers of each ring."""
    ballots, k = found.ballots, found.ballots.panel.n_labels
    of_vote = found.ring[ballots.worker()]
    some = np.flatnonzero(of_vote >= 0)
    number, task = np.searchsorted(rings, of_vote[some]), ballots.task()[some]
    cell, votes = np.unique((number * ballots.n_tasks + task) * k + ballots.label()[some], return_counts=True)
    group, label = cell // k, cell % k
    order = np.lexsort([-votes, group])  # of each ring and task the label with the most votes first
    group, label, votes = group[order], label[order], votes[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.add.reduceat(votes, starts)
    agreeing = np.add.reduceat(votes * (votes - 1) // 2, starts)
    second = np.where(np.diff(starts, append=len(group)) > 1, votes[np.minimum(starts + 1, len(votes) - 1)], 0)
    is_clear = votes[starts] > second
    ring, where = group[starts] // ballots.n_tasks, np.flatnonzero(found.compared)[group[starts] % ballots.n_tasks]
    return [
        RingAnswers(
            where[mine & is_clear],
            label[starts][mine & is_clear],
            int(agreeing[mine].sum()),
            int((size * (size - 1) // 2)[mine].sum()),
        )
        for mine in (ring == n for n in range(len(rings)))
    ]


def answer_alike(agreeing: int, pairs: int) -> bool:
    """Return whether a ring agrees more than independent workers do who are nearly always right.

    Either no pair of votes differs, or the share that agrees is at least 0.975 beyond doubt.

    >>> answer_alike(60, 60), answer_alike(295, 300), answer_alike(2950, 3000)
    (True, False, True)
    """
    return 0 < pairs == agreeing or (
        agreeing >= MIN_AGREEING * pairs > 0 and beta_quantile(agreeing, pairs - agreeing, AGREEING_RISK) >= MIN_AGREEING
    )


def accuracy_of_agreement(agreeing: int, pairs: int, labels: int) -> float:
    """Return the accuracy at which independent workers agree in `agreeing` of `pairs` pairs of votes.

    Two who are right with probability a, and otherwise give each other label equally often, agree with probability
    a^2 + (1 - a)^2 / (K - 1). The share of agreeing pairs is used as the median of its distribution.

    >>> round(accuracy_of_agreement(100, 100, 2), 4), round(accuracy_of_agreement(980, 1000, 4), 4)
    (0.9989, 0.9899)
    """
    share, e = beta_quantile(agreeing, pairs - agreeing, 0.5), 1.0 / (labels - 1)
    return float((e + np.sqrt(max(share * (1.0 + e) - e, 0.0))) / (1.0 + e))


def beta_quantile(right: int, wrong: int, level: float) -> float:
    """Return a quantile of the beta distribution with parameters right + 1/2 and wrong + 1/2.

    With x = sin^2 u its density is sin(u)^(2 right) cos(u)^(2 wrong), a smooth hill of width 1 / sqrt(2 n).

    >>> round(beta_quantile(5, 5, 0.5), 6), round(beta_quantile(0, 0, 0.25), 6)
    (0.5, 0.146447)
    """
    n = right + wrong
    peak = np.arctan2(np.sqrt(right), np.sqrt(wrong)) if n else np.pi / 4
    reach = 8.0 / np.sqrt(2.0 * n) if n else np.pi
    u = np.linspace(max(peak - reach, 0.0), min(peak + reach, np.pi / 2), QUANTILE_POINTS)
    with np.errstate(divide="ignore"):
        height = (2.0 * right * np.log(np.sin(u)) if right else 0.0) + (2.0 * wrong * np.log(np.cos(u)) if wrong else 0.0 * u)
    density = np.exp(height - np.max(height))
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(u))])
    return float(np.sin(np.interp(level * area[-1], area, u)) ** 2)


def likeliest_accuracy(p: Floats, needed: float, labels: int) -> tuple[float, float]:
    """Return the accuracy x of answers that the others make likeliest, and by how much they prefer it to `needed`.

    `p`, [tasks], is the probability of each answer. l(x) = sum of log(x p + (1 - x) (1 - p) / (K - 1)) is concave. The
    preference is l(x) - l(needed), or 0 where x is not below `needed`.

    >>> x, ratio = likeliest_accuracy(np.array([0.9] * 8 + [0.1] * 2), 0.99, 2)
    >>> round(x, 3), round(ratio, 2)
    (0.875, 0.36)
    """
    if not len(p):
        return float("nan"), 0.0
    wrong = (1.0 - p) / (labels - 1)

    def slope(x: float) -> float:
        return float(((p - wrong) / (x * p + (1.0 - x) * wrong)).sum())

    def fit(x: float) -> float:
        return float(np.log(x * p + (1.0 - x) * wrong).sum())

    low, high = 1e-12, 1.0 - 1e-12
    if slope(high) >= 0.0:
        return 1.0, 0.0
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    best = 0.5 * (low + high)
    return best, max(fit(best) - fit(needed), 0.0) if best < needed else 0.0
