"""A store in PostgreSQL: several processes share one database, and each campaign is written by one of them.

The same tables as in SQLite, in a schema of their own. A session's advisory lock determines which process owns a campaign. The
lock and the writes share one connection: when it breaks, the lock is released and nothing more can be written over it.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import NotOwner, OutOfStep, StoreError, StoreUnavailable
from adjudge.service.store.log import checksum, split_parts
from adjudge.service.store.rows import COLUMN_TYPES, TABLES, VERSION, Link, Row, statements
from adjudge.service.store.snapshots import SNAPSHOTS_PER_CAMPAIGN, Snapshots, Unusable
from adjudge.service.store.store import Store

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise StoreError("a store in PostgreSQL needs psycopg: pip install 'adjudge[postgres]'") from missing

LOG: Final = logging.getLogger(__name__)
SCHEMA_NAME: Final = "adjudge"
LOCKS: Final = 0x41444A47  # "ADJG": the first key of our advisory locks; the second is the campaign, or 0 for migrations
CONNECT_LIMIT_S: Final = 5
SNAPSHOT_TABLES: Final = ("snapshot", "snapshot_part")
HELD: Final = """FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = ?::oid
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
OWNER: Final = f"SELECT a.pid, a.application_name {HELD} AND l.objid = ?::oid"
HOLDS: Final = f"SELECT l.objid::bigint {HELD} AND l.objid <> 0 AND l.pid = ?"
OTHERS: Final = f"SELECT l.objid::bigint, a.application_name {HELD} AND l.objid <> 0 AND a.application_name <> ?"


