"""The effect of columns on one judge's verdicts, given what the other judges say of the truth.

A judge's verdict y (1 for the label in question) on a task with truth t and columns x is taken to have the mean
a1 t + a0 (1 - t) + b x, and b is wanted. Truth is not known, but the other judges give its probability q. It takes the place of t
(regression calibration) if it is calibrated at every x: so its prior is a function of x, too, which is fitted along with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.intervals import Flags, Floats, Integers, sum_by

PRIOR_STEPS: Final = 50
PRIOR_TOLERANCE: Final = 1e-6
MIN_PRIOR_SHARE: Final = 0.02  # of either label at any x: a line has no bounds
MAX_DESIGN_CONDITION: Final = 1e8  # of the columns together: they are not separable beyond it


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of columns on the share of verdicts with the label."""

    value: Floats  # [columns]; NaN if the votes cannot tell
    error: Floats  # [columns]
    freedom: float  # degrees of freedom of the errors


def calibrate(likelihood: Floats, columns: Floats) -> Floats:
    """Return the probability of the label, [tasks], under a prior that is a line in the columns, [tasks, columns].

    `likelihood` has that of the others' votes under the label and without it, [tasks, 2].

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=4000)
    >>> truth = rng.random(4000) < 0.5 + 0.2 * (x > 0)
    >>> votes = np.where(rng.random(4000) < 0.8, truth, ~truth)
    >>> told = np.where(votes[:, None], [0.8, 0.2], [0.2, 0.8])
    >>> q = calibrate(told, (x > 0)[:, None].astype(float))
    >>> [round(abs(float(q[side].mean() - truth[side].mean())), 2) for side in (x > 0, x <= 0)]
    [0.01, 0.01]
    """
    design = np.column_stack([np.ones(len(columns)), columns])
    solve = np.linalg.pinv(design)
    prior = np.full(len(columns), 0.5)
    probability = prior
    for _ in range(PRIOR_STEPS):
        label, other = likelihood[:, 0] * prior, likelihood[:, 1] * (1.0 - prior)
        probability = label / np.maximum(label + other, 1e-300)
        new = np.clip(design @ (solve @ probability), MIN_PRIOR_SHARE, 1.0 - MIN_PRIOR_SHARE)
        moved, prior = float(np.abs(new - prior).max(initial=0.0)), new
        if moved < PRIOR_TOLERANCE:
            break
    return np.asarray(probability)


def estimate_effects(verdict: Flags, probability: Floats, columns: Floats, cluster: Integers) -> Effects:
    """Return the effects of columns, [votes, columns], on verdicts, [votes], with cluster-robust errors.

    `probability` is that of the label by the others, and `cluster` has codes from 0 on, [votes] each.
    """
    design = np.column_stack([probability, 1.0 - probability, columns])
    count, width = design.shape
    number = int(cluster.max(initial=-1)) + 1
    unknown = np.full(columns.shape[1], np.nan)
    if number <= width + 1 or np.linalg.cond(design) > MAX_DESIGN_CONDITION:
        return Effects(unknown, unknown, 1.0)
    bread = np.linalg.inv(design.T @ design)
    coefficients = bread @ (design.T @ verdict.astype(np.float64))
    scores = design * (verdict - design @ coefficients)[:, None]
    by_cluster = np.column_stack([sum_by(cluster, score, number) for score in scores.T])
    spread = bread @ (by_cluster.T @ by_cluster) @ bread
    spread *= number / (number - 1) * (count - 1) / (count - width)
    return Effects(coefficients[2:], np.sqrt(np.maximum(np.diag(spread)[2:], 0.0)), float(number - width))
