import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.results.workers import beta_interval


def one(a, b, share=0.9):
    low, high = beta_interval(np.array([a / (a + b)]), np.array([a + b]), share)
    return float(low[0]), float(high[0])


@pytest.mark.parametrize("b", [0.1, 1.0, 2.5, 30.0, 4000.0])
def test_closed_forms(b):
    assert one(1, b) == pytest.approx((1 - 0.95 ** (1 / b), 1 - 0.05 ** (1 / b)), abs=3e-3)
    assert one(b, 1) == pytest.approx((0.05 ** (1 / b), 0.95 ** (1 / b)), abs=3e-3)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (3, 1.5), (8, 40), (150, 50), (9000, 1000)])
def test_against_draws(a, b):
    drawn = np.random.default_rng(1).beta(a, b, size=200_000)
    for share in (0.9, 0.5):
        assert one(a, b, share) == pytest.approx(tuple(np.quantile(drawn, [(1 - share) / 2, (1 + share) / 2])), abs=4e-3)


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e7))
def test_the_interval_lies_where_it_may(mean, strength):
    low, high = beta_interval(np.array([mean]), np.array([strength]))
    assert 0 <= low[0] <= high[0] <= 1
    mirrored = beta_interval(np.array([1 - mean]), np.array([strength]))
    assert (1 - mirrored[1][0], 1 - mirrored[0][0]) == pytest.approx((low[0], high[0]), abs=1e-6)
    if strength > 50:
        assert low[0] <= mean + 1e-3
        assert mean <= high[0] + 1e-3


def test_nothing_in_nothing_out():
    assert [len(end) for end in beta_interval(np.zeros(0), np.zeros(0))] == [0, 0]
