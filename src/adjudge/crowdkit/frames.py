"""pandas, which this package alone of all needs at import, and votes of its frames as codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.errors import InputError, shown, warn_abstentions

try:
    import pandas as pd
except ImportError as error:  # pragma: no cover (tests have pandas)
    raise ImportError("adjudge.crowdkit takes and returns pandas frames: pip install 'adjudge[crowdkit]'") from error

__all__ = ["Codes", "Encoded", "encode", "first_best", "frame_of", "in_order", "labelled", "pd", "series_of"]

Floats = NDArray[np.float64]
COLUMNS = ["task", "worker", "label"]
TIE = 1e-9  # figures this close to the best, relative to it, are tied


@dataclass(frozen=True, eq=False)
class Codes:
    """A column as numbers: the ids in sorted order, and for every vote the position of its id."""

    ids: pd.Index[Any]  # sorted
    codes: NDArray[np.int64]  # [votes]
    seen: NDArray[np.int64]  # [ids] positions of the ids in order of their first votes

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def by_first_vote(self) -> NDArray[np.int64]:
        """The rank of each id by its first vote, [ids]."""
        out = np.empty(len(self.seen), np.int64)
        out[self.seen] = np.arange(len(self.seen))
        return out

    @property
    def in_order_of_names(self) -> bool:
        """Whether the ids first appear in sorted order."""
        return bool((np.diff(self.seen) > 0).all())


@dataclass(frozen=True, eq=False)
class Encoded:
    """Votes of a frame as codes; votes without a label are gone."""

    tasks: Codes
    workers: Codes
    labels: Codes  # their ids may have labels that only gold names

    def __len__(self) -> int:
        return len(self.tasks.codes)

    def scores(self, weights: Floats | None = None) -> Floats:
        """Return the sum of the weights, [votes], of each label's votes, [tasks, K]; without weights their number."""
        k = len(self.labels)
        cell = self.tasks.codes * k + self.labels.codes
        return np.bincount(cell, weights, minlength=len(self.tasks) * k).astype(np.float64).reshape(len(self.tasks), k)

    def agreement(self, labels: NDArray[np.int64]) -> Floats:
        """Return the share of each worker's votes, [workers], that are the labels of their tasks, [tasks].

        A vote that a worker repeats on a task counts once.
        """
        task, worker, label = self._distinct
        right = labels[task] == label
        return np.bincount(worker[right], minlength=len(self.workers)) / np.bincount(worker, minlength=len(self.workers))

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The task, worker and label of all votes that differ."""
        task, worker, label = self.tasks.codes, self.workers.codes, self.labels.codes
        cell = (task * len(self.workers) + worker) * max(len(self.labels), 1) + label
        _, first = np.unique(cell, return_index=True)
        return task[first], worker[first], label[first]


def encode(data: pd.DataFrame, gold: pd.Series[Any] | None = None) -> Encoded:
    """Return the votes of a frame with the columns task, worker and label; other columns are ignored.

    A vote without a label is an abstention: it is dropped, with a warning. Labels of `gold`, indexed by task, are labels, too,
    where their tasks have votes.
    """
    votes = labelled(data)
    tasks, workers = coded(votes["task"]), coded(votes["worker"])
    more = None if gold is None else gold[gold.index.isin(tasks.ids)]
    return Encoded(tasks, workers, coded(votes["label"], more))


def labelled(data: pd.DataFrame) -> pd.DataFrame:
    """Return the columns task, worker and label of the votes that have a label; warn where some have none."""
    given: Any = data
    if not isinstance(given, pd.DataFrame):
        raise TypeError(f"data is of type {type(given).__name__}: give a pandas DataFrame with the columns task, worker, label")
    votes = given[COLUMNS]
    missing = votes["label"].isna().to_numpy()
    if missing.any():
        warn_abstentions(int(missing.sum()), len(votes))
        votes = votes[~missing]
    return votes


def coded(column: pd.Series[Any], more: pd.Series[Any] | None = None) -> Codes:
    """Return the codes of a column, whose ids include those of `more`; raise where an id is missing."""
    values = column if more is None or not len(more) else pd.concat([column, more.dropna()], ignore_index=True)
    found, uniques = pd.factorize(values)
    if len(column) and int(found.min()) < 0:
        at = int(np.argmin(found))
        raise InputError(f"{column.name} is missing at index {shown(column.index[at])}: give every vote one")
    ids = pd.Index(uniques)
    order = in_order(ids)
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.arange(len(ids))
    return Codes(ids[order], rank[found[: len(column)].astype(np.int64)], rank)


def in_order(ids: pd.Index[Any]) -> NDArray[np.int64]:
    """Return the positions of the ids in sorted order; ids that do not compare are sorted by type, then by text."""
    try:
        return np.asarray(ids.argsort(), np.int64)
    except TypeError:
        return np.array(sorted(range(len(ids)), key=lambda i: (type(ids[i]).__name__, str(ids[i]))), np.int64)


def first_best(figures: Floats) -> NDArray[np.int64]:
    """Return the first of the best columns of each row, [rows]: those within rounding of the best are tied.

    A tie so goes to the first label in sorted order, whatever the order of the votes.
    """
    if not figures.size:
        return np.zeros(len(figures), np.int64)
    best = figures.max(axis=1, keepdims=True)
    found: NDArray[np.int64] = np.argmax(figures >= best - TIE * np.abs(best), axis=1)
    return found


def series_of(
    values: Any, ids: pd.Index[Any], order: NDArray[np.int64] | None = None, *, name: str | None, index: str | None
) -> pd.Series[Any]:
    """Return figures of ids as a Series, in sorted order or in the one given."""
    if order is not None:
        values, ids = values[order], ids[order]
    return pd.Series(values, index=ids.rename(index), name=name)


def frame_of(
    figures: Floats, tasks: pd.Index[Any], labels: pd.Index[Any], order: NDArray[np.int64] | None = None, *, name: str | None
) -> pd.DataFrame:
    """Return figures of tasks and labels, [tasks, K], as a frame whose columns have this name."""
    if order is not None:
        figures, tasks = figures[order], tasks[order]
    return pd.DataFrame(figures, index=tasks.rename("task"), columns=labels.rename(name))
