"""A word for every worker, and the figures behind it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import Ballots
from quorate.trust.information import compare, mutual_information
from quorate.trust.intervals import Interval, accuracy_interval, prior_interval
from quorate.trust.kinds import Kinds, expected, kinds
from quorate.trust.pairs import Pairs, affordable, by_agreement, comparable, pairs
from quorate.trust.posterior import of_labels, settle, tally
from quorate.trust.rings import NONE, partners, rings, same_answers
from quorate.votes import Votes

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

VERDICTS: Final = ("trusted", "sleeper", "spammer", "adversary", "copy")
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
    verdict: NDArray[np.str_]  # [workers] one of `VERDICTS`
    copies: NDArray[np.int64]  # [workers] the worker whose answers these are; -1 where they are own
    priors: Interval  # [K] each


def assess(votes: Votes, labels: NDArray[np.int32], known: NDArray[np.bool_] | None = None) -> Assessment:
    """Returns what the votes tell, starting from labels, [tasks], of which those `known`, [tasks], are certain.

    A vote that nobody else cast beside, on a task that is not known, tells nothing about its worker, and is left out; so is
    one that repeats an earlier one on the same task: nobody is a witness of their own votes.
    """
    n, k = votes.n_workers, votes.n_labels
    if not n:
        return _nothing(0, k)
    if (votes.n_tasks + votes.n_rows) * k > LARGEST:
        log.warning("no intervals and verdicts: %d tasks and %d rows x %d labels are too many", votes.n_tasks, votes.n_rows, k)
        return _nothing(n, k)
    whole = Ballots.of(votes).once()
    telling = whole.telling(known)
    ballots, labels, known = whole.of_tasks(telling), labels[telling], None if known is None else known[telling]
    posterior = settle(ballots, of_labels(labels, k), known)
    belief = tally(ballots, posterior)
    seen = compare(ballots, belief)
    found = kinds(ballots, seen)
    chance = expected(ballots, seen, found)
    ring, shared = np.full(n, NONE), Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for n_round in range(ROUNDS):
        ballot, loss = comparable(ballots, chance)
        shared = pairs(ballot, loss, n)
        now = rings(ballot, shared, loss, n, EASE if not n_round else 0.0)
        if not n_round and affordable(ballot):
            now = np.where(now >= 0, now, outvoting(ballots))
        if np.array_equal(now, ring):
            break
        ring = now
        repeats, witnessed = same_answers(ballots, ring)
        posterior = settle(ballots.kept(~repeats), posterior, known)
        belief = tally(ballots, posterior)
        seen = compare(ballots, belief)
        found = kinds(ballots, seen)
        chance = expected(ballots, compare(ballots, belief, witnessed), found)
    return Assessment(
        accuracy=accuracy_interval(ballots, belief, seen.right),
        information=mutual_information(ballots, belief),
        evidence=found.bits,
        verdict=verdicts(found, ring >= 0, ballots.n_labels),
        copies=partners(ring, shared),
        priors=prior_interval(ballots, belief),
    )


def outvoting(ballots: Ballots) -> NDArray[np.int64]:
    """Returns large groups that agree suspiciously often, whatever the truth, [workers]; -1 for workers in none.

    A ring that outvotes the others makes the truth, and its agreement then looks explained. Here it is only suspected:
    once it counts as one voter, what it shares beyond the truth must prove it, as with any ring.
    """
    workers = ballots.panel.n_workers
    ballot, loss = comparable(ballots, by_agreement(ballots))
    ring = rings(ballot, pairs(ballot, loss, workers), loss, workers, EASE)
    size = np.bincount(ring[ring >= 0], minlength=workers)
    return np.where((ring >= 0) & (size[ring] >= LARGE * workers), ring, NONE)


def verdicts(found: Kinds, copying: NDArray[np.bool_], labels: int) -> NDArray[np.str_]:
    """Returns a word for each worker, [workers]; copying, [workers], comes before all else.

    The more labels there are, the less a vote says about evading: each is avoided seldom by one who guesses, too.
    """
    blind = found.guesser + found.evader
    evading = (found.evader > found.guesser) & (found.alike < ALIKE / labels)
    word = np.where((found.bits >= CLEAR) & (found.looks > found.evades), "trusted", "sleeper")
    word = np.where(~evading & (blind > LIKELY), "spammer", word)
    word = np.where(evading & (blind > ALMOST_SURE), "adversary", word)
    return np.where(copying, "copy", word)


def _nothing(workers: int, k: int) -> Assessment:
    empty = np.full(workers, np.nan)
    unknown = Interval(np.full(k, np.nan), np.full(k, np.nan))
    return Assessment(Interval(empty, empty), empty, empty, np.full(workers, "sleeper"), np.full(workers, NONE), unknown)
