"""A store in one SQLite file: nothing to install, nothing to start.

Write-ahead log, `synchronous=FULL`: a commit has reached the disk when it returns. One connection writes. Readers have
their own, and neither waits for the other. A lock on a file beside the store keeps a second writer out.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from adjudge.errors import refuse_windows
from adjudge.service.store.batch import Batch
from adjudge.service.store.checkpoints import Checkpoints
from adjudge.service.store.errors import DamagedStore, NotOwner, StoreError, StoreUnavailable
from adjudge.service.store.link import Row
from adjudge.service.store.migrations import VERSION, statements
from adjudge.service.store.pages import LogHead, sealed
from adjudge.service.store.protocol import Snapshots
from adjudge.service.store.snapshots import FileSnapshots
from adjudge.service.store.sql import SqlStore, decision_values
from adjudge.service.store.tables import TABLES

try:
    import fcntl
except ImportError:  # Windows, where stores are only read
    fcntl = None  # type: ignore[assignment]

APPLICATION: Final = 0x41444A47  # "ADJG", in the header of the file
BUSY_MS: Final = 5000  # how long another program may hold SQLite's lock
READERS: Final = 8  # connections kept for the next reader
MOST_VALUES: Final = 999  # in one statement, in every version of SQLite
WAL_BYTES: Final = 4 << 20  # written since the last checkpoint: time for the next
LONG_WAL: Final = 64 << 20  # since the last checkpoint without commits beside it: only after one does the log begin anew
KEPT_WAL: Final = 64 << 20  # bytes of the write-ahead log's file that stay allocated
# A view of this connection alone: what is inserted into it becomes a page of the log and one of decisions.
ONE_PAGE: Final = (
    "PRAGMA temp_store = MEMORY",
    """CREATE TEMP VIEW page AS SELECT 0 AS campaign, 0 AS first, 0 AS count, 0 AS body, 0 AS checksum,
        0 AS decided, 0 AS last, 0 AS decisions, 0 AS decisions_checksum""",
    """CREATE TEMP TRIGGER page_written INSTEAD OF INSERT ON page BEGIN
        SELECT raise(ABORT, 'out of step') WHERE NEW.first <>
            coalesce((SELECT first + count FROM log WHERE campaign = NEW.campaign ORDER BY first DESC LIMIT 1), 1);
        INSERT INTO log (campaign, first, count, body, checksum)
            VALUES (NEW.campaign, NEW.first, NEW.count, NEW.body, NEW.checksum);
        INSERT INTO decision (campaign, first, part, last, body, checksum)
            SELECT NEW.campaign, NEW.decided, 0, NEW.last, NEW.decisions, NEW.decisions_checksum
            WHERE NEW.decisions IS NOT NULL;
        END""",
)
INSERT_PAGE: Final = "INSERT INTO page VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
PRIVATE: Final = 0o600  # mode of a new file
CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SQLITE_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "another program holds the file; end it",
    sqlite3.SQLITE_READONLY: "the file, or its folder, is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file, or its folder, cannot be opened",
    sqlite3.SQLITE_PERM: "permission is missing",
}


def library_version() -> str:
    """Return the version of the SQLite library."""
    return sqlite3.sqlite_version


class SqliteLink:
    """A connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.bytes = 0  # written in this transaction, about

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return what a query gives."""
        return self.connection.execute(sql, values).fetchall()

    def run(self, sql: str, *values: object) -> int:
        """Return how many rows a statement has changed."""
        self.bytes += 8192 + sum(len(value) for value in values if isinstance(value, bytes))
        return self.connection.execute(sql, values).rowcount

    def numbers(self, table: str, count: int) -> list[int]:
        """Return so many numbers for new rows of a table, in a transaction that inserts them."""
        rows = self.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", table)
        last = rows[0][0] if rows else 0
        return list(range(last + 1, last + 1 + count))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Insert rows, many with one statement: the interpreter's lock is let go of and fought for at each."""
        most = MOST_VALUES // len(columns)
        marks = f"({', '.join('?' * len(columns))})"
        start = 0
        while start < len(rows):
            # Powers of two: few different statements, which SQLite need not parse again.
            size = min(1 << (most.bit_length() - 1), 1 << ((len(rows) - start).bit_length() - 1))
            values = [value for row in rows[start : start + size] for value in row]
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * size)}"
            self.connection.execute(sql, values)
            self.bytes += 4096 * size + sum(len(value) for value in values if isinstance(value, bytes))
            start += size


