"""Shares of labels in a group of tasks: from votes alone, or corrected by known labels; and differences between groups.

By votes, the share is the one under which the votes of the group are most likely, given what the fit has learned of workers: it
is not pulled towards the share among all tasks, as a mean of probabilities would be, nor towards the mix of the workers' answers.
What nobody can see in votes is errors that workers have in common. Honest probabilities are made for them, and give the part of
the variance that more tasks do not make smaller (docs/decisions/055-rates.md has what was measured).

Two corrections take the fit that has not seen the known labels. Prediction-powered inference measures on the gold of the group
itself by how much predictions are off on average (Angelopoulos, Duchi and Zrnic 2023, PPI++), and assumes nothing but that this
gold is a random sample of the group. The other inverts the table of labels given to tasks of each true label (Rogan and Gladen
1978). It pools the gold of all groups, and so assumes that judges err alike in every group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from adjudge.evaluation.inputs import KnownLabels
from adjudge.evaluation.intervals import Flags, Floats, Integers, quantile, share_intervals, two_sided
from adjudge.models.honest import SHARED_DOUBT

VOTES_METHOD: Final = "votes"  # methods: by votes alone
GOLD_METHOD: Final = "gold"  # by known labels of all tasks
PSEUDO_TASKS_PER_LABEL: Final = 0.25  # tasks added to every label: a share of none is not proved by a hundred tasks
MAX_SHARE_STEPS: Final = 500
TOLERANCE: Final = 1e-7
# Of the variance by errors that tasks have in common, the part that does not cancel out of the difference of two groups with the
# same judges: it makes intervals of differences hold as often as they say (docs/rates.md).
UNCANCELLED: Final = 0.02
APART: Final = 0.5  # of the distance between the share and what honest probabilities make of it that may be such an error
LEAST_KNOWN: Final = 0.01  # of the information of true labels that votes carry at least: keeps variances finite
MAX_VARIANCE: Final = 0.25  # of any share
PPI: Final = "ppi"
INVERTED: Final = "rogan-gladen"
MIN_GOLD: Final = 10  # known labels in a group, from which on it is corrected by its own
MIN_PER_LABEL: Final = 5  # known tasks of each true label, from which on the table of all groups is inverted
LENT_TASKS: Final = 8.0  # pseudo-tasks with calibrated predictions, added to the gold that shows how far to trust predictions
LENT_ERRORS: Final = 2.0  # tasks with the doubt that is expected, in the variance of errors seen on gold
LENT_ROWS: Final = 1.0  # tasks as honest probabilities expect them, in every column of the table
CLEARLY: Final = 0.8  # of the standard error expected of the first: below it the second is taken
CONTRADICTED: Final = 2.0  # standard errors from the pooled table: further away, judges do not err alike in every group
MAX_CONDITION: Final = 20.0  # of a table that is inverted


@dataclass(frozen=True, eq=False)
class TaskBeliefs:
    """What votes say of tasks, without known labels."""

    likelihood: Floats  # [tasks, K] of the votes on a task by its true label, up to a factor per task
    honest: Floats  # [tasks, K] probabilities
    label: Integers  # [tasks] codes
    exists: Flags  # [K] labels that votes name
    usual: Floats  # [K] the mean of honest probabilities over the tasks of all groups

    def of(self, tasks: Integers) -> TaskBeliefs:
        """Return the beliefs about some tasks, codes."""
        return TaskBeliefs(self.likelihood[tasks], self.honest[tasks], self.label[tasks], self.exists, self.usual)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, eq=False)
class ShareEstimate:
    """The share of every label in a group, and how sure it is."""

    share: Floats  # [K]
    variance: Floats  # [K] by luck of tasks, votes and gold
    shared: Floats  # [K] variance by errors that all tasks may have in common
    method: str
    df: float  # degrees of freedom that the variance is known with
    tasks: Integers  # [influences] codes: the tasks of the group, and then gold of any group where it has a part
    influence: Floats  # [influences, K] by which luck with each of these moves the share
    own: int  # how many of them are the tasks of the group

    @property
    def error(self) -> Floats:
        """The standard error of every share, [K]."""
        return np.asarray(np.sqrt(self.variance + self.shared))

    def interval(self, z: float, tasks: int) -> tuple[Floats, Floats]:
        """Return low and high of every share, [K] each, for `tasks` tasks; both equal the share if all labels are known."""
        if self.method == GOLD_METHOD and not self.variance.any():
            return self.share, self.share
        return share_intervals(self.share, self.variance + self.shared, z, tasks)


def most_likely(found: TaskBeliefs) -> tuple[Floats, Floats]:
    """Return the most likely shares, [K], and the probabilities of the labels of every task under them, [tasks, K].

    This is expectation-maximisation for a mixture of known parts, so that each step makes the votes more likely. It is a loop
    over K numbers: what votes say of a task is settled before. A quarter of a task is added to every label.

    >>> sure = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 4)
    >>> share, _ = most_likely(TaskBeliefs(sure, sure, sure.argmax(axis=1), np.array([True, True]), sure.mean(axis=0)))
    >>> share.round(2).tolist()
    [0.62, 0.38]
    """
    added = np.where(found.exists, PSEUDO_TASKS_PER_LABEL, 0.0)
    share = np.where(found.exists, 1.0, 0.0) / max(int(found.exists.sum()), 1)
    posterior = found.likelihood
    for _ in range(MAX_SHARE_STEPS):
        posterior = found.likelihood * share
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
        new = (posterior.sum(axis=0) + added) / (len(found) + added.sum())
        moved, share = float(np.abs(new - share).max()), new
        if moved < TOLERANCE:
            break
    return share, posterior


def estimate_shared_variance(found: TaskBeliefs, share: Floats) -> Floats:
    """Return the variance of shares by errors that the tasks of a group may have in common, [K].

    One part is the same share of the honest doubt, p (1 - p), as in the intervals of workers. The other follows from honest
    probabilities themselves, which know of shared errors. They are moved from the share among all tasks to that of the group,
    by Bayes' rule; where their mean is still another share, one of the two is wrong.
    """
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    moved = found.honest * np.divide(share, found.usual, out=np.zeros_like(share), where=found.usual > 0)
    moved /= np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray((SHARED_DOUBT * doubt) ** 2 + (APART * (moved.mean(axis=0) - share)) ** 2)


def by_votes(found: TaskBeliefs, tasks: Integers, *, sample: bool) -> ShareEstimate:
    """Return the shares of a group by its votes alone; `tasks` are its codes.

    The variance of a most likely share is (s (1 - s))^2 / (n v), v being the variance of the probabilities: that of a share of n
    tasks with truth, times what votes hide of it. For the share among these very tasks, that of n tasks with truth is taken off.
    """
    n = len(found)
    share, posterior = most_likely(found)
    whole = share * (1.0 - share)
    known = np.maximum(posterior.var(axis=0), LEAST_KNOWN * whole)
    scale = np.divide(whole, known, out=np.zeros_like(whole), where=known > 0)
    variance = np.minimum(whole * scale / n, MAX_VARIANCE)
    influence = (posterior - posterior.mean(axis=0)) * np.minimum(scale, 1.0 / LEAST_KNOWN) / n
    if not sample:
        variance, influence = np.maximum(variance - whole / n, 0.0), np.zeros_like(influence)
    return ShareEstimate(share, variance, estimate_shared_variance(found, share), VOTES_METHOD, math.inf, tasks, influence, n)


def correct_predictions(found: TaskBeliefs, tasks: Integers, at: Integers, labels: Integers, *, sample: bool) -> ShareEstimate:
    """Return the shares of a group by its predictions, corrected by its gold: `at` and `labels` say where it is, and what.

    With y for gold and f for predictions, the share is mean(y - l f) over gold plus l mean(f) over the other tasks. The tuning l
    is the regression of y on f, held back towards 1 by tasks that say so, as few gold tasks tell little of it.
    """
    predicted = most_likely(found)[1]
    n, whole, k = len(at), len(found), predicted.shape[1]
    truth, others = np.eye(k)[labels], np.ones(whole, np.bool_)
    others[at] = False
    rest = whole - n
    seen, spread = predicted[at], predicted.var(axis=0)
    centred = seen - seen.mean(axis=0)
    both = ((truth - truth.mean(axis=0)) * centred).sum(axis=0) + LENT_TASKS * spread
    own = (centred**2).sum(axis=0) + LENT_TASKS * spread
    tuning = np.clip(np.divide(both, own, out=np.zeros(k), where=own > 0), 0.0, 1.0)
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    power = tuning * rest / whole if sample else tuning
    left = truth - power * seen
    errors = left - left.mean(axis=0)
    expected = doubt + (1.0 - power) ** 2 * spread
    variance = ((errors**2).sum(axis=0) + LENT_ERRORS * expected) / (n - 1 + LENT_ERRORS)
    influence = np.zeros((whole, k))
    if sample:
        share = left.mean(axis=0) + (power * predicted[others].mean(axis=0) if rest else 0.0)
        total = variance / n + (power**2 * spread / rest if rest else 0.0)
        influence[at] = errors / n
        influence[others] = power * (predicted[others] - predicted[others].mean(axis=0)) / rest if rest else 0.0
    else:
        share = left.mean(axis=0) + power * predicted.mean(axis=0)
        total = (1.0 - n / whole) * variance / n
    share = np.clip(share, 0.0, 1.0)
    share /= share.sum()  # every label has a tuning of its own, so that more than two need not sum to 1
    method = PPI if rest else GOLD_METHOD
    return ShareEstimate(share, np.minimum(total, MAX_VARIANCE), np.zeros(k), method, n - 1, tasks, influence, whole)


@dataclass(frozen=True, eq=False)
class ConfusionTable:
    """How often tasks of each true label get each label, known from the gold of all groups, with what gold leaves open of it."""

    given: Floats  # [K given, K true] shares: columns sum to 1
    number: Floats  # [K true] gold tasks, and those lent
    inverse: Floats  # [K true, K given]
    gold: KnownLabels
    label: Integers  # [gold] that the fit gave


def expected_table(found: TaskBeliefs) -> Floats:
    """Return how often tasks of each true label get each label by honest probabilities, [K given, K true]."""
    k = found.honest.shape[1]
    out = np.zeros((k, k))
    np.add.at(out, found.label, found.honest)
    return np.asarray(out / np.maximum(out.sum(axis=0), 1e-12))


def table_of(found: TaskBeliefs, gold: KnownLabels) -> ConfusionTable | None:
    """Return the table of labels given by true label; None if gold is too scarce, or labels tell the truth too little."""
    k = found.honest.shape[1]
    label, expected = found.label[gold.tasks], expected_table(found)
    counts = np.zeros((k, k))
    np.add.at(counts, (label, gold.labels), 1.0)
    met = counts.sum(axis=0)
    if (met[found.exists] < MIN_PER_LABEL).any() or not found.exists.all():
        return None
    given = (counts + LENT_ROWS * expected) / (met + LENT_ROWS)
    if np.linalg.cond(given) > MAX_CONDITION:
        return None
    return ConfusionTable(given, met + LENT_ROWS, np.linalg.inv(given), gold, label)


def estimate_inverted(found: TaskBeliefs, tasks: Integers, table: ConfusionTable, *, sample: bool) -> ShareEstimate:
    """Return the shares of a group by its labels, corrected by the table of all groups: C^-1 s, s being shares of labels."""
    n, k = len(found), found.honest.shape[1]
    labelled = np.eye(k)[found.label]
    seen = labelled.mean(axis=0)
    share = np.clip(table.inverse @ seen, 0.0, None)
    share /= share.sum()
    variance = _invert_variance(table.given, table.number, table.inverse, seen, share, n, sample=sample)
    given = np.eye(k)[table.label] - table.given[:, table.gold.labels].T
    of_gold = -(given @ table.inverse.T) * (share / table.number)[table.gold.labels][:, None]
    of_tasks = (labelled - seen) @ table.inverse.T / n if sample else np.zeros((n, k))
    luck = np.concatenate([tasks, table.gold.tasks]), np.concatenate([of_tasks, of_gold])
    df = float(len(table.gold) - k)
    return ShareEstimate(share, np.minimum(variance, MAX_VARIANCE), np.zeros(k), INVERTED, df, *luck, n)


def _invert_variance(
    given: Floats, number: Floats, inverse: Floats, seen: Floats, share: Floats, n: int, *, sample: bool
) -> Floats:
    """Return the variance of inverted shares, [K]: of the labels of n tasks, and of the table that gold leaves open."""
    by_label = [np.diag(column) - np.outer(column, column) for column in given.T]
    luck = np.diag(seen) - np.outer(seen, seen) if sample else sum(s * one for s, one in zip(share, by_label, strict=True))
    table = sum(s**2 / m * one for s, m, one in zip(share, number, by_label, strict=True))
    out: Floats = np.einsum("ij,jk,ik->i", inverse, luck / n + table, inverse)
    return np.maximum(out, 0.0)


def estimate_shares(
    every: TaskBeliefs, tasks: Integers, gold: KnownLabels | None, table: ConfusionTable | None, *, sample: bool
) -> ShareEstimate:
    """Return the shares of a group, `tasks` its rising codes, by the method that is expected to be tighter.

    Which that is follows from the votes and from how many labels are known, not from what these say: a choice by the intervals
    themselves would take those that luck made narrow. The inverted table must be clearly tighter, as it assumes more, and is
    dropped where the group's own gold contradicts it. Without gold enough for either, votes alone decide.
    """
    found = every.of(tasks)
    if gold is None:
        return by_votes(found, tasks, sample=sample)
    at, labels = gold.within(tasks)
    own = correct_predictions(found, tasks, at, labels, sample=sample) if len(at) >= MIN_GOLD else None
    if table is None:
        return own or by_votes(found, tasks, sample=sample)
    other = estimate_inverted(found, tasks, table, sample=sample)
    if own is None:
        return other
    if not _is_clearly_tighter(every, found, len(at), len(gold.tasks), sample=sample):
        return own
    return own if _is_contradicted(found, at, labels, table, own, other) else other


def _is_contradicted(
    found: TaskBeliefs, at: Integers, labels: Integers, table: ConfusionTable, own: ShareEstimate, other: ShareEstimate
) -> bool:
    """Return whether a group's gold speaks against the table of all: by its shares, or by how many of its labels are right."""
    apart = np.abs(own.share - other.share) / np.sqrt(own.variance + other.variance + 1e-12)
    chance = table.given[labels, labels]
    right = float((found.label[at] == labels).sum())
    spread = float((chance * (1.0 - chance)).sum()) + 0.25  # of a whole number
    return bool((apart > CONTRADICTED).any() or abs(right - float(chance.sum())) > CONTRADICTED * spread**0.5)


