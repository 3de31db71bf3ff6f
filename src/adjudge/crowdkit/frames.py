"""pandas, which only this package needs at import, and the votes of a frame as codes, ready to be fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, NotConverged, quote, warn_abstentions

try:
    import pandas as pd
except ImportError as error:  # pragma: no cover (tests have pandas)
    raise ImportError("adjudge.crowdkit takes and returns pandas frames: pip install 'adjudge[crowdkit]'") from error

__all__ = ["COLUMNS", "Codes", "Encoded", "encode", "factorize_column", "first_best", "keep_labelled", "pd", "sort_order"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
COLUMNS = ["task", "worker", "label"]
TIE = 1e-9  # relative: scores this close to the best are tied


@dataclass(frozen=True, eq=False)
class Codes:
    """A column as integers: sorted ids, and the position of each vote's id among them."""

    ids: pd.Index[Any]  # sorted
    codes: Integers  # [votes]
    seen: Integers  # [ids] positions of the ids in order of first appearance

    def __len__(self) -> int:
        return len(self.ids)

    def series(self, values: Any, name: str | None, index: str | None) -> pd.Series[Any]:
        """Return one value per id, [ids], as a Series indexed by id."""
        return pd.Series(values, index=self.ids.rename(index), name=name)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The labelled votes of a frame as codes."""

    tasks: Codes
    workers: Codes
    labels: Codes  # includes labels that only gold names

    def __len__(self) -> int:
        return len(self.tasks.codes)

    def scores(self, weights: Floats | None = None) -> Floats:
        """Return the summed vote weights of each label, [tasks, K]; every vote weighs 1 without `weights`, [votes]."""
        k = len(self.labels)
        cell = self.tasks.codes * k + self.labels.codes
        return np.bincount(cell, weights, minlength=len(self.tasks) * k).astype(np.float64).reshape(len(self.tasks), k)

    def agreement(self, labels: Integers) -> Floats:
        """Return the share of each worker's votes, [workers], that equal the label of their task, [tasks].

        A vote repeated by its worker counts once.
        """
        task, worker, label = self._distinct
        right = labels[task] == label
        return np.bincount(worker[right], minlength=len(self.workers)) / np.bincount(worker, minlength=len(self.workers))

    @cached_property
    def _distinct(self) -> tuple[Integers, Integers, Integers]:
        """The task, worker and label of each distinct vote."""
        task, worker, label = self.tasks.codes, self.workers.codes, self.labels.codes
        cell = (task * len(self.workers) + worker) * max(len(self.labels), 1) + label
        _, first = np.unique(cell, return_index=True)
        return task[first], worker[first], label[first]

    @cached_property
    def votes(self) -> Votes:
        """The votes for our models; ids are the codes."""
        k = max(len(self.labels), 1)
        pairs, row = np.unique(self.workers.codes * k + self.labels.codes, return_inverse=True)
        size = np.bincount(self.tasks.codes, minlength=len(self.tasks))
        return Votes(
            task_ptr=np.concatenate([[0], np.cumsum(size)]),
            row=row[np.lexsort((row, self.tasks.codes))].astype(np.uint32),
            worker_ptr=np.searchsorted(pairs // k, np.arange(len(self.workers) + 1)).astype(np.int64),
            row_label=(pairs % k).astype(np.int32),
            workers=_number_codes(len(self.workers)),
            labels=_number_codes(len(self.labels)),
            tasks=_number_codes(len(self.tasks)),
            unvoted=_number_codes(0),
        )

    def gold(self, true_labels: pd.Series[Any] | None) -> Mapping[int, int]:
        """Return the label codes of gold tasks that have votes, by task code; the last label of a task counts."""
        if true_labels is None:
            return {}
        tasks, labels = self.tasks.ids.get_indexer(true_labels.index), self.labels.ids.get_indexer(pd.Index(true_labels))
        known = (tasks >= 0) & (labels >= 0)
        return dict(zip(tasks[known].tolist(), labels[known].tolist(), strict=True))

    def expected_votes(self, posterior: Floats) -> pd.DataFrame:
        """Return expected votes by worker and given label (rows) and true label (columns), from a posterior, [tasks, K]."""
        votes, task = self.votes, np.repeat(np.arange(len(self.tasks)), np.diff(self.votes.task_ptr))
        pairs = [self.workers.ids.take(votes.row_worker()), self.labels.ids.take(votes.row_label)]
        counts = [np.bincount(votes.row, column[task], votes.n_rows) for column in posterior.T]
        index = pd.MultiIndex.from_arrays(pairs, names=["worker", "label"])
        return pd.DataFrame(dict(enumerate(counts)), index=index).set_axis(self.labels.ids.rename(None), axis=1)

    def as_history(self, counts: pd.DataFrame) -> dict[str, Any]:
        """Return expected votes, as `expected_votes` does, as a history for our models; other workers and labels are left out."""
        cells = counts.set_axis(range(len(self.labels)), axis=1).stack()
        levels = [cells.index.get_level_values(level) for level in range(3)]
        worker, given = self.workers.ids.get_indexer(levels[0]), self.labels.ids.get_indexer(levels[1])
        known = (worker >= 0) & (given >= 0)
        columns = {"worker": worker, "true": levels[2].to_numpy(), "given": given, "count": cells.to_numpy()}
        return {name: column[known] for name, column in columns.items()}

    def probabilities(self, values: Floats, name: str | None = "label") -> pd.DataFrame:
        """Return values, [tasks, K], as a frame indexed by task with a column per label; the columns' index has this name."""
        return pd.DataFrame(values, index=self.tasks.ids.rename("task"), columns=self.labels.ids.rename(name))

    def name_labels(self, labels: Integers) -> pd.Series[Any]:
        """Return the labels of all tasks from their codes, [tasks]; -1 is a missing label."""
        if not len(labels):
            return pd.Series([], dtype=object, name="agg_label")
        ids = self.labels.ids
        found = ids.take(labels) if (labels >= 0).all() else ids.astype(object).take(labels, allow_fill=True, fill_value=np.nan)
        return self.tasks.series(found, "agg_label", "task")


