"""Figures with intervals: bootstraps over tasks, Wilson's interval of a share, Student's law, and tests of differences.

A figure is a function of sums over tasks. Sums add, so a resample is a weighted sum of them. It needs only how often each
resampling unit was drawn: a task, a group of tasks, or a pattern of votes that many tasks share. If there are too many
units, tasks are dealt at random into groups of equal size: the spread of the figures is the same, to about
1 / sqrt(2 * groups). Clusters of tasks that depend on each other are also units.

Accuracies come from the Bayesian bootstrap: every resample weighs the tasks at random (Dirichlet weights), and an accuracy is
the weight of the tasks with a right label. Tasks with the same outcome count together, so a resample is one draw of a few gamma
variables. Half a task is added to every outcome: otherwise ten right labels of ten would give an interval from 1 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Sums = Mapping[str, Floats]  # of every kind of sum: [units, …], or [resamples, …] once drawn

MAX_UNITS: Final = 2048  # a bootstrap of this many groups knows the spread to 1.6 %
MIN_UNITS: Final = 64  # even where each takes much memory
MAX_UNIT_NUMBERS: Final = 1 << 23  # numbers that all units may hold together
MAX_DRAWN_NUMBERS: Final = 1 << 22  # numbers of drawn sums held at once
JEFFREYS_PSEUDO_TASKS: Final = 0.5  # tasks added to every outcome (Jeffreys' prior)
MIN_NORMAL_DF: Final = 400  # degrees of freedom, from which on Student's law is the normal one to three digits
BISECTION_STEPS: Final = 60  # of a bisection: as exact as floats are
FIGURE_DECIMALS: Final = 9  # beyond which sums may differ from machine to machine


class Estimate(float):
    """A number with its interval; otherwise a plain float.

    >>> e = Estimate(0.75, 0.46, 0.93)
    >>> e + 1, e.low, e.high
    (1.75, 0.46, 0.93)
    >>> e
    0.75 [0.46, 0.93]
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> Estimate:
        """Return the number, with NaN for unknown bounds."""
        made = super().__new__(cls, value)
        made.low, made.high = float(low), float(high)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high

    def __repr__(self) -> str:
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}]"

    def summary(self) -> dict[str, float | None]:
        """Return value, low and high as plain numbers, with None for NaN.

        >>> Estimate(0.5).summary()
        {'value': 0.5, 'low': None, 'high': None}
        """
        return {"value": or_none(float(self)), "low": or_none(self.low), "high": or_none(self.high)}

    def rounded(self) -> tuple[float, float, float]:
        """Return value, low and high without the last bits, in which sums may differ."""
        return round(float(self), FIGURE_DECIMALS), round(self.low, FIGURE_DECIMALS), round(self.high, FIGURE_DECIMALS)


