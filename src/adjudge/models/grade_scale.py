"""Saved judges of grades: lines of any judge and grade, from the parameters learned.

What is saved are counts. A judge's bias, stretch and scale are the M-step of its counts, so that a grade which a judge gave to
none of the tasks that were learned from has its probability, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.fit import Knowledge, Pieces, given_votes
from adjudge.data.grades import Grades, grades_of, moments_of
from adjudge.engines.base import Session
from adjudge.kernels import methods_cpu
from adjudge.kernels.cpu import compiled
from adjudge.kernels.grades_reference import SD, fit_judges, judge_lines

Floats = NDArray[np.float64]
GRADE_COLUMNS: Final = ("mean", "median")  # of tasks


class GradeScale:
    """The grades that there are, low to high, among labels that need not all be there."""

    def __init__(self, grades: Grades, exists: NDArray[np.bool_]) -> None:
        self.codes = grades.codes[exists[grades.codes]]  # of the labels, lowest grade first
        self.place = np.full(len(exists), -1, np.int64)  # [K] of each label among them; -1: nobody knows it
        self.place[self.codes] = np.arange(len(self.codes))

    def judges(
        self, row_label: NDArray[np.integer], counts: Floats, worker_ptr: NDArray[np.int64], threads: int | None = None
    ) -> tuple[Floats, Floats]:
        """Return what each worker is like, [workers, 3], of votes by row and true label, [rows, K]; and its log-prior.

        `threads` are those of the compiled kernel; 0 is NumPy's, and None the faster one that there is.
        """
        some = self.place[row_label], np.ascontiguousarray(counts[:, self.codes], np.float64), worker_ptr
        if threads is None:
            threads = 0 if compiled() is None else 1
        return fit_judges(*some) if threads == 0 else methods_cpu.fit_judges(*some, threads=threads)

    def lines(self, judges: Floats, row_label: NDArray[np.integer]) -> Floats:
        """Return log P(given label | true label), [rows, K], for a judge, [rows, 3], and a label per row.

        A label that there is not is minus infinity: nobody gives it, and no task has it.
        """
        out = np.full((len(row_label), len(self.place)), -np.inf)
        there = np.flatnonzero(self.place[row_label] >= 0)
        found = judge_lines(judges[there], self.place[row_label[there]], len(self.codes))
        out[np.ix_(there, self.codes)] = round_to_unit(found, LOG_UNIT)
        return out


def figures(judges: Floats) -> dict[str, Floats]:
    """Return bias, scale and stretch of judges, [workers] each, in grades."""
    g, h, b = judges.T
    return {"bias": b / g, "scale": SD / g, "stretch": h / g}


def scale_of(known: Knowledge, priors: Floats, settings: Mapping[str, object]) -> GradeScale:
    """Return the learned scale."""
    exists = priors > 0
    exists[known.row_label] = True
    return GradeScale(grades_learned(known, settings), exists)


def grades_learned(known: Knowledge, settings: Mapping[str, object]) -> Grades:
    """Return the learned order of the labels."""
    order: Any = settings.get("order")
    return grades_of(known.labels.texts(), order, is_declared=True)


def own_lines(known: Knowledge, scale: GradeScale) -> Floats:
    """Return the lines of the rows that are known, [rows, K]."""
    judges, _ = scale.judges(known.row_label, known.counts, known.worker_ptr)
    return scale.lines(np.repeat(judges, np.diff(known.worker_ptr), axis=0), known.row_label)


def other_lines(known: Knowledge, scale: GradeScale, worker: NDArray[np.int64], label: NDArray[np.integer]) -> Floats:
    """Return the lines of workers, [lines] codes, and given labels; -1 is an unknown worker, who is like all together."""
    judges, _ = scale.judges(known.row_label, known.counts, known.worker_ptr)
    every = np.concatenate([judges, _together(known, scale)])
    return scale.lines(every[worker], label)  # -1 is the last


def judge_confusion(known: Knowledge, scale: GradeScale, worker: int) -> Floats:
    """Return P(given | true) of one worker, [K true, K given]; -1 is one like all together."""
    if worker < 0:
        judge = _together(known, scale)
    else:
        rows = slice(known.worker_ptr[worker], known.worker_ptr[worker + 1])
        judge, _ = scale.judges(known.row_label[rows], known.counts[rows], np.array([0, rows.stop - rows.start]))
    k = known.n_labels
    out: Floats = np.exp(scale.lines(np.repeat(judge, k, axis=0), np.arange(k)).T)
    return out


def _together(known: Knowledge, scale: GradeScale) -> Floats:
    """Return all judges treated as one, [1, 3]."""
    labels = scale.codes
    pooled = given_votes(known, known.counts)[labels]
    return scale.judges(labels, pooled, np.array([0, len(labels)]))[0]


def grade_columns(session: Session, grades: Grades) -> dict[str, NDArray[Any]]:
    """Return the mean and the median grade of every task under the model's posterior, [tasks] each.

    A session whose tasks are elsewhere has none: its frame of posteriors tells them.
    """
    if hasattr(session, "honest_outcome"):  # its tasks are not in this process
        return {}
    posterior = session.posterior()
    if isinstance(posterior, np.ndarray):
        return dict(zip(GRADE_COLUMNS, moments_of(posterior, grades), strict=True))
    # Pieces can be read only once: request them again, so that at most one is in memory.
    return {name: session.keep(_each(session.posterior(), grades, at)) for at, name in enumerate(GRADE_COLUMNS)}


def _each(posterior: Pieces, grades: Grades, at: int) -> Iterator[Floats]:
    return (moments_of(part, grades)[at] for part in posterior)
