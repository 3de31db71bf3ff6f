"""Backups: a copy of a store in one file, made while the store is in use, and a store restored from one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from adjudge.errors import InputError
from adjudge.io.write import check_folder, identities, write_aside
from adjudge.service.store.errors import StoreError
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import TABLES, Row
from adjudge.service.store.snapshots import sync_folder
from adjudge.service.store.sqlite import SqliteStore, make_tables
from adjudge.service.store.store import Store
from adjudge.service.store.verify import verify, verify_shared

COPY_PAGES: Final = 4096  # of SQLite, copied at once
SQLITE_SIDE_FILE_SUFFIXES: Final = ("-wal", "-journal")  # next to a file that is in use, or was not closed


def check_target(path: Path, store: Store) -> None:
    """Raise, before any work, if a backup of a store at this path would damage existing data."""
    check_folder(path)
    if "://" not in store.url and identities(path) & identities(store.url):
        raise InputError(f"cannot write the backup {path}: it is the store itself; give another path")
    for suffix in SQLITE_SIDE_FILE_SUFFIXES:
        if path.with_name(path.name + suffix).exists():
            raise InputError(
                f"cannot write the backup {path}: it is a store in use ({path.name}{suffix} is there); give another path"
            )


def write_store(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Write a SQLite file completely or not at all; it is on disk when this returns.

    `fill` gets a connection to an empty database.
    """

    def write(aside: Path) -> None:
        aside.chmod(0o600)  # its content is as secret as that of the store
        connection = sqlite3.connect(aside, isolation_level=None)
        try:
            # The file is discarded if anything fails, and synced as a whole at the end.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            fill(connection)
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {path}: {error}") from error
        finally:
            connection.close()
        with aside.open("rb+") as file:
            os.fsync(file.fileno())

    write_aside(path, write)
    sync_folder(Path(os.path.realpath(path)).parent)


def copy_tables(rows_of: Callable[[str], Iterator[Row]], store: Store, path: Path) -> None:
    """Back up a store of another database; `rows_of` yields all rows of a table as they are at one moment."""
    check_target(path, store)

    def fill(target: sqlite3.Connection) -> None:
        make_tables(target)
        target.execute("BEGIN")
        for table, columns in TABLES.items():
            marks = ", ".join("?" * len(columns))
            target.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows_of(table))
        target.execute("COMMIT")

    write_store(path, fill)


def copy_sqlite(source: sqlite3.Connection, store: Store, path: Path) -> None:
    """Back up a SQLite store, as committed now, with SQLite's own backup; `source` is a connection that reads."""
    check_target(path, store)

    def fill(target: sqlite3.Connection) -> None:
        # Within one read transaction every step sees the same commit; otherwise each later commit would restart the copy.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM campaign").fetchall()
            source.backup(target, pages=COPY_PAGES, sleep=0)
        finally:
            source.execute("ROLLBACK")
        mode = target.execute("PRAGMA journal_mode = DELETE").fetchone()[0]  # one file, readable on a read-only disk
        if mode != "delete":
            raise StoreError(f"cannot write the backup {path}: its journal is {mode}")

    write_store(path, fill)


def restore(backup: str | os.PathLike[str], url: str | os.PathLike[str]) -> None:
    """Create a store from a backup, after checking every row of it.

    `url` is an unused path for the new store, or the address of a database without a store.
    """
    source = SqliteStore(backup, readonly=True)
    try:
        problems = [*verify_shared(source)[1], *(problem for campaign in verify(source) for problem in campaign.problems)]
        if problems:
            raise StoreError(f"the backup {os.fspath(backup)} is damaged: {problems[0]}")
        target = os.fspath(url)
        if "://" not in target:
            if os.path.lexists(target):
                raise StoreError(f"cannot restore to {target}: it is there already; move it away, or give another path")
            source.backup(Path(target))
            return
        store = open_store(target)
        try:
            store.fill(source.tables())  # type: ignore[attr-defined]
        finally:
            store.close()
    finally:
        source.close()