def or_none(value: Any) -> Any:
    """Return a plain Python value, and None for NaN, which JSON lacks.

    >>> or_none(np.float64(0.5)), or_none(math.nan), or_none("ds")
    (0.5, None, 'ds')
    """
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def without_nan(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return named figures as `or_none` has them.

    >>> without_nan({"share": np.float64(0.5), "error": math.nan})
    {'share': 0.5, 'error': None}
    """
    return {name: or_none(value) for name, value in figures.items()}


def sum_by(index: Integers, values: NDArray[np.generic], n: int) -> Floats:
    """Return the sum of the values at each index, [n].

    >>> sum_by(np.array([2, 0, 2]), np.array([1.0, 5.0, 2.0]), 3).tolist()
    [5.0, 0.0, 3.0]
    """
    return np.bincount(index, values, minlength=n).astype(np.float64, copy=False)


def ratio(above: Floats, below: Floats) -> Floats:
    """Return above / below, NaN where below is 0.

    >>> ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0])).tolist()
    [0.25, nan]
    """
    above, below = np.broadcast_arrays(above, below)
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def beyond_chance(observed: Floats, chance: Floats) -> Floats:
    """Return (observed - chance) / (1 - chance), NaN where chance explains everything."""
    return ratio(observed - chance, np.where(chance < 1 - 1e-12, 1 - chance, 0.0))


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn."""

    resamples: int
    level: float
    seed: int

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of one part of the work, independent of what other parts draw."""
        return np.random.default_rng([self.seed, stream])


@dataclass(frozen=True, eq=False)
class ResamplingUnits:
    """What a bootstrap draws."""

    tasks: Integers | None  # [n] tasks whose votes are counted; None: all of them
    unit: Integers  # [n] the unit of each of those tasks
    sizes: Integers  # [units] how often the unit occurs in the data
    draws: int  # how many units a resample draws: as many as there are in the data

    def __len__(self) -> int:
        return len(self.sizes)

    def weights(self, rng: np.random.Generator, resamples: int) -> Floats:
        """Return how often each unit was drawn in every resample, [resamples, units]."""
        return rng.multinomial(self.draws, self.sizes / self.draws, size=resamples).astype(np.float64)


def max_units(numbers: int) -> int:
    """Return the maximum number of units if each has this many numbers."""
    return int(np.clip(MAX_UNIT_NUMBERS // max(numbers, 1), MIN_UNITS, MAX_UNITS))


def by_task(n_tasks: int, numbers: int, rng: np.random.Generator, cluster: Integers | None = None) -> ResamplingUnits:
    """Return every task as a unit or, if there are too many, tasks dealt into groups of equal size.

    With `cluster`, [tasks] codes, the tasks of a cluster stay together.
    """
    whole = n_tasks if cluster is None else int(cluster.max(initial=-1)) + 1
    n = min(whole, max_units(numbers))
    unit = np.arange(whole)
    if n < whole:
        rng.shuffle(unit)
        unit %= n
    return ResamplingUnits(None, unit if cluster is None else unit[cluster], np.ones(n, np.int64), n)


def estimates(
    figures: Mapping[str, Callable[[Sums], Floats]],
    sums: Sums,
    units: ResamplingUnits,
    bootstrap: Bootstrap,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Return each figure of all tasks, with the interval that holds the middle of its resamples.

    `sums` has the sums of every unit, [units, …]; resamples in which a figure has no value are left out.
    """
    values = {name: float(figure(_draw(sums, units.sizes[None].astype(np.float64)))[0]) for name, figure in figures.items()}
    drawn: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in figures}
    width = max(len(units), sum(int(np.prod(array.shape[1:])) for array in sums.values()))
    for start in range(0, bootstrap.resamples, step := max(1, MAX_DRAWN_NUMBERS // width)):
        some = _draw(sums, units.weights(rng, min(step, bootstrap.resamples - start)))
        for name, figure in figures.items():
            drawn[name].append(figure(some))
    return {name: Estimate(value, *middle(np.concatenate(drawn[name]), bootstrap.level)) for name, value in values.items()}


def _draw(sums: Sums, weights: Floats) -> Sums:
    """Return the sums of each resample, [resamples, …]."""
    return {name: np.tensordot(weights, array, axes=1) for name, array in sums.items()}


def middle(drawn: Floats, level: float) -> tuple[float, float]:
    """Return the ends of the middle share of all values but NaN; NaN if there are none.

    >>> middle(np.append(np.arange(101.0), np.nan), 0.5)
    (25.0, 75.0)
    """
    values = drawn[~np.isnan(drawn)]
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def accuracy_interval(right: int, tasks: int, resamples: int, level: float, rng: np.random.Generator) -> Estimate:
    """Return the share of `right` labels among `tasks` with its interval; NaN bounds without `resamples`.

    >>> accuracy_interval(10, 10, 4000, 0.95, np.random.default_rng(0)).low < 0.85
    True
    """
    shares = _outcome_shares(np.array([right, tasks - right]), resamples, rng)
    return _around(right / tasks if tasks else math.nan, shares[:, 0], level)


class Paired(NamedTuple):
    """The difference of two models in accuracy, on the same tasks."""

    difference: Estimate
    only_a: int  # tasks on which the first alone is right
    only_b: int
    p_value: float  # that such a difference is chance
    p_adjusted: float = math.nan  # corrected for many comparisons


def clustered_accuracy(right: Floats, cluster: Integers, resamples: int, level: float, rng: np.random.Generator) -> Estimate:
    """Return the mean of values, [tasks], with the interval of resampled clusters; NaN bounds without `resamples`.

    Clusters have random weights (the Bayesian bootstrap), which leaves none of them out for sure.

    >>> right = np.repeat([1.0, 1.0, 1.0, 0.0] * 5, 10)
    >>> found = clustered_accuracy(right, np.arange(200) // 10, 4000, 0.9, np.random.default_rng(0))
    >>> 0.5 < found.low < 0.65 < float(found) < 0.85 < found.high < 0.95
    True
    """
    number = int(cluster.max(initial=-1)) + 1
    weights = rng.standard_exponential((resamples, number))
    sums, sizes = sum_by(cluster, right, number), sum_by(cluster, np.ones(len(right)), number)
    return _around(float(right.mean()) if len(right) else math.nan, ratio(weights @ sums, weights @ sizes), level)


def compare_paired(
    a: Flags, b: Flags, resamples: int, level: float, rng: np.random.Generator, cluster: Integers | None = None
) -> Paired:
    """Return how much more often the first model is right than the second; `a` and `b` say where each is, [tasks].

    With `cluster`, [tasks] codes, the test is Student's, with a cluster-robust error.

    >>> a, b = np.ones(100, bool), np.arange(100) >= 9
    >>> found = compare_paired(a, b, 4000, 0.95, np.random.default_rng(0))
    >>> float(found.difference), found.difference.low > 0, round(found.p_value, 4)
    (0.09, True, 0.002)
    """
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    if cluster is not None:
        ahead = a.astype(np.float64) - b
        difference = clustered_accuracy(ahead, cluster, resamples, level, rng)
        error = standard_error(only_a, only_b, n) * design_effect(ahead, cluster) ** 0.5
        return Paired(difference, only_a, only_b, two_sided(float(difference) / error, max(float(cluster.max()), 1.0)))
    shares = _outcome_shares(np.array([only_a, only_b, n - only_a - only_b]), resamples, rng)
    difference = _around((only_a - only_b) / n if n else math.nan, shares[:, 0] - shares[:, 1], level)
    return Paired(difference, only_a, only_b, mid_p(only_a, only_b))


def _outcome_shares(counts: NDArray[np.integer], resamples: int, rng: np.random.Generator) -> Floats:
    """Return the weight of every outcome in every resample, [resamples, outcomes]."""
    weights = rng.standard_gamma(counts + JEFFREYS_PSEUDO_TASKS, size=(resamples, len(counts)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _around(value: float, drawn: Floats, level: float) -> Estimate:
    """Return a figure with the interval of its resamples, [resamples], widened to contain the figure itself."""
    low, high = middle(drawn, level)
    return Estimate(value, np.minimum(low, value), np.maximum(high, value))  # NaN stays


def standard_error(only_a: int, only_b: int, tasks: int) -> float:
    """Return the standard error of a paired difference in accuracy, from the tasks on which one of two models alone is right.

    A task is added to each side: otherwise one task ahead of none would look twice as sure as it is.

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


def wilson(share: Any, tasks: Any, z: float) -> tuple[Any, Any]:
    """Return low and high of Wilson's interval for shares of `tasks` tasks, in the shape of both; it contains the share itself.

    >>> [round(float(end), 3) for end in wilson(0.9, 100, 1.645)]
    [0.84, 0.939]
    """
    z2 = z**2 / tasks
    centre, half = (share + z2 / 2.0) / (1.0 + z2), np.sqrt(share * (1.0 - share) * z2 + z2**2 / 4.0) / (1.0 + z2)
    return np.clip(np.minimum(centre - half, share), 0.0, 1.0), np.clip(np.maximum(centre + half, share), 0.0, 1.0)


def design_effect(values: Floats, cluster: Integers) -> float:
    """Return the ratio of the variance of a mean to that of independent values, if values of one cluster depend on each other.

    `values` are [n], and `cluster` their codes from 0 on.

    >>> alike = np.repeat([0.0, 1.0], 30)
    >>> round(design_effect(alike, np.arange(60) // 3), 2), round(design_effect(alike, np.arange(60)), 2)
    (3.11, 1.0)
    """
    n, number = len(values), int(cluster.max(initial=-1)) + 1
    centred = values - values.mean() if n else values
    alone = float((centred**2).sum()) * n / max(n - 1, 1)
    if alone == 0.0 or number < 2:
        return 1.0
    return float((sum_by(cluster, centred, number) ** 2).sum()) * number / (number - 1) / alone


def clustered_share(right: Flags, cluster: Integers | None, level: float) -> Estimate:
    """Return the share of right ones, with Wilson's interval of as many independent tasks as the clusters are worth.

    >>> right = np.repeat([True, True, True, False], 10)
    >>> clustered_share(right, None, 0.9)
    0.75 [0.624, 0.8443]
    >>> clustered_share(right, np.arange(40) // 10, 0.9).low < 0.4
    True
    """
    n = len(right)
    if not n:
        return Estimate(math.nan)
    share, effect, df = float(right.mean()), 1.0, math.inf
    if cluster is not None:
        effect, df = design_effect(right.astype(np.float64), cluster), float(cluster.max())
    low, high = wilson(share, n / max(effect, 1e-9), quantile(level, max(df, 1.0)))
    return Estimate(share, float(low), float(high))


def share_intervals(share: Floats, variance: Floats, z: float, tasks: int) -> tuple[Floats, Floats]:
    """Return low and high of shares with these variances, [K] each: Wilson's interval of as many tasks as the variance is worth.

    It is not empty if a label was never seen among `tasks`.

    >>> low, high = share_intervals(np.array([0.9, 0.0]), np.array([0.0009, 0.0]), 1.645, 100)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.84, 0.0], [0.939, 0.031])
    """
    least = 0.25 / max(tasks, 1)
    inside = np.clip(share, least, 1.0 - least)
    spread = inside * (1.0 - inside)
    low, high = wilson(inside, spread / np.where(variance > 0, variance, spread / max(tasks, 1)), z)
    return np.minimum(low, share), np.maximum(high, share)


def two_sided(t: float, df: float) -> float:
    """Return the probability of a value beyond t on either side, by Student's law (the sums for whole degrees of freedom).

    >>> round(two_sided(2.0930, 19), 4), round(two_sided(1.96, math.inf), 4)
    (0.05, 0.05)
    """
    t = abs(t)
    if df > MIN_NORMAL_DF:
        return math.erfc(t / math.sqrt(2.0))
    n = max(int(df), 1)
    angle = math.atan(t / math.sqrt(n))
    odd, cosine, total = n % 2, math.cos(angle), 0.0
    term = cosine if odd else 1.0
    for k in range(2 + odd, n + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    inside = math.sin(angle) * total
    return min(max(1.0 - (2.0 / math.pi * (angle + inside) if odd else inside), 0.0), 1.0)


@lru_cache(maxsize=4096)
def quantile(level: float, df: float) -> float:
    """Return how many standard errors an interval reaches to either side, by Student's law.

    >>> round(quantile(0.9, 19), 4), round(quantile(0.9, math.inf), 4), round(quantile(0.9, 1), 3)
    (1.7291, 1.6449, 6.314)
    """
    if df > MIN_NORMAL_DF:
        return NormalDist().inv_cdf((1.0 + level) / 2.0)
    low, high = 0.0, 1.0
    while two_sided(high, df) > 1.0 - level:
        high *= 2.0
    for _ in range(BISECTION_STEPS):
        half = (low + high) / 2.0
        low, high = (half, high) if two_sided(half, df) > 1.0 - level else (low, half)
    return high


def quantiles(level: float, freedom: Floats | float = np.inf) -> Floats:
    """Return `quantile` of arrays of any degrees of freedom from 2 on: in the approximation of Peizer and Pratt (1968).

    >>> round(float(quantiles(0.9)), 3), quantiles(0.9, np.array([3.0, 20.0])).round(3).tolist()
    (1.645, [2.355, 1.725])
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = np.asarray(freedom, np.float64)
    finite = np.where(np.isinf(n), 1.0, n)
    t = np.sqrt(finite * np.expm1(z**2 * (finite - 5 / 6) / np.square(finite - 2 / 3 + 0.1 / finite)))
    return np.where(np.isinf(n), z, t)


def normal_scores(t: Floats, freedom: Floats) -> Floats:
    """Return standard normal deviates as likely to be exceeded as t statistics, [n]: the inverse of `quantiles`.

    >>> normal_scores(quantiles(0.9, np.array([3.0, np.inf])), np.array([3.0, np.inf])).round(3).tolist()
    [1.645, 1.645]
    """
    n = np.where(np.isinf(freedom), 1.0, freedom)
    z = (n - 2 / 3 + 0.1 / n) * np.sqrt(np.log1p(np.square(t) / n) / (n - 5 / 6))
    return np.where(np.isinf(freedom), t, np.sign(t) * z)
