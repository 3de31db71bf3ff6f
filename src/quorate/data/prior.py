"""What is believed before the votes are seen, as pseudo-votes: in force in every M-step, not only in the first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quorate.data.exact import rounded, sum_of
from quorate.data.votes import Panel

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WorkerPrior:
    """Pseudo-votes by worker, given label and true label, laid out on the rows of a panel.

    The rows hold the cells of labels that a worker has given; what is believed of labels that a worker never gave
    counts in the totals alone.
    """

    cells: Floats  # [rows, K]
    on_rows: Floats  # [workers, K] over the labels that have a row
    totals: Floats  # [workers, K] over all given labels, those without a row too
    shared: Floats  # [K given, K true] lent to every worker alike
    others: Others  # what is believed of one worker, and of labels without a row

    def matrix(self, panel: Panel, worker: int) -> Floats:
        """Return the pseudo-votes of one worker, [K given, K true]."""
        out = self.shared.copy()
        rows = slice(panel.worker_ptr[worker], panel.worker_ptr[worker + 1])
        out[panel.row_label[rows]] = self.cells[rows]
        mine = self.others.worker == worker
        np.add.at(out, self.others.label[mine], self.others.counts[mine])
        return out


@dataclass(frozen=True, eq=False)
class Others:
    """Pseudo-votes of (worker, given label) pairs that have no row, as pairs in any order."""

    worker: NDArray[np.int64]  # [pairs]
    label: NDArray[np.int64]  # [pairs]
    counts: Floats  # [pairs, K]


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Class priors that are given: fixed, or as pseudo-tasks that are added to the counted ones."""

    priors: Floats  # [K], of sum 1
    weight: float | None = None  # tasks they are worth; None: they are not estimated at all

    def estimate(self, class_counts: NDArray[np.float64] | NDArray[np.int64]) -> tuple[Floats, float]:
        """Return p_c, [K], and what the prior adds to the likelihood."""
        if self.weight is None:
            return self.priors, 0.0
        counts = class_counts + self.weight * self.priors
        total = sum_of(counts)
        found: Floats = counts / total if total else self.priors
        believed = self.weight * self.priors
        with np.errstate(divide="ignore"):
            penalty = np.where(believed > 0, believed * np.log(np.where(believed > 0, found, 1.0)), 0.0)
        return found, float(penalty.sum())


@dataclass(frozen=True, eq=False)
class Prior:
    """All that is believed of workers and labels; by default nothing, as in the paper."""

    smoothing: float = 0.0  # pseudo-votes in every cell of every worker
    workers: WorkerPrior | None = None
    classes: ClassPrior | None = None


def lay_out(panel: Panel, shared: Floats | None, history: Others | None) -> WorkerPrior | None:
    """Return pseudo-votes on the rows of a panel: `shared`, [K given, K true], for all, `history` for each their own."""
    k = panel.n_labels
    if shared is None and history is None:
        return None
    lent = np.zeros((k, k)) if shared is None else rounded(shared)
    cells = lent[panel.row_label]
    totals = np.repeat(lent.sum(axis=0)[None, :], panel.n_workers, axis=0)
    left = Others(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, k)))
    if history is not None:
        history = replace(history, counts=rounded(history.counts))
        np.add.at(totals, history.worker, history.counts)
        place = panel.row_of(history.worker, history.label)
        has = place >= 0
        np.add.at(cells, place[has], history.counts[has])
        left = Others(history.worker[~has], history.label[~has], history.counts[~has])
    return WorkerPrior(cells, panel.by_worker(cells), totals, lent, left)
