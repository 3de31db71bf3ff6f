"""Workers who copy: pairs that agree beyond what the truth explains, and rings of them, proved task by task."""

from __future__ import annotations

import logging
import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.results.trust.ballots import Ballots

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_USUAL: Final = 0.9  # of agreement beyond expectation that is taken for normal
COPYING: Final = 0.95  # one who copies gives the other's answer with this probability, and else an own one
BUDGET: Final = 1 << 20  # pairs of votes that are looked at, or as many as there are votes
CROWDED: Final = 256  # votes of one task that are paired with one another, where there are too many
UNEXPLAINED: Final = np.log(2.0)  # an answer that the truth leaves a chance of about a half or less
TWICE: Final = 2  # unexplained answers that two workers must share to be looked at, where there are too many pairs
NONE: Final = -1
LINK: Final = 1.0  # evidence (in nats) from which on two groups are put together on trial
DOUBT: Final = 2.5  # evidence that a ring must have beyond all the rings it might have been
JOIN: Final = 1.0  # evidence that a member must have beyond all those who might have been it
COPIED: Final = 0.8  # least share of a member's answers, of those that could have differed, which are the ring's
WORST: Final = 0.8  # members go together whose want of evidence is at least this share of the worst one's
AT_ONCE: Final = 3000  # workers who may be linked in one trial


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
    """Return (the votes, each with its chance; the log-likelihood ratio of a disagreement).

    `chance`, [votes], is the probability of each vote given the others. Answers may be alike for reasons that no
    model sees, such as tasks that mislead: the crowd's own excess of agreement is taken for normal.
    """
    task, worker, given = ballots.task(), ballots.worker(), ballots.label().astype(np.int64)
    expected = chance.astype(np.float64)
    usual = usual_excess(task, given, expected)
    gain = np.log((1.0 - COPYING + COPYING / expected) / (1.0 - usual + usual / expected))
    return Ballot(task, worker, given, expected, gain), float(np.log((1.0 - COPYING) / (1.0 - usual)))


def usual_excess(task: Integers, label: Integers, chance: Floats) -> float:
    """Return the share of answers that are alike beyond expectation, over neighbouring votes, [votes] each.

    >>> usual_excess(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), np.full(4, 0.5))
    0.0
    """
    both = task[1:] == task[:-1]
    alike, expected = (label[1:] == label[:-1])[both], 0.5 * (chance[1:] + chance[:-1])[both]
    left = float((1.0 - expected).sum())
    return float(np.clip((alike - expected).sum() / left, 0.0, MOST_USUAL)) if left > 0 else 0.0


def by_agreement(ballots: Ballots) -> NDArray[np.float32]:
    """Return as the probability of every vote, [votes], how often two votes on a task agree: what needs no truth."""
    task, label = ballots.task(), ballots.label()
    both = task[1:] == task[:-1]
    usual = float((label[1:] == label[:-1])[both].mean()) if both.any() else 0.5
    return np.full(len(task), np.clip(usual, 0.05, 0.95), np.float32)


def affordable(ballot: Ballot) -> bool:
    """Return whether all pairs of votes on the same task can be looked at."""
    return _number(ballot) <= max(BUDGET, len(ballot.task))


