"""Gold majority vote: votes weighted by how often their workers were right on tasks whose label is known."""

from __future__ import annotations

from typing import Any

from adjudge.crowdkit.aggregation.classification.wawa import SkillWeighted
from adjudge.crowdkit.aggregation.utils import get_accuracy
from adjudge.crowdkit.frames import labelled, pd

__all__ = ["GoldMajorityVote"]


class GoldMajorityVote(SkillWeighted):
    """Skills are the share of a worker's votes that are right on gold tasks; labels are votes weighted by skill.

    Every worker needs a vote on a gold task. A tie goes to the first of its labels in sorted order. Fitted: `skills_`;
    predicted: `labels_`, `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t2", "t2"], "worker": ["ann", "bob", "ann", "bob"], "label": [*"xyxy"]})
    >>> GoldMajorityVote().fit_predict(votes, pd.Series({"t1": "y"})).to_dict()
    {'t1': 'y', 't2': 'y'}
    """

    def __init__(self) -> None:
        pass

    def fit(self, data: pd.DataFrame, true_labels: pd.Series[Any]) -> GoldMajorityVote:  # type: ignore[override]
        """Learn the skills of the workers of a frame, and return self.

        - `data`: columns task, worker and label.
        - `true_labels`: the labels of gold tasks, by task.
        """
        self.skills_ = get_accuracy(labelled(data), true_labels, by="worker")
        return self

    def fit_predict(self, data: pd.DataFrame, true_labels: pd.Series[Any]) -> pd.Series[Any]:  # type: ignore[override]
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data, true_labels).predict(data)

    def fit_predict_proba(self, data: pd.DataFrame, true_labels: pd.Series[Any]) -> pd.DataFrame:  # type: ignore[override]
        """Fit the votes of a frame, and return each label's share of every task; arguments as in `fit`."""
        return self.fit(data, true_labels).predict_proba(data)
