"""Several labels per task: each label is a question of yes and no, aggregated on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification.majority_vote import MajorityVote
from adjudge.crowdkit.aggregation.utils import clone_aggregator
from adjudge.crowdkit.frames import COLUMNS, in_order, pd
from adjudge.errors import warn_abstentions

__all__ = ["BinaryRelevance"]


class BinaryRelevance(BaseClassificationAggregator):
    """Every label is aggregated as yes (1) or no (0) by a copy of `base_aggregator`, majority vote by default.

    Fitted: `labels_`, a list of labels for every task, in sorted order; `aggregators_`, the fitted copy for every label.

    >>> import pandas as pd
    >>> labels = [["house", "tree"], ["house"], ["house", "tree"]]
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": labels})
    >>> BinaryRelevance().fit_predict(votes).to_dict()
    {'t1': ['house', 'tree']}
    """

    aggregators_: dict[Any, BaseClassificationAggregator]

    def __init__(self, base_aggregator: BaseClassificationAggregator | None = None) -> None:
        base_aggregator = MajorityVote() if base_aggregator is None else base_aggregator
        if not isinstance(base_aggregator, BaseClassificationAggregator):
            raise AssertionError(f"base_aggregator is {base_aggregator!r}: give a classification aggregator, as MajorityVote()")
        self.base_aggregator = base_aggregator

    def fit(self, data: pd.DataFrame) -> BinaryRelevance:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label, whose values are collections of labels: an empty one says that there is none.
        """
        votes = data[COLUMNS]
        missing = votes["label"].map(_is_missing).to_numpy("bool") if len(votes) else np.zeros(0, np.bool_)
        if missing.any():
            warn_abstentions(int(missing.sum()), len(votes))
            votes = votes[~missing]
        given = votes["label"].map(set) if len(votes) else votes["label"]
        names = pd.Index(list(set().union(*given)), dtype=object) if len(votes) else pd.Index([])
        self.aggregators_ = {}
        chosen: dict[Any, list[Any]] = {}
        for name in names[in_order(names)]:
            yes = given.map(lambda one, name=name: int(name in one))
            fitted = clone_aggregator(self.base_aggregator)
            labels = fitted.fit_predict(votes.assign(label=yes))
            self.aggregators_[name] = fitted
            for task, label in labels.items():
                chosen.setdefault(task, []).extend([name] if label == 1 else [])
        if not len(names) and len(votes):
            chosen = {task: [] for task in votes["task"].drop_duplicates().sort_values()}
        index = pd.Index(list(chosen), name="task" if chosen else None)
        self.labels_ = pd.Series(list(chosen.values()), index=index, dtype=object if chosen else float)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the labels of every task; arguments as in `fit`."""
        return self.fit(data).labels_


def _is_missing(value: object) -> bool:
    """Return whether a collection of labels is missing."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
