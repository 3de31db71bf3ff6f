"""Gold majority vote: votes weighted by how often their worker was right on tasks whose label is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.options import Place
from adjudge.engines import memory
from adjudge.engines.base import Session, WorkerBlock
from adjudge.models.base import Knowns, Model
from adjudge.models.weighted import before, weigh_by, weighted_fit
from adjudge.results.worker_weights import LEAST

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GoldMajorityVote(Model):
    """Majority vote in which a vote weighs its worker's share of right votes on gold tasks; nothing else is learned.

    A worker without votes on gold tasks (or in a history) gets the weight of the mean worker: the share of right votes among
    all votes on gold. One who was never right gets a millionth, so that such votes decide only where there are no others. The
    posterior of a label is its share of the weights of its task. `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "eve", "cat"), ("t2", "new", "cat")]
    >>> result = adj.GoldMajorityVote().fit(votes, gold={"t1": "cat"})
    >>> result.workers.select("worker", "weight", "gold_votes").rows()
    [('ann', 1.0, 1.0), ('eve', 1e-06, 1.0), ('new', 0.5, 0.0)]
    """

    name: ClassVar[str] = "goldmv"
    title: ClassVar[str] = "gold majority vote"
    scoring: ClassVar[str] = "weight"
    needs_gold: ClassVar[bool] = True
    place: ClassVar[Place] = "process"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history"})
    is_likelihood: ClassVar[bool] = False

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible = known.possible(session)
        session.start(hard=True)
        right, total = session.gather(_agreed) - session.gather(_agreed, gold=False) + session.gather(before)
        mean = right.sum() / total.sum() if total.sum() > 0 else 1.0
        weights = np.maximum(np.where(total > 0, right / np.where(total > 0, total, 1.0), mean), LEAST)
        weigh_by(session, weights, possible)
        return weighted_fit(self, session, columns={"weight": weights, "gold_votes": total})


def _agreed(block: WorkerBlock, counts: Any) -> Floats:
    """Return how many votes of each worker agree with the labels, and how many there are, [2, workers]."""
    panel = block.panel
    by_row = np.stack([counts[np.arange(panel.n_rows), panel.row_label], counts.sum(axis=1)], axis=1)
    return np.asarray(panel.by_worker(by_row).T, np.float64)
