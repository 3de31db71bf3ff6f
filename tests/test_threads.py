"""Any number of threads may use a stream, or fit votes, at once."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

import quorate as qr
import thread_stress
from quorate.online import stream as online_module


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


@pytest.mark.filterwarnings("ignore::quorate.NotConverged")
@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["fds", "ds", "auto"])
def test_writers_and_readers(model, confidence, kernels, tmp_path):
    thread_stress.write_and_read(model, 200 if kernels == "compiled" else 10, tmp_path, confidence)


def test_fits_at_once():
    thread_stress.fits_at_once(3)


def test_files_written_at_once_leave_the_mode_mask_alone(tmp_path, monkeypatch):
    """The mask belongs to the process: a thread that sets it, be it to read it, can lose that of another."""
    before = os.umask(0o027)
    try:
        online = qr.Online(labels=["a"])
        online.learn("t", "w", "a")
        with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
            patch.setattr(os, "umask", None)
            list(pool.map(lambda n: online.save(tmp_path / f"{n % 4}"), range(40)))
        assert (tmp_path / "0").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
