"""KOS: messages between tasks and workers, for two labels (Karger, Oh and Shah 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.frames import Encoded, Floats, encode, pd, series_of

__all__ = ["KOS"]

ROUNDING = 1e-12  # a sum of messages this small beside its terms is a tie


class KOS(BaseClassificationAggregator):
    """A task tells each of its workers what the others say of it; a worker tells each of its tasks how reliable it is elsewhere.

    The messages start from normal numbers of mean 1 and variance 1, drawn in the order of the rows by `random_state`, and
    are sent `n_iter` times. A tie goes to the first of the two labels in sorted order. Fitted: `labels_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": [*"abcabc"], "label": ["x", "x", "y", "y", "y", "x"]})
    >>> KOS().fit_predict(votes).to_dict()
    {1: 'x', 2: 'y'}
    """

    def __init__(self, n_iter: int = 100, random_state: int = 0) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> KOS:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label; two labels.
        """
        votes = encode(data)
        if len(votes) and len(votes.labels) != 2:
            raise ValueError(f"KOS aggregation method is for binary classification only: there are {len(votes.labels)} labels")
        tasks = votes.tasks
        scores, size = self._scores(votes)
        second = scores < -ROUNDING * size
        best = votes.labels.ids.take(second.astype(np.int64))
        self.labels_ = series_of(best, tasks.ids, name="agg_label", index="task")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data).labels_

    def _scores(self, votes: Encoded) -> tuple[Floats, Floats]:
        """Return how far the messages favour the first label, and how much they say in all, [tasks] each."""
        task, worker = votes.tasks.codes, votes.workers.codes
        n, m = len(votes.tasks), len(votes.workers)
        sign = 1.0 - 2.0 * votes.labels.codes
        state: Any = self.random_state
        source = state if hasattr(state, "normal") else np.random.RandomState(state)
        to_task = source.normal(loc=1, scale=1, size=len(votes))  # of every vote
        for _ in range(self.n_iter):
            said = sign * to_task
            to_worker = np.bincount(task, said, n)[task] - said
            said = sign * to_worker
            to_task = np.bincount(worker, said, m)[worker] - said
            largest = np.abs(to_task).max(initial=0.0)
            if largest > 0:  # messages grow without bound; only their signs and ratios matter
                to_task = np.ldexp(to_task, -int(np.frexp(largest)[1]))
        scores: Floats = np.bincount(task, sign * to_task, n).astype(np.float64)
        return scores, np.bincount(task, np.abs(to_task), n).astype(np.float64)
