"""Accelerated soft EM: the same fixed points in fewer passes, an objective that never falls, and nothing else changed."""

import pickle
import tracemalloc
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.engines.base import Engine
from adjudge.models import acceleration
from adjudge.models.base import MODELS
from fitting import aggregate
from strategies import crowds

SOFT = ("ds", "hybrid", "one-coin")
# Passes of plain Dawid-Skene until its likelihood is within 1e-6 of its limit, and that likelihood.
PLAIN = {
    "trec2010": (4417, -72501.2657612),
    "adult2": (253, -36452.1503147),
    "labelme": (66, -2710.3174363),
    "sp": (20, -13729.6368923),
}


def fit(votes, model="ds", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model=model, confidence="posterior", **options)


def accepted(result):
    return [row for row in result.fit.trace if row.phase != "rejected"]


def assert_never_falls(result):
    rows = [row for row in accepted(result) if row.phase != "hard"]
    for before, after in zip(rows, rows[1:], strict=False):
        assert after.objective >= before.objective - 1e-9 * max(1.0, abs(before.objective))


@pytest.mark.parametrize("model", SOFT)
@settings(max_examples=25)
@given(votes=crowds(max_tasks=12, max_workers=6, max_votes=60), smoothing=st.sampled_from([0.0, 0.01, 1.0]))
def test_objective_never_falls(model, votes, smoothing):
    result = fit(votes, model, smoothing=smoothing, tol=0.0, max_iter=30, accelerate=True)
    assert_never_falls(result)
    assert result.iterations == 30 or model == "hybrid"
    assert result.fit.trace[-1].phase in ("soft", "hard"), "the last pass is a plain one"
    assert result.log_likelihood == pytest.approx(result.fit.trace[-1].log_likelihood, rel=1e-9, abs=1e-9)


def test_rejected_passes_leave_no_trace_in_the_fit():
    """A step that goes astray in every pass costs passes, and changes nothing."""
    crowd = adj.simulate(tasks=300, workers=20, labels=3, votes_per_task=4, spammers=0.3, seed=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceleration, "STEP_LENGTH", 1e3)
        patch.setattr(acceleration, "MIN_KEPT_SHARE", 1e-9)
        astray = fit(crowd.votes, accelerate=True, tol=1e-6, max_iter=300)
    phases = [row.phase for row in astray.fit.trace]
    assert phases.count("rejected") > 5
    assert all(after == "soft" for before, after in zip(phases, phases[1:], strict=False) if before == "rejected")
    assert_never_falls(astray)
    # What was accepted are the steps of EM, as far as no extrapolation was lucky.
    plain = fit(crowd.votes, tol=1e-9, max_iter=300)
    assert astray.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-3)


@pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])
@pytest.mark.parametrize("model", ["ds", "one-coin"])
def test_same_fixed_point(model, engine):
    crowd = adj.simulate(tasks=400, workers=20, labels=3, votes_per_task=6, spammers=0.2, seed=3)
    plain = fit(crowd.votes, model, tol=1e-10, max_iter=1000)
    fast = fit(crowd.votes, model, tol=1e-10, max_iter=1000, accelerate=True, engine=engine)
    assert fast.converged
    assert fast.iterations < plain.iterations
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
    one, two = (result.posterior.sort("task").drop("task").to_numpy() for result in (fast, plain))
    assert np.abs(one - two).max() < 1e-4
    assert fast.labels.sort("task")["label"].to_list() == plain.labels.sort("task")["label"].to_list()


def test_a_fixed_point_is_left_alone():
    crowd = adj.simulate(tasks=300, workers=15, labels=3, votes_per_task=6, seed=3)
    plain = fit(crowd.votes, tol=1e-12, max_iter=5000)
    again = fit(crowd.votes, tol=1e-6, accelerate=True, warm_start=plain)
    assert again.converged
    assert again.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-10)


@pytest.mark.parametrize("name", PLAIN)
def test_passes_on_real_votes(name, data_dir):
    passes, final = PLAIN[name]
    most = 11 if name == "sp" else passes // 3  # a third of 20 passes is out of reach: see the decision
    if name == "trec2010":
        most = 150
    result = fit(adj.read(data_dir / name / "votes.csv"), tol=0.0, max_iter=most + 1, accelerate=True)
    reached = max(row.objective for row in accepted(result)[:most])
    assert reached >= final - 1e-6 * abs(final)
    assert_never_falls(result)


