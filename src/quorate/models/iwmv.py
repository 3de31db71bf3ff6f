"""Iterative weighted majority voting: votes weighted by how often their worker agrees with the labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate.data.counts import Lines
from quorate.data.fit import Fit
from quorate.data.options import DEFAULTS, Number, Rules
from quorate.engines import memory
from quorate.engines.base import Session, WorkerBlock
from quorate.models import em
from quorate.models.base import COMMON, Knowns, Model
from quorate.models.confusion import ConfusionRecipe, EMRecipe


@dataclass(frozen=True, kw_only=True)
class IWMV(Model):
    """Li and Yu 2014 (arXiv 1411.4086): weights K * accuracy - 1, until the labels stop changing.

    A worker's accuracy is the share of votes that agree with the current labels. The labels start from majority
    vote. One who is wrong more often than by chance has a negative weight. Confidence is the label's share of the
    positive weights. `max_iter` bounds the iterations; `seed` and `ties` decide between labels that score the same.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = qr.IWMV().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', -1.0)]
    """

    name: ClassVar[str] = "iwmv"
    title: ClassVar[str] = "weighted majority (IWMV)"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True)}
    stop: ClassVar[str] = "labels"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter

    def _fit(self, session: Session, known: Knowns) -> Fit:
        ended = em.run(session, WeightRecipe(self), replace(known.options, likelihood=False))
        outcome = session.weighted_majority()
        params, statistics, columns = session.estimate(ConfusionRecipe(self))
        return Fit(
            outcome,
            params,
            statistics,
            ended.trace,
            ended.converged,
            worker_columns=columns,
            skill=columns.get("weight"),
        )


class WeightRecipe(EMRecipe):
    """Weights from agreement, until no label changes."""

    def on(self, block: WorkerBlock) -> WeightStep:
        """Return the M-step of these workers."""
        return WeightStep(block)


class WeightStep:
    """The M-step of some workers: a vote has the weight K * accuracy - 1 for its own label."""

    def __init__(self, block: WorkerBlock) -> None:
        panel = self._panel = block.panel
        self._cells = np.arange(panel.n_rows), panel.row_label
        self._agreed, self._per_worker = np.zeros(panel.n_workers), self._by_worker(block.row_votes())
        if block.history is not None:  # votes that agreed, and all of them, before these
            past = block.history
            np.add.at(self._agreed, past.worker, past.counts[np.arange(len(past.label)), past.label])
            np.add.at(self._per_worker, past.worker, past.counts.sum(axis=1))

    def __call__(self, counts: Any, shared: Any = None) -> Lines:
        """Return the table of weights, [rows, K]."""
        panel, k = self._panel, self._panel.n_labels
        weights = k * (self._by_worker(counts[self._cells]) + self._agreed) / self._per_worker - 1.0
        table = np.zeros((panel.n_rows, k))
        table[self._cells] = np.repeat(weights, np.diff(panel.worker_ptr))
        return Lines(table, np.zeros((0, k)), uses_prior=False, columns={"weight": weights})

    def _by_worker(self, by_row: Any) -> NDArray[np.float64]:
        return self._panel.by_worker(by_row).astype(np.float64)
