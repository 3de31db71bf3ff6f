"""Open votes do not change when their folder does; if that is impossible, an error says so."""

import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adjudge as adj
from adjudge.engines.registry import engine_named
from adjudge.io.folder import encoded as mapped
from adjudge.io.folder import job, spill
from adjudge.io.folder.encoded import encode, open_encoded
from adjudge.io.folder.job import EncodingPlan
from encoded_content import content

ENGINES = ["disk", "cpu", "reference"]
SMALL = EncodingPlan(shard_votes=300)
MONDAY = {"tasks": 200, "workers": 10, "labels": 3, "seed": 1}
DAYS = {
    "the like": {"tasks": 200, "workers": 10, "labels": 3, "seed": 2},
    "more": {"tasks": 900, "workers": 60, "labels": 5, "seed": 3},
    "fewer": {"tasks": 20, "workers": 3, "labels": 2, "seed": 4},
}


def crowd(options):
    return adj.simulate(**options).votes


@pytest.fixture
def monday(tmp_path):
    return encode(crowd(MONDAY), tmp_path / "v", plan=SMALL)


@pytest.fixture(params=DAYS)
def tuesday(request):
    return crowd(DAYS[request.param])


def figures(result):
    """All that a result says."""
    workers = result.workers_frame(trust=False)
    return [result.labels_frame().sort("task"), result.probabilities_frame().sort("task"), workers]


