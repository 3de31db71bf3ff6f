"""Encoded folders that were broken off, damaged, or had no room: resumed, or refused; nothing half written passes for whole."""

import json
import resource
import signal
import subprocess
import sys

import polars as pl
import pytest

import adjudge as adj
from adjudge.io.folder import arrays
from adjudge.io.folder import job as state
from adjudge.io.folder.encoded import encode, open_encoded
from adjudge.io.folder.job import EncodingPlan
from encoded_content import content, files
from full_disk import fill_disk

SMALL = EncodingPlan(bits=2, partition_votes=50, held_votes=70, shard_votes=40)

KILL = """
import os, signal, sys, adjudge as adj
from adjudge.io.folder.job import EncodingPlan
source, folder, what, at = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
import adjudge.io.folder.encoded as build, adjudge.io.folder.job as job
job.BATCH = 100
def progress(name, done, total):
    if name == what and done >= at:
        os.kill(os.getpid(), signal.SIGKILL)
if what == "end":
    job.replace_votes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
build.encode(source, folder, duplicates="last", progress=progress, plan=EncodingPlan(bits=3, partition_votes=200, held_votes=300, shard_votes=150))
"""


@pytest.mark.parametrize("suffix", [pytest.param("csv", marks=pytest.mark.slow), "parquet"])
@pytest.mark.parametrize(
    ("what", "at"),
    [
        ("reading votes", 100),
        ("reading votes", 700),
        ("reading votes", 1900),
        ("sorting votes", 1),
        ("sorting votes", 1500),
        ("end", 0),
    ],
)
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, what, at, suffix):
    votes = adj.simulate(tasks=400, workers=15, repeats=0.2, seed=7).votes
    parts = [votes[:900], votes[900:]]
    for n, part in enumerate(parts):
        path = tmp_path / f"v{n}.{suffix}"
        part.write_csv(path) if suffix == "csv" else part.write_parquet(path, row_group_size=250)
    source = str(tmp_path / f"v*.{suffix}")
    plan = EncodingPlan(bits=3, partition_votes=200, held_votes=300, shard_votes=150)
    whole = encode(source, tmp_path / "whole", duplicates="last", plan=plan)
    killed = subprocess.run(
        [sys.executable, "-c", KILL, source, tmp_path / "cut", what, str(at)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "cut").exists()
    if at != 100:  # else nothing was noted yet
        with pytest.raises(adj.InputError, match="other files or options"):
            encode(source, tmp_path / "cut", resume=True)
    resumed = encode(source, tmp_path / "cut", duplicates="last", resume=True, plan=plan)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert content(resumed) == content(whole)
    assert not list(tmp_path.glob(".cut*"))
    assert content(encode(source, tmp_path / "cut", duplicates="last", resume=True)) == content(whole)  # nothing is left to do


def test_a_resumed_run_reads_only_the_rest(tmp_path, monkeypatch):
    from adjudge.io.folder import job

    votes = with_abstentions(adj.simulate(tasks=400, workers=15, seed=7).votes)
    votes.write_csv(tmp_path / "v.csv")
    monkeypatch.setattr(job, "BATCH", 100)

    def stop(name, done, total):
        if done >= 1500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "v.csv", tmp_path / "out", progress=stop, abstain="skip", plan=EncodingPlan(bits=2, held_votes=500))
    seen = []
    encode(tmp_path / "v.csv", tmp_path / "out", resume=True, abstain="skip", progress=lambda *now: seen.append(now))
    assert seen[0][1] > 1500
    found = open_encoded(tmp_path / "out")
    assert content(found) == content(adj.read(votes, abstain="skip"))
    assert found.abstained.sum() == found.abstentions > 400, "abstentions of before the interruption were lost"


def with_abstentions(votes):
    """Every fourth vote, and every second of one worker, is 'skip'."""
    at, worker = pl.int_range(pl.len()), pl.col("worker")
    skips = (at % 4 == 0) | ((worker == "w3") & (at % 2 == 0))
    return votes.with_columns(label=pl.when(skips).then(pl.lit("skip")).otherwise("label"))


def test_without_resume_a_run_starts_over(tmp_path):
    votes = adj.simulate(tasks=100, workers=15, seed=7).votes
    votes.write_csv(tmp_path / "v.csv")
    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "v.csv", tmp_path / "out", progress=_interrupt, plan=SMALL)
    assert (tmp_path / ".out.partial").exists()
    votes[:50].write_csv(tmp_path / "v.csv")
    assert len(encode(tmp_path / "v.csv", tmp_path / "out")) == 50
    with pytest.raises(adj.OptionError, match="not files"):
        encode(votes, tmp_path / "out", resume=True)


def _interrupt(*_):
    raise KeyboardInterrupt


