"""Several labels per task: each label is aggregated on its own as a yes/no question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification import MajorityVote
from adjudge.crowdkit.aggregation.utils import clone_aggregator
from adjudge.crowdkit.frames import COLUMNS, pd, sort_order
from adjudge.errors import warn_abstentions

__all__ = ["BinaryRelevance"]


@dataclass(eq=False)
class BinaryRelevance(BaseClassificationAggregator):
    """Every label is aggregated as yes (1) or no (0) by a copy of `base_aggregator`, majority vote by default.

    Fitted: `labels_`, a sorted list of labels per task, and `aggregators_`, the fitted copy for every label.

    Examples
    --------
    >>> import pandas as pd
    >>> labels = [["house", "tree"], ["house"], ["house", "tree"]]
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": labels})
    >>> BinaryRelevance().fit_predict(votes).to_dict()
    {'t1': ['house', 'tree']}

    """

    base_aggregator: BaseClassificationAggregator = field(default_factory=MajorityVote)

    def __post_init__(self) -> None:
        if not isinstance(self.base_aggregator, BaseClassificationAggregator):
            raise AssertionError(
                f"base_aggregator is {self.base_aggregator!r}: give a classification aggregator, such as MajorityVote()"
            )

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the votes of a frame and return self.

        Parameters
        ----------
        data : pd.DataFrame
            Columns task, worker and label; a label is a collection of labels, and an empty one means none of them.

        Returns
        -------
        Self
            Fit the votes of a frame and return self.

        """
        votes = data[COLUMNS]
        missing = np.array([_is_missing(value) for value in votes["label"]], np.bool_)
        if missing.any():
            warn_abstentions(int(missing.sum()), len(votes))
            votes = votes[~missing]
        given = [set(labels) for labels in votes["label"]]
        names = pd.Index(list(set().union(*given)), dtype=object)
        self.aggregators_: dict[Any, BaseClassificationAggregator] = {}
        chosen: dict[Any, list[Any]] = {task: [] for task in votes["task"].drop_duplicates().sort_values()}
        for name in names[sort_order(names)]:
            self.aggregators_[name] = clone_aggregator(self.base_aggregator)
            labels = self.aggregators_[name].fit_predict(votes.assign(label=[int(name in labels) for labels in given]))
            for task in labels.index[labels == 1]:
                chosen[task].append(name)
        index = pd.Index(list(chosen), name="task" if chosen else None)
        self.labels_ = pd.Series(list(chosen.values()), index=index, dtype=object if chosen else float)
        return self


def _is_missing(value: object) -> bool:
    """Return whether a collection of labels is missing."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
