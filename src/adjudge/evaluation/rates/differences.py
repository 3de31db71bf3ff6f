"""Differences of shares between groups, and how many more known labels would halve an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.rates.gold import INVERTED, MIN_GOLD, PPI
from adjudge.evaluation.rates.intervals import quantile, two_sided
from adjudge.evaluation.rates.shares import KNOWN, Beliefs, Estimate, Floats, Integers, most_likely

MAX_PAIRS: Final = 2_000  # of groups that are compared


@dataclass(frozen=True, eq=False)
class Difference:
    """By how much shares of one group are above those of another."""

    one: int  # codes of groups
    other: int
    value: Floats  # [K]
    low: Floats
    high: Floats
    p_value: Floats
    pairs: int  # items that both groups have


def differences(
    found: Sequence[Estimate], pairs: Sequence[tuple[int, int]], items: Integers | None, confidence: float
) -> Iterator[Difference]:
    """Yield the difference of every two groups of `pairs`; `items`, [tasks], says which tasks are about the same thing.

    Luck that two shares have in common cancels out of their difference: that with known labels which both use, and, where
    tasks are paired, that with hard and easy items. Errors that tasks may have in common do not: nobody knows that judges err
    alike in both groups, and LLM judges are known to favour their own kind.
    """
    by_item = [] if items is None else [_by_item(one, items) for one in found]
    for one, other in pairs:
        a, b = found[one], found[other]
        common, number = np.zeros(len(a.share)), 0
        if INVERTED in (a.method, b.method):  # else no task is in both
            common = _same_tasks(a, b)
        if items is not None:
            paired, number = _same_items(by_item[one], by_item[other])
            common = common + paired
        variance = np.maximum(a.variance + b.variance - 2.0 * common, 0.0) + a.shared + b.shared
        df = _freedom(a, b)
        error, value = np.sqrt(variance), a.share - b.share
        half = quantile(confidence, df) * error
        surprise = np.divide(value, error, out=np.zeros_like(value), where=error > 0)
        p_value = np.array([two_sided(float(t), df) for t in surprise])
        p_value = np.where((error == 0) & (value != 0), 0.0, p_value)
        yield Difference(one, other, value, np.clip(value - half, -1.0, 1.0), np.clip(value + half, -1.0, 1.0), p_value, number)


def _freedom(a: Estimate, b: Estimate) -> float:
    """Return the degrees of freedom of a difference (Welch and Satterthwaite), as a whole number, from the widest label."""
    va, vb = float((a.variance + a.shared).max()), float((b.variance + b.shared).max())
    open_still = va**2 / a.df + vb**2 / b.df
    return max(math.floor((va + vb) ** 2 / open_still), 1) if open_still > 0 else math.inf


def _same_tasks(a: Estimate, b: Estimate) -> Floats:
    """Return the covariance of two shares by tasks that both depend on, [K]: gold that both tables are known from."""
    out = np.zeros(a.influence.shape[1])
    shared = np.intersect1d(a.tasks, b.tasks)
    if len(shared):
        out = (_summed(a, shared) * _summed(b, shared)).sum(axis=0)
    return out


def _summed(found: Estimate, tasks: Integers) -> Floats:
    """Return the influence of some tasks, rising codes, [tasks, K]: a task may count twice, in its group and as gold."""
    out = np.zeros((len(tasks), found.influence.shape[1]))
    at = np.searchsorted(tasks, found.tasks)
    at[at == len(tasks)] = 0
    here = tasks[at] == found.tasks
    np.add.at(out, at[here], found.influence[here])
    return out


def _same_items(a: tuple[Integers, Floats], b: tuple[Integers, Floats]) -> tuple[Floats, int]:
    """Return the covariance of two shares by items that both have, [K], and how many there are; see `_by_item`."""
    both, at_a, at_b = np.intersect1d(a[0], b[0], assume_unique=True, return_indices=True)
    return (a[1][at_a] * b[1][at_b]).sum(axis=0), len(both)


def _by_item(found: Estimate, items: Integers) -> tuple[Integers, Floats]:
    """Return the items of a group, rising codes, and the influence of each on its shares, [items, K]."""
    item = items[found.tasks[: found.own]]
    distinct, place = np.unique(item[item >= 0], return_inverse=True)
    out = np.zeros((len(distinct), found.influence.shape[1]))
    np.add.at(out, place, found.influence[: found.own][item >= 0])
    return distinct, out


@dataclass(frozen=True)
class Needed:
    """How many more known labels would halve the widest interval of a group."""

    label: int  # whose interval is the widest
    half_width: float  # of it
    more: int | None  # known labels; None where no number of them is enough
    why: str


def gold_needed(found: Beliefs, estimate: Estimate, gold: int, half_width: Floats, confidence: float, *, sample: bool) -> Needed:
    """Return how many more random tasks of a group must be labelled for half the width; `half_width` is that of now, [K].

    With n known labels of N tasks a corrected share has the variance e / n + v / N: e is that of the errors of predictions, and v
    that of predictions, whose part only more tasks make smaller. For the share among these very tasks it is (1 - n / N) e / n.
    """
    label = int(np.argmax(half_width.round(9)))  # of two labels that mirror each other the first
    now, whole = float(half_width[label]), len(found)
    share, posterior = float(estimate.share[label]), most_likely(found)[1][:, label]
    honest = found.honest[:, label]
    spread, errors = float(posterior.var()), float((honest * (1.0 - honest)).mean())
    if estimate.method in (PPI, KNOWN) and gold > 1:  # what gold has shown of errors
        left = float(estimate.variance[label]) - (spread / whole if sample else 0.0)
        errors = max(left * gold / (1.0 if sample else max(1.0 - gold / whole, 1e-9)), 0.0) or errors
    wanted = now / 2.0

    def reach(n: int) -> float:
        variance = errors / n + spread / whole if sample else (1.0 - n / whole) * errors / n
        alone = share * (1.0 - share) / n * (1.0 if sample else 1.0 - n / whole)  # of known labels without any prediction
        return quantile(confidence, n - 1) * math.sqrt(max(min(variance, alone), 0.0))

    if now == 0.0:
        return Needed(label, now, 0, "every label is known")
    low, high = max(gold + 1, MIN_GOLD), whole
    if low > high or reach(high) > wanted:
        return Needed(label, now, None, f"all {whole} tasks known leave ±{100 * reach(max(whole, 2)):.1f} points")
    while low < high:  # the smallest number that is enough: the width falls with every label
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) <= wanted else (middle + 1, high)
    return Needed(label, now, high - gold, f"{high} of {whole} tasks known, drawn at random")
