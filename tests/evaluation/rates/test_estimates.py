"""Estimates of shares compared with plain versions of their formulas, and the coverage of intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from adjudge.evaluation.inputs import KnownLabels
from adjudge.evaluation.intervals import quantile, share_intervals, two_sided
from adjudge.evaluation.rates.planning import gold_needed, plan_labels
from adjudge.evaluation.rates.shares import (
    INVERTED,
    PPI,
    UNCANCELLED,
    JudgeShares,
    ShareEstimate,
    TaskBeliefs,
    by_votes,
    correct_predictions,
    differences,
    estimate_inverted,
    estimate_shares,
    most_likely,
    table_of,
)


def judged(share, n, rng, *, accuracy=0.85, votes=3):
    """(beliefs about n tasks that binary votes of known accuracy give, truth): no errors are shared, and p is calibrated."""
    truth = (rng.random(n) < share).astype(int)
    right = rng.random((n, votes)) < accuracy
    ones = np.where(right, truth[:, None], 1 - truth[:, None]).sum(axis=1)
    odds = (accuracy / (1 - accuracy)) ** (2.0 * ones - votes)
    likelihood = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)
    honest = likelihood * [1 - share, share]
    honest /= honest.sum(axis=1, keepdims=True)
    return TaskBeliefs(likelihood, honest, honest.argmax(axis=1), np.array([True, True]), honest.mean(axis=0)), truth


@pytest.mark.parametrize("df", [1, 2, 3, 7, 19, 40])
def test_students_law(df):
    for t in (0.0, 0.4, 1.7, 5.0):
        assert two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-12)
    for confidence in (0.5, 0.9, 0.99):
        assert quantile(confidence, df) == pytest.approx(stats.t.ppf((1 + confidence) / 2, df), rel=1e-9)
    assert quantile(0.9, math.inf) == pytest.approx(stats.norm.ppf(0.95))


def test_intervals_of_shares_are_wilsons():
    share, n, z = np.array([0.5, 0.1, 0.97]), 80, 1.7
    low, high = share_intervals(share, share * (1 - share) / n, z, n)
    for s, a, b in zip(share, low, high, strict=True):
        roots = np.roots([1 + z**2 / n, -(2 * s + z**2 / n), s**2])  # (s - p)^2 = z^2 p (1 - p) / n
        assert (a, b) == pytest.approx((roots.min(), roots.max()))
    low, high = share_intervals(np.array([0.0, 1.0]), np.array([1e-4, 1e-4]), z, n)
    assert (low[0], high[1]) == (0.0, 1.0)
    assert high[0] > 0
    assert low[1] < 1


def test_the_most_likely_share_is_that_of_a_grid():
    found, _ = judged(0.3, 200, np.random.default_rng(0))
    share, posterior = most_likely(found)
    grid = np.linspace(0.001, 0.999, 3993)
    penalty = 0.25 * (np.log(grid) + np.log(1 - grid))  # of the tasks that are added
    heights = np.log(found.likelihood[:, :1] * (1 - grid) + found.likelihood[:, 1:] * grid).sum(axis=0) + penalty
    assert share[1] == pytest.approx(grid[heights.argmax()], abs=3e-4)
    assert posterior.sum(axis=1) == pytest.approx(np.ones(200))


def test_a_share_by_votes_is_as_sure_as_its_curvature_says():
    found, _ = judged(0.3, 4000, np.random.default_rng(1))
    estimate = by_votes(found, np.arange(4000), sample=True)
    share, step = estimate.share[1], 1e-3

    def height(s):
        return np.log(found.likelihood[:, 0] * (1 - s) + found.likelihood[:, 1] * s).sum()

    curvature = (2 * height(share) - height(share - step) - height(share + step)) / step**2
    assert estimate.variance[1] == pytest.approx(1 / curvature, rel=0.02)
    assert (estimate.influence**2).sum(axis=0)[1] == pytest.approx(1 / curvature, rel=0.02)
    these = by_votes(found, np.arange(4000), sample=False)
    assert these.variance[1] == pytest.approx(estimate.variance[1] - share * (1 - share) / 4000)


def held(share, sample, gold, draws=300, n=100):
    """How often the 90% interval of the second label holds the truth."""
    rng, inside = np.random.default_rng([int(100 * share), gold]), 0
    for _ in range(draws):
        found, truth = judged(share, n, rng)
        tasks = np.arange(n)
        if gold:
            at = np.sort(rng.choice(n, gold, replace=False))
            estimate = correct_predictions(found, tasks, at, truth[at], sample=sample)
        else:
            estimate = by_votes(found, tasks, sample=sample)
        low, high = estimate.interval(quantile(0.9, estimate.df), n)
        inside += low[1] <= (share if sample else truth.mean()) <= high[1]
    return inside / draws


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize(("sample", "gold"), [(True, 0), (True, 20), (False, 20)])
def test_intervals_hold_what_they_promise(share, sample, gold):
    assert 0.84 <= held(share, sample, gold) <= 0.97


def test_shared_errors_are_undone_by_gold():
    """A third of the tasks of one label look like the other: votes cannot show it, gold does."""
    rng, by_vote, by_gold = np.random.default_rng(4), 0, 0
    for _ in range(150):
        found, truth = judged(0.3, 200, rng)
        fooled = (truth == 0) & (rng.random(200) < 1 / 3)
        real = np.where(fooled, 1, truth)  # true share 0.3 + 0.7 / 3
        at = np.sort(rng.choice(200, 25, replace=False))
        wanted, tasks = 0.3 + 0.7 / 3, np.arange(200)
        for estimate in (by_votes(found, tasks, sample=True), correct_predictions(found, tasks, at, real[at], sample=True)):
            low, high = estimate.interval(quantile(0.9, estimate.df), 200)
            if estimate.method == PPI:
                by_gold += low[1] <= wanted <= high[1]
            else:
                by_vote += low[1] <= wanted <= high[1]
    assert by_vote / 150 < 0.3
    assert by_gold / 150 >= 0.84


def test_prediction_powered_by_hand():
    """With predictions that tell nothing the share is that of the gold; with all known, that of the truth."""
    flat = TaskBeliefs(np.ones((50, 2)), np.full((50, 2), 0.5), np.zeros(50, int), np.array([True, True]), np.array([0.5, 0.5]))
    tasks, at = np.arange(50), np.arange(20)
    labels = np.array([1] * 5 + [0] * 15)
    estimate = correct_predictions(flat, tasks, at, labels, sample=True)
    assert estimate.share.tolist() == pytest.approx([0.75, 0.25])
    wanted = (20 * 0.25 * 0.75 + 2 * 0.25) / (19 + 2) / 20  # two tasks of the expected doubt are lent
    assert estimate.variance[1] == pytest.approx(wanted)
    every = correct_predictions(flat, tasks, tasks, np.arange(50) % 2, sample=False)
    assert (every.method, every.share.tolist(), every.variance.tolist()) == ("gold", [0.5, 0.5], [0.0, 0.0])
    assert every.interval(1.7, 50)[0].tolist() == [0.5, 0.5]


def test_the_inverted_table_is_that_of_rogan_and_gladen():
    rng = np.random.default_rng(7)
    found, truth = judged(0.4, 2000, rng)
    gold = KnownLabels(np.arange(1000), truth[:1000])
    table = table_of(found, gold)
    group = np.arange(1500, 2000)
    estimate = estimate_inverted(found.of(group), group, table, sample=True)
    right, wrong = table.given[1, 1], table.given[1, 0]
    seen = (found.label[group] == 1).mean()
    share = (seen - wrong) / (right - wrong)
    assert estimate.share[1] == pytest.approx(share)
    n1, n0 = table.number[1], table.number[0]
    luck = seen * (1 - seen) / 500
    known = share**2 * right * (1 - right) / n1 + (1 - share) ** 2 * wrong * (1 - wrong) / n0
    assert estimate.variance[1] == pytest.approx((luck + known) / (right - wrong) ** 2)
    assert estimate.influence[:500, 1] @ estimate.influence[:500, 1] == pytest.approx(luck / (right - wrong) ** 2)
    assert table_of(found, KnownLabels(np.arange(6), truth[:6])) is None  # fewer than five of a label
    guess = TaskBeliefs(found.likelihood, found.honest, rng.integers(0, 2, 2000), found.exists, found.usual)
    assert table_of(guess, gold) is None  # labels that tell nothing cannot be inverted


def test_which_method_is_taken():
    rng = np.random.default_rng(8)
    found, truth = judged(0.4, 2000, rng)
    few, many = np.arange(0, 100), np.arange(100, 2000)
    at = np.concatenate([few[:5], many[:400]])
    gold = KnownLabels(at, truth[at])
    table = table_of(found, gold)
    assert estimate_shares(found, few, gold, table, sample=True).method == INVERTED  # too few of its own
    assert estimate_shares(found, few, gold, None, sample=True).method == "votes"
    assert estimate_shares(found, many, gold, table, sample=True).method == PPI  # most of the gold is its own
    at = np.concatenate([few[:12], many[:400]])
    gold = KnownLabels(at, truth[at])
    assert estimate_shares(found, few, gold, table_of(found, gold), sample=True).method == INVERTED  # clearly tighter
    other = KnownLabels(at, np.where(at < 100, 1 - truth[at], truth[at]))  # judges err otherwise in this group
    assert estimate_shares(found, few, other, table_of(found, gold), sample=True).method == PPI


def estimate_of(share, variance, tasks, influence, shared=0.0):
    two = np.array([1 - share, share])
    both = np.stack([-influence, influence], axis=1)
    return ShareEstimate(two, np.full(2, variance), np.full(2, shared), "votes", math.inf, tasks, both, len(tasks))


def test_luck_with_the_same_items_cancels_out():
    luck = np.array([0.03, -0.01, 0.02])
    a = estimate_of(0.7, 0.0014, np.array([0, 1, 2]), luck)
    b = estimate_of(0.5, 0.0014, np.array([3, 4, 5]), luck)
    same = [JudgeShares.of(np.array([0, 1, 2]))] * 2
    [alone] = differences([a, b], [(0, 1)], None, 0.9, same)
    [paired] = differences([a, b], [(0, 1)], np.array([7, 8, 9, 7, 8, 10]), 0.9, same)
    assert (alone.value[1], alone.pairs, paired.pairs) == (pytest.approx(0.2), 0, 2)
    z = quantile(0.9, math.inf)
    assert alone.high[1] - 0.2 == pytest.approx(z * math.sqrt(0.0028))
    assert paired.high[1] - 0.2 == pytest.approx(z * math.sqrt(0.0028 - 2 * (0.03**2 + 0.01**2)))
    assert alone.p_value[1] == pytest.approx(2 * stats.norm.sf(0.2 / math.sqrt(0.0028)))
    c = estimate_of(0.5, 0.0014, np.array([3, 4, 5]), luck, shared=0.01)
    items, others = np.array([7, 8, 9, 7, 8, 9]), [same[0], JudgeShares.of(np.array([3, 4]))]
    [doubted] = differences([a, c], [(0, 1)], items, 0.9, others)
    assert doubted.high[1] - 0.2 == pytest.approx(z * 0.1)  # errors that judges share do not cancel out of those of others
    [same_judges] = differences([a, c], [(0, 1)], items, 0.9, same)
    assert same_judges.high[1] - 0.2 == pytest.approx(z * math.sqrt(UNCANCELLED * 0.01))


def test_the_labels_that_halve_an_interval_do():
    rng = np.random.default_rng(9)
    found, truth = judged(0.5, 3000, rng, accuracy=0.7)
    tasks = np.arange(3000)

    def width(n):
        at = np.sort(rng.choice(3000, n, replace=False))
        estimate = correct_predictions(found, tasks, at, truth[at], sample=True)
        low, high = estimate.interval(quantile(0.9, estimate.df), 3000)
        return estimate, (high - low) / 2

    ratios = []
    for _ in range(20):
        estimate, now = width(30)
        needed = gold_needed(plan_labels(found, estimate, 30, sample=True), now, 0.9)
        assert needed.half_width == pytest.approx(now.max())
        ratios.append(width(30 + needed.more)[1].max() / now.max())
    assert np.mean(ratios) == pytest.approx(0.5, abs=0.05)
    few = found.of(np.arange(40))
    never = gold_needed(plan_labels(few, by_votes(few, np.arange(40), sample=True), 0, sample=True), np.array([0.1, 0.1]), 0.9)
    assert never.more is None
    assert never.why.startswith("all 40 tasks known leave ±")
