"""Effects of length, markup and language are estimated, and strengths are free of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
from adjudge.errors import InputError, OptionError
from adjudge.evaluation.ranking import information as of_information
from adjudge.evaluation.ranking.comparisons import read_comparisons
from adjudge.evaluation.ranking.fit import fit, problem_of
from adjudge.evaluation.ranking.simulate import simulate_comparisons

DRAWN = simulate_comparisons(items=6, comparisons=3000, judges=4, length_effect=0.8, position=0.3, seed=3)
TABLE = {
    "model_a": ["x", "y", "x", "z"],
    "model_b": ["y", "z", "z", "x"],
    "winner": ["model_a", "model_b", "tie", "model_a"],
    "length_a": [10, 20, 30, 45],
    "length_b": [20, 20, 10, 5],
    "markup_a": ["md", "md", "plain", "md"],
    "markup_b": ["plain", "md", "html", "md"],
}


def style(table=TABLE, covariates=("length",), **options):
    return read_comparisons(table, covariates=covariates, **options)


def test_an_effect_is_found_and_strengths_are_free_of_it():
    net, plain = adj.rank(DRAWN.comparisons, covariates=["length"]), adj.rank(DRAWN.comparisons)
    row = net.effects.row(0, named=True)
    assert row["low"] < 0.8 < row["high"]
    assert row["unit"] == pytest.approx((DRAWN.comparisons["length_left"] - DRAWN.comparisons["length_right"]).std(ddof=0))
    truth = DRAWN.items["strength"].to_numpy()
    assert np.abs(net.strength - truth).mean() < 0.5 * np.abs(plain.strength - truth).mean()
    assert plain.effects.height == 0
    assert any("more length helps: the side with it wins" in line for line in net.sentences())
    assert net.understood.columns["covariate length (left)"] == "length_left"


def test_effects_are_those_of_a_logistic_regression():
    """By Newton's method on dummies of the items."""
    table = DRAWN.comparisons
    net = adj.rank(table, covariates="length", judges=False, prior=0)
    codes = [net.items.codes(table[side]) for side in ("left", "right")]
    gap = (table["length_left"] - table["length_right"]).to_numpy()
    design = np.zeros((len(table), 8))
    design[np.arange(len(table)), codes[0]] += 1
    design[np.arange(len(table)), codes[1]] -= 1
    design[:, 6], design[:, 7] = 1, gap / gap.std()
    won, x, weak = (table["winner"] == "left").to_numpy(), np.zeros(8), np.diag([0] * 6 + [0.25] * 2)
    for _ in range(20):
        chance = 1 / (1 + np.exp(-design @ x))
        hessian = design.T @ (design * (chance * (1 - chance))[:, None]) + weak
        x += np.linalg.pinv(hessian) @ (design.T @ (won - chance) - weak @ x)
    assert net.effects["effect"][0] == pytest.approx(x[7], abs=1e-7)
    np.testing.assert_allclose(net.strength, x[:6] - x[:6].mean(), atol=1e-7)
    error = np.sqrt(np.linalg.pinv(hessian)[7, 7])
    assert (net.effects["high"] - net.effects["low"])[0] == pytest.approx(2 * 1.6448536 * error, rel=1e-6)


def test_a_column_of_differences_is_the_same():
    table = DRAWN.comparisons.with_columns(gap=pl.col("length_left") - pl.col("length_right"))
    one, other = adj.rank(table, covariates=["gap"]), adj.rank(table, covariates=["length"])
    np.testing.assert_allclose(one.strength, other.strength, atol=1e-12)
    assert one.effects["covariate"].to_list() == ["gap"]


def test_numbers_are_standardised_and_texts_are_categories():
    found = style(covariates=("length", "markup"))
    gap = np.array([-10, 0, 20, 40])
    np.testing.assert_allclose(found.style[:, 0], gap / gap.std())
    assert [(one.covariate, one.value, one.against) for one in found.effects] == [
        ("length", None, None),
        ("markup", "plain", "md"),
        ("markup", "html", "md"),
    ]
    assert found.style[:, 1:].tolist() == [[-1, 0], [0, 0], [1, -1], [0, 0]]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, lambda t: pl.DataFrame(t).to_arrow(), lambda t: pl.DataFrame(t).lazy()]
)
def test_every_kind_of_table(make, tmp_path):
    np.testing.assert_allclose(style(make(TABLE)).style, style().style)
    pl.DataFrame(TABLE).write_csv(tmp_path / "t.csv")
    np.testing.assert_allclose(style(tmp_path / "t.csv", ("length", "markup")).style, style(TABLE, ("length", "markup")).style)


def test_winners_and_losers_have_covariates_too():
    table = {"winner": ["x", "y", "x"], "loser": ["y", "x", "y"], "winner_length": [5, 9, 7], "loser_length": [4, 5, 1]}
    gap = np.array([1, 4, 6])
    np.testing.assert_allclose(style(table).style[:, 0], gap / gap.std())


def test_comparisons_without_a_winner_need_no_covariate():
    with pytest.warns(adj.MissingLabels):
        found = style(TABLE | {"winner": ["model_a", None, "tie", "model_a"], "length_a": [10, None, 30, 45]})
    assert len(found.style) == 3


