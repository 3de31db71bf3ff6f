"""Bradley-Terry with workers who differ in skill, and in what they answer without looking, with crowd-kit's search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BasePairwiseAggregator
from adjudge.crowdkit.aggregation.pairwise.bradley_terry import compared
from adjudge.crowdkit.frames import Floats, coded, pd, series_of
from adjudge.crowdkit.quasi_newton import descend
from adjudge.errors import NotConverged, warn

__all__ = ["NoisyBradleyTerry"]

OVERFLOW = 709.78  # exp of more is no number


class NoisyBradleyTerry(BasePairwiseAggregator):
    """A worker of skill q looks with probability q, and then compares the items' scores; else it answers left by its bias.

    The search is crowd-kit's: the gradient that it follows is not that of the likelihood (see `_Search`), so that it breaks off
    before the maximum. The numbers are crowd-kit's, and no estimates: of a worker only the last comparison counts for skill and
    bias. A warning says so (`NotConverged`). `adjudge.rank` maximises a likelihood, with judges' reliability and bias.

    L-BFGS starts from uniform random numbers by `random_state`: at most `n_iter` steps, fewer if one gains less than `tol` of
    the value. `regularization_ratio` is the weight of one win and one loss of every item against an item of its own.
    Fitted: `scores_`, by item; `skills_` and `biases_`, by worker; all from 0 to 1.

    >>> import pandas as pd, warnings
    >>> games = pd.DataFrame({"worker": ["w", "w", "v"], "left": [*"aab"], "right": [*"bba"], "label": [*"aaa"]})
    >>> with warnings.catch_warnings(action="ignore"):
    ...     scores = NoisyBradleyTerry().fit_predict(games)
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
        found: Floats = source.uniform(size=1 + len(items) + 2 * len(workers))
        search = _Search(left, right, left_won, workers.codes, len(items), len(workers), self.regularization_ratio)
        if len(data):
            warn(
                "NoisyBradleyTerry follows crowd-kit, whose gradient is not that of the likelihood: its search breaks off before "
                "the maximum, which adjudge.rank finds",
                NotConverged,
            )
            with np.errstate(divide="ignore", invalid="ignore"):  # a long step may have the value -inf
                found = descend(search, found, most_steps=self.n_iter, tol=float(np.float32(self.tol)))
        scores, biases, skills = search.parts(_sigmoid(found))
        self.scores_ = series_of(scores, items, name="agg_score", index="label")
        self.biases_ = series_of(biases, workers.ids, name="bias", index=None)
        self.skills_ = series_of(skills, workers.ids, name="skill", index=None)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the comparisons of a frame, and return the score of every item; arguments as in `fit`."""
        return self.fit(data).scores_


class _Search:
    """What crowd-kit minimises: a value and a gradient that do not belong together.

    A point has the score of an item of its own, the scores of the n items, and biases and skills of the workers. The value is
    the negative log-likelihood *less* the penalty. The gradient is that of the negative log-likelihood *plus* the penalty, but

    - every worker has that of its last comparison alone, not of the sum;
    - biases and skills are written one position too early. So the first worker's bias stands where the last item has its score:
      all that comparisons up to the first worker's last one say of that item is lost. The last skill never moves.
    """

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
        self._left, self._right = left, right
        self._winner, self._loser = np.where(left_won, left, right), np.where(left_won, right, left)
        self._side = np.where(left_won, 1.0, -1.0)  # of the winner
        self._worker, self._items, self._workers, self._ratio = worker, items, workers, ratio
        self._last = np.zeros(workers, np.int64)  # the last comparison of each worker
        np.maximum.at(self._last, worker, np.arange(len(worker)))

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return scores, biases and skills of a point."""
        n, m = self._items, self._workers
        return x[1 : 1 + n], x[1 + n : 1 + n + m], x[1 + n + m :]

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient at a point."""
        n, m, last = self._items, self._workers, self._last
        scores, biases, skills = self.parts(x)
        by_score = _sigmoid(scores[self._winner] - scores[self._loser])
        by_bias = _sigmoid(self._side * biases[self._worker])
        skill = _sigmoid(skills[self._worker])
        likelihood = skill * by_score + (1.0 - skill) * by_bias
        looked = skill * by_score / likelihood
        of_score = looked * (1.0 - by_score)
        of_bias, of_skill = (1.0 - looked) * (1.0 - by_bias) * self._side, looked - skill
        of_left, of_right = self._side * of_score, -self._side * of_score
        self._overflow(x, of_left, of_right, of_bias, of_skill)
        of_items = np.bincount(self._left, of_left, n) + np.bincount(self._right, of_right, n)
        late = slice(int(last[0]) + 1, None)
        of_items[-1] = of_left[late][self._left[late] == n - 1].sum() + of_right[late][self._right[late] == n - 1].sum()
        slope = np.zeros(len(x))
        slope[1 : 1 + n] = of_items
        slope[n : n + m] += of_bias[last]
        slope[n + m : n + 2 * m] = of_skill[last]
        beside = scores - x[0]
        pull = self._ratio * (1.0 - 2.0 * _sigmoid(beside))
        slope[1 : 1 + n] += pull
        slope[0] -= pull.sum()
        penalty = self._ratio * (np.log(_sigmoid(beside)) + np.log(_sigmoid(-beside))).sum()
        return float(penalty - np.log(likelihood).sum()), -slope

    def _overflow(self, x: Floats, of_left: Floats, of_right: Floats, of_bias: Floats, of_skill: Floats) -> None:
        """Write NaN, in place, where crowd-kit's formulas have exponentials too large for a number: such a step is not taken."""
        if np.abs(x).max() * 4 < OVERFLOW:
            return
        scores, biases, skills = self.parts(x)
        one, two = self._side * scores[self._left], self._side * scores[self._right]
        bias, skill = self._side * biases[self._worker], skills[self._worker]
        apart = one - two
        of_left[-apart > OVERFLOW] = np.nan
        of_right[(bias > OVERFLOW) | (apart + skill + np.maximum(bias, 0.0) > OVERFLOW)] = np.nan
        of_bias[bias + np.maximum(0.0, np.maximum(one, two)) > OVERFLOW] = np.nan
        of_skill[np.maximum(skill + np.maximum(one, 0.0), two + bias + np.maximum(skill, 0.0)) > OVERFLOW] = np.nan


def _sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    out: Floats = np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))
    return out