def _is_clearly_tighter(every: TaskBeliefs, found: TaskBeliefs, own: int, pooled: int, *, sample: bool) -> bool:
    """Return whether the inverted table is expected to be clearly tighter than correction by the group's own gold."""
    expected, whole = expected_table(every), len(found)
    if np.linalg.cond(expected) > MAX_CONDITION:
        return False
    share, posterior = most_likely(found)
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    first = doubt / own + posterior.var(axis=0) / whole if sample else (1.0 - own / whole) * doubt / own
    number = np.maximum(every.honest.mean(axis=0) * pooled, 1.0) + LENT_ROWS
    seen = np.bincount(found.label, minlength=len(share)) / whole
    second = _invert_variance(expected, number, np.linalg.inv(expected).astype(np.float64), seen, share, whole, sample=sample)
    return bool(second.mean() < CLEARLY**2 * first.mean())


@dataclass(frozen=True, eq=False)
class JudgeShares:
    """Who judged a group."""

    judge: Integers  # [judges] codes, rising
    share: Floats  # [judges] of the votes of the group

    @classmethod
    def of(cls, judge_of_vote: Integers) -> JudgeShares:
        """Return the shares of the judges of some votes, [votes] codes."""
        judge, number = np.unique(judge_of_vote, return_counts=True)
        return cls(judge, number / max(len(judge_of_vote), 1))

    def overlap(self, other: JudgeShares) -> float:
        """Return how far the judges of two groups are the same: 1 where their votes have the same mix of judges, 0 without any.

        >>> JudgeShares.of(np.array([0, 0, 1, 1])).overlap(JudgeShares.of(np.array([1, 2])))
        0.5
        """
        _, here, there = np.intersect1d(self.judge, other.judge, assume_unique=True, return_indices=True)
        return float(np.minimum(self.share[here], other.share[there]).sum())