class PostgresLink:
    """A connection."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection
        self.pid = connection.info.backend_pid  # identifies it on the server

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return the result of a query."""
        return self.connection.execute(_with_psycopg_marks(sql), values, binary=True).fetchall()

    def run(self, sql: str, *values: object) -> int:
        """Return how many rows a statement has changed."""
        return self.connection.execute(_with_psycopg_marks(sql), values).rowcount

    def numbers(self, table: str, count: int) -> list[int]:
        """Return numbers for new rows of a table."""
        sql = "SELECT nextval(pg_get_serial_sequence(?, 'number')) FROM generate_series(1, ?)"
        return [row[0] for row in self.rows(sql, table, count)]

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Insert rows with one statement."""
        kinds = COLUMN_TYPES["postgresql"]
        types = ["int" if (kind := TABLES[table][column]) == "serial" else kind for column in columns]
        arrays = ", ".join(f"?::{kinds[kind]}[]" for kind in types)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"
        self.run(sql, *(list(column) for column in zip(*rows, strict=True)))

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self.connection.close()


class PostgresStore(Store):
    """A store in PostgreSQL, at `postgresql://user:password@host/database`; with `readonly` the tables must exist."""

    is_shared = True
    contains = "position(?::bytea in body) > 0"

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        super().__init__(_without_password(url), readonly=readonly)
        self._address = url
        # Unique, so that a process can tell its own locks from those of another with the same number on another machine.
        self._name = f"adjudge {socket.gethostname()[:24]} {os.getpid()} {secrets.token_hex(4)}"
        self._owned: set[int] = set()
        self._unbroken: frozenset[int] = frozenset()  # those of them that this connection has held since `own` was called
        self._writer: PostgresLink | None = None
        try:
            with self._translate_errors("opened"):
                if readonly:
                    with self.reading() as link:
                        self._read_version(link)
                else:
                    self._writer = PostgresLink(self._connect())
                    self._migrate(self._writer)
        except BaseException:
            self.close()
            raise

    def _connect(self, *, reads: bool = False) -> psycopg.Connection[Row]:
        connection = psycopg.connect(
            self._address, autocommit=True, connect_timeout=CONNECT_LIMIT_S, application_name=self._name, client_encoding="utf8"
        )
        try:
            connection.execute(f"SET search_path = {SCHEMA_NAME}")
            connection.execute("SET synchronous_commit = on" if not reads else "SET default_transaction_read_only = on")
        except BaseException:
            connection.close()
            raise
        return connection

    # Tables

    def _read_version(self, link: Link) -> int:
        """Return the version of the tables, 0 if there are none; raise if they are of another program, or newer."""
        encoding, sync = link.rows("SELECT current_setting('server_encoding'), current_setting('fsync')")[0]
        if encoding != "UTF8":
            raise StoreError(f"the database {self.url} has the encoding {encoding}: adjudge needs one with UTF8")
        if sync != "on":
            LOG.warning("PostgreSQL runs with fsync=%s: acknowledged votes may be lost when its machine fails", sync)
        tables = {row[0] for row in link.rows("SELECT tablename FROM pg_tables WHERE schemaname = ?", SCHEMA_NAME)}
        if "store" not in tables:
            if tables:
                raise StoreError(f"the schema {SCHEMA_NAME} of {self.url} is of another program: give another database")
            if self.readonly:
                raise StoreError(f"there is no store in {self.url}")
            return 0
        return self._check_version(int(link.rows("SELECT version FROM store")[0][0]))

    def _migrate(self, link: PostgresLink) -> None:
        version = self._read_version(link)
        while version < VERSION:
            with link.connection.transaction():
                link.run("SELECT pg_advisory_xact_lock(?, 0)", LOCKS)
                version = self._read_version(link)  # another process may have migrated it
                if version == VERSION:
                    return
                if version == 0:
                    link.run(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA_NAME}")
                    link.run("CREATE TABLE store (version bigint NOT NULL)")
                    link.run("INSERT INTO store VALUES (0)")
                for statement in statements(version + 1, "postgresql"):
                    link.run(statement)
                version += 1
                link.run("UPDATE store SET version = ?", version)

    # Connections

    def _connect_reader(self) -> PostgresLink:
        return _Reader(self)

    @contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        """Raise errors of PostgreSQL as ours. Their first line is enough, and quotes no values."""
        try:
            yield
        except psycopg.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if isinstance(error, psycopg.errors.UniqueViolation):
                raise OutOfStep(f"the store {self.url} was written by another process at the same time: {reason}") from error
            kind = StoreUnavailable if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else StoreError
            raise kind(f"the store {self.url} cannot be {action}: {reason}") from error

    @contextmanager
    def writing(self) -> Iterator[PostgresLink]:
        """Lend the connection that writes, for one transaction; a new one if the old one broke."""
        if self._closed or self.readonly:
            raise self._refusal()
        with self._translate_errors("written"):
            link = self._live_writer()
            try:
                with link.connection.transaction():
                    yield link
            except psycopg.Error:
                self._drop_broken()
                raise

    def _live_writer(self) -> PostgresLink:
        """Return the writing connection; if it broke, reconnect and take its locks again."""
        if self._writer is None or self._writer.connection.closed:
            link = PostgresLink(self._connect())
            try:
                held = {campaign for campaign in sorted(self._owned) if self._lock(link, campaign)}
            except BaseException:  # it broke again: the next call takes the locks
                link.close()
                raise
            # Another process may have owned a campaign meanwhile, and written: callers of `own` read the log again.
            self._writer, self._owned, self._unbroken = link, held, frozenset()
            self._heads.clear()
        return self._writer

    def _drop_broken(self) -> None:
        if self._writer is not None and (self._writer.connection.closed or self._writer.connection.broken):
            self._writer.close()
            self._writer = None

    # Owners

    def own(self, campaign: int) -> None:
        """Make this process the one that writes a campaign; raise `NotOwner` if another is."""
        with self.writing() as link:
            if campaign not in self._owned:
                if not self._lock(link, campaign):
                    raise self._not_owner(campaign)
                self._owned.add(campaign)
                self._heads.pop(campaign, None)  # another process may have written since
            self._unbroken |= {campaign}

    def _lock(self, link: PostgresLink, campaign: int) -> bool:
        """Take the lock of a campaign if it is free, or held by a lost connection of this process; return whether it was."""
        for _ in range(3):
            if link.rows("SELECT pg_try_advisory_lock(?, ?)", LOCKS, campaign)[0][0]:
                return True
            held = link.rows(OWNER, LOCKS, campaign)
            if not held:
                continue  # the holder has released it since
            if held[0][1] != self._name:
                return False
            link.rows("SELECT pg_terminate_backend(?, 2000)", held[0][0])  # a lost connection of ours
        return False

    def _not_owner(self, campaign: int) -> NotOwner:
        who = self.owner(campaign)
        by = f"is written by {who}" if who else "is not owned by this process"
        return NotOwner(f"campaign {campaign} of {self.url} {by}: send votes there, or let it end first")

    def release(self, campaign: int) -> None:
        """Let another process own a campaign."""
        if campaign in self._owned:
            self._owned.discard(campaign)
            self._unbroken -= {campaign}
            self._heads.pop(campaign, None)
            with self.writing() as link:
                link.rows("SELECT pg_advisory_unlock(?, ?)", LOCKS, campaign)

    def owner(self, campaign: int) -> str | None:
        """Return the process that owns a campaign: its machine and number."""
        with self.reading() as link:
            rows = link.rows(OWNER, LOCKS, campaign)
        return _describe_process(rows[0][1]) if rows else None

    def others(self) -> dict[int, str]:
        """Return the campaigns that other processes own, and these processes."""
        with self.reading() as link:
            return {campaign: _describe_process(name) for campaign, name in link.rows(OTHERS, LOCKS, self._name)}

    def held(self) -> frozenset[int]:
        """Return the campaigns whose locks the writing connection holds now, by a query on another connection."""
        unbroken, writer = self._unbroken, self._writer
        if writer is None or not unbroken:
            return frozenset()
        with self.reading() as link:
            rows = link.rows(HOLDS, LOCKS, writer.pid)
        return unbroken.intersection(row[0] for row in rows) if self._writer is writer else frozenset()

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction, which is on disk when this returns."""
        with self._translate_errors("written"):
            if not self._closed and not self.readonly:
                self._live_writer()  # may lose campaigns to other processes
        for campaign in batch.campaigns():
            if campaign not in self._owned:
                raise self._not_owner(campaign)
        super().write(batch)

    # Copies

    def snapshots(self, campaign: int) -> Snapshots:
        """Return the snapshots of a campaign: rows of a table."""
        return PostgresSnapshots(self, campaign)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write everything committed into one file."""
        from adjudge.service.store.backup import copy_tables

        with self._translate_errors("copied"), self._connect(reads=True) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                copy_tables(lambda table: _copy_rows(connection, table), self, Path(path))

    def fill(self, tables: Mapping[str, Iterable[Row]]) -> None:
        """Insert the rows of a backup, all columns in the order of `TABLES`, into empty tables, in one transaction."""
        with self.writing() as link:
            for table, rows in tables.items():
                if link.rows(f"SELECT 1 FROM {table} LIMIT 1"):
                    raise StoreError(f"cannot restore into {self.url}: it is not empty; give a new database")
                columns = TABLES[table]
                copy = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
                with link.connection.cursor() as cursor, cursor.copy(copy) as target:
                    target.set_types(_types(table))
                    for row in rows:
                        target.write_row(row)
                if "serial" in columns.values():
                    link.run(f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table}")

    def overwrite(self) -> None:
        """Do nothing: the server does it when it vacuums."""

    def tidy(self, *, idle: bool = False) -> None:
        """Do nothing: the server does it."""

    def close(self) -> None:
        """Close the connections, which releases the campaigns."""
        self._close_readers()
        if self._writer is not None:
            with suppress(psycopg.Error):  # at once, instead of when the server notices the end of the connection
                self._writer.rows("SELECT pg_advisory_unlock_all()")
            self._writer.close()
            self._writer = None
        self._owned.clear()


class _Reader(PostgresLink):
    """A connection that reads, and reconnects if it broke: each query is a transaction of its own."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        super().__init__(store._connect(reads=True))

    def rows(self, sql: str, *values: object) -> list[Row]:
        try:
            return super().rows(sql, *values)
        except psycopg.OperationalError:
            if not self.connection.closed:
                raise
            self.connection = self._store._connect(reads=True)
            return super().rows(sql, *values)


