"""Passes of expectation-maximisation with crowd-kit's floor under every probability, on the library's kernels.

No number of expected votes is below `FLOOR` before a worker's votes are normalised. Small figures decide where every label of a
task is nearly impossible, so the floor is part of the method. The probabilities that a fit reports have the same floor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.frames import Encoded
from adjudge.engines.base import Checkpoint, ClassEstimate, Gather, MStep, PassSums, Recipe, WorkerBlock
from adjudge.engines.shard import MAX_FINE_VOTES, Units
from adjudge.kernels.cpu import fastest
from adjudge.models import em

Floats = NDArray[np.float64]
FLOOR = 1e-10


@dataclass(frozen=True, eq=False)
class Layout:
    """Votes sorted by task, each as its row: a (worker, given label) pair that occurs. Rows are sorted by worker, then label."""

    task_ptr: NDArray[np.int64]  # [tasks + 1] where each task's votes begin
    row: NDArray[np.uint32]  # [votes]
    row_worker: NDArray[np.int64]  # [rows]
    row_label: NDArray[np.int64]  # [rows]
    n_labels: int
    seen: NDArray[np.int64]  # [rows] rows in order of their first votes

    @classmethod
    def of(cls, votes: Encoded) -> Layout:
        """Return the layout of these votes."""
        k = max(len(votes.labels), 1)
        pair = votes.workers.codes * k + votes.labels.codes
        found, first, row = np.unique(pair, return_index=True, return_inverse=True)
        order = np.lexsort((row, votes.tasks.codes))
        task_ptr = np.zeros(len(votes.tasks) + 1, np.int64)
        np.cumsum(np.bincount(votes.tasks.codes, minlength=len(votes.tasks)), out=task_ptr[1:])
        rows = row[order].astype(np.uint32)
        return cls(task_ptr, rows, found // k, found % k, len(votes.labels), np.argsort(first))

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_ptr) - 1

    @property
    def n_rows(self) -> int:
        """The number of (worker, given label) pairs that occur."""
        return len(self.row_label)

    @cached_property
    def task(self) -> NDArray[np.int64]:
        """The task of each vote, [votes]."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.task_ptr))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each worker's rows begin, [workers]."""
        return np.flatnonzero(np.diff(self.row_worker, prepend=-1))

    def by_worker(self, by_row: Floats) -> Floats:
        """Return sums over the rows of each worker, [workers, …]."""
        return np.add.reduceat(by_row, self.starts, axis=0)

    def shares(self) -> Floats:
        """Return each label's share of every task's votes, [tasks, K]."""
        cell = self.task * self.n_labels + self.row_label[self.row]
        votes = np.bincount(cell, minlength=self.n_tasks * self.n_labels).reshape(self.n_tasks, self.n_labels)
        out: Floats = votes / np.diff(self.task_ptr)[:, None]
        return out

    def expected(self, table: Floats, log_prior: Floats, *, counts: bool = False) -> Expected:
        """Return what an E-step expects, by log-probabilities of rows, [rows, K], and of labels, [K]."""
        kernels, threads = fastest(), os.cpu_count() or 1
        shape, k = (self.n_rows, self.n_labels), self.n_labels
        out, units = np.empty((self.n_tasks, k)), self._units
        nobody = np.zeros(self.n_tasks, np.uint64), np.zeros(k, np.uint64)  # decides ties; not looked at
        tally: dict[str, Any] = {}
        if counts:
            tally = {"counts": np.zeros(shape), "class_counts": np.zeros(k), "class_rest": np.zeros(k), "unit": units.unit}
            tally |= {"rest": np.zeros(shape)} if units.fine else {}
        sums = kernels.em_pass(
            self.task_ptr,
            self.row,
            np.ascontiguousarray(table),
            log_prior,
            *nobody,
            hard=False,
            by_prior=False,
            checked=True,
            threads=threads,
            labels=np.zeros(self.n_tasks, np.int32),
            posterior=out,
            **tally,
        )
        if counts:
            kernels.restore_counts(tally["counts"], tally.get("rest"), units.unit, threads)
        return Expected(out, float(sums.log_likelihood), tally.get("counts"))

    @cached_property
    def _units(self) -> Units:
        """The units of expected votes, as every engine counts them."""
        if len(self.row) <= MAX_FINE_VOTES:
            return Units.of(len(self.row), fine=True)
        votes = np.bincount(self.row, minlength=self.n_rows)
        return Units.of(int(np.add.reduceat(votes, self.starts).max()))

    def counts(self, posterior: Floats) -> Floats:
        """Return the sum of the probabilities of every row's votes, [rows, K], of the probabilities of tasks, [tasks, K]."""
        out = np.empty((self.n_rows, self.n_labels))
        for c in range(self.n_labels):
            out[:, c] = np.bincount(self.row, posterior[self.task, c], minlength=self.n_rows)
        return out


