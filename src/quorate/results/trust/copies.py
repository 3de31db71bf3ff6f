"""Rings: workers who all give the answers of one of them, found from pairs and proved task by task."""

from __future__ import annotations

import logging
import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.trust.ballots import Ballots
from quorate.trust.pairs import Ballot, Pairs

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NONE: Final = -1
LINK: Final = 1.0  # evidence (in nats) from which on two groups are put together on trial
DOUBT: Final = 2.5  # evidence that a ring must have beyond all the rings it might have been
JOIN: Final = 1.0  # evidence that a member must have beyond all those who might have been it
COPIED: Final = 0.8  # least share of a member's answers, of those that could have differed, which are the ring's
WORST: Final = 0.8  # members go together whose want of evidence is at least this share of the worst one's
AT_ONCE: Final = 3000  # workers who may be linked in one trial


class Proof(NamedTuple):
    """How the members of trial rings stand, task by task."""

    member: Floats  # [workers] evidence that the worker belongs to the ring
    copied: Floats  # [workers] share of answers that are the ring's, of those that could have differed
    ring: Floats  # [rings] evidence for the whole ring


def rings(ballot: Ballot, found: Pairs, loss: float, workers: int, ease: float = 0.0) -> Integers:
    """Returns the ring of each worker, [workers]: the smallest code among its members; -1 for workers in none.

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
    """Returns for each worker in a ring the member it agrees with most remarkably, [workers]; -1 for the others."""
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
    """Returns groups of workers, [members] each, that pairwise evidence puts together.

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
    """Returns the groups of two and more that greedy joining makes of n workers, from the evidence of each pair.

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
    """Returns how well trial rings, [workers], stand: every answer beside those of the other members on the same task.

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
    """Returns, [votes] each: whether a vote repeats one of its ring on the task; whether it repeats or is repeated."""
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
    """Returns who must go: the weakest members of each ring that has some too weak, or all of one without proof."""
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
    """Returns the logarithm of n over k, [k]: how many rings of k there might be."""
    return np.array([math.lgamma(n + 1) - math.lgamma(one + 1) - math.lgamma(n - one + 1) for one in k.tolist()])


def _parts(n: int, first: Integers, second: Integers) -> Integers:
    """Returns the connected part of each of n workers, [n]: the smallest code in it."""
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
    """Returns rings named by the smallest code that is left in them, [workers]."""
    out, members = ring.copy(), np.flatnonzero(ring >= 0)
    _, first, group = np.unique(ring[members], return_index=True, return_inverse=True)
    out[members] = members[first][group]
    return out
