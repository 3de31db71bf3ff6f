"""Pairs of workers that agree beyond what the truth explains, without looking at all pairs where there are too many."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import Ballots

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_USUAL: Final = 0.9  # of agreement beyond expectation that is taken for normal
COPYING: Final = 0.95  # one who copies gives the other's answer with this probability, and else an own one
BUDGET: Final = 1 << 20  # pairs of votes that are looked at, or as many as there are votes
CROWDED: Final = 256  # votes of one task that are paired with one another, where there are too many
UNEXPLAINED: Final = np.log(2.0)  # an answer that the truth leaves a chance of about a half or less
TWICE: Final = 2  # unexplained answers that two workers must share to be looked at, where there are too many pairs


class Ballot(NamedTuple):
    """Votes whose answers are compared, [votes] each, sorted by task; each worker once a task."""

    task: Integers
    worker: Integers
    label: Integers
    chance: Floats  # the probability of the answer, given those of the others
    gain: Floats  # the log-likelihood ratio of copying, where another gave the same answer


class Pairs(NamedTuple):
    """Workers who share tasks, [pairs] each."""

    first: Integers
    second: Integers
    evidence: Floats  # log-likelihood ratio: one copies the other, against both answering by themselves


def comparable(ballots: Ballots, chance: NDArray[np.float32]) -> tuple[Ballot, float]:
    """Returns (the votes, each with its chance; the log-likelihood ratio of a disagreement).

    `chance`, [votes], is the probability of each vote given the others. Answers may be alike for reasons that no
    model sees, such as tasks that mislead: the crowd's own excess of agreement is taken for normal.
    """
    task, worker, given = ballots.task(), ballots.worker(), ballots.label().astype(np.int64)
    expected = chance.astype(np.float64)
    usual = usual_excess(task, given, expected)
    gain = np.log((1.0 - COPYING + COPYING / expected) / (1.0 - usual + usual / expected))
    return Ballot(task, worker, given, expected, gain), float(np.log((1.0 - COPYING) / (1.0 - usual)))


def usual_excess(task: Integers, label: Integers, chance: Floats) -> float:
    """Returns the share of answers that are alike beyond expectation, over neighbouring votes, [votes] each.

    >>> usual_excess(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), np.full(4, 0.5))
    0.0
    """
    both = task[1:] == task[:-1]
    alike, expected = (label[1:] == label[:-1])[both], 0.5 * (chance[1:] + chance[:-1])[both]
    left = float((1.0 - expected).sum())
    return float(np.clip((alike - expected).sum() / left, 0.0, MOST_USUAL)) if left > 0 else 0.0


def by_agreement(ballots: Ballots) -> NDArray[np.float32]:
    """Returns as the probability of every vote, [votes], how often two votes on a task agree: what needs no truth."""
    task, label = ballots.task(), ballots.label()
    both = task[1:] == task[:-1]
    usual = float((label[1:] == label[:-1])[both].mean()) if both.any() else 0.5
    return np.full(len(task), np.clip(usual, 0.05, 0.95), np.float32)


def affordable(ballot: Ballot) -> bool:
    """Returns whether all pairs of votes on the same task can be looked at."""
    return _number(ballot) <= max(BUDGET, len(ballot.task))


def pairs(ballot: Ballot, loss: float, workers: int, budget: int | None = None) -> Pairs:
    """Returns the pairs of workers that share tasks, with the evidence that one copies the other.

    Where there are more than `budget` pairs of votes (`BUDGET`, or as many as votes), only workers are looked at who
    share unexplained answers.
    """
    budget = max(BUDGET, len(ballot.task)) if budget is None else budget
    if _number(ballot) > budget:
        log.info("too many pairs of votes: copies are looked for among workers who share %d unexplained answers", TWICE)
        odd = _thinned(_some(ballot, ballot.gain >= UNEXPLAINED), budget)
        key, same, _ = _listed(odd, workers)
        pair, number = np.unique(key[same], return_counts=True)
        suspects = np.zeros(workers, np.bool_)
        suspects[np.concatenate([pair // workers, pair % workers])[np.tile(number >= TWICE, 2)]] = True
        ballot = _thinned(_some(ballot, suspects[ballot.worker]), budget)
    key, same, gain = _listed(ballot, workers)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    evidence = np.add.reduceat(np.where(same, gain, loss)[order], starts) if len(key) else np.zeros(0)
    return Pairs(key[starts] // workers, key[starts] % workers, evidence)


def _some(ballot: Ballot, chosen: NDArray[np.bool_]) -> Ballot:
    task, worker, label, chance, gain = ballot
    return Ballot(task[chosen], worker[chosen], label[chosen], chance[chosen], gain[chosen])


def _sizes(task: Integers) -> tuple[Integers, Integers]:
    """Returns (where each task begins, how many votes it has) in a sorted list of tasks."""
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    return starts, np.diff(starts, append=len(task))


def _number(ballot: Ballot) -> int:
    """Returns the number of pairs of votes on the same task."""
    _, size = _sizes(ballot.task)
    return int((size * (size - 1) // 2).sum())


def _thinned(ballot: Ballot, budget: int) -> Ballot:
    """Returns so many votes that their pairs are affordable: the odder ones of crowded tasks, and of tasks as many as can be."""
    starts, size = _sizes(ballot.task)
    if size.max(initial=0) > CROWDED:
        log.info("tasks with more than %d votes: only their least explained answers are compared", CROWDED)
        place = np.arange(len(ballot.task)) - np.repeat(starts, size)
        order = np.lexsort([-ballot.gain, ballot.task])
        kept = np.zeros(len(ballot.task), np.bool_)
        kept[order[place < CROWDED]] = True
        ballot = _some(ballot, kept)
        starts, size = _sizes(ballot.task)
    cost = size * (size - 1) // 2
    if cost.sum() > budget:
        stirred = np.argsort(ballot.task[starts] * 2654435761 % 2**32, kind="stable")
        fits = np.zeros(len(size), np.bool_)
        fits[stirred[np.cumsum(cost[stirred]) <= budget]] = True
        log.warning("copies are looked for in %d of %d tasks: there are too many pairs of votes", fits.sum(), len(size))
        ballot = _some(ballot, np.repeat(fits, size))
    return ballot


def _listed(ballot: Ballot, workers: int) -> tuple[Integers, NDArray[np.bool_], Floats]:
    """Returns (pair of workers as one number, whether they agree, the mean gain) of each pair of votes, [pairs of votes]."""
    starts, size = _sizes(ballot.task)
    left = np.repeat(starts + size, size) - np.arange(len(ballot.task))  # votes of the task from here on
    here, keys, sames, gains = np.flatnonzero(left > 1), [], [], []
    lag = 1
    while len(here):
        other = here + lag
        keys.append(ballot.worker[here] * workers + ballot.worker[other])  # rows are sorted, so the first is the smaller
        sames.append(ballot.label[here] == ballot.label[other])
        gains.append(0.5 * (ballot.gain[here] + ballot.gain[other]))
        lag += 1
        here = here[left[here] > lag]
    if not keys:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)
    return np.concatenate(keys), np.concatenate(sames), np.concatenate(gains)
