import itertools
import logging
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.results.trust.copies import COPY_PROBABILITY, MAX_USUAL_EXCESS, comparable, pairs
from adjudge.results.trust.posterior import Ballots
from strategies import crowds


def compared(rows, seed):
    votes = adj.read(rows)
    ballots = Ballots.of(votes).first_votes()
    chance = np.random.default_rng(seed).uniform(0.05, 0.95, len(ballots.row)).astype(np.float32)
    return votes, chance, *comparable(ballots, chance)


@given(crowds(), st.integers(0, 2**32 - 1))
def test_evidence_equals_the_sum_over_all_pairs(rows, seed):
    votes, chance, ballot, loss = compared(rows, seed)
    ballots = Ballots.of(votes).first_votes()
    first = {}
    for t, w, label, q in zip(ballots.task(), ballots.worker(), ballots.label(), chance.astype(float), strict=True):
        first.setdefault((t, w), (label, q))
    neighbours = [(a, b) for a, b in itertools.pairwise(first.items()) if a[0][0] == b[0][0]]
    left = sum(1 - (a[1][1] + b[1][1]) / 2 for a, b in neighbours)
    beyond = sum((a[1][0] == b[1][0]) - (a[1][1] + b[1][1]) / 2 for a, b in neighbours)
    usual = min(max(beyond / left, 0), MAX_USUAL_EXCESS) if left else 0.0
    expected = defaultdict(float)
    for (one, this), (other, that) in itertools.combinations(first.items(), 2):
        if one[0] == other[0]:
            gain = [np.log((1 - COPY_PROBABILITY + COPY_PROBABILITY / q) / (1 - usual + usual / q)) for q in (this[1], that[1])]
            expected[one[1], other[1]] += sum(gain) / 2 if this[0] == that[0] else np.log((1 - COPY_PROBABILITY) / (1 - usual))
    found = pairs(ballot, loss, votes.n_workers)
    assert {(int(a), int(b)): e for a, b, e in zip(*found, strict=True)} == pytest.approx(expected)


def test_too_many_pairs_are_not_all_looked_at(caplog):
    crowd = adj.simulate(tasks=300, workers=30, labels=4, votes_per_task=9, colluders=4 / 30, ring=4, seed=2)
    votes = adj.read(crowd.votes)
    truth = dict(crowd.truth.iter_rows())
    right = np.array([truth[t] == label for t, label in crowd.votes.select("task", "label").iter_rows()])
    right = right[crowd.votes.with_row_index().sort("task", "worker")["index"]]  # two kinds of chances, in any order
    ballots = Ballots.of(votes).first_votes()
    codes = votes.labels.codes([truth[t] for t in votes.tasks.ids()])
    chance = np.where(ballots.label() == codes[ballots.task()], 0.75, 0.1).astype(np.float32)
    ballot, loss = comparable(ballots, chance)
    every = pairs(ballot, loss, 30)
    with caplog.at_level(logging.INFO, "adjudge.results.trust.copies"):
        some = pairs(ballot, loss, 30, budget=8000)
    assert "too many pairs" in caplog.text
    assert set(zip(some.first, some.second, strict=True)) <= set(zip(every.first, every.second, strict=True))
    best = [np.argsort(-p.evidence)[:6] for p in (every, some)]  # the six pairs of the ring
    strongest = [{(int(p.first[i]), int(p.second[i])) for i in b} for p, b in zip((every, some), best, strict=True)]
    ring = votes.workers.codes([w for w, k in crowd.workers.select("worker", "kind").iter_rows() if k == "colluder"])
    assert strongest[0] == strongest[1] == set(itertools.combinations(sorted(ring.tolist()), 2))


def test_crowded_tasks_are_thinned_and_the_page_says_so(caplog, monkeypatch):
    monkeypatch.setattr("adjudge.results.trust.copies.MAX_TASK_VOTES", 10)
    rows = [(t, f"w{n:02}", "x" if n % 3 else "y") for t in range(4) for n in range(40)]
    votes = adj.read(rows)
    ballot, loss = comparable(Ballots.of(votes).first_votes(), np.full(len(votes), 0.3, np.float32))
    with caplog.at_level(logging.INFO, "adjudge.results.trust.copies"):
        found = pairs(ballot, loss, 40, budget=100)
    assert "only their least explained answers" in caplog.text
    assert "in 2 of 4 tasks" in caplog.text
    assert 0 < len(found.first) <= 100


def test_a_worker_is_no_copy_of_itself():
    _, _, ballot, loss = compared([("t", "a", "x"), ("t", "a", "x"), ("t", "a", "y")], 0)
    assert len(ballot.task) == 1
    assert len(pairs(ballot, loss, 1).first) == 0
