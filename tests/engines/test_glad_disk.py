"""GLAD on disk: the fit of memory from any shards, in bounded memory, and after any interruption."""

import itertools
import signal
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data import vectors
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Gold
from adjudge.engines import disk_files, glad, local, memory, registry
from adjudge.engines.base import GladModel
from adjudge.engines.disk import DiskEngine
from adjudge.engines.local import LocalEngine
from adjudge.engines.registry import engine_named, resolve
from adjudge.io.folder import arrays
from adjudge.io.folder.encoded import encode
from adjudge.io.folder.job import EncodingPlan
from adjudge.io.sources import Opened
from full_disk import fill_disk
from strategies import crowds

SMALL = DiskEngine(shard_votes=7, batch_votes=0)


def fitted(source, engine, *, settings=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return adj.aggregate(source, model=adj.GLAD(**(settings or {})), engine=engine, **options)


def same(here, there, near=1e-9):
    """The same labels for any order of tasks; the same figures, to the last bit or nearly."""
    a, b = (one.labels_frame().sort("task") for one in (here, there))
    floats = ["confidence", "difficulty"]
    assert a.drop(floats).equals(b.drop(floats))
    for name in floats:
        np.testing.assert_allclose(a[name], b[name], rtol=near, atol=near)
    p, q = (one.probabilities_frame().sort("task").drop("task").to_numpy() for one in (here, there))
    np.testing.assert_allclose(p, q, atol=near)
    workers = [one.workers_frame(trust=False) for one in (here, there)]
    assert workers[0]["worker"].equals(workers[1]["worker"])
    np.testing.assert_allclose(workers[0].drop("worker"), workers[1].drop("worker"), rtol=near, atol=near)
    np.testing.assert_allclose(here.fit.params.priors, there.fit.params.priors, atol=near)
    assert here.iterations == there.iterations
    last = [one.fit.trace[-1] for one in (here, there)]
    assert last[0].objective == pytest.approx(last[1].objective, rel=near)
    assert last[0].labels_changed == last[1].labels_changed
    assert here.log_likelihood == pytest.approx(there.log_likelihood, rel=near)
    assert here.log_likelihood == pytest.approx(last[0].log_likelihood, rel=1e-12)


@settings(max_examples=12)
@given(votes=crowds(max_tasks=20), shard=st.integers(1, 30))
def test_any_shards_give_the_fit_of_the_reference(votes, shard):
    few = {"max_iter": 4}
    same(fitted(votes, replace(SMALL, shard_votes=shard), settings=few), fitted(votes, LocalEngine(), settings=few))


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"class_priors": "estimated", "ties": "prior"}, {}),
        ({"seed": 5}, {"gold": 40}),
        ({"class_priors": "estimated"}, {"gold": 250}),
        ({}, {"priors": {"l0": 0.5, "l1": 0.3, "l2": 0.2}}),
        ({}, {"priors": "uniform", "priors_weight": 20.0, "gold": 3}),
        ({}, {"gold": 60, "calibrate": True}),
    ],
    ids=str,
)
def test_every_option_and_every_figure(tmp_path, monkeypatch, settings, options):
    crowd = adj.simulate(tasks=250, workers=15, labels=3, votes_per_task=(1, 6), adversaries=0.2, repeats=0.1, seed=4)
    if "gold" in options:
        options = options | {"gold": crowd.truth.head(options["gold"])}
    there = fitted(crowd.votes, "cpu", settings=settings, **options)
    monkeypatch.setattr(vectors, "VECTOR_CHUNK_NUMBERS", 50)  # nothing here is longer than a piece else
    monkeypatch.setattr(glad, "MAX_POSTERIOR_CELLS", 120)
    encode(crowd.votes, tmp_path / "v", plan=EncodingPlan(shard_votes=100))
    here = fitted(tmp_path / "v", replace(engine_named("disk", 2), batch_votes=0), settings=settings, **options)
    assert here.is_on_disk
    assert isinstance(here.fit.task_columns["difficulty"], np.memmap)
    assert len(list(here.label_batches())) > 5
    same(here, there)
    assert here.gold_without_votes == there.gold_without_votes
    for before, after in itertools.pairwise(here.fit.trace):
        assert after.objective >= before.objective - 1e-9 * abs(before.objective)
    assert here.predict(crowd.votes).labels.drop("confidence").equals(there.predict(crowd.votes).labels.drop("confidence"))


@pytest.mark.parametrize("name", ["bm", "rte", "labelme"])
def test_real_votes(data_dir, name):
    close = {"tol": 1e-7, "max_iter": 500}
    place = replace(engine_named("disk", 2), shard_votes=2000, batch_votes=0)
    here, there = (fitted(data_dir / name / "votes.csv", engine, settings=close) for engine in (place, "cpu"))
    assert here.converged
    same(here, there, near=1e-7)


def test_threads_do_not_change_a_bit(tmp_path):
    votes = adj.simulate(tasks=6000, workers=50, labels=3, votes_per_task=8, seed=4).votes
    encode(votes, tmp_path / "v")
    one, other = (adj.aggregate(tmp_path / "v", model="glad", engine=adj.Disk(threads=n)) for n in (1, 3))
    assert one.labels.equals(other.labels)
    assert one.workers.equals(other.workers)


