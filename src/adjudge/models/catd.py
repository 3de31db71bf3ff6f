"""CATD: weights that know how little few votes tell (Li et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, Number, Rules
from adjudge.engines import memory
from adjudge.engines.base import Session
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.weighted import WeightRecipe, weighted_fit


@dataclass(frozen=True, kw_only=True)
class CATD(Model):
    """Li et al. 2014, confidence-aware truth discovery: a worker's weight is 1 / an upper bound of its error.

    Of n votes of which e disagree with the current labels, the bound of a 1 - `alpha` interval gives the weight
    chi2(alpha / 2, n) / e, where chi2 is the quantile of the chi-square distribution: few votes weigh little, however good. A
    worker whose votes all agree has half a wrong vote instead of none. Labels start from majority vote, and the steps repeat
    until no label changes. The posterior of a label is its share of the weights of its task. `max_iter` bounds the iterations;
    `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.CATD().fit(votes)
    >>> result.workers["weight"].round(4).to_list()  # of ann and bob, who always agree, and eve, who never does
    [0.1013, 0.1013, 0.001]
    """

    name: ClassVar[str] = "catd"
    title: ClassVar[str] = "CATD"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True), "alpha": Number(least=1e-6, most=1)}
    stop: ClassVar[str] = "labels"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter
    alpha: float = 0.05

    def _fit(self, session: Session, known: Knowns) -> Fit:
        ended = em.run(session, WeightRecipe(self), replace(known.options, likelihood=False))
        return weighted_fit(self, session, ended.trace, converged=ended.converged)
