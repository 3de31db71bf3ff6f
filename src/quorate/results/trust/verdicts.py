"""A word for every worker, and the figures behind it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.memory import available, gib
from quorate.data.votes import Votes
from quorate.results.trust.ballots import CELLS, Ballots
from quorate.results.trust.copies import (
    BUDGET,
    NONE,
    Pairs,
    affordable,
    by_agreement,
    comparable,
    pairs,
    partners,
    rings,
    same_answers,
)
from quorate.results.trust.intervals import GROUPS, SAMPLE, SHIFTS, Interval, accuracy_interval, prior_interval
from quorate.results.trust.kinds import Kinds, compare, expected, kinds, mutual_information
from quorate.results.trust.posterior import of_labels, settle, tally

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
VERDICTS: Final = ("trusted", "sleeper", "spammer", "adversary", "copy")
TRUSTED, SLEEPER, SPAMMER, ADVERSARY, COPY = range(len(VERDICTS))
LIKELY: Final = 0.5  # probability of not looking from which on a worker is called a spammer
ALMOST_SURE: Final = 0.9  # and an adversary: bad luck in a few votes is no ill will
ALIKE: Final = 8.0  # bits by which giving all labels alike may explain answers better than evading, shared out over the labels
CLEAR: Final = float(np.log2(10.0))  # bits of evidence from which on answers are taken to say something: ten to one
EASE: Final = 3.0  # evidence that members are let off at first sight, when their ring still passes for many
LARGE: Final = 0.2  # share of the workers that may outvote the others
ROUNDS: Final = 4  # times rings are looked for, each time with those found before counted as one voter
LARGEST: Final = 1 << 29  # (tasks + rows) times labels: numbers that are held at once


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the votes tell about workers and labels; NaN, and verdict sleeper, where there is too much to look at."""

    accuracy: Interval  # [workers] each
    information: Floats  # [workers] bits a vote
    evidence: Floats  # [workers] bits in all, for answers that say something and against guessing
    verdict: NDArray[np.int8]  # [workers] index of one of `VERDICTS`
    copies: NDArray[np.int64]  # [workers] the worker whose answers these are; -1 where they are own
    priors: Interval  # [K] each


def assess(votes: Votes, labels: NDArray[np.int32], known: NDArray[np.bool_] | None = None) -> Assessment:
    """Return what the votes tell, starting from labels, [tasks], of which those `known`, [tasks], are certain.

    A vote that nobody else cast beside, on a task that is not known, tells nothing about its worker, and is left out; so is
    one that repeats an earlier one on the same task: nobody is a witness of their own votes.
    """
    n, k = votes.n_workers, votes.n_labels
    if not n:
        return _nothing(0, k)
    if (votes.n_tasks + votes.n_rows) * k > LARGEST:
        log.warning("no intervals and verdicts: %d tasks and %d rows x %d labels are too many", votes.n_tasks, votes.n_rows, k)
        return _nothing(n, k)
    need, have = estimate(votes), available()
    if need > have:
        log.warning(
            "no intervals and verdicts: they need about %s (%d tasks and %d rows x %d labels), but %s are free: "
            "merge rare labels, drop workers with few votes, or use a machine with more memory",
            *(gib(need), votes.n_tasks, votes.n_rows, k, gib(have)),
        )
        return _nothing(n, k)
    whole = Ballots.of(votes).once()
    telling = whole.telling(known)
    ballots, labels, known = whole.of_tasks(telling), labels[telling], None if known is None else known[telling]
    posterior = settle(ballots, of_labels(labels, k), known, in_place=True)
    belief = tally(ballots, posterior)
    seen = compare(ballots, belief)
    found = kinds(ballots, seen)
    chance = expected(ballots, seen, found)
    ring, shared = np.full(n, NONE), Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for n_round in range(ROUNDS):
        ballot, loss = comparable(ballots, chance)
        shared = pairs(ballot, loss, n)
        now = rings(ballot, shared, loss, n, EASE if not n_round else 0.0)
        is_first = not n_round and affordable(ballot)
        del ballot  # what is as long as the votes is let go as soon as it has served
        if is_first:
            now = np.where(now >= 0, now, outvoting(ballots))
        if np.array_equal(now, ring):
            break
        ring = now
        del belief, seen, found  # they hold numbers of every row and vote, and so do the next ones
        repeats, witnessed = same_answers(ballots, ring)
        posterior = settle(ballots.kept(~repeats), posterior, known, in_place=True)
        belief = tally(ballots, posterior)
        seen = compare(ballots, belief)
        found = kinds(ballots, seen)
        chance = expected(ballots, compare(ballots, belief, witnessed), found)
    copies, word, evidence, right = partners(ring, shared), verdicts(found, ring >= 0, ballots.n_labels), found.bits, seen.right
    del shared, found, seen
    return Assessment(
        accuracy=accuracy_interval(ballots, belief, right),
        information=mutual_information(ballots, belief),
        evidence=evidence,
        verdict=word,
        copies=copies,
        priors=prior_interval(ballots, belief),
    )


