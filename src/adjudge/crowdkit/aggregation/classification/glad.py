"""GLAD with crowd-kit's start, M-steps and stopping rule, on the library's compiled passes."""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.conjugate import minimise
from adjudge.crowdkit.frames import Codes, Encoded, Floats, encode, first_best, frame_of, pd, series_of
from adjudge.crowdkit.passes import BoundedSteps, Layout
from adjudge.kernels.cpu import kernels_named

__all__ = ["GLAD"]

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class GLAD(BaseClassificationAggregator):
    """Whitehill et al. 2009: a vote is right with probability 1 / (1 + exp(-alpha exp(beta))), else any other label.

    alpha is a worker's ability, exp(beta) a task's ease. Both have normal priors of variance 1, whose means are
    `alphas_priors_mean` (by worker) and `betas_priors_mean` (by task), 1 if not given. `labels_priors` are the probabilities
    of the labels, by label; equal if not given. At most `n_iter` iterations; fewer if the bound gains less than `tol`. An
    M-step takes at most `m_step_max_iter` steps of conjugate gradients, and ends when no part of the gradient exceeds
    `m_step_tol`. `silent` is there for the sake of the signature: nothing is printed.

    A tie goes to the first of its labels in sorted order. Fitted: `labels_`; `probas_`; `alphas_`, by worker; `betas_`, by task;
    `loss_history_`, the bound after every iteration; `priors_`, by label.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> GLAD(n_iter=10).fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    probas_: pd.DataFrame
    alphas_: pd.Series[Any]
    betas_: pd.Series[Any]
    priors_: pd.Series[Any]
    loss_history_: list[float]
    series_names: ClassVar[dict[str, str]] = {"labels_": "agg_label", "alphas_": "alpha", "betas_": "beta"}

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        silent: bool = True,
        labels_priors: pd.Series[Any] | None = None,
        alphas_priors_mean: pd.Series[Any] | None = None,
        betas_priors_mean: pd.Series[Any] | None = None,
        m_step_max_iter: int = 25,
        m_step_tol: float = 1e-2,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.silent = silent
        self.labels_priors = labels_priors
        self.alphas_priors_mean = alphas_priors_mean
        self.betas_priors_mean = betas_priors_mean
        self.m_step_max_iter = m_step_max_iter
        self.m_step_tol = m_step_tol

    def fit(self, data: pd.DataFrame) -> GLAD:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        tasks, workers, labels = votes.tasks, votes.workers, votes.labels
        if not len(votes):
            self.probas_, self.loss_history_, self.labels_ = pd.DataFrame(), [], pd.Series(dtype=float)
            self.alphas_, self.betas_, self.priors_ = (pd.Series(dtype=float) for _ in range(3))
            return self
        priors = _given(self.labels_priors, labels, 1.0 / len(labels))
        steps = GladSteps(self, votes, priors, _given(self.alphas_priors_mean, workers), _given(self.betas_priors_mean, tasks))
        self.loss_history_ = steps.run()
        self.probas_ = frame_of(steps.posterior, tasks.ids, labels.ids, name="variable")
        self.labels_ = series_of(labels.ids.take(first_best(steps.posterior)), tasks.ids, name="agg_label", index="task")
        named = ("worker", "task") if self.n_iter > 0 else (None, None)  # as in crowd-kit
        self.alphas_ = series_of(steps.alphas, workers.ids, workers.seen, name="alpha", index=named[0])
        self.betas_ = series_of(steps.betas, tasks.ids, tasks.seen, name="beta", index=named[1])
        self.priors_ = series_of(priors, labels.ids, labels.seen, name=None, index=None)
        return self

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the votes of a frame, and return the probabilities of every task's labels; arguments as in `fit`."""
        return self.fit(data).probas_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data).labels_


class GladSteps(BoundedSteps):
    """The steps of GLAD over votes: an E-step, then conjugate gradients on abilities and log eases."""

    def __init__(self, model: GLAD, votes: Encoded, priors: Floats, alphas: Floats, betas: Floats) -> None:
        super().__init__(priors, tol=model.tol, max_iter=model.n_iter)
        self._model = model
        self._kernels = kernels_named("adjudge.kernels.glad_cpu")
        self._layout = layout = Layout.of(votes)
        self._row_worker, self._row_label = layout.row_worker.astype(np.int32), layout.row_label.astype(np.int32)
        self._means = np.concatenate([alphas, betas])
        self._log_others = math.log(max(layout.n_labels - 1, 1))
        self.alphas, self.betas = np.ones(len(alphas)), np.ones(len(betas))  # [workers], [tasks]; whatever the means
        self._right = np.empty(len(layout.row))  # [votes] the probability that each is right
        self.posterior = np.empty((layout.n_tasks, layout.n_labels))
        self._expect()

    def advance(self) -> float:
        """Take an E-step and an M-step, and return crowd-kit's bound per vote and label; it leaves the labels' priors out."""
        self._expect()
        layout, n = self._layout, len(self.alphas)
        x = np.concatenate([self.alphas, self.betas])
        if layout.n_labels > 1:  # with one label every vote is right, whoever gave it
            x = minimise(self._value, x, most_steps=self._model.m_step_max_iter, tol=self._model.m_step_tol)
        self.alphas, self.betas = x[:n], x[n:]
        value = -self._value(x)[0] if layout.n_labels > 1 else 0.0
        return (value - HALF_LOG_TAU * len(x)) / (len(layout.row) * layout.n_labels)

    def _expect(self) -> None:
        layout = self._layout
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.priors)
        self._kernels.expect(
            layout.task_ptr,
            layout.row,
            self._row_worker,
            self._row_label,
            self.alphas,
            np.exp(self.betas),
            log_prior,
            self._log_others,
            np.zeros(layout.n_tasks, np.uint64),
            np.zeros(layout.n_labels, np.uint64),
            by_prior=False,
            threads=os.cpu_count() or 1,
            labels=np.zeros(layout.n_tasks, np.int32),
            right=self._right,
            class_counts=np.zeros(layout.n_labels),
            posterior=self.posterior,
        )

    def _value(self, x: Floats) -> tuple[float, Floats]:
        """Return what an M-step minimises, the expected log-likelihood with its priors turned around, and its gradient."""
        layout, n = self._layout, len(self.alphas)
        slope, curvature = np.zeros(len(x)), np.zeros(len(x))
        with np.errstate(over="ignore", invalid="ignore"):  # a search may try lengths far too great
            value = self._kernels.gradient(
                layout.task_ptr,
                layout.row,
                self._row_worker,
                x[:n],
                np.exp(x[n:]),
                self._right,
                self._log_others,
                threads=os.cpu_count() or 1,
                by_worker=slope[:n],
                by_task=slope[n:],
                worker_curvature=curvature[:n],
                task_curvature=curvature[n:],
            )
        away = x - self._means
        return 0.5 * float(away @ away) - value, away - slope


def _given(values: pd.Series[Any] | None, ids: Codes, otherwise: float = 1.0) -> Floats:
    """Return the values of all ids, [ids]; `otherwise` where none are given. Raise where only some are."""
    if values is None:
        return np.full(len(ids), otherwise)
    found = values.reindex(ids.ids)
    if found.isna().any():
        raise ValueError(f"a prior is missing for {int(found.isna().sum())} of {len(ids)} ids: give one for each")
    return np.ascontiguousarray(found.to_numpy("float64"))
