"""Equal items have no winner, and their intervals hold, with judges learned and with prompts that move all judges together."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.ranking.simulate import simulate_jury


def rankings(count, *, first=0, without=(), **options):
    for seed in range(first, first + count):
        yield adj.rank(simulate_jury(**options, seed=seed).comparisons.drop(without))


def test_intervals_of_six_equals_hold_with_judges_learned():
    boards = [ranking.leaderboard for ranking in rankings(60, items=6, prompts=60, without="prompt")]
    held = pl.concat(boards).select(((pl.col("low") <= 0) & (pl.col("high") >= 0)).mean()).item()
    assert 0.86 <= held <= 0.95


@pytest.mark.parametrize(("spread", "without"), [(0.0, "prompt"), (0.0, ()), (1.0, ())])
def test_two_equals_seldom_have_a_winner(spread, without):
    found = [ranking.winner for ranking in rankings(120, prompts=100, prompt_spread=spread, without=without)]
    assert 0.03 <= np.mean([winner is not None for winner in found]) <= 0.17


def test_intervals_of_equals_hold_with_prompts_and_judges():
    boards = [ranking.leaderboard for ranking in rankings(60, items=6, prompts=60, prompt_spread=1.0)]
    held = pl.concat(boards).select(((pl.col("low") <= 0) & (pl.col("high") >= 0)).mean()).item()
    assert 0.86 <= held <= 0.95


def test_few_prompts_have_intervals_with_t_quantiles():
    found = [ranking.winner for ranking in rankings(120, prompts=8, prompt_spread=1.0)]
    assert 0.03 <= np.mean([winner is not None for winner in found]) <= 0.19


def test_equal_judges_are_taken_for_nearly_equal():
    for ranking in rankings(10, prompts=100):
        assert ranking.facts["reliability_spread"] <= 0.5
        assert ranking.judges["reliability"].is_between(0.5, 1.5).all()


def test_a_real_gap_has_a_winner():
    wins = 0
    for seed in range(20):
        drawn = simulate_jury(items=3, prompts=300, strength_spread=1.0, seed=seed)
        ranking = adj.rank(drawn.comparisons)
        best, second = drawn.items.sort("strength", descending=True)["strength"][:2]
        if best - second > 0.4:
            wins += 1
            assert ranking.winner == ranking.facts["winner"] == drawn.items.sort("strength", descending=True)["item"][0]
            assert f"{ranking.winner} is better than every other item, each at the 90% level" in ranking.sentences()
    assert wins >= 8


def test_a_leader_that_is_not_separated_is_no_winner():
    games = [("x", "y", "x"), ("y", "x", "x"), ("x", "y", "y"), ("y", "z", "y"), ("z", "y", "z"), ("z", "x", "tie")]
    ranking = adj.rank(games)
    assert ranking.winner is None
    assert ranking.facts["winner"] is None
    assert ranking.sentences()[-1] == "no winner at the 90% level: x leads, and z, y may be as strong"
