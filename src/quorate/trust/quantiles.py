"""Quantiles of beta distributions, by the million."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POINTS = 301  # where a density is looked at
NODES = np.linspace(np.log(0.02), np.log(1e5), 48)  # of log a and log b; between them quantiles are interpolated


def beta_interval(mean: Floats, strength: Floats, share: float = 0.9) -> tuple[Floats, Floats]:
    """Returns (low, high), [n] each: what the middle `share` of beta distributions lies between, to about 0.003.

    `mean` and `strength`, [n]: a beta distribution of a right and b wrong votes has mean a / (a + b), strength a + b.

    >>> low, high = beta_interval(np.array([0.5, 0.9]), np.array([2.0, 100.0]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.05, 0.847], [0.95, 0.944])
    """
    a, b = (np.maximum(part * strength, 0.02) for part in (mean, 1.0 - mean))
    (row, down), (col, across) = _between(np.log(a)), _between(np.log(b))
    centre, width = np.log(a / b), np.sqrt(1.0 / a + 1.0 / b)
    ends = []
    for table in _tables((1.0 - share) / 2.0):
        top = table[row, col] * (1.0 - across) + table[row, col + 1] * across
        bottom = table[row + 1, col] * (1.0 - across) + table[row + 1, col + 1] * across
        log_odds = centre + width * (top * (1.0 - down) + bottom * down)
        ends.append(0.5 + 0.5 * np.tanh(0.5 * log_odds))
    return ends[0], ends[1]


def _between(x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Returns (the node before, how far it is to the next one), [n] each; what lies outside is put to the end."""
    at = np.clip((x - NODES[0]) / (NODES[1] - NODES[0]), 0.0, len(NODES) - 1.001)
    before = at.astype(np.int64)
    return before, at - before


@cache
def _tables(tail: float) -> tuple[Floats, Floats]:
    """Returns two tables, [log a, log b]: the quantiles of `tail` and 1 - `tail` of the log-odds, in standard units.

    The density of the log-odds x is exp(a x) / (1 + exp x)^(a + b), one smooth hill that falls like exp(a x) to the
    left and exp(-b x) to the right. The unit is sqrt(1/a + 1/b), the origin log(a / b).
    """
    tables = np.empty((2, len(NODES), len(NODES)))
    u = np.linspace(-1.0, 1.0, POINTS)
    u = u * (0.15 + 0.85 * u * u)  # closer where the hill is steep
    b = np.exp(NODES)[:, None]
    for n, a in enumerate(np.exp(NODES)):
        width = np.sqrt(1.0 / a + 1.0 / b)
        x = np.log(a / b) + np.where(u < 0, u * (6.0 * width + 12.0 / a), u * (6.0 * width + 12.0 / b))
        height = a * x - (a + b) * np.logaddexp(0.0, x)
        density = np.exp(height - height.max(axis=1, keepdims=True))
        area = np.zeros_like(x)
        np.cumsum((density[:, 1:] + density[:, :-1]) * np.diff(x, axis=1), axis=1, out=area[:, 1:])
        area /= area[:, -1:]
        for table, level in zip(tables, (tail, 1.0 - tail), strict=True):
            at = np.array([np.interp(level, line, place) for line, place in zip(area, x, strict=True)])
            table[n] = (at - np.log(a / b)[:, 0]) / width[:, 0]
    return tables[0], tables[1]
