"""GLAD against the naive implementation in oracle_glad.py, against finite differences, and on large and long votes."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_glad as oracle
import toy_engine
from adjudge.engines.base import GladModel
from adjudge.engines.local import LocalEngine
from adjudge.engines.registry import engine_named, resolve
from adjudge.kernels.cpu import compiled
from adjudge.models.base import make

ENGINES = [
    pytest.param(resolve("reference"), id="reference"),
    pytest.param(LocalEngine(shard_votes=50), id="small shards"),
    pytest.param(engine_named("cpu", 2), id="cpu", marks=pytest.mark.skipif(compiled() is None, reason="no compiled core")),
]


def random_point(k, seed, engine):
    """Votes with random parameters: as tuples and dictionaries, and as a session with its model."""
    votes = adj.simulate(tasks=60, workers=12, labels=k, votes_per_task=4, adversaries=0.2, seed=seed).votes
    known = adj.read(votes)
    rng = np.random.default_rng(seed)
    ability, log_ease = rng.normal(1, 2, known.n_workers), rng.normal(0, 1.5, known.n_tasks)
    passes = engine.load(known, seed=0, ties="hash").glad()
    log_prior = np.full(known.n_labels, -math.log(known.n_labels))
    model = GladModel(np.concatenate([ability, log_ease]), log_prior, math.log(known.n_labels - 1))
    named = dict(zip(known.workers.ids(), ability, strict=True)), dict(zip(known.tasks.ids(), log_ease, strict=True))
    return votes.rows(), known, passes, model, named


def sloped(passes, model):
    """The expected log-likelihood, and its slope as an array."""
    slope, curvature = passes.vector(), passes.vector()
    value = passes.gradient(model, slope, curvature, lambda *_, of_tasks: 0.0)
    assert (curvature[slice(0, len(curvature))] >= 0).all()
    return value, slope[slice(0, len(slope))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("k", "seed"), [(2, 1), (2, 2), (4, 3), (7, 4)])
def test_objective_and_gradient_are_those_of_naive_loops(engine, k, seed):
    votes, known, passes, model, (ability, log_ease) = random_point(k, seed, engine)
    priors = dict.fromkeys(known.labels.ids(), 1 / known.n_labels)
    lines = oracle.scores(votes, ability, log_ease, priors)
    T = {t: oracle.posterior(line) for t, line in lines.items()}
    assert passes.expect(model).log_likelihood == pytest.approx(sum(map(oracle.log_sum, lines.values())), rel=1e-8)
    expected = [[T[t][c] for c in known.labels.ids()] for t in known.tasks.ids()]
    assert passes.posterior(model) == pytest.approx(np.array(expected), abs=1e-8)
    value, slope = sloped(passes, model)
    by_worker, by_task = oracle.gradient(votes, T, ability, log_ease)
    assert value == pytest.approx(oracle.expected(votes, T, ability, log_ease, known.n_labels), rel=1e-8)
    expected = [*(by_worker[w] for w in known.workers.ids()), *(by_task[t] for t in known.tasks.ids())]
    assert slope == pytest.approx(np.array(expected), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("k", "seed"), [(2, 5), (5, 6)])
def test_gradient_is_that_of_finite_differences(engine, k, seed):
    _, known, passes, model, _ = random_point(k, seed, engine)
    passes.expect(model)
    _, slope = sloped(passes, model)
    x = model.x
    assert len(x) == len(slope) == known.n_workers + known.n_tasks

    def value(x):
        return sloped(passes, replace(model, x=x))[0]

    for i, expected in enumerate(slope):
        # Richardson's difference of fourth order: the plain one's error is larger than the tolerance.
        h, unit = 2e-3, np.eye(len(x))[i]
        wide, near = ((value(x + s * unit) - value(x - s * unit)) / (2 * s) for s in (2 * h, h))
        assert (4 * near - wide) / 3 == pytest.approx(expected, rel=1e-6, abs=1e-8)


def agree(source, rows, engine="auto"):
    expected = oracle.fit(rows, tol=1e-9)
    result = adj.aggregate(source, model=adj.GLAD(tol=1e-8, max_iter=2000), engine=engine, confidence="posterior")
    assert result.converged
    for row in result.probabilities.to_dicts():
        task = str(row.pop("task"))
        assert row == pytest.approx(expected["posterior"][task], abs=1e-4)
    assert result.log_likelihood == pytest.approx(expected["log_likelihood"], rel=1e-5)
    assert result.fit.trace[-1].objective == pytest.approx(expected["objective"], abs=1e-6)
    ability = {str(w): a for w, a in result.workers.select("worker", "ability").iter_rows()}
    assert ability == pytest.approx(expected["ability"], abs=1e-2)
    difficulty = {str(t): d for t, d in result.labels.select("task", "difficulty").iter_rows()}
    assert difficulty == pytest.approx({t: math.exp(-b) for t, b in expected["log_ease"].items()}, rel=1e-2)


@pytest.mark.parametrize("name", ["bm", "rte", "labelme", "snow_temp"])
def test_fits_of_real_votes_are_those_of_the_naive_implementation(data_dir, name):
    path = data_dir / name / "votes.csv"
    agree(path, pl.read_csv(path, infer_schema=False).rows())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("k", "seed"), [(2, 7), (3, 8)])
def test_fits_of_simulated_votes_are_those_of_the_naive_implementation(engine, k, seed):
    votes = adj.simulate(tasks=80, workers=15, labels=k, votes_per_task=5, seed=seed).votes
    agree(votes, votes.rows(), engine)


def test_abilities_and_difficulties_are_found_again():
    rng = np.random.default_rng(1)
    tasks, workers, each = 800, 60, 20
    ability, log_ease = rng.normal(1, 1, workers), rng.normal(0, 1, tasks)
    task = np.repeat(np.arange(tasks), each)
    worker = np.concatenate([rng.permutation(workers)[:each] for _ in range(tasks)])
    truth = rng.integers(3, size=tasks)
    right = rng.random(len(task)) < 1 / (1 + np.exp(-ability[worker] * np.exp(log_ease[task])))
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, 3, len(task))) % 3)
    result = adj.aggregate({"task": task, "worker": worker, "label": label}, model="glad")
    assert (result.labels["label"].to_numpy() == truth).mean() > 0.97
    found = result.workers.sort("worker")["ability"].to_numpy()
    assert np.corrcoef(found, ability)[0, 1] > 0.97
    difficulty = result.labels.sort("task")["difficulty"].to_numpy()
    assert np.corrcoef(np.log(difficulty), -log_ease)[0, 1] > 0.6


@pytest.mark.parametrize("workers", [500, 30_000])
@pytest.mark.parametrize("right", [1.0, 0.7, 0.34, 0.0], ids=["unanimous", "good", "poor", "chance"])
@pytest.mark.parametrize("engine", ENGINES[::2])
def test_thirty_thousand_votes_on_a_task(engine, right, workers):
    """30,000 workers of a vote or two each are a ridge that takes hundreds of iterations: here a few, finite ones."""
    rng = np.random.default_rng(0)
    n, few = 30_000, 4000
    worker = np.concatenate([np.arange(n) % workers, rng.integers(workers, size=few)])
    task = np.concatenate([np.zeros(n, int), rng.integers(1, 500, few)])
    label = np.where(rng.random(n + few) < right, task % 3, rng.integers(3, size=n + few))
    with np.errstate(over="raise", invalid="raise", divide="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        result = adj.GLAD(max_iter=100 if workers == 500 else 6).fit(
            {"task": task, "worker": worker, "label": label}, engine=engine
        )
    assert result.converged or workers > 500
    assert result.labels["confidence"].is_finite().all()
    assert (result.labels["difficulty"] > 0).all()
    assert result.workers["ability"].is_finite().all()
    assert math.isfinite(result.log_likelihood)
    for before, after in itertools.pairwise(result.fit.trace):
        assert after.objective >= before.objective - 1e-9 * abs(before.objective)


def test_more_than_a_million_votes():
    rng = np.random.default_rng(2)
    n, workers = 1_300_000, 5000
    task, worker = np.repeat(np.arange(n // 5), 5), (rng.random(n) ** 2 * workers).astype(int)
    label = np.where(rng.random(n) < 0.6, task % 4, rng.integers(4, size=n))
    with np.errstate(all="raise", under="ignore"), pytest.warns(adj.NotConverged, match="change of the objective"):
        result = adj.GLAD(max_iter=4, tol=0).fit({"task": task, "worker": worker, "label": label})
    frame = result.labels
    assert (frame["label"].to_numpy() == np.arange(n // 5) % 4).mean() > 0.8
    assert frame["confidence"].is_finite().all()
    assert math.isfinite(result.log_likelihood)
    objective = [row.objective for row in result.fit.trace]
    assert objective == sorted(objective)


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
def test_threads_do_not_change_a_bit():
    votes = adj.read(adj.simulate(tasks=9000, workers=50, labels=3, votes_per_task=8, seed=4).votes)
    one, *others = (adj.GLAD().fit(votes, engine=adj.Cpu(threads=n)) for n in (1, 2, 5))
    for other in others:
        assert one.labels.equals(other.labels)
        assert one.workers.equals(other.workers)


CROWD = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=4, label_weights=[8, 1, 1], seed=6)


def test_the_result_tells_ability_and_difficulty():
    result = adj.aggregate(CROWD.votes, model="glad", confidence="posterior")
    assert result.labels.columns == ["task", "label", "confidence", "votes", "tie", "difficulty"]
    assert result.workers.columns[:4] == ["worker", "votes", "accuracy", "agreement"]
    assert result.workers.columns[-1] == "ability"
    assert result.workers.select(pl.corr("ability", "accuracy")).item() > 0.7
    probabilities = result.probabilities.drop("task").to_numpy()
    assert probabilities.max(axis=1) == pytest.approx(result.labels["confidence"].to_numpy())
    assert result.priors["prior"].to_list() == pytest.approx(probabilities.mean(axis=0).tolist())
    assert result.confusion_matrix("w3").sum(axis=1) == pytest.approx(np.ones(3))
    assert list(adj.aggregate(CROWD.votes.to_pandas(), model="glad").workers.columns)[-1] == "ability"


def test_a_task_without_votes_has_no_difficulty():
    with pytest.warns(adj.MissingLabels):
        frame = adj.aggregate([("t", "a", "x"), ("t", "b", "x"), ("u", "a", None)], model="glad").labels
    assert frame["difficulty"].is_null().to_list() == [False, True]
    assert frame.row(1) == ("u", None, None, 0, False, None)


def test_class_priors_can_be_estimated():
    uniform, estimated = (adj.GLAD(class_priors=p, tol=1e-6).fit(CROWD.votes) for p in ("uniform", "estimated"))
    assert estimated.log_likelihood > uniform.log_likelihood
    for before, after in itertools.pairwise(estimated.fit.trace):
        assert after.objective >= before.objective - 1e-9 * abs(before.objective)


def test_more_steps_reach_the_same_top():
    results = [
        adj.GLAD(tol=1e-9, max_iter=2000, m_steps=m, m_tol=t).fit(CROWD.votes) for m, t in ((1, 0.0), (5, 0.5), (200, 0.0))
    ]
    tops = [r.fit.trace[-1].objective for r in results]
    assert tops == pytest.approx([tops[0]] * 3, abs=1e-6)
    assert results[2].iterations < results[0].iterations


def test_options_are_checked():
    for options, message in (
        ({"m_steps": 0}, "m_steps is 0: give a whole number of at least 1"),
        ({"m_tol": -1}, "m_tol is -1"),
        ({"class_priors": "guessed"}, "unknown class_priors 'guessed'"),
    ):
        with pytest.raises(adj.OptionError, match=message):
            adj.GLAD(**options)
    with pytest.raises(adj.OptionError, match="model 'glad' takes only: seed, ties, tol, max_iter$"):
        make("glad", {"smoothing": 1.0})


def test_an_engine_without_glad_is_reported():
    with pytest.raises(adj.OptionError, match="engine 'toy' cannot run model 'glad'"):
        adj.GLAD().fit(CROWD.votes, engine=toy_engine.make(1))


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adj.aggregate(CROWD.votes, model="glad").converged
