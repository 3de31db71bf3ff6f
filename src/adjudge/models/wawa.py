"""Wawa: votes weighted by how often their worker agrees with majority vote."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from adjudge.data.fit import Fit
from adjudge.engines import memory
from adjudge.engines.base import Session
from adjudge.models import em
from adjudge.models.base import Knowns, Model
from adjudge.models.weighted import WeightRecipe, weighted_fit


@dataclass(frozen=True, kw_only=True)
class Wawa(Model):
    """Worker agreement with aggregate: majority vote, then a second one in which a vote weighs what its worker agrees with it.

    A worker's weight is the share of votes that agree with majority vote. The posterior of a label is its share of the weights
    of its task. `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.Wawa().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', 0.0)]
    """

    name: ClassVar[str] = "wawa"
    title: ClassVar[str] = "Wawa"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    def _fit(self, session: Session, known: Knowns) -> Fit:
        ended = em.run(session, OnceRecipe(self), replace(known.options, likelihood=False))
        return weighted_fit(self, session, ended.trace)


class OnceRecipe(WeightRecipe):
    """Weights from agreement, once."""

    @property
    def is_bounded(self) -> bool:
        """Return True: one iteration is the method."""
        return True
