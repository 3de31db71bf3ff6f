"""Intervals: resampled sums against tasks really resampled, and one scheme against the other."""

import math
import pickle

import numpy as np
import pytest

import adjudge as adj
from adjudge.evaluation import intervals as home
from adjudge.evaluation.agreement import coefficients
from adjudge.evaluation.agreement import pairs as of_pairs
from adjudge.evaluation.agreement.pairs import figures, pair_tables
from adjudge.evaluation.intervals import Estimate

NAMES = ("percent", "cohen", "scott", "fleiss", "alpha", "ac1", "ac2_linear", "ac2_quadratic")


def intervals(found, names=NAMES):
    return np.array([(getattr(found, n).low, getattr(found, n).high) for n in names])


def widths(found, names=NAMES):
    return np.diff(intervals(found, names))[:, 0]


def resampled(votes, rng, level):
    """The figures of tasks drawn with replacement, each copy a task of its own."""
    by_task = {}
    for t, w, k in votes:
        by_task.setdefault(t, []).append((w, k))
    tasks = list(by_task)
    drawn = rng.integers(len(tasks), size=len(tasks))
    again = [(n, w, k) for n, place in enumerate(drawn) for w, k in by_task[tasks[place]]]
    found = adj.agreement(again, scale=level, resamples=0, model=None, labels=[1, 2, 3, 4])
    return [getattr(found, name) for name in NAMES]


@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_intervals_are_those_of_tasks_drawn_with_replacement(draw, level):
    votes = draw(1, tasks=60, workers=5)
    rng = np.random.default_rng(0)
    drawn = np.array([resampled(votes, rng, level) for _ in range(300)])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    mine = intervals(adj.agreement(votes, scale=level, labels=[1, 2, 3, 4], level=0.9, resamples=4000, model=None))
    spread = drawn.std(axis=0)
    assert np.all(np.abs(mine[:, 0] - low) < 0.35 * spread)  # the naive quantiles are that sure
    assert np.all(np.abs(mine[:, 1] - high) < 0.35 * spread)


def test_groups_of_tasks_give_the_same_figures_and_nearly_the_same_intervals(draw, monkeypatch):
    votes = draw(2, tasks=1500, workers=5)
    exact = adj.agreement(votes, scale="ordinal", model=None)
    monkeypatch.setattr(home, "MAX_UNITS", 256)
    grouped = adj.agreement(votes, scale="ordinal", model=None)
    for name in NAMES:
        assert getattr(grouped, name) == pytest.approx(getattr(exact, name), rel=1e-12)
    assert np.all(np.abs(widths(grouped) / widths(exact) - 1) < 0.25)


def test_equal_tasks_are_drawn_as_one_pattern(draw):
    votes = adj.read(draw(2, tasks=1500, workers=3, labels=2, missing=0))
    rng = np.random.default_rng(0)
    found = coefficients.by_pattern(votes, 9, rng)
    assert len(found) == 4  # 3 votes for two labels
    assert found.sizes.sum() == 1500
    assert len(coefficients.by_pattern(votes, 1 << 30, rng)) == 4
    assert len(home.by_task(1500, 9, rng)) == 1500
    assert np.ptp(np.bincount(home.by_task(1500, 1 << 17, rng).unit)) <= 1


def test_patterns_that_need_too_many_digits_are_not_told_apart():
    votes = adj.read([(t, w, f"l{(t * w) % 40}") for t in range(30) for w in range(4)])
    assert coefficients._patterns(votes) is None
    assert adj.agreement(votes).percent.low >= 0


def test_a_seed_draws_the_same_whatever_the_order_of_the_votes(draw):
    votes = draw(3, tasks=200, labels=2)
    first, second = adj.agreement(votes, seed=5), adj.agreement(votes[::-1], seed=5)
    names = ("percent", "fleiss", "alpha", "ac1")
    assert np.allclose(intervals(first, names), intervals(second, names), rtol=1e-12)
    assert not np.array_equal(intervals(first, names), intervals(adj.agreement(votes, seed=6), names))


def test_no_resamples_no_intervals(draw):
    found = adj.agreement(draw(3), resamples=0)
    assert math.isnan(found.alpha.low)
    assert math.isnan(found.cohen.high)
    assert math.isnan(found.effective_votes.low)
    assert found.summary()["alpha"]["low"] is None


def test_wider_confidence_is_wider(draw):
    narrow, wide = (adj.agreement(draw(4), level=c, scale="ordinal") for c in (0.5, 0.99))
    assert np.all(widths(narrow) < widths(wide))


def test_influence_widths_are_those_of_the_bootstrap(draw, monkeypatch):
    votes = draw(5, tasks=400, workers=6)
    drawn = adj.agreement(votes, resamples=4000)
    monkeypatch.setattr(of_pairs, "MAX_RESAMPLED", 0)
    computed = adj.agreement(votes)
    names = ("cohen", "scott")
    assert (computed.cohen, computed.scott) == (drawn.cohen, drawn.scott)
    assert np.all(np.abs(widths(computed, names) / widths(drawn, names) - 1) < 0.1)
    monkeypatch.setattr(of_pairs, "MAX_DENSE_KEYS", 0)
    assert np.allclose(intervals(adj.agreement(votes), names), intervals(computed, names), atol=1e-6)


def test_influence_is_what_one_more_copy_of_a_task_does(draw):
    votes, times = draw(6, tasks=30), 100
    many = [(f"{n} {t}", w, k) for n in range(times) for t, w, k in votes]

    def means(source):
        found = adj.agreement(source, resamples=0, model=None)
        return np.array([found.cohen, found.scott])

    read = adj.read(votes)
    pairs = of_pairs.VotePairs(read)
    cells = pair_tables(pairs)
    moved = of_pairs.influence(pairs, cells, figures(cells))
    assert np.allclose(moved.sum(axis=0), 0, atol=1e-6)
    base = means(many)
    for code in (0, 7, 20):
        task = read.tasks[code]
        more = means([*many, *(("again", w, k) for t, w, k in votes if t == task)])
        assert np.allclose((more - base) * times, moved[code], rtol=0.05, atol=2e-4)


def test_an_estimate_is_a_number():
    e = Estimate(0.5, 0.25, 0.75)
    assert (e, e.low, e.high) == (0.5, 0.25, 0.75)
    again = pickle.loads(pickle.dumps(e))
    assert (again, again.low, again.high, repr(again)) == (0.5, 0.25, 0.75, "0.5 [0.25, 0.75]")
    assert f"{e:.2f}" == "0.50"