@pytest.mark.parametrize("model", SOFT)
def test_off_is_the_default_and_takes_no_other_path(model, monkeypatch):
    monkeypatch.setattr(acceleration, "run", None)
    crowd = adj.simulate(tasks=100, workers=10, labels=3, votes_per_task=5, seed=1)
    plain, off = fit(crowd.votes, model), fit(crowd.votes, model, accelerate=False)
    assert [row.objective for row in plain.fit.trace] == [row.objective for row in off.fit.trace]
    assert {row.phase for row in plain.fit.trace} <= {"soft", "hard"}


@pytest.mark.parametrize("model", SOFT)
@pytest.mark.parametrize("stop", ["priors", "labels"])
def test_beside_all_that_callers_know(model, stop, tmp_path):
    crowd = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=4, seed=5)
    truth = dict(zip(crowd.truth["task"], crowd.truth["label"], strict=True))
    gold = dict(list(truth.items())[:20])
    before = fit(crowd.votes, model)
    known = {"gold": gold, "history": before, "priors": "uniform", "priors_weight": 10.0, "smoothing": 0.1, "strength": 2.0}
    for some in ({}, {"gold": gold}, {"warm_start": before}, {"priors": "uniform"}, known):
        result = fit(crowd.votes, model, accelerate=True, stop=stop, max_iter=200, **some)
        assert_never_falls(result)
        assert result.converged
        assert result.fit.trace[-1].phase in ("soft", "hard")
        labels = dict(zip(result.labels["task"], result.labels["label"], strict=True))
        assert "gold" not in some or all(labels[task] == label for task, label in gold.items())
    weighted = crowd.votes.with_columns(sure=1 + pl.int_range(pl.len()) % 3)
    assert_never_falls(fit(weighted, model, accelerate=True, weight="sure"))
    result.save(tmp_path / "model.adjudge")
    assert adj.load(tmp_path / "model.adjudge").predict(crowd.votes).labels.height == 150


def test_symmetric_votes_stay_tied():
    votes = [("t1", "ann", "a"), ("t1", "bob", "b"), ("t2", "ann", "b"), ("t2", "bob", "a")] * 2
    assert fit(votes, accelerate=True, tol=0.0, max_iter=60).labels["tie"].to_list() == [True, True]


def test_hybrid_turns_hard_after_a_plain_step():
    crowd = adj.simulate(tasks=400, workers=20, labels=4, votes_per_task=4, spammers=0.4, seed=6)
    phases = [row.phase for row in fit(crowd.votes, "hybrid", accelerate=True, switch=1e-3, tol=1e-6, max_iter=300).fit.trace]
    assert "extrapolated" in phases
    assert phases[-1] == "hard"
    assert phases[phases.index("hard") - 1] == "soft"
    assert set(phases[phases.index("hard") :]) == {"hard"}


def test_engines_without_counts_here_refuse():
    class Elsewhere(Engine):
        name = "elsewhere"

    for model in SOFT:
        MODELS[model]().require_engine(Elsewhere())
        with pytest.raises(adj.OptionError, match="'elsewhere' cannot accelerate"):
            MODELS[model](accelerate=True).require_engine(Elsewhere())


def test_refused_where_it_means_nothing():
    votes = [("t1", "ann", "cat"), ("t1", "bob", "dog")]
    with pytest.raises(adj.OptionError, match="fds has no accelerate: all of its passes are hard"):
        adj.aggregate(votes, model=adj.FastDawidSkene(accelerate=True))
    with pytest.raises(adj.OptionError, match="all of its passes are hard"):
        adj.FastDawidSkene(accelerate=True)
    with pytest.raises(adj.OptionError, match="accelerate is 1: give True or False"):
        adj.DawidSkene(accelerate=1)


def test_memory_is_asked_for():
    plain, fast = adj.DawidSkene(), adj.DawidSkene(accelerate=True)
    assert fast.room.tables == plain.room.tables + acceleration.EXTRA_TABLES
    assert pickle.loads(pickle.dumps(fast)) == fast
    assert pickle.loads(pickle.dumps(fast)).room == fast.room
    assert adj.DawidSkene().room is plain.room


def test_memory_is_as_much_as_requested():
    votes = adj.read(adj.simulate(tasks=4000, workers=1500, labels=8, votes_per_task=8, seed=1).votes)
    table = 8 * votes.n_rows * votes.n_labels
    peaks = []
    for accelerate in (False, True):
        tracemalloc.start()
        fit(votes, tol=0.0, max_iter=8, accelerate=accelerate, engine="reference")
        peaks.append(tracemalloc.get_traced_memory()[1] / table)
        tracemalloc.stop()
    assert peaks[1] - peaks[0] <= acceleration.EXTRA_TABLES
