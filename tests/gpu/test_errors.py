"""Missing or failing parts: the error is one line, nothing hangs, and the next fit works."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import adjudge as adj
from adjudge.cli import doctor
from adjudge.gpu import device as home
from adjudge.gpu.engine import CudaEngine
from gpu.crowds import little_memory
from gpu.reference_device import ReferenceDevice, ReferenceKernels
from same_fit import assert_same, fit


def crowd(**how):
    return adj.read(adj.simulate(**{"tasks": 60, "workers": 9, "labels": 3, "votes_per_task": 4, "seed": 3, **how}).votes)


def engine(devices=1, **how):
    return CudaEngine(tuple(ReferenceDevice(f"card {n}") for n in range(devices)), kernels=ReferenceKernels, threads=1, **how)


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    home.cupy.cache_clear()
    home.device_at.cache_clear()
    yield
    home.cupy.cache_clear()
    home.device_at.cache_clear()


class BrokenCupy:
    """CuPy where there is no driver, or no device."""

    __version__ = "14.0.0"

    def __init__(self, count):
        self.cuda = self.runtime = self
        self.count = count

    def getDeviceCount(self):  # noqa: N802
        if self.count is None:
            raise RuntimeError("CUDA driver is a stub library")
        return self.count


@pytest.fixture(params=[None, 0])
def no_device(request, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", BrokenCupy(request.param))
    home.cupy.cache_clear()
    home.device_at.cache_clear()
    yield request.param
    home.cupy.cache_clear()
    home.device_at.cache_clear()


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


def test_no_cupy(no_cupy):
    with pytest.raises(adj.AdjudgeError) as error:
        adj.aggregate([("t", "w", "x")], model="mv", engine="cuda")
    assert one_line(error).startswith("engine 'cuda' needs CuPy")
    assert one_line(error).endswith("pip install 'adjudge[cuda]'")


def test_no_device(no_device):
    with pytest.raises(adj.AdjudgeError) as error:
        adj.aggregate([("t", "w", "x")], model="mv", engine="cuda")
    assert "engine 'cuda' finds no CUDA device" in one_line(error)
    assert "choose engine='cpu'" in one_line(error)


def test_on_the_command_line(adjudge, no_cupy, tmp_path):
    (tmp_path / "votes.csv").write_text("task,worker,label\n1,ann,cat\n")
    code, out, err = adjudge("aggregate", tmp_path / "votes.csv", "--engine", "cuda")
    assert (code, out) == (1, "")
    assert "pip install 'adjudge[cuda]'" in err


def test_auto_asks_for_nothing_that_is_not_there(no_device, monkeypatch):
    from adjudge.engines import registry
    from adjudge.gpu import engine as of_engine

    monkeypatch.setattr(registry, "LARGE_VOTES", 0)
    monkeypatch.setattr(of_engine, "crossover_votes", lambda threads, *, warm: 0)
    monkeypatch.setattr(of_engine, "find_spec", lambda name: name)
    assert registry.resolve("auto", source=crowd()).name in ("cpu", "reference")


def test_doctor(no_device, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert doctor._cuda().state == "warn"
    assert "finds no CUDA device" in doctor._cuda().text


def test_doctor_without_cupy(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert doctor._cuda() == ("off", "CUDA", "no CuPy; the engine cuda needs it: pip install 'adjudge[cuda]'")


def test_doctor_with_a_device(monkeypatch):
    import importlib.util

    found = ReferenceDevice("a card", free=10**10)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(home, "device_at", lambda number: found)
    monkeypatch.setattr(home, "cupy", lambda: BrokenCupy(1))
    assert doctor._cuda() == ("ok", "CUDA", "a card, 10 of 10 GB free, CuPy 14.0.0")


def test_too_little_memory():
    votes = crowd()
    with pytest.raises(
        adj.AdjudgeError, match="needs about .* of device memory .* are allowed on card 0: allow more, choose engine='cpu'"
    ) as error:
        fit(votes, "ds", engine=engine(memory=1000))
    one_line(error)
    small = CudaEngine((ReferenceDevice("small", free=2000),), kernels=ReferenceKernels)
    with pytest.raises(adj.AdjudgeError, match="are free on small"):
        fit(votes, "ds", engine=small)
    automatic = CudaEngine((ReferenceDevice("small", free=2000),), kernels=ReferenceKernels, is_automatic=True)
    assert_same(fit(votes, "ds", engine=automatic), fit(votes, "ds", engine="cpu"))


def test_votes_of_other_fits_give_way():
    first, second = crowd(), adj.read(adj.simulate(tasks=60, workers=9, labels=3, votes_per_task=4, seed=4).votes)
    card = ReferenceDevice("card")
    made = CudaEngine((card,), kernels=ReferenceKernels)
    fit(first, "mv", engine=made)
    from adjudge.gpu import store

    assert first in store._RESIDENT
    whole = store.DeviceStore(made, second, 0, "hash", None)
    assert not whole.is_streamed
    assert first in store._RESIDENT
    card.free = round(little_memory(second) / 0.95)  # the tables fit, the votes do not
    assert store.DeviceStore(made, second, 0, "hash", None).is_streamed
    assert first not in store._RESIDENT


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("error", [adj.AdjudgeError("card 0 failed during a fit (lost)"), KeyboardInterrupt()])
@pytest.mark.parametrize("streams", [False, True])
def test_a_device_that_is_lost(devices, error, streams):
    votes = crowd()
    row = votes.row.copy()
    made = engine(devices)
    if streams:
        made = engine(devices, memory=little_memory(votes))

    def lose(row):
        if row.iteration == 2:
            made.devices[-1].lost = error

    before = set(threading.enumerate())  # other tests of this process may have left some
    with pytest.raises(type(error)):
        adj.DawidSkene().fit(votes, engine=made, progress=lose)
    assert np.array_equal(votes.row, row)
    assert set(threading.enumerate()) <= before
    made.devices[-1].lost = None  # healthy again, or another one
    assert_same(fit(votes, "ds", engine=made, max_iter=5), fit(votes, "ds", engine="cpu", max_iter=5))


def test_a_second_fit_is_planned_as_the_first():
    """Votes that a fit has left on a device take part; what else is there may have grown."""
    votes, card = crowd(), ReferenceDevice("card")
    made = CudaEngine((card,), kernels=ReferenceKernels, threads=1)
    fit(votes, "mv", engine=made)
    card.free = 1000
    with pytest.raises(adj.AdjudgeError, match="are free on card: choose engine='cpu'"):
        fit(votes, "ds", engine=made)
    assert_same(fit(votes, "ds", engine=replace(made, is_automatic=True)), fit(votes, "ds", engine="cpu"))


def test_fits_that_were_planned_apart():
    """Two sessions over the same votes, of which the second was planned with less memory, before either has copied them."""
    votes, card = crowd(tasks=300), ReferenceDevice("card")
    made = CudaEngine((card,), kernels=ReferenceKernels, threads=1)
    wide = made.load(votes, seed=0, ties="hash")
    size = wide._store._size
    card.free = round((size.tables() + 40 * votes.n_tasks) / 0.95)
    narrow = made.load(votes, seed=0, ties="hash")
    assert 1 == len(wide._store._plan.cuts) < len(narrow._store._plan.cuts)
    assert not narrow._store.is_streamed
    counts = [session.start(hard=True).class_counts.tolist() for session in (narrow, wide, narrow)]
    assert counts[0] == counts[1] == counts[2]


def test_a_session_can_be_used_after_an_interruption():
    """An interrupted pass leaves counts in between: the next one counts from the start."""
    votes, made = crowd(), engine(2)
    session = made.load(votes, seed=0, ties="hash")
    started = session.start(hard=True).class_counts
    made.devices[1].lost = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        session.recount(np.zeros(votes.n_tasks, np.int32))
    made.devices[1].lost = None
    assert np.array_equal(session.start(hard=True).class_counts, started)
    fresh = made.load(votes, seed=0, ties="hash")
    fresh.start(hard=True)
    theirs, ours = ([shard.labels.tolist() for shard in one._store.scan("", lambda _, shard: shard)] for one in (fresh, session))
    assert ours == theirs
    assert np.array_equal(session.recount(np.zeros(votes.n_tasks, np.int32)).class_counts, [votes.n_tasks, 0, 0])
    assert np.array_equal(session.start(hard=True).class_counts, started)


def test_kernels_that_do_not_compile():
    class Module:
        def __init__(self, error):
            self.error = error

        def get_function(self, name):
            raise self.error

    missing = RuntimeError("CuPy failed to load libnvrtc.so.12:\nno such file")
    with pytest.raises(adj.AdjudgeError, match=r"do not compile here \(CuPy failed to load libnvrtc") as error:
        home.Program(Module(missing)).launch("scan", 1, 32)
    assert "pip install 'adjudge[cuda]'" in one_line(error)
    with pytest.raises(ConnectionError):  # the device is gone: `current` says so
        home.Program(Module(ConnectionError()), failures=(ConnectionError,)).launch("scan", 1, 32)


def test_a_device_is_started_when_it_was_used(monkeypatch):
    monkeypatch.setattr(home.Device, "__init__", lambda self, number: None)
    monkeypatch.setitem(sys.modules, "cupy", BrokenCupy(1))
    for cached in (home.cupy, home.device_at):
        cached.cache_clear()
    assert not home.is_started()
    home.device_at(0)
    assert home.is_started()
    for cached in (home.cupy, home.device_at):
        cached.cache_clear()


def test_a_launch_requests_more_shared_memory_if_variables_leave_too_little():
    """By default a block has 48 KiB of shared memory, for the kernel's variables and the launch's buffers together."""
    asked = []

    class Kernel:
        shared_size_bytes = 8 << 10

        def __setattr__(self, name, value):
            asked.append((name, value))

        def __call__(self, *launch, shared_mem):
            pass

    class Module:
        def get_function(self, name):
            return Kernel()

    program = home.Program(Module())
    for kib in (0, 40, 41, 60, 41, 60):
        program.launch("scan", 1, 32, shared=kib << 10)
    assert asked == [("max_dynamic_shared_size_bytes", 41 << 10), ("max_dynamic_shared_size_bytes", 60 << 10)]
