"""Iterative weighted majority voting: votes weighted by how often their worker agrees with the labels."""

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
class IWMV(Model):
    """Li and Yu 2014 (arXiv 1411.4086): weights K * accuracy - 1, until the labels stop changing.

    A worker's accuracy is the share of votes that agree with the current labels. The labels start from majority
    vote. One who is wrong more often than by chance has a negative weight. Confidence is the label's share of the
    positive weights. `max_iter` bounds the iterations; `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.IWMV().fit(votes)
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
        return weighted_fit(self, session, ended.trace, converged=ended.converged)