def pairs(ballot: Ballot, loss: float, workers: int, budget: int | None = None) -> Pairs:
    """Return the pairs of workers that share tasks, with the evidence that one copies the other.

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
    """Return (where each task begins, how many votes it has) in a sorted list of tasks."""
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    return starts, np.diff(starts, append=len(task))


def _number(ballot: Ballot) -> int:
    """Return the number of pairs of votes on the same task."""
    _, size = _sizes(ballot.task)
    return int((size * (size - 1) // 2).sum())


def _thinned(ballot: Ballot, budget: int) -> Ballot:
    """Return so many votes that their pairs are affordable: the odder ones of crowded tasks, and of tasks as many as can be."""
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
    """Return (pair of workers as one number, whether they agree, the mean gain) of each pair of votes, [pairs of votes]."""
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


class Proof(NamedTuple):
    """How the members of trial rings stand, task by task."""

    member: Floats  # [workers] evidence that the worker belongs to the ring
    copied: Floats  # [workers] share of answers that are the ring's, of those that could have differed
    ring: Floats  # [rings] evidence for the whole ring


def rings(ballot: Ballot, found: Pairs, loss: float, workers: int, ease: float = 0.0) -> Integers:
    """Return the ring of each worker, [workers]: the smallest code among its members; -1 for workers in none.

    `ease` is evidence that each member is let off: a first suspicion.
    """
    ring = np.full(workers, NONE)
    need = np.log(max(workers, 2)) + JOIN - ease
    for group in trials(found, workers, need):
        ring[group] = group.min()
    tried = ring.copy()  # those whose ring has not stood yet
    while (tried >= 0).any():
        weakest = _weakest(tried, prove(ballot, tried, loss), need, workers, ease)
        tried[~np.isin(tried, ring[weakest])] = NONE
        tried[weakest] = ring[weakest] = NONE
    return _renumbered(ring)


def partners(ring: Integers, found: Pairs) -> Integers:
    """Return for each worker in a ring the member it agrees with most remarkably, [workers]; -1 for the others."""
    out = ring.copy()
    members = np.flatnonzero(ring >= 0)
    order = members[np.argsort(ring[members], kind="stable")]
    second = order[1:][ring[order[1:]] == ring[order[:-1]]]
    out[ring[second][::-1]] = second[::-1]  # the smallest code needs another one to point at: the next
    both = (ring[found.first] >= 0) & (ring[found.first] == ring[found.second])
    one = np.concatenate([found.first[both], found.second[both]])
    other = np.concatenate([found.second[both], found.first[both]])
    rising = np.argsort(np.tile(found.evidence[both], 2), kind="stable")  # the strongest comes last, and stays
    out[one[rising]] = other[rising]
    return out


def trials(found: Pairs, workers: int, need: float) -> list[Integers]:
    """Return groups of workers, [members] each, that pairwise evidence puts together.

    Greedy: the two groups with the largest sum of evidence between them are joined, until none is above `LINK`.
    One disagreement counts against a copy as much as several agreements for it, so groups do not run together.
    """
    strong = found.evidence > LINK
    while True:  # nobody belongs to a ring whose links together do not suffice
        linked = np.concatenate([found.first[strong], found.second[strong]])
        hope = np.bincount(linked, np.tile(found.evidence[strong], 2), minlength=workers)
        able = hope >= need
        still = strong & able[found.first] & able[found.second]
        if still.sum() == strong.sum():
            break
        strong = still
    out: list[Integers] = []
    within = able[found.first] & able[found.second]
    part = _parts(workers, found.first[strong], found.second[strong])
    within &= part[found.first] == part[found.second]
    first, second, evidence = found.first[within], found.second[within], found.evidence[within]
    order = np.argsort(part[first], kind="stable")
    bounds = np.flatnonzero(np.diff(part[first][order], prepend=-1, append=-2)) if len(order) else np.zeros(0, np.int64)
    for start, end in zip(bounds, bounds[1:], strict=False):
        some = order[start:end]
        members = np.unique(np.concatenate([first[some], second[some]]))
        if len(members) > AT_ONCE:
            log.warning("copies are looked for among the %d most suspicious of %d linked workers", AT_ONCE, len(members))
            members = np.sort(members[np.argsort(-hope[members], kind="stable")[:AT_ONCE]])
            some = some[np.isin(first[some], members) & np.isin(second[some], members)]
        places = np.searchsorted(members, first[some]), np.searchsorted(members, second[some])
        out += [members[group] for group in contract(len(members), *places, evidence[some])]
    return out


def contract(n: int, first: Integers, second: Integers, evidence: Floats) -> list[Integers]:
    """Return the groups of two and more that greedy joining makes of n workers, from the evidence of each pair.

    >>> [g.tolist() for g in contract(3, np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([4.0, 3.0, -5.0]))]
    [[0, 1]]
    """
    between = np.zeros((n, n))
    between[first, second] = between[second, first] = evidence
    np.fill_diagonal(between, -np.inf)
    groups: list[list[int]] = [[one] for one in range(n)]
    best = between.argmax(axis=1)
    top = between[np.arange(n), best]
    while n and top[a := int(top.argmax())] > LINK:
        b = int(best[a])
        groups[a] += groups[b]
        groups[b] = []
        between[a] += between[b]
        between[a, [a, b]] = -np.inf
        between[b] = between[:, b] = -np.inf
        between[:, a] = between[a]
        stale = np.flatnonzero((best == a) | (best == b) | (between[:, a] > top))
        stale = np.union1d(stale, [a, b])
        best[stale] = between[stale].argmax(axis=1)
        top[stale] = between[stale, best[stale]]
    return [np.array(sorted(group)) for group in groups if len(group) > 1]


def prove(ballot: Ballot, ring: Integers, loss: float) -> Proof:
    """Return how well trial rings, [workers], stand: every answer beside those of the other members on the same task.

    An answer counts once however many members gave it. Of m members on a task m - 1 count for the ring: one must
    have come first.
    """
    some = np.flatnonzero(ring[ballot.worker] >= 0)
    worker, label, gain, expected = ballot.worker[some], ballot.label[some], ballot.gain[some], ballot.chance[some]
    place = ballot.task[some] * len(ring) + ring[worker]
    _, group, present = np.unique(place, return_inverse=True, return_counts=True)
    labels = int(label.max(initial=0)) + 1
    _, answer, alike = np.unique(group * labels + label, return_inverse=True, return_counts=True)
    others, agreeing = present[group] - 1, alike[answer] - 1
    together = others > 0
    share = np.where(together, agreeing / np.maximum(others, 1), 0.0)
    evidence = np.where(together, share * gain + (1.0 - share) * loss, 0.0)
    left = np.where(together, 1.0 - expected, 0.0)
    beyond = np.where(together, share - expected, 0.0)
    n = len(ring)
    with np.errstate(invalid="ignore", divide="ignore"):
        copied = np.bincount(worker, beyond, minlength=n) / np.bincount(worker, left, minlength=n)
    return Proof(
        np.bincount(worker, evidence, minlength=n).astype(np.float64),
        np.nan_to_num(copied),
        np.bincount(ring[worker], evidence * others / (others + 1), minlength=n).astype(np.float64),
    )


def same_answers(ballots: Ballots, ring: Integers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, [votes] each: whether a vote repeats one of its ring on the task; whether it repeats or is repeated."""
    of_vote = ring[ballots.row_worker][ballots.row]
    repeats, shared = np.zeros(len(of_vote), np.bool_), np.zeros(len(of_vote), np.bool_)
    some = np.flatnonzero(of_vote >= 0)
    place = (ballots.task()[some] * len(ring) + of_vote[some]) * ballots.panel.n_labels + ballots.label()[some]
    _, first, group, number = np.unique(place, return_index=True, return_inverse=True, return_counts=True)
    shared[some] = number[group] > 1
    repeats[some] = True
    repeats[some[first]] = False
    return repeats, shared


