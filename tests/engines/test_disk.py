"""The disk engine: the labels of the reference from any shards, in bounded memory, and after any interruption."""

import errno
import os
import signal
import subprocess
import sys
import warnings
import zlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.engines import checkpoint, disk_files, memory, registry
from adjudge.engines import disk as disk_session
from adjudge.engines.disk import DiskEngine
from adjudge.engines.local import LocalEngine
from adjudge.engines.registry import engine_named, engine_with, resolve
from adjudge.io import container
from adjudge.io.folder.encoded import EncodedVotes, encode
from adjudge.io.folder.job import EncodingPlan
from adjudge.kernels import cpu
from fitting import aggregate
from full_disk import fill_disk
from same_fit import EXACT
from sealed import forge_checkpoint
from strategies import crowds

SMALL = DiskEngine(shard_votes=7, batch_votes=0)
COMPILED = DiskEngine(kernels=cpu, threads=2, shard_votes=50, batch_votes=0)


def frame(result):
    return result.labels_frame().sort("task")


def fitted(source, model, engine, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(source, model=model, engine=engine, **options)


def same(here, there, *, bits=False):
    """The same labels for any order of tasks; the same figures, to the last bit or nearly."""
    a, b = frame(here), frame(there)
    assert a.drop("confidence").equals(b.drop("confidence"))
    np.testing.assert_allclose(a["confidence"], b["confidence"], atol=0 if bits else 1e-9)
    np.testing.assert_allclose(
        here.probabilities_frame().sort("task").drop("task"), there.probabilities_frame().sort("task").drop("task"), atol=1e-9
    )
    workers = here.workers_frame(trust=False), there.workers_frame(trust=False)
    assert workers[0].columns == workers[1].columns
    np.testing.assert_allclose(workers[0].drop("worker"), workers[1].drop("worker"), atol=1e-9)
    assert here.iterations == there.iterations
    assert np.isclose(here.log_likelihood, there.log_likelihood, rtol=1e-12, equal_nan=True)
    assert (here.expected_errors, here.ties) == pytest.approx((there.expected_errors, there.ties), abs=1e-9)


@settings(max_examples=30)
@given(votes=crowds(max_tasks=20), data=st.data(), model=st.sampled_from(["mv", "fds"]))
def test_any_shards_and_any_order_give_the_labels_of_the_reference(votes, data, model, tmp_path_factory):
    there = fitted(votes, model, LocalEngine())
    shuffled, folder = data.draw(st.permutations(votes)), tmp_path_factory.mktemp("disk")
    encode(
        shuffled,
        folder / "votes",
        plan=EncodingPlan(bits=data.draw(st.integers(0, 3)), shard_votes=data.draw(st.integers(1, 30))),
    )
    same(fitted(folder / "votes", model, SMALL), there)
    same(fitted(shuffled, model, replace(SMALL, shard_votes=data.draw(st.integers(1, 30)))), there)


@pytest.mark.parametrize("model", ["mv", "ds", "fds", "hybrid", "one-coin", "iwmv"])
@pytest.mark.parametrize("engine", [SMALL, COMPILED], ids=["reference", "compiled"])
def test_every_model_and_every_figure(tmp_path, model, engine):
    crowd = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=(1, 5), adversaries=0.2, repeats=0.1, seed=4)
    crowd.votes.write_parquet(tmp_path / "votes.parquet")
    here = fitted(tmp_path / "votes.parquet", model, engine)
    assert isinstance(here.votes, EncodedVotes)
    assert len(here.votes.shards) > 5
    assert here.is_on_disk
    there = fitted(crowd.votes, model, LocalEngine())
    assert not there.is_on_disk
    same(here, there)
    assert len(list(here.label_batches())) == len(here.votes.shards)
    same(fitted(here.votes, model, "cpu"), there)  # the folder in memory: one piece of figures, many parts of tasks
    np.testing.assert_allclose(here.confusion_matrix("w3"), there.confusion_matrix("w3"), atol=0 if model in EXACT else 1e-9)
    known, expected = here.learned().knowledge, there.learned().knowledge
    assert known.workers.texts() == expected.workers.texts()
    assert np.array_equal(known.row_label, expected.row_label)
    np.testing.assert_allclose(known.counts, expected.counts, atol=1e-9)


