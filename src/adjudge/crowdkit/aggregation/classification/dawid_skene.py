"""Dawid-Skene and one-coin Dawid-Skene with crowd-kit's start, floor and stopping rule."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.frames import Encoded, Floats, encode, first_best, frame_of, pd, series_of
from adjudge.crowdkit.passes import FLOOR, FlooredSteps, Layout

__all__ = ["DawidSkene", "OneCoinDawidSkene"]

Strategy = Literal["assign", "addition"]


class DawidSkene(BaseClassificationAggregator):
    """Dawid and Skene 1979: a confusion matrix per worker, by expectation-maximisation from the shares of the votes.

    At most `n_iter` iterations; fewer if the bound gains less than `tol` per vote. No probability is below 1e-10. A tie goes to
    the first of its labels in sorted order. Fitted: `labels_`; `probas_`; `priors_`, by label; `errors_`, a frame indexed by
    worker and given label with a column per true label; `loss_history_`, the bound after every iteration.

    `initial_error_strategy` says what `initial_error` of `fit` is: "assign" puts it in the place of the first errors, and it then
    must have all workers; "addition" adds it, as numbers of votes, to those the first errors are made of.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> DawidSkene(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    probas_: pd.DataFrame
    priors_: pd.Series[Any]
    errors_: pd.DataFrame
    loss_history_: list[float]

    def __init__(self, n_iter: int = 100, tol: float = 1e-5, initial_error_strategy: Strategy | None = None) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.initial_error_strategy = initial_error_strategy

    def fit(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> DawidSkene:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label.
        - `true_labels`: the labels of gold tasks, by task: these tasks keep them.
        - `initial_error`: what is known of workers, indexed by worker and given label with a column per true label; see
          `initial_error_strategy`.
        """
        votes = encode(data, true_labels)
        if not len(votes):
            self._set_nothing()
            return self
        layout = Layout.of(votes)
        first = _Start(votes, layout, initial_error, self.initial_error_strategy)
        gold = None if true_labels is None else _gold(votes, true_labels)
        steps = FlooredSteps(layout, partial(_normalised, layout), tol=self.tol, max_iter=self.n_iter, first=first, gold=gold)
        losses = steps.run()
        self._set(votes, steps, losses)
        if losses or first.frame is None:
            self._set_errors(votes, layout, steps.errors)
        else:
            self.errors_ = first.frame
        return self

    def fit_predict_proba(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Fit the votes of a frame, and return the probabilities of every task's labels; arguments as in `fit`."""
        return self.fit(data, true_labels, initial_error).probas_

    def fit_predict(
        self, data: pd.DataFrame, true_labels: pd.Series[Any] | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data, true_labels, initial_error).labels_

    def _set_nothing(self) -> None:
        """Set the attributes of a fit without votes."""
        self.probas_, self.errors_, self.loss_history_ = pd.DataFrame(), pd.DataFrame(), []
        self.priors_, self.labels_ = pd.Series(dtype=float), pd.Series(dtype=float)

    def _set(self, votes: Encoded, steps: FlooredSteps, losses: list[float]) -> None:
        """Set the attributes of a fit: tasks in sorted order, or as they came once an E-step has seen them."""
        order = votes.tasks.seen if losses else None
        labels = votes.labels.ids
        self.probas_ = frame_of(steps.posterior, votes.tasks.ids, labels, order, name="label")
        best = labels.take(first_best(steps.posterior))
        self.labels_ = series_of(best, votes.tasks.ids, order, name="agg_label", index="task")
        self.priors_ = series_of(steps.priors, labels, name="prior", index="label")
        self.loss_history_ = losses

    def _set_errors(self, votes: Encoded, layout: Layout, errors: Floats) -> None:
        """Set the frame of the rows' probabilities, [rows, K], in order of the rows' first votes."""
        rows = layout.seen
        pairs = [votes.workers.ids.take(layout.row_worker[rows]), votes.labels.ids.take(layout.row_label[rows])]
        index = pd.MultiIndex.from_arrays(pairs, names=["worker", "label"])
        self.errors_ = pd.DataFrame(errors[rows], index=index, columns=votes.labels.ids.rename(None))


class OneCoinDawidSkene(DawidSkene):
    """Dawid-Skene with one number per worker: the probability of a right answer; all wrong labels are equally likely.

    Settings and attributes are those of `DawidSkene`, and `skills_`, the probability of every worker. `initial_error_strategy` is
    there for the sake of the signature: this model takes no errors to start from.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> OneCoinDawidSkene(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    skills_: pd.Series[Any]

    def fit(self, data: pd.DataFrame) -> OneCoinDawidSkene:  # type: ignore[override]
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        if not len(votes):
            self._set_nothing()
            self.skills_ = pd.Series(dtype=float)
            return self
        coins = _Coins(Layout.of(votes))
        steps = FlooredSteps(coins.layout, coins, tol=self.tol, max_iter=self.n_iter)
        losses = steps.run()
        self._set(votes, steps, losses)
        self._set_errors(votes, coins.layout, steps.errors)
        self.skills_ = series_of(coins.skills, votes.workers.ids, name="skill", index="worker")
        return self

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:  # type: ignore[override]
        """Fit the votes of a frame, and return the probabilities of every task's labels; arguments as in `fit`."""
        return self.fit(data).probas_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:  # type: ignore[override]
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data).labels_


class _Coins:
    """The M-step of the one-coin model; it keeps the skills of the last one."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._votes = layout.by_worker(np.bincount(layout.row, minlength=layout.n_rows).astype(np.float64))
        self.skills = np.zeros(0)  # [workers]

    def __call__(self, counts: Floats) -> Floats:
        """Return the probabilities of rows, [rows, K], of expected votes, [rows, K]."""
        layout, own = self.layout, (np.arange(self.layout.n_rows), self.layout.row_label)
        self.skills = layout.by_worker(counts[own]) / self._votes
        skill = self.skills[layout.row_worker]
        out = np.repeat(((1.0 - skill) / max(layout.n_labels - 1, 1))[:, None], layout.n_labels, axis=1)
        out[own] = skill
        return np.maximum(out, FLOOR)


class _Start:
    """The first M-step: from the counts of the start, from errors that the caller knows, or from both."""

    def __init__(self, votes: Encoded, layout: Layout, errors: pd.DataFrame | None, strategy: str | None) -> None:
        self.frame: pd.DataFrame | None = None  # of rows that occur, and of those the caller gave
        self._votes, self._layout, self._strategy = votes, layout, strategy
        self._errors = None if errors is None or strategy is None else self._checked(errors)

    def __call__(self, counts: Floats) -> Floats:
        """Return the probabilities of rows, [rows, K], of expected votes, [rows, K]."""
        layout, votes = self._layout, self._votes
        if self._errors is None:
            return _normalised(layout, counts)
        pairs = [votes.workers.ids.take(layout.row_worker), votes.labels.ids.take(layout.row_label)]
        index = pd.MultiIndex.from_arrays(pairs, names=["worker", "label"])
        if self._strategy == "addition":
            table = pd.DataFrame(counts, index=index, columns=votes.labels.ids.rename(None)).add(self._errors, fill_value=0.0)
        else:
            table = self._errors
        table = table.clip(lower=FLOOR)
        self.frame = table / table.groupby("worker").transform("sum")
        out: Floats = np.maximum(self.frame.reindex(index).fillna(0.0).to_numpy("float64"), FLOOR**2)
        return out

    def _checked(self, errors: pd.DataFrame) -> pd.DataFrame:
        """Return the caller's errors with a column for every label, in order."""
        if self._strategy not in ("assign", "addition"):
            raise ValueError(f"Invalid initial_error_strategy: {self._strategy!r}, give 'assign' or 'addition'")
        known = errors.reindex(columns=self._votes.labels.ids.rename(None)).fillna(0.0).rename_axis(["worker", "label"])
        missing = ~self._votes.workers.ids.isin(known.index.get_level_values("worker"))
        if self._strategy == "assign" and missing.any():
            raise ValueError(
                f"All the workers in data should be in initial_error: there are no errors of {int(missing.sum())} workers"
            )
        return known.astype(float)


def _normalised(layout: Layout, counts: Floats) -> Floats:
    """Return the share of each given label among a worker's votes on tasks of a true label, [rows, K], above the floor."""
    floored = np.maximum(counts, FLOOR)
    shares: Floats = floored / layout.by_worker(floored)[layout.row_worker]
    return shares


def _gold(votes: Encoded, true_labels: pd.Series[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of gold tasks that have votes, and of their labels."""
    given = true_labels[~true_labels.index.duplicated(keep="last")].dropna()
    tasks = votes.tasks.ids.get_indexer(given.index)
    there = tasks >= 0
    return tasks[there].astype(np.int64), votes.labels.ids.get_indexer(pd.Index(given))[there].astype(np.int64)
