"""MACE with crowd-kit's draws: workers who know the label, or answer by a habit of their own (Hovy et al. 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.frames import Encoded, Floats, encode, first_best, frame_of, pd, series_of
from adjudge.crowdkit.passes import Layout
from adjudge.errors import SuspiciousVotes, warn
from adjudge.kernels.special import digamma

__all__ = ["MACE"]

STRATEGY_PRIOR = 10.0  # pseudo-votes for every label in the habits of a worker, in the variational fit
SMOOTHING = 0.01  # pseudo-votes in all cells of a line together, in the plain fit


class MACE(BaseClassificationAggregator):
    """Workers either know the label or spam: then they answer by a distribution of their own, whatever the task.

    `n_restarts` fits start from random numbers by `random_state`, and the one with the largest likelihood is kept. A whole
    number starts all of them alike, as in crowd-kit: then only one is run. Each takes `n_iter` iterations: variational for
    `method="vb"`, with beta priors `alpha` (to spam) and `beta` (to know), and plain EM for any other method. The start is
    uniform with noise, from 1 to 2 + `default_noise` before it is normalised. `smoothing` and `verbose` are there for the
    sake of the signature: crowd-kit smooths by 0.01 / K, and nothing is printed.

    crowd-kit counts habits by names in sorted order, and gives them out in order of first votes. Where these orders differ, for
    workers or labels, a worker gets the habits of another; labels differ on 1 to 19% of the tasks of real sets. This class
    does the same, with a warning (`SuspiciousVotes`). `adjudge.MACE` gives every worker its own, and so does this class on a
    frame whose workers and labels are numbered by first votes (`pd.factorize`).

    A tie goes to the first of its labels in sorted order. Fitted: `labels_`; `probas_`; `spamming_`, [workers, 2]: to spam,
    to know; `thetas_`, [workers, K]: answers of a spammer; `theta_priors_` and `strategy_priors_` of the variational fit;
    `smoothing_`. Workers and labels of the arrays are in order of their first votes.

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": ["t1", "t1", "t1"], "worker": ["ann", "bob", "eve"], "label": ["cat", "cat", "dog"]})
    >>> MACE().fit_predict(votes).to_dict()
    {'t1': 'cat'}
    """

    spamming_: Floats
    thetas_: Floats
    theta_priors_: Floats
    strategy_priors_: Floats
    smoothing_: float
    probas_: pd.DataFrame

    def __init__(
        self,
        n_restarts: int = 10,
        n_iter: int = 50,
        method: str = "vb",
        smoothing: float = 0.1,
        default_noise: float = 0.5,
        alpha: float = 0.5,
        beta: float = 0.5,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.n_restarts = n_restarts
        self.n_iter = n_iter
        self.method = method
        self.smoothing = smoothing
        self.default_noise = default_noise
        self.alpha = alpha
        self.beta = beta
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, data: pd.DataFrame) -> MACE:
        """Fit the votes of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        n, k = len(votes.workers), len(votes.labels)
        self.smoothing_ = SMOOTHING / max(k, 1)
        if not len(votes):
            self.probas_, self.labels_ = pd.DataFrame(), pd.Series(dtype=float)
            self.spamming_, self.thetas_ = np.zeros((0, 2)), np.zeros((0, 0))
            return self
        if self.method == "vb":
            self.theta_priors_ = np.tile([float(self.alpha), float(self.beta)], (n, 1))
            self.strategy_priors_ = np.full((n, k), STRATEGY_PRIOR)
        self._warn(votes)
        layout, best = Layout.of(votes), -np.inf
        alike = self.random_state is not None and not hasattr(self.random_state, "uniform")
        for _ in range(1 if alike else max(self.n_restarts, 1)):
            found = _Competence(self, votes, layout)
            for _ in range(self.n_iter):
                found.iterate()
            if found.log_likelihood > best or best == -np.inf:
                best, kept = found.log_likelihood, found
        self._set(votes, kept)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the votes of a frame, and return the probabilities of every task's labels; arguments as in `fit`."""
        return self.fit(data).probas_

    def _warn(self, votes: Encoded) -> None:
        """Warn where workers get the habits of others."""
        mixed = [name for name, ids in (("workers", votes.workers), ("labels", votes.labels)) if not ids.in_order_of_names]
        if mixed and self.n_iter > 0:
            warn(
                f"the {' and '.join(mixed)} do not first appear in sorted order: as in crowd-kit's MACE, workers get the habits "
                "of others. adjudge.MACE gives every worker its own; so does this class if workers and labels are numbered by "
                "first votes (pd.factorize)",
                SuspiciousVotes,
            )

    def _set(self, votes: Encoded, found: _Competence) -> None:
        tasks, workers, labels = votes.tasks, votes.workers, votes.labels
        probas = frame_of(found.posterior, tasks.ids, labels.ids, tasks.seen, name=None)
        self.probas_ = probas[labels.ids[labels.seen]]
        best = labels.ids.take(first_best(found.posterior))
        self.labels_ = series_of(best, tasks.ids, tasks.seen, name="agg_label", index="task")
        self.spamming_ = found.spamming[workers.seen]
        self.thetas_ = found.thetas[workers.seen][:, labels.seen]


