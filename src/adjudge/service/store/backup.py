"""A copy of a store in one file, made while the store is in use."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from adjudge.errors import InputError
from adjudge.io.write import check_folder, identities, write_aside
from adjudge.service.store.errors import StoreError
from adjudge.service.store.link import Row
from adjudge.service.store.protocol import Store
from adjudge.service.store.snapshots import sync_folder
from adjudge.service.store.sqlite import make_tables
from adjudge.service.store.tables import TABLES

STEP: Final = 4096  # pages of SQLite that are copied at once
SQLITE_SIDE_FILE_SUFFIXES: Final = ("-wal", "-journal")  # what SQLite keeps beside a file that is in use, or was not closed


def check_target(path: Path, store: Store) -> None:
    """Raise where a backup would damage what is there, before any work.

    - `path`: of the backup.
    - `store`: what is copied.
    """
    check_folder(path)
    if "://" not in store.url and identities(path) & identities(store.url):
        raise InputError(f"cannot write the backup {path}: it is the store itself; give another path")
    for end in SQLITE_SIDE_FILE_SUFFIXES:
        if path.with_name(path.name + end).exists():
            raise InputError(
                f"cannot write the backup {path}: it is a store in use ({path.name}{end} is there); give another path"
            )


def write_store(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Write a SQLite file completely or not at all; it is on disk when this returns.

    - `path`: of the file.
    - `fill`: called with a connection to an empty database.
    """

    def write(aside: Path) -> None:
        aside.chmod(0o600)  # it holds what the store holds
        connection = sqlite3.connect(aside, isolation_level=None)
        try:
            # The file is thrown away if anything fails, and synced as a whole at the end.
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
    """Copy the tables of another database.

    - `rows_of`: called with the name of a table, yields all its rows as they are at one moment.
    - `store`: whose they are.
    - `path`: of the backup.
    """
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
    """Copy what is committed now, with SQLite's own means.

    - `source`: a connection that reads.
    - `store`: whose it is.
    - `path`: of the backup.
    """
    check_target(path, store)

    def fill(target: sqlite3.Connection) -> None:
        # Within one transaction of reading every step sees the same commit; else each later commit would begin it anew.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM campaign").fetchall()
            source.backup(target, pages=STEP, sleep=0)
        finally:
            source.execute("ROLLBACK")
        mode = target.execute("PRAGMA journal_mode = DELETE").fetchone()[0]  # one file, readable where nothing can be written
        if mode != "delete":
            raise StoreError(f"cannot write the backup {path}: its journal is {mode}")

    write_store(path, fill)