@pytest.mark.parametrize(
    ("table", "covariates", "message"),
    [
        (
            {},
            ["size"],
            "covariate 'size' needs a column of that name with the difference .* there are none; the columns are: model_a",
        ),
        ({"left_length": [1, 2, 3, 4]}, ["length"], "there are several: 'length_a', 'left_length', 'length_b'"),
        ({}, ["model"], "there are none"),
        ({"length_a": [10, None, 30, 45]}, ["length"], r"covariate length \(left\) in row 2 is missing: give a number"),
        ({"length_a": pl.Series([10.0, float("inf"), 30.0, 45.0])}, ["length"], r"covariate length \(left\) in row 2 is inf"),
        ({"length_a": [20, 20, 10, 5]}, ["length"], "has the same difference in every comparison"),
        ({"markup_a": ["md", None, "x", "md"]}, ["markup"], r"covariate markup \(left\) in row 2 is missing: give a value"),
        ({"markup_a": ["plain", "md", "html", "md"]}, ["markup"], "is the same on both sides of every comparison"),
        (
            {"topic": ["a", "b", "a", "b"]},
            ["topic"],
            "holds texts, and one per comparison: what both sides share favours neither",
        ),
        ({"size": [1, 1, 0, -1]}, ["size", "size"], "has 'size' twice"),
        ({}, [""], "covariates holds ''"),
    ],
)
def test_bad_covariates_are_one_line(table, covariates, message):
    with pytest.raises((InputError, OptionError), match=message) as caught:
        adj.rank(TABLE | table, covariates=covariates)
    assert "\n" not in str(caught.value)


def test_too_many_categories_are_refused():
    table = {
        "left": ["a", "b"] * 30,
        "right": ["b", "a"] * 30,
        "winner": ["a", "a"] * 30,
        "kind_a": [f"k{n}" for n in range(60)],
        "kind_b": ["k0"] * 60,
    }
    with pytest.raises(InputError, match="covariate 'kind' has 60 different values, 20 at most"):
        adj.rank(table, covariates=["kind"])


def test_an_effect_that_items_explain_is_refused():
    words = {"x": 10.0, "y": 20.0, "z": 5.0}
    table = TABLE | {side: [words[m] for m in TABLE[f"model_{side[-1]}"]] for side in ("length_a", "length_b")}
    with pytest.raises(InputError, match="the effect of covariate 'length' cannot be separated from the items"):
        adj.rank(table, covariates=["length"])
    gap = DRAWN.comparisons.with_columns(gap=pl.col("length_left") - pl.col("length_right"))
    with pytest.raises(InputError, match="cannot be separated from the items, the sides or another covariate"):
        adj.rank(gap, covariates=["gap", "length"])
    with pytest.raises(InputError, match="covariates need a table with named columns"):
        adj.rank([("a", "b", "a")], covariates=["gap"])


def test_the_sparse_information_is_the_dense_one(monkeypatch):
    found = read_comparisons(DRAWN.comparisons.with_columns(more=pl.int_range(pl.len()) % 7), covariates=["length", "more"])
    for judges in (False, True):
        for position in (False, True):
            games = found.tournament(judges=judges, style=True)
            whole = fit(problem_of(games, position=position, judges=judges, prior=1.0))
            with monkeypatch.context() as patch:
                patch.setattr(of_information, "MAX_EXACT", 5)
                sparse = fit(problem_of(games, position=position, judges=judges, prior=1.0))
                assert sparse.problem.pattern is not None
            np.testing.assert_allclose(sparse.information.dense(), whole.information.dense(), atol=1e-5)
            np.testing.assert_allclose(sparse.parameters, whole.parameters, atol=1e-7)


def test_the_derivatives_are_those_of_the_objective_with_covariates():
    games = read_comparisons(DRAWN.comparisons[:300], covariates=["length"]).tournament(style=True)
    problem = problem_of(games, position=True, judges=True, prior=0.7)
    x = np.random.default_rng(0).normal(0, 0.3, problem.size)
    unit = np.eye(len(x)) * 1e-6
    slope = [(problem.evaluate(x + one).objective - problem.evaluate(x - one).objective) / 2e-6 for one in unit]
    np.testing.assert_allclose(problem.gradient(problem.evaluate(x)), slope, atol=1e-5)


def test_clusters_and_groups_go_with_covariates():
    table = DRAWN.comparisons.with_columns(prompt=pl.int_range(pl.len()) // 10)
    robust = adj.rank(table, covariates=["length"])
    assert robust.facts["clusters"] == 300
    assert robust.effects["low"][0] < 0.8 < robust.effects["high"][0]
    groups = {"worker": ["w0", "w1"], "group": ["g", "g"]}
    assert adj.rank(table, covariates=["length"], groups=groups).effects["effect"][0] == pytest.approx(0.8, abs=0.2)


def test_the_card_shows_effects():
    assert "effects of covariates" in adj.rank(DRAWN.comparisons, covariates="length")._repr_html_()
    assert "effects of covariates" not in adj.rank(DRAWN.comparisons)._repr_html_()