@pytest.mark.parametrize("model", ["mv", "fds", "ds", "iwmv"])
def test_votes_in_memory_keep_their_order(model):
    votes = adj.read(adj.simulate(tasks=90, workers=9, seed=6).votes)
    here, there = fitted(votes, model, SMALL), fitted(votes, model, LocalEngine())
    assert here.labels["task"].to_list() == there.labels["task"].to_list()
    same(here, there)
    sets = pl.DataFrame({"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": [["x"], ["x", "y"], ["y"], []]})
    assert fitted(sets, model, SMALL, multi=True).labels.equals(fitted(sets, model, LocalEngine(), multi=True).labels)


def test_ties_by_prior_and_seeds(tmp_path):
    votes = adj.simulate(tasks=300, workers=9, labels=4, votes_per_task=2, seed=6).votes
    encode(votes, tmp_path / "v", plan=EncodingPlan(shard_votes=40))
    for options in ({"ties": "prior"}, {"seed": 3}, {"seed": 4, "ties": "prior"}, {"smoothing": 0.3}, {"stop": "labels"}):
        same(fitted(tmp_path / "v", "fds", COMPILED, **options), fitted(votes, "fds", LocalEngine(), **options))


def test_what_is_known_beforehand(tmp_path):
    crowd = adj.simulate(tasks=200, workers=15, labels=3, seed=9)
    votes, truth = crowd.votes, crowd.truth
    encode(votes, tmp_path / "v", plan=EncodingPlan(shard_votes=60))
    old = adj.aggregate(adj.simulate(tasks=100, workers=15, labels=3, seed=10).votes, model="fds")
    gold = dict(truth.head(40).iter_rows()) | {"nobody's": "l0"}
    for options in (
        {"gold": gold},
        {"gold": gold, "calibrate": True},
        {"calibrate": truth.tail(100)},
        {"history": old},
        {"warm_start": old},
        {"strength": "auto"},
        {"priors": "uniform"},
    ):
        here, there = fitted(tmp_path / "v", "fds", COMPILED, **options), fitted(votes, "fds", LocalEngine(), **options)
        same(here, there)
        assert here.gold_without_votes == there.gold_without_votes
    same(old.predict(tmp_path / "v", engine=COMPILED), old.predict(votes))
    wider = adj.aggregate(
        adj.simulate(tasks=100, workers=15, labels=5, seed=10).votes, model="fds"
    )  # knows labels that nobody gave here
    same(fitted(tmp_path / "v", "fds", COMPILED, warm_start=wider), fitted(votes, "fds", LocalEngine(), warm_start=wider))
    turned = adj.aggregate(votes, labels=["l2", "l1", "l0"])
    with pytest.raises(adj.InputError, match="encode the votes with the labels declared in that order"):
        turned.predict(tmp_path / "v")


def test_a_start_and_abstentions(tmp_path):
    votes = [("t", "a", "x"), ("t", "b", None), ("u", "a", None), ("v", "b", "y"), ("v", "a", "y")]
    with pytest.warns(adj.MissingLabels, match="2 of 5 votes have no label"):
        here = fitted(votes, "fds", SMALL)
    assert sorted(here.labels.select("task", "label", "votes").rows()) == [("t", "x", 1), ("u", None, 0), ("v", "y", 2)]
    crowd = adj.read(adj.simulate(tasks=40, workers=5, seed=1).votes)
    start = np.zeros(40, np.int32)
    here, there = (adj.FastDawidSkene().fit(crowd, engine=e, start=start) for e in (SMALL, LocalEngine()))
    same(here, there)


