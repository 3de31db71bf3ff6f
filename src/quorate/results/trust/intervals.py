"""Credible intervals of workers' accuracies and of the class priors."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.results.trust.ballots import WORKERS, Ballots
from quorate.results.trust.posterior import ALIKE, LENT, Belief

Floats = NDArray[np.float64]
POINTS = 301  # where a density is looked at
NODES = np.linspace(np.log(0.02), np.log(1e5), 48)  # of log a and log b; between them quantiles are interpolated
SHARE: Final = 0.9  # of the probability that lies within an interval
SAMPLE: Final = 10_000  # workers, or tasks, that say enough about all
SPREADS: Final = np.concatenate([np.linspace(0.0005, 0.1, 25), np.linspace(0.1, 0.5, 21)[1:]])
GUESS: Final = 2 / 3  # the mean accuracy, before anything is seen,
FEW: Final = 2.0  # as sure as this many votes
USUAL: Final = 0.1  # the spread, before anything is seen: exponential, with this mean
GROUPS: Final = 16  # of workers whose errors about the labels are told apart
SHIFTS: Final = 400  # numbers whose covariance is computed


def beta_interval(mean: Floats, strength: Floats, share: float = 0.9) -> tuple[Floats, Floats]:
    """Return (low, high), [n] each: what the middle `share` of beta distributions lies between, to about 0.003.

    `mean` and `strength`, [n]: a beta distribution of a right and b wrong votes has mean a / (a + b), strength a + b.

    >>> low, high = beta_interval(np.array([0.5, 0.9]), np.array([2.0, 100.0]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.05, 0.847], [0.95, 0.944])
    """
    a, b = (np.maximum(part * strength, 0.02) for part in (mean, 1.0 - mean))
    (row, down), (col, across) = _between(np.log(a)), _between(np.log(b))
    centre, width = np.log(a / b), np.sqrt(1.0 / a + 1.0 / b)
    ends = []
    for table in _tables((1.0 - share) / 2.0):
        top = table[row, col] * (1.0 - across) + table[row, col + 1] * across
        bottom = table[row + 1, col] * (1.0 - across) + table[row + 1, col + 1] * across
        log_odds = centre + width * (top * (1.0 - down) + bottom * down)
        ends.append(0.5 + 0.5 * np.tanh(0.5 * log_odds))
    return ends[0], ends[1]


def _between(x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return (the node before, how far it is to the next one), [n] each; what lies outside is put to the end."""
    at = np.clip((x - NODES[0]) / (NODES[1] - NODES[0]), 0.0, len(NODES) - 1.001)
    before = at.astype(np.int64)
    return before, at - before


@cache
def _tables(tail: float) -> tuple[Floats, Floats]:
    """Return two tables, [log a, log b]: the quantiles of `tail` and 1 - `tail` of the log-odds, in standard units.

    The density of the log-odds x is exp(a x) / (1 + exp x)^(a + b), one smooth hill that falls like exp(a x) to the
    left and exp(-b x) to the right. The unit is sqrt(1/a + 1/b), the origin log(a / b).
    """
    tables = np.empty((2, len(NODES), len(NODES)))
    u = np.linspace(-1.0, 1.0, POINTS)
    u = u * (0.15 + 0.85 * u * u)  # closer where the hill is steep
    b = np.exp(NODES)[:, None]
    for n, a in enumerate(np.exp(NODES)):
        width = np.sqrt(1.0 / a + 1.0 / b)
        x = np.log(a / b) + np.where(u < 0, u * (6.0 * width + 12.0 / a), u * (6.0 * width + 12.0 / b))
        height = a * x - (a + b) * np.logaddexp(0.0, x)
        density = np.exp(height - height.max(axis=1, keepdims=True))
        area = np.zeros_like(x)
        np.cumsum((density[:, 1:] + density[:, :-1]) * np.diff(x, axis=1), axis=1, out=area[:, 1:])
        area /= area[:, -1:]
        for table, level in zip(tables, (tail, 1.0 - tail), strict=True):
            at = np.array([np.interp(level, line, place) for line, place in zip(area, x, strict=True)])
            table[n] = (at - np.log(a / b)[:, 0]) / width[:, 0]
    return tables[0], tables[1]


class Interval(NamedTuple):
    """Where the truth lies with probability `SHARE`."""

    low: Floats
    high: Floats


class Population(NamedTuple):
    """The accuracies of all workers: a beta distribution."""

    mean: float
    spread: float  # the variance, as a share of mean * (1 - mean)
    mean_variance: float  # how well the mean is known


def accuracy_interval(ballots: Ballots, belief: Belief, right: NDArray[np.float32]) -> Interval:
    """Return where the accuracy of each worker lies, [workers] each; `right` is the posterior of each vote, [votes].

    A vote whose truth is uncertain tells less about its worker: of n votes, n less V / (a (1 - a)) count, where V is
    the variance of the number of right votes (the missing information, by Louis's identity). The others come from
    the population.
    """
    worker, votes = ballots.worker(), ballots.per_worker
    expected = np.bincount(worker, right, minlength=len(votes))
    unsure = np.bincount(worker, right * (1.0 - right), minlength=len(votes))
    now = np.zeros(len(votes))
    for c in range(ballots.panel.n_labels):
        now += belief.totals[c] * belief.right(ballots, c)
    now = np.clip(now / ballots.divisor, 1e-3, 1.0 - 1e-3)
    counting = np.maximum(votes - unsure / (now * (1.0 - now)), 0.05 * ballots.divisor)
    alone = now + (expected - votes * now) / counting  # the accuracy that the worker's own votes say
    crowd = population(alone, counting, ballots.divisor)
    lent = 1.0 / crowd.spread - 1.0
    mean = np.clip((counting * np.clip(alone, 0.0, 1.0) + lent * crowd.mean) / (counting + lent), 1e-3, 1.0 - 1e-3)
    variance = mean * (1.0 - mean) / (counting + lent + 1.0) + crowd.mean_variance * (lent / (counting + lent)) ** 2
    return _interval(mean, variance)


