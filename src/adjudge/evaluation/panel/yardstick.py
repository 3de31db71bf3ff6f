"""What labels are measured by: the truth, or what all votes together say; and the labels that a model gives to a part of votes.

A yardstick has, for every task that counts, the probability that a label is right. Under truth it is 1 or 0. Without truth it is
the honest probability of the fit to all votes. So labels of small panels are judged by all the evidence on a task, not by
the small panel's own opinion, which was further from the truth on public sets.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.engines.registry import AutoEngine
from adjudge.errors import NotConverged
from adjudge.evaluation.agreement.coefficients import measure_errors
from adjudge.evaluation.inputs import VoteSubset, subset, vote_tasks
from adjudge.evaluation.intervals import Bootstrap, Estimate, Flags, Floats, Integers, design_effect, wilson
from adjudge.models.base import Model
from adjudge.results.result import Result

PANEL_SHARED_DOUBT: Final = 0.25  # share of the doubt about labels that may be an error of all tasks alike: measured
Z: Final = 1.6448536269514722  # of a 90% interval, the width of all intervals here
MIN_THREADED_VOTES: Final = 100_000  # from which on a fit is worth several threads


@dataclass(frozen=True, eq=False)
class Yardstick:
    """How likely each label of each task that counts is right."""

    tasks: Integers  # [judged] codes of the tasks that count
    chance: Floats  # [judged, K]
    cluster: Integers | None = None  # [judged] codes from 0 on; None if tasks are independent

    def __len__(self) -> int:
        return len(self.tasks)

    def right(self, shares: Floats) -> Floats:
        """Return how likely each task is labelled right, [..., judged], from the share of it that each label has."""
        return np.asarray(np.einsum("...tk,tk->...t", shares, self.chance))

    def shares_of(self, labels: Integers) -> Floats:
        """Return labels, [tasks] codes, as shares, [judged, K]: a task is all of its label; one without label (-1) has none."""
        own, out = labels[self.tasks], np.zeros(self.chance.shape)
        has = np.flatnonzero(own >= 0)
        out[has, own[has]] = 1.0
        return out

    def gain(self, shares: Floats, panels: Floats | None = None, *, pseudo: float = 0.0) -> Estimate:
        """Return the accuracy gained by a change of shares, [judged, K], with the interval of as many other tasks.

        If truth is not known, what it may be is part of the interval. `panels` are the gains of single panels, [panels], where
        the change is a mean over random ones: what their luck leaves open is added. `pseudo` tasks count as changed by 1: of
        changes that are rare, none seen is not none.
        """
        n, mean = len(self), float((shares * self.chance).sum()) / len(self)
        square = float((shares**2 * self.chance).sum()) + pseudo
        variance = max(square / n - mean**2, 0.0) / n * self.effect((shares * self.chance).sum(axis=1))
        doubt = (self.chance * (1.0 - self.chance)).sum(axis=1)
        variance += (PANEL_SHARED_DOUBT * float((np.abs(shares).sum(axis=1) * doubt).sum()) / n) ** 2
        if panels is not None and len(panels) > 1:
            variance += float(panels.var(ddof=1)) / len(panels)
        half = Z * variance**0.5
        return Estimate(mean, mean - half, mean + half)

    def of_some(self, index: Integers | Flags | slice) -> Yardstick:
        """Return the yardstick of some of the tasks that count."""
        cluster = None if self.cluster is None else np.unique(self.cluster[index], return_inverse=True)[1]
        return Yardstick(self.tasks[index], self.chance[index], cluster)

    def effect(self, values: Floats) -> float:
        """Return the ratio of the variance of a mean of values, [judged], to that on independent tasks."""
        return 1.0 if self.cluster is None else design_effect(values, self.cluster)

    def interval(self, right: Floats) -> Estimate:
        """Return a mean of how likely tasks are right, [judged], with its interval (Wilson's)."""
        share = float(right.mean())
        return Estimate(share, *wilson(share, len(right) / max(self.effect(right), 1e-9), Z))


def of_truth(codes: Integers, n_labels: int) -> Yardstick:
    """Return the yardstick of true labels, [tasks] codes: K for one that nobody gave, -1 if it is not known."""
    tasks = np.flatnonzero(codes >= 0)
    chance = np.zeros((len(tasks), n_labels))
    given = np.flatnonzero(codes[tasks] < n_labels)
    chance[given, codes[tasks][given]] = 1.0
    return Yardstick(tasks, chance)


def of_result(result: Result) -> Yardstick:
    """Return the yardstick of a fit to all votes."""
    return Yardstick(np.arange(result.votes.n_tasks), result.probabilities_frame().drop("task").to_numpy())


@dataclass(frozen=True, eq=False)
class Decider:
    """A model that labels parts of votes."""

    votes: Votes
    model: Model

    def labels(self, part: VoteSubset | Flags) -> Integers:
        """Return the labels that some votes, a part or a mask, [votes], give to all tasks, [tasks]; -1 for tasks without."""
        votes, tasks = subset(self.votes, part) if isinstance(part, np.ndarray) else part
        out = np.full(self.votes.n_tasks, -1)
        engine = AutoEngine(threads=1 if len(votes) < MIN_THREADED_VOTES else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the fit of all votes has already warned
            out[tasks] = self.model.fit(votes, engine=engine, trace="light", confidence="posterior").fit.outcome.labels
        return out


def independent_votes(part: VoteSubset, reference: Integers) -> float:
    """Return how many independent votes those of a task amount to, by their errors against labels of all tasks, [tasks]."""
    errors = measure_errors(part.votes, reference[part.tasks], Bootstrap(0, 0.9, 0))
    return 1.0 if errors.votes_per_task == 1.0 else float(errors.effective_votes)


def majority_shares(counts: NDArray[np.integer]) -> Floats:
    """Return the share of each task that majority vote gives each label, from votes per label, both [..., tasks, K].

    Tied labels share a task, and nobody has one without votes.

    >>> majority_shares(np.array([[2, 2, 0], [0, 3, 1], [0, 0, 0]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    tied = (counts == counts.max(axis=-1, keepdims=True)) & (counts > 0)
    return np.asarray(tied / np.maximum(tied.sum(axis=-1, keepdims=True), 1))


def some_tasks(votes: Votes, first: Flags, limit: int, rng: np.random.Generator) -> VoteSubset:
    """Return the votes of random tasks, about `limit` votes altogether; tasks that are `first`, [tasks], come before others."""
    order = np.lexsort((rng.random(votes.n_tasks), ~first))
    size = np.diff(votes.task_ptr)
    taken = order[: max(int(np.searchsorted(np.cumsum(size[order]), limit, side="right")), 1)]
    chosen = np.zeros(votes.n_tasks, np.bool_)
    chosen[taken] = True
    return subset(votes, np.repeat(chosen, size))


def draw_panels(workers: int, size: int, number: int, rng: np.random.Generator) -> Flags:
    """Return random panels of `size` workers, [panels, workers]; every one there is, if these are no more than `number`.

    >>> draw_panels(3, 2, 9, np.random.default_rng(0)).astype(int).tolist()
    [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    if math.comb(workers, size) <= number:
        members = np.array(list(combinations(range(workers), size)))
    else:
        members = rng.permuted(np.tile(np.arange(workers), (number, 1)), axis=1)[:, :size]
    out = np.zeros((len(members), workers), np.bool_)
    np.put_along_axis(out, members, True, axis=1)
    return out


def thin_votes(votes: Votes, size: int, rng: np.random.Generator) -> Flags:
    """Return which votes stay, [votes], where each task keeps at most `size` of its own at random."""
    order = np.lexsort((rng.random(len(votes)), vote_tasks(votes)))
    out = np.empty(len(votes), np.bool_)
    out[order] = np.arange(len(votes)) - np.repeat(votes.task_ptr[:-1], np.diff(votes.task_ptr)) < size
    return out


def chunks(total: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size`, one behind the other."""
    for start in range(0, total, max(size, 1)):
        yield slice(start, min(start + max(size, 1), total))
