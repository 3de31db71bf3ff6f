"""LFC against the naive version in oracle_bayes.py, and what its pseudo-votes do."""

import itertools

import polars as pl
import pytest

import adjudge as adj
import oracle_bayes as oracle
from adjudge.models.base import make


def agree(source, rows, engine="auto", **options):
    expected, objective = oracle.lfc(rows, iterations=7, **options)
    with pytest.warns(adj.NotConverged):
        result = adj.LFC(tol=0, max_iter=7, **options).fit(source, engine=engine, confidence="posterior")
    for row in result.posterior.to_dicts():
        assert {c: p for c, p in row.items() if c != "task"} == pytest.approx(expected[str(row["task"])], abs=1e-7)
    found = [row.objective for row in result.fit.trace]
    assert [b - a for a, b in itertools.pairwise(found)] == pytest.approx(
        [b - a for a, b in itertools.pairwise(objective)], abs=1e-6
    )


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_it_is_the_naive_version(engine):
    votes = adj.simulate(tasks=60, workers=10, labels=3, votes_per_task=4, adversaries=0.2, seed=3).votes
    agree(votes, votes.rows(), engine)
    agree(votes, votes.rows(), engine, diagonal=2.5, other=0.25)


def test_it_is_the_naive_version_on_real_votes(data_dir):
    path = data_dir / "snow_temp" / "votes.csv"
    agree(path, pl.read_csv(path, infer_schema=False).rows())


def test_no_pseudo_votes_are_dawid_skene_and_alike_ones_are_smoothing():
    votes = adj.simulate(tasks=80, workers=8, labels=3, votes_per_task=3, seed=4).votes
    for options, smoothing in (({"diagonal": 0, "other": 0}, 0.0), ({"diagonal": 0.5, "other": 0.5}, 0.5)):
        one, two = adj.LFC(**options).fit(votes), adj.DawidSkene(smoothing=smoothing).fit(votes)
        assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-9)
        assert one.iterations == two.iterations


def test_what_follows_a_fit(tmp_path):
    crowd = adj.simulate(tasks=120, workers=10, labels=3, votes_per_task=4, seed=5)
    result = adj.aggregate(crowd.votes, model="Learning from crowds", confidence="posterior")
    assert result.model == "lfc"
    assert result.predict(crowd.votes).labels["label"].equals(result.labels["label"])
    result.save(tmp_path / "m")
    assert adj.load(tmp_path / "m").predict(crowd.votes).labels["label"].equals(result.labels["label"])
    assert result.confusion_matrix("w1").sum(axis=1) == pytest.approx([1, 1, 1])
    known = adj.LFC().fit(crowd.votes, gold=crowd.truth, history=result)
    assert known.labels["gold"].all()
    with pytest.raises(adj.OptionError, match="diagonal is -1: give a number of at least 0"):
        adj.LFC(diagonal=-1)
    with pytest.raises(adj.OptionError, match="lfc has no smoothing: its pseudo-votes are called diagonal and other"):
        make("lfc", {"smoothing": 1.0})
