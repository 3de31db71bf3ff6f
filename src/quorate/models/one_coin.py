"""One-coin Dawid-Skene: a worker is right with one probability, whatever the label; errors fall on any other label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines.base import Session
from quorate.engines.spark_blocks import Block
from quorate.engines.spark_tell import Column
from quorate.engines.spark_wide import Shown, WidePasses
from quorate.fit import Fit
from quorate.io.spark_votes import WideVotes
from quorate.models.base import Model, Watch
from quorate.models.blocks import Beliefs, Confusions, FarFit, Spread, far_population
from quorate.models.confusion import class_priors, estimate
from quorate.models.dawid_skene import FAMILY, prior_of
from quorate.params import Parameters
from quorate.prior import ClassPrior, Prior
from quorate.settings import Rules
from quorate.statistics import Statistics
from quorate.transfer import coin_table, other_labels
from quorate.votes import Panel

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneCoin(Model):
    """Soft EM with a single accuracy per worker: where votes are too few for a whole confusion.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = qr.OneCoin().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "one-coin"
    title: ClassVar[str] = "one-coin Dawid-Skene"
    rules: ClassVar[Rules] = FAMILY
    scoring: ClassVar[str] = "coin"

    tol: float = 1e-4
    max_iter: int = 100
    smoothing: float = 0.0
    strength: float | str = 0.0
    stop: str = "priors"

    def _fit(self, panel: Panel, session: Session, watch: Watch) -> Fit:
        prior, strength = prior_of(self, panel, session, watch)
        recipe = _Plugged(self, panel, prior, other_labels(watch.possible(panel, session)))
        fit = em.run(session, recipe, watch.how)
        confusions = estimate(session, panel, fit.statistics, prior)  # to be looked at; labels come from the coins
        return replace(
            fit,
            params=replace(confusions, priors=fit.params.priors),
            posterior=lambda: session.posterior(fit.params),
            worker_columns={"skill": recipe.coin},
            skill=recipe.coin,
            strength=strength,
        )

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        lent = far_population(session, self.strength)
        beliefs = Beliefs(self.smoothing, None if lent is None else lent.votes)
        make = _Blocks(self, beliefs, other_labels(watch.possible(votes, session)))
        fit = em.run(session, Spread(session, make, watch.classes), watch.how)
        skill = {"skill": Shown(Column("coin", make), fit.params)}
        return FarFit(replace(fit, strength=0.0 if lent is None else lent.strength), Confusions(beliefs), fit.statistics, skill)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Makes the recipe of a block."""

    model: OneCoin
    beliefs: Beliefs
    others: int

    def __call__(self, block: Block, classes: ClassPrior | None = None) -> _Plugged:
        return _Plugged(self.model, block, self.beliefs.on(block, classes), self.others)


class _Plugged:
    """What the loop asks for: a coin per worker."""

    starts_hard = False
    is_likelihood = True

    def __init__(self, model: OneCoin, panel: Panel, prior: Prior, others: int) -> None:
        self.name = model.name
        self.tol = model.tol
        self.max_iter = model.max_iter
        self.stop = model.stop
        self.coin = np.zeros(panel.n_workers)
        self._panel = panel
        self._prior = prior
        self._others = others
        self._own = np.arange(panel.n_rows), panel.row_label
        s, believed = float(prior.smoothing), prior.workers
        k = self._others + 1
        # Pseudo-votes that are right, and all of them: smoothing fills K x K cells of which K are right.
        self._right, self._all = np.full(panel.n_workers, k * s), np.full(panel.n_workers, k * k * s)
        if believed is not None:
            absent = believed.others
            self._right += np.trace(believed.shared)
            lent = believed.cells[self._own] - np.diag(believed.shared)[panel.row_label]
            self._right += panel.by_worker(lent)
            np.add.at(self._right, absent.worker, absent.counts[np.arange(len(absent.label)), absent.label])
            self._all += believed.totals.sum(axis=1)

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns the share of right votes of each worker as a table."""
        panel = self._panel
        right = panel.by_worker(statistics.counts[self._own]) + self._right
        total = panel.by_worker(statistics.counts.sum(axis=1)) + self._all
        self.coin = np.asarray(right / np.where(total > 0, total, 1.0), np.float64)
        priors, penalty = class_priors(statistics, self._prior)
        table = coin_table(panel, self.coin, self._others)
        penalty += _believed(self._right, self.coin) + _believed(self._all - self._right, (1.0 - self.coin) / self._others)
        return Parameters(priors, table, np.zeros((panel.n_workers, panel.n_labels)), self._prior, penalty)

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns that no E-step is hard."""
        return False


def _believed(votes: Floats, probability: Floats) -> float:
    """Returns the sum of pseudo-votes * log probability; no vote, no term."""
    with np.errstate(divide="ignore"):
        return float(np.where(votes > 0, votes * np.log(np.where(votes > 0, probability, 1.0)), 0.0).sum())
