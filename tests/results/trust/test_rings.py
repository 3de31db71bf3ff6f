import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.results.trust.copies import (
    MIN_LINK,
    ComparedVotes,
    SharedTaskPairs,
    join_greedily,
    partners,
    prove,
    rings,
    same_answers,
)
from adjudge.results.trust.posterior import Ballots


def naive_contract(n, evidence):
    """Greedy joining, as its definition reads."""
    groups = [{one} for one in range(n)]

    def between(a, b):
        return sum(evidence.get((min(x, y), max(x, y)), 0.0) for x in a for y in b)

    while len(groups) > 1:
        a, b = max(itertools.combinations(groups, 2), key=lambda pair: between(*pair))
        if between(a, b) <= MIN_LINK:
            break
        groups = [g for g in groups if g not in (a, b)] + [a | b]
    return {frozenset(g) for g in groups if len(g) > 1}


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_joining_equals_the_naive_one(n, seed):
    rng = np.random.default_rng(seed)
    found = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.7]
    evidence = {pair: float(e) for pair, e in zip(found, rng.normal(0, 4, len(found)), strict=True)}
    first, second = (np.array([p[k] for p in found], np.int64) for k in (0, 1))
    groups = join_greedily(n, first, second, np.array(list(evidence.values())))
    assert {frozenset(g.tolist()) for g in groups} == naive_contract(n, evidence)


def ballot_of(rows, gain=2.0, chance=0.1):
    """(task, worker, label) in codes, each answer with the same gain."""
    task, worker, label = (np.array(part, np.int64) for part in zip(*sorted(rows), strict=True))
    return ComparedVotes(task, worker, label, np.full(len(task), chance), np.full(len(task), gain))


def test_proof_counts_an_answer_once_however_many_gave_it():
    rows = [(t, w, t % 2) for t in range(4) for w in (0, 1, 2)] + [(4, 0, 1), (4, 1, 0), (5, 0, 1), (5, 3, 1)]
    ring = np.array([0, 0, 0, -1])
    proof = prove(ballot_of(rows), ring, loss=-3.0)
    assert proof.member.tolist() == pytest.approx([4 * 2 - 3, 4 * 2 - 3, 4 * 2, 0])  # on task 4 two of them disagree
    assert proof.ring[0] == pytest.approx(4 * 2 * 2 - 3)  # two of three count, one of two
    assert proof.copied[2] == pytest.approx(1.0)
    assert proof.copied[0] == pytest.approx((4 * 0.9 - 0.1) / (5 * 0.9))


def test_a_ring_stands_and_a_chance_companion_goes():
    rng = np.random.default_rng(3)
    rows = []
    for task in range(60):
        truth, answer = int(rng.integers(3)), int(rng.integers(3))
        rows += [(task, w, answer) for w in (2, 5, 7)]  # the ring: one answer
        rows += [(task, w, truth if rng.random() < 0.7 else int(rng.integers(3))) for w in (0, 1, 3, 4, 6)]
    ballot = ballot_of(rows, gain=0.9, chance=0.4)
    every = list(itertools.combinations(range(8), 2))
    by_task = {(t, w): c for t, w, c in rows}
    evidence = [sum(0.9 if by_task[t, a] == by_task[t, b] else -3.0 for t in range(60)) for a, b in every]
    found = SharedTaskPairs(*(np.array([p[k] for p in every]) for k in (0, 1)), np.array(evidence))
    ring = rings(ballot, found, -3.0, 8)
    assert ring.tolist() == [-1, -1, 2, -1, -1, 2, -1, 2]
    copies = partners(ring, found)
    assert [c >= 0 for c in copies] == [r >= 0 for r in ring]
    assert all(ring[c] == ring[w] and c != w for w, c in enumerate(copies) if c >= 0)


def test_partners_name_somebody_of_the_ring_even_without_a_shared_task():
    nobody = SharedTaskPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    assert partners(np.array([0, -1, 0, 3, 3, 0]), nobody).tolist() == [2, -1, 0, 4, 3, 0]
    strong = SharedTaskPairs(np.array([0, 2]), np.array([5, 5]), np.array([2.0, 9.0]))
    assert partners(np.array([0, -1, 0, -1, -1, 0]), strong).tolist() == [5, -1, 5, -1, -1, 2]


def test_repeated_answers_of_a_ring_are_told_from_others():
    votes = adj.read([("t", "a", "x"), ("t", "b", "x"), ("t", "c", "x"), ("t", "d", "x"), ("u", "a", "x"), ("u", "b", "y")])
    repeats, shared = same_answers(Ballots.of(votes), np.array([0, 0, -1, 0]))  # a, b and d are one
    assert repeats.tolist() == [False, True, False, True, False, False]
    assert shared.tolist() == [True, True, False, True, False, False]


def test_without_workers_or_pairs_there_are_no_rings():
    nobody = SharedTaskPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    empty = ComparedVotes(*(np.zeros(0, np.int64) for _ in range(3)), np.zeros(0), np.zeros(0))
    assert rings(empty, nobody, -3.0, 4).tolist() == [-1] * 4
