"""Ranks within the errors, and triples of items that beat each other in a circle."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.ranking import information as of_information
from adjudge.evaluation.ranking import stability as of_stability
from adjudge.evaluation.ranking.simulate import simulate_comparisons, simulate_jury
from adjudge.evaluation.ranking.stability import _normal, find_cycles
from adjudge.evaluation.ranking.tournament import Tournament

CIRCLE = [("rock", "scissors", "rock"), ("scissors", "paper", "scissors"), ("paper", "rock", "paper")]


def drawn(seed, items=9, games=250):
    rng = np.random.default_rng(seed)
    strength, left = rng.normal(0, 0.5, items), rng.integers(0, items, games)
    right = (left + rng.integers(1, items, games)) % items
    chance = 1 / (1 + np.exp(-(strength[left] - strength[right])))
    t = Tournament.of(left, right, (rng.random(games) < chance).astype(float), items=items)
    return t, 1 / (1 + np.exp(-(strength[t.left] - strength[t.right])))


def majorities(t):
    points = np.zeros((t.items, t.items))
    for left, right, own, count in zip(t.left, t.right, t.points, t.count, strict=True):
        points[left, right] += own
        points[right, left] += count - own
    return points > points.T


def circles(beats):
    """Every cyclic triple, by its definition; each begins with its first item."""
    for i, j, k in combinations(range(len(beats)), 3):
        if beats[i, j] and beats[j, k] and beats[k, i]:
            yield i, j, k
        if beats[i, k] and beats[k, j] and beats[j, i]:
            yield i, k, j


@pytest.mark.parametrize("seed", range(5))
def test_cycles_are_those_of_a_search(seed):
    t, chance = drawn(seed)
    found, beats = find_cycles(t, chance), majorities(t)
    wanted = set(circles(beats))
    met = beats | beats.T
    assert found.triples == sum(met[i, j] and met[j, k] and met[i, k] for i, j, k in combinations(range(t.items), 3))
    assert found.cycles == len(wanted)
    assert {one.items for one in found.strongest} <= wanted
    assert len(found.strongest) == min(len(wanted), of_stability.MAX_CYCLES)
    assert [one.z for one in found.strongest] == sorted((one.z for one in found.strongest), reverse=True)


def test_as_many_cycles_are_expected_as_chance_makes():
    pairs = [(find_cycles(t, chance).cycles, find_cycles(t, chance).expected) for t, chance in map(drawn, range(150))]
    counted, expected = np.mean(pairs, axis=0)
    assert counted == pytest.approx(expected, rel=0.1)


def test_a_circle_is_named():
    ranking = adj.rank(CIRCLE * 20, position=False)
    assert ranking.intransitivity["cycles"] == ranking.intransitivity["triples"] == 1
    row = ranking.cycles.row(0, named=True)
    assert (row["first"], row["second"], row["third"], row["comparisons"]) == ("paper", "rock", "scissors", 20)
    assert row["first_share"] == 1
    assert row["p_value"] < 1e-4
    told = ranking.sentences()[-2]
    assert told.startswith(
        "1 of 1 triples of items beat each other in a circle (chance alone makes about 0), most clearly paper beats"
    )
    assert ranking.to_dict()["cycles"] == ranking.cycles.to_dicts()


def test_no_circle_and_too_many_items(monkeypatch):
    ranking = adj.rank([("a", "b", "a"), ("b", "c", "b"), ("a", "c", "a")])
    assert (ranking.intransitivity["cycles"], ranking.cycles.height) == (0, 0)
    assert ranking.cycles.schema["first"] == pl.String
    monkeypatch.setattr(of_stability, "MAX_CYCLE_ITEMS", 2)
    ranking = adj.rank(CIRCLE)
    assert ranking.intransitivity is None
    assert ranking.cycles.height == 0
    assert not any("circle" in line for line in ranking.sentences())


def test_clusters_have_no_expected_cycles():
    jury = simulate_jury(items=5, prompts=60, prompt_spread=1.0, seed=1).comparisons
    ranking = adj.rank(jury)
    assert ranking.intransitivity["expected"] is None
    assert not any("chance alone" in line for line in ranking.sentences())


def test_the_normal_law():
    from statistics import NormalDist

    x = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(_normal(x), [NormalDist().cdf(one) for one in x.tolist()], atol=1e-6)


def test_volatility_is_what_the_errors_allow():
    table = simulate_comparisons(items=6, comparisons=300, judges=1, seed=1).comparisons.drop("worker")
    ranking = adj.rank(table, position=False)
    found = ranking.volatility
    assert found["item"].to_list() == ranking.leaderboard["item"].to_list()
    assert found["first"].sum() == pytest.approx(1)
    assert found["expected_rank"].sum() == pytest.approx(21)
    assert ((found["low"] <= found["rank"]) & (found["rank"] <= found["high"])).all()
    probabilities = ranking.rank_probabilities
    assert probabilities.group_by("item").agg(pl.col("probability").sum())["probability"].to_list() == pytest.approx([1] * 6)
    leader = probabilities.filter(item=found["item"][0], rank=1)["probability"].item()
    assert leader == pytest.approx(found["first"][0])
    # Of two neighbours, the upper one is ahead as often as `neighbours` says.
    two = adj.rank([("a", "b", "a"), ("a", "b", "a"), ("a", "b", "b"), ("b", "a", "a"), ("b", "a", "b")], position=False)
    assert two.volatility["first"][0] == pytest.approx(two.neighbours["probability"][0], abs=0.03)


def test_ranks_hold_the_truth():
    held = []
    for seed in range(40):
        one = simulate_comparisons(items=8, comparisons=200, judges=3, seed=seed)
        place = one.items.with_columns(place=pl.col("strength").rank(descending=True))
        both = adj.rank(one.comparisons).volatility.join(place, on="item")
        held += both.select(pl.col("place").is_between("low", "high")).to_series().to_list()
    assert np.mean(held) > 0.88


def test_draws_of_large_tournaments_do_too(monkeypatch):
    table = simulate_comparisons(items=12, comparisons=600, judges=1, seed=2).comparisons.drop("worker")
    exact = adj.rank(table).volatility
    monkeypatch.setattr(of_information, "MAX_EXACT", 5)
    sampled = adj.rank(table, draws=500).volatility
    np.testing.assert_allclose(sampled["expected_rank"], exact["expected_rank"], atol=0.3)


def test_components_have_their_own_ranks():
    with pytest.warns(adj.SuspiciousVotes):
        ranking = adj.rank([("a", "b", "a"), ("b", "a", "b"), ("a", "b", "a"), ("x", "y", "x"), ("y", "x", "y")])
    assert ranking.volatility.group_by("component").agg(pl.col("first").sum())["first"].to_list() == pytest.approx([1, 1])