def test_shards_are_worked_on_together(tmp_path):
    votes = adj.simulate(tasks=300, workers=9, labels=4, votes_per_task=(1, 6), seed=6).votes
    encoded = encode(votes, tmp_path / "v", plan=EncodingPlan(shard_votes=40))
    apart = disk_files.ShardFiles.of(encoded)
    together = apart.merge_shards(100, 10**9)
    assert [t.start for t, _ in together.cuts] == [0, *(t.stop for t, _ in together.cuts[:-1])]
    assert together.n_votes == apart.n_votes == len(votes)
    assert 80 < max(v.stop - v.start for _, v in together.cuts) <= 100
    assert apart.merge_shards(10**9, 10**9).cuts == ((slice(0, encoded.n_tasks), slice(0, len(votes))),)
    assert apart.merge_shards(10**9, 2 * apart.shard_bytes()).shard_bytes() <= 2 * apart.shard_bytes()
    assert apart.merge_shards(0, 0) == apart
    there = fitted(votes, "fds", LocalEngine())
    for batch in (0, 100, 10**9):
        same(fitted(tmp_path / "v", "fds", replace(COMPILED, batch_votes=batch)), there)


def test_figures_of_tasks_are_kept_on_disk():
    session = SMALL.load(adj.read([("t", "w", "x")]), seed=0, ties="hash")
    assert session.keep(iter([np.ones(2), np.zeros(1)])).tolist() == [1.0, 1.0, 0.0]


def test_many_labels_need_wider_files():
    for k in (255, 256, 257, 70_000):
        votes = adj.read([(t, f"w{t % 3}", t % k) for t in range(300)], labels=list(range(k)))
        path = disk_files.LabelFile(None, k)
        assert np.iinfo(path.dtype).max >= k - 1
        if k < 300:
            same(fitted(votes, "mv", SMALL), fitted(votes, "mv", LocalEngine()))


def test_what_is_written_vanishes_with_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = fitted(adj.simulate(tasks=50, workers=9, seed=6).votes, "fds", SMALL)
    assert list(tmp_path.iterdir())
    assert len(result.labels) == 50
    del result
    assert not list(tmp_path.iterdir())


# Which engine, and how much memory.


def test_auto_goes_to_disk_for_what_does_not_fit(tmp_path, monkeypatch):
    adj.simulate(tasks=500, workers=9, seed=6).votes.write_csv(tmp_path / "v.csv")
    assert resolve("auto", source=tmp_path / "v.csv").name == "cpu"
    monkeypatch.setattr(registry, "free_memory", lambda: 100_000)
    assert resolve("auto", source=tmp_path / "v.csv").name == "disk"
    assert resolve("auto", source=str(tmp_path / "*.csv")).name == "disk"
    assert resolve("auto", source=[("t", "w", "x")]).name == "cpu"
    assert resolve("cpu", source=tmp_path / "v.csv").name == "cpu"
    assert resolve(adj.AutoEngine(memory="1GB"), source=tmp_path / "v.csv").name == "cpu"
    encode(tmp_path / "v.csv", tmp_path / "v")
    assert resolve("auto", source=tmp_path / "v").name == "cpu"
    monkeypatch.setattr(registry, "free_memory", lambda: 10_000)
    assert resolve("auto", source=tmp_path / "v").name == "disk"
    result = adj.aggregate(tmp_path / "v.csv")
    assert result.is_on_disk


def test_options_of_the_disk_engine(tmp_path):
    assert resolve(adj.Disk(memory="2GB", work=tmp_path, resume=True)).memory == 2 * 10**9
    with pytest.raises(adj.OptionError, match="memory is for engine='disk': engine 'cpu' holds everything in memory"):
        engine_with("cpu", memory="2GB")
    with pytest.raises(adj.OptionError, match=r"resume is a setting of the engine: engine=adj.Disk\(resume=True\)"):
        adj.aggregate([("t", "w", "x")], resume=True)
    assert adj.aggregate([("t", "w", "x")], engine=adj.AutoEngine(memory="2GB")).labels["label"].to_list() == ["x"]


def test_too_little_memory_is_reported(tmp_path, monkeypatch):
    votes = adj.read({"task": np.arange(40_000), "worker": np.arange(40_000) % 20_000, "label": np.arange(40_000) % 200})
    with pytest.raises(
        adj.AdjudgeError, match=r"this fit needs about .* \(20000 rows x 200 labels, and a shard of votes\), but .* are allowed"
    ):
        adj.aggregate(votes, engine=adj.Disk(memory="400MB"))
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    with pytest.raises(adj.AdjudgeError, match="but 1.0 MiB are free: allow more, merge rare labels, or drop workers"):
        adj.aggregate(votes, engine="disk")


