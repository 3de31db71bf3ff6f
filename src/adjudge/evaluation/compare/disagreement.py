"""Where models disagree: how often every two give the same label, and the tasks on which majority vote is overruled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.evaluation.compare.fits import Floats, Ints
from adjudge.io.ids import column, numbers

Labels = Mapping[str, NDArray[np.int32]]  # by model, [tasks] codes


def differing(labels: Labels) -> dict[tuple[str, str], int]:
    """Return on how many tasks every two models give different labels, in the order of the models.

    >>> differing({"mv": np.array([0, 1, 1], np.int32), "ds": np.array([0, 0, 1], np.int32)})
    {('mv', 'ds'): 1}
    """
    names = list(labels)
    return {(a, b): int((labels[a] != labels[b]).sum()) for n, a in enumerate(names) for b in names[n + 1 :]}


@dataclass(frozen=True, eq=False)
class Overruled:
    """Labels that models give against majority vote, one line per task and label, and the evidence for both."""

    task: Ints  # [n] codes
    label: Ints  # [n] what some models say instead
    said: Mapping[str, NDArray[np.bool_]]  # by model: whether it says so, [n]
    for_majority: Evidence
    for_label: Evidence

    def __len__(self) -> int:
        return len(self.task)

    @property
    def tasks(self) -> int:
        """The number of tasks on which some model differs from majority vote."""
        return len(np.unique(self.task))

    def frame(self, votes: Votes, majority: NDArray[np.int32], confidence: Floats, known: Ints) -> pl.DataFrame:
        """Return them as a frame, those with most models first, among them those with least `confidence`, [tasks].

        `majority` is what majority vote says and `known` the known labels, [tasks] codes; those below 0, or of K and above,
        have no name here, and are null.
        """
        every = np.array(list(self.said.values()))  # [models, n]
        order = np.lexsort((self.task, confidence[self.task], -every.sum(axis=0)))
        task = self.task[order]
        patterns, which = np.unique(every[:, order], axis=1, return_inverse=True)
        who = [", ".join(name for name, says in zip(self.said, pattern, strict=True) if says) for pattern in patterns.T]
        out = {
            "task": column(votes.tasks, task),
            "votes": np.diff(votes.task_ptr)[task],
            "majority": column(votes.labels, majority[task].astype(np.int64)),
            "majority_votes": self.for_majority.votes[order],
            "majority_accuracy": numbers(self.for_majority.accuracy[order]),
            "label": column(votes.labels, self.label[order]),
            "label_votes": self.for_label.votes[order],
            "label_accuracy": numbers(self.for_label.accuracy[order]),
            "models": pl.Series(who, dtype=pl.String).gather(pl.Series(which.ravel(), dtype=pl.UInt32)),
            "confidence": numbers(confidence[task]),
        }
        named = np.where((known >= 0) & (known < votes.n_labels), known, -1)
        truth = column(votes.labels).gather(pl.Series(np.where(named[task] < 0, 0, named[task])))
        hidden = pl.Series(named[task] < 0)
        return pl.DataFrame(out).with_columns(
            pl.col("majority_accuracy", "label_accuracy").fill_nan(None),
            known=pl.when(hidden).then(None).otherwise(truth) if len(task) else truth,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Who voted for a label of a task."""

    votes: Ints  # [n]
    accuracy: Floats  # [n] the mean expected accuracy of those who did; NaN where nobody did


def overruled(votes: Votes, labels: Labels, accuracy: Floats) -> Overruled:
    """Return where models differ from majority vote ("mv" among the `labels`); `accuracy` is that of workers, [workers]."""
    majority, k = labels["mv"], max(votes.n_labels, 1)
    keys = {name: _keys(chosen, majority, k) for name, chosen in labels.items()}
    lines = np.unique(np.concatenate(list(keys.values())))
    task, label = lines // k, lines % k
    return Overruled(
        task,
        label,
        {name: np.isin(lines, of_model) for name, of_model in keys.items()},
        _evidence(votes, task, majority[task].astype(np.int64), accuracy),
        _evidence(votes, task, label, accuracy),
    )


def _keys(chosen: NDArray[np.int32], majority: NDArray[np.int32], k: int) -> Ints:
    """Return task * K + label of the labels that a model gives against majority vote."""
    task = np.flatnonzero(chosen != majority)
    return task * k + chosen[task]


def _evidence(votes: Votes, task: Ints, label: Ints, accuracy: Floats) -> Evidence:
    """Return who voted for these labels of these tasks, [n] codes each."""
    size = np.diff(votes.task_ptr)[task]
    line = np.repeat(np.arange(len(task)), size)
    first = np.cumsum(size) - size
    row = votes.row[np.repeat(votes.task_ptr[:-1][task] - first, size) + np.arange(len(line))]
    given = votes.row_label[row] == label[line]
    line, worker = line[given], votes.row_worker()[row[given]]
    number = np.bincount(line, minlength=len(task))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(line, accuracy[worker], minlength=len(task)) / number
    return Evidence(number, mean)