def test_shards_are_divided_where_they_are_too_large(tmp_path):
    votes = adj.simulate(tasks=300, workers=9, labels=4, votes_per_task=(1, 6), seed=6).votes
    encoded = encode(votes, tmp_path / "v", plan=EncodingPlan(shard_votes=400))
    files = replace(disk_files.ShardFiles.of(encoded), weight=(40, 90))
    small = files.split_shards(5000)
    assert small.shard_bytes() <= 5500
    assert files.shard_bytes() > 10_000
    assert small.n_votes == files.n_votes == len(votes)
    for (tasks, cast), (after, _) in itertools.pairwise(small.cuts):
        assert tasks.stop == after.start
        assert [encoded.task_ptr[tasks.start], encoded.task_ptr[tasks.stop]] == [cast.start, cast.stop]
    assert files.split_shards(10**9) == files
    assert len(files.split_shards(0).cuts) == encoded.n_tasks


def test_nothing_but_the_result_is_left(tmp_path):
    place = replace(engine_named("disk", 1), work=tmp_path / "work", shard_votes=100, batch_votes=0)
    votes = adj.simulate(tasks=250, workers=12, seed=2).votes
    result = fitted(votes, place)
    [run] = (tmp_path / "work").glob("run-*")
    left = sorted(path.name.partition("-")[0].partition(".")[0] for path in run.iterdir())
    # Of one probabilities are made; the other was noted, to resume from.
    assert [name for name in left if name in ("vector", "glad")] == ["vector", "vector"]
    assert len(result.probabilities) == 250


def test_a_worker_a_task_a_label():
    for votes in ([("t", "w", "x")], [("t", "w", "x"), ("t", "v", "x")], [("t", "w", "x"), ("u", "w", "y")]):
        same(fitted(votes, SMALL), fitted(votes, LocalEngine()))
    with pytest.warns(adj.MissingLabels):
        assert fitted([("t", "w", "x"), ("u", "w", None)], SMALL).labels.sort("task")["difficulty"].is_null().to_list() == [0, 1]


@pytest.mark.parametrize("engine", [SMALL, LocalEngine()], ids=["disk", "memory"])
def test_changed_labels_are_counted_without_gold(engine):
    crowd = adj.simulate(tasks=40, workers=6, labels=3, seed=3)
    votes = adj.read(crowd.votes)
    names = [f"t{n}" for n in range(15)]  # some of whose votes say so, too
    given = Gold(Vocabulary.of_texts(names), np.full(15, 2, np.int32))
    passes = engine.load(votes, seed=0, ties="hash", gold=given).glad()
    x = passes.vector()
    x[slice(0, len(x))] = np.ones(len(x))
    model = GladModel(x, np.log(np.full(3, 1 / 3)), np.log(2.0))
    first = passes.expect(model).changed  # every task but gold begins with label 0
    labels = passes.finish(model)[0].labels
    is_gold = votes.tasks.codes(names)
    assert (labels[is_gold] == 2).all()
    assert first == np.count_nonzero(np.delete(labels, is_gold))


# How much memory.


def test_memory_stays_bounded(tmp_path):
    """A fit of many tasks takes little more memory than one of few: neither votes nor tasks are held."""
    code = (
        "import sys, warnings, adjudge as adj\nfrom dataclasses import replace\nfrom pathlib import Path\n"
        "from adjudge.engines.registry import resolve\nfrom adjudge.io.write import write_batches\n"
        "warnings.simplefilter('ignore')\n"
        "place = replace(resolve(adj.Disk(threads=2, memory='400MB')), batch_votes=0)\n"
        "result = adj.aggregate(sys.argv[1], model=adj.GLAD(max_iter=2, tol=0), engine=place)\n"
        "write_batches(result.label_batches(), Path(sys.argv[1] + '.labels.parquet'))\n"
        "write_batches(result.probability_batches(), Path(sys.argv[1] + '.p.parquet'))\n"
        "result.workers_frame(), result.expected_errors, result.ties\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"  # ru_maxrss begins with the parent's
    )
    peaks = []
    for tasks in (30_000, 500_000):
        votes = adj.simulate(tasks=tasks, workers=50, votes_per_task=2, seed=1).votes
        encode(votes, tmp_path / f"{tasks}", plan=EncodingPlan(shard_votes=50_000))
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path / f"{tasks}"], capture_output=True, text=True, check=True, timeout=120
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < 400
    assert peaks[1] - peaks[0] < 45  # in memory it is 75


def test_shards_are_cut_to_what_tables_leave():
    votes = adj.read(adj.simulate(tasks=80_000, workers=20, seed=1).votes)
    for size, least in ((10**9, 1), (310 * 10**6, 3)):  # 300 million go before any vote
        files = resolve(adj.Disk(threads=2, memory=size)).load(votes, seed=0, ties="hash").glad()._store._reader._files
        assert len(files.cuts) >= least
        assert files.shard_bytes() + 300 * 10**6 < size
    with pytest.raises(adj.AdjudgeError, match="but 286.1 MiB are allowed"):
        resolve(adj.Disk(threads=2, memory=300 * 10**6)).load(votes, seed=0, ties="hash")


