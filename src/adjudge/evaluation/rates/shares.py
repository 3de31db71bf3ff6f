"""Shares of labels in a group of tasks, from votes alone.

The share is the one under which the votes of the group are most likely, given what the fit has learned of workers: it is not
pulled towards the share among all tasks, as a mean of probabilities would be, nor towards the mix of the workers' answers.
What nobody can see in votes is errors that workers have in common. Honest probabilities are made for them, and give the part of
the variance that more tasks do not make smaller (docs/decisions/055-rates.md has what was measured).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.evaluation.rates.intervals import share_intervals
from adjudge.results.honest import SHARED_DOUBT

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
VOTES: Final = "votes"  # methods: by votes alone
KNOWN: Final = "gold"  # by known labels of all tasks
ADDED: Final = 0.25  # tasks added to every label: a share of none is not proved by a hundred tasks
MAX_STEPS: Final = 500
TOLERANCE: Final = 1e-7
APART: Final = 0.5  # of the distance between the share and what honest probabilities make of it that may be such an error
LEAST_KNOWN: Final = 0.01  # of what truth would tell of a share that votes tell at least: keeps variances finite
MAX_VARIANCE: Final = 0.25  # of any share


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What votes say of tasks, without known labels."""

    likelihood: Floats  # [tasks, K] of the votes on a task by its true label, up to a factor per task
    honest: Floats  # [tasks, K] probabilities
    label: Integers  # [tasks] codes
    exists: NDArray[np.bool_]  # [K] labels that votes name
    usual: Floats  # [K] the mean of honest probabilities over the tasks of all groups

    def of(self, tasks: Integers) -> Beliefs:
        """Return what is said of some tasks, codes."""
        return Beliefs(self.likelihood[tasks], self.honest[tasks], self.label[tasks], self.exists, self.usual)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The share of every label in a group, and how sure it is."""

    share: Floats  # [K]
    variance: Floats  # [K] by luck of tasks, votes and gold
    shared: Floats  # [K] variance by errors that all tasks may have in common
    method: str
    df: float  # degrees of freedom that the variance is known with
    tasks: Integers  # [influences] codes: the tasks of the group, and then gold of any group where it has a part
    influence: Floats  # [influences, K] by which luck with each of these moves the share
    own: int  # how many of them are the tasks of the group

    @property
    def error(self) -> Floats:
        """The standard error of every share, [K]."""
        out: Floats = np.sqrt(self.variance + self.shared)
        return out

    def interval(self, z: float, tasks: int) -> tuple[Floats, Floats]:
        """Return low and high of every share, [K] each, of so many tasks; nothing is open where all of them are known."""
        if self.method == KNOWN and not self.variance.any():
            return self.share, self.share
        return share_intervals(self.share, self.variance + self.shared, z, tasks)


def most_likely(found: Beliefs) -> tuple[Floats, Floats]:
    """Return the most likely shares, [K], and the probabilities of the labels of every task under them, [tasks, K].

    This is expectation-maximisation for a mixture of known parts, so that each step makes the votes more likely. It is a loop
    over K numbers: what votes say of a task is settled before. A quarter of a task is added to every label.

    >>> sure = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 4)
    >>> share, _ = most_likely(Beliefs(sure, sure, sure.argmax(axis=1), np.array([True, True]), sure.mean(axis=0)))
    >>> share.round(2).tolist()
    [0.62, 0.38]
    """
    added = np.where(found.exists, ADDED, 0.0)
    share = np.where(found.exists, 1.0, 0.0) / max(int(found.exists.sum()), 1)
    posterior = found.likelihood
    for _ in range(MAX_STEPS):
        posterior = found.likelihood * share
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
        new = (posterior.sum(axis=0) + added) / (len(found) + added.sum())
        moved, share = float(np.abs(new - share).max()), new
        if moved < TOLERANCE:
            break
    return share, posterior


def shared_variance(found: Beliefs, share: Floats) -> Floats:
    """Return the variance of shares by errors that the tasks of a group may have in common, [K].

    One part is the same share of the honest doubt, p (1 - p), as in the intervals of workers. The other follows from honest
    probabilities themselves, which know of shared errors. They are moved from the share among all tasks to that of the group,
    by Bayes' rule; where their mean is still another share, one of the two is wrong.
    """
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    moved = found.honest * np.divide(share, found.usual, out=np.zeros_like(share), where=found.usual > 0)
    moved /= np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
    out: Floats = (SHARED_DOUBT * doubt) ** 2 + (APART * (moved.mean(axis=0) - share)) ** 2
    return out


def by_votes(found: Beliefs, tasks: Integers, *, sample: bool) -> Estimate:
    """Return the shares of a group by its votes alone; `tasks` are its codes.

    The variance of a most likely share is (s (1 - s))^2 / (n v), v being the variance of the probabilities: that of a share of n
    tasks with truth, times what votes hide of it. For the share among these very tasks, that of n tasks with truth is taken off.
    """
    n = len(found)
    share, posterior = most_likely(found)
    whole = share * (1.0 - share)
    known = np.maximum(posterior.var(axis=0), LEAST_KNOWN * whole)
    scale = np.divide(whole, known, out=np.zeros_like(whole), where=known > 0)
    variance = np.minimum(whole * scale / n, MAX_VARIANCE)
    influence = (posterior - posterior.mean(axis=0)) * np.minimum(scale, 1.0 / LEAST_KNOWN) / n
    if not sample:
        variance, influence = np.maximum(variance - whole / n, 0.0), np.zeros_like(influence)
    return Estimate(share, variance, shared_variance(found, share), VOTES, math.inf, tasks, influence, n)
