"""Majority vote, by number of votes or by their workers' skills."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.utils import add_skills_to_data
from adjudge.crowdkit.frames import Encoded, Floats, encode, first_best, frame_of, labelled, pd, series_of

__all__ = ["MajorityVote"]


class MajorityVote(BaseClassificationAggregator):
    """The label with the most votes, or with the largest sum of its workers' skills.

    A tie goes to the first of its labels in sorted order. Fitted: `labels_`, `probas_` (shares of votes or of skills, a frame
    indexed by task with a column per label), `skills_` (the share of a worker's votes that agree with `labels_`).

    `on_missing_skill` says what happens to votes of workers without a skill: "error" raises; "ignore" drops them, and raises if
    a task is left without votes; "value" gives them `default_skill`. Both matter only where skills are given.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> MajorityVote().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    skills_: pd.Series[Any]
    probas_: pd.DataFrame

    def __init__(self, default_skill: float | None = None, on_missing_skill: str = "error") -> None:
        self.default_skill = default_skill
        self.on_missing_skill = on_missing_skill

    def fit(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> MajorityVote:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label.
        - `skills`: what a vote of each worker counts, by worker; 1 if not given.
        """
        votes, weights = weighted(data, skills, self.on_missing_skill, self.default_skill)
        self.probas_, labels = shares(votes, weights)
        self.labels_ = decided(votes, labels)
        self.skills_ = series_of(votes.agreement(labels), votes.workers.ids, name="skill", index="worker")
        return self

    def fit_predict_proba(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.DataFrame:
        """Fit the votes of a frame, and return each label's share of every task; arguments as in `fit`."""
        return self.fit(data, skills).probas_

    def fit_predict(self, data: pd.DataFrame, skills: pd.Series[Any] | None = None) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data, skills).labels_


def weighted(
    data: pd.DataFrame, skills: pd.Series[Any] | None, on_missing_skill: str = "error", default_skill: float | None = None
) -> tuple[Encoded, Floats | None]:
    """Return the votes of a frame, and the skill of every vote's worker, [votes]; None where no skills are given."""
    if skills is None:
        return encode(data), None
    with_skill = add_skills_to_data(labelled(data), skills, on_missing_skill, default_skill)
    return encode(with_skill), with_skill["skill"].to_numpy("float64")


def shares(votes: Encoded, weights: Floats | None) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return each label's share of the weights of every task, as a frame, and the position of the winner, [tasks].

    Where all votes of a task count nothing there is no share, NaN, and no winner, -1.
    """
    scores = votes.scores(weights)
    total = scores.sum(axis=1, keepdims=True)
    nothing = total == 0
    probas = np.where(nothing, np.nan, scores / np.where(nothing, 1.0, total))
    winner = np.where(nothing[:, 0], -1, first_best(scores))
    return frame_of(probas, votes.tasks.ids, votes.labels.ids, name="label"), winner


def decided(votes: Encoded, labels: NDArray[Any]) -> pd.Series[Any]:
    """Return the labels of all tasks, given by position; those below 0 are missing."""
    ids = votes.labels.ids
    if not len(labels):
        return pd.Series([], dtype=object, name="agg_label")
    found = ids.take(labels) if (labels >= 0).all() else ids.astype(object).take(labels, allow_fill=True, fill_value=np.nan)
    return series_of(found, votes.tasks.ids, name="agg_label", index="task")