@dataclass(frozen=True, eq=False)
class ShareDifference:
    """By how much shares of one group are above those of another."""

    one: int  # codes of groups
    other: int
    value: Floats  # [K]
    low: Floats
    high: Floats
    p_value: Floats
    pairs: int  # clusters that both groups have
    error: Floats  # [K] standard error
    correlation: Floats  # [K] of the luck of the two shares


def differences(
    found: Sequence[ShareEstimate],
    pairs: Sequence[tuple[int, int]],
    cluster: Integers | None,
    level: float,
    judges: Sequence[JudgeShares],
) -> Iterator[ShareDifference]:
    """Yield the difference of every two groups of `pairs`; `cluster`, [tasks], says which tasks depend on each other.

    Luck that two shares have in common cancels out of their difference: that with known labels which both use, and that
    with hard and easy clusters. So do most of the errors that tasks have in common, as far as the same judges judged both groups,
    as `judges` says by group: that these err alike in both is what a difference by votes alone assumes.
    """
    by_cluster = [] if cluster is None else [_sum_by_cluster(one, cluster) for one in found]
    for one, other in pairs:
        a, b = found[one], found[other]
        common, number = np.zeros(len(a.share)), 0
        if INVERTED in (a.method, b.method):  # else no task is in both
            common = _same_tasks(a, b)
        if cluster is not None:
            paired, number = _same_clusters(by_cluster[one], by_cluster[other])
            common = common + paired
        uncancelled = 1.0 - (1.0 - UNCANCELLED) * judges[one].overlap(judges[other])
        luck = np.maximum(a.variance + b.variance - 2.0 * common, 0.0)
        variance = luck + uncancelled * (a.shared + b.shared)
        both = np.sqrt(a.variance * b.variance)
        correlation = np.divide(common, both, out=np.zeros_like(both), where=both > 0)
        df = _freedom(a, b)
        error, value = np.sqrt(variance), a.share - b.share
        half = quantile(level, df) * error
        surprise = np.divide(value, error, out=np.zeros_like(value), where=error > 0)
        p_value = np.array([two_sided(float(t), df) for t in surprise])
        p_value = np.where((error == 0) & (value != 0), 0.0, p_value)
        low, high = (np.clip(value + sign * half, -1.0, 1.0) for sign in (-1.0, 1.0))
        yield ShareDifference(one, other, value, low, high, p_value, number, error, np.clip(correlation, -1.0, 1.0))


