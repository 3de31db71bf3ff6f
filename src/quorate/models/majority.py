"""Majority vote: every vote counts the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quorate.engines import memory
from quorate.engines.base import Session
from quorate.engines.spark_wide import WidePasses
from quorate.fit import Fit
from quorate.io.spark_votes import WideVotes
from quorate.models.base import Model, Watch
from quorate.models.blocks import Beliefs, Confusions, FarFit
from quorate.models.confusion import class_priors, estimate
from quorate.params import Parameters
from quorate.prior import Prior
from quorate.votes import Panel


@dataclass(frozen=True, kw_only=True)
class MajorityVote(Model):
    """The most frequent label of each task; its confidence is its share of the votes.

    Workers' confusions are counted against the winners, so that they can be looked at all the same.

    >>> import quorate as qr
    >>> qr.MajorityVote().fit([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog")]).labels.row(0)
    ('t1', 'cat', 0.6666666666666666, 3, False)
    """

    name: ClassVar[str] = "mv"
    title: ClassVar[str] = "majority vote"
    learns: ClassVar[bool] = False
    room: ClassVar[memory.Room] = memory.MAJORITY
    scoring: ClassVar[str] = "heads"
    takes: ClassVar[frozenset[str]] = frozenset()

    def _fit(self, panel: Panel, session: Session, watch: Watch) -> Fit:
        outcome, statistics = session.majority()
        return Fit(outcome, estimate(session, panel, statistics), statistics, posterior=session.shares)

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        outcome, statistics = session.majority()
        priors, _ = class_priors(statistics, Prior())
        params = Parameters(priors, np.zeros((0, votes.n_labels)), np.zeros((0, votes.n_labels)))
        return FarFit(Fit(outcome, params, statistics), Confusions(Beliefs()), statistics, {})
