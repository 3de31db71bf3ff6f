"""Passes over numeric scores, as definitions in NumPy; csrc/scores has the compiled twins.

A score is y = c + bias_j + slope_j (x_i - c) + e with e of variance noise_j / u. Scores are sorted by item. A line of the table
of judges is bias, slope, noise, gain (the mean of slope^2) and weight (1 / noise, or 0 for a judge who says one thing only).
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import compiled

Floats = NDArray[np.float64]
JUDGE_FIELDS: Final = 5
JUDGE_SUMS: Final = 6


class ScoreArrays(NamedTuple):
    """Scores, sorted by item."""

    item_ptr: NDArray[np.int64]  # [items + 1] where each item's scores begin
    judge: NDArray[np.int32]  # [scores] below `judges`
    y: Floats  # [scores]


def score_kernels() -> Any:
    """Return what has the two passes: the compiled core, or this module where it was not built."""
    return compiled() or sys.modules[__name__]


def score_pass(
    item_ptr: NDArray[np.int64],  # IN: these three are `ScoreArrays`
    judge: NDArray[np.int32],
    y: Floats,
    line: Floats,  # IN [judges, 5]
    share: Floats | None,  # IN [scores] part of a vote that each score counts; None: all of it
    *,
    centre: float,
    spread: float,  # variance of items
    huber: float,  # noises beyond which a score counts less
    robust: bool,  # False: all weights u are 1
    x: Floats,  # IN/OUT [items]
    variance: Floats,  # OUT [items]
    sums: Floats,  # OUT [judges, 6] of u, u dx, u (dx^2 + v), u z, u z dx, u z^2; z = y - centre, dx = x - centre
    threads: int = 1,
) -> None:
    """Estimate every item from the judges' lines, and add up what the lines are then estimated from."""
    count = np.diff(item_ptr)
    item = np.repeat(np.arange(len(x)), count)
    bias, slope, noise, gain, weight = line[judge].T
    z = y - centre
    u = robust_weights(z - bias - slope * (x - centre)[item], noise, huber) if robust else np.ones(len(z))
    w = u * weight if share is None else u * weight * share
    variance[:] = 1.0 / (1.0 / spread + np.bincount(item, w * gain, len(x)))
    dx = np.bincount(item, w * slope * (z - bias), len(x)) * variance
    x[:] = centre + dx
    dx = dx[item]
    parts = (u, u * dx, u * (dx * dx + variance[item]), u * z, u * z * dx, u * z * z)
    sums[:] = np.stack([np.bincount(judge, part, len(line)) for part in parts], axis=1)


def score_agreement(
    item_ptr: NDArray[np.int64],
    judge: NDArray[np.int32],
    y: Floats,
    line: Floats,
    share: Floats | None,
    *,
    centre: float,
    spread: float,
    huber: float,
    x: Floats,  # IN [items]
    variance: Floats,  # IN [items]
    sums: Floats,  # OUT [judges, 6] of 1, y, o, y^2, o^2, y o; y and o, the item's score without this one, from the centre
    threads: int = 1,
) -> None:
    """Add up what each judge's scores and those of the others have in common, over items with two scores or more."""
    count = np.diff(item_ptr)
    item = np.repeat(np.arange(len(x)), count)
    bias, slope, noise, gain, weight = line[judge].T
    z, dx = y - centre, (x - centre)[item]
    beyond = z - bias
    u = robust_weights(beyond - slope * dx, noise, huber)
    w = u * weight if share is None else u * weight * share
    total = 1.0 / variance[item]
    with np.errstate(divide="ignore", invalid="ignore"):
        others = (total * dx - w * slope * beyond) / (total - w * gain)
    use = (count[item] >= 2) & np.isfinite(others)
    judge, z, others = judge[use], z[use], others[use]
    parts = (np.ones(len(z)), z, others, z * z, others * others, z * others)
    sums[:] = np.stack([np.bincount(judge, part, len(line)) for part in parts], axis=1)


def robust_weights(error: Floats, noise: Floats, huber: float) -> Floats:
    """Return what scores count whose errors have this variance: 1 up to `huber` deviations, then less by the square."""
    return np.minimum(1.0, huber**2 * noise / np.maximum(error**2, 1e-24))
