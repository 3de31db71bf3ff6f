"""How sure a difference is: intervals of accuracies and of paired differences, and p-values corrected for many comparisons.

Intervals come from the Bayesian bootstrap over tasks: every resample weighs the tasks at random (Dirichlet weights), and an
accuracy is the weight of the tasks with a right label. Tasks on which a model is alike count together, so that a resample is
one draw of a few gamma variables however many tasks there are. Half a task is added to every outcome. Without it ten right
labels of ten would give an interval from 1 to 1, and no difference on ten tasks would prove that there is none.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ADDED: Final = 0.5  # tasks added to every outcome (Jeffreys' prior)
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A figure and the interval that holds it."""

    value: float
    low: float
    high: float


def accuracy_interval(right: int, tasks: int, resamples: int, confidence: float, rng: np.random.Generator) -> Interval:
    """Return the share of `right` labels among `tasks` with its interval; NaN bounds without `resamples`.

    >>> accuracy_interval(10, 10, 4000, 0.95, np.random.default_rng(0)).low < 0.85
    True
    """
    value = right / tasks if tasks else float("nan")
    shares = _shares(np.array([right, tasks - right]), resamples, rng)
    return Interval(value, *_bounds(shares[:, 0], value, confidence))


class Paired(NamedTuple):
    """The difference of two models in accuracy, on the same tasks."""

    difference: Interval
    only_a: int  # tasks on which the first alone is right
    only_b: int
    p_value: float  # that such a difference is chance


def paired(a: NDArray[np.bool_], b: NDArray[np.bool_], resamples: int, confidence: float, rng: np.random.Generator) -> Paired:
    """Return how much more often the first model is right than the second; `a` and `b` say where each is, [tasks].

    >>> a, b = np.ones(100, bool), np.arange(100) >= 9
    >>> found = paired(a, b, 4000, 0.95, np.random.default_rng(0))
    >>> found.difference.value, found.difference.low > 0, round(found.p_value, 4)
    (0.09, True, 0.002)
    """
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    value = (only_a - only_b) / n if n else float("nan")
    shares = _shares(np.array([only_a, only_b, n - only_a - only_b]), resamples, rng)
    apart = shares[:, 0] - shares[:, 1]
    return Paired(Interval(value, *_bounds(apart, value, confidence)), only_a, only_b, mid_p(only_a, only_b))


def standard_error(only_a: int, only_b: int, tasks: int) -> float:
    """Return the standard error of a paired difference in accuracy, from the tasks on which one of two models alone is right.

    A task is added to each side: one task ahead of none would else look twice as sure as it is.

    >>> round(standard_error(9, 0, 100), 4)
    0.0313
    """
    a, b, n = only_a + 1, only_b + 1, tasks + 2
    return float(np.sqrt((a + b - (a - b) ** 2 / n) / n**2))


def mid_p(only_a: int, only_b: int) -> float:
    """Return the two-sided p-value of McNemar's test: that the tasks on which one alone is right fall so unevenly by chance.

    The exact test counts the outcome seen in full and is too cautious; this one counts it half (mid-p).

    >>> mid_p(3, 3), round(mid_p(9, 1), 4)
    (1.0, 0.0117)
    """
    n, fewer = only_a + only_b, min(only_a, only_b)
    if only_a == only_b:
        return 1.0
    k = np.arange(1, fewer + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - k + 1) / k))]) - n * np.log(2.0)  # of the binomial's terms
    terms = np.exp(logs)
    return min(1.0, float(2 * terms.sum() - terms[-1]))


def holm(p_values: Floats) -> Floats:
    """Return p-values corrected for being many, [n], by Holm's method: the chance of one false alarm stays below the level.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    n = len(p_values)
    raised = np.maximum.accumulate(p_values[order] * (n - np.arange(n)))
    out = np.empty(n)
    out[order] = np.minimum(raised, 1.0)
    return out


def _shares(counts: NDArray[np.integer], resamples: int, rng: np.random.Generator) -> Floats:
    """Return the weight of every outcome in every resample, [resamples, outcomes]."""
    weights = rng.standard_gamma(counts + ADDED, size=(resamples, len(counts)))
    out: Floats = weights / weights.sum(axis=1, keepdims=True)
    return out


def _bounds(drawn: Floats, value: float, confidence: float) -> tuple[float, float]:
    """Return the interval of what was drawn, [resamples], widened to hold the figure itself."""
    if not len(drawn) or value != value:
        return float("nan"), float("nan")
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return min(float(low), value), max(float(high), value)
