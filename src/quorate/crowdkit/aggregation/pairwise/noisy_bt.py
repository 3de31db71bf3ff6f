"""Bradley-Terry with workers who differ in skill, and in what they answer without looking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.crowdkit.aggregation.base import BasePairwiseAggregator
from quorate.crowdkit.aggregation.pairwise.bradley_terry import compared
from quorate.crowdkit.frames import Floats, coded, pd, series_of
from quorate.models.lbfgs import Point, climb

__all__ = ["NoisyBradleyTerry"]


class NoisyBradleyTerry(BasePairwiseAggregator):
    """A worker of skill q looks with probability q, and then compares the items' scores; else it answers left by its bias.

    The likelihood is maximised by L-BFGS from uniform random numbers by `random_state`: at most `n_iter` steps, fewer if one
    would gain less than `tol` of the likelihood. `regularization_ratio` is the weight of one win and one loss of every item
    against an item of its own, which keeps scores finite. Fitted: `scores_`, by item; `skills_` and `biases_`, by worker; all
    from 0 to 1.

    >>> import pandas as pd
    >>> games = pd.DataFrame({"worker": ["w", "w", "v"], "left": [*"aab"], "right": [*"bba"], "label": [*"aaa"]})
    >>> scores = NoisyBradleyTerry().fit_predict(games)
    >>> bool(scores["a"] > scores["b"])
    True
    """

    skills_: pd.Series[Any]
    biases_: pd.Series[Any]

    def __init__(self, n_iter: int = 100, tol: float = 1e-5, regularization_ratio: float = 1e-5, random_state: int = 0) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.regularization_ratio = regularization_ratio
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> NoisyBradleyTerry:
        """Fit the comparisons of a frame, and return self.

        - `data`: columns worker, left, right and label, the one of the two that won.
        """
        items, left, right, left_won = compared(data)
        workers = coded(data["worker"])
        state: Any = self.random_state
        source = state if hasattr(state, "uniform") else np.random.RandomState(state)
        start = source.uniform(size=1 + len(items) + 2 * len(workers))
        hill = _Likelihood(left, right, left_won, workers.codes, len(items), len(workers), self.regularization_ratio)
        first = hill(start)
        least = self.tol * max(abs(first.value), 1.0)
        found = climb(hill, first, most_steps=self.n_iter, share=0.0, least=least).x if len(data) else start
        scores, biases, skills = hill.parts(_sigmoid(np.asarray(found)))
        self.scores_ = series_of(scores, items, name="agg_score", index="label")
        self.biases_ = series_of(biases, workers.ids, name="bias", index=None)
        self.skills_ = series_of(skills, workers.ids, name="skill", index=None)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the comparisons of a frame, and return the score of every item; arguments as in `fit`."""
        return self.fit(data).scores_


class _Likelihood:
    """The log-likelihood of the comparisons: of the score of an item of its own, those of the items, biases and skills."""

    def __init__(
        self,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        left_won: NDArray[np.bool_],
        worker: NDArray[np.int64],
        items: int,
        workers: int,
        ratio: float,
    ) -> None:
        self._winner, self._loser = np.where(left_won, left, right), np.where(left_won, right, left)
        self._side = np.where(left_won, 1.0, -1.0)  # of the winner
        self._worker, self._items, self._workers, self._ratio = worker, items, workers, ratio

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return scores, biases and skills of a point."""
        n, m = self._items, self._workers
        return x[1 : 1 + n], x[1 + n : 1 + n + m], x[1 + n + m :]

    def __call__(self, x: Any) -> Point:
        """Return the function at a point, with its slope."""
        scores, biases, skills = self.parts(x)
        worker, side = self._worker, self._side
        by_score = _sigmoid(scores[self._winner] - scores[self._loser])
        by_bias = _sigmoid(side * biases[worker])
        skill = _sigmoid(skills[worker])
        likelihood = skill * by_score + (1.0 - skill) * by_bias
        looked = skill * by_score / likelihood
        of_score, of_bias = looked * (1.0 - by_score), (1.0 - looked) * (1.0 - by_bias) * side
        beside = scores - x[0]
        slope = np.zeros(len(x))
        by_item = self.parts(slope)
        by_item[0][:] = np.bincount(self._winner, of_score, self._items) - np.bincount(self._loser, of_score, self._items)
        pull = self._ratio * (1.0 - 2.0 * _sigmoid(beside))
        by_item[0][:] += pull
        slope[0] = -pull.sum()
        by_item[1][:] = np.bincount(worker, of_bias, self._workers)
        by_item[2][:] = np.bincount(worker, looked - skill, self._workers)
        value = np.log(likelihood).sum() + self._ratio * (np.log(_sigmoid(beside)) + np.log(_sigmoid(-beside))).sum()
        games = np.bincount(self._winner, minlength=self._items) + np.bincount(self._loser, minlength=self._items)
        answers = np.bincount(worker, minlength=self._workers)
        curvature = 0.25 * np.concatenate([[1.0], games + 1.0, answers + 1.0, answers + 1.0])
        return Point(x, float(value), slope, curvature)


def _sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return np.maximum(out, 1e-300)
