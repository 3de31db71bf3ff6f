"""Simulated tournaments are what they say."""

import numpy as np
import polars as pl
import pytest

from adjudge.errors import OptionError
from adjudge.evaluation.ranking.simulate import simulate_comparisons


def test_the_same_seed_draws_the_same():
    one, other = (simulate_comparisons(items=4, comparisons=50, seed=3) for _ in range(2))
    assert one.comparisons.equals(other.comparisons)
    assert not one.comparisons.equals(simulate_comparisons(items=4, comparisons=50, seed=4).comparisons)


def test_the_truth_is_in_units_of_the_mean_comparison():
    drawn = simulate_comparisons(items=6, comparisons=5000, judges=4, reliability_spread=0.5, seed=1)
    assert drawn.items["strength"].sum() == pytest.approx(0, abs=1e-9)
    of_each = drawn.comparisons.join(drawn.judges, on="worker")["reliability"]
    assert of_each.mean() == pytest.approx(1)


def test_ties_leave_expected_scores_as_they_are():
    score = pl.col("winner").replace_strict({"left": 1.0, "right": 0.0, "tie": 0.5})
    means = []
    for ties in (0.0, 0.8):
        drawn = simulate_comparisons(items=2, comparisons=40_000, ties=ties, seed=1).comparisons
        means.append(drawn.group_by("left", maintain_order=True).agg(score.mean()).sort("left")["winner"].to_numpy())
    np.testing.assert_allclose(*means, atol=0.015)
    assert (drawn["winner"] == "tie").mean() > 0.1


def test_options_are_checked():
    with pytest.raises(OptionError, match="items is 1: give a whole number of at least 2"):
        simulate_comparisons(items=1)