def _weakest(ring: Integers, proof: Proof, need: float, workers: int, ease: float) -> Integers:
    """Return who must go: the weakest members of each ring that has some too weak, or all of one without proof."""
    members = np.flatnonzero(ring >= 0)
    size = np.bincount(ring[members], minlength=len(ring))
    margin = np.minimum(proof.member[members] - need, 10.0 * (proof.copied[members] - COPIED))
    worst = np.zeros(len(ring))
    np.minimum.at(worst, ring[members], margin)
    weak = members[margin < WORST * worst[ring[members]]]
    heads = np.flatnonzero(size > 0)
    unproved = heads[proof.ring[heads] < _log_choose(workers, size[heads]) + DOUBT - ease * size[heads]]
    broken = heads[(size[heads] < 2)]
    lone = np.concatenate([broken, unproved[~np.isin(unproved, ring[weak])]])
    return np.union1d(weak, members[np.isin(ring[members], lone)])


def _log_choose(n: int, k: Integers) -> Floats:
    """Return the logarithm of n over k, [k]: how many rings of k there might be."""
    return np.array([math.lgamma(n + 1) - math.lgamma(one + 1) - math.lgamma(n - one + 1) for one in k.tolist()])


def _parts(n: int, first: Integers, second: Integers) -> Integers:
    """Return the connected part of each of n workers, [n]: the smallest code in it."""
    part = np.arange(n)
    while True:
        least = np.minimum(part[first], part[second])
        before = part.copy()
        np.minimum.at(part, first, least)
        np.minimum.at(part, second, least)
        part = part[part]
        if np.array_equal(before, part):
            return part


def _renumbered(ring: Integers) -> Integers:
    """Return rings named by the smallest code that is left in them, [workers]."""
    out, members = ring.copy(), np.flatnonzero(ring >= 0)
    _, first, group = np.unique(ring[members], return_index=True, return_inverse=True)
    out[members] = members[first][group]
    return out