def _freedom(a: ShareEstimate, b: ShareEstimate) -> float:
    """Return the degrees of freedom of a difference (Welch and Satterthwaite), as a whole number, from the widest label."""
    va, vb = float((a.variance + a.shared).max()), float((b.variance + b.shared).max())
    open_still = va**2 / a.df + vb**2 / b.df
    return max(math.floor((va + vb) ** 2 / open_still), 1) if open_still > 0 else math.inf


def _same_tasks(a: ShareEstimate, b: ShareEstimate) -> Floats:
    """Return the covariance of two shares by tasks that both depend on, [K]: gold that both tables are known from."""
    out = np.zeros(a.influence.shape[1])
    shared = np.intersect1d(a.tasks, b.tasks)
    if len(shared):
        out = (_sum_influence(a, shared) * _sum_influence(b, shared)).sum(axis=0)
    return out


def _sum_influence(found: ShareEstimate, tasks: Integers) -> Floats:
    """Return the influence of some tasks, rising codes, [tasks, K]: a task may count twice, in its group and as gold."""
    out = np.zeros((len(tasks), found.influence.shape[1]))
    at = np.searchsorted(tasks, found.tasks)
    at[at == len(tasks)] = 0
    here = tasks[at] == found.tasks
    np.add.at(out, at[here], found.influence[here])
    return out