class _Competence:
    """A fit: how often every worker spams, and what a spammer answers; workers and labels in sorted order."""

    def __init__(self, settings: MACE, votes: Encoded, layout: Layout) -> None:
        self._settings, self._layout = settings, layout
        self._own = np.arange(layout.n_rows), layout.row_label
        self._row_votes = np.bincount(layout.row, minlength=layout.n_rows).astype(np.float64)
        workers, labels = votes.workers.by_first_vote, votes.labels.by_first_vote
        self.spamming = self._draw((len(workers), 2))[workers]  # [workers, 2] to spam, to know
        self.thetas = self._draw((len(workers), len(labels)))[workers][:, labels]  # [workers, K]
        self._places = np.ix_(workers, labels)  # of the counts that each worker and label gets
        self._expect()

    def iterate(self) -> None:
        """Take an M-step from the last E-step, and an E-step."""
        layout = self._layout
        worker, label = layout.row_worker, layout.row_label
        habit, know = self.spamming[worker, 0] * self.thetas[worker, label], self.spamming[worker, 1]
        right = np.bincount(layout.row, self.posterior[layout.task, label[layout.row]], minlength=layout.n_rows)
        known = right * know / (habit + know)  # votes whose worker knew the label
        spam = self._row_votes - known
        of_worker = layout.by_worker(np.stack([spam, known], axis=1))
        strategies = np.zeros_like(self.thetas)
        strategies[worker, label] = spam
        strategies = strategies[self._places]  # crowd-kit takes sorted names for the order of first votes
        settings = self._settings
        if settings.method == "vb":
            self.spamming = variational_normalize(of_worker, settings.theta_priors_)
            self.thetas = variational_normalize(strategies, settings.strategy_priors_)
        else:
            self.spamming = normalize(of_worker, settings.smoothing_)
            self.thetas = normalize(strategies, settings.smoothing_)
        self._expect()

    def _expect(self) -> None:
        """Find the probabilities of the labels: a vote is a habit's, or known and right. All labels are equally likely."""
        layout = self._layout
        worker = layout.row_worker
        habit = self.spamming[worker, 0] * self.thetas[worker, layout.row_label]
        table = np.repeat(habit[:, None], layout.n_labels, axis=1)
        table[self._own] += self.spamming[worker, 1]
        priors = np.full(layout.n_labels, 1.0 / layout.n_labels)
        self.posterior, self.log_likelihood, _ = layout.expected(np.log(table), np.log(priors))

    def _draw(self, shape: tuple[int, int]) -> Floats:
        """Return lines of random numbers that add up to 1; a whole number as `random_state` draws the same each time."""
        settings = self._settings
        state: Any = settings.random_state
        source = state if hasattr(state, "uniform") else np.random.RandomState(state)
        return normalize(1.0 + (1.0 + settings.default_noise) * source.uniform(size=shape), 0.0)


def normalize(x: Floats, smoothing: float) -> Floats:
    """Return lines that add up to 1.

    - `x`: numbers of votes, [lines, n].
    - `smoothing`: pseudo-votes in every cell.
    """
    smooth = x + smoothing
    out: Floats = smooth / smooth.sum(axis=1, keepdims=True)
    return out


def variational_normalize(x: Floats, hparams: Floats) -> Floats:
    """Return exp(E log p) of every cell under the Dirichlet posterior of its line.

    - `x`: numbers of votes, [lines, n].
    - `hparams`: pseudo-votes of the prior, [lines, n].
    """
    total: NDArray[Any] = x + hparams
    out: Floats = np.exp(digamma(total) - digamma(total.sum(axis=1, keepdims=True)))
    return out
