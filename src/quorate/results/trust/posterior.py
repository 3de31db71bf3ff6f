"""Posteriors as sure as they are right: every vote judged by what its worker said elsewhere.

EM counts a task's votes into the confusions that then judge these very votes; with few votes a worker it believes
itself. Here a worker's confusion is lent votes of the mean worker, and for each task it is counted without that
task: the collapsed posterior of a Dirichlet population (the zero-order approximation known from topic models).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.results.trust.ballots import CELLS, Ballots, Piece

Floats = NDArray[np.float64]
Posterior = NDArray[np.float32]
LENT: Final = 10.0  # votes of the mean worker lent to every worker, for each true label
ALIKE: Final = 300.0  # votes by which the mean worker is held to be right equally often under every true label
MOST: Final = 30  # passes
STILL: Final = 2e-3  # change of the class shares below which passes end
LEAST: Final = 3  # passes before they may end
TINY: Final = np.float32(1e-6)


@dataclass(frozen=True, eq=False)
class Belief:
    """What posteriors say of workers and labels. Labels come first: passes go over the votes label by label."""

    posterior: Posterior  # [K, tasks]
    priors: Floats  # [K] share of the tasks, with one task lent to every label that was given; 0 for the others
    counts: Floats | None  # [K, rows] expected votes of a row on tasks of this true label; None where they are too many
    own: Floats  # [rows] the same for the label that the row gives
    totals: Floats  # [K, workers]
    mean: Floats  # [K true, K given] the mean worker's confusion

    def row_counts(self, ballots: Ballots, c: int) -> Floats:
        """Return the expected votes of each row on tasks of true label c, [rows]; counted again where they were too many."""
        return counted(ballots, self.posterior[c]) if self.counts is None else self.counts[c]

    def right(self, ballots: Ballots, c: int) -> Floats:
        """Return each worker's probability of a right answer under true label c, [workers], with the votes lent."""
        rows = ballots.rows_of(c)
        out = np.full(self.totals.shape[1], LENT * self.mean[c, c])
        out[ballots.row_worker[rows]] += self.own[rows]
        out /= self.totals[c] + LENT
        return out