class PostgresSnapshots(Snapshots):
    """Snapshots of a campaign as rows."""

    _store: PostgresStore

    def save(self, position: int, state: bytes) -> None:
        """Save the state at a position, on a connection of its own, so that the writer need not wait."""
        header = self._header(position)
        key = (self._campaign, position)
        with self._transaction() as link:
            for table in SNAPSHOT_TABLES:
                link.run(f"DELETE FROM {table} WHERE campaign = ? AND position = ?", *key)
            checks = [header]
            for part, body in enumerate(split_parts(state)):
                link.run("INSERT INTO snapshot_part (campaign, position, part, body) VALUES (?, ?, ?, ?)", *key, part, body)
                checks.append(checksum(body))
            link.run(
                "INSERT INTO snapshot (campaign, position, header, checksum) VALUES (?, ?, ?, ?)", *key, header, checksum(*checks)
            )
            old = "SELECT position FROM snapshot WHERE campaign = ? ORDER BY position DESC OFFSET ? LIMIT 1"
            for (last,) in link.rows(old, self._campaign, SNAPSHOTS_PER_CAMPAIGN):
                for table in SNAPSHOT_TABLES:
                    link.run(f"DELETE FROM {table} WHERE campaign = ? AND position <= ?", self._campaign, last)

    @contextmanager
    def _transaction(self) -> Iterator[PostgresLink]:
        with self._store._translate_errors("written"), self._store._connect() as connection, connection.transaction():
            yield PostgresLink(connection)

    def positions(self) -> list[int]:
        """Return the positions of all snapshots, newest first."""
        with self._store.reading() as link:
            rows = link.rows("SELECT position FROM snapshot WHERE campaign = ? ORDER BY position DESC", self._campaign)
        return [row[0] for row in rows]

    def read(self, position: int) -> bytes | None:
        """Return the state at a position, None if it is no longer needed; raise `Unusable` if it cannot be used."""
        key = self._campaign, position
        with self._store.reading() as link:
            head = link.rows("SELECT header, checksum FROM snapshot WHERE campaign = ? AND position = ?", *key)
            rows = link.rows("SELECT part, body FROM snapshot_part WHERE campaign = ? AND position = ? ORDER BY part", *key)
            if not head or not link.rows("SELECT 1 FROM snapshot WHERE campaign = ? AND position = ?", *key):
                return None  # superseded meanwhile
        header, check = head[0]
        numbers, bodies = [row[0] for row in rows], [row[1] for row in rows]
        if numbers != list(range(len(rows))) or checksum(header, *map(checksum, bodies)) != check:
            raise Unusable("the checksum differs")
        return b"".join(bodies) if self._is_current(position, header) else None

    def forget(self, before: int) -> None:
        """Remove the snapshots of positions before this one."""
        with self._transaction() as link:
            for table in SNAPSHOT_TABLES:
                link.run(f"DELETE FROM {table} WHERE campaign = ? AND position < ?", self._campaign, before)


def _copy_rows(connection: psycopg.Connection[Row], table: str) -> Iterator[Row]:
    """Yield all rows of a table."""
    copy = f"COPY (SELECT {', '.join(TABLES[table])} FROM {table} ORDER BY 1, 2) TO STDOUT (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(copy) as source:
        source.set_types(_types(table))
        yield from source.rows()


def _types(table: str) -> list[str]:
    return ["int8" if kind == "serial" else COLUMN_TYPES["postgresql"][kind] for kind in TABLES[table].values()]


@lru_cache(maxsize=256)
def _with_psycopg_marks(sql: str) -> str:
    """Return SQL with psycopg's placeholders; our statements contain no other question marks or percent signs."""
    return sql.replace("?", "%s")


def _describe_process(name: str | None) -> str:
    """Return the process of a connection in words, by the application name that it has set."""
    words = (name or "").split(" ")
    return f"process {words[2]} on {words[1]}" if len(words) == 4 and words[0] == "adjudge" else "another process"


def _without_password(url: str) -> str:
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        raise StoreError("the address of the store cannot be read: give postgresql://user:password@host/database") from None
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
