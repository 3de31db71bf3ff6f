"""What each judge adds: to random panels that already have the judge most like it, and to all the others together.

The first decides the word. Panels of up to a dozen other judges are drawn, with the judge that this one agrees with most always
among them, and decided by majority vote, ties shared. So a copy adds nothing beside its original, and what is measured does not
depend on how a model weighs a judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.evaluation.panel.sampling import Flags, Integers, Part, chunks, kept, vote_tasks
from adjudge.evaluation.panel.yardstick import (
    Decider,
    Floats,
    Interval,
    Yardstick,
    independent_votes,
    majority_shares,
)
from adjudge.results.trust.copies import NOBODY, find_copies

Counts = NDArray[np.int32]  # of votes, [..., tasks, K]
ADDS: Final = "adds"
NOTHING: Final = "adds nothing"
UNCLEAR: Final = "unclear"
REPEATS: Final = "repeats"  # another judge, whose answers panels gain by counting twice
TOO_FEW: Final = "too few votes"
NOT_LOOKED_AT: Final = "not looked at"
MAX_OTHERS: Final = 12  # in a panel that a judge is added to
PANELS: Final = 60  # that each judge is added to
SAME_ANSWERS: Final = 0.975  # share of shared tasks: from here on judges who answer alike are taken for one
MAX_CELLS: Final = 1 << 21  # panels x tasks x labels looked at at once


@dataclass(frozen=True)
class Judge:
    """What one worker adds."""

    worker: int  # code
    votes: int  # on tasks that count
    word: str
    why: str
    adds: Interval | None = None  # accuracy gained by panels that the worker joins
    beside: int = NOBODY  # the worker most like it, which these panels have
    lost_without: Interval | None = None  # accuracy lost where all others decide without it
    effective_votes: float | None = None  # by which the worker raises those of all
    cost: float | None = None  # of a vote


@dataclass(frozen=True, eq=False)
class Alike:
    """Whom each judge is most like."""

    beside: Integers  # [workers] code
    same: Floats  # [workers] share of shared tasks with the same answer
    shared: Integers  # [workers] tasks
    ring: Integers  # [workers] the smallest code in the worker's ring; -1 for workers in none

    def is_twin(self, judge: int) -> bool:
        """Return whether a judge gives the answers of the one most like it, beyond what the truth explains."""
        ring = self.ring[judge]
        return bool(ring != NOBODY and ring == self.ring[self.beside[judge]] and self.same[judge] >= SAME_ANSWERS)


def answers(votes: Votes, tasks: Integers) -> Counts:
    """Return how often each worker gave each label to these tasks, codes in order: [workers, tasks, K]."""
    position = np.full(votes.n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    at, row = position[vote_tasks(votes)], votes.row
    at, row = at[at >= 0], row[at >= 0]
    k = votes.n_labels
    cell = (votes.row_worker()[row] * len(tasks) + at) * k + votes.row_label[row]
    return np.bincount(cell, minlength=votes.n_workers * len(tasks) * k).astype(np.int32).reshape(votes.n_workers, len(tasks), k)


def alike(votes: Votes, labels: Integers, known: Flags | None) -> Alike:
    """Return whom each judge agrees with most; `labels`, [tasks], are those of all votes, or truth where it is `known`."""
    n = votes.n_workers
    same, shared = np.zeros((n, n)), np.zeros((n, n))
    for cut in chunks(votes.n_tasks, MAX_CELLS // (n * votes.n_labels)):
        given = np.minimum(answers(votes, np.arange(cut.start, cut.stop)), 1).astype(np.float32)
        flat, voted = given.reshape(n, -1), given.max(axis=2)
        same += flat @ flat.T
        shared += voted @ voted.T
    likeness = (same + 1.0) / (shared + 2.0)  # two who share little are not taken for alike
    np.fill_diagonal(likeness, -1.0)
    beside = likeness.argmax(axis=1)
    own = np.arange(n)
    met = shared[own, beside]
    found = find_copies(votes, labels.astype(np.int32), known)
    ring = np.full(n, NOBODY) if found is None else found.ring
    return Alike(beside, same[own, beside] / np.maximum(met, 1.0), met.astype(np.int64), ring)


def judged(
    decider: Decider,
    yardstick: Yardstick,
    like: Alike,
    labels: Integers,  # [tasks] of all votes
    reference: Integers,  # [tasks] that errors are measured against
    within: float,
    seed: int,
    step: Callable[[str], None],
) -> list[Judge]:
    """Return what each judge of a panel adds, the one that adds most first."""
    votes = decider.votes
    given = answers(votes, yardstick.tasks)
    panels = RandomPanels.of(given, np.random.default_rng([seed, 3]))
    whole = independent_votes(Part(votes, np.arange(votes.n_tasks)), reference)
    shares, worker = yardstick.shares_of(labels), votes.row_worker()[votes.row]
    out = []
    for judge in range(votes.n_workers):
        step(f"judge {judge + 1} of {votes.n_workers}")
        beside, others = int(like.beside[judge]), kept(votes, worker != judge)
        without = decider.spread(decider.fit(others), others.tasks)
        lost = yardstick.gain(shares - yardstick.shares_of(without), pseudo=1.0)
        gain = panels.gain(judge, beside, yardstick)
        word, why = _word(votes, judge, like, gain, lost, within, len(yardstick))
        more = whole - independent_votes(others, reference)
        out.append(Judge(judge, int(given[judge].sum()), word, why, gain, beside, lost, None if np.isnan(more) else more))
    return sorted(out, key=lambda one: -(one.adds.value if one.adds else 0.0))


@dataclass(frozen=True, eq=False)
class RandomPanels:
    """Random panels of 1 to `MAX_OTHERS` judges, every size alike, and the votes of each on the tasks that count."""

    given: Counts  # [workers, judged, K] answers
    members: Flags  # [panels, workers]
    counts: Counts  # [panels, judged, K] votes of the members

    @classmethod
    def of(cls, given: Counts, rng: np.random.Generator) -> RandomPanels:
        """Return panels of the workers with these answers."""
        n = len(given)
        size = rng.integers(1, min(n - 1, MAX_OTHERS), size=PANELS, endpoint=True)
        members: Flags = rng.permuted(np.tile(np.arange(n), (PANELS, 1)), axis=1) < size[:, None]
        return cls(given, members, np.stack([given[panel].sum(axis=0, dtype=np.int32) for panel in members]))

    def gain(self, judge: int, beside: int, yardstick: Yardstick) -> Interval:
        """Return what panels gain by a judge, decided by majority vote; it is taken from them, and the one `beside` it added."""
        n, k = self.counts.shape[1:]
        by_label, by_panel = np.zeros((n, k)), np.zeros(len(self.members))
        less, more = self.members[:, judge, None, None], ~self.members[:, beside, None, None]
        for cut in chunks(n, MAX_CELLS // (len(self.members) * k)):
            own = self.given[judge, cut]
            counts = self.counts[:, cut] - less * own + more * self.given[beside, cut]
            change = majority_shares(counts + own) - majority_shares(counts)
            by_label[cut] = change.mean(axis=0)
            by_panel += yardstick.of_some(cut).right(change).sum(axis=1) / n
        return yardstick.gain(by_label, by_panel)


def _word(votes: Votes, judge: int, like: Alike, gain: Interval, lost: Interval, within: float, tasks: int) -> tuple[str, str]:
    """Return what can be said of a judge, and why: a word is said where an interval earns it."""
    other = votes.workers[int(like.beside[judge])]
    if like.is_twin(judge):
        same = f"gives the answers of {other} on {like.same[judge]:.0%} of {like.shared[judge]} tasks: keep one of them"
        return (NOTHING, same) if gain.low <= 0 else (REPEATS, f"{same}, and let it count twice: panels gain {points(gain)} so")
    if gain.low > 0:
        return ADDS, f"panels that have {other}, the judge most like it, gain {points(gain)}"
    if gain.high >= within:
        return UNCLEAR, f"panels gain {points(gain)}: {tasks} tasks tell no more"
    if lost.low > 0:
        return UNCLEAR, f"panels gain {points(gain)}, but all others lose {points(lost)} without it"
    return NOTHING, f"panels that have {other}, the judge most like it, gain {points(gain)}"


def points(gain: Interval) -> str:
    """Return a gain in points of accuracy, with its interval, as reasons have it."""
    return f"{100 * gain.value:.1f} points ({100 * gain.low:.1f} to {100 * gain.high:.1f})"
