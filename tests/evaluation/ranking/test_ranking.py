"""What `adj.rank` says of tournaments: intervals hold, ranks are honest, judges and positions are found."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_ranking as oracle
from adjudge.errors import InputError, OptionError, SuspiciousVotes
from adjudge.evaluation.ranking.errors import errors, neighbours
from adjudge.evaluation.ranking.simulate import simulate_comparisons


@pytest.fixture(scope="module")
def panel():
    """Eight judges: one guesses, one prefers the worse, one goes by the side."""
    drawn = simulate_comparisons(items=10, comparisons=4000, judges=8, seed=2)
    rng = np.random.default_rng(5)
    winner = drawn.comparisons["winner"].to_numpy().copy()
    who = drawn.comparisons["worker"].to_numpy()
    winner[who == "w0"] = rng.choice(["left", "right"], (who == "w0").sum())
    winner[who == "w1"] = np.where(winner[who == "w1"] == "left", "right", "left")
    winner[(who == "w2") & (rng.random(len(who)) < 0.5)] = "left"
    return adj.rank(drawn.comparisons.with_columns(winner=pl.Series(winner))), drawn


def test_intervals_hold_what_they_promise():
    hits = []
    for seed in range(60):
        drawn = simulate_comparisons(items=8, comparisons=240, judges=4, position=0.3, reliability_spread=0.3, seed=seed)
        both = adj.rank(drawn.comparisons).leaderboard.join(drawn.items, on="item", suffix="_true")
        hits += both.select(pl.col("strength_true").is_between("low", "high")).to_series().to_list()
    assert 0.85 <= np.mean(hits) <= 0.95


def test_judges_are_known_for_what_they_do(panel):
    ranking, drawn = panel
    judges = {row["worker"]: row for row in ranking.judges.iter_rows(named=True)}
    assert ranking.facts["judges"] is ranking.facts["position"] is True
    assert judges["w0"]["reliability_low"] < 0.1 < 0.5 > judges["w0"]["reliability_high"]
    assert judges["w1"]["reliability_high"] < 0
    assert judges["w2"]["position_low"] > 0.3
    honest = [judges[f"w{n}"] for n in range(3, 8)]
    assert all(one["reliability_low"] > 0.5 and abs(one["position_bias"]) < 0.4 for one in honest)
    assert judges["w1"]["agreement"] < 0.4 < 0.6 < min(one["agreement"] for one in honest)
    truth = drawn.items.sort("strength", descending=True)["item"].to_list()
    with_judges = ranking.leaderboard["item"].to_list()
    assert sum(abs(truth.index(i) - with_judges.index(i)) for i in truth) <= 4
    weights = [row["comparisons"] for row in judges.values()]
    assert np.average([row["reliability"] for row in judges.values()], weights=weights) == pytest.approx(1)


def test_an_advantage_of_the_left_side_is_taken_out():
    drawn = simulate_comparisons(items=6, comparisons=1500, judges=1, position=0.8, seed=1)
    table = drawn.comparisons.drop("worker")
    fair = adj.rank(table)
    assert fair.facts["position_low"] < 0.8 < fair.facts["position_high"]
    # An item that was mostly on the left gains if the position bias is not removed.
    mostly = table.filter((pl.col("right") != "i0") | (pl.int_range(pl.len()) % 5 == 0))
    gain = [adj.rank(mostly, position=p).strength[0] for p in (False, True)]
    assert gain[0] > gain[1] + 0.2
    assert gain[1] == pytest.approx(fair.strength[0], abs=0.3)


def test_a_position_that_cannot_be_told_from_an_item_is_not_estimated():
    rows = [("new", f"old{n % 3}", "new" if n % 4 else f"old{n % 3}") for n in range(200)]
    facts = adj.rank(rows).facts
    assert facts["position"] is False
    assert "both sides" in facts["position_why"]


def test_ranks_come_from_differences(panel):
    ranking, _ = panel
    board = ranking.leaderboard
    order = ranking.items.codes(board["item"])
    for n, one in enumerate(order):
        better = worse = 0
        for other in order:
            gap = ranking.strength[other] - ranking.strength[one]
            covariance = ranking.errors.covariance
            error = np.sqrt(covariance[one, one] + covariance[other, other] - 2 * covariance[one, other])
            better += gap > 1.6448536 * error and gap > 1e-9
            worse += gap < -1.6448536 * error and gap < -1e-9
        assert board.row(n)[5:7] == (1 + better, len(order) - worse)
        assert board["rank_low"][n] <= board["rank"][n] <= board["rank_high"][n]


def test_as_many_more_comparisons_as_are_asked_for_separate_neighbours():
    table = simulate_comparisons(items=5, comparisons=120, judges=1, seed=3).comparisons.drop("worker")
    ranking = adj.rank(table, position=False)
    found = neighbours(ranking.strength, ranking.component, ranking.errors, 0.9)
    at = int(np.argmax(found["further"]))
    assert found["further"][at] > 10
    one, other = found["upper"][at], found["lower"][at]
    chance = ranking.probability(ranking.items[int(one)], ranking.items[int(other)])
    t, problem = ranking.tournament, ranking.fitted.problem
    row = int(np.flatnonzero((t.left == one) & (t.right == other))[0])
    for more, separated in ((found["further"][at], True), (found["further"][at] - 2, False)):
        added = np.bincount([row], [more], len(t))  # as they are expected to end, so that strengths stay
        larger = dataclasses.replace(t, left_wins=t.left_wins + chance * added, right_wins=t.right_wins + (1 - chance) * added)
        changed = dataclasses.replace(problem, tournament=larger)
        matrix = changed.information(changed.evaluate(ranking.fitted.parameters))
        error = np.sqrt(errors(matrix, problem.gauge, None, 0, 0).of_differences(np.array([one]), np.array([other])))
        assert (found["difference"][at] > 1.6448536 * error[0]) == separated


def test_components_are_ranked_apart_and_said():
    rows = [("a", "b", "a"), ("b", "a", "b"), ("a", "b", "a"), ("x", "y", "x"), ("y", "x", "y"), ("b", "c", "tie")]
    with pytest.warns(SuspiciousVotes, match="2 components that were never compared"):
        ranking = adj.rank(rows)
    assert ranking.leaderboard.select("component", "rank", "item").rows() == [
        (1, 1, "a"),
        (1, 2, "b"),
        (1, 2, "c"),
        (2, 1, "x"),
        (2, 1, "y"),
    ]
    assert ranking.components.rows() == [(1, 3, 4, "a", True), (2, 2, 2, None, True)]
    assert ranking.leaderboard.group_by("component").agg(pl.col("strength").sum().abs())["strength"].max() < 1e-9
    with pytest.raises(InputError, match="different components"):
        ranking.probability("a", "x")
    with pytest.raises(InputError, match="'q' is not among the items: a, b, c, x, y"):
        ranking.probability("a", "q")
    assert any("say nothing across" in line for line in ranking.sentences())


def test_winners_of_everything_need_a_prior():
    rows = [("a", "b", "a"), ("b", "c", "b"), ("c", "b", "c"), ("a", "c", "a")]
    ranking = adj.rank(rows)
    assert ranking.facts["prior"] == 1
    assert "'a' won all comparisons" in ranking.facts["prior_why"]
    assert ranking.components["maximum_exists"].to_list() == [False]
    assert 0 < ranking.probability("a", "b") < 1
    with pytest.raises(InputError, match="no finite maximum: 'a' won all comparisons; leave prior out"):
        adj.rank(rows, prior=0)
    groups = [("a", "b", "tie"), ("c", "d", "tie"), ("a", "c", "a"), ("b", "d", "b")]
    with pytest.raises(InputError, match="a group of items won, or lost, all comparisons with the others"):
        adj.rank(groups, prior=0)
    assert adj.rank(groups, prior=0.1).strength[0] > adj.rank(groups).strength[0] > 0


def test_cycles_and_ties_are_equal():
    for rows in (
        [("a", "b", "a"), ("b", "c", "b"), ("c", "a", "c")],
        [("a", "b", "tie"), ("b", "c", "draw"), ("a", "c", "both")],
    ):
        ranking = adj.rank(rows, prior=0)
        np.testing.assert_allclose(ranking.strength, 0, atol=1e-9)
        assert ranking.leaderboard.select("rank", "rank_low", "rank_high").unique().rows() == [(1, 1, 3)]
        assert ranking.neighbours["further"].to_list() == [None, None]
        assert repr(ranking) == "Ranking(3 items, 3 comparisons: 3 share the lead)"
        assert ranking.components["leader"].to_list() == [None], "whoever comes first by name does not lead"
        assert ranking.neighbours["probability"].to_list() == pytest.approx([0.5, 0.5])


def test_the_order_of_rows_and_sides_does_not_matter():
    table = simulate_comparisons(items=6, comparisons=300, judges=3, ties=0.3, seed=1).comparisons
    expected = adj.rank(table, position=False).leaderboard
    turned = table.sample(fraction=1, shuffle=True, seed=1).select(
        left="right", right="left", winner=pl.col("winner").replace({"left": "right", "right": "left"}), worker="worker"
    )
    found = adj.rank(turned, position=False).leaderboard
    assert found["item"].to_list() == expected["item"].to_list()
    np.testing.assert_allclose(found["strength"], expected["strength"], atol=1e-8)
    np.testing.assert_allclose(found["high"], expected["high"], atol=1e-8)


def test_judges_repeat_themselves_or_not():
    rng = np.random.default_rng(0)
    games = [
        ("abc"[i], "abc"[j], float(rng.choice([0, 0.5, 1]))) for i, j in rng.permutation(3 * [[0, 1], [1, 0], [1, 2], [2, 0]])
    ]
    words = {1.0: "left", 0.5: "tie", 0.0: "right"}
    judge = adj.rank([(left, right, words[score], "j") for left, right, score in games]).judges.row(0, named=True)
    same, alike, swapped, agree = oracle.consistency(games)
    assert (judge["repeats"], judge["swapped_repeats"]) == (same, swapped)
    assert judge["consistency"] == pytest.approx(alike / same)
    assert judge["swapped_consistency"] == pytest.approx(agree / swapped)
    assert judge["ties"] == sum(score == 0.5 for *_, score in games)
    assert judge["reliability"] is None


def test_few_judges_are_taken_for_equal_and_that_is_said():
    one = adj.rank([("a", "b", "a", "ann"), ("b", "a", "b", "ann"), ("a", "b", "a", "ann")])
    assert (one.facts["judges"], one.facts["judges_why"]) == (False, "judges are taken for equal: there is one judge")
    with pytest.raises(OptionError, match="judges=True compares judges, and one worker alone compares"):
        adj.rank([("a", "b", "a", "ann"), ("b", "a", "b", "ann")], judges=True)
    with pytest.raises(OptionError, match="no column says who compared"):
        adj.rank([("a", "b", "a"), ("b", "a", "b")], judges=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judges": "yes"}, "judges is 'yes': give True, False or 'auto'"),
        ({"position": 1}, "position is 1: give True, False or 'auto'"),
        ({"prior": -1}, "prior is -1: give a number of at least 0"),
        ({"level": 1}, "level is 1: give a number of at least 0.5"),
        ({"draws": 2}, "draws is 2: give a whole number of at least 8"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        adj.rank([("a", "b", "a"), ("b", "a", "b")], **options)


def test_a_higher_level_widens_intervals():
    table = simulate_comparisons(items=4, comparisons=100, seed=1).comparisons
    narrow, wide = (adj.rank(table, level=c).leaderboard for c in (0.5, 0.99))
    ratio = ((wide["high"] - wide["low"]) / (narrow["high"] - narrow["low"])).to_numpy()
    np.testing.assert_allclose(ratio, 2.5758293 / 0.6744898, rtol=1e-5)


def test_pictures_show_the_leader(panel):
    ranking, _ = panel
    picture = ranking.plot()
    assert picture.sentence.startswith(ranking.leaderboard["item"][0])
    assert "90%" in picture.notes[0]
    assert "#14171c" in ranking.plot(theme="dark").svg()


def test_hundreds_of_components_are_ranked_one_by_one():
    rows = [(f"a{n}", f"b{n}", winner) for n in range(100) for winner in ("left", "left", "right")]
    with pytest.warns(SuspiciousVotes, match="100 components"):
        ranking = adj.rank(rows)
    np.testing.assert_allclose(np.abs(ranking.strength), np.log(2) / 2, atol=1e-8)
    np.testing.assert_allclose(ranking.standard_error, np.sqrt(1 / (3 * 2 / 9)) / 2, atol=1e-8)


def test_ids_are_text_on_a_card_and_in_a_picture():
    pytest.importorskip("altair")
    ranking = adj.rank([("<script>x</script>", "b\x1b[31m", "left"), ("b\x1b[31m", "<script>x</script>", "left")])
    card = ranking._repr_html_()
    assert "<script" not in card
    assert "&lt;script&gt;" in card
    assert "\x1b" not in card + repr(ranking)
    assert "ranking.neighbours" in card
    assert "<script" not in ranking.plot().svg()
    assert "</script>" not in ranking.plot().altair().to_json()


def test_ties_vary_less_than_wins():
    drawn = simulate_comparisons(items=6, comparisons=1000, judges=1, ties=0.8, seed=4).comparisons.drop("worker")
    ranking = adj.rank(drawn, position=False)
    ratio = ranking.standard_error / np.sqrt(np.diag(ranking.fitted.information.inverse(ranking.fitted.problem.gauge)))
    chance, t = ranking.fitted.problem.chances(ranking.fitted.estimates), ranking.tournament
    assert ratio == pytest.approx(np.sqrt(1 - t.ties.sum() / 4 / (t.count @ (chance * (1 - chance)))), rel=0.01)
    assert (ratio < 0.9).all()
    assert (adj.rank([("a", "b", "tie"), ("b", "a", "tie")] * 50).standard_error > 0.05).all(), "nothing is certain"