def same(here, there):
    return all(a.equals(b) for a, b in zip(figures(here), figures(there), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_open_votes_outlive_their_folder(tmp_path, monday, tuesday, engine):
    right, before = adj.aggregate(crowd(MONDAY), engine="reference"), content(monday)
    early = adj.aggregate(monday, engine=engine)  # its figures are read later
    fresh = open_encoded(tmp_path / "v")
    encode(tuesday, tmp_path / "v")
    late = adj.aggregate(fresh, engine=engine)
    for result in (early, late):
        labels, expected = result.labels_frame().sort("task"), right.labels_frame().sort("task")
        assert labels.drop("confidence").equals(expected.drop("confidence"))
        np.testing.assert_allclose(
            result.probabilities_frame().sort("task").drop("task"),
            right.probabilities_frame().sort("task").drop("task"),
            atol=1e-9,
        )
        assert result.workers_frame(trust=False)["worker"].equals(right.workers_frame(trust=False)["worker"])
    assert content(monday) == content(fresh) == before
    assert content(adj.read(tmp_path / "v")) == content(adj.read(tuesday))


def test_another_process_encodes_anew(tmp_path, monday):
    right = adj.aggregate(monday, engine="disk")
    code = "import sys, adjudge as adj; adj.encode(adj.simulate(tasks=300, workers=20, labels=4, seed=9).votes, sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path / "v"], check=True, timeout=120)
    for engine in ENGINES:
        assert same(adj.aggregate(monday, engine="disk"), right)
        assert (
            adj.aggregate(monday, engine=engine)
            .labels.sort("task")
            .drop("confidence")
            .equals(right.labels.sort("task").drop("confidence"))
        )
    assert adj.read(tmp_path / "v").n_labels == 4


def test_a_folder_that_is_gone(tmp_path, monday):
    right = figures(adj.aggregate(monday, engine="disk"))
    for path in (tmp_path / "v").iterdir():
        path.unlink()
    assert all(a.equals(b) for a, b in zip(figures(adj.aggregate(monday, engine="disk")), right, strict=True))


def test_pickled_votes_are_of_their_folder_or_refused(tmp_path, monday):
    packed = pickle.dumps(monday)
    assert len(packed) < 2000
    assert content(pickle.loads(packed)) == content(monday)
    wider = adj.aggregate(adj.simulate(tasks=50, workers=9, labels=5, seed=2).votes)
    relabelled = adj.aggregate(monday, engine="disk", warm_start=wider).votes
    assert content(pickle.loads(pickle.dumps(relabelled))) == content(relabelled)
    assert relabelled.n_labels == 5
    names = pickle.loads(pickle.dumps(monday.tasks))
    encode(crowd(DAYS["the like"]), tmp_path / "v")
    with pytest.raises(adj.InputError, match="was encoded again after these votes were opened: open it again"):
        pickle.loads(packed)
    assert names.ids() == monday.tasks.ids()
    for other in (copy.copy(monday), copy.deepcopy(monday)):
        assert content(other) == content(monday)
    with pytest.raises(TypeError, match="open it again in the other process"):
        pickle.dumps(monday.files["row"])


def test_votes_cross_a_fork(monday, tmp_path):
    encode(crowd(DAYS["fewer"]), tmp_path / "v")
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # a lock that another thread held is held forever here
        os._exit(0 if int(monday.row.sum()) == int(sum(int(row.sum()) for _, _, row in monday.parts())) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fit_does_not_resume_from_other_votes(tmp_path, monday):
    from dataclasses import replace

    def report(name, done, total):
        if name.startswith("pass 2"):
            raise KeyboardInterrupt

    place = replace(engine_named("disk", 1), work=tmp_path / "work", resume=True)
    with pytest.raises(KeyboardInterrupt):
        adj.aggregate(tmp_path / "v", model=adj.FastDawidSkene(tol=0), engine=replace(place, report=report))
    votes = crowd(DAYS["the like"])
    encode(votes, tmp_path / "v")
    with pytest.warns(adj.NotConverged):
        here = adj.aggregate(tmp_path / "v", model=adj.FastDawidSkene(tol=0, max_iter=9), engine=place)
    with pytest.warns(adj.NotConverged):
        there = adj.aggregate(votes, model=adj.FastDawidSkene(tol=0, max_iter=9))
    assert here.labels.sort("task").drop("confidence").equals(there.labels.sort("task").drop("confidence"))


# Files that are written to while they are open.


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["row", "task_ptr", "tasks", "tasks_offsets", "task_hash"])
def test_a_file_cut_while_in_use_is_reported(tmp_path, monday, engine, name):
    os.truncate(tmp_path / "v" / f"{name}.npy", 200)
    if (engine, name) in (("cpu", "task_hash"), ("reference", "task_hash")):  # these hash the ids themselves
        assert len(adj.aggregate(monday, engine=engine).labels) == 200
        return
    with pytest.raises(adj.InputError, match=f"{name}.npy is shorter than before"):
        adj.aggregate(monday, engine=engine).labels  # noqa: B018


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_written_over_is_reported(tmp_path, monday, engine):
    path = tmp_path / "v" / "row.npy"
    size, before = path.stat().st_size, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 40)
    os.utime(path, ns=(before + 10**9, before + 10**9))  # the clock of a file system may be coarse
    assert path.stat().st_size == size
    with pytest.raises(adj.InputError, match="row.npy was written to since it was opened: open it again"):
        adj.aggregate(monday, engine=engine)


def test_what_is_in_memory_already_is_kept(tmp_path, monday):
    before = content(monday)
    for path in (tmp_path / "v").glob("*.npy"):
        os.truncate(path, 0)
    assert content(monday) == before


def test_votes_are_held_where_there_is_plenty_of_memory(tmp_path, monday, monkeypatch):
    before = content(monday)
    held = adj.read(tmp_path / "v")
    monkeypatch.setattr(mapped, "free_memory", lambda: 1000)
    not_held = adj.read(tmp_path / "v")
    on_disk = adj.aggregate(tmp_path / "v", engine="disk")
    for name in ("task_ptr", "row", "tasks", "tasks_offsets"):
        os.truncate(tmp_path / "v" / f"{name}.npy", 130)
    assert content(held) == before
    for votes in (not_held, on_disk.votes):
        with pytest.raises(adj.InputError, match="shorter than before"):
            content(votes)
    with pytest.raises(adj.InputError, match="shorter than before"):
        adj.aggregate(held, engine="disk")  # which holds no votes
    with pytest.raises(adj.InputError, match="shorter than before"):
        content(held)


def test_a_file_that_is_not_a_file_is_reported(tmp_path, monday):
    path = tmp_path / "v" / "row.npy"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(adj.InputError, match="row.npy: it is not a file"):
        adj.read(tmp_path / "v")
    (tmp_path / "v" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "v" / "manifest.json")
    with pytest.raises(adj.InputError, match="manifest.json is damaged"):
        open_encoded(tmp_path / "v")


# How a folder is replaced.


def test_a_folder_replaced_while_it_is_opened_is_opened_whole(tmp_path, monday, monkeypatch):
    new, real, calls = crowd(DAYS["more"]), mapped.Manifest.read.__func__, []

    def read(cls, folder, handle=None):
        found = real(cls, folder, handle)
        calls.append(1)
        if len(calls) == 1:
            encode_elsewhere(new, folder)
        return found

    monkeypatch.setattr(mapped.Manifest, "read", classmethod(read))
    assert content(open_encoded(tmp_path / "v")) == content(adj.read(new))
    assert len(calls) == 2


def encode_elsewhere(votes, folder):
    """Encode without opening the result, which would count as a call."""
    votes.write_parquet(folder.parent / "v.parquet")
    code = "import sys, adjudge as adj; adj.encode(sys.argv[1], sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, folder.parent / "v.parquet", folder], check=True, timeout=120)


class Killed(BaseException):
    """Ends an encoding between two steps, with nothing cleaned up."""


def encode_until(source, folder, at, *, exchange):
    """Encode, and end at this step of putting the folder in its place; return whether it was reached."""
    steps, replace = [], job.replace_votes

    def step(real):
        def act(*arguments, **options):
            steps.append(1)
            if len(steps) > at:
                raise Killed
            return real(*arguments, **options)

        return act

    def stopped(aside, target):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "_exchange", step(job._exchange if exchange else lambda *_: False))
            patch.setattr(job, "_sync", step(job._sync))
            patch.setattr(job.shutil, "rmtree", step(shutil.rmtree))
            for name in ("rename", "unlink"):
                patch.setattr(Path, name, step(getattr(Path, name)))
            replace(aside, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "replace_votes", stopped)
        try:
            encode(source, folder)
        except Killed:
            return True
        return False


