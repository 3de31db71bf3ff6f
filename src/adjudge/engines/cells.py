"""Counts of many labels on the compiled engine: cells with votes, counted from the labels of all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import round_to_unit
from adjudge.data.votes import Votes
from adjudge.data.wide import Cells
from adjudge.kernels import cpu

Tally = tuple[Cells, NDArray[np.float64] | NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts the votes of a fit under any labels of its tasks."""

    votes: Votes
    threads: int

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The tasks that the votes of each row are on: where each row's begin, [rows + 1], and the tasks, [votes]."""
        return cpu.tasks_by_row(self.votes.task_ptr, self.votes.row, self.votes.n_rows)

    def of(self, labels: NDArray[np.int32]) -> Tally:
        """Return the votes by row and label of their task, and the tasks by label; a label below 0 leaves its task out."""
        k = self.votes.n_labels
        counts = cpu.count_cells(*self._by_row, labels, k, self.threads)
        return counts, np.bincount(labels[labels >= 0], minlength=k).astype(np.int64)

    def shares(self, gold: NDArray[np.int32] | None, unit: float) -> Tally:
        """Return the same by vote shares, in whole units; gold tasks count under their label.

        `gold` has label codes, [tasks], below 0 for tasks without gold.
        """
        votes, k = self.votes, self.votes.n_labels
        ballots = cpu.count_cells(votes.task_ptr, votes.row.view(np.int32), votes.row_label, k, self.threads)
        task, size = ballots.row, np.diff(votes.task_ptr)
        share = round_to_unit(ballots.count / size[task], unit)
        if gold is not None:
            share[gold[task] >= 0] = 0.0
        counts = cpu.sum_cells(*self._by_row, Cells(ballots.ptr, ballots.label, share, k), self.threads)
        class_counts = np.bincount(ballots.label, share, minlength=k).astype(np.float64)
        if gold is None:
            return counts, class_counts
        known, known_classes = self.of(gold)
        return cpu.merge_cells(counts, known, 1.0, 1.0, self.threads), class_counts + known_classes
