"""Recipes of the EM family, and the M-step of Dawid-Skene: one confusion matrix per worker (equations 3, 4, 9, 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import ClassPrior, Lines, Prior, WorkerPrior, lay_out
from adjudge.data.exact import LOG_UNIT, sum_of, whole
from adjudge.data.votes import Panel
from adjudge.engines.base import ClassEstimate, Gather, WorkerBlock
from adjudge.models.base import Model

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Common prior of all workers, and prior of the labels; histories come with the workers."""

    smoothing: float = 0.0
    shared: Floats | None = None  # [K given, K true] pseudo-votes that every worker gets
    classes: ClassPrior | None = None

    def of(self, block: WorkerBlock) -> Prior:
        """Return the prior over the rows of some workers."""
        return Prior(self.smoothing, lay_out(block.panel, self.shared, block.history), self.classes)


@dataclass(frozen=True, eq=False)
class EMRecipe:
    """The recipe of a model whose parameters are class priors and a table; subclasses define `on`."""

    model: Model
    beliefs: Beliefs = Beliefs()

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return self.model.name

    @property
    def tol(self) -> float:
        """The change below which the loop stops."""
        return float(getattr(self.model, "tol", 0.0))

    @property
    def max_iter(self) -> int:
        """Maximum number of iterations."""
        return int(getattr(self.model, "max_iter", 1))

    @property
    def stop(self) -> str:
        """The stopping rule."""
        return str(getattr(self.model, "stop", "priors"))

    @property
    def starts_hard(self) -> bool:
        """Whether the first M-step is fed with hard labels."""
        return self.model.starts_hard

    @property
    def is_likelihood(self) -> bool:
        """Whether scores are log-probabilities."""
        return self.model.is_likelihood

    @property
    def anchor(self) -> float:
        """The share of the counts that were remembered in those that an M-step sees."""
        return 0.0

    @property
    def phase(self) -> str | None:
        """The name of its iterations in the trace."""
        return None

    @property
    def is_bounded(self) -> bool:
        """Whether its few iterations are the most by design."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether its M-step goes on from the one before: an extrapolated one does."""
        return bool(getattr(self.model, "accelerate", False))

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Return whether the next E-step is hard."""
        return self.model.next_is_hard(was_hard, change)

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return p_c from the class counts of a pass, [K]; with fixed priors, the shares of labels stop the fit."""
        shares: Floats = class_counts / max(sum_of(np.asarray(class_counts, np.float64)), 1.0)
        given = self.beliefs.classes
        if given is None:
            return ClassEstimate(shares, 0.0, shares)
        priors, penalty = given.estimate(class_counts)
        return ClassEstimate(priors, penalty, shares if given.weight is None else priors)

    def shared(self, priors: Floats, gather: Gather) -> Any:
        """Return nothing: a worker's lines follow from its own counts."""


class ConfusionRecipe(EMRecipe):
    """One confusion matrix per worker: the paper's equations 3 and 10."""

    def on(self, block: WorkerBlock) -> ConfusionStep:
        """Return the M-step of these workers."""
        return ConfusionStep(block, self.beliefs.of(block))


@dataclass(frozen=True, eq=False)
class ConfusionStep:
    """The M-step of some workers: counts normalised per worker and true label."""

    block: WorkerBlock
    prior: Prior

    def __call__(self, counts: Any, shared: Any = None) -> Lines:
        """Return log pi that maximises the (penalised) likelihood of these counts, [rows, K]."""
        believed, smoothing, panel = self.prior.workers, self.prior.smoothing, self.block.panel
        counts = counts if believed is None else counts + believed.cells
        table, totals = self.block.tables(counts, panel.worker_ptr, smoothing)
        if believed is not None:
            totals = _add_absent(panel, table, totals, believed, smoothing)
        return Lines(table, totals, self.prior, _penalty(panel, table, totals, self.prior))


def _add_absent(panel: Panel, table: Floats, totals: Floats, believed: WorkerPrior, smoothing: float) -> Floats:
    """Add pseudo-votes of labels without a row to the table (in place), and return the votes alone, [workers, K]."""
    before = totals + panel.n_labels * smoothing
    absent = believed.totals - believed.on_rows
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(absent > 0, np.log(before) - np.log(before + absent), 0.0)
    shift[np.isneginf(shift)] = 0.0  # nothing on the rows: the table is minus infinity there already
    table += np.repeat(whole(shift, LOG_UNIT), np.diff(panel.worker_ptr), axis=0)
    votes: Floats = totals - believed.on_rows
    return votes


def _penalty(panel: Panel, table: Floats, totals: Floats, prior: Prior) -> float:
    """Return the sum of pseudo-votes * log pi over all cells of all workers, without terms that no fit can change."""
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
    """Return the sum of pseudo-votes * log pi, where there are some."""
    with np.errstate(invalid="ignore"):
        plain = float(np.vdot(votes, table))
    # Where nothing is believed pi may be 0: 0 * -inf is not a number, and no part of the sum.
    return plain if np.isfinite(plain) else float((votes * np.where(votes > 0, table, 0.0)).sum())
