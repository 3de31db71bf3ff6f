"""The M-step of Dawid-Skene: class priors and one confusion matrix a worker (the paper's equations 3, 4, 9, 10)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.exact import LOG_UNIT, sum_of, whole
from quorate.params import Parameters
from quorate.prior import Prior, WorkerPrior
from quorate.statistics import Statistics
from quorate.votes import Panel

Floats = NDArray[np.float64]
NOTHING = Prior()


class Tables(Protocol):
    """What makes the table of counts: a session, or a block of workers."""

    def confusion_table(self, counts: Any, smoothing: float) -> tuple[Floats, Floats]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        ...


def estimate(session: Tables, panel: Panel, statistics: Statistics, prior: Prior = NOTHING) -> Parameters:
    """Returns the parameters that maximise the (penalised) likelihood of these statistics."""
    believed, smoothing = prior.workers, prior.smoothing
    counts = statistics.counts if believed is None else statistics.counts + believed.cells
    table, totals = session.confusion_table(counts, smoothing)
    if believed is not None:
        totals = _add_absent(panel, table, totals, believed, smoothing)
    priors, penalty = class_priors(statistics, prior)
    penalty += _penalty(panel, table, totals, prior)
    return Parameters(priors, table, totals, prior, penalty, shares=followed(statistics, prior))


def class_priors(statistics: Statistics, prior: Prior) -> tuple[Floats, float]:
    """Returns p_c, [K], and what is believed of them adds to the likelihood."""
    if prior.classes is not None:
        return prior.classes.estimate(statistics.class_counts)
    return label_shares(statistics), 0.0


def followed(statistics: Statistics, prior: Prior) -> Floats | None:
    """Returns the shares of the labels, [K], where the priors are fixed: priors that do not move cannot stop a fit."""
    fixed = prior.classes is not None and prior.classes.weight is None
    return label_shares(statistics) if fixed else None


def label_shares(statistics: Statistics) -> Floats:
    """Returns the shares of the labels among the tasks, [K]."""
    counts = statistics.class_counts
    out: Floats = counts / max(sum_of(np.asarray(counts, np.float64)), 1.0)
    return out


def _add_absent(panel: Panel, table: Floats, totals: Floats, believed: WorkerPrior, smoothing: float) -> Floats:
    """Takes pseudo-votes of labels without a row into the table (in place), and returns the votes alone, [workers, K]."""
    before = totals + panel.n_labels * smoothing
    absent = believed.totals - believed.on_rows
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(absent > 0, np.log(before) - np.log(before + absent), 0.0)
    shift[np.isneginf(shift)] = 0.0  # nothing on the rows: the table is minus infinity there already
    table += np.repeat(whole(shift, LOG_UNIT), np.diff(panel.worker_ptr), axis=0)
    votes: Floats = totals - believed.on_rows
    return votes


def _penalty(panel: Panel, table: Floats, totals: Floats, prior: Prior) -> float:
    """Returns the sum of pseudo-votes * log pi over all cells of all workers, less what no fit can change."""
    believed, smoothing = prior.workers, prior.smoothing
    if believed is None and smoothing == 0.0:
        return 0.0
    k = panel.n_labels
    every = totals + k * smoothing
    absent = (k - np.diff(panel.worker_ptr))[:, None] * smoothing + np.zeros_like(totals)
    if believed is None:
        on_rows = smoothing * float(table.sum())
    else:
        every = every + believed.totals
        absent += believed.totals - believed.on_rows
        on_rows = _expected(believed.cells, table) + (smoothing * float(table.sum()) if smoothing else 0.0)
    return on_rows - float((absent * np.log(np.where(absent > 0, every, 1.0))).sum())


def _expected(votes: Floats, table: Floats) -> float:
    """Returns the sum of pseudo-votes * log pi, where there are some."""
    with np.errstate(invalid="ignore"):
        plain = float(np.vdot(votes, table))
    # Where nothing is believed pi may be 0: 0 * -inf is not a number, and no part of the sum.
    return plain if np.isfinite(plain) else float((votes * np.where(votes > 0, table, 0.0)).sum())