def _same_clusters(a: tuple[Integers, Floats], b: tuple[Integers, Floats]) -> tuple[Floats, int]:
    """Return the covariance of two shares by clusters that both have, [K], and how many there are; see `_sum_by_cluster`."""
    both, at_a, at_b = np.intersect1d(a[0], b[0], assume_unique=True, return_indices=True)
    return (a[1][at_a] * b[1][at_b]).sum(axis=0), len(both)


def _sum_by_cluster(found: ShareEstimate, cluster: Integers, own: int | None = None) -> tuple[Integers, Floats]:
    """Return the clusters of a group, rising codes, with the influence of each on its shares, [clusters, K]."""
    end = found.own if own is None else own
    distinct, place = np.unique(cluster[found.tasks[:end]], return_inverse=True)
    out = np.zeros((len(distinct), found.influence.shape[1]))
    np.add.at(out, place, found.influence[:end])
    return distinct, out


def allow_for_clusters(found: ShareEstimate, cluster: Integers) -> ShareEstimate:
    """Return an estimate whose variance allows for tasks of one cluster that depend on each other; `cluster` has [tasks] codes.

    The variance grows as the sum of squared influences does, if those of a cluster are added up before they are squared.
    """
    distinct, sums = _sum_by_cluster(found, cluster, len(found.tasks))
    number = len(distinct)
    alone = (found.influence**2).sum(axis=0)
    if number == len(found.tasks) or number < 2 or not alone.any():
        return found
    together = (sums**2).sum(axis=0) * number / (number - 1)
    effect = np.divide(together, alone, out=np.ones_like(alone), where=alone > 0)
    return replace(found, variance=np.minimum(found.variance * effect, MAX_VARIANCE), df=min(found.df, number - 1))
