"""Votes of different weight: what share of the weights speaks for each label."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quorate.votes import Votes

CHUNK = 1 << 18  # tasks whose shares are computed at once
Floats = NDArray[np.float64]


def shares_of(votes: Votes, weights: Floats, labels: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Returns each label's share of the positive weights of a task, [tasks, K], and that of its label, [tasks].

    `weights` are the workers', [workers].
    """
    parts = list(_shares(votes, weights, labels))
    return (
        np.concatenate([np.zeros((0, votes.n_labels)), *(s for s, _ in parts)]),
        np.concatenate([np.zeros(0), *(c for _, c in parts)]),
    )


def _shares(votes: Votes, weights: Floats, labels: NDArray[np.int32]) -> Iterator[tuple[Floats, Floats]]:
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
