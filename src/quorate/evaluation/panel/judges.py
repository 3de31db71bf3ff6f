"""What each judge adds: to random panels that already have the judge most like it, and to all the others together.

The first decides the word. Panels of up to a dozen other judges are drawn, with the judge that this one agrees with most always
among them, and decided by majority vote, ties shared. So a copy adds nothing beside its original, and what is measured does not
depend on how a model weighs a judge. Without truth a judge is measured by the others alone: by the honest probabilities of a fit
without its votes, and without those of judges that answer like it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.votes import Votes
from quorate.evaluation.panel.sampling import Flags, Integers, Part, chunks, kept, vote_tasks
from quorate.evaluation.panel.yardstick import (
    Decider,
    Floats,
    Interval,
    Yardstick,
    independent_votes,
    mean_over_tasks,
    of_result,
)
from quorate.results.trust.copies import NOBODY, find_copies

ADDS: Final = "adds"
NOTHING: Final = "adds nothing"
UNCLEAR: Final = "unclear"
TOO_FEW: Final = "too few votes"
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


def answers(votes: Votes, tasks: Integers) -> NDArray[np.int16]:
    """Return how often each worker gave each label to these tasks, codes in order: [workers, tasks, K]."""
    position = np.full(votes.n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    at, row = position[vote_tasks(votes)], votes.row
    at, row = at[at >= 0], row[at >= 0]
    k = votes.n_labels
    cell = (votes.row_worker()[row] * len(tasks) + at) * k + votes.row_label[row]
    return np.bincount(cell, minlength=votes.n_workers * len(tasks) * k).astype(np.int16).reshape(votes.n_workers, len(tasks), k)


def alike(votes: Votes, labels: Integers, known: Flags | None) -> Alike:
    """Return whom each judge agrees with most; `labels`, [tasks], are those of all votes, or truth where it is `known`."""
    n = votes.n_workers
    same, shared = np.zeros((n, n)), np.zeros((n, n))
    for cut in chunks(votes.n_tasks, MAX_CELLS // (n * votes.n_labels)):
        given = np.minimum(answers(votes, np.arange(cut.start, cut.stop)), 1).astype(np.float32)
        flat, voted = given.reshape(n, -1), given.any(axis=2).astype(np.float32)
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


@dataclass(frozen=True, eq=False)
class Others:
    """Fits without a judge: what the others decide, and what they take for right."""

    decider: Decider
    yardstick: Yardstick
    labels: Integers  # [tasks] of all votes
    is_truth: bool
    alike: Alike

    def measured(self, judge: int) -> tuple[Yardstick, Interval]:
        """Return the yardstick for a judge, and the accuracy lost where all others decide without it."""
        left_out = np.arange(self.decider.votes.n_workers) == judge
        part = self._without(left_out)
        fitted = self.decider.fit(part, confidence="posterior" if self.is_truth else "honest")
        yardstick = self.yardstick
        if not self.is_truth:
            ring = self.alike.ring
            like = left_out | ((ring != NOBODY) & (ring == ring[judge]))
            fair, tasks = fitted, part.tasks
            if like.sum() > 1 and not like.all():
                others = self._without(like)
                fair, tasks = self.decider.fit(others, confidence="honest"), others.tasks
            yardstick = of_result(fair, tasks, self.decider.votes.n_tasks).of_some(self.yardstick.tasks)
        without = self.decider.spread(fitted, part.tasks)
        lost = yardstick.of_labels(self.labels) - yardstick.of_labels(without)
        return yardstick, mean_over_tasks(lost, pseudo=1.0)

    def _without(self, left_out: Flags) -> Part:
        votes = self.decider.votes
        return kept(votes, ~left_out[votes.row_worker()[votes.row]])


def judged(
    others: Others, reference: Integers, effective: float, within: float, seed: int, step: Callable[[str], None]
) -> list[Judge]:
    """Return what each judge of a panel adds, the one that adds most first.

    `reference` are the labels that errors are measured against, [tasks], by which all votes amount to so many `effective` ones.
    """
    votes, tasks = others.decider.votes, others.yardstick.tasks
    given = answers(votes, tasks)
    cast = given.sum(axis=(1, 2))
    members = _panels(votes.n_workers, np.random.default_rng([seed, 3]))
    out = []
    for judge in range(votes.n_workers):
        step(f"judge {judge + 1} of {votes.n_workers}")
        yardstick, lost = others.measured(judge)
        gain = added(given, members, judge, int(others.alike.beside[judge]), yardstick)
        left = kept(votes, votes.row_worker()[votes.row] != judge)
        fewer = independent_votes(left, reference)
        word, why = _word(votes, judge, others.alike, gain, lost, within, len(tasks))
        alone = None if np.isnan(fewer) or np.isnan(effective) else effective - fewer
        out.append(Judge(judge, int(cast[judge]), word, why, gain, int(others.alike.beside[judge]), lost, alone))
    return sorted(out, key=lambda one: -(one.adds.value if one.adds else 0.0))


def added(given: NDArray[np.int16], members: Flags, judge: int, beside: int, yardstick: Yardstick) -> Interval:
    """Return what panels of other judges gain by a judge, decided by majority vote.

    `given` has the answers, [workers, judged, K], and `members` random panels, [panels, workers], from which the judge is taken
    and to which the one `beside` it is added.
    """
    panels = members.copy()
    panels[:, judge] = False
    panels[:, beside] = True
    n, k = given.shape[1:]
    by_task, by_panel = np.zeros(n), np.zeros(len(panels))
    for cut in chunks(n, MAX_CELLS // (len(panels) * k)):
        part = given[:, cut].reshape(len(given), -1)
        counts = (panels.astype(np.float32) @ part.astype(np.float32)).astype(np.int16).reshape(len(panels), -1, k)
        measure = yardstick.of_some(cut)
        gain = measure.of_counts(counts + given[judge, cut]) - measure.of_counts(counts)
        by_task[cut] = gain.mean(axis=0)
        by_panel += gain.sum(axis=1) / n
    return mean_over_tasks(by_task, by_panel)


def _panels(workers: int, rng: np.random.Generator) -> Flags:
    """Return random panels of 1 to `MAX_OTHERS` workers, every size alike, [panels, workers]."""
    size = rng.integers(1, min(workers - 1, MAX_OTHERS), size=PANELS, endpoint=True)
    rank = rng.permuted(np.tile(np.arange(workers), (PANELS, 1)), axis=1)
    out: Flags = rank < size[:, None]
    return out


def _word(votes: Votes, judge: int, like: Alike, gain: Interval, lost: Interval, within: float, tasks: int) -> tuple[str, str]:
    """Return what can be said of a judge, and why: a word is said where an interval earns it."""
    other = votes.workers[int(like.beside[judge])]
    if like.is_twin(judge):
        return NOTHING, f"gives the answers of {other} on {like.same[judge]:.0%} of {like.shared[judge]} tasks: keep one of them"
    if gain.low > 0:
        return ADDS, f"panels that have {other}, the judge most like it, gain {_points(gain)}"
    if lost.low > 0:
        return ADDS, f"without it, all others lose {_points(lost)}"
    if gain.high < within:
        return NOTHING, f"panels that have {other}, the judge most like it, gain {_points(gain)}"
    return UNCLEAR, f"panels gain {_points(gain)}: {tasks} tasks tell no more"


def _points(gain: Interval) -> str:
    return f"{100 * gain.value:.1f} points ({100 * gain.low:.1f} to {100 * gain.high:.1f})"
