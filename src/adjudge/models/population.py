"""The population prior: pseudo-votes of the mean worker for every worker, more of them the less workers differ.

Workers' confusions are measured against majority vote. The pseudo-votes are distributed over the true labels by their
frequency: a rare label gets few, so that majority vote, which is least reliable there, cannot outweigh the votes.
docs/decisions/012-priors.md shows how other ways affected rare labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import given_votes
from adjudge.data.votes import Panel
from adjudge.engines.base import Gather, WorkerBlock

Floats = NDArray[np.float64]
AUTO = "auto"
MOST = 1e4  # votes lent where workers do not differ at all


class Moments(NamedTuple):
    """Sums over workers, from their votes by given and true label; those of two groups of workers add."""

    votes: Floats  # [K given, K true]
    squares: Floats  # [K true] of N x_l^2 over workers and given labels: x_l is the share of N votes on such tasks
    met: Floats  # [K true] workers that voted on such tasks
    beyond_first: Floats  # [K true] N - 1 of those

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """Return the sums over both groups."""
        return Moments(*(a + b for a, b in zip(self, other, strict=True)))

    def mean(self) -> Floats:
        """Return the confusion of all workers together, [K given, K true]."""
        total = self.votes.sum(axis=0)
        out: Floats = self.votes / np.where(total > 0, total, 1.0)
        return out


def moments(panel: Panel, counts: NDArray[np.int64] | Floats) -> Moments:
    """Return the sums over the workers of a panel, from their votes by row, [rows, K]."""
    k = panel.n_labels
    totals = np.asarray(panel.by_worker(counts), np.float64).reshape(panel.n_workers, k)
    of_row = np.repeat(totals, np.diff(panel.worker_ptr), axis=0)
    squares = (counts * (counts / np.where(of_row > 0, of_row, 1.0))).sum(axis=0)
    return Moments(
        given_votes(panel, counts),
        squares,
        (totals > 0).sum(axis=0).astype(np.float64),
        np.maximum(totals - 1.0, 0.0).sum(axis=0),
    )


class Population(NamedTuple):
    """Pseudo-votes that every worker gets."""

    votes: Floats  # [K given, K true]
    strength: float  # their number


def population(gather: Gather, strength: float | str) -> Population:
    """Return the pseudo-votes for each worker, from the (hard) counts of majority vote; "auto" estimates their number."""
    return lent(gather(_moments), strength)


def _moments(block: WorkerBlock, counts: Any) -> Moments:
    return moments(block.panel, counts)


def lent(sums: Moments, strength: float | str) -> Population:
    """Return the pseudo-votes for each worker, from sums over all workers.

    A label that was voted for but never won a majority has no measured confusion. It gets pseudo-votes in proportion to its
    votes, of a worker with the mean accuracy: without any, the shrunken labels would lose tasks to it, unanimous ones too.
    """
    won, given = sums.votes.sum(axis=0), sums.votes.sum(axis=1)
    never_won = (won == 0) & (given > 0)
    frequency = np.where(never_won, given, won)
    number = strength_of(sums) if isinstance(strength, str) else float(strength)
    mean = np.where(never_won, _equal_errors(sums.votes), sums.mean())
    return Population(number * mean * (frequency / max(float(frequency.sum()), 1.0)), number)


def _equal_errors(votes: Floats) -> Floats:
    """Return the confusion of a worker with the mean accuracy and equally likely errors, [K given, K true]."""
    k = len(votes)
    accuracy = float(np.trace(votes)) / max(float(votes.sum()), 1.0)
    out: Floats = np.full((k, k), (1.0 - accuracy) / max(k - 1, 1))
    np.fill_diagonal(out, accuracy)
    return out


def strength_of(sums: Moments) -> float:
    """Return the strength of a Dirichlet population of workers, by moments, from sums over all of them.

    Of N votes on tasks of one true label, with shares x_l about a mean m_l, the sum over l of (x_l - m_l)^2 is
    expected to be V (1/N + (1 - 1/N) rho), where V is the sum of m_l (1 - m_l) and rho = 1 / (strength + 1). Summed
    over workers and true labels, weighted by N, this is solved for rho.
    """
    mean = sums.mean()
    # The sum of N (x_l - m_l)^2: as m is the mean weighted by N, that of N x_l^2 less that of N m_l^2.
    spread = sums.squares - sums.votes.sum(axis=0) * (mean**2).sum(axis=0)
    by_chance = (mean * (1.0 - mean)).sum(axis=0)
    beyond = (spread - by_chance * sums.met).sum()
    possible = (by_chance * sums.beyond_first).sum()
    if possible <= 0 or beyond <= 0:
        return MOST if possible > 0 else 0.0
    rho = min(beyond / possible, 1.0)
    return float(min(1.0 / rho - 1.0, MOST))
