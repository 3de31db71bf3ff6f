"""Numeric scores as a model of labels, for comparisons: the score of each task, and how likely each label is next to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjudge.data.grades import grades_of
from adjudge.data.votes import Votes
from adjudge.evaluation.scores import fit as fitting
from adjudge.evaluation.scores.truth import DEFAULT_VALIDITY, above, panel_deviation
from adjudge.kernels.scores_reference import Floats, ScoreArrays


@dataclass(frozen=True)
class RoundedScores:
    """Labels that are numbers, merged as scores are and rounded to the nearest label."""

    name: ClassVar[str] = "scores"

    def fit(self, votes: Votes) -> Floats:
        """Return the probability of every label, [tasks, labels]."""
        grades = grades_of(votes.labels.texts(), is_declared=True)
        value, order = grades.values, grades.codes
        y = value[votes.row_label[votes.row]]
        judge = votes.row_worker()[votes.row].astype(np.int32)
        found = fitting.fit(ScoreArrays(votes.task_ptr, judge, np.ascontiguousarray(y)), votes.n_workers)
        sd = panel_deviation(np.nan_to_num(found.variance), found.spread, DEFAULT_VALIDITY)
        middles = (value[order][1:] + value[order][:-1]) / 2.0
        passed = np.stack([above(found.score, sd, middle) for middle in middles], axis=1)
        ends = np.ones((len(found.score), 1)), np.zeros((len(found.score), 1))
        shares = np.empty((len(found.score), len(value)))
        shares[:, order] = -np.diff(np.concatenate([ends[0], passed, ends[1]], axis=1), axis=1)
        nearest = np.argmin(np.abs(found.score[:, None] - value), axis=1)
        likeliest = shares.argmax(axis=1)
        task = np.arange(len(shares))
        shares[task, nearest], shares[task, likeliest] = shares[task, likeliest], shares[task, nearest]
        return np.maximum(shares, 0.0)
