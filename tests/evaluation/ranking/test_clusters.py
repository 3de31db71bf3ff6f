"""Errors with clusters are those of a naive sandwich, and of a bootstrap over clusters, in both engines."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import adjudge as adj
import oracle_ranking as oracle
from adjudge.errors import InputError, OptionError
from adjudge.evaluation.intervals import normal_scores, quantiles
from adjudge.evaluation.ranking import errors as of_errors
from adjudge.evaluation.ranking import information as of_information
from adjudge.evaluation.ranking.comparisons import read_comparisons
from adjudge.evaluation.ranking.simulate import simulate_comparisons, simulate_jury

TABLE = {"left": ["a", "b", "a", "b"], "right": ["b", "a", "b", "a"], "winner": ["a", "b", "b", "a"]}
JURY = {"items": 4, "prompts": 60, "judges": 3, "strength_spread": 0.5, "prompt_spread": 1.0}


@pytest.mark.parametrize("prompts", [15, 40])
def test_the_covariance_is_that_of_a_naive_sandwich(prompts):
    table = simulate_jury(**JURY | {"prompts": prompts}, seed=1).comparisons
    if prompts == 15:  # i0 has one prompt alone, which compares several items
        is_first = (pl.col("left") == "i0") | (pl.col("right") == "i0")
        table = table.with_columns(prompt=pl.when(is_first).then(pl.lit("p")).otherwise("prompt"))
    ranking = adj.rank(table, judges=False, position=False, prior=0)
    code = {f"i{n}": n for n in range(4)}
    games = [
        (code[row["left"]], code[row["right"]], float(row["winner"] == "left"), row["prompt"])
        for row in table.iter_rows(named=True)
    ]
    np.testing.assert_allclose(ranking.errors.covariance, oracle.sandwich(games, ranking.strength), atol=1e-10)


def test_errors_are_those_of_a_bootstrap_over_prompts():
    table = simulate_jury(**JURY, seed=3).comparisons
    ranking = adj.rank(table)
    rng = np.random.default_rng(0)
    parts = table.partition_by("prompt")
    again = []
    for _ in range(150):
        drawn = [parts[n].with_columns(prompt=pl.lit(f"{n}.{copy}")) for copy, n in enumerate(rng.integers(0, 60, 60))]
        again.append(adj.rank(pl.concat(drawn), cluster="").strength)
    ratio = ranking.standard_error / np.std(again, axis=0)
    assert (np.abs(ratio - 1) < 0.25).all()
    independent = adj.rank(table, cluster="").standard_error
    assert (independent / np.std(again, axis=0)).mean() < 0.8


def test_clusters_leave_strengths_alone():
    table = simulate_jury(**JURY, seed=2).comparisons
    np.testing.assert_array_equal(adj.rank(table).strength, adj.rank(table, cluster="").strength)


def test_independent_comparisons_have_the_same_errors_with_and_without_clusters():
    drawn = simulate_comparisons(items=5, comparisons=6000, judges=4, seed=1).comparisons
    many = drawn.with_columns(prompt=pl.int_range(pl.len()) % 1500)
    ratio = adj.rank(many).standard_error / adj.rank(drawn).standard_error
    np.testing.assert_allclose(ratio, 1, atol=0.08)


def test_a_cluster_per_comparison_is_no_cluster():
    drawn = simulate_comparisons(items=5, comparisons=400, judges=4, seed=1).comparisons
    ranking = adj.rank(drawn.with_columns(prompt=pl.int_range(pl.len())))
    assert ranking.facts["clusters"] is None
    np.testing.assert_array_equal(ranking.standard_error, adj.rank(drawn).standard_error)


def test_draws_give_cluster_robust_errors_too(monkeypatch):
    table = simulate_jury(items=12, prompts=400, judges=4, strength_spread=0.5, prompt_spread=1.0, seed=4).comparisons
    exact = adj.rank(table)
    independent = adj.rank(table, cluster="").standard_error
    monkeypatch.setattr(of_information, "MAX_EXACT", 5)
    drawn = adj.rank(table, draws=600)
    assert drawn.facts["intervals"] == "600 draws"
    np.testing.assert_allclose(drawn.standard_error, exact.standard_error, rtol=0.12)
    assert (drawn.standard_error > 1.1 * independent).all()
    one, other = np.arange(6), np.arange(6, 12)
    np.testing.assert_allclose(drawn.errors.of_differences(one, other), exact.errors.of_differences(one, other), rtol=0.25)
    np.testing.assert_allclose(np.diag(drawn.errors.block(one, other)), drawn.errors.of_differences(one, other), rtol=1e-9)
    assert drawn.leaderboard["rank_low"].to_list() == pytest.approx(exact.leaderboard["rank_low"].to_list(), abs=2)


def test_sparse_and_dense_sums_of_scores_are_one(monkeypatch):
    rng = np.random.default_rng(0)
    key = np.unique(rng.integers(0, 200 * 30, 900))
    cluster, parameter, value = key // 30, key % 30, rng.normal(size=len(key))
    whole = np.zeros((200, 30))
    whole[cluster, parameter] = value
    for gain in (0, 10**9):
        monkeypatch.setattr(of_errors, "DENSE_GAIN", gain)
        for cells in (1, 500, 1 << 22):
            monkeypatch.setattr(of_errors, "MAX_SCORES_IN_MEMORY", cells)
            np.testing.assert_allclose(of_errors._sum_outer_products(cluster, parameter, value, 30), whole.T @ whole, atol=1e-12)


def test_an_item_of_one_cluster_alone_keeps_the_errors_of_the_model():
    table = simulate_jury(**JURY, seed=5).comparisons
    new = pl.DataFrame(
        {"prompt": "new", "left": "z", "right": "i0", "winner": ["left", "right"] * 6, "worker": [f"w{n % 3}" for n in range(12)]}
    )
    both = pl.concat([table, new])
    robust, model = adj.rank(both, judges=False, position=False), adj.rank(both, judges=False, position=False, cluster="")
    at = robust.items.codes(["z"])[0]
    assert robust.standard_error[at] > 0.95 * model.standard_error[at]


@pytest.mark.parametrize("freedom", [2, 3, 5, 10, 40, 200])
def test_quantiles_are_those_of_t(freedom):
    for level in (0.5, 0.8, 0.9, 0.95, 0.99):
        expected = stats.t.ppf((1 + level) / 2, freedom)
        assert float(quantiles(level, float(freedom))) == pytest.approx(expected, rel=0.07 if freedom < 5 else 0.008)
    t = np.linspace(-3, 3, 13)
    expected = stats.norm.ppf(stats.t.cdf(t, freedom))
    np.testing.assert_allclose(normal_scores(t, np.full(13, float(freedom))), expected, atol=0.03)


@pytest.mark.parametrize("name", ["prompt", "Prompt ID", "document", "conversation_id"])
def test_columns_that_cluster_are_found_and_reported(name):
    found = read_comparisons(TABLE | {name: [1, 1, 2, 2]})
    assert sorted(found.cluster[[0, 2]].tolist()) == [0, 1]
    assert found.cluster[[1, 3]].tolist() == found.cluster[[0, 2]].tolist()
    assert found.understood.columns["cluster"] == name
    assert f"cluster={name}" in str(found.understood)
    assert read_comparisons(TABLE | {name: [1, 1, 2, 2]}, cluster="").cluster is None


def test_any_column_can_be_the_cluster():
    table = TABLE | {"prompt": [1, 2, 3, 4], "topic": ["x", "y", "x", "y"]}
    assert read_comparisons(table, cluster="topic").clusters == 2
    with pytest.raises(InputError, match="there is no column 'nope' for the cluster"):
        read_comparisons(table, cluster="nope")
    with pytest.raises(InputError, match="the cluster could be any of prompt, document; say which with cluster=…"):
        read_comparisons(TABLE | {"prompt": [1, 2, 3, 4], "document": [1, 1, 2, 2]})
    assert read_comparisons(TABLE).cluster is None


@pytest.mark.parametrize(
    "values",
    [
        ["long text", "long text", "", None],
        pl.Series([["hi", "you"], ["hi", "you"], None, None]),
        pl.Series([[{"role": "user"}], [{"role": "user"}], None, None]),
        pl.Series([1.5, 1.5, None, None]),
    ],
)
def test_a_comparison_without_a_cluster_is_alone(values):
    codes = read_comparisons(pl.DataFrame(TABLE | {"prompt": values})).cluster
    assert codes[0] == codes[1]
    assert len(set(codes.tolist())) == 3


def test_objects_of_pandas_can_be_clusters():
    frame = pd.DataFrame(TABLE | {"prompt": pd.Series([("a", 1), ("a", 1), None, ("b",)], dtype=object)})
    assert read_comparisons(frame).clusters == 3


def test_abstentions_leave_their_clusters():
    with pytest.warns(adj.MissingLabels):
        found = read_comparisons(TABLE | {"winner": ["a", None, "b", "a"], "prompt": ["x", "x", "y", "z"]})
    assert sorted(found.cluster.tolist()) == [0, 1, 2]


def test_too_few_clusters_are_told():
    many = {name: values * 20 for name, values in TABLE.items()}
    ranking = adj.rank(many | {"prompt": ["x", "y"] * 40})
    assert ranking.facts["clusters"] is None
    assert "comparisons are taken for independent: 'prompt' has 2 values, and 5 are needed" in ranking.facts["clusters_why"]
    assert ranking.facts["clusters_why"] in ranking.sentences()
    with pytest.raises(OptionError, match=r"cluster='topic' \(--cluster\) has 2 values, too few"):
        adj.rank(many | {"topic": ["x", "y"] * 40}, cluster="topic")
    counted = adj.rank(many | {"prompt": [n // 8 for n in range(80)]})
    assert counted.facts["clusters"] == 10
    assert any("comparisons with one prompt depend on each other (10 clusters)" in line for line in counted.sentences())


def test_text_without_header_has_no_cluster_unless_named(tmp_path):
    (tmp_path / "g.txt").write_text("a;b;a;ann;p\nb;a;b;bob;q\n")
    found = read_comparisons(tmp_path / "g.txt", header=False, left="1", right="2", winner="3", worker="4", cluster="5")
    assert found.clusters == 2


def test_comparisons_repeat_each_other_within_a_cluster_alone():
    """Two systems on 100 prompts, each pair seen once per order: a judge who is consistent on every prompt is so at once."""
    better = {prompt: "A" if prompt % 3 else "B" for prompt in range(100)}
    games = [(*sides, better[prompt], "ann", prompt) for prompt in range(100) for sides in (("A", "B"), ("B", "A"))]
    frame = pl.DataFrame(games, ["left", "right", "winner", "worker", "prompt_id"], orient="row")
    judge = adj.rank(frame).judges.row(0, named=True)
    assert (judge["repeats"], judge["consistency"]) == (0, None)
    assert (judge["swapped_repeats"], judge["swapped_consistency"]) == (100, 1.0)
    twice = adj.rank(pl.concat([frame, frame])).judges.row(0, named=True)
    assert (twice["repeats"], twice["consistency"], twice["swapped_repeats"]) == (200, 1.0, 400)
    assert adj.rank(frame, cluster="").judges.row(0, named=True)["repeats"] == 2 * 100 * 99 // 2


def test_two_items_have_a_share_an_interval_and_a_p_value():
    jury = simulate_jury(items=2, prompts=300, judges=3, strength_spread=1.0, seed=2).comparisons
    ranking = adj.rank(jury, judges=False)
    row = ranking.neighbours.row(0, named=True)
    upper, lower, p = row["upper"], row["lower"], 2 * (1 - row["probability"])
    share, low, high = (1 / (1 + np.exp(-row[name])) for name in ("difference", "low", "high"))
    told = (
        f"judges prefer {upper} to {lower} in {share:.1%} of comparisons ({low:.1%} to {high:.1%}), whichever is on the left; p "
    )
    assert told + ("< 0.0001" if p < 1e-4 else f"= {p:.2g}") == ranking.sentences()[-2]
    assert share == pytest.approx(ranking.probability(upper, lower))
    assert ranking.sentences()[-1] == f"{upper} is better than {lower} at the 90% level"
    assert not any("judges prefer" in line for line in adj.rank([("x", "y", "x"), ("y", "z", "tie")]).sentences())