def encode(data: pd.DataFrame, gold: pd.Series[Any] | None = None) -> Encoded:
    """Return the votes of a frame with the columns task, worker and label; other columns are ignored.

    Votes without a label are abstentions: they are dropped with a warning. Labels of `gold`, indexed by task, are added to
    the labels if their tasks have votes.
    """
    votes = keep_labelled(data)
    tasks, workers = factorize_column(votes["task"]), factorize_column(votes["worker"])
    more = None if gold is None else gold[gold.index.isin(tasks.ids)]
    return Encoded(tasks, workers, factorize_column(votes["label"], more))


def keep_labelled(data: pd.DataFrame) -> pd.DataFrame:
    """Return the columns task, worker and label of the votes that have a label; warn about the others."""
    given: Any = data
    if not isinstance(given, pd.DataFrame):
        raise TypeError(f"data is of type {type(given).__name__}: give a pandas DataFrame with the columns task, worker, label")
    votes = given[COLUMNS]
    missing = votes["label"].isna().to_numpy()
    if missing.any():
        warn_abstentions(int(missing.sum()), len(votes))
        votes = votes[~missing]
    return votes


def factorize_column(column: pd.Series[Any], more: pd.Series[Any] | None = None) -> Codes:
    """Return the codes of a column over its ids and those of `more`; raise if an id is missing."""
    values = column if more is None or not len(more) else pd.concat([column, more.dropna()], ignore_index=True)
    found, uniques = pd.factorize(values)
    if len(column) and int(found.min()) < 0:
        at = int(np.argmin(found))
        raise InputError(f"{column.name} is missing at index {quote(column.index[at])}: give every vote one")
    ids = pd.Index(uniques)
    order = sort_order(ids)
    rank = np.argsort(order)
    return Codes(ids[order], rank[found[: len(column)].astype(np.int64)], rank)


def sort_order(ids: pd.Index[Any]) -> Integers:
    """Return the positions of the ids in sorted order; ids that do not compare are sorted by type, then by text."""
    try:
        return np.asarray(ids.argsort(), np.int64)
    except TypeError:
        return np.array(sorted(range(len(ids)), key=lambda i: (type(ids[i]).__name__, str(ids[i]))), np.int64)


def first_best(scores: Floats) -> Integers:
    """Return the first of the best columns of each row, [rows]: ties go to the first label in sorted order."""
    if not scores.size:
        return np.zeros(len(scores), np.int64)
    best = scores.max(axis=1, keepdims=True)
    found: Integers = np.argmax(scores >= best - TIE * np.abs(best), axis=1)
    return found


def _number_codes(count: int) -> Vocabulary:
    """Return the vocabulary of the codes below `count`."""
    return Vocabulary.wrap("integer", np.arange(count))


def fit_model(name: str, votes: Encoded, settings: Mapping[str, Any], **known: Any) -> tuple[Any, Floats]:
    """Return the result of one of our models and its posterior, [tasks, K]; `n_iter` is the caller's choice, so do not warn."""
    from adjudge.models.base import MODELS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        result = MODELS[name](**settings).fit(votes.votes, confidence="posterior", **known)
    return result, np.asarray(result.posterior.drop("task").to_numpy(), np.float64)


def vote_shares(votes: Encoded, weights: Floats | None) -> tuple[pd.DataFrame, Integers]:
    """Return each label's share of a task's weights, and the winners' codes, [tasks]: NaN and -1 if the weights sum to 0."""
    scores = votes.scores(weights)
    total = scores.sum(axis=1, keepdims=True)
    shares = np.divide(scores, total, out=np.full_like(scores, np.nan), where=total != 0)
    return votes.probabilities(shares), np.where(total[:, 0] == 0, -1, first_best(scores))


def random_state(seed: Any) -> Any:
    """Return the generator of a seed; generators are returned as they are."""
    return seed if hasattr(seed, "uniform") else np.random.RandomState(seed)
