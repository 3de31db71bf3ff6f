"""The M-step of Dawid-Skene: class priors and one confusion matrix a worker (the paper's equations 3, 4, 9, 10)."""

from __future__ import annotations

import numpy as np

from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.votes import Votes


def estimate(votes: Votes, statistics: Statistics, smoothing: float = 0.0) -> Parameters:
    """Returns the parameters that maximise the (penalised) likelihood of these statistics.

    A worker who never met true label c has pi = 0 for every answer under c, unless smoothed.
    """
    k = votes.n_labels
    counts = statistics.counts
    starts = votes.worker_ptr[:-1]
    totals = np.add.reduceat(counts, starts, axis=0) if len(starts) else np.zeros((0, k))
    rows_of_worker = np.diff(votes.worker_ptr)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(counts + smoothing)
        norm = np.log(totals + k * smoothing)
        table -= np.repeat(norm, rows_of_worker, axis=0)
    table[np.isnan(table)] = -np.inf  # 0 / 0
    priors = statistics.class_counts / max(statistics.class_counts.sum(), 1.0)
    penalty = 0.0
    if smoothing > 0.0:
        absent = np.log(smoothing) - norm  # cells of labels that a worker never gave
        penalty = smoothing * float(table.sum() + (absent * (k - rows_of_worker)[:, None]).sum())
    return Parameters(priors, table, totals, smoothing, penalty)
