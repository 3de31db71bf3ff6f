"""adjudge against the naive implementation in oracle.py, vote by vote."""

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
import oracle
from adjudge.engines.local import LocalEngine
from fitting import aggregate
from strategies import crowds

MODELS = ("ds", "fds", "hybrid")


def fit(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model=model, confidence="posterior", **options)


def as_dict(frame, value):
    return dict(frame.select("task", value).iter_rows())


def narrow(scores_posterior):
    """Tasks where two labels are so close that soft sums in another order may swap them."""
    close = set()
    for task, line in scores_posterior.items():
        top = sorted(line.values(), reverse=True)
        if len(top) > 1 and 1e-12 < top[0] - top[1] < 1e-6:
            close.add(task)
    return close


@given(crowds(), st.integers(0, 5))
def test_majority(votes, seed):
    result = adj.aggregate(votes, model="mv", seed=seed, confidence="posterior")
    assert as_dict(result.labels, "label") == oracle.majority(votes, seed)
    shares = oracle.shares(votes)
    expected = {t: max(line.values()) for t, line in shares.items()}
    assert as_dict(result.labels, "confidence") == pytest.approx(expected)
    assert result.iterations == 0
    assert np.isnan(result.log_likelihood)


@pytest.mark.parametrize("model", MODELS)
@given(votes=crowds(), seed=st.integers(0, 5), smoothing=st.sampled_from([0.0, 0.5]), shard=st.sampled_from([1, 7, 1 << 18]))
def test_every_figure_of_a_fit(model, votes, seed, smoothing, shard):
    expected = oracle.fit(votes, model, seed=seed, smoothing=smoothing)
    result = fit(votes, model, seed=seed, smoothing=smoothing, engine=LocalEngine(shard_votes=shard))
    assert result.iterations == expected["iterations"]
    assert result.log_likelihood == pytest.approx(expected["log_likelihood"], rel=1e-9, abs=1e-9)
    assert [row.log_likelihood for row in result.fit.trace] == pytest.approx(expected["likelihoods"], rel=1e-9, abs=1e-9)
    for row, c2 in zip(result.fit.trace, expected["c2"], strict=True):
        assert (row.phase == "hard") == (c2 is not None)
        if c2 is not None:
            assert row.classification == pytest.approx(c2, rel=1e-9, abs=1e-9)
    unsure = narrow(expected["posterior"])
    for task, label in as_dict(result.labels, "label").items():
        assert task in unsure or label == expected["labels"][task]
    for row in result.probabilities.to_dicts():
        task = row.pop("task")
        assert row == pytest.approx(expected["posterior"][task], abs=1e-6)
    priors = dict(result.priors.select("label", "prior").iter_rows())
    assert priors == pytest.approx(expected["priors"], abs=1e-9)
    for worker in {v[1] for v in votes}:
        for line in result.confusion(worker).to_dicts():
            true = line.pop("true")
            assert line == pytest.approx({c: expected["confusion"][worker, true, c] for c in priors}, abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["bm", "rte", "labelme", "snow_temp", "anesthesia"])
def test_real_votes(data_dir, name, model):
    path = data_dir / name / "votes.csv"
    rows = pl.read_csv(path, infer_schema=False).rows()
    expected = oracle.fit(rows, model)
    result = fit(path, model)
    assert {str(t): str(c) for t, c in as_dict(result.labels, "label").items()} == expected["labels"]
    assert result.iterations == expected["iterations"]
    assert result.log_likelihood == pytest.approx(expected["log_likelihood"], rel=1e-9)
    assert {str(t): tie for t, tie in as_dict(result.labels, "tie").items()} == expected["tie"]
