"""How far confidence can be believed: the reliability curve and the figures that go with it, from arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.results.temperature import log_loss

BINS: Final = 10  # at most
ENOUGH: Final = 20  # tasks to a bin: the accuracy of fewer says little
DIGITS: Final = 3  # confidences that differ by less are the same: else most bins of an EM model say "1.000"
NAN: Final = float("nan")


@dataclass(frozen=True, eq=False)
class Calibration:
    """What confidence promised beside what came true, on the tasks that have confidence and truth and were not given.

    Empty (no tasks, figures NaN) where no confidence is known.
    """

    tasks: int = 0
    errors: int = 0  # wrong labels
    expected_errors: float = NAN  # the sum of 1 - confidence
    expected_calibration_error: float = NAN
    confidence_brier: float = NAN
    brier: float = NAN  # NaN where only the confidence is known, as is log_loss
    log_loss: float = NAN
    bins: dict[str, NDArray[Any]] = field(default_factory=dict)  # lowest, highest, tasks, confidence, accuracy: [bins] each


def calibration(
    confidence: NDArray[np.float64],
    right: NDArray[np.bool_],
    posterior: NDArray[np.float64] | None = None,
    truth: NDArray[np.integer] | None = None,
) -> Calibration:
    """Return the figures of labels given with this confidence, [n], of which some are right, [n].

    posterior [n, K] with truth [n] (codes; -1 for a label without column) are for the figures of all labels.

    >>> found = calibration(np.array([0.9, 0.9, 0.9, 0.6]), np.array([True, True, False, False]))
    >>> found.errors, round(found.expected_errors, 3), round(found.expected_calibration_error, 3)
    (2, 0.7, 0.325)
    """
    n = len(confidence)
    if not n:
        return Calibration()
    bins = reliability_bins(confidence, right)
    gap = np.abs(bins["confidence"] - bins["accuracy"])
    known = posterior is not None and truth is not None
    return Calibration(
        tasks=n,
        errors=int(n - right.sum()),
        expected_errors=float((1.0 - confidence).sum()),
        expected_calibration_error=float((bins["tasks"] * gap).sum() / n),
        confidence_brier=float(np.square(confidence - right).mean()),
        brier=brier(posterior, truth) if known else NAN,  # type: ignore[arg-type]
        log_loss=log_loss(posterior, truth) if known else NAN,  # type: ignore[arg-type]
        bins=bins,
    )


def reliability_bins(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Return the reliability curve: lowest and highest confidence, tasks, mean confidence and accuracy of each bin.

    Bins hold about the same number of tasks; confidences equal to three digits share a bin, so the order of the tasks
    does not matter. A task's bin is told by how many tasks are less sure.
    """
    n = len(confidence)
    wanted = max(1, min(BINS, n // ENOUGH))
    _, value, count = np.unique(confidence.round(DIGITS), return_inverse=True, return_counts=True)
    less_sure = np.cumsum(count) - count
    _, place = np.unique((less_sure * wanted // max(n, 1))[value], return_inverse=True)
    tasks = np.bincount(place)
    order = np.argsort(place, kind="stable")
    starts = np.cumsum(tasks) - tasks
    return {
        "lowest": np.minimum.reduceat(confidence[order], starts),
        "highest": np.maximum.reduceat(confidence[order], starts),
        "tasks": tasks,
        "confidence": np.bincount(place, confidence) / tasks,
        "accuracy": np.bincount(place, right) / tasks,
    }


def brier(posterior: NDArray[np.float64], truth: NDArray[np.integer]) -> float:
    """Return the mean over tasks of the squared distance of all probabilities, [n, K], from the truth, [n]: 0 to 2.

    >>> brier(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1]))
    1.25
    """
    of_truth = np.where(truth < 0, 0.0, posterior[np.arange(len(truth)), truth])
    return float((np.square(posterior).sum(axis=1) - 2 * of_truth + 1).mean())
