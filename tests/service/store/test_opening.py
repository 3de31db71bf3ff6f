"""What opening a store loads, and what nothing else does."""

import ast
import builtins
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import adjudge
from adjudge.service.store.errors import StoreError
from adjudge.service.store.opening import open_store

SOURCE = Path(adjudge.__file__).parent


def loaded(code):
    """Modules loaded by running this code in a fresh interpreter."""
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    return set(out.splitlines()[-1].split())


def test_nothing_but_a_store_loads_a_database():
    modules = loaded("import adjudge as adj; adj.aggregate([('t', 'w', 'x'), ('t', 'v', 'x')]).labels")
    assert not {m for m in modules if m.startswith(("adjudge.service.store", "psycopg", "sqlite3"))}
    modules = loaded("import adjudge.service.store.opening")
    assert not {m for m in modules if m.startswith(("psycopg", "sqlite3", "polars"))}


def test_a_file_needs_no_driver_of_postgresql(tmp_path):
    modules = loaded(f"from adjudge.service.store.opening import open_store; open_store({str(tmp_path / 'votes.db')!r}).close()")
    assert "adjudge.service.store.sqlite" in modules
    assert not {m for m in modules if m.startswith("psycopg")}


@pytest.mark.parametrize(
    ("library", "homes"),
    [("sqlite3", {"service/store/sqlite.py", "service/store/backup.py"}), ("psycopg", {"service/store/postgres.py"})],
)
def test_each_driver_has_its_home(library, homes):
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == library for name in names):
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == homes


def test_without_the_driver_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "psycopg":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setitem(sys.modules, "adjudge.service.store.postgres", None)
    sys.modules.pop("adjudge.service.store.postgres")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(StoreError, match=r"needs psycopg: pip install 'adjudge\[postgres\]'"):
        open_store("postgresql://localhost/votes")
    monkeypatch.undo()
    importlib.import_module("adjudge.service.store.opening")
