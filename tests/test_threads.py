"""Any number of threads may use a stream, or fit votes, at once."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import adjudge as adj
import thread_stress
from adjudge.kernels import cpu
from adjudge.online import stream as online_module


@pytest.fixture(params=["compiled", "reference"])
def kernels(request, monkeypatch):
    """Streams on the compiled core, or on the reference; threads take turns often, and nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with mock.patch.object(
            online_module, "compiled", online_module.compiled if request.param == "compiled" else lambda: None
        ):
            yield request.param
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["fds", "ds"])
def test_readers_side_by_side(model, confidence, kernels):
    thread_stress.read_only(model, 20 if kernels == "compiled" else 1, confidence)


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["fds", "ds", "auto"])
def test_writers_and_readers(model, confidence, kernels, tmp_path):
    thread_stress.write_and_read(model, 200 if kernels == "compiled" else 10, tmp_path, confidence)


def test_fits_at_once():
    thread_stress.fits_at_once(3)


def labels_of_a_pass(threads):
    """The labels of a pass that has work for several threads."""
    tasks = 300_000
    row = np.random.default_rng(0).integers(0, 8, tasks, dtype=np.uint32)
    table, keys = np.log(np.random.default_rng(1).random((8, 2))), np.arange(tasks, dtype=np.uint64)
    labels = np.zeros(tasks, np.int32)
    given = np.arange(tasks + 1), row, table, np.zeros(2), keys, keys[:2]
    cpu.em_pass(*given, hard=True, by_prior=False, likelihood=False, threads=threads, labels=labels)
    return labels.tobytes()


def count_helpers():
    """Count the helpers of the core, by name: Python, polars, Arrow and sanitizers have threads of their own."""
    names = [thread / "comm" for thread in Path("/proc/self/task").iterdir()]
    return sum(name.read_text() == "adjudge-pass\n" for name in names if name.exists())


@pytest.mark.skipif(cpu.compiled() is None or not sys.platform.startswith("linux"), reason="counts the threads of the core")
def test_helpers_are_kept_and_used_again():
    """A pass on three threads leaves two helpers asleep; the next ones start none."""
    first = labels_of_a_pass(3)
    before = count_helpers()
    assert before >= 2
    assert all(labels_of_a_pass(3) == first for _ in range(20))
    assert count_helpers() == before
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(labels_of_a_pass, [3] * 20)) == {first}
    assert count_helpers() <= max(before, 4 * 2), "as many as calls have wanted at once"


@pytest.mark.skipif(cpu.compiled() is None or not hasattr(os, "fork"), reason="forks with the core's helpers asleep")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_has_helpers_of_its_own():
    first = labels_of_a_pass(3)
    child = os.fork()
    if child == 0:  # its threads are gone: waiting for one of them would never end
        signal.alarm(20)
        os._exit(0 if labels_of_a_pass(3) == first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert labels_of_a_pass(3) == first


def test_files_written_at_once_leave_the_mode_mask_alone(tmp_path, monkeypatch):
    """The mask belongs to the process: a thread that sets it, even to read it, can lose that of another."""
    before = os.umask(0o027)
    try:
        online = adj.Online(labels=["a"])
        online.learn("t", "w", "a")
        with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
            patch.setattr(os, "umask", None)
            list(pool.map(lambda n: online.save(tmp_path / f"{n % 4}"), range(40)))
        assert (tmp_path / "0").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
