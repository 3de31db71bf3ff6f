"""Drop the votes of workers who always answer the same."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from adjudge.crowdkit.frames import pd
from adjudge.crowdkit.metrics.data import uncertainty

__all__ = ["entropy_threshold"]


def entropy_threshold(
    answers: pd.DataFrame,
    workers_skills: pd.Series[Any] | None = None,
    percentile: int = 10,
    min_answers: int = 2,
) -> pd.DataFrame:
    """Return the votes without those of workers whose labels have an entropy at or below a percentile of all workers'.

    - `answers`: columns task, worker and label.
    - `workers_skills`: by worker; see `uncertainty`.
    - `percentile`: 0 to 100.
    - `min_answers`: a worker with fewer votes stays, and does not count for the percentile.

    >>> votes = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*"vwvw"], "label": [*"xxyx"]})
    >>> entropy_threshold(votes)["worker"].to_list()
    ['v', 'v']
    """
    number = answers["worker"].value_counts()
    judged = number.index[number >= min_answers]
    of_worker = cast("pd.Series[Any]", uncertainty(answers, workers_skills, compute_by="worker", aggregate=False))
    of_judged = of_worker[of_worker.index.isin(judged)]
    if not len(of_judged):
        return answers
    limit = np.percentile(of_judged.to_numpy("float64"), percentile)
    return answers[~answers["worker"].isin(of_judged.index[of_judged <= limit])]
