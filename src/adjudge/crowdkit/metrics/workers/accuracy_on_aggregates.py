"""How often votes are the aggregated label."""

from __future__ import annotations

from typing import Any

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification.majority_vote import MajorityVote
from adjudge.crowdkit.aggregation.utils import get_accuracy
from adjudge.crowdkit.frames import COLUMNS, pd

__all__ = ["accuracy_on_aggregates"]

_MAJORITY = MajorityVote()  # says that no aggregator was given: None is a choice, too


def accuracy_on_aggregates(
    answers: pd.DataFrame,
    aggregator: BaseClassificationAggregator | None = _MAJORITY,
    aggregates: pd.Series[Any] | None = None,
    by: str | None = None,
) -> float | pd.Series[Any]:
    """Return the share of votes that are the aggregated label of their task.

    - `answers`: columns task, worker and label.
    - `aggregator`: gives the labels, if none are given; majority vote by default.
    - `aggregates`: labels by task.
    - `by`: a column, as "worker": a share for each of its values. Without it, one number.

    >>> accuracy_on_aggregates(pd.DataFrame({"task": [1, 1, 1], "worker": [*"uvw"], "label": [*"xxy"]}), by="worker").to_dict()
    {'u': 1.0, 'v': 1.0, 'w': 0.0}
    """
    if aggregates is None:
        if aggregator is None:
            raise AssertionError("One of aggregator or aggregates should be not None")
        used = MajorityVote() if aggregator is _MAJORITY else aggregator
        aggregates = used.fit_predict(answers)
    votes = answers[COLUMNS]
    found: float | pd.Series[Any] = get_accuracy(votes[votes["label"].notna()], aggregates, by=by)
    return found
