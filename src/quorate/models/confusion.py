"""The M-step of Dawid-Skene: class priors and one confusion matrix a worker (the paper's equations 3, 4, 9, 10)."""

from __future__ import annotations

import numpy as np

from quorate.engines.base import Session
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.votes import Votes


def estimate(session: Session, votes: Votes, statistics: Statistics, smoothing: float = 0.0) -> Parameters:
    """Returns the parameters that maximise the (penalised) likelihood of these statistics."""
    table, totals = session.confusion_table(statistics.counts, smoothing)
    priors = statistics.class_counts / max(statistics.class_counts.sum(), 1.0)
    penalty = 0.0
    if smoothing > 0.0:
        k = votes.n_labels
        absent = np.log(smoothing) - np.log(totals + k * smoothing)  # cells of labels that a worker never gave
        cells = (k - np.diff(votes.worker_ptr))[:, None]
        penalty = smoothing * float(table.sum() + (absent * cells).sum())
    return Parameters(priors, table, totals, smoothing, penalty)
