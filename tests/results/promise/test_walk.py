"""The walk never passes with more than the risk, and allows as many errors as that leaves."""

import numpy as np
import pytest

import oracle_promise as naive
from adjudge.results.promise.walk import allowed_errors, crossing_probability, gold_needed, smallest_sample


@pytest.mark.parametrize("n", [1, 2, 3, 20, 45, 100, 333])
@pytest.mark.parametrize("error", [0.01, 0.05, 0.1, 0.2])
def test_the_risk_is_kept_and_used(n, error):
    for risk in (0.05, 0.1):
        allowed = allowed_errors(n, error, risk)
        assert crossing_probability(allowed, error) <= risk
        assert (allowed[: max(n // 3, 1)] == -1).all()
        assert (np.diff(allowed[n // 3 :]) <= 1).all()
        if n >= smallest_sample(error, risk):
            assert allowed[n] >= 0


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.01, 0.02, 0.05, 0.1, 0.2])
def test_the_risk_is_kept_for_every_n(error):
    for n in range(1, 501):
        assert crossing_probability(allowed_errors.__wrapped__(n, error, 0.1), error) <= 0.1, n


@pytest.mark.parametrize(("n", "error"), [(12, 0.2), (30, 0.1), (60, 0.05)])
def test_the_recursion_is_that_of_plain_loops(n, error):
    allowed = allowed_errors(n, error, 0.1).tolist()
    assert crossing_probability(np.array(allowed), error) == pytest.approx(naive.passing_probability(allowed, error), abs=1e-12)
    levels = np.geomspace(1e-3, 0.1, 60)
    fitting = [naive.allowed_at(n, error, level) for level in levels]
    fitting = [one for one in fitting if naive.passing_probability(one, error) <= 0.1]
    assert allowed in fitting
    assert all(np.greater_equal(allowed, one).all() for one in fitting)  # no level that keeps the risk allows more


def test_a_flat_worst_case_passes_in_a_tenth_of_all_walks():
    """Confidence that says nothing, with an error rate just at the limit."""
    rng = np.random.default_rng(1)
    allowed = allowed_errors(200, 0.05, 0.1)
    errors = np.cumsum(rng.random((40_000, 200)) < 0.05, axis=1)
    passed = (errors <= allowed[1:]).any(axis=1).mean()
    assert 0.08 <= passed <= 0.105


def test_plans():
    assert [gold_needed(0.05 * part, 0.05) for part in (0, 0.2, 0.4, 0.6, 1)] == [45, 125, 300, 800, None]
    assert [gold_needed(0.1 * part, 0.1) for part in (0, 0.2, 0.4, 0.6)] == [25, 60, 135, 360]
    assert smallest_sample(0.02, 0.1) == 114
    assert [smallest_sample(0.05, risk) for risk in (0.1, 0.05)] == [45, 59]
