"""One-coin Dawid-Skene: a worker is right with one probability, whatever the label; errors fall on any other label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines.base import Session
from quorate.engines.spark_blocks import Block
from quorate.engines.spark_tell import Column
from quorate.engines.spark_wide import Shown, WidePasses
from quorate.exact import unit_below, whole
from quorate.fit import Fit
from quorate.io.spark_votes import WideVotes
from quorate.models.base import Model, Watch
from quorate.models.blocks import Beliefs, Confusions, FarFit, Spread, far_population
from quorate.models.confusion import class_priors, estimate, followed
from quorate.models.dawid_skene import FAMILY, prior_of
from quorate.params import Parameters
from quorate.prior import ClassPrior, Prior
from quorate.settings import Choice, Rules
from quorate.statistics import Statistics
from quorate.transfer import coin_table, other_labels
from quorate.votes import Panel

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneCoin(Model):
    """Soft EM with a single accuracy per worker: where votes are too few for a whole confusion.

    Labels are equally likely beforehand, unless `class_priors="estimated"`; one that nobody gave, and neither gold nor
    priors nor a history name, is none. Priors that the caller gives are taken in the place of either.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = qr.OneCoin().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "one-coin"
    title: ClassVar[str] = "one-coin Dawid-Skene"
    rules: ClassVar[Rules] = {**FAMILY, "class_priors": Choice(("uniform", "estimated"))}
    scoring: ClassVar[str] = "coin"

    tol: float = 1e-4
    max_iter: int = 100
    smoothing: float = 0.0
    strength: float | str = 0.0
    stop: str = "priors"
    class_priors: str = "uniform"

    def _fit(self, panel: Panel, session: Session, watch: Watch) -> Fit:
        possible, given = watch.possible(panel, session), watch.classes
        watch = replace(watch, classes=self._classes(given, possible))
        prior, strength = prior_of(self, panel, session, watch)
        recipe = _Plugged(self, panel, prior, other_labels(possible))
        fit = em.run(session, recipe, watch.how)
        confusions = estimate(session, panel, fit.statistics, prior)  # to be looked at; labels come from the coins
        return replace(
            fit,
            params=replace(confusions, priors=_reported(fit.params, given)),
            posterior=lambda: session.posterior(fit.params),
            worker_columns={"skill": recipe.coin},
            skill=recipe.coin,
            scored_by=fit.params.priors,
            strength=strength,
        )

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        possible, given = watch.possible(votes, session), watch.classes
        lent = far_population(session, self.strength)
        beliefs = Beliefs(self.smoothing, None if lent is None else lent.votes)
        make = _Blocks(self, beliefs, other_labels(possible))
        fit = em.run(session, Spread(session, make, self._classes(given, possible)), watch.how)
        skill = {"skill": Shown(Column("coin", make), fit.params)}
        fit = replace(
            fit,
            params=replace(fit.params, priors=_reported(fit.params, given)),
            scored_by=fit.params.priors,
            strength=0.0 if lent is None else lent.strength,
        )
        return FarFit(fit, Confusions(beliefs), fit.statistics, skill)

    def _classes(self, given: ClassPrior | None, possible: NDArray[np.bool_]) -> ClassPrior | None:
        """Returns the class priors in force: the caller's, or equal ones for the labels there are, [K], or none: estimated."""
        if given is not None or self.class_priors == "estimated":
            return given
        return ClassPrior(possible / max(int(possible.sum()), 1))


def _reported(params: Parameters, given: ClassPrior | None) -> Floats:
    """Returns the priors to be told, [K]: those that the caller gave, else the shares of the labels among the tasks."""
    return params.label_shares if given is None else params.priors


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
        # Pseudo-votes that are right, and wrong ones: smoothing fills K x K cells of which K are right.
        self._right, self._wrong = np.full(panel.n_workers, k * s), np.full(panel.n_workers, k * (k - 1) * s)
        if believed is not None:  # in units that add up exactly, see `prior.lay_out`
            absent = believed.others
            right = np.full(panel.n_workers, np.trace(believed.shared))
            right += panel.by_worker(believed.cells[self._own] - np.diag(believed.shared)[panel.row_label])
            np.add.at(right, absent.worker, absent.counts[np.arange(len(absent.label)), absent.label])
            self._right += right
            self._wrong += believed.totals.sum(axis=1) - right

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns the share of right votes of each worker as a table."""
        panel = self._panel
        right, wrong = self._counted(statistics.counts)
        right, wrong = right + self._right, wrong + self._wrong
        total = right + wrong
        total = np.where(total > 0, total, 1.0)
        self.coin = right / total
        priors, penalty = class_priors(statistics, self._prior)
        table = coin_table(panel, self.coin, wrong / total, self._others)
        penalty += _believed(self._right, self.coin) + _believed(self._wrong, wrong / total / self._others)
        none = np.zeros((panel.n_workers, panel.n_labels))
        return Parameters(priors, table, none, self._prior, penalty, shares=followed(statistics, self._prior))

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns that no E-step is hard."""
        return False

    def _counted(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Returns the expected numbers of right and of wrong votes of each worker, [workers] each, of votes by row, [rows, K]."""
        units = whole(counts, unit_below(int(counts.sum()) + 1))  # these and what they leave are added apart: in any order
        rest = counts - units
        own, own_rest = units[self._own], rest[self._own]
        rest[self._own] = 0.0
        by_row = np.stack([own, own_rest, units.sum(axis=1) - own, rest.sum(axis=1)], axis=1)
        right, right_rest, wrong, wrong_rest = self._panel.by_worker(by_row).T
        return right + right_rest, wrong + wrong_rest


def _believed(votes: Floats, probability: Floats) -> float:
    """Returns the sum of pseudo-votes * log probability; no vote, no term."""
    with np.errstate(divide="ignore"):
        return float(np.where(votes > 0, votes * np.log(np.where(votes > 0, probability, 1.0)), 0.0).sum())
