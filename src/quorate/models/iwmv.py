"""Iterative weighted majority voting: votes weighted by how often their worker agrees with the labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines.base import Session
from quorate.fit import Fit
from quorate.models.base import COMMON, Model, Watch
from quorate.models.confusion import estimate
from quorate.params import Parameters
from quorate.settings import Number, Rules
from quorate.statistics import Statistics
from quorate.votes import Votes

CHUNK = 1 << 18  # tasks whose shares are computed at once


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
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True)}

    max_iter: int = 100

    def _fit(self, votes: Votes, session: Session, watch: Watch) -> Fit:
        recipe = _Plugged(self, votes)
        fit = em.run(session, recipe, watch.progress, likelihood=False, start=watch.start)
        weights = recipe.weights
        confidence = np.concatenate([np.zeros(0), *(c for _, c in _shares(votes, weights, fit.outcome.labels))])
        agreeing = session.recount(fit.outcome.labels)
        right = recipe.own_label(agreeing).astype(np.float64)
        outcome = replace(fit.outcome, confidence=confidence, right=right, log_likelihood=float("nan"))
        return Fit(
            outcome,
            estimate(session, votes, agreeing),
            fit.trace,
            fit.converged,
            posterior=lambda: np.concatenate(
                [np.zeros((0, votes.n_labels)), *(s for s, _ in _shares(votes, weights, outcome.labels))]
            ),
            worker_columns={"weight": weights},
        )


class _Plugged:
    """What the loop asks for: weights from agreement, until no label changes."""

    tol = 0.0
    stop = "labels"
    starts_hard = True
    is_likelihood = False

    def __init__(self, model: IWMV, votes: Votes) -> None:
        self.name = model.name
        self.max_iter = model.max_iter
        self.weights = np.zeros(votes.n_workers)
        self._votes = votes
        self._per_worker = self._by_worker(votes.votes_per_row())
        self._cells = np.arange(votes.n_rows), votes.row_label

    def own_label(self, statistics: Statistics) -> NDArray[np.int64] | NDArray[np.float64]:
        """Returns the votes of each row whose task has the label they gave, [rows]."""
        return statistics.counts[self._cells]

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns the table of weights: a vote speaks for its own label, with K * accuracy - 1."""
        k = self._votes.n_labels
        self.weights = k * self._by_worker(self.own_label(statistics)) / self._per_worker - 1.0
        table = np.zeros((self._votes.n_rows, k))
        table[self._cells] = np.repeat(self.weights, np.diff(self._votes.worker_ptr))
        priors = statistics.class_counts / max(statistics.class_counts.sum(), 1.0)
        return Parameters(priors, table, np.zeros((0, k)), uses_prior=False)

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns True: labels are always hard."""
        return True

    def _by_worker(self, by_row: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        starts = self._votes.worker_ptr[:-1]
        return np.add.reduceat(by_row, starts).astype(np.float64) if len(starts) else np.zeros(0)


def _shares(
    votes: Votes, weights: NDArray[np.float64], labels: NDArray[np.int32]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yields (each label's share of the positive weights, [tasks, K]; that of the winner, [tasks]), chunk by chunk.

    Where no label has a positive weight nothing speaks for any of them: all share alike with the winner.
    """
    k, by_row = votes.n_labels, np.repeat(weights, np.diff(votes.worker_ptr))
    for start in range(0, votes.n_tasks, CHUNK):
        ptr = votes.task_ptr[start : start + CHUNK + 1]
        tasks, row = len(ptr) - 1, votes.row[ptr[0] : ptr[-1]]
        cell = np.repeat(np.arange(tasks), np.diff(ptr)) * k + votes.row_label[row]
        scores = np.bincount(cell, weights=by_row[row], minlength=tasks * k).reshape(tasks, k)
        best = scores.max(axis=1, keepdims=True)
        positive = np.where(best > 0, np.maximum(scores, 0.0), scores == best)
        shares = positive / positive.sum(axis=1, keepdims=True)
        yield shares, shares[np.arange(tasks), labels[start : start + CHUNK]]
