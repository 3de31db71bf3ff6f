"""crowd-kit's aggregators of comparisons, as adapters over the Bradley-Terry model of `adjudge.evaluation.ranking`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from adjudge.crowdkit.aggregation.base import BasePairwiseAggregator
from adjudge.crowdkit.frames import Codes, Floats, factorize_column, pd
from adjudge.errors import NotConverged

__all__ = ["BradleyTerry", "NoisyBradleyTerry"]

LEAST_PRIOR = 1e-8  # comparisons with a mean item, half of them won: strengths stay finite if an item won or lost them all


@dataclass(eq=False)
class BradleyTerry(BasePairwiseAggregator):
    """Maximum-likelihood scores: an item with score p beats one with score q with probability p / (p + q).

    Scores sum to 1. `n_iter` bounds the scoring steps of `adjudge.evaluation.ranking`, which end once no log score moves by
    more than `tol`. Fitted: `scores_` by item and `loss_history_` (log-likelihood after each step).

    Examples
    --------
    >>> import pandas as pd
    >>> games = pd.DataFrame({"left": ["a", "a", "b"], "right": ["b", "b", "a"], "label": ["a", "b", "a"]})
    >>> BradleyTerry(n_iter=100).fit_predict(games).round(3).to_dict()
    {'a': 0.667, 'b': 0.333}

    """

    n_iter: int
    tol: float = 1e-5

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the comparisons of a frame and return self.

        Parameters
        ----------
        data : pd.DataFrame
            Columns left, right and label, the winner of the two. Other columns are ignored.

        Returns
        -------
        Self
            Fit the comparisons of a frame and return self.

        """
        items, comparisons = compare_items(data)
        self.loss_history_ = []
        if not len(items):
            self.scores_ = pd.Series([], dtype=float)
            return self
        found = fit_strengths(comparisons, items, prior=LEAST_PRIOR, max_iter=self.n_iter, tol=self.tol)
        power = np.exp(found.estimates.strength - found.estimates.strength.max())
        self.loss_history_ = [step.objective for step in found.trace]
        self.scores_ = items.series(power / power.sum(), "agg_score", None)
        return self


@dataclass(eq=False)
class NoisyBradleyTerry(BasePairwiseAggregator):
    """Bradley-Terry scores with workers who differ in reliability, and in how far they favour the left side.

    The model is that of `adjudge.rank` with judges. `n_iter` bounds its scoring steps, which end once no estimate moves by
    more than `tol`. `regularization_ratio` is the weight of one win and one loss of every item against a mean item. The
    start is not random: `random_state` is ignored.

    Fitted, all from 0 to 1: `scores_` by item (chance to beat a mean item), `skills_` by worker (a / (1 + a) for
    reliability a: 0.5 for the mean worker, 0 for one who guesses) and `biases_` by worker (chance to answer left for two
    equal items).

    Examples
    --------
    >>> import pandas as pd
    >>> games = pd.DataFrame({"worker": ["w", "w", "v"], "left": [*"aab"], "right": [*"bba"], "label": [*"aaa"]})
    >>> scores = NoisyBradleyTerry().fit_predict(games)
    >>> bool(scores["a"] > scores["b"])
    True

    """

    n_iter: int = 100
    tol: float = 1e-5
    regularization_ratio: float = 1e-5
    random_state: int = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the comparisons of a frame and return self.

        Parameters
        ----------
        data : pd.DataFrame
            Columns worker, left, right and label, the winner of the two.

        Returns
        -------
        Self
            Fit the comparisons of a frame and return self.

        """
        items, comparisons = compare_items(data)
        workers = factorize_column(data["worker"])
        strength, reliability, position = np.zeros(0), np.zeros(0), np.zeros(0)
        if len(items):
            prior = max(2.0 * self.regularization_ratio, LEAST_PRIOR)
            found = fit_strengths(comparisons, items, workers, prior=prior, max_iter=self.n_iter, tol=self.tol).estimates
            strength, reliability, position = found.strength, np.maximum(found.reliability, 0.0), found.judge_position
        self.scores_ = items.series(sigmoid(strength), "agg_score", "label")
        self.skills_ = workers.series(reliability / (1.0 + reliability), "skill", None)
        self.biases_ = workers.series(sigmoid(position), "bias", None)
        return self


def compare_items(data: pd.DataFrame) -> tuple[Codes, Any]:
    """Return the items, and the codes of left, right and winner, [3, comparisons]; raise if a winner is neither of the two."""
    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"data is of type {type(data).__name__}: give a pandas DataFrame with the columns left, right, label")
    games = data[["left", "right", "label"]]
    items = factorize_column(pd.concat([games[name] for name in games], ignore_index=True).rename("left, right or label"))
    left, right, winner = codes = items.codes.reshape(3, len(games))
    wrong = (winner != left) & (winner != right)
    if wrong.any():
        at = int(np.argmax(wrong))
        row = games.iloc[at]
        raise ValueError(
            f"label {row['label']!r} at index {games.index[at]!r} is neither left, {row['left']!r}, nor right, {row['right']!r}"
        )
    return items, codes


def fit_strengths(
    comparisons: Any, items: Codes, workers: Codes | None = None, *, prior: float, max_iter: int, tol: float
) -> Any:
    """Return the fit of `adjudge.evaluation.ranking`; given workers, it estimates their reliability and left-side advantage."""
    from adjudge.evaluation.ranking.fit import fit, problem_of
    from adjudge.evaluation.ranking.tournament import Tournament

    left, right, winner = comparisons
    apart = left != right  # an item compared with itself tells nothing
    judge, judges = (None, 1) if workers is None else (workers.codes[apart], len(workers))
    outcome = winner[apart] == left[apart]
    tournament = Tournament.of(left[apart], right[apart], outcome, judge, items=len(items), judges=judges)
    problem = problem_of(tournament, position=workers is not None, judges=judges > 1, prior=prior)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # n_iter is the caller's choice
        return fit(problem, max_iter=max_iter, tol=max(tol, 1e-10))


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))
