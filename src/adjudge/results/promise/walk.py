"""The rule behind a promise: how many of the m most confident gold tasks may be wrong, for every m at once.

Gold tasks are sorted by confidence, best first, and their errors counted: a walk. A single binomial test at each m would be wrong
too often, as one looks at every m. So the tests share one level, the largest at which a walk whose tasks err independently at
rate `error` passes anywhere with probability at most `risk`. An exact recursion over the number of errors computes that
probability. The bound holds for any confidence: a walk of independent errors at the boundary rate passes most often.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
FIRST_TESTED_PART: Final = 3  # the first n // 3 tasks are not tested: tests of a handful of tasks would only cost level
LOWEST_LEVEL: Final = 1e-5
LEVEL_BISECTION_STEPS: Final = 16
NO_TEST: Final = -1  # in place of a number of errors
PLAN_POWER: Final = 0.8  # probability that a plan succeeds
MAX_PLANNED_TASKS: Final = 3000
FEW_PLANNED_TASKS: Final[tuple[int, ...]] = (*range(20, 200, 5), *range(200, 600, 20))  # tried one by one
MANY_PLANNED_TASKS: Final = range(600, MAX_PLANNED_TASKS + 1, 100)


def crossing_probability(allowed: Integers, error: float) -> float:
    """Return the probability that a walk is ever allowed.

    Parameters
    ----------
    allowed : array of int, shape (n + 1,)
        Errors allowed among the first m tasks, for m = 0..n; -1 means no test.
    error : float
        Probability of an error in each task, independent of the others.

    Examples
    --------
    >>> crossing_probability(np.array([-1, -1, 0]), 0.5)  # two right of two
    0.25

    """
    state = np.zeros(max(int(allowed.max()), 0) + 2)  # probability of each number of errors, of walks not yet allowed
    state[0], crossed = 1.0, 0.0
    for bound in allowed[1:].tolist():
        state[1:] = state[1:] * (1.0 - error) + state[:-1] * error
        state[0] *= 1.0 - error
        if bound >= 0:
            crossed += float(state[: bound + 1].sum())
            state[: bound + 1] = 0.0
    return crossed


@lru_cache(maxsize=256)
def allowed_errors(n: int, error: float, risk: float) -> Integers:
    """Return how many of the m most confident gold tasks may be wrong, for m = 0..n; -1 means not tested.

    Parameters
    ----------
    n : int
        Gold tasks drawn.
    error : float
        Error rate that is promised.
    risk : float
        Probability that the promise may fail.

    Examples
    --------
    >>> allowed_errors(100, 0.05, 0.1)[[33, 45, 80, 100]].tolist()
    [-1, -1, 0, 1]

    """
    most, first = int(error * n) + 1, n // FIRST_TESTED_PART
    probability, tails = np.zeros(most + 1), np.ones((n + 1, most + 1))
    probability[0] = 1.0
    for m in range(1, n + 1):
        probability[1:] = probability[1:] * (1.0 - error) + probability[:-1] * error
        probability[0] *= 1.0 - error
        tails[m] = np.cumsum(probability)

    def at(level: float) -> Integers:
        allowed: Integers = np.minimum((tails <= level).sum(axis=1) - 1, np.arange(n + 1) - first)
        allowed[: max(first, 1)] = NO_TEST
        return allowed

    chosen = at(risk)
    if crossing_probability(chosen, error) > risk:
        low, high = LOWEST_LEVEL, risk
        for _ in range(LEVEL_BISECTION_STEPS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if crossing_probability(at(middle), error) <= risk else (low, middle)
        chosen = at(low)
    chosen.setflags(write=False)
    return chosen


def smallest_sample(error: float, risk: float) -> int:
    """Return the smallest number of gold tasks that can certify anything: all of them would have to be right.

    >>> smallest_sample(0.05, 0.1), smallest_sample(0.02, 0.1)
    (45, 114)
    """
    n = max(math.ceil(math.log(risk) / math.log1p(-error) - 1e-9), 1)
    while int(allowed_errors(n, error, risk).max()) < 0:
        n += 1
    return n


def gold_needed(real_error: float, error: float = 0.05, risk: float = 0.1, *, power: float = PLAN_POWER) -> int | None:
    """Return the smallest planned number of gold tasks that certifies labels whose real error rate is known; None if none does.

    Parameters
    ----------
    real_error : float
        Share of wrong labels among those to be accepted.
    error, risk : float
        As for `allowed_errors`.
    power : float
        Probability that the certificate succeeds.

    Examples
    --------
    >>> gold_needed(0.0), gold_needed(0.02), gold_needed(0.05)
    (45, 300, None)

    """

    def suffices(n: int) -> bool:
        # A test at the full risk allows at least as many errors: if it lacks power, so does the walk.
        if _binomial_cdf(_largest_count(n, error, risk), n, real_error) < power:
            return False
        return _binomial_cdf(int(allowed_errors(n, error, risk)[n]), n, real_error) >= power

    for n in FEW_PLANNED_TASKS:
        if suffices(n):
            return n
    if not suffices(MANY_PLANNED_TASKS[-1]):
        return None
    return MANY_PLANNED_TASKS[bisect_left(MANY_PLANNED_TASKS, True, key=suffices)]  # there power hardly ever falls


def _largest_count(n: int, error: float, level: float) -> int:
    """Return the largest number of errors whose lower tail has at most probability `level`; -1 if even none has more."""
    count, total = NO_TEST, 0.0
    for k in range(n + 1):
        total += _binomial(k, n, error)
        if total > level:
            break
        count = k
    return count


def _binomial_cdf(count: int, n: int, rate: float) -> float:
    """Return the probability of at most `count` errors in n tasks."""
    if rate <= 0.0:
        return 1.0 if count >= 0 else 0.0
    return math.fsum(_binomial(k, n, rate) for k in range(count + 1))


def _binomial(k: int, n: int, rate: float) -> float:
    """Return the probability of exactly k errors in n tasks, for a rate above 0 and below 1."""
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(rate) + (n - k) * math.log1p(-rate))