class Expected(NamedTuple):
    """What an E-step expects."""

    posterior: Floats  # [tasks, K]
    log_likelihood: float
    counts: Floats | None  # [rows, K] expected votes of each row by true label, where asked for


class BoundedSteps:
    """Steps and recipe of the loop for a fit in crowd-kit's order: an iteration is an E-step, then an M-step, then its bound.

    The loop has M-steps first. So the start is an M-step, `advance` is the rest, and the M-step of the loop finds its work done.
    The bound is the one that crowd-kit stops by: an iteration that gains less than `tol` is the last.
    """

    name, stop, phase = "crowdkit", "objective", None
    starts_hard, is_likelihood, remembers = False, True, False
    is_bounded = True  # n_iter is the caller's choice: no warning when it is used up
    anchor = 0.0

    def __init__(self, priors: Floats, *, tol: float, max_iter: int) -> None:
        self.tol, self.max_iter = tol, max_iter
        self.priors = priors  # [K]

    def advance(self) -> float:
        """Take an E-step and an M-step, and return the bound."""
        raise NotImplementedError

    def run(self) -> list[float]:
        """Iterate to the end, and return the bounds."""
        if self.max_iter < 1:
            return []
        ended = em.iterate(self, self, lambda: PassSums(self.priors), em.FitOptions())
        return [row.objective for row in ended.trace]

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Take both steps."""
        return PassSums(self.priors, log_likelihood=self.advance())

    def start(self, *, hard: bool) -> PassSums:
        """Return the sums of the start."""
        return PassSums(self.priors)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Do nothing: it was done with the last E-step."""

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return the priors of the last E-step, [K]."""
        return ClassEstimate(self.priors, 0.0, self.priors)

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Return False: no E-step is hard."""
        return False

    def shared(self, priors: Floats, gather: Gather) -> None:
        """Return nothing: these steps make their own table."""

    def on(self, block: WorkerBlock) -> MStep:
        """Raise: these steps make their own table."""
        raise TypeError("these steps make their own table")

    def fingerprint(self) -> bytes:
        """Return nothing: fits of soft steps have no cycles."""
        return b""

    def restore(self) -> None:
        """Return None: a fit in memory is not resumed."""

    def checkpoint(self, point: Checkpoint) -> None:
        """Do nothing: a fit in memory is not resumed."""


class FlooredSteps(BoundedSteps):
    """Steps of a table model with crowd-kit's floor.

    `table_of(counts)` returns probabilities of rows, [rows, K], from expected votes, [rows, K]. `first` does so for the start,
    the shares of the votes. `gold` has positions of tasks and of the labels that they keep.
    """

    def __init__(
        self,
        layout: Layout,
        table_of: Callable[[Floats], Floats],
        *,
        tol: float,
        max_iter: int,
        first: Callable[[Floats], Floats] | None = None,
        gold: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> None:
        self._layout, self._table_of, self._gold = layout, table_of, gold
        self.posterior = self._kept(layout.shares())  # [tasks, K]
        super().__init__(self.posterior.mean(axis=0), tol=tol, max_iter=max_iter)
        self.errors = (first or table_of)(layout.counts(self.posterior))  # [rows, K]

    def advance(self) -> float:
        """Take an E-step and an M-step, and return crowd-kit's bound per vote.

        It adds the log prior once per vote of a task, not once per task.
        """
        layout = self._layout
        with np.errstate(divide="ignore"):  # gold may leave a label without any task
            table, log_prior = np.log(self.errors), np.log(self.priors)
        found, _, counts = layout.expected(table, log_prior, counts=self._gold is None)
        found = self._kept(found)
        if counts is None:
            counts = layout.counts(found)
        self.posterior, self.priors, self.errors = np.maximum(found, FLOOR), found.mean(axis=0), self._table_of(counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = counts * (np.log(self.errors) + np.log(self.priors))
        entropy = -float((self.posterior * np.log(self.posterior)).sum())
        return (float(np.where(counts > 0, each, 0.0).sum()) + entropy) / len(layout.row)

    def _kept(self, posterior: Floats) -> Floats:
        """Return the probabilities, [tasks, K], with gold tasks certain of their label (in place)."""
        if self._gold is not None:
            tasks, labels = self._gold
            posterior[tasks] = 0.0
            posterior[tasks, labels] = 1.0
        return posterior
