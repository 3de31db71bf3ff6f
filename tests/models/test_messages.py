"""KOS and M-MSR against naive versions written from the papers, and where they cannot work."""

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_messages as naive
from adjudge.kernels import methods_cpu, methods_reference
from adjudge.kernels.cpu import compiled
from adjudge.models import mmsr
from adjudge.models.base import make
from adjudge.models.kos import Messages, edges_of
from fitting import aggregate

KERNELS = methods_reference if compiled() is None else methods_cpu
DATA = os.environ.get("ADJUDGE_DATA")


def fit(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model, confidence="posterior", **options)


def labels(result):
    return dict(result.labels.select("task", "label").iter_rows())


def same_as_naive(votes, rounds):
    positive = max(label for _, _, label in votes)
    negative = min(label for _, _, label in votes)
    score, found = naive.kos(votes, rounds, positive), labels(fit(votes, "kos", max_iter=rounds))
    clear = {task: positive if s > 0 else negative for task, s in score.items() if s}
    assert {task: found[task] for task in clear} == clear
    return len(clear) / len(score)


@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_kos_is_the_naive_version(rounds):
    votes = adj.simulate(tasks=60, workers=12, labels=2, votes_per_task=5, adversaries=0.3, seed=rounds).votes
    assert same_as_naive(votes.rows(), rounds) == 1.0


@pytest.mark.skipif(not DATA, reason="ADJUDGE_DATA names no folder")
def test_kos_on_a_public_set():
    votes = pl.read_csv(Path(DATA) / "snow_temp" / "votes.csv", infer_schema=False)
    assert same_as_naive(votes.select("task", "worker", "label").rows(), 20) == 1.0


def test_kos_does_not_overflow():
    votes = adj.simulate(tasks=300, workers=10, labels=2, votes_per_task=9, seed=3).votes
    few, many = (labels(fit(votes, "kos", max_iter=n)) for n in (50, 2000))
    assert few == many


def test_kos_falls_back_to_the_majority_where_messages_end():
    """Along a tree every message dies out; attached to a crowd with cycles, its tasks keep the majority's label."""
    tree = [("t", w, "a") for w in "xyz"] + [("t", "v", "b"), ("u", "x", "b")]
    cycles = adj.simulate(tasks=20, workers=6, labels=2, votes_per_task=4, seed=1).votes
    beside = cycles.with_columns(label=cycles["label"].replace({"l0": "a", "l1": "b"})).rows()
    for votes in (tree, tree + beside):
        found = labels(fit(votes, "kos"))
        assert (found["t"], found["u"]) == ("a", "b")


def test_kos_from_a_start_of_ones_own():
    votes = adj.read(adj.simulate(tasks=80, workers=10, labels=2, votes_per_task=5, seed=5).votes)
    drawn = np.random.RandomState(0).normal(1, 1, len(votes))
    messages = Messages(edges_of(votes), drawn, kernels=KERNELS)
    for _ in range(100):
        messages.send_to_tasks()
        messages.send_to_workers()
    found = labels(fit(votes, "kos"))
    assert {t: "l1" if s > 0 else "l0" for t, s in zip(votes.tasks.ids(), messages.score, strict=True)} == found


def test_kos_says_that_it_is_for_two_labels():
    with pytest.raises(adj.InputError, match="model 'kos' is made for 2 labels, and these votes have 3"):
        adj.aggregate([("t", "a", "x"), ("t", "b", "y"), ("t", "c", "z")], "kos")


@pytest.mark.parametrize("labels_", [2, 4])
def test_mmsr_is_the_naive_version(labels_):
    votes = adj.read(adj.simulate(tasks=90, workers=14, labels=labels_, votes_per_task=5, adversaries=0.2, seed=labels_).votes)
    pairs = KERNELS.worker_pairs(mmsr.casts_of(votes))
    agreement = mmsr.beyond_chance(pairs, labels_)
    trim = np.diff(pairs.ptr) // 4
    settings = {"max_iter": 2000, "tol": 1e-12, "kernels": KERNELS, "patience": 100}
    found = mmsr.factor(pairs, agreement, trim=trim, start=np.ones(votes.n_workers), **settings)
    told = [(t, w, label) for t, w, label in zip(*(c.to_list() for c in _columns(votes)), strict=True)]
    wanted = naive.mmsr(told, labels_)
    skill = dict(zip(votes.workers.ids(), np.sqrt(found.left * found.right), strict=True))
    assert skill == pytest.approx(wanted, abs=1e-8)


def _columns(votes):
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    worker, label = votes.row_worker()[votes.row], votes.row_label[votes.row]
    ids = votes.tasks.ids(), votes.workers.ids(), votes.labels.ids()
    return [pl.Series([names[i] for i in codes]) for names, codes in zip(ids, (task, worker, label), strict=True)]


def test_mmsr_finds_the_skills():
    crowd = adj.simulate(tasks=4000, workers=20, labels=3, votes_per_task=6, adversaries=0.2, seed=1)
    result = fit(crowd.votes, "mmsr")
    assert result.converged
    both = crowd.votes.join(crowd.truth, on="task", suffix="_true")
    real = both.group_by("worker").agg(right=(pl.col("label") == pl.col("label_true")).mean())
    joined = result.workers.join(real, on="worker")
    skill = (3 * joined["right"] - 1) / 2
    assert (joined["skill"] - skill).abs().max() < 0.08