class SqliteStore(SqlStore):
    """A store in one SQLite file.

    - `path`: of the file; it is made where it is missing.
    - `readonly`: reads only, beside a process that writes; then the file must be there.
    """

    is_shared = False
    contains = "instr(body, ?) > 0"

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        super().__init__()
        self.path = Path(os.path.realpath(path))
        self.url = os.fspath(path)
        self.readonly = readonly
        self._pool: list[SqliteLink] = []
        self._guard = threading.Lock()
        self._closed = False
        self._lock: int | None = None
        self._writer: SqliteLink | None = None
        self._since = WAL_BYTES  # bytes since the last checkpoint, about; one may be due from before
        self._length = 0  # bytes since the last one that the writer made
        self._checkpoints = Checkpoints(lambda: self._connection("rw"))
        self._erased = False
        self._check()
        if readonly:
            with self._translated("opened"), self.reading() as link:
                self._version(link.connection)
            return
        try:
            self._lock = _locked(self.path)
            with self._translated("opened"):
                self._writer = SqliteLink(self._opened_for_writing())
        except BaseException:
            self._unlock()
            raise

    def _check(self) -> None:
        """Raise where there is no such file, or cannot be."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            if self.readonly:
                raise StoreError(f"there is no store {self.url}") from None
            if not self.path.parent.is_dir():
                raise StoreError(f"cannot make the store {self.url}: there is no folder {self.path.parent}") from None
            return
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot open the store {self.url}: {getattr(error, 'strerror', None) or error}") from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"cannot open the store {self.url}: it is no file")

    def _connection(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(os.fspath(self.path))}?mode={mode}"
        if mode == "ro" and not os.access(self.path.parent, os.W_OK) and not _beside(self.path, "-wal").exists():
            uri += "&immutable=1"  # nobody writes it; SQLite would want to make files beside it
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _opened_for_writing(self) -> sqlite3.Connection:
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise StoreUnavailable(f"the store {self.url} cannot be opened: the file is read-only")
        # Secrets of webhooks and names of workers are in it: others on the machine do not read a new one. What SQLite makes
        # beside it has the same mode.
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
        connection = self._connection("rwc")
        try:
            self._version(connection)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(f"the store {self.url} cannot have a write-ahead log here ({mode}): use a local disk")
            # Every commit is synced. Checkpoints are the writer's to time, so that none makes a commit wait for long.
            for setting in ("synchronous = FULL", "wal_autocheckpoint = 0", f"journal_size_limit = {KEPT_WAL}"):
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA secure_delete = ON")  # an erased name is overwritten
            make_tables(connection, self._version(connection))
            for statement in ONE_PAGE:
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 for an empty file; raise for a file that is no store, or a newer one."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if application != APPLICATION:
            empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application or version or not empty or self.readonly:
                raise StoreError(f"{self.url} is a database of another program, not a store of adjudge: give another path")
            return 0
        if version > VERSION:
            raise StoreError(
                f"the store {self.url} is of a newer adjudge (its tables have version {version}, this one knows {VERSION}): "
                "upgrade adjudge"
            )
        if self.readonly and version < VERSION:
            raise StoreError(f"the store {self.url} is of an older adjudge (version {version}): open it for writing once")
        return version

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Turn errors of SQLite into ours."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_NOTADB:
                raise StoreError(f"{self.url} is not a database: give the path of a store, or of a new file") from error
            if code in CORRUPT:
                raise DamagedStore(f"the store {self.url} is damaged: {error}; restore a backup") from error
            reason = SQLITE_REASONS.get(code, str(error))
            raise StoreUnavailable(f"the store {self.url} cannot be {what}: {reason}") from error

    @contextmanager
    def reading(self) -> Iterator[SqliteLink]:
        """Lend a connection that reads."""
        with self._translated("read"):
            with self._guard:
                if self._closed:
                    raise StoreError(f"the store {self.url} is closed")
                link = self._pool.pop() if self._pool else None
            if link is None:
                link = SqliteLink(self._connection("ro"))
            try:
                yield link
            except BaseException:
                link.connection.close()
                raise
            with self._guard:
                if len(self._pool) < READERS and not self._closed:
                    self._pool.append(link)
                    return
            link.connection.close()

    @contextmanager
    def writing(self) -> Iterator[SqliteLink]:
        """Lend the connection that writes, for one transaction."""
        if self._writer is None:
            state = "closed" if self._closed else "open for reading only"
            raise StoreError(f"the store {self.url} is {state}")
        link = self._writer
        link.bytes = 0
        with self._translated("written"), _transaction(link.connection):
            yield link
        self._since += link.bytes

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction; it is on disk when this returns."""
        if not self._write_page(batch):
            super().write(batch)
            self._erased |= bool(batch.erased)

    def _write_page(self, batch: Batch) -> bool:
        """Write a batch that is votes of one campaign, and decisions, with one statement; return whether it was such a one.

        Every statement lets go of the interpreter's lock several times, and the thread that answers requests takes it each
        time. One statement, which is its own transaction, is the least that there can be.
        """
        campaign, page = next(iter(batch.pages.items()), (0, None))
        head = self._heads.get(campaign)
        if page is None or head is None or self._writer is None or page.first != head.last + 1 or not batch.is_page():
            return False
        rows = batch.decisions.get(campaign)
        if rows and rows[0].position < page.first:
            return False  # others may be stored that begin at the same position
        new = sealed(head, page.events)
        told: tuple[object, ...] = (None,) * 4
        if rows:
            _, first, _, *others = decision_values(campaign, 0, rows)
            told = first, *others
        try:
            with self._translated("written"):
                self._writer.connection.execute(INSERT_PAGE, (campaign, *new, *told))
        except StoreError as error:
            del self._heads[campaign]  # the disk is asked again
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                return False  # the page does not follow the last one: the other way says so
            raise
        self._heads[campaign] = LogHead(new.last, new.checksum)
        self._since += 16384 + len(new.body) + sum(len(value) for value in told if isinstance(value, bytes))
        return True

    def overwrite(self) -> None:
        """Let what was deleted be gone from the write-ahead log as well, at the next quiet moment."""
        self._erased = True

    def own(self, campaign: int) -> None:
        """Do nothing: who writes the file writes all campaigns."""
        if self._writer is None:
            raise NotOwner(f"campaign {campaign} of {self.url} cannot be written: the store is open for reading only")

    def release(self, campaign: int) -> None:
        """Do nothing: who writes the file writes all campaigns."""

    def owner(self, campaign: int) -> str | None:
        """Return which process writes the file."""
        return _holder(self.path)

    def others(self) -> dict[int, str]:
        """Return nothing: who writes the file writes all campaigns."""
        return {}

    def held(self) -> frozenset[int]:
        """Return all campaigns: the kernel holds the lock of the file for as long as it is open."""
        return frozenset() if self._writer is None else frozenset(row.number for row in self.campaigns())

    def snapshots(self, campaign: int) -> Snapshots:
        """Return the snapshots of a campaign: files beside the store."""
        return FileSnapshots(self, _beside(self.path, ".snapshots"), campaign)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write all that is committed now into one file."""
        from adjudge.service.store.backup import copy_sqlite

        with self._translated("copied"), self.reading() as link:
            copy_sqlite(link.connection, self, Path(path))

    def tables(self) -> dict[str, Iterator[Row]]:
        """Return the rows of each table, all columns in the order of `TABLES`; of a store that nobody writes."""
        return {table: self._table(table) for table in TABLES}

    def _table(self, table: str) -> Iterator[Row]:
        columns = ", ".join(TABLES[table])
        with self.reading() as link:
            yield from link.connection.execute(f"SELECT {columns} FROM {table} ORDER BY rowid")

    def tidy(self, *, idle: bool = False) -> None:
        """Copy the write-ahead log into the file, if it is long or there is time."""
        if self._writer is None or self._since < (1 if idle else WAL_BYTES):
            return
        self._length += self._since
        self._since = 0
        if not idle and self._length < LONG_WAL:
            self._checkpoints.ask()
            return
        connection = self._writer.connection
        with self._checkpoints.running, suppress(sqlite3.Error):  # it will be tried again; a commit that fails says why
            _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages == copied:  # otherwise a reader needs the rest: the next turn tries again
                self._length = 0
            if self._erased:  # names are still in the write-ahead log: empty it, unless a reader needs it now
                connection.execute("PRAGMA busy_timeout = 0")
                try:
                    self._erased = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def close(self) -> None:
        """Let go of the file; the last connection to it copies the write-ahead log into it."""
        self._checkpoints.close()
        with self._guard:
            self._closed = True
            links, self._pool = self._pool, []
        for link in links:
            link.connection.close()
        if self._writer is not None:
            self._writer.connection.close()
            self._writer = None
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def make_tables(connection: sqlite3.Connection, version: int = 0) -> None:
    """Bring the tables to the current version, a transaction for each step.

    - `connection`: to the file.
    - `version`: that it has; 0 for an empty one.
    """
    for number in range(version + 1, VERSION + 1):
        with _transaction(connection):
            for statement in statements(number, "sqlite"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {number}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make what is done one transaction: committed at the end, undone after an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite undoes some errors by itself
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _lock_file(path: Path) -> Path:
    return _beside(path, ".lock")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of a store's writer; it is let go of when the process ends, however it does."""
    refuse_windows("writing to a store")
    try:
        handle = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreUnavailable(f"the store {path} cannot be opened for writing: {_lock_file(path)}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d" % os.getpid(), 0)
    except BlockingIOError:
        os.close(handle)
        who = _holder(path) or "another process"
        raise NotOwner(f"the store {path} is being written by {who}: end it first, or open another store") from None
    except OSError as error:
        os.close(handle)
        raise StoreUnavailable(f"the store {path} cannot be locked: {error.strerror}") from error
    return handle


def _holder(path: Path) -> str | None:
    """Return which process holds the lock of a store's writer."""
    try:
        handle = os.open(_lock_file(path), os.O_RDONLY | os.O_CLOEXEC) if hasattr(fcntl, "flock") else -1
    except OSError:
        return None
    if handle < 0:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        return f"process {number}" if number.isdecimal() else "another process"
    else:
        return None
    finally:
        os.close(handle)
