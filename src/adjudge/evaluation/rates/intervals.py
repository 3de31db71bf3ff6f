"""Intervals of shares and of differences, from variances; and the law of Student, for variances known from few tasks."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MANY: Final = 400  # degrees of freedom, from which on Student's law is the normal one to three digits
STEPS: Final = 60  # of a bisection: as exact as floats are


def two_sided(t: float, df: float) -> float:
    """Return the probability of a value beyond t on either side, by Student's law (the sums for whole degrees of freedom).

    >>> round(two_sided(2.0930, 19), 4), round(two_sided(1.96, math.inf), 4)
    (0.05, 0.05)
    """
    t = abs(t)
    if df > MANY:
        return math.erfc(t / math.sqrt(2.0))
    n = max(int(df), 1)
    angle = math.atan(t / math.sqrt(n))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    if n % 2:
        term = cosine
        for k in range(3, n + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        inside = 2.0 / math.pi * (angle + math.sin(angle) * total)
    else:
        for k in range(2, n + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        inside = math.sin(angle) * total
    return min(max(1.0 - inside, 0.0), 1.0)


@lru_cache(maxsize=4096)
def quantile(confidence: float, df: float) -> float:
    """Return how many standard errors an interval reaches to either side.

    >>> round(quantile(0.9, 19), 4), round(quantile(0.9, math.inf), 4), round(quantile(0.9, 1), 3)
    (1.7291, 1.6449, 6.314)
    """
    if df > MANY:
        return NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    low, high = 0.0, 1.0
    while two_sided(high, df) > 1.0 - confidence:
        high *= 2.0
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if two_sided(middle, df) > 1.0 - confidence else (low, middle)
    return high


def share_intervals(share: Floats, variance: Floats, z: float, tasks: int) -> tuple[Floats, Floats]:
    """Return low and high of shares with these variances, [K] each: Wilson's interval of as many tasks as the variance is worth.

    It stays between 0 and 1, and is not empty where a label was never seen among `tasks`. It always holds the share.

    >>> low, high = share_intervals(np.array([0.9, 0.0]), np.array([0.0009, 0.0]), 1.645, 100)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.84, 0.0], [0.939, 0.031])
    """
    least = 0.25 / max(tasks, 1)
    middle = np.clip(share, least, 1.0 - least)
    spread = middle * (1.0 - middle)
    z2 = z**2 * np.where(variance > 0, variance, spread / max(tasks, 1)) / spread
    centre = (middle + z2 / 2.0) / (1.0 + z2)
    half = np.sqrt(spread * z2 + z2**2 / 4.0) / (1.0 + z2)
    return np.clip(np.minimum(centre - half, share), 0.0, 1.0), np.clip(np.maximum(centre + half, share), 0.0, 1.0)
