"""Worker Agreement with Aggregate: votes weighted by how often their workers agree with the majority."""

from __future__ import annotations

from typing import Any

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification.majority_vote import decided, shares, weighted
from adjudge.crowdkit.frames import encode, first_best, pd, series_of

__all__ = ["Wawa"]


class SkillWeighted(BaseClassificationAggregator):
    """An aggregator whose fit gives skills, and whose predictions are votes weighted by them."""

    skills_: pd.Series[Any]
    probas_: pd.DataFrame

    def predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Return the label of every task of a frame, by the skills of the fit; each worker needs one.

        - `data`: columns task, worker and label.
        """
        self._apply(data)
        return self.labels_

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return each label's share of the skills of every task's votes; arguments as in `predict`."""
        self._apply(data)
        return self.probas_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        self.fit(data)
        return self.predict(data)

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the votes of a frame, and return each label's share of every task; arguments as in `fit`."""
        self.fit(data)
        return self.predict_proba(data)

    def _apply(self, data: pd.DataFrame) -> None:
        """Set labels and shares by the skills of the fit."""
        self._require("skills_")
        votes, weights = weighted(data, self.skills_)
        self.probas_, labels = shares(votes, weights)
        self.labels_ = decided(votes, labels)


class Wawa(SkillWeighted):
    """Majority vote, then skills as the share of a worker's votes that agree with it, then votes weighted by skill.

    A tie goes to the first of its labels in sorted order. Fitted: `skills_`; predicted: `labels_`, `probas_`.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> Wawa().fit(votes).skills_.to_dict()
    {'ann': 1.0, 'bob': 1.0, 'eve': 0.0}
    """

    def __init__(self) -> None:
        pass

    def fit(self, data: pd.DataFrame) -> Wawa:
        """Learn the skills of the workers of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        skills = votes.agreement(first_best(votes.scores()))
        self.skills_ = series_of(skills, votes.workers.ids, name="skill", index="worker")
        return self