def estimate(votes: Votes) -> int:
    """Return about how many bytes `assess` takes at its peak; benchmarks/memory.py measures it."""
    n, rows, tasks, workers, k = len(votes), votes.n_rows, votes.n_tasks, votes.n_workers, votes.n_labels
    kept = k * rows if k * rows <= CELLS else 0  # counts are kept, or counted again when they are asked for
    belief = 4 * k * tasks + 8 * k * workers + 8 * kept
    # Chances of some labels in float32, posteriors of some tasks, and what the mean worker is made of.
    settling = 4 * min(k * (rows + workers), CELLS) + 4 * min(k * tasks, CELLS) + 6 * 8 * k * k + 40 * n
    # Pairs of votes, and of workers; where there are too many of the former, those are looked at who share several tasks.
    size = np.diff(votes.task_ptr)
    every, budget, of_workers = int((size * (size - 1) // 2).sum()), max(BUDGET, n), workers * workers // 2
    if every <= budget:
        comparing = 66 * every + 60 * min(every, of_workers)
    else:
        comparing = 66 * budget + 60 * min(budget, of_workers) + 85 * n if of_workers <= every else 40 * budget
    comparing += 60 * n + 100 * workers + 50 * rows + 24 * tasks
    shifts = max(k, min(SHIFTS, k * (GROUPS + 2)))
    telling = 2 * 8 * shifts * min(tasks, 2 * SAMPLE) + 20 * n + 100 * workers  # of the class priors
    return belief + max(settling, comparing, telling)


def outvoting(ballots: Ballots) -> NDArray[np.int64]:
    """Return large groups that agree suspiciously often, whatever the truth, [workers]; -1 for workers in none.

    A ring that outvotes the others makes the truth, and its agreement then looks explained. Here it is only suspected:
    once it counts as one voter, what it shares beyond the truth must prove it, as with any ring.
    """
    workers = ballots.panel.n_workers
    ballot, loss = comparable(ballots, by_agreement(ballots))
    ring = rings(ballot, pairs(ballot, loss, workers), loss, workers, EASE)
    size = np.bincount(ring[ring >= 0], minlength=workers)
    return np.where((ring >= 0) & (size[ring] >= LARGE * workers), ring, NONE)


def verdicts(found: Kinds, copying: NDArray[np.bool_], labels: int) -> NDArray[np.int8]:
    """Return the index of a word for each worker, [workers]; copying, [workers], comes before all else.

    The more labels there are, the less a vote says about evading: each is avoided seldom by one who guesses, too.
    """
    blind = found.guesser + found.evader
    evading = (found.evader > found.guesser) & (found.alike < ALIKE / labels)
    word = np.full(len(blind), SLEEPER, np.int8)
    word[(found.bits >= CLEAR) & (found.looks > found.evades)] = TRUSTED
    word[~evading & (blind > LIKELY)] = SPAMMER
    word[evading & (blind > ALMOST_SURE)] = ADVERSARY
    word[copying] = COPY
    return word


def _nothing(workers: int, k: int) -> Assessment:
    empty = np.full(workers, np.nan)
    unknown = Interval(np.full(k, np.nan), np.full(k, np.nan))
    return Assessment(Interval(empty, empty), empty, empty, np.full(workers, SLEEPER, np.int8), np.full(workers, NONE), unknown)
