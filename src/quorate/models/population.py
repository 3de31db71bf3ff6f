"""The population prior: votes of the mean worker, lent to every worker, as many as the workers differ little.

Workers' confusions are measured against majority vote. The lent votes are spread over the true labels as these are
frequent: a rare label gets few, so that what majority vote says of it (little, and that blurred) cannot outweigh
the votes; see docs/decisions/012-priors.md for what other ways did to rare labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.knowledge import mean_worker
from quorate.statistics import Statistics
from quorate.votes import Panel

Floats = NDArray[np.float64]
AUTO = "auto"
MOST = 1e4  # votes lent where workers do not differ at all


class Population(NamedTuple):
    """Pseudo-votes that every worker gets."""

    votes: Floats  # [K given, K true]
    strength: float  # their number


def population(panel: Panel, statistics: Statistics, strength: float | str) -> Population:
    """Returns the votes lent to each worker, from the (hard) statistics of majority vote; "auto" finds their number."""
    mean, frequency = mean_worker(panel, statistics.counts), statistics.counts.sum(axis=0)
    number = estimated_strength(panel, statistics.counts) if isinstance(strength, str) else float(strength)
    return Population(number * mean * (frequency / max(float(frequency.sum()), 1.0)), number)


def estimated_strength(panel: Panel, counts: NDArray[np.int64] | Floats) -> float:
    """Returns the strength of a Dirichlet population of workers, by moments, from their votes by row, [rows, K].

    Of N votes on tasks of one true label, with shares x_l about a mean m_l, the sum over l of (x_l - m_l)^2 is
    expected to be V (1/N + (1 - 1/N) rho), where V is the sum of m_l (1 - m_l) and rho = 1 / (strength + 1). Summed
    over workers and true labels, weighted by N, this is solved for rho.
    """
    totals = np.asarray(panel.by_worker(counts), np.float64).reshape(panel.n_workers, panel.n_labels)
    mean = mean_worker(panel, counts)
    of_row = np.repeat(totals, np.diff(panel.worker_ptr), axis=0)
    share = counts / np.where(of_row > 0, of_row, 1.0)
    spread = (of_row * share * (share - 2.0 * mean[panel.row_label])).sum(axis=0) + totals.sum(axis=0) * (mean**2).sum(axis=0)
    by_chance = (mean * (1.0 - mean)).sum(axis=0)
    beyond = (spread - by_chance * (totals > 0).sum(axis=0)).sum()
    possible = (by_chance * np.maximum(totals - 1.0, 0.0).sum(axis=0)).sum()
    if possible <= 0 or beyond <= 0:
        return MOST if possible > 0 else 0.0
    rho = min(beyond / possible, 1.0)
    return float(min(1.0 / rho - 1.0, MOST))
