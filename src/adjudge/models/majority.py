"""Majority vote: every vote counts the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adjudge.data.fit import Fit
from adjudge.engines import memory
from adjudge.engines.base import Session
from adjudge.models.base import Knowns, Model
from adjudge.models.confusion import ConfusionRecipe


@dataclass(frozen=True, kw_only=True)
class MajorityVote(Model):
    """The most frequent label of each task; its posterior is its share of the votes.

    Workers' confusions are counted against the winners, so that they can be looked at all the same. `seed` and `ties`
    decide between labels with the same number of votes.

    >>> import adjudge as adj
    >>> result = adj.MajorityVote().fit([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog")])
    >>> result.posterior.rows()
    [('t1', 0.6666666666666666, 0.3333333333333333)]
    >>> result.labels.row(0)  # three votes on one task hardly tell whether their workers are any good
    ('t1', 'cat', 0.525, 3, False)
    """

    name: ClassVar[str] = "mv"
    title: ClassVar[str] = "majority vote"
    learns: ClassVar[bool] = False
    room: ClassVar[memory.Room] = memory.MAJORITY
    scoring: ClassVar[str] = "heads"
    takes: ClassVar[frozenset[str]] = frozenset()

    def _fit(self, session: Session, known: Knowns) -> Fit:
        outcome = session.majority()
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        return Fit(outcome, params, statistics)
