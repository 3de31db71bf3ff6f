"""ZenCrowd against its naive version, and compared with one-coin."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
import oracle_weighted as naive
from strategies import crowds


def pairs(frame, *columns):
    return dict(frame.select(*columns).iter_rows())


def require_same(result, want):
    assert pairs(result.labels, "task", "label") == want["labels"]
    assert pairs(result.workers, "worker", "skill") == pytest.approx(want["skills"], abs=1e-9)
    assert result.iterations == want["iterations"]
    for row in result.posterior.to_dicts():
        assert want["posterior"][row.pop("task")] == pytest.approx(row, abs=1e-8)


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@settings(max_examples=15)
@given(crowds(max_tasks=8, max_votes=40), st.integers(0, 3))
def test_generated(votes, seed):
    require_same(adj.aggregate(votes, adj.ZenCrowd(max_iter=5, tol=0.0, seed=seed)), naive.zc(votes, seed, max_iter=5, tol=0.0))


def test_real(data_dir):
    votes = pl.read_csv(data_dir / "bm" / "votes.csv", infer_schema=False)
    require_same(adj.aggregate(votes, "zc"), naive.zc(votes.rows()))


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
def test_only_the_start_is_not_that_of_one_coin():
    votes = adj.simulate(tasks=200, workers=15, labels=3, votes_per_task=4, seed=2).votes
    end = {"tol": 0.0, "max_iter": 60}
    first, other = adj.ZenCrowd(**end).fit(votes), adj.OneCoin(**end).fit(votes)
    assert first.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9), "both climb to the same top"
    one, two = adj.ZenCrowd(max_iter=1).fit(votes), adj.OneCoin(max_iter=1).fit(votes)
    assert abs(one.log_likelihood - two.log_likelihood) > 1.0
    sure = adj.ZenCrowd(max_iter=1, reliability=0.95).fit(votes)
    assert sure.workers["skill"].mean() > one.workers["skill"].mean()


def test_what_callers_know_is_used():
    crowd = adj.simulate(tasks=200, workers=15, labels=2, votes_per_task=3, seed=2)
    before = adj.aggregate(crowd.votes, "zc")
    again = adj.aggregate(crowd.votes, "zc", warm_start=before)
    assert again.labels["label"].equals(before.labels["label"])
    leaning = adj.aggregate(crowd.votes, "zc", priors={"l0": 0.99, "l1": 0.01})
    assert (leaning.labels["label"] == "l0").sum() > (before.labels["label"] == "l0").sum()
    with pytest.raises(adj.OptionError, match="reliability is 1: give a number of at least 0.01 and at most 0.99"):
        adj.ZenCrowd(reliability=1)
