"""Votes as this package looks at them: arrays alone, and piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.data.votes import Panel, Votes

PIECE = 1 << 17  # votes looked at at once, so that copies stay small and near
CELLS = 1 << 24  # rows x labels, or tasks x labels, looked at at once: many labels are taken in blocks
Places = NDArray[np.int64] | slice  # of votes
WORKERS = 1 << 16  # workers looked at at once


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes by task, and whose each row is; see `quorate.data.votes`. Some votes may be left out, but none of the tasks."""

    panel: Panel
    task_ptr: NDArray[np.int64]  # [tasks + 1] where each task's votes begin
    row: NDArray[np.uint32]  # [votes] the (worker, given label) pair of each

    @classmethod
    def of(cls, votes: Votes) -> Ballots:
        """Return all votes."""
        return cls(votes, votes.task_ptr, votes.row)

    def telling(self, known: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return which tasks tell something about workers, [tasks]: those of two or more, and those `known`, [tasks]."""
        if not self.n_tasks:
            return np.zeros(0, np.bool_)
        worker = self.worker()
        two = np.maximum.reduceat(worker, self.task_ptr[:-1]) > np.minimum.reduceat(worker, self.task_ptr[:-1])
        return two if known is None else two | known

    def once(self) -> Ballots:
        """Return the first vote of each worker on each task."""
        task, worker = self.task(), self.worker()
        again = np.zeros(len(task), np.bool_)
        again[1:] = (task[1:] == task[:-1]) & (worker[1:] == worker[:-1])
        return self.kept(~again) if again.any() else self

    def of_tasks(self, chosen: NDArray[np.bool_]) -> Ballots:
        """Return the votes of the chosen tasks, [tasks]."""
        if chosen.all():
            return self
        ptr = np.concatenate([[0], np.cumsum(self.per_task[chosen])])
        return Ballots(self.panel, ptr, self.row[self.spread(chosen)])

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_ptr) - 1

    @cached_property
    def n_labels(self) -> int:
        """The number of labels that somebody gave, or 1."""
        return max(len(np.unique(self.panel.row_label)), 1)

    @cached_property
    def per_task(self) -> NDArray[np.int64]:
        """The number of votes of each task, [tasks]."""
        return np.diff(self.task_ptr)

    @cached_property
    def row_worker(self) -> NDArray[np.int64]:
        """The worker of each row, [rows]."""
        return self.panel.row_worker()

    @cached_property
    def rows_by_label(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows in the order of the labels given, [rows], and where each label's begin, [K + 1]."""
        labels = self.panel.row_label
        return np.argsort(labels, kind="stable"), np.searchsorted(np.sort(labels), np.arange(self.panel.n_labels + 1))

    def rows_of(self, label: int) -> NDArray[np.int64]:
        """Return the rows of a label that was given, in order."""
        order, ptr = self.rows_by_label
        return order[ptr[label] : ptr[label + 1]]

    @cached_property
    def per_row(self) -> NDArray[np.int64]:
        """The number of votes of each row, [rows]."""
        return np.bincount(self.row, minlength=self.panel.n_rows)

    @cached_property
    def per_worker(self) -> NDArray[np.int64]:
        """The number of votes of each worker, [workers]."""
        out: NDArray[np.int64] = self.panel.by_worker(self.per_row)
        return out

    @cached_property
    def divisor(self) -> NDArray[np.int64]:
        """The number of votes of each worker, or 1 for those without, [workers]."""
        return np.maximum(self.per_worker, 1)

    def task(self) -> NDArray[np.int64]:
        """Return the task of each vote, [votes]."""
        return np.repeat(np.arange(self.n_tasks), self.per_task)

    def worker(self) -> NDArray[np.int64]:
        """Return the worker of each vote, [votes]."""
        return self.row_worker[self.row]

    def label(self) -> NDArray[np.int32]:
        """Return the label that each vote gives, [votes]."""
        return self.panel.row_label[self.row]

    def spread(self, by_task: NDArray[Any]) -> NDArray[Any]:
        """Return something told by task, [tasks, …], for each of its votes, [votes, …]."""
        return np.repeat(by_task, self.per_task, axis=0)

    def kept(self, chosen: NDArray[np.bool_]) -> Ballots:
        """Return the chosen votes, [votes]; every task must keep one."""
        ptr = np.zeros_like(self.task_ptr)
        np.cumsum(np.add.reduceat(chosen, self.task_ptr[:-1], dtype=np.int64), out=ptr[1:])
        return Ballots(self.panel, ptr, self.row[chosen])

    def by_workers(self) -> Iterator[tuple[slice, Places, NDArray[np.int64]]]:
        """Yield (some workers, the places of their votes in order, the worker of each counted from the first of these)."""
        n = self.panel.n_workers
        if n <= WORKERS:
            yield slice(0, n), slice(None), self.worker()
            return
        order = np.argsort(self.row, kind="stable")  # by row is by worker, too
        worker = self.row_worker[self.row[order]]
        for start in range(0, n, WORKERS):
            first, last = np.searchsorted(worker, [start, start + WORKERS])
            # A worker's votes in the order of the tasks, as sums over all votes meet them.
            places = np.sort(order[first:last])
            yield slice(start, min(start + WORKERS, n)), places, self.row_worker[self.row[places]] - start

    def pieces(self) -> Iterator[Piece]:
        """Yield the votes of some tasks after the other, about `PIECE` votes each; a task is never split."""
        start = 0
        while start < self.n_tasks:
            end = int(np.searchsorted(self.task_ptr, self.task_ptr[start] + PIECE, side="right")) - 1
            end = max(end, start + 1)
            votes = slice(int(self.task_ptr[start]), int(self.task_ptr[end]))
            row = self.row[votes].astype(np.intp)
            yield Piece(
                tasks=slice(start, end),
                votes=votes,
                starts=self.task_ptr[start:end] - votes.start,
                per_task=self.per_task[start:end],
                row=row,
                worker=self.row_worker[row],
                label=self.panel.row_label[row],
            )
            start = end


class Piece(NamedTuple):
    """The votes of consecutive tasks."""

    tasks: slice
    votes: slice
    starts: NDArray[np.int64]  # [tasks] where each task's votes begin, counted from the first vote of the piece
    per_task: NDArray[np.int64]  # [tasks]
    row: NDArray[np.intp]  # [votes]
    worker: NDArray[np.int64]  # [votes]
    label: NDArray[np.int32]  # [votes]
