"""What labels are measured by: the truth, or what all votes together say; and the labels that a model gives to a part of votes.

A yardstick has, for every task that counts, the probability that a label is right. Under truth it is 1 or 0. Without truth it is
the honest probability of the fit to all votes: so labels of small panels are judged by everything that is known of a task, and
not by what the small panel thinks of itself, which was further from the truth on public sets (docs/decisions/039-panels.md).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import Confidence
from adjudge.data.votes import Votes
from adjudge.errors import NotConverged
from adjudge.evaluation.agreement.agreement import measure_errors
from adjudge.evaluation.agreement.coefficients import Bootstrap
from adjudge.evaluation.panel.sampling import Flags, Integers, Part, kept
from adjudge.models.base import Model
from adjudge.results.result import Result

Floats = NDArray[np.float64]
DOUBT: Final = 0.25  # share of the doubt about labels that may be an error of all tasks alike: measured, see the decision
Z: Final = 1.6448536269514722  # of a 90% interval, the width of all intervals here
MANY_VOTES: Final = 100_000  # from which on a fit is worth several threads


@dataclass(frozen=True)
class Interval:
    """A number with its 90% interval."""

    value: float
    low: float
    high: float

    def rounded(self) -> tuple[float, float, float]:
        """Return value, low and high without the last bits, in which sums may differ."""
        return round(self.value, 9), round(self.low, 9), round(self.high, 9)


@dataclass(frozen=True, eq=False)
class Yardstick:
    """How likely each label of each task that counts is right."""

    tasks: Integers  # [judged] codes of the tasks that count
    chance: Floats  # [judged, K]

    def __len__(self) -> int:
        return len(self.tasks)

    def right(self, shares: Floats) -> Floats:
        """Return how likely each task is labelled right, [..., judged], from the share of it that each label has."""
        out: Floats = np.einsum("...tk,tk->...t", shares, self.chance)
        return out

    def shares_of(self, labels: Integers) -> Floats:
        """Return labels, [tasks] codes, as shares, [judged, K]: a task is all of its label; one without label (-1) has none."""
        own, out = labels[self.tasks], np.zeros(self.chance.shape)
        has = np.flatnonzero(own >= 0)
        out[has, own[has]] = 1.0
        return out

    def gain(self, shares: Floats, panels: Floats | None = None, *, pseudo: float = 0.0) -> Interval:
        """Return the accuracy gained by a change of shares, [judged, K], with the interval of as many other tasks.

        Where truth is not known, what it may be is part of the interval. `panels` are the gains of single panels, [panels], where
        the change is a mean over random ones: what their luck leaves open is added. `pseudo` tasks count as changed by 1: of
        changes that are rare, none seen is not none.
        """
        n, mean = len(self), float((shares * self.chance).sum()) / len(self)
        square = float((shares**2 * self.chance).sum()) + pseudo
        variance = max(square / n - mean**2, 0.0) / n
        doubt = (self.chance * (1.0 - self.chance)).sum(axis=1)
        variance += (DOUBT * float((np.abs(shares).sum(axis=1) * doubt).sum()) / n) ** 2
        if panels is not None and len(panels) > 1:
            variance += float(panels.var(ddof=1)) / len(panels)
        half = Z * variance**0.5
        return Interval(mean, mean - half, mean + half)

    def of_some(self, index: Integers | Flags | slice) -> Yardstick:
        """Return the yardstick of some of the tasks that count."""
        return Yardstick(self.tasks[index], self.chance[index])


def of_truth(codes: Integers, n_labels: int) -> Yardstick:
    """Return the yardstick of true labels, [tasks] codes: K for one that nobody gave, -1 where it is not known."""
    tasks = np.flatnonzero(codes >= 0)
    chance = np.zeros((len(tasks), n_labels))
    given = np.flatnonzero(codes[tasks] < n_labels)
    chance[given, codes[tasks][given]] = 1.0
    return Yardstick(tasks, chance)


def of_result(result: Result, tasks: Integers, n_tasks: int) -> Yardstick:
    """Return the yardstick of a fit to votes on `tasks`, codes among `n_tasks`: labels of tasks without votes are all wrong."""
    chance = np.zeros((n_tasks, result.votes.n_labels))
    chance[tasks] = result.probabilities_frame().drop("task").to_numpy()
    return Yardstick(np.arange(n_tasks), chance)


@dataclass(frozen=True, eq=False)
class Decider:
    """A model that labels parts of votes."""

    votes: Votes
    model: Model

    def fit(self, part: Part, *, confidence: Confidence = "posterior") -> Result:
        """Return the fit of a part; that it may not converge was said of the whole."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            threads = 1 if len(part.votes) < MANY_VOTES else None
            return self.model.fit(part.votes, threads=threads, trace="light", confidence=confidence)

    def labels(self, mask: Flags) -> Integers:
        """Return the labels that the votes of a mask, [votes], give to all tasks, [tasks] codes; -1 for tasks without any."""
        part = kept(self.votes, mask)
        return self.spread(self.fit(part), part.tasks)

    def spread(self, result: Result, tasks: Integers) -> Integers:
        """Return the labels of a fit to votes on some tasks, as labels of all, [tasks]; -1 for the others."""
        out = np.full(self.votes.n_tasks, -1)
        out[tasks] = result.fit.outcome.labels
        return out


def independent_votes(part: Part, reference: Integers) -> float:
    """Return how many independent votes those of a task amount to, by their errors against labels of all tasks, [tasks]."""
    found = measure_errors(part.votes, reference[part.tasks], Bootstrap(0, 0.9, 0))
    return 1.0 if found.votes_per_task == 1.0 else float(found.effective_votes)


def majority_shares(counts: NDArray[np.integer]) -> Floats:
    """Return the share of each task that majority vote gives each label, from votes per label, both [..., tasks, K].

    Tied labels share a task, and nobody has one without votes.

    >>> majority_shares(np.array([[2, 2, 0], [0, 3, 1], [0, 0, 0]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    tied = (counts == counts.max(axis=-1, keepdims=True)) & (counts > 0)
    out: Floats = tied / np.maximum(tied.sum(axis=-1, keepdims=True), 1)
    return out


def share_interval(share: float, tasks: int) -> Interval:
    """Return a share of tasks with its interval (Wilson's).

    >>> found = share_interval(0.9, 100)
    >>> round(found.low, 3), round(found.high, 3)
    (0.84, 0.939)
    """
    middle = (share + Z**2 / (2 * tasks)) / (1 + Z**2 / tasks)
    half = Z / (1 + Z**2 / tasks) * (share * (1 - share) / tasks + Z**2 / (4 * tasks**2)) ** 0.5
    return Interval(share, max(min(middle - half, share), 0.0), min(max(middle + half, share), 1.0))
