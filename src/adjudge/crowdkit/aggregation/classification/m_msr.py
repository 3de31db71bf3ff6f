"""M-MSR: skills from how often pairs of workers agree, robust to a few who lie (Ma and Olshevsky 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification.majority_vote import decided, shares, weighted
from adjudge.crowdkit.frames import Encoded, Floats, encode, pd, series_of

__all__ = ["MMSR"]

PAIRS = 1 << 22  # pairs of votes counted at once
DENSE = 500  # workers up to which all eigenvectors are found at once
POWERS = 300  # of a larger matrix, at most, for one of them
NEWTON = 30  # steps towards its eigenvalue, at most


class MMSR(BaseClassificationAggregator):
    """Agreement of two workers, corrected for chance, is the product of their skills: a matrix of rank one is completed.

    The skills start from uniform random numbers by `random_state`. A step takes, for each worker, the mean of what the agreement
    with every other says of it, without the largest and the smallest values. At most `n_iter` steps; fewer if the matrix moves by
    less than `tol`. Votes are then weighted by log((K - 1) s / (1 - s)), where s is the probability that a worker is right. A tie
    goes to the first of its labels in sorted order. Fitted: `skills_` (these weights), `loss_history_` (how far each step moved);
    predicted: `labels_`, `scores_` (shares of weights, a frame indexed by task with a column per label).

    >>> import pandas as pd
    >>> votes = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": [*"abcabc"], "label": ["x", "x", "y", "y", "y", "y"]})
    >>> MMSR().fit_predict(votes).to_dict()
    {1: 'x', 2: 'y'}
    """

    skills_: pd.Series[Any]
    scores_: pd.DataFrame
    loss_history_: list[float]

    def __init__(self, n_iter: int = 10000, tol: float = 1e-10, random_state: int | None = 0) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> MMSR:
        """Learn the skills of the workers of a frame, and return self.

        - `data`: columns task, worker and label.
        """
        votes = encode(data)
        workers, n = votes.workers, len(votes.workers)
        state: Any = self.random_state
        source = state if hasattr(state, "uniform") else np.random.RandomState(state)
        skills = source.uniform(size=n)[workers.by_first_vote]
        self.loss_history_ = []
        if len(votes.labels) > 1:
            matrix = _Agreement(votes)
            one, two = skills, skills
            for _ in range(self.n_iter):
                with np.errstate(over="ignore", invalid="ignore"):
                    new_two = matrix.step(one, two)
                    new_one = matrix.step(new_two, one)
                    moved = float(np.linalg.norm(np.outer(new_one, new_two) - np.outer(one, two)))
                if not np.isfinite(moved):  # with few workers the factor can run away: what was before it is the answer
                    break
                one, two = new_one, new_two
                self.loss_history_.append(moved)
                if moved < self.tol:
                    break
            weights = _weights(matrix.signed(_scaled(one, two)), len(votes.labels), len(votes.tasks))
        else:
            weights = np.ones(n)  # with one label all agree
        self.skills_ = series_of(weights, workers.ids, workers.seen, name="skill", index="worker")
        return self

    def predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Return the label of every task of a frame, by the skills of the fit; each worker needs one.

        - `data`: columns task, worker and label.
        """
        self._apply(data)
        return self.labels_

    def predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return each label's share of the weights of every task's votes; arguments as in `predict`."""
        self._apply(data)
        return self.scores_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task; arguments as in `fit`."""
        return self.fit(data).predict(data)

    def fit_predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the votes of a frame, and return each label's share of every task; arguments as in `fit`."""
        return self.fit(data).predict_score(data)

    def _apply(self, data: pd.DataFrame) -> None:
        self._require("skills_")
        votes, weights = weighted(data, self.skills_)
        self.scores_, labels = shares(votes, weights)
        self.labels_ = decided(votes, labels)


