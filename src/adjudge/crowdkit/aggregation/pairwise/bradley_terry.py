"""Bradley-Terry: scores of items from comparisons, by Hunter's MM algorithm (2004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BasePairwiseAggregator
from adjudge.crowdkit.frames import Floats, coded, pd, series_of
from adjudge.errors import NotConverged, warn

__all__ = ["BradleyTerry"]

EARLY = 2  # steps of crowd-kit where it has a tolerance


class BradleyTerry(BasePairwiseAggregator):
    """An item with score p beats one with score q with probability p / (p + q); scores add up to 1.

    `n_iter` steps are taken where `tol` is 0. With any `tol` above 0 crowd-kit stops after two, and so does this class; a warning
    (`NotConverged`) says so where the second still moved a score by more than `tol`. `adjudge.rank` finds the maximum. Who
    compared does not matter. An item that always loses ends at 0; items that cannot be compared, because nothing connects them,
    keep the scale they started with. Fitted: `scores_`, by item; `loss_history_`, which is empty, as in crowd-kit.

    >>> import pandas as pd
    >>> games = pd.DataFrame({"left": ["a", "a", "b"], "right": ["b", "b", "a"], "label": ["a", "b", "a"]})
    >>> BradleyTerry(n_iter=100, tol=0).fit_predict(games).round(3).to_dict()
    {'a': 0.667, 'b': 0.333}
    """

    loss_history_: list[float]

    def __init__(self, n_iter: int, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def fit(self, data: pd.DataFrame) -> BradleyTerry:
        """Fit the comparisons of a frame, and return self.

        - `data`: columns left, right and label, the one of the two that won. Other columns are ignored.
        """
        items, left, right, left_won = compared(data)
        self.loss_history_ = []
        if not len(items):
            self.scores_ = pd.Series([], dtype=float)
            return self
        n, winner = len(items), np.where(left_won, left, right)
        apart = left != right  # an item beside itself says nothing
        pairs, games = np.unique((np.minimum(left, right) * n + np.maximum(left, right))[apart], return_counts=True)
        one, two = pairs // n, pairs % n
        wins = np.bincount(winner[apart], minlength=n)
        scores = np.full(n, 1.0 / n)
        for _ in range(min(self.n_iter, EARLY) if self.tol > 0 else self.n_iter):
            before, scores = scores, _step(scores, wins, one, two, games)
        if self.tol > 0 and self.n_iter > EARLY and (moved := float(np.abs(scores - before).max())) > self.tol:
            warn(
                f"BradleyTerry stopped after {EARLY} steps, as crowd-kit does with any tol above 0; the last moved a score by "
                f"{moved:.2g}. tol=0 takes all {self.n_iter} steps, and adjudge.rank finds the maximum",
                NotConverged,
            )
        self.scores_ = series_of(scores, items, name="agg_score", index=None)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the comparisons of a frame, and return the score of every item; arguments as in `fit`."""
        return self.fit(data).scores_


def _step(
    scores: Floats, wins: NDArray[np.int64], one: NDArray[np.int64], two: NDArray[np.int64], games: NDArray[np.int64]
) -> Floats:
    """Return the scores after a step: wins over the sum of games / (own score + other score), scaled to add up to 1."""
    n, both = len(scores), scores[one] + scores[two]
    share = games / np.where(both > 0, both, 1.0)
    total = np.bincount(one, share, n) + np.bincount(two, share, n)
    new = np.where(total > 0, wins / np.where(total > 0, total, 1.0), scores)
    out: Floats = new / new.sum() if new.sum() > 0 else scores
    return out


def compared(data: pd.DataFrame) -> tuple[pd.Index[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the items in sorted order, the positions of left and right, [comparisons], and whether left won.

    A comparison without a winner is an error, and so is a winner that is neither of the two.
    """
    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"data is of type {type(data).__name__}: give a pandas DataFrame with the columns left, right, label")
    games = data[["left", "right", "label"]]
    n = len(games)
    codes = coded(pd.concat([games["left"], games["right"], games["label"]], ignore_index=True).rename("left, right or label"))
    left, right, winner = (codes.codes[i * n : (i + 1) * n] for i in range(3))
    wrong = (winner != left) & (winner != right)
    if wrong.any():
        at = int(np.argmax(wrong))
        row = games.iloc[at]
        raise ValueError(
            f"label {row['label']!r} at index {games.index[at]!r} is neither left, {row['left']!r}, nor right, {row['right']!r}"
        )
    return codes.ids, left, right, winner == left