@pytest.mark.parametrize("exchange", [True, False])
def test_killed_while_replacing_leaves_the_old_votes_or_the_new(tmp_path, exchange):
    if exchange and not can_exchange(tmp_path):
        pytest.skip("this file system cannot")
    days = crowd(DAYS["fewer"]), crowd({**DAYS["fewer"], "seed": 8})
    old, new = (content(adj.read(votes)) for votes in days)
    days[1].write_csv(tmp_path / "tuesday.csv")
    found, at = [], 0
    encode(days[0], tmp_path / "v")
    while encode_until(tmp_path / "tuesday.csv", tmp_path / "v", at, exchange=exchange):
        if exchange:  # at any moment the folder is there
            found.append(content(open_encoded(tmp_path / "v")))
        assert content(encode(tmp_path / "tuesday.csv", tmp_path / "v", resume=True)) == new
        assert not list(tmp_path.glob(".v*"))
        encode(days[0], tmp_path / "v")
        at += 1
    assert at >= 5
    assert not exchange or (found[0] == old and found[-1] == new and all(one in (old, new) for one in found))


def test_votes_left_aside_between_two_renames_come_back(tmp_path, monday):
    before = content(monday)
    (tmp_path / "v").rename(tmp_path / ".v.old")
    with pytest.raises(adj.InputError, match="is missing in row 1"):
        encode([("t", None, "x")], tmp_path / "v")
    assert content(open_encoded(tmp_path / "v")) == before


def can_exchange(folder):
    for name in "ab":
        (folder / name).mkdir()
        (folder / name / "it").write_text(name)
    return job._exchange(folder / "a", folder / "b")


def test_folders_change_places_at_once(tmp_path):
    if not can_exchange(tmp_path):
        pytest.skip("this file system cannot")
    assert (tmp_path / "a" / "it").read_text() == "b"
    assert not job._exchange(tmp_path / "a", tmp_path / "nothing")


# Ids that are read on first use.


def test_ids_are_found_by_their_hash_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "LOOKUP_CHUNK_HASHES", 7)
    names = [f"task {n}" for n in range(200)]
    votes = encode([(name, "w", "x") for name in names], tmp_path / "v")
    every = [votes.tasks[code] for code in range(200)]
    assert sorted(every) == sorted(names)
    asked = [*names, "nobody's", names[3]]
    assert [None if code < 0 else every[code] for code in votes.tasks.codes(asked).tolist()] == [*names, None, names[3]]
    assert votes.tasks.codes([]).tolist() == []
    assert votes.tasks.take(np.arange(5, 9)).ids() == every[5:9]
    assert votes.tasks.take(np.array([9, 3])).ids() == [every[9], every[3]]
    assert votes.tasks[-1] == every[-1]
    with pytest.raises(IndexError):
        votes.tasks[200]
    with pytest.raises(IndexError):
        votes.tasks.take(np.array([199, 200]))
    with pytest.raises(AttributeError):
        votes.tasks.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        votes.nothing  # noqa: B018


def test_hashes_may_collide(tmp_path, monkeypatch):
    for module in (mapped, job, spill):
        monkeypatch.setattr(module, "hash_ids", lambda ids: np.full(len(ids), 5, np.uint64))
    monkeypatch.setattr(mapped, "LOOKUP_CHUNK_HASHES", 4)
    names = [f"t{n}" for n in range(10)]
    votes = encode([(name, "w", "x") for name in names], tmp_path / "v", plan=EncodingPlan(bits=0))
    assert [votes.tasks[code] for code in votes.tasks.codes(names).tolist()] == names


def test_agreement_of_encoded_votes_is_that_of_memory(tmp_path):
    votes = adj.simulate(tasks=120, workers=8, repeats=0.3, seed=4).votes
    encode(votes, tmp_path / "v")
    here, there = adj.agreement(tmp_path / "v"), adj.agreement(votes)
    assert here.alpha == pytest.approx(there.alpha)
    assert here.votes == there.votes


def test_the_votes_of_some_tasks_are_those_of_all(tmp_path):
    crowd = adj.simulate(tasks=50, workers=6, votes_per_task=(1, 4), seed=2)
    stored = open_encoded(adj.encode(crowd.votes, tmp_path / "votes").folder)
    plain = stored.with_fields(task_ptr=stored.files["task_ptr"].all(), row=stored.files["row"].all())
    assert stored.is_stored
    assert not plain.is_stored
    for cut in (slice(0, 50), slice(7, 8), slice(20, 31), slice(4, 4)):
        for one, other in zip(stored.votes_in(cut), plain.votes_in(cut), strict=True):
            assert one.tolist() == other.tolist()
