"""A store in one SQLite file: nothing to install, nothing to start.

Write-ahead log with `synchronous=FULL`: a commit has reached the disk when it returns. One connection writes; readers have
their own, and neither waits for the other. A lock on a file next to the store keeps a second writer out. A thread copies the
write-ahead log into the file, in parallel with commits.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from adjudge.errors import refuse_windows
from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import DamagedStore, NotOwner, StoreError, StoreUnavailable
from adjudge.service.store.log import LogHead, seal_page
from adjudge.service.store.rows import TABLES, VERSION, Row, statements
from adjudge.service.store.snapshots import FileSnapshots, Snapshots
from adjudge.service.store.store import Store, decision_values

LOG: Final = logging.getLogger(__name__)
APPLICATION: Final = 0x41444A47  # "ADJG", in the header of the file
BUSY_MS: Final = 5000  # how long another program may hold SQLite's lock
MAX_VALUES_PER_STATEMENT: Final = 999  # in every version of SQLite
CHECKPOINT_BYTES: Final = 4 << 20  # written since the last checkpoint when the next one is due
WRITER_CHECKPOINT_BYTES: Final = 64 << 20  # likewise without one in the writer's thread, which alone restarts the log
MAX_WAL_FILE_BYTES: Final = 64 << 20  # of the write-ahead log's file that stay allocated
# A view of this connection only: what is inserted into it becomes a page of the log and one of decisions.
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
NEW_FILE_MODE: Final = 0o600
CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SQLITE_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "another program holds the file; end it",
    sqlite3.SQLITE_READONLY: "the file, or its folder, is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file, or its folder, cannot be opened",
    sqlite3.SQLITE_PERM: "permission is missing",
}


class Checkpoints:
    """A thread that copies the write-ahead log into its file on request, so that no commit waits for it.

    `connect` returns a connection that may write. The thread calls it, when the first checkpoint is requested.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self.running = threading.Lock()  # held during a checkpoint; SQLite refuses a second one at the same time
        self._wanted = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Have the log copied soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="adjudge-checkpoint", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        """End the thread after its current checkpoint."""
        self._closed = True
        if self._thread is not None:
            self._wanted.set()
            self._thread.join()

    def _work(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # the writer makes a checkpoint later
            LOG.warning("checkpoints cannot run in parallel with commits: %s", error)
            return
        try:
            while True:
                self._wanted.wait()
                self._wanted.clear()
                if self._closed:
                    return
                try:
                    with self.running:
                        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                except Exception as error:  # a later one will retry; a commit that fails reports the reason
                    LOG.info("a checkpoint failed: %s", error)
        finally:
            connection.close()


try:
    import fcntl
except ImportError:  # Windows, where stores are only read
    fcntl = None  # type: ignore[assignment]


def library_version() -> str:
    """Return the version of the SQLite library."""
    return sqlite3.sqlite_version


class SqliteLink:
    """A connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.bytes = 0  # written in this transaction, approximately

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return the result of a query."""
        return self.connection.execute(sql, values).fetchall()

    def run(self, sql: str, *values: object) -> int:
        """Return how many rows a statement has changed."""
        self.bytes += 8192 + sum(len(value) for value in values if isinstance(value, bytes))
        return self.connection.execute(sql, values).rowcount

    def numbers(self, table: str, count: int) -> list[int]:
        """Return numbers for new rows of a table, in a transaction that inserts them."""
        rows = self.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", table)
        last = rows[0][0] if rows else 0
        return list(range(last + 1, last + 1 + count))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Insert many rows per statement, as each statement releases the interpreter's lock and competes for it again."""
        limit = MAX_VALUES_PER_STATEMENT // len(columns)
        marks = f"({', '.join('?' * len(columns))})"
        start = 0
        while start < len(rows):
            # Powers of two give few different statements, so that SQLite can reuse the parsed ones.
            size = min(1 << (limit.bit_length() - 1), 1 << ((len(rows) - start).bit_length() - 1))
            values = [value for row in rows[start : start + size] for value in row]
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * size)}"
            self.connection.execute(sql, values)
            self.bytes += 4096 * size + sum(len(value) for value in values if isinstance(value, bytes))
            start += size

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class SqliteStore(Store):
    """A store in one SQLite file, which is created if it is missing, unless `readonly`."""

    is_shared = False
    contains = "instr(body, ?) > 0"

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        super().__init__(os.fspath(path), readonly=readonly)
        self.path = Path(os.path.realpath(path))
        self._lock: int | None = None
        self._writer: SqliteLink | None = None
        self._uncopied_bytes = CHECKPOINT_BYTES  # since the last checkpoint, approximately; one may be due from before
        self._wal_bytes = 0  # since the last one in the writer's thread
        self._checkpoints = Checkpoints(lambda: self._connect("rw"))
        self._must_truncate = False  # the write-ahead log still has deleted data
        self._check_file()
        if readonly:
            with self.reader() as connection:
                self._read_version(connection)
            return
        try:
            self._lock = _acquire_lock(self.path)
            with self._translate_errors("opened"):
                self._writer = SqliteLink(self._connect_writer())
        except BaseException:
            self._unlock()
            raise

    def _check_file(self) -> None:
        """Raise if there is no such file, or cannot be."""
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            if self.readonly:
                raise StoreError(f"there is no store {self.url}") from None
            if not self.path.parent.is_dir():
                raise StoreError(f"cannot make the store {self.url}: there is no folder {self.path.parent}") from None
            return
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot open the store {self.url}: {getattr(error, 'strerror', None) or error}") from error
        if not stat.S_ISREG(mode):
            raise StoreError(f"cannot open the store {self.url}: it is not a file")

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(os.fspath(self.path))}?mode={mode}"
        if mode == "ro" and not os.access(self.path.parent, os.W_OK) and not _add_suffix(self.path, "-wal").exists():
            uri += "&immutable=1"  # nothing writes it, and SQLite cannot create its own files in the folder
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _connect_reader(self) -> SqliteLink:
        return SqliteLink(self._connect("ro"))

    def _connect_writer(self) -> sqlite3.Connection:
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise StoreUnavailable(f"the store {self.url} cannot be opened: the file is read-only")
        # It contains secrets of webhooks and names of workers, so other users of the machine must not read it. The files that
        # SQLite creates next to it get the same mode.
        with suppress(OSError):  # SQLite reports the reason
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, NEW_FILE_MODE))
        connection = self._connect("rwc")
        try:
            self._read_version(connection)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(f"the store {self.url} cannot have a write-ahead log here ({mode}): use a local disk")
            # Every commit is synced. The writer schedules checkpoints, so that none makes a commit wait for long.
            for setting in ("synchronous = FULL", "wal_autocheckpoint = 0", f"journal_size_limit = {MAX_WAL_FILE_BYTES}"):
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA secure_delete = ON")  # an erased name is overwritten
            make_tables(connection, self._read_version(connection))
            for statement in ONE_PAGE:
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 for an empty file; raise if the file is not a store, or a newer one."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if application != APPLICATION:
            is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application or version or not is_empty or self.readonly:
                raise StoreError(f"{self.url} is a database of another program, not a store of adjudge: give another path")
            return 0
        return self._check_version(version)

    @contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_NOTADB:
                raise StoreError(f"{self.url} is not a database: give the path of a store, or of a new file") from error
            if code in CORRUPT:
                raise DamagedStore(f"the store {self.url} is damaged: {error}; restore a backup") from error
            reason = SQLITE_REASONS.get(code, str(error))
            raise StoreUnavailable(f"the store {self.url} cannot be {action}: {reason}") from error

    @contextmanager
    def writing(self) -> Iterator[SqliteLink]:
        """Lend the connection that writes, for one transaction."""
        if self._writer is None:
            raise self._refusal()
        link = self._writer
        link.bytes = 0
        with self._translate_errors("written"), _transaction(link.connection):
            yield link
        self._uncopied_bytes += link.bytes

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction, which is on disk when this returns."""
        if not self._write_page(batch):
            super().write(batch)
            self._must_truncate |= bool(batch.erased)

    def _write_page(self, batch: Batch) -> bool:
        """Write a batch of votes of one campaign, and decisions, with one statement; return False for any other batch.

        Every statement releases the interpreter's lock several times, and the thread that answers requests takes it each time.
        A single statement, which is its own transaction, is the minimum.
        """
        campaign, page = next(iter(batch.pages.items()), (0, None))
        head = self._heads.get(campaign)
        if page is None or head is None or self._writer is None or page.first != head.last + 1 or not batch.is_page():
            return False
        rows = batch.decisions.get(campaign)
        if rows and rows[0].position < page.first:
            return False  # a stored row may begin at the same position
        new = seal_page(head, page.events)
        decided: tuple[object, ...] = (None,) * 4
        if rows:
            _, first, _, *others = decision_values(campaign, 0, rows)
            decided = first, *others
        try:
            with self._translate_errors("written"):
                self._writer.connection.execute(INSERT_PAGE, (campaign, *new, *decided))
        except StoreError as error:
            del self._heads[campaign]  # the next write reads it from disk
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                return False  # the page does not follow the last one: the general way raises the error
            raise
        self._heads[campaign] = LogHead(new.last, new.checksum)
        self._uncopied_bytes += 16384 + len(new.body) + sum(len(value) for value in decided if isinstance(value, bytes))
        return True

    def overwrite(self) -> None:
        """Have deleted data erased from the write-ahead log as well, at the next quiet moment."""
        self._must_truncate = True

    def own(self, campaign: int) -> None:
        """Do nothing: the process that writes the file writes all campaigns."""
        if self._writer is None:
            raise NotOwner(f"campaign {campaign} of {self.url} cannot be written: the store is open for reading only")

    def release(self, campaign: int) -> None:
        """Do nothing: the process that writes the file writes all campaigns."""

    def owner(self, campaign: int) -> str | None:
        """Return the process that writes the file."""
        return _lock_holder(self.path)

    def others(self) -> dict[int, str]:
        """Return nothing: the process that writes the file writes all campaigns."""
        return {}

    def held(self) -> frozenset[int]:
        """Return all campaigns: the kernel holds the lock of the file as long as it is open."""
        return frozenset() if self._writer is None else frozenset(row.number for row in self.campaigns())

    def snapshots(self, campaign: int) -> Snapshots:
        """Return the snapshots of a campaign: files next to the store."""
        return FileSnapshots(self, _add_suffix(self.path, ".snapshots"), campaign)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write everything committed into one file."""
        from adjudge.service.store.backup import copy_sqlite

        with self.reader() as connection:
            copy_sqlite(connection, self, Path(path))

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection of SQLite that reads."""
        with self.reading() as link:
            assert isinstance(link, SqliteLink)
            yield link.connection

    def tables(self) -> dict[str, Iterator[Row]]:
        """Return the rows of each table, all columns in the order of `TABLES`; the store must not be written meanwhile."""
        return {table: self._table(table) for table in TABLES}

    def _table(self, table: str) -> Iterator[Row]:
        with self.reader() as connection:
            yield from connection.execute(f"SELECT {', '.join(TABLES[table])} FROM {table} ORDER BY rowid")

    def tidy(self, *, idle: bool = False) -> None:
        """Copy the write-ahead log into the file, if it is long or the writer is idle."""
        if self._writer is None or self._uncopied_bytes < (1 if idle else CHECKPOINT_BYTES):
            return
        self._wal_bytes += self._uncopied_bytes
        self._uncopied_bytes = 0
        if not idle and self._wal_bytes < WRITER_CHECKPOINT_BYTES:
            self._checkpoints.request()
            return
        connection = self._writer.connection
        mode = "TRUNCATE" if self._must_truncate else "RESTART"
        with self._checkpoints.running, suppress(sqlite3.Error):  # the next one retries; a commit that fails says why
            connection.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
            try:
                busy = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
            finally:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            if not busy:  # else a reader needs the log, which cannot start again from its beginning: retry next time
                self._wal_bytes = 0
                self._must_truncate = False

    def close(self) -> None:
        """Close the file; the last connection to it copies the write-ahead log into it."""
        self._checkpoints.close()
        self._close_readers()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class TokenStore(SqliteStore):
    """A SQLite store opened without the lock of its writer: tokens can be changed, the log is only read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, readonly=True)
        with self._translate_errors("opened"):
            connection = self._connect("rw")
            # Every commit is synced; only the server copies the write-ahead log into the file, when it has time.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._writer = SqliteLink(connection)

    def own(self, campaign: int) -> None:
        """Refuse: only the server writes the log."""
        raise NotOwner(f"campaign {campaign} of {self.url} cannot be written: the store is open for tokens only")

    def create_campaign(self, name: str) -> int:
        """Refuse: only the server writes the log."""
        raise NotOwner(f"a campaign cannot be made in {self.url}: the store is open for tokens only")

    def write(self, batch: object) -> None:
        """Refuse: only the server writes the log."""
        raise NotOwner(f"the log of {self.url} cannot be written: the store is open for tokens only")


def make_tables(connection: sqlite3.Connection, version: int = 0) -> None:
    """Migrate the tables from a version to the current one, a transaction for each step; an empty file has version 0."""
    for number in range(version + 1, VERSION + 1):
        with _transaction(connection):
            for statement in statements(number, "sqlite"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {number}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end, or roll back after an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back after some errors by itself
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _add_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _acquire_lock(path: Path) -> int:
    """Return a descriptor that holds the lock of a store's writer; the system releases it however the process ends."""
    refuse_windows("writing to a store")
    lock = _add_suffix(path, ".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreUnavailable(f"the store {path} cannot be opened for writing: {lock}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d" % os.getpid(), 0)
    except BlockingIOError:
        os.close(handle)
        who = _lock_holder(path) or "another process"
        raise NotOwner(f"the store {path} is being written by {who}: end it first, or open another store") from None
    except OSError as error:
        os.close(handle)
        raise StoreUnavailable(f"the store {path} cannot be locked: {error.strerror}") from error
    return handle


def _lock_holder(path: Path) -> str | None:
    """Return the process that holds the lock of a store's writer."""
    if not hasattr(fcntl, "flock"):
        return None
    try:
        handle = os.open(_add_suffix(path, ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
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
