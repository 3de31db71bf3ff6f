"""How workers' errors go together, and how many independent votes a panel amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.agreeing.atoms import by_task
from quorate.agreeing.coefficients import ratio
from quorate.agreeing.estimate import Estimate
from quorate.agreeing.reference import Reference
from quorate.agreeing.resample import Drawing, estimates
from quorate.agreeing.summing import Floats, sum_by
from quorate.agreeing.task_sums import Sums
from quorate.votes import Votes

CHUNK: Final = 1 << 18  # tasks looked at at once, so that copies stay small


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors against a reference."""

    votes_per_task: float  # mean, over tasks whose label is known
    correlation: Estimate  # of the errors of two votes on the same task
    effective_votes: Estimate  # independent votes that the votes of a task amount to


def measure(votes: Votes, reference: Reference | None, drawing: Drawing) -> Errors:
    """Returns the mean correlation of errors and the effective votes.

    With x = 1 for a wrong vote and 0 for a right one, less its mean over the worker's votes, the correlation is the mean of
    x x' over that of (x^2 + x'^2) / 2, over all pairs of votes on the same task: pairs of workers weigh as their shared
    tasks do, and none needs many of them. The mean error of n votes so correlated by r varies as that of
    n / (1 + (n - 1) r) independent ones (Kish). The workers' means are held fixed in the resamples.
    """
    if reference is None:
        return Errors(float(np.diff(votes.task_ptr).mean()), Estimate(np.nan), Estimate(np.nan))
    known, rng = reference.labels >= 0, drawing.rng(3)
    n = float(np.diff(votes.task_ptr)[known].mean())
    rate = _error_rates(votes, reference)
    atoms = by_task(votes.n_tasks, 2, rng)
    sums = {"products": np.zeros(len(atoms)), "squares": np.zeros(len(atoms))}
    row_worker = votes.row_worker()
    for start in range(0, votes.n_tasks, CHUNK):
        task, row, wrong = _chunk(votes, reference, start)
        x, atom = wrong - rate[row_worker[row]], atoms.atom[start : start + CHUNK]
        votes_in, squares = sum_by(task, np.ones(len(x)), len(atom)), sum_by(task, x**2, len(atom))
        sums["products"] += sum_by(atom, sum_by(task, x, len(atom)) ** 2 - squares, len(atoms))
        sums["squares"] += sum_by(atom, np.maximum(votes_in - 1, 0) * squares, len(atoms))
    figures = {"correlation": _correlation, "effective": lambda sums: effective(n, _correlation(sums))}
    found = estimates(figures, sums, atoms, drawing, rng)
    return Errors(n, found["correlation"], found["effective"])


def effective(n: float, correlation: Floats) -> Floats:
    """Returns n / (1 + (n - 1) r), r taken as 0 where it is negative: a panel is never worth more than its votes.

    >>> effective(9.0, np.array([0.0, 0.5, 1.0])).tolist()
    [9.0, 1.8, 1.0]
    """
    out: Floats = n / (1 + (n - 1) * np.maximum(correlation, 0.0))
    return out


def _correlation(sums: Sums) -> Floats:
    return ratio(sums["products"], sums["squares"])


def _error_rates(votes: Votes, reference: Reference) -> Floats:
    """Returns the share of wrong votes of each worker, [workers]; 0 without a vote on a task whose label is known."""
    wrong, seen = np.zeros(votes.n_rows), np.zeros(votes.n_rows)
    for start in range(0, votes.n_tasks, CHUNK):
        _, row, wrongs = _chunk(votes, reference, start)
        wrong += np.bincount(row, wrongs, minlength=votes.n_rows)
        seen += np.bincount(row, minlength=votes.n_rows)
    starts = votes.worker_ptr[:-1]
    totals = np.add.reduceat(seen, starts)
    return np.divide(np.add.reduceat(wrong, starts), totals, out=np.zeros(len(starts)), where=totals > 0)


def _chunk(votes: Votes, reference: Reference, start: int) -> tuple[NDArray[np.int64], NDArray[np.uint32], Floats]:
    """Returns task (counted from `start`), row and wrongness of the votes of some tasks whose label is known."""
    ptr = votes.task_ptr[start : start + CHUNK + 1]
    task = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    label = reference.labels[start : start + CHUNK][task]
    row = votes.row[ptr[0] : ptr[-1]]
    if (label < 0).any():
        task, row, label = task[label >= 0], row[label >= 0], label[label >= 0]
    return task, row, (votes.row_label[row] != label).astype(np.float64)
