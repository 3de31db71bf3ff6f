"""How good grades are: how far labels with an order are from the truth, and whether they rank tasks as it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.grades import Grades

Floats = NDArray[np.float64]
FIGURES: Final = ("mean_absolute_error", "quadratic_kappa", "rank_correlation", "rank_correlation_of_means")
NOTHING: Final = float("nan")


@dataclass(frozen=True)
class GradeFigures:
    """Figures of labels with an order; NaN where they are not known.

    Grades count as the numbers they are, where these rise or fall in the order; else as their places in it, from 1 on.
    """

    mean_absolute_error: float = NOTHING  # of labels, in grades
    quadratic_kappa: float = NOTHING  # Cohen's kappa with quadratic weights: 1 is agreement, 0 what chance gives
    rank_correlation: float = NOTHING  # Spearman's, of labels with truth
    rank_correlation_of_means: float = NOTHING  # the same of the mean grade of each task


def grade_figures(
    matrix: NDArray[np.int64],  # [true, chosen] tasks, by the labels of these grades
    grades: Grades,
    true: Sequence[int] | NDArray[np.integer] = (),  # [some tasks] codes
    means: Sequence[float] | Floats = (),  # [some tasks] of the same tasks
) -> GradeFigures:
    """Return the figures of a confusion of grades, and of the mean grades of tasks where they are known.

    >>> from adjudge.data.grades import grades_of
    >>> grade_figures(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]]), grades_of(["1", "2", "3"]))
    GradeFigures(mean_absolute_error=0.16..., quadratic_kappa=0.88..., rank_correlation=0.9..., rank_correlation_of_means=nan)
    """
    total = matrix.sum()
    if not total:
        return GradeFigures()
    values = grades.values
    apart = np.abs(values[:, None] - values[None, :])
    of_true, of_chosen = matrix.sum(axis=1), matrix.sum(axis=0)
    by_chance = float(of_true @ apart**2 @ of_chosen) / total
    of_rank = grades.rank()
    by_true, by_chosen = _mid_ranks(of_true, of_rank), _mid_ranks(of_chosen, of_rank)
    mean_rank = (total + 1) / 2.0
    return GradeFigures(
        mean_absolute_error=float((matrix * apart).sum() / total),
        quadratic_kappa=float(1.0 - (matrix * apart**2).sum() / by_chance) if by_chance > 0 else NOTHING,
        rank_correlation=_ratio(
            float((by_true - mean_rank) @ matrix @ (by_chosen - mean_rank)),
            float(of_true @ (by_true - mean_rank) ** 2) * float(of_chosen @ (by_chosen - mean_rank) ** 2),
        ),
        # Means are in the numbers of the grades, which may fall from the lowest grade to the highest: so must the truth be.
        rank_correlation_of_means=_spearman(values[np.asarray(true, np.int64)], np.asarray(means)),
    )


def _mid_ranks(counts: NDArray[np.integer], of_rank: NDArray[np.int64]) -> Floats:
    """Return the mean rank of the tasks of each label, [K], of how many there are, [K]: ties share their ranks."""
    low_to_high = np.argsort(of_rank)
    some = counts[low_to_high]
    out = np.empty(len(counts))
    out[low_to_high] = np.cumsum(some) - (some - 1) / 2.0
    return out


def _spearman(first: Floats, second: Floats) -> float:
    """Return Spearman's rank correlation of two lists of numbers, [n] each; NaN where one of them does not vary."""
    if len(first) < 2:
        return NOTHING
    one, two = (_ranks(values) - (len(values) + 1) / 2.0 for values in (first, second))
    return _ratio(float(one @ two), float(one @ one) * float(two @ two))


def _ranks(values: Floats) -> Floats:
    distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return _mid_ranks(counts, np.arange(len(distinct)))[place]


def _ratio(covariance: float, variances: float) -> float:
    return covariance / float(np.sqrt(variances)) if variances > 0 else NOTHING