def test_two_at_once_do_not_mix(tmp_path):
    with state.lock_folder(tmp_path / ".out.partial"), pytest.raises(adj.OptionError, match="something else is using"):
        encode([("t", "w", "x")], tmp_path / "out")


# What is not right.


@pytest.mark.parametrize("fail_at", [1, 5, 20, 60])
def test_a_full_disk_is_reported_in_one_line(tmp_path, monkeypatch, fail_at):
    votes = adj.simulate(tasks=200, workers=15, seed=7).votes
    votes.write_csv(tmp_path / "v.csv")
    before = encode(tmp_path / "v.csv", tmp_path / "out", labels=["l2", "l1", "l0"], plan=SMALL)
    fill_disk(monkeypatch, fail_at, arrays)
    with pytest.raises(adj.AdjudgeError, match="cannot write .*out: No space left on device; finished work is kept in") as said:
        encode(tmp_path / "v.csv", tmp_path / "out", plan=SMALL)
    assert "\n" not in str(said.value)
    assert content(open_encoded(tmp_path / "out")) == content(before)  # what was there before stays
    monkeypatch.undo()
    assert content(encode(tmp_path / "v.csv", tmp_path / "out", resume=True)) == content(adj.read(votes))


def test_votes_that_cannot_be_spilled_are_said_in_one_line(tmp_path):
    votes = adj.simulate(tasks=500, workers=15, seed=7).votes
    votes.write_csv(tmp_path / "v.csv")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # bytes of a file: an Arrow stream is larger
    try:
        with pytest.raises(adj.AdjudgeError, match="cannot write .*out: File too large; finished work is kept in"):
            encode(tmp_path / "v.csv", tmp_path / "out", plan=SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(encode(tmp_path / "v.csv", tmp_path / "out", resume=True)) == content(adj.read(votes))


def test_a_full_disk_for_real(tmp_path):
    """On a disk of two megabytes, if the system allows one."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True, check=False, timeout=120
    ).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        votes = adj.simulate(tasks=60_000, workers=50, seed=7).votes
        votes.write_parquet(tmp_path / "v.parquet")
        with pytest.raises(adj.AdjudgeError, match="No space left on device"):
            encode(tmp_path / "v.parquet", small / "out")
        assert not (small / "out").exists()
    finally:
        subprocess.run(["umount", small], check=True, timeout=120)


@pytest.mark.parametrize(
    "name", ["row", "task_ptr", "task_hash", "tasks", "tasks_offsets", "workers", "worker_ptr", "row_label", "labels"]
)
def test_a_damaged_file_is_found(tmp_path, name):
    encode(adj.simulate(tasks=200, workers=15, seed=7).votes, tmp_path / "out", plan=SMALL)
    path = tmp_path / "out" / f"{name}.npy"
    whole = bytearray(path.read_bytes())
    whole[-2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(adj.InputError, match=rf"{name}.npy is damaged.*checksum does not match.*encode the votes again"):
        adj.read(tmp_path / "out")
    path.write_bytes(whole[:-1])
    with pytest.raises(adj.InputError, match=rf"{name}.npy is damaged: it has {len(whole) - 1} bytes, not {len(whole)}"):
        open_encoded(tmp_path / "out", check=False)
    path.unlink()
    with pytest.raises(adj.InputError, match=rf"cannot read .*{name}.npy: No such file"):
        open_encoded(tmp_path / "out")


def test_a_damaged_or_foreign_manifest_is_refused(tmp_path):
    encode([("t", "w", "x")], tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    good = json.loads(path.read_text())
    for text, words in {
        path.read_text()[:-30]: "is damaged",
        json.dumps(good | {"votes": 2}): "checksum does not match",
        json.dumps({"name": "another program"}): "holds no encoded votes: its manifest.json belongs to something else",
        json.dumps(good | {"version": 99}): "encoded by a newer adjudge",
    }.items():
        path.write_text(text)
        with pytest.raises(adj.AdjudgeError, match=words):
            adj.aggregate(tmp_path / "out")
    with pytest.raises(adj.InputError, match="holds no encoded votes"):
        open_encoded(tmp_path)


def test_a_foreign_folder_is_not_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(adj.InputError, match="exists and holds no encoded votes: name a new folder"):
        encode([("t", "w", "x")], tmp_path / "mine")
    with pytest.raises(adj.InputError, match="does not exist; make it first"):
        encode([("t", "w", "x")], tmp_path / "no" / "such")
    (tmp_path / "empty").mkdir()
    assert len(encode([("t", "w", "x")], tmp_path / "empty")) == 1
    assert len(encode([("t", "w", "x"), ("u", "w", "x")], tmp_path / "empty")) == 2
