"""IWMV against the naive implementation, and its guard against cycles."""

import warnings

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
import oracle
from conftest import SETS
from fitting import aggregate
from strategies import crowds


def fit(votes, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model="iwmv", confidence="posterior", **options)


@given(crowds(max_tasks=10, max_votes=60), st.integers(0, 5))
def test_generated(votes, seed):
    expected, result = oracle.iwmv(votes, seed), fit(votes, seed=seed)
    if result.converged:
        assert dict(result.labels.select("task", "label").iter_rows()) == expected["labels"]
        assert dict(result.workers.select("worker", "weight").iter_rows()) == pytest.approx(expected["weights"], abs=1e-12)
        assert result.iterations == expected["iterations"]
    for row in result.probabilities.to_dicts():
        line = expected["scores"][row.pop("task")] if result.converged else None
        assert sum(row.values()) == pytest.approx(1.0)
        if line and max(line.values()) > 1e-12:
            total = sum(max(s, 0.0) for s in line.values())
            assert row == pytest.approx({c: max(s, 0.0) / total for c, s in line.items()}, abs=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_real(data_dir, name):
    path = data_dir / name / "votes.csv"
    expected, result = oracle.iwmv(pl.read_csv(path, infer_schema=False).rows()), fit(path)
    assert result.converged
    assert {str(t): str(c) for t, c in result.labels.select("task", "label").iter_rows()} == expected["labels"]
    assert result.iterations == expected["iterations"]


def test_no_likelihood_is_claimed():
    result = fit(adj.simulate(tasks=60, workers=8, seed=1).votes)
    assert result.log_likelihood != result.log_likelihood
    assert result.trace["objective"].is_nan().all()
    assert result.trace["labels_changed"][-1] == 0


def test_agreement_never_falls():
    """Why IWMV ends: the sum of votes x weight^2 over workers never falls, so labels cannot come back but by ties."""
    votes = adj.simulate(tasks=300, workers=20, labels=3, votes_per_task=3, skill=0.45, seed=2).votes
    sums = []
    for n in range(1, 6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", adj.NotConverged)
            workers = adj.aggregate(votes, model=adj.IWMV(max_iter=n)).workers
        sums.append((workers["votes"] * workers["weight"] ** 2).sum())
    assert sums == sorted(set(sums)), "it rises in each of the first iterations, which all change labels"


def test_a_cycle_ends_the_fit(monkeypatch):
    """Labels that come back, as the counts of a session say, end the fit: at the second pass at the earliest."""
    from adjudge.engines.session import WorkerState

    votes = adj.simulate(tasks=300, workers=20, labels=3, votes_per_task=3, skill=0.45, seed=2).votes
    assert adj.aggregate(votes, model="iwmv").iterations > 3
    for counted, iterations in ((b"aa", 2), (b"aba", 3)):
        passes = iter(counted)
        monkeypatch.setattr(WorkerState, "fingerprint", lambda self, passes=passes: bytes([next(passes)]))
        with pytest.warns(adj.NotConverged, match="labels repeat in a cycle"):
            result = adj.aggregate(votes, model="iwmv")
        assert (result.iterations, result.converged) == (iterations, False)
