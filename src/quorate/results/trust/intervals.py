"""Credible intervals: of workers' accuracies, and of the class priors."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import WORKERS, Ballots
from quorate.trust.posterior import ALIKE, LENT, Belief
from quorate.trust.quantiles import beta_interval

Floats = NDArray[np.float64]

SHARE: Final = 0.9  # of the probability that lies within an interval
SAMPLE: Final = 10_000  # workers, or tasks, that say enough about all
SPREADS: Final = np.concatenate([np.linspace(0.0005, 0.1, 25), np.linspace(0.1, 0.5, 21)[1:]])
GUESS: Final = 2 / 3  # the mean accuracy, before anything is seen,
FEW: Final = 2.0  # as sure as this many votes
USUAL: Final = 0.1  # the spread, before anything is seen: exponential, with this mean
GROUPS: Final = 16  # of workers whose errors about the labels are told apart
SHIFTS: Final = 400  # numbers whose covariance is computed


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
    """Returns where the accuracy of each worker lies, [workers] each; `right` is the posterior of each vote, [votes].

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
    """Returns the beta distribution of accuracies behind estimates, [workers], from votes that count and votes cast, [workers].

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
    """Returns where the share of each label among all tasks to come lies, [K] each.

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
    """Returns the slopes of some tasks' log-likelihoods, [tasks, shifts], and the information of what is lent, [shifts].

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
    """Returns the middle of the beta distributions of these means and variances, [n] each."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for start in range(0, len(mean), WORKERS):
        cut = slice(start, start + WORKERS)
        some = mean[cut]
        strength = np.maximum(some * (1.0 - some) / variance[cut] - 1.0, 0.5)
        low[cut], high[cut] = beta_interval(some, strength, SHARE)
    return Interval(low, high)
