"""Intervals hold what they promise, on few tasks too; p-values are those of the tests they are named after."""

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from adjudge.evaluation.intervals import accuracy_interval, compare_paired, holm, mid_p, standard_error


@pytest.mark.parametrize(("a", "b"), [(0, 1), (9, 1), (3, 12), (40, 60), (0, 700), (1500, 1400)])
def test_mid_p_is_the_exact_test_with_the_outcome_seen_counted_half(a, b):
    exact = mcnemar([[0, a], [b, 0]], exact=True).pvalue
    same = mcnemar([[0, a], [b, 0]], exact=False, correction=False).pvalue
    found = mid_p(a, b)
    assert 0 <= found <= exact
    assert found == mid_p(b, a)
    if a + b > 50 and min(a, b):
        assert found == pytest.approx(same, rel=0.05)
    if a + b == 10:
        assert found == pytest.approx((2 * (1 + 10) - 10) / 2**10)  # 2 P(X <= 1) - P(X = 1)


def test_mid_p_of_equal_sides_and_of_many_tasks():
    assert mid_p(0, 0) == mid_p(7, 7) == 1.0
    assert mid_p(100_000, 101_000) == pytest.approx(0.0256, abs=0.001)


def test_holm_is_that_of_statsmodels():
    p = np.random.default_rng(1).uniform(0, 0.2, 28) ** 2
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm(np.zeros(0)).tolist() == []


@pytest.mark.parametrize(("tasks", "rate"), [(10, 0.9), (20, 0.95), (50, 0.7), (400, 0.93)])
def test_intervals_of_accuracy_hold_what_they_promise(tasks, rate):
    rng = np.random.default_rng(tasks)
    likely = [right for right in range(tasks + 1) if binom.pmf(right, tasks, rate) > 1e-5]
    bounds = {right: accuracy_interval(right, tasks, 20_000, 0.95, rng) for right in likely}
    covered = sum(binom.pmf(right, tasks, rate) for right in likely if bounds[right].low <= rate <= bounds[right].high)
    assert covered >= 0.945


@pytest.mark.parametrize(("tasks", "ahead", "behind"), [(20, 0.1, 0.1), (30, 0.15, 0.05), (200, 0.05, 0.03)])
def test_intervals_of_differences_hold_what_they_promise(tasks, ahead, behind):
    rng = np.random.default_rng(tasks)
    inside = []
    for only_a, only_b, _ in rng.multinomial(tasks, [ahead, behind, 1 - ahead - behind], 400):
        place = np.arange(tasks)
        a, b = place < only_a, (place >= only_a) & (place < only_a + only_b)
        found = compare_paired(a, b, 500, 0.95, rng).difference
        inside.append(found.low <= ahead - behind <= found.high)
    assert np.mean(inside) >= 0.92


def test_ten_of_ten_are_not_certain_and_no_difference_is_not_proof_of_none():
    rng = np.random.default_rng(0)
    found = accuracy_interval(10, 10, 1000, 0.95, rng)
    assert (found, found.high) == (1.0, 1.0)
    assert 0.7 < found.low < 0.9
    same = compare_paired(np.ones(10, bool), np.ones(10, bool), 1000, 0.95, rng)
    assert same.difference.low < -0.05 < 0.05 < same.difference.high
    assert (same.only_a, same.only_b, same.p_value) == (0, 0, 1.0)


def test_without_resamples_or_tasks_there_is_no_interval():
    rng = np.random.default_rng(0)
    assert set(accuracy_interval(5, 10, 0, 0.95, rng).summary().values()) == {0.5, None}
    assert set(accuracy_interval(0, 0, 100, 0.95, rng).summary().values()) == {None}


def test_the_standard_error_is_that_of_paired_outcomes():
    apart = np.repeat([1, -1, 0], [60, 40, 900])
    assert standard_error(60, 40, 1000) == pytest.approx(apart.std() / np.sqrt(1000), rel=0.02)
