"""Iterative weighted majority voting: votes weighted by how often their worker agrees with the labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines import memory
from quorate.engines.base import Session
from quorate.engines.spark_blocks import Block
from quorate.engines.spark_tell import Column
from quorate.engines.spark_wide import Shown, WidePasses
from quorate.fit import Fit
from quorate.io.spark_votes import WideVotes
from quorate.models.base import COMMON, Model, Watch
from quorate.models.blocks import Beliefs, Confusions, FarFit, Spread
from quorate.models.confusion import class_priors, estimate
from quorate.params import Parameters
from quorate.prior import ClassPrior, Others, Prior
from quorate.settings import Number, Rules
from quorate.statistics import Statistics
from quorate.votes import Votes


@dataclass(frozen=True, kw_only=True)
class IWMV(Model):
    """Li and Yu 2014 (arXiv 1411.4086): weights K * accuracy - 1, until the labels stop changing.

    A worker's accuracy is the share of votes that agree with the current labels, which start as those of majority
    vote. One who is wrong more often than by chance has a negative weight. Confidence is the label's share of the
    positive weights.

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

    max_iter: int = 100

    def _fit(self, votes: Votes, session: Session, watch: Watch) -> Fit:
        recipe = _Plugged(self, votes, watch.history)
        ended = em.begin(session, recipe, replace(watch.how, likelihood=False))
        outcome, agreeing = session.weigh(ended.params)
        return Fit(
            outcome,
            estimate(session, votes, agreeing),
            agreeing,
            ended.trace,
            ended.converged,
            posterior=lambda: session.weight_shares(ended.params),
            worker_columns={"weight": recipe.weights},
            skill=recipe.weights,
        )

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        make = _Blocks(self)
        ended = em.begin(session, Spread(session, make, None), replace(watch.how, likelihood=False))
        outcome, agreeing = session.weigh(ended.params)
        params = replace(ended.params, priors=class_priors(agreeing, Prior())[0])
        fit = Fit(outcome, params, agreeing, ended.trace, ended.converged)
        return FarFit(fit, Confusions(Beliefs()), agreeing, {"weight": Shown(Column("weights", make), ended.params)})


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Makes the recipe of a block."""

    model: IWMV

    def __call__(self, block: Block, classes: ClassPrior | None = None) -> _Plugged:
        return _Plugged(self.model, block, block.history)


class _Plugged:
    """What the loop asks for: weights from agreement, until no label changes."""

    tol = 0.0
    stop = "labels"
    starts_hard = True
    is_likelihood = False

    def __init__(self, model: IWMV, votes: Votes | Block, history: Others | None) -> None:
        self.name = model.name
        self.max_iter = model.max_iter
        self.weights = np.zeros(votes.n_workers)
        self._votes = votes
        self._cells = np.arange(votes.n_rows), votes.row_label
        self._agreed, self._per_worker = np.zeros(votes.n_workers), self._by_worker(votes.votes_per_row())
        if history is not None:  # votes that agreed, and all of them, before these
            own = history.counts[np.arange(len(history.label)), history.label]
            np.add.at(self._agreed, history.worker, own)
            np.add.at(self._per_worker, history.worker, history.counts.sum(axis=1))

    def own_label(self, statistics: Statistics) -> NDArray[np.int64] | NDArray[np.float64]:
        """Returns the votes of each row whose task has the label they gave, [rows]."""
        return statistics.counts[self._cells]

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns the table of weights: a vote speaks for its own label, with K * accuracy - 1."""
        k = self._votes.n_labels
        self.weights = k * (self._by_worker(self.own_label(statistics)) + self._agreed) / self._per_worker - 1.0
        table = np.zeros((self._votes.n_rows, k))
        table[self._cells] = np.repeat(self.weights, np.diff(self._votes.worker_ptr))
        priors = statistics.class_counts / max(statistics.class_counts.sum(), 1.0)
        return Parameters(priors, table, np.zeros((0, k)), uses_prior=False)

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns True: labels are always hard."""
        return True

    def _by_worker(self, by_row: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self._votes.by_worker(by_row).astype(np.float64)