def test_mmsr_of_crowds_that_never_meet():
    """Two crowds on their own tasks, and a worker whom nobody meets: each crowd has its own scale, the worker the mean skill."""
    one, two = (adj.simulate(tasks=300, workers=8, labels=3, votes_per_task=5, adversaries=0.2, seed=s) for s in (1, 2))
    other = two.votes.with_columns(task="b" + pl.col("task"), worker="b" + pl.col("worker"))
    alone = [(f"c{i}", "alone", f"l{i % 3}") for i in range(30)]
    result = fit(one.votes.rows() + other.rows() + alone, "mmsr")
    found = labels(result)
    assert all(found[task] == label for task, _, label in alone)
    apart = fit(one.votes, "mmsr").workers.sort("worker")["skill"].to_numpy()
    beside = result.workers.filter(pl.col("worker").str.starts_with("w")).sort("worker")["skill"].to_numpy()
    assert apart == pytest.approx(beside, abs=1e-6)
    assert 0 < result.workers.filter(worker="alone")["skill"].item() < 1


def test_mmsr_of_repeated_votes_and_of_one_worker():
    votes = [(t, w, "ab"[t % 2]) for t in range(9) for w in "xyz"]
    assert labels(fit(votes + votes, "mmsr")) == labels(fit(votes, "mmsr")) == {t: "ab"[t % 2] for t in range(9)}
    assert labels(fit([(t, "x", "ab"[t % 2]) for t in range(3)], "mmsr")) == {0: "a", 1: "b", 2: "a"}


def test_mmsr_without_skills_that_fit_ends_and_says_so():
    votes = [("t2", "w2", "c"), ("t0", "w3", "a"), ("t0", "w2", "a"), ("t0", "w0", "c"), ("t2", "w1", "c"), ("t0", "w1", "c")]
    with pytest.warns(adj.NotConverged, match="they do not settle"):
        result = adj.aggregate(votes, "mmsr")
    assert result.iterations < 1000
    assert not result.converged


def test_mmsr_says_how_much_memory_it_needs(monkeypatch):
    monkeypatch.setattr(mmsr, "free_memory", lambda: 1000)
    with pytest.raises(adj.AdjudgeError, match=r"model 'mmsr' needs about .* pairs of 20 workers .* are free: drop workers"):
        adj.aggregate(adj.simulate(tasks=30, workers=20, votes_per_task=5, seed=1).votes, "mmsr")


@pytest.mark.parametrize("model", ["kos", "mmsr"])
def test_gold_teaches(model):
    crowd = adj.simulate(tasks=300, workers=15, labels=2, votes_per_task=3, skill=0.62, seed=4)
    gold, rest = crowd.truth.head(150), crowd.truth.tail(150)
    plain, taught = (fit(crowd.votes, model, gold=g) for g in (None, gold))
    assert dict(taught.labels.filter("gold").select("task", "label").iter_rows()) == dict(gold.iter_rows())
    assert adj.evaluate(taught, rest).accuracy > adj.evaluate(plain, rest).accuracy


@pytest.mark.parametrize("model", ["kos", "mmsr"])
def test_what_is_refused_is_reported(model, tmp_path):
    votes = [("t", "a", "x"), ("t", "b", "y"), ("u", "a", "x"), ("u", "b", "x")]
    with pytest.raises(adj.OptionError, match=f"model '{model}' cannot use priors: it takes gold"):
        adj.aggregate(votes, model, priors="uniform")
    with pytest.raises(adj.OptionError, match=f"engine 'disk' cannot run model '{model}'"):
        adj.aggregate(votes, model, engine="disk")
    with pytest.raises(adj.OptionError, match="max_iter is 0"):
        adj.aggregate(votes, make(model, {"max_iter": 0}))
    weighted = {"task": ["t", "u"], "worker": ["a", "a"], "label": ["x", "y"], "weight": [1.0, 2.0]}
    with pytest.raises(adj.AdjudgeError, match=model):
        adj.aggregate(weighted, model, weight="weight")


def test_messages_are_not_explained_by_lines_of_workers():
    result = fit([("t", "a", "x"), ("t", "b", "y"), ("u", "a", "x"), ("u", "b", "x")], "kos")
    with pytest.raises(adj.OptionError, match="model 'kos' cannot explain its own posterior: fit with confidence='honest'"):
        result.explain("t")


@pytest.mark.parametrize("model", ["kos", "mmsr"])
def test_what_was_learned_is_used_again(model, tmp_path):
    crowd = adj.simulate(tasks=200, workers=9, labels=2, votes_per_task=5, adversaries=0.3, seed=2)
    result = fit(crowd.votes, model)
    result.save(tmp_path / "model.adj")
    again = adj.load(tmp_path / "model.adj").predict(crowd.votes)
    same = np.mean([a == b for a, b in zip(again.labels["label"], result.labels["label"], strict=True)])
    assert same > 0.97
    assert adj.aggregate(crowd.votes, model).explain("t0") is not None
    assert pickle.loads(pickle.dumps(result)).posterior.equals(result.posterior)
