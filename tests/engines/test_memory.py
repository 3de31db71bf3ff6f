"""Memory estimates: compared with real fits, and the errors if memory is insufficient."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adjudge as adj
from adjudge.engines import memory
from adjudge.engines.registry import engine_with
from adjudge.kernels.cpu import compiled
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def crowd(workers, labels, tasks=2000, per_task=5):
    draw = np.random.default_rng(0)
    n = tasks * per_task
    columns = {"worker": draw.integers(0, workers, n), "label": draw.integers(0, labels, n)}
    return adj.read({"task": np.repeat(np.arange(tasks), per_task), **columns})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is reset through /proc")
@pytest.mark.skipif(compiled() is None, reason="the estimate of compiled passes")
@pytest.mark.parametrize(
    ("model", "threads", "what", "size", "confidence"),
    [
        ("fds", 2, "fit", (100_000, 5, 100_000, 5), "posterior"),  # few labels, many workers
        ("ds", 8, "fit", (20_000, 5, 10_000, 40), "posterior"),
        ("iwmv", 16, "fit", (100_000, 5, 100_000, 5), "posterior"),
        ("mv", 2, "fit", (100_000, 5, 100_000, 5), "honest"),
        ("auto", 1, "fit", (4_000, 5, 20_000, 100), "honest"),  # as many rows as workers
        ("auto", 2, "fit", (100_000, 5, 100_000, 5), "honest"),
        ("fds", 1, "workers", (8_000, 5, 300, 50), "posterior"),
        ("mv", 1, "probabilities", (100_000, 3, 300, 40), "posterior"),
    ],
)
def test_told_is_about_what_is_taken(model, threads, what, size, confidence):
    asked = json.dumps([model, threads, "cpu", what, size, confidence])
    done = subprocess.run([sys.executable, BENCHMARK, "--one", asked], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert 1 / 1.5 < found["told"] / found["taken"] < 1.5, found


def test_threads_share_one_tally_where_theirs_would_be_large():
    votes = crowd(workers=400, labels=200, tasks=200_000, per_task=1)
    few, many = (memory.estimate(votes, 0, threads) for threads in (1, 16))
    assert many < few + memory.PRIVATE_BYTES
    rows, k, n, tasks = 1_000_000, 200, 5_000_000, 1_000_000
    assert [memory.tally_bytes(rows, k, n, tasks, threads) for threads in (1, 8, 64)] == [0, 0, 0]
    assert memory.tally_bytes(1000, 5, n, tasks, 8) == 8 * 8 * 1000 * 8


def test_no_more_threads_count_than_there_are_shards():
    votes = crowd(workers=50, labels=3)  # one shard
    assert memory.estimate(votes, 0, 64) == memory.estimate(votes, 0, 1)


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@pytest.mark.parametrize("confidence", ["posterior", "honest"])
@pytest.mark.parametrize("model", DEFAULT_COMPARED_MODELS)
def test_a_fit_that_does_not_fit_is_refused_before_it_begins(model, confidence, monkeypatch):
    votes = crowd(workers=500, labels=20)
    engine = "reference" if compiled() is None else "cpu"
    shard, honest = 0 if engine == "cpu" else 1 << 18, confidence == "honest"
    need = memory.estimate(votes, shard, 2, MODELS[model].room, honest=honest)
    monkeypatch.setattr(memory, "free_memory", lambda: need - 1)
    gold = {} if MODELS[model].needs_gold else None
    with pytest.raises(adj.AdjudgeError, match=r"needs about .* MiB .* are free: .* a machine with more memory"):
        adj.aggregate(votes, model=model, engine=engine_with(engine, threads=2), confidence=confidence, gold=gold)
    monkeypatch.setattr(memory, "free_memory", lambda: need)
    options = {"max_iter": 2} if "max_iter" in MODELS[model].options() else {}
    assert len(
        MODELS[model](**options).fit(votes, engine=engine_with(engine, threads=2), confidence=confidence, gold=gold).labels
    )


LARGE = 20_000, 300  # workers, labels


@pytest.fixture(scope="module")
def large():
    """Few votes of many workers who know many labels: a table is 46 MiB, whichever engine reads the votes."""
    return crowd(*LARGE, tasks=4000)


@pytest.mark.parametrize("engine", ["reference", "cpu", "disk"])
def test_tables_of_many_workers_and_labels_are_refused(large, engine, monkeypatch):
    """Careful workers take more memory: enough for fds is not enough for auto, and the error has the estimate."""
    if engine == "cpu" and compiled() is None:
        pytest.skip("the compiled core is not there")
    # The compiled engine stores tables of 300 labels in parts.
    limit, shown = (300 * 10**6, "286.1 MiB") if engine == "cpu" else (700 * 10**6, "667.6 MiB")
    place = engine_with(engine, threads=1, memory=limit if engine == "disk" else None)
    monkeypatch.setattr(memory, "free_memory", lambda: limit)
    whose = "allowed" if engine == "disk" else "free"
    with pytest.raises(
        adj.AdjudgeError, match=rf"^this fit needs about [0-9.]+ (GiB|MiB) \([0-9]+ rows x 300 labels.* {shown} are {whose}"
    ):
        adj.aggregate(large, model="auto", engine=place, confidence="posterior")
    assert len(adj.aggregate(large, model="mv", engine=place, confidence="posterior").labels) == 4000
    monkeypatch.setattr(memory, "free_memory", lambda: 10**11)
    with pytest.raises(adj.AdjudgeError, match=r"needs about .* but 286.1 MiB are allowed: allow more"):
        adj.aggregate(
            large, model="auto", confidence="posterior", engine=adj.AutoEngine(threads=1, memory="300MB")
        )  # engine="auto" keeps to it, too
    if engine == "disk":
        with pytest.raises(adj.AdjudgeError, match="this fit needs about"):
            adj.aggregate(large, model="mv", engine=engine_with(engine, threads=1, memory=450 * 10**6), confidence="honest")


def test_what_is_believed_of_workers_takes_room(monkeypatch):
    votes = crowd(workers=500, labels=20)
    monkeypatch.setattr(memory, "free_memory", lambda: memory.estimate(votes, 1 << 18, 2, MODELS["fds"].room) + 1)
    given = {"model": "fds", "confidence": "posterior", "engine": "reference"}
    assert len(adj.aggregate(votes, **given).labels)
    with pytest.raises(adj.AdjudgeError, match="this fit needs about"):
        adj.aggregate(votes, **{**given, "model": adj.FastDawidSkene(strength=5)})


def test_probabilities_that_do_not_fit_are_refused(monkeypatch):
    result = adj.aggregate(crowd(workers=50, labels=20))
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    with pytest.raises(
        adj.AdjudgeError, match=r"the probabilities need about 0.6 MiB \(2000 tasks x 20 labels\), but .* engine='disk'"
    ):
        _ = result.probabilities
