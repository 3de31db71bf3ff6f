"""Weighted majority votes: recipes that weigh workers by how often they agree with the labels, and what such a fit ends in."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Lines, Parameters
from adjudge.data.fit import Fit, TraceRow
from adjudge.data.votes import Panel
from adjudge.engines.base import Session, WorkerBlock
from adjudge.models.base import Model
from adjudge.models.confusion import ConfusionRecipe, EMRecipe
from adjudge.results.worker_weights import weighing

Floats = NDArray[np.float64]


class WeightRecipe(EMRecipe):
    """Weights from agreement with the current labels, by the formula of the model."""

    def on(self, block: WorkerBlock) -> WeightStep:
        """Return the M-step of these workers."""
        return WeightStep(block, self.model)


class Agreement:
    """How many votes of some workers agree with the labels, and how many there are, those of a history included."""

    def __init__(self, block: WorkerBlock) -> None:
        panel = self.panel = block.panel
        self._cells = np.arange(panel.n_rows), panel.row_label
        self._past, past = before(block)
        self.total = self._by_worker(block.row_votes()) + past  # [workers]

    def right(self, counts: Any) -> Floats:
        """Return how many votes of each worker agree, [workers], from the counts of a pass, [rows, K]."""
        out: Floats = self._by_worker(counts[self._cells]) + self._past
        return out

    def lines(self, weights: Floats, moved: float = float("nan")) -> Lines:
        """Return the table in which a vote has its worker's weight, [workers], for its own label."""
        k = self.panel.n_labels
        table = weight_table(self.panel, weights)
        return Lines(table, np.zeros((0, k)), uses_prior=False, columns={"weight": weights}, moved=moved)

    def _by_worker(self, by_row: Any) -> Floats:
        return self.panel.by_worker(by_row).astype(np.float64)


class WeightStep:
    """The M-step of some workers: a vote has the weight of its worker for its own label."""

    def __init__(self, block: WorkerBlock, model: Model) -> None:
        self._agreement = Agreement(block)
        self._weigh = weighing(model.name, asdict(model), self._agreement.total, block.panel.n_labels)

    def __call__(self, counts: Any, shared: Any = None) -> Lines:
        """Return the table of weights, [rows, K]."""
        return self._agreement.lines(self._weigh(self._agreement.right(counts)))


def before(block: WorkerBlock, _counts: Any = None) -> Floats:
    """Return the right votes and all votes of each worker in a history, [2, workers]; for `Session.gather`, too."""
    out = np.zeros((2, block.panel.n_workers))
    if block.history is not None:
        past = block.history
        np.add.at(out[0], past.worker, past.counts[np.arange(len(past.label)), past.label])
        np.add.at(out[1], past.worker, past.counts.sum(axis=1))
    return out


def weight_table(panel: Panel, weights: Floats) -> Floats:
    """Return the table in which a vote has its worker's weight, [workers], for its own label, [rows, K]."""
    table = np.zeros((panel.n_rows, panel.n_labels))
    table[np.arange(panel.n_rows), panel.row_label] = np.repeat(weights, np.diff(panel.worker_ptr))
    return table


def weigh_by(session: Session, weights: Floats, possible: NDArray[np.bool_]) -> None:
    """Take weights, [workers], that no counts of a pass tell, as the table; only `possible` labels, [K], can win."""
    priors = possible / max(int(possible.sum()), 1)
    session.adopt(partial(_parameters, weights, priors), priors)


def _parameters(weights: Floats, priors: Floats, panel: Panel) -> Parameters:
    return Parameters(priors, weight_table(panel, weights), np.zeros((panel.n_workers, panel.n_labels)))


def weighted_fit(
    model: Model,
    session: Session,
    trace: tuple[TraceRow, ...] = (),
    *,
    converged: bool = True,
    columns: dict[str, NDArray[Any]] | None = None,
) -> Fit:
    """Return what the votes say under the weights in force; `columns` tell of workers where no recipe does, [workers] each."""
    outcome = session.weighted_majority()
    params, statistics, found = session.estimate(ConfusionRecipe(model))
    told = found if columns is None else columns
    return Fit(outcome, params, statistics, trace, converged, worker_columns=told, skill=told.get("weight"))