def population(alone: Floats, votes: Floats, cast: NDArray[np.int64]) -> Population:
    """Return the beta distribution of accuracies behind estimates, [workers], from votes that count and votes cast, [workers].

    The variance of an estimate is mean (1 - mean) (spread (1 - 1 / cast) + 1 / votes): one vote alone tells nothing of
    the spread. The spread is its posterior mean: a maximum would often be 0, and make every worker the mean one.
    """
    every = max(len(alone) // SAMPLE, 1)
    alone, votes, cast = alone[::every], votes[::every], cast[::every]
    mean, spread, weight = GUESS, USUAL, np.ones(len(alone))
    before = np.gradient(SPREADS) * np.exp(-SPREADS / USUAL)
    for _ in range(4):
        mean = float(np.clip((weight @ alone + FEW * GUESS) / (weight.sum() + FEW), 0.01, 0.99))
        unit, fits = mean * (1.0 - mean), np.empty(len(SPREADS))
        for n, one in enumerate(SPREADS):
            variance = unit * (one * (1.0 - 1.0 / cast) + 1.0 / votes)
            fits[n] = -0.5 * (np.log(variance) + (alone - mean) ** 2 / variance).sum()
        after = before * np.exp(fits - fits.max())
        spread = float(after @ SPREADS / after.sum())
        weight = 1.0 / (spread + 1.0 / votes)
    return Population(mean, spread, mean * (1.0 - mean) / (every * float(weight.sum()) + FEW))


def prior_interval(ballots: Ballots, belief: Belief) -> Interval:
    """Return where the share of each label among all tasks to come lies, [K] each.

    From the information that tasks give on the shares, with the chance to be right under each true label unknown:
    that of all workers together, and that of some groups of them.
    """
    tasks, k = ballots.n_tasks, ballots.panel.n_labels
    if not tasks:
        return Interval(np.zeros(k), np.ones(k))
    groups = min(GROUPS, ballots.panel.n_workers, SHIFTS // k - 2)
    score, held = _scores(ballots, belief, max(groups, 0))
    information = score.T @ score * (tasks / len(score)) + np.diag(held)
    priors = belief.priors
    turn = np.diag(priors) - np.outer(priors, priors)
    covariance = turn @ np.linalg.pinv(information, rcond=1e-10, hermitian=True)[:k, :k] @ turn
    mean = np.clip(priors, 0.5 / (tasks + 1.0), 1.0 - 0.5 / (tasks + 1.0))  # a label nobody gave may still be somewhere
    return _interval(mean, np.maximum(np.diagonal(covariance), mean * (1.0 - mean) / (tasks + 2.0)))


def _scores(ballots: Ballots, belief: Belief, groups: int) -> tuple[Floats, Floats]:
    """Return the slopes of some tasks' log-likelihoods, [tasks, shifts], and the information of what is lent, [shifts].

    Shifts are those of the logits of the K shares; of the chance to be right under each of K labels; and of the same
    in each group.
    """
    panel, k = ballots.panel, ballots.panel.n_labels
    chosen = np.arange(0, ballots.n_tasks, max(ballots.n_tasks // SAMPLE, 1))
    posterior = belief.posterior[:, chosen].T.astype(np.float64)
    parts, held = [posterior - belief.priors], [np.zeros(k)]
    if groups < 1:
        return parts[0], held[0]
    length = ballots.per_task[chosen]
    start = np.cumsum(length) - length
    votes = np.repeat(ballots.task_ptr[chosen] - start, length) + np.arange(length.sum())
    row = ballots.row[votes]
    worker, label = ballots.row_worker[row], panel.row_label[row]
    group = np.arange(panel.n_workers) * 2654435761 % 2**32 * groups >> 32  # stirred, as neighbours may be alike
    cell = np.repeat(np.arange(len(chosen)), length) * groups + group[worker]
    size = np.bincount(group, minlength=groups)
    for c in range(k):
        beyond = np.bincount(cell, (label == c) - belief.right(ballots, c)[worker], minlength=len(chosen) * groups).reshape(
            -1, groups
        )
        slope = posterior[:, c : c + 1] * beyond
        unit = belief.mean[c, c] * (1.0 - belief.mean[c, c])
        parts += [slope.sum(axis=1, keepdims=True), slope]
        held += [np.array([ALIKE * unit]), size * LENT * unit]
    return np.hstack(parts), np.concatenate(held)


def _interval(mean: Floats, variance: Floats) -> Interval:
    """Return the middle of the beta distributions of these means and variances, [n] each."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for start in range(0, len(mean), WORKERS):
        cut = slice(start, start + WORKERS)
        some = mean[cut]
        strength = np.maximum(some * (1.0 - some) / variance[cut] - 1.0, 0.5)
        low[cut], high[cut] = beta_interval(some, strength, SHARE)
    return Interval(low, high)