def of_labels(labels: NDArray[np.int32], k: int) -> Posterior:
    """Return the posterior that is sure of these labels, [K, tasks].

    >>> of_labels(np.array([1, 0, 1], np.int32), 2).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    out = np.zeros((k, len(labels)), np.float32)
    out[labels, np.arange(len(labels))] = 1.0
    return out


def settle(ballots: Ballots, start: Posterior, known: NDArray[np.bool_] | None = None, *, in_place: bool = False) -> Posterior:
    """Return the posterior, [K, tasks], that passes from `start`, [K, tasks], settle at; `known` tasks, [tasks], keep theirs.

    `in_place` uses `start` up: posteriors of many labels are large.
    """
    now = start if in_place else start.copy()
    given = None if known is None else start[:, known]
    for n in range(MOST):
        shares = now.sum(axis=1, dtype=np.float64)
        judge_tasks(ballots, tally(ballots, now), now)
        if known is not None:
            now[:, known] = given
        change = np.abs(now.sum(axis=1, dtype=np.float64) - shares).sum() / max(ballots.n_tasks, 1)
        if change < STILL and n + 1 >= LEAST:
            break
    return now


def tally(ballots: Ballots, posterior: Posterior) -> Belief:
    """Return what this posterior, [K, tasks], says of workers and labels."""
    panel, k = ballots.panel, ballots.panel.n_labels
    counts = np.empty((k, panel.n_rows)) if k * panel.n_rows <= CELLS else None
    pool, totals, own = np.empty((k, k)), np.empty((k, panel.n_workers)), np.empty(panel.n_rows)
    for c in range(k):
        of_rows = counted(ballots, posterior[c])
        pool[c] = np.bincount(panel.row_label, of_rows, minlength=k)
        totals[c] = np.add.reduceat(of_rows, panel.worker_ptr[:-1])
        rows = ballots.rows_of(c)
        own[rows] = of_rows[rows]
        if counts is not None:
            counts[c] = of_rows
    given = np.bincount(panel.row_label, minlength=k) > 0
    tasks = (posterior.sum(axis=1, dtype=np.float64) + 1.0) * given
    return Belief(posterior, tasks / max(float(tasks.sum()), 1.0), counts, own, totals, mean_worker(pool))


def counted(ballots: Ballots, of_label: Posterior) -> Floats:
    """Return the expected votes of each row on tasks of one true label, [rows], from its probabilities, [tasks]."""
    return np.bincount(ballots.row, ballots.spread(of_label), minlength=ballots.panel.n_rows).astype(np.float64, copy=False)


def mean_worker(pool: Floats) -> Floats:
    """Return the confusion of the mean worker, [K true, K given], from all votes by true and given label, [K, K].

    With few votes a task, whether one label is rarer or one is harder can hardly be told: the chance to be right is
    held to be alike under all true labels, as strongly as `ALIKE` votes.
    """
    k, right = len(pool), np.diagonal(pool)
    errors = (pool + 0.3 / k) * (1.0 - np.eye(k))
    errors /= np.maximum(errors.sum(axis=1, keepdims=True), 1e-12)
    overall = (right.sum() + 1.0) / (pool.sum() + 1.5)
    chance = (right + ALIKE * overall) / (pool.sum(axis=1) + ALIKE) if k > 1 else np.ones(1)
    mean: Floats = errors * (1.0 - chance)[:, None] + np.diag(chance)
    return mean


class OwnVoteOut:
    """The probability of votes under one true label, each judged by its worker's other votes."""

    def __init__(self, ballots: Ballots, belief: Belief) -> None:
        self._ballots = ballots
        self._belief = belief
        self._lines: dict[int, tuple[Posterior, Posterior]] = {}  # of a label: [rows] and [workers]

    def blocks(self, labels: Iterable[int]) -> Iterator[list[int]]:
        """Yield some labels after the other, whose votes can then be judged: as many as fit at once."""
        every, panel, belief = list(labels), self._ballots.panel, self._belief
        size = max(CELLS // max(panel.n_rows + panel.n_workers, 1), 1)
        for start in range(0, len(every), size):
            block = every[start : start + size]
            self._lines = {
                c: (
                    (belief.row_counts(self._ballots, c) + LENT * belief.mean[c][panel.row_label]).astype(np.float32),
                    (belief.totals[c] + LENT).astype(np.float32),
                )
                for c in block
            }
            yield block

    def chance(self, c: int, piece: Piece) -> tuple[Posterior, Posterior]:
        """Return (posterior of c; probability of the vote under c, without its task) of the votes of a piece, [votes] each."""
        top, bottom = self._lines[c]
        own = np.repeat(self._belief.posterior[c, piece.tasks], piece.per_task)
        return own, _ratio(top.take(piece.row), bottom.take(piece.worker), own)

    def chance_given(self, piece: Piece) -> tuple[Posterior, Posterior]:
        """Return the same with the label that each vote gives in the place of c."""
        belief = self._belief
        task = np.repeat(np.arange(piece.tasks.start, piece.tasks.stop), piece.per_task)
        own = belief.posterior[piece.label, task]
        top = belief.own[piece.row] + LENT * np.diagonal(belief.mean)[piece.label]
        bottom = belief.totals[piece.label, piece.worker] + LENT
        return own, _ratio(top.astype(np.float32), bottom.astype(np.float32), own)


def _ratio(top: Posterior, bottom: Posterior, own: Posterior) -> Posterior:
    """Return (top - own) / (bottom - own), [votes], in the place of `top`."""
    top -= own
    bottom -= own
    np.maximum(top, TINY, out=top)
    np.maximum(bottom, TINY, out=bottom)
    top /= bottom
    return top


def judge_tasks(ballots: Ballots, belief: Belief, out: Posterior) -> None:
    """Write the posterior under a belief to OUT [K, tasks], which may be the belief's own."""
    judge, given = OwnVoteOut(ballots, belief), belief.priors > 0
    out[~given] = -np.inf
    for block in judge.blocks(np.flatnonzero(given).tolist()):
        for piece in ballots.pieces():
            for c in block:  # of the posterior, only that of c is read here, and only that of c is written
                _, chance = judge.chance(c, piece)
                scores = np.add.reduceat(np.log(chance, out=chance), piece.starts)
                out[c, piece.tasks] = scores + np.float32(np.log(belief.priors[c]))
    size = max(CELLS // max(len(given), 1), 1)
    for start in range(0, ballots.n_tasks, size):
        some = out[:, start : start + size].copy()
        some -= some.max(axis=0)
        np.exp(some, out=some)
        some /= some.sum(axis=0)
        out[:, start : start + size] = some