def test_memory_stays_bounded(tmp_path):
    """A fit of many votes takes little more memory than one of few: nothing grows with the votes."""
    peaks = []
    for tasks in (1_000, 300_000):
        adj.simulate(tasks=tasks, workers=50, seed=1).votes.write_parquet(tmp_path / f"{tasks}.parquet")
        code = (
            "import sys, adjudge as adj\nfrom dataclasses import replace\nfrom pathlib import Path\n"
            "from adjudge.engines.registry import resolve\nfrom adjudge.io.write import write_batches\n"
            "place = replace(resolve(adj.Disk(threads=2, memory='400MB')), shard_votes=50_000, batch_votes=0)\n"
            "result = adj.aggregate(sys.argv[1], engine=place)\n"
            "write_batches(result.label_batches(), Path(sys.argv[1] + '.labels.parquet'))\n"
            "result.workers_frame(), result.expected_errors, result.ties\n"
            "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"  # ru_maxrss begins with the parent's
        )
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path / f"{tasks}.parquet"], capture_output=True, text=True, check=True, timeout=120
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < 400
    assert peaks[1] - peaks[0] < 150  # in memory the votes alone would take 60 bytes each: 90 MB, plus the labels


# Broken off and taken up again.

KILL = """
import os, signal, sys, warnings
import adjudge as adj
from dataclasses import replace
from adjudge.engines.registry import engine_named
from adjudge.models.base import make
warnings.simplefilter("ignore")
source, work, model, what, at = sys.argv[1:6]
def report(name, done, total):
    if name.startswith(what) and done >= int(at):
        os.kill(os.getpid(), signal.SIGKILL)
place = replace(engine_named("disk", 2), work=work, report=report, shard_votes=100, batch_votes=0)
adj.aggregate(source, model=make(model, {"tol": 0 if model != "iwmv" else 1e-4, "max_iter": 8}), engine=place)
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """uninterrupted(model): the votes, engine and options of a fit without interruption, and its result."""
    path, made = tmp_path_factory.mktemp("uninterrupted") / "v.parquet", {}
    adj.simulate(tasks=250, workers=12, labels=3, votes_per_task=4, adversaries=0.2, seed=2).votes.write_parquet(path)
    place = replace(engine_named("disk", 2), shard_votes=100, batch_votes=0)

    def make(model):
        options = {"tol": 0, "max_iter": 8} if model != "iwmv" else {"max_iter": 8, "tol": 1e-4}
        if model not in made:
            made[model] = fitted(path, model, place, **options)
        return path, place, options, made[model]

    return make


# Votes are sorted before a model sees them: one of the models will do.
KILLED = [("sorting", 1, "fds")] + [
    pytest.param(what, at, model, marks=() if model == "fds" else pytest.mark.slow)
    for what, at in [("majority", 1), ("pass 1 ", 600), ("pass 2 ", 1), ("pass 3 ", 300), ("last", 300)]
    for model in ("fds", "ds", "hybrid", "iwmv")
]


@pytest.mark.parametrize(("what", "at", "model"), KILLED)
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, uninterrupted, model, what, at):
    path, place, options, whole = uninterrupted(model)
    work, code = tmp_path / "work", KILL if model != "iwmv" else KILL.replace(", tol=0", "")
    killed = subprocess.run(
        [sys.executable, "-c", code, path, work, model, what, str(at)], capture_output=True, text=True, check=False, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = []
    again = replace(place, work=work, resume=True, report=lambda name, done, total: seen.append(name))
    resumed = fitted(path, model, again, **options)
    same(resumed, whole, bits=True)
    assert resumed.trace.drop("seconds").equals(whole.trace.drop("seconds"))
    if what in ("pass 2 ", "pass 3 "):  # the passes before were not done again; majority vote is, for shared error
        assert not [name for name in seen if name.startswith(("reading", "sorting", "pass 1 "))]


def test_other_settings_do_not_go_on_from_these(tmp_path):
    crowd = adj.simulate(tasks=250, workers=12, labels=3, votes_per_task=4, adversaries=0.2, seed=2)
    crowd.votes.write_parquet(tmp_path / "v.parquet")
    seen = []

    def report(name, done, total):
        seen.append(name)
        if name.startswith("pass 3"):
            raise KeyboardInterrupt

    place = replace(engine_named("disk", 1), work=tmp_path / "work", shard_votes=100, batch_votes=0)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "v.parquet", "fds", replace(place, report=report), tol=0)
    seen.clear()
    other = replace(place, resume=True, report=lambda name, done, total: seen.append(name))
    here = fitted(tmp_path / "v.parquet", "fds", other, smoothing=0.5)
    assert "pass 1 (hard)" in seen
    same(here, fitted(crowd.votes, "fds", LocalEngine(), smoothing=0.5))
    with pytest.raises(adj.OptionError, match="something else is using"):  # its result is still in use
        fitted(tmp_path / "v.parquet", "fds", other, smoothing=0.5)


def interrupted(source, work, model, before):
    """The engine of an interrupted fit, its checkpoint, and the file of labels or abilities next to it."""

    def report(name, done, total):
        if name.startswith(before):
            raise KeyboardInterrupt

    place = replace(engine_named("disk", 1), work=work, batch_votes=0)
    with pytest.raises(KeyboardInterrupt):
        fitted(source, model, replace(place, report=report), **SHORT_FIT_OPTIONS)
    [path] = work.rglob("checkpoint.adjudge")
    noted = checkpoint.load(path.parent)
    return replace(place, resume=True), path, path.with_name(f"{'vector' if model == 'glad' else 'labels'}-{noted.file}")


SHORT_FIT_OPTIONS = {"max_iter": 5}
BEFORE = {"fds": "pass 3", "ds": "pass 3", "iwmv": "pass 3", "glad": "M-step 3"}


@pytest.fixture(scope="module")
def crowd_folder(tmp_path_factory):
    crowd = adj.simulate(tasks=250, workers=12, labels=3, votes_per_task=4, adversaries=0.3, seed=2)
    encode(crowd.votes, tmp_path_factory.mktemp("votes") / "v", plan=EncodingPlan(shard_votes=100))
    return tmp_path_factory.getbasetemp().glob("votes*/v").__next__()


@pytest.mark.parametrize("model", BEFORE)
def test_a_damaged_file_beside_a_checkpoint_is_not_resumed_from(tmp_path, crowd_folder, model):
    place, path, beside = interrupted(crowd_folder, tmp_path / "work", model, BEFORE[model])
    right = fitted(crowd_folder, model, replace(engine_named("disk", 1), batch_votes=0), **SHORT_FIT_OPTIONS)
    kept, of_file = path.read_bytes(), beside.read_bytes()
    for at, bit in ((0, 1), (7, 2), (101, 1), (len(of_file) - 1, 64)):
        path.write_bytes(kept)
        damaged = bytearray(of_file)
        damaged[at] ^= bit
        beside.write_bytes(damaged)
        with pytest.warns(
            adj.DamagedCheckpoint, match=rf"{beside.name} (is damaged|is not valid|holds \d).*starts again from its first pass"
        ):
            result = fitted(crowd_folder, model, place, **SHORT_FIT_OPTIONS)
        assert frame(result).equals(frame(right))
        del result  # and with it the lock of its folder
    path.write_bytes(kept)
    beside.write_bytes(of_file)
    seen = []
    same(
        fitted(crowd_folder, model, replace(place, report=lambda name, *_: seen.append(name)), **SHORT_FIT_OPTIONS),
        right,
        bits=True,
    )
    assert not [name for name in seen if name.startswith(("pass 1", "M-step 1"))]


def test_files_are_on_the_disk_before_the_checkpoint_that_names_them(tmp_path, crowd_folder, monkeypatch):
    from pathlib import Path

    done = []
    real_sync, real_save = os.fsync, container.save
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(Path(f"/proc/self/fd/{fd}").readlink().name), real_sync(fd)))
    monkeypatch.setattr(container, "save", lambda *a: (real_save(*a), done.append("renamed")))
    for model, kind in (("fds", "labels"), ("glad", "vector")):
        done.clear()
        place = replace(engine_named("disk", 1), work=tmp_path / model, batch_votes=0)
        fitted(crowd_folder, model, place, **SHORT_FIT_OPTIONS)
        saved = [at for at, name in enumerate(done) if name == "renamed"]
        assert saved
        for at in saved:
            assert done[at - 2].startswith(kind)
            assert done[at + 1].startswith("run-")


@pytest.mark.parametrize("at", [3, 20, -40, -1])
def test_a_damaged_checkpoint_is_not_resumed_from(tmp_path, crowd_folder, at):
    place, path, _ = interrupted(crowd_folder, tmp_path / "work", "fds", "pass 3")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.warns(adj.DamagedCheckpoint, match="is damaged|is not a file that adjudge saved"):
        result = fitted(crowd_folder, "fds", place, **SHORT_FIT_OPTIONS)
    same(result, fitted(crowd_folder, "fds", COMPILED, **SHORT_FIT_OPTIONS))


def forgeries():
    yield r"is not valid: .*\$\.labels", lambda meta, _: meta.update(labels=-1)
    yield r"is not valid: .*\$\.labels", lambda meta, _: meta.update(labels=10**12)
    yield r"is not valid: .*\$\.crc32", lambda meta, _: meta.update(crc32="1")
    yield r"is not valid: .*\$\.hard", lambda meta, _: meta.update(hard=2)
    yield r"is not valid: .*\$\.seen", lambda meta, _: meta.update(seen=["zz"])
    yield r"is not valid: .*\$\.trace", lambda meta, _: meta.update(trace=[])
    yield r"is not valid: .*\$\.trace", lambda meta, _: meta["trace"][0].update(iteration="1")
    yield r"is not valid: .*\$\.trace", lambda meta, _: meta["trace"][0].pop("phase")
    yield "missing required field `crc32`", lambda meta, _: meta.pop("crc32")
    yield "missing required field `hard`", lambda meta, _: meta.pop("hard")
    yield "the arrays", lambda _, arrays: arrays.pop("class_counts")
    yield "belongs to another model", lambda _, arrays: (arrays.pop("class_counts"), arrays.pop("counts"))
    yield "priors of", lambda _, arrays: arrays.update(priors=np.ones(9))
    yield "(priors are|.priors. is of type)", lambda _, arrays: arrays.update(priors=np.ones(3, np.float32))
    yield "counts are of type", lambda _, arrays: arrays.update(counts=arrays["counts"].astype(np.int32))
    yield "of the shape", lambda _, arrays: arrays.update(counts=arrays["counts"][:-1])
    yield "negative or not finite", lambda _, arrays: arrays["counts"].__setitem__((0, 0), -1)
    yield "negative or not finite", lambda _, arrays: arrays["priors"].__setitem__(0, np.nan)
    yield "belong to other votes", lambda _, arrays: arrays["counts"].__setitem__((0, 0), 10**6)
    yield "belong to other votes", lambda _, arrays: arrays["class_counts"].__setitem__(0, 0)


@pytest.mark.parametrize(("words", "change"), list(forgeries()))
def test_a_forged_checkpoint_is_not_resumed_from(tmp_path, crowd_folder, words, change):
    place, path, beside = interrupted(crowd_folder, tmp_path / "work", "fds", "pass 3")
    if words == "belongs to another model":  # glad stores numbers next to its checkpoint
        numbers = np.zeros(250 + 12)
        beside.with_name("vector-0").write_bytes(numbers.tobytes())
        forge_checkpoint(path, lambda meta, _: meta.update(labels=0, crc32=zlib.crc32(numbers.tobytes())))
    forge_checkpoint(path, change)
    with pytest.warns(adj.DamagedCheckpoint, match=words):
        result = fitted(crowd_folder, "fds", place, **SHORT_FIT_OPTIONS)
    same(result, fitted(crowd_folder, "fds", COMPILED, **SHORT_FIT_OPTIONS))


def test_forged_labels_are_not_resumed_from(tmp_path, crowd_folder):
    place, path, beside = interrupted(crowd_folder, tmp_path / "work", "fds", "pass 3")
    labels = np.full(250, 200, np.uint8)
    beside.write_bytes(labels.tobytes())
    forge_checkpoint(path, lambda meta, _: meta.update(crc32=zlib.crc32(labels.tobytes())))
    with pytest.warns(adj.DamagedCheckpoint, match="holds 200 at index 0: give numbers from 0 to 2"):
        fitted(crowd_folder, "fds", place, **SHORT_FIT_OPTIONS)


def test_a_newer_checkpoint_is_refused(tmp_path, crowd_folder):
    place, path, _ = interrupted(crowd_folder, tmp_path / "work", "fds", "pass 3")
    meta, arrays = container.load(path, "checkpoint", 1)
    container.save(path, "checkpoint", 99, meta, arrays)
    with pytest.raises(adj.AdjudgeError, match="saved by a newer adjudge"):
        fitted(crowd_folder, "fds", place, **SHORT_FIT_OPTIONS)


def test_a_checkpoint_that_cannot_be_written_is_reported(tmp_path, crowd_folder, monkeypatch):
    monkeypatch.setattr(checkpoint, "sync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    place = replace(engine_named("disk", 1), work=tmp_path / "work", batch_votes=0)
    for model in ("fds", "glad"):
        with pytest.raises(adj.AdjudgeError, match="cannot write .*run-.*: No space left on device"):
            fitted(crowd_folder, model, place, **SHORT_FIT_OPTIONS)


def test_large_counts_are_not_copied(tmp_path, crowd_folder, monkeypatch):
    monkeypatch.setattr(disk_session, "MAX_COPY", 0)
    place, _, _ = interrupted(crowd_folder, tmp_path / "work", "fds", "pass 3")
    same(fitted(crowd_folder, "fds", place, **SHORT_FIT_OPTIONS), fitted(crowd_folder, "fds", COMPILED, **SHORT_FIT_OPTIONS))


def test_a_file_that_shrinks_is_reported(tmp_path):
    encode(adj.simulate(tasks=250, workers=12, seed=2).votes, tmp_path / "v", plan=EncodingPlan(shard_votes=100))
    votes = adj.read(tmp_path / "v")
    session = COMPILED.load(votes, seed=0, ties="hash")
    with (tmp_path / "v" / "row.npy").open("r+b") as file:
        file.truncate(600)
    with pytest.raises(adj.InputError, match=r"row.npy (is shorter than before|was written to)"):
        session.start(hard=True)
    with pytest.raises(adj.InputError, match=r"row.npy (is shorter than before|was written to)"):
        list(votes.parts())


def test_a_full_temporary_folder_promises_nothing(tmp_path, monkeypatch):
    from adjudge.io.folder import arrays

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "full"))
    (tmp_path / "full").mkdir()
    adj.simulate(tasks=200, workers=15, seed=7).votes.write_csv(tmp_path / "v.csv")
    fill_disk(monkeypatch, 5, arrays)
    with pytest.raises(adj.AdjudgeError, match=r"No space left on device; make room there, set TMPDIR .*work=.*-o") as said:
        fitted(tmp_path / "v.csv", "fds", replace(SMALL, shard_votes=200))
    assert "kept" not in str(said.value)
    assert "\n" not in str(said.value)
    assert not [path for path in (tmp_path / "full").rglob("*") if path.is_file()]
    with pytest.raises(adj.AdjudgeError, match="finished work is kept in .*work.*: continue with resume"):
        fitted(tmp_path / "v.csv", "fds", replace(SMALL, shard_votes=200, work=tmp_path / "work"))


@pytest.mark.parametrize("fail_at", [1, 4, 20, 40])
def test_a_full_disk_is_reported_in_one_line(tmp_path, monkeypatch, fail_at):
    from adjudge.io.folder import arrays

    votes = adj.read(adj.simulate(tasks=200, workers=15, seed=7).votes)
    fill_disk(monkeypatch, fail_at, arrays, disk_files)
    with pytest.raises(adj.AdjudgeError, match="cannot write .*: No space left on device") as said:
        fitted(votes, "fds", replace(SMALL, shard_votes=200))
    assert "\n" not in str(said.value)