class _Agreement:
    """How often pairs of workers agree beyond chance, and the steps that complete this matrix as one of rank one."""

    def __init__(self, votes: Encoded) -> None:
        k = len(votes.labels)
        together, agree = _pairs(votes)
        self._met = together > 0  # [workers, workers]
        with np.errstate(invalid="ignore", divide="ignore"):
            self._values = np.where(self._met, (k * agree / together - 1.0) / (k - 1), np.nan)
        self._degree = self._met.sum(axis=1)
        fewest = int(self._degree.min())
        self._cut = max(fewest // 2 - 1, 0)  # values that a step leaves out at either end

    def step(self, others: Floats, own: Floats) -> Floats:
        """Return what agreement says of the size of every skill, given those of the others and its own, [workers] each.

        Of the values above a worker's own the largest are left out, of those below the smallest.
        """
        silent = others == 0  # whose agreement says nothing: what a worker has itself stands for it
        said = np.where(silent & self._met, own[:, None], np.abs(self._values) / np.where(silent, 1.0, others))
        said.sort(axis=1)  # workers who never met are last
        degree = self._degree
        valid = np.arange(said.shape[1]) < degree[:, None]
        below = (valid & (said < own[:, None])).sum(axis=1)
        above = (valid & (said > own[:, None])).sum(axis=1)
        first, last = np.minimum(below, self._cut), degree - np.minimum(above, self._cut)
        at = np.arange(said.shape[1])
        kept = (at >= first[:, None]) & (at < last[:, None])
        total = np.where(kept, said, 0.0).sum(axis=1)
        return np.where(degree > 0, total / np.maximum(last - first, 1), own)

    def signed(self, skills: Floats) -> Floats:
        """Return the sizes of the skills, [workers], with the signs under which most pairs are of one mind."""
        way = _two_sides(self._values > 0, (self._values < 0) | np.eye(len(self._values), dtype=np.bool_))
        degree = self._degree
        size = np.abs(skills)
        undecided = (degree == 0) | (np.abs(way) <= 1e-12 * np.abs(way).max(initial=0.0))
        sign = np.where(undecided, 0.0, np.sign(way))
        # Most workers are more often right than a guess; so is one of whom nothing is known.
        turned = (float(sign.sum()) or float((sign * size).sum())) < 0
        out: Floats = np.where(undecided, 1.0, -sign if turned else sign) * size
        return out


def _pairs(votes: Encoded) -> tuple[Floats, Floats]:
    """Return on how many tasks every pair of workers met, and agreed, [workers, workers]; of repeated votes the last counts."""
    n = len(votes.workers)
    cell = votes.tasks.codes * n + votes.workers.codes
    _, last = np.unique(cell[::-1], return_index=True)
    chosen = len(cell) - 1 - last  # sorted by task, then worker
    worker, label = votes.workers.codes[chosen], votes.labels.codes[chosen]
    size = np.bincount(votes.tasks.codes[chosen], minlength=len(votes.tasks))
    start = np.concatenate([[0], np.cumsum(size)])
    together, agree = np.zeros(n * n), np.zeros(n * n)
    cuts = np.concatenate([[0], np.cumsum(size * size)])
    at = 0
    while at < len(size):
        end = max(int(np.searchsorted(cuts, cuts[at] + PAIRS, side="right")) - 1, at + 1)
        left, right = _both(size[at:end], start[at:end])
        pair, same = worker[left] * n + worker[right], label[left] == label[right]
        together += np.bincount(pair, minlength=n * n)
        agree += np.bincount(pair[same], minlength=n * n)
        at = end
    for matrix in (together, agree):
        matrix[:: n + 1] = 0.0
    return together.reshape(n, n), agree.reshape(n, n)


def _both(size: NDArray[np.int64], start: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of all pairs of votes on one task; `size` and `start` are of the tasks."""
    of = np.repeat(np.arange(len(size)), size * size)
    place = np.arange(len(of)) - np.repeat(np.cumsum(size * size) - size * size, size * size)
    return start[of] + place // size[of], start[of] + place % size[of]


def _scaled(one: Floats, two: Floats) -> Floats:
    """Return the first factor, [workers], scaled so that both are equally long."""
    lengths = float(np.linalg.norm(one)), float(np.linalg.norm(two))
    return one / np.sqrt(lengths[0] / lengths[1]) if all(lengths) else one


def _two_sides(agree: NDArray[np.bool_], differ: NDArray[np.bool_]) -> Floats:
    """Return a vector, [n], whose signs part the workers into two sides, so that few agree across and few differ within.

    The workers are nodes of a graph: an edge where two differ, a path over a node of its own where they agree. The sides are the
    signs of the eigenvector of the walk on this graph whose eigenvalue is least, at best -1. The nodes between are
    eliminated: with eigenvalue x, x D y = (differ + (agree + its degrees) / 2x) y.
    """
    apart, between = differ.astype(np.float64), agree.astype(np.float64)
    between[np.diag_indices(len(between))] += between.sum(axis=1)
    root = np.sqrt(differ.sum(axis=1) + agree.sum(axis=1))  # a worker differs from itself: none is 0
    apart, between = (matrix / root[:, None] / root[None, :] for matrix in (apart, between))
    least = -1.0
    for _ in range(NEWTON):
        value, way = _least(apart + between / (2 * least))
        slope = -float(way @ between @ way) / (2 * least * least) - 1.0
        new = min(max(least - (value - least) / slope, -1.0), -1e-3)
        if abs(new - least) < 1e-12:
            break
        least = new
    out: Floats = way / root
    return out


def _least(matrix: Floats) -> tuple[float, Floats]:
    """Return the least eigenvalue of a symmetric matrix, and its vector, [n]."""
    if len(matrix) <= DENSE:
        values, vectors = np.linalg.eigh(matrix)
        return float(values[0]), vectors[:, 0]
    way = np.random.RandomState(0).normal(size=len(matrix))
    for _ in range(POWERS):
        new = 2.0 * way - matrix @ way
        new /= np.linalg.norm(new)
        if np.abs(new - way).max() < 1e-10:
            break
        way = new
    return float(way @ matrix @ way), way


def _weights(skills: Floats, labels: int, tasks: int) -> Floats:
    """Return the weights of votes, [workers]: skills, within what so many tasks can tell, as log odds against a guess."""
    margin = 1.0 / np.sqrt(tasks)
    inside = np.maximum(np.minimum(skills, 1.0 - margin), -1.0 / (labels - 1) + margin)
    right = inside * (labels - 1) / labels + 1.0 / labels
    with np.errstate(divide="ignore"):
        out: Floats = np.log((labels - 1) * right / (1.0 - right))
    return out
