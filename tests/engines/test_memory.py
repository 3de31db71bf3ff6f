"""Memory foreseen: the estimate beside what a fit really takes, and what is said where it does not fit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quorate as qr
from quorate.engines import memory
from quorate.kernels.cpu import compiled
from quorate.models.base import MODELS

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def crowd(workers, labels, tasks=2000, per_task=5):
    draw = np.random.default_rng(0)
    n = tasks * per_task
    columns = {"worker": draw.integers(0, workers, n), "label": draw.integers(0, labels, n)}
    return qr.read({"task": np.repeat(np.arange(tasks), per_task), **columns})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is reset through /proc")
@pytest.mark.skipif(compiled() is None, reason="the estimate of compiled passes")
@pytest.mark.parametrize(
    ("model", "threads", "what", "size"),
    [
        ("fds", 2, "fit", (100_000, 5, 100_000, 5)),  # few labels, many workers
        ("ds", 8, "fit", (20_000, 5, 10_000, 40)),
        ("iwmv", 16, "fit", (100_000, 5, 100_000, 5)),
        ("fds", 1, "workers", (8_000, 5, 300, 50)),
        ("mv", 1, "probabilities", (100_000, 3, 300, 40)),
    ],
)
def test_told_is_about_what_is_taken(model, threads, what, size):
    asked = json.dumps([model, threads, "cpu", what, size])
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


@pytest.mark.filterwarnings("ignore::quorate.NotConverged")
@pytest.mark.parametrize("model", MODELS)
def test_a_fit_that_does_not_fit_is_refused_before_it_begins(model, monkeypatch):
    votes = crowd(workers=500, labels=20)
    engine = "reference" if compiled() is None else "cpu"
    need = memory.estimate(votes, 0 if engine == "cpu" else 1 << 18, 2, MODELS[model].room)
    monkeypatch.setattr(memory, "available", lambda: need - 1)
    with pytest.raises(qr.QuorateError, match=r"needs about .* MiB .* are free: .* a machine with more memory"):
        qr.aggregate(votes, model=model, engine=engine, threads=2)
    monkeypatch.setattr(memory, "available", lambda: need)
    options = {"max_iter": 2} if "max_iter" in MODELS[model].options() else {}
    assert len(MODELS[model](**options).fit(votes, engine=engine, threads=2).labels)


def test_what_is_believed_of_workers_takes_room(monkeypatch):
    votes = crowd(workers=500, labels=20)
    monkeypatch.setattr(memory, "available", lambda: memory.estimate(votes, 1 << 18, 2) + 1)
    assert len(qr.aggregate(votes, model="fds", engine="reference").labels)
    with pytest.raises(qr.QuorateError, match="this fit needs about"):
        qr.aggregate(votes, model="fds", engine="reference", strength=5)


def test_probabilities_that_do_not_fit_are_refused(monkeypatch):
    result = qr.aggregate(crowd(workers=50, labels=20))
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(
        qr.QuorateError, match=r"the probabilities need about 0.6 MiB \(2000 tasks x 20 labels\), but .* engine='disk'"
    ):
        _ = result.probabilities