def test_too_little_memory_is_reported(tmp_path, monkeypatch):
    votes = adj.read(adj.simulate(tasks=2000, workers=20, seed=1).votes)
    assert memory.GLAD.of(len(votes), 2000, 20) == 8 * 10_000 + 200 * 2020
    monkeypatch.setattr(local, "require", lambda *_: None)
    monkeypatch.setattr(memory, "free_memory", lambda: 400_000)
    with pytest.raises(adj.AdjudgeError, match=r"glad needs about .* \(2000 tasks, 20 workers\), but .* use engine='disk'"):
        adj.aggregate(votes, model="glad", engine="cpu")


def test_auto_knows_what_glad_takes(tmp_path, monkeypatch):
    adj.simulate(tasks=2000, workers=20, seed=1).votes.write_parquet(tmp_path / "v.parquet")
    encode(tmp_path / "v.parquet", tmp_path / "v")
    for source in (tmp_path / "v.parquet", tmp_path / "v"):
        need = memory.in_memory(Opened(source))
        assert memory.in_memory(Opened(source), memory.GLAD) > 1.5 * need
        monkeypatch.setattr(registry, "free_memory", lambda need=need: need)
        assert not adj.aggregate(source, model="fds").is_on_disk
        assert adj.aggregate(source, model="glad").is_on_disk
        assert adj.GLAD().fit(source).is_on_disk


# Broken off and taken up again.

KILL = """
import os, signal, sys, warnings
import adjudge as adj
from dataclasses import replace
from adjudge.engines.registry import engine_named
warnings.simplefilter("ignore")
source, work, what, at = sys.argv[1:5]
def report(name, done, total):
    if name.startswith(what) and done >= int(at):
        os.kill(os.getpid(), signal.SIGKILL)
place = replace(engine_named("disk", 2), work=work, report=report, shard_votes=100, batch_votes=0)
adj.aggregate(source, model=adj.GLAD(tol=0, max_iter=5, class_priors="estimated"), engine=place)
"""


@pytest.mark.parametrize(
    ("what", "at"),
    [
        ("M-step 3, slope 4", 1),
        ("last", 300),
        *(
            pytest.param(what, at, marks=pytest.mark.slow)
            for what, at in (("pass 0", 1), ("M-step 1,", 300), ("pass 2", 1), ("pass 4", 600))
        ),
    ],
)
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, what, at):
    crowd = adj.simulate(tasks=250, workers=12, labels=3, votes_per_task=4, adversaries=0.2, seed=2)
    crowd.votes.write_parquet(tmp_path / "v.parquet")
    work, place = tmp_path / "work", replace(engine_named("disk", 2), shard_votes=100, batch_votes=0)
    killed = subprocess.run(
        [sys.executable, "-c", KILL, tmp_path / "v.parquet", work, what, str(at)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = []
    again = replace(place, work=work, resume=True, report=lambda name, done, total: seen.append(name))
    chosen = {"tol": 0, "max_iter": 5, "class_priors": "estimated"}
    resumed, whole = (fitted(tmp_path / "v.parquet", engine, settings=chosen) for engine in (again, place))
    same(resumed, whole, near=0)
    assert resumed.trace.drop("seconds").equals(whole.trace.drop("seconds"))
    if what.startswith(("M-step 3", "pass 4")):  # the passes before were not done again
        assert not [name for name in seen if name.startswith(("reading", "sorting", "pass 0", "pass 1", "M-step 1"))]


def test_a_vector_that_is_gone_is_not_resumed_from(tmp_path):
    encode(adj.simulate(tasks=250, workers=12, seed=2).votes, tmp_path / "v")

    def report(name, done, total):
        if name.startswith("M-step 2"):
            raise KeyboardInterrupt

    place = replace(engine_named("disk", 1), work=tmp_path / "work")
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "v", replace(place, report=report))
    for path in (tmp_path / "work").rglob("vector-*"):
        path.write_bytes(path.read_bytes()[:-8])
    right = fitted(tmp_path / "v", replace(place, work=tmp_path / "other"))
    with pytest.warns(adj.DamagedCheckpoint, match=r"vector-\d is damaged: it has 2088 bytes, not 2096"):
        same(fitted(tmp_path / "v", replace(place, resume=True)), right)


@pytest.mark.parametrize("fail_at", [1, 5, 20, 30, 45, 200, 600])
def test_a_full_disk_is_reported_in_one_line(monkeypatch, fail_at):
    votes = adj.read(adj.simulate(tasks=200, workers=15, seed=7).votes)
    fill_disk(monkeypatch, fail_at, arrays, disk_files, glad)
    with pytest.raises(adj.AdjudgeError, match="cannot write .*: No space left on device") as said:
        fitted(votes, replace(SMALL, shard_votes=200))
    assert "\n" not in str(said.value)
