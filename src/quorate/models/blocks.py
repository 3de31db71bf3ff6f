"""A model's recipe over blocks of workers: every M-step of the family is separable by worker, once the priors are known.

The very recipes of `dawid_skene.py`, `one_coin.py` and `iwmv.py` run on the executors, each over the panel of one block.
On the driver the same recipe runs over no worker at all: it knows priors, stopping rule and phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.em import Recipe
from quorate.engines.spark_blocks import Block, Plan
from quorate.engines.spark_wide import FarParameters, FarStatistics, Shown, WidePasses
from quorate.fit import Fit
from quorate.models.confusion import estimate
from quorate.models.population import Moments, Population, lent, moments
from quorate.params import Parameters
from quorate.prior import ClassPrior, Prior, lay_out
from quorate.statistics import Statistics


class FarFit(NamedTuple):
    """A fit whose rows are on the executors, and what these are asked for afterwards."""

    fit: Fit
    plan: Plan  # that makes confusions of the counts in `counted`
    counted: Any  # statistics, or the parameters that were made of them
    columns: dict[str, Shown]  # of workers, beside votes and accuracy


class BlockRecipe(Protocol):
    """Makes the recipe of a model for a block; class priors are the driver's alone."""

    def __call__(self, block: Block, classes: ClassPrior | None = None) -> Recipe[Parameters, Statistics]:
        """Returns the recipe."""
        ...


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is believed of every worker alike; histories are the blocks' own."""

    smoothing: float = 0.0
    shared: NDArray[np.float64] | None = None  # [K given, K true]

    def on(self, block: Block, classes: ClassPrior | None = None) -> Prior:
        """Returns the prior over the rows of a block."""
        return Prior(self.smoothing, lay_out(block, self.shared, block.history), classes)


@dataclass(frozen=True, eq=False)
class Confusions:
    """A plan that makes confusions of counts: to be looked at, whatever labels come from."""

    beliefs: Beliefs

    def __call__(self, block: Block) -> _Confusing:
        """Returns the M-step over a block."""
        return _Confusing(block, self.beliefs.on(block))


class _Confusing(NamedTuple):
    block: Block
    prior: Prior

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns log pi of these statistics."""
        return estimate(self.block, self.block, statistics, self.prior)


class Spread:
    """What the loop asks for, where M-steps are taken by blocks."""

    def __init__(self, session: WidePasses, make: BlockRecipe, classes: ClassPrior | None) -> None:
        self._of = make(Block.nobody(session.labels_known), classes)
        self.name, self.tol, self.max_iter = self._of.name, self._of.tol, self._of.max_iter
        self.stop, self.starts_hard, self.is_likelihood = self._of.stop, self._of.starts_hard, self._of.is_likelihood
        self.next_is_hard = self._of.next_is_hard
        session.follow(make, seen=not self.is_likelihood)

    def m_step(self, statistics: Statistics) -> FarParameters:
        """Returns the priors of these statistics, and where the table is that blocks have made of them."""
        assert isinstance(statistics, FarStatistics)
        k = len(statistics.class_counts)
        here = self._of.m_step(Statistics(np.zeros((0, k)), statistics.class_counts))
        return FarParameters(
            here.priors,
            here.table,
            here.worker_totals,
            here.prior,
            here.penalty + statistics.penalty,
            here.uses_prior,
            here.shares,
            state=statistics.state,
            hard_classes=np.asarray(statistics.class_counts, np.int64) if statistics.hard else None,
        )


def far_population(session: WidePasses, strength: float | str) -> Population | None:
    """Returns the votes lent to each worker, from what all blocks say of majority vote; None where none are."""
    if strength == 0:
        return None
    return lent(reduce(Moments.plus, session.over_blocks(moments, session.start(hard=True))), strength)
