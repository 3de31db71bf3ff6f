"""IBCC against the naive version in oracle_bayes.py; its bound, gold, priors and weights."""

import itertools

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_bayes as oracle

CROWD = adj.simulate(tasks=60, workers=10, labels=3, votes_per_task=4, adversaries=0.2, seed=3)


def started(rows):
    return {t: {(c, 0): p for c, p in line.items()} for t, line in oracle.vote_shares(rows).items()}


def agree(source, rows, engine="auto", class_weight=1.0, **options):
    classes = {c: class_weight for _, _, c in rows}
    expected, bounds = oracle.mean_field(rows, started(rows), classes, 1, 1.0, iterations=6, **options)
    model = adj.IBCC(tol=0, max_iter=6, class_weight=class_weight, **options)
    with pytest.warns(adj.NotConverged):
        result = model.fit(source, engine=engine, confidence="posterior")
    for row in result.posterior.to_dicts():
        line = {(c, 0): p for c, p in row.items() if c != "task"}
        assert line == pytest.approx(expected[str(row["task"])], abs=1e-7)
    assert [row.objective for row in result.fit.trace] == pytest.approx(bounds, rel=1e-9)
    assert result.log_likelihood == pytest.approx(bounds[-1], rel=1e-9)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_it_is_the_naive_version(engine):
    agree(CROWD.votes, CROWD.votes.rows(), engine)
    agree(CROWD.votes, CROWD.votes.rows(), engine, diagonal=2.5, other=0.25, class_weight=3.0)


def test_it_is_the_naive_version_on_real_votes(data_dir):
    path = data_dir / "snow_temp" / "votes.csv"
    agree(path, pl.read_csv(path, infer_schema=False).rows())


def test_the_bound_never_falls_whatever_is_known():
    priors = {"l0": 0.2, "l1": 0.3, "l2": 0.5}
    gold = dict(CROWD.truth.head(10).iter_rows())
    for known in (
        {},
        {"gold": gold},
        {"priors": priors},
        {"priors": priors, "priors_weight": 40.0},
        {"priors": {"l0": 0, "l1": 0, "l2": 1}, "priors_weight": 0},
    ):
        result = adj.IBCC(tol=1e-6).fit(CROWD.votes, confidence="posterior", **known)
        bounds = [row.objective for row in result.fit.trace]
        assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds))
        assert result.converged
        if "gold" in known:
            given = result.labels.filter("gold")
            assert dict(given.select("task", "label").iter_rows()) == gold


def test_a_weight_of_two_is_two_votes():
    twice = pl.concat([CROWD.votes, CROWD.votes])
    weighted = CROWD.votes.with_columns(weight=pl.lit(2.0))
    one, two = adj.aggregate(twice, model="ibcc"), adj.aggregate(weighted, model="ibcc", weight="weight")
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-9)


def test_few_votes_weigh_less_than_many_of_the_same_record():
    """Of two workers who were always right, the one with more votes wins where they differ."""
    votes = [(f"t{t}", w, "xy"[t % 2]) for t in range(40) for w in ("busy", "a", "b", "c")]
    votes += [(f"t{t}", "rare", "xy"[t % 2]) for t in (0, 1)] + [("last", "busy", "x"), ("last", "rare", "y")]
    row = adj.IBCC().fit(votes, confidence="posterior").labels.filter(pl.col("task") == "last")
    assert row["label"].to_list() == ["x"]
    assert not row["tie"].item()


def test_what_follows_a_fit(tmp_path):
    result = adj.aggregate(CROWD.votes, model="ibcc", confidence="posterior")
    same = result.predict(CROWD.votes).labels["label"] == result.labels["label"]
    assert same.mean() > 0.95  # predictions are by the means of the distributions
    result.save(tmp_path / "m")
    assert adj.load(tmp_path / "m").predict(CROWD.votes).labels.equals(result.predict(CROWD.votes).labels)
    assert result.confusion_matrix("w1").sum(axis=1) == pytest.approx(np.ones(3))
    assert result.priors["prior"].sum() == pytest.approx(1.0)
    warm = adj.aggregate(CROWD.votes, model="ibcc", warm_start=result)
    assert warm.converged
    with pytest.raises(adj.OptionError, match="other is 0: give a number of at least 1e-06"):
        adj.IBCC(other=0)
