"""Differences between systems, as far as one system can show them; and the package's requirements."""

import tomllib
from pathlib import Path

import pytest

import adjudge as adj
from adjudge.io import write

PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
VOTES = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")]


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr("adjudge.errors.IS_WINDOWS", True)


def test_the_core_depends_on_six_packages():
    names = {requirement.partition(">")[0] for requirement in PROJECT["dependencies"]}
    assert names == {"numpy", "polars", "narwhals", "msgspec", "typer", "rich"}


def test_one_version_everywhere():
    citation = Path(__file__).parents[1].joinpath("CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == adj.__version__
    assert f"\nversion: {adj.__version__}\n" in citation


def test_windows_has_no_encoded_folders(windows, tmp_path):
    with pytest.raises(adj.AdjudgeError, match="a folder of encoded votes is not supported on Windows: use Linux, macOS or WSL"):
        adj.encode(VOTES, tmp_path / "votes")
    assert not list(tmp_path.iterdir())
    with pytest.raises(adj.AdjudgeError, match="engine='disk' is not supported on Windows"):
        adj.aggregate(VOTES, model="fds", engine="disk")


def test_windows_does_not_open_an_encoded_folder(tmp_path, monkeypatch):
    adj.encode(VOTES, tmp_path / "votes")
    monkeypatch.setattr("adjudge.errors.IS_WINDOWS", True)
    with pytest.raises(adj.AdjudgeError, match="a folder of encoded votes is not supported on Windows"):
        adj.aggregate(tmp_path / "votes", model="fds")


def test_windows_has_no_live_service(windows, tmp_path):
    from adjudge.service.http.server import Settings, serve
    from adjudge.service.store.sqlite import SqliteStore

    with pytest.raises(adj.AdjudgeError, match="the live service is not supported on Windows"):
        serve(Settings(store=str(tmp_path / "votes.db")))
    with pytest.raises(adj.AdjudgeError, match="writing to a store is not supported on Windows"):
        SqliteStore(tmp_path / "votes.db")
    assert not list(tmp_path.iterdir())


def test_without_file_locks_the_temporary_file_is_closed_before_it_is_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "fcntl", None)
    closed = []
    monkeypatch.setattr(write.os, "close", closed.append)
    write.write_aside(tmp_path / "x.txt", lambda aside: closed and aside.write_text("new"))
    assert len(closed) == 1
    monkeypatch.undo()
    write.os.close(closed[0])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.txt", "new")]


def test_without_file_locks_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "fcntl", None)

    def fail(_: Path) -> None:
        raise OSError("full")

    with pytest.raises(adj.AdjudgeError, match="full"):
        write.write_aside(tmp_path / "x.txt", fail)
    assert not list(tmp_path.iterdir())


def test_free_memory_of_windows(monkeypatch):
    import ctypes
    from types import SimpleNamespace

    from adjudge.data import memory

    def fill(status):
        assert (len(status) * 8, status[0]) == (64, 64)
        status[0], status[1], status[2] = 64 | 50 << 32, 16 << 30, 8 << 30

    kernel = SimpleNamespace(GlobalMemoryStatusEx=fill)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(memory, "Path", lambda _: Path("/nowhere"))
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.free_memory() == 8 << 30
