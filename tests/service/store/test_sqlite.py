"""The SQLite store when things go wrong: nothing acknowledged is lost, and every error says what and where."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import stored_logs
from adjudge.errors import AdjudgeError
from adjudge.service.store import sqlite as module
from adjudge.service.store import store as store_module
from adjudge.service.store.errors import DamagedSnapshot, DamagedStore, NotOwner, StoreError, StoreUnavailable
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import TABLES, VERSION
from adjudge.service.store.verify import verify
from stored_logs import batch_of, log_of, votes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "votes.db"


def opened_with(path, events, pages=1):
    """An open store with campaign 1 and so many events."""
    store = open_store(path)
    number = store.create_campaign("c")
    for page in range(pages):
        store.write(batch_of(number, 1 + page * events, events))
    return store


@contextmanager
def largest_file(size):
    """Makes files unable to grow beyond so many bytes."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_settings(path):
    store = opened_with(path, 1)
    with store.writing() as link:
        assert link.rows("PRAGMA journal_mode") == [("wal",)]
        assert link.rows("PRAGMA synchronous") == [(2,)]  # FULL
        assert link.rows("PRAGMA wal_autocheckpoint") == [(0,)]
    with store.reading() as link, pytest.raises(sqlite3.OperationalError, match="readonly"):
        link.run("DELETE FROM log")
    store.close()


def test_the_tables_are_those_of_the_table(path):
    store = opened_with(path, 1)
    with store.reading() as link:
        for table, columns in TABLES.items():
            assert [row[1] for row in link.rows(f"PRAGMA table_info({table})")] == list(columns)
    store.close()


@pytest.mark.parametrize("limit", [0, 1000, 20_000])
def test_a_full_disk(path, limit):
    store = opened_with(path, 10)
    wal = path.with_name("votes.db-wal").stat().st_size
    with largest_file(wal + limit):
        failures = []
        first = 11
        for _ in range(20):
            try:
                store.write(batch_of(1, first, 10))
                first += 10
            except StoreUnavailable as error:
                failures.append(str(error))
    assert failures
    assert all("votes.db cannot be written: " in text for text in failures)
    assert log_of(store, 1) == votes(1, first - 1)
    store.write(batch_of(1, first, 10))  # the disk has room again
    store.close()
    again = open_store(path)
    assert log_of(again, 1) == votes(1, first + 9)
    assert verify(again)[0].problems == []
    again.close()


def test_sqlite_says_that_the_disk_is_full(path):
    store = opened_with(path, 10)
    with store.writing() as link:
        link.run(f"PRAGMA max_page_count = {link.rows('PRAGMA page_count')[0][0]}")
    big = batch_of(1, 11, 2000)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        store.write(big)
    store._writer.connection.execute("PRAGMA max_page_count = 100000")
    store.write(big)
    assert store.last(1) == 2010
    store.close()


AS_NOBODY = """
import os, sys
import adjudge.service.store.sqlite
from adjudge.errors import AdjudgeError
from adjudge.service.store.opening import open_store
if os.geteuid() == 0:  # who may write everything
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    open_store(sys.argv[1])
except AdjudgeError as error:
    print(type(error).__name__, error)
print(open_store(sys.argv[1], readonly=True).last(1))
"""


@pytest.mark.parametrize("what", ["file", "folder", "both"])
def test_a_read_only_file_or_folder(path, tmp_path, what):
    opened_with(path, 5).close()
    path.with_name("votes.db.lock").chmod(0o666)
    if os.geteuid() == 0:
        for parent in tmp_path.parents:
            if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
                parent.chmod(parent.stat().st_mode | 0o005)
    path.chmod(0o666 if what == "folder" else 0o444)
    tmp_path.chmod(0o777 if what == "file" else 0o555)
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, timeout=60, check=False)
    tmp_path.chmod(0o755)
    assert done.stdout.count("\n") == 2, done.stdout + done.stderr
    error, last = done.stdout.splitlines()
    assert error.startswith("StoreUnavailable the store "), done.stdout + done.stderr
    assert "read-only" in error
    assert last == "5"


def test_not_a_database(path):
    path.write_bytes(b"task,worker,label\n" * 100)
    for readonly in (False, True):
        with pytest.raises(StoreError, match="votes.db is not a database"):
            open_store(path, readonly=readonly)
    assert path.read_bytes() == b"task,worker,label\n" * 100


def test_a_database_of_another_program(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(StoreError, match="of another program"):
            open_store(path, readonly=readonly)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_version(path):
    opened_with(path, 1).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    for readonly in (False, True):
        with pytest.raises(StoreError, match=f"of a newer adjudge .*version {VERSION + 1}, this one knows {VERSION}.*upgrade"):
            open_store(path, readonly=readonly)


def test_paths_that_cannot_be(tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        open_store(tmp_path / "none.db", readonly=True)
    with pytest.raises(StoreError, match="there is no folder"):
        open_store(tmp_path / "none" / "votes.db")
    with pytest.raises(StoreError, match="it is not a file"):
        open_store(tmp_path)
    with pytest.raises(AdjudgeError, match="unknown kind of store 'mysql'.*accepted: a path, postgresql://"):
        open_store("mysql://host/votes")
    empty = tmp_path / "empty.db"
    empty.touch()
    open_store(empty).close()  # as good as none
    odd = tmp_path / "a?b#c%20 .db"
    open_store(odd).close()
    assert odd.exists()


def test_a_migration_that_fails_leaves_the_old_tables(path, monkeypatch):
    opened_with(path, 3).close()
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    monkeypatch.setattr(module, "statements", lambda number, dialect: ["CREATE TABLE more (x)", "CREATE TABLE log (x)"])
    with pytest.raises(StoreUnavailable, match="log already exists"):
        open_store(path)
    monkeypatch.undo()
    store = open_store(path)
    with store.reading() as link:
        assert link.rows("SELECT count(*) FROM sqlite_master WHERE name = 'more'") == [(0,)]
    assert log_of(store, 1) == votes(1, 3)
    store.close()


def test_a_migration_is_done_once_and_kept(path, monkeypatch):
    opened_with(path, 3).close()
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    monkeypatch.setattr(store_module, "VERSION", VERSION + 1)
    monkeypatch.setattr(module, "statements", lambda number, dialect: ["CREATE TABLE more (x)"])
    for _ in range(2):
        store = open_store(path)
        assert log_of(store, 1) == votes(1, 3)
        store.close()


# Damage


def changed(path, sql, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(sql, values)
    connection.close()


DAMAGE = {
    "a byte": ("UPDATE log SET body = replace(CAST(body AS TEXT), '\"t5\"', '\"u5\"') WHERE first = 4", 4, 6),
    "the checksum": ("UPDATE log SET checksum = zeroblob(16) WHERE first = 4", 4, 6),
    "a page is gone": ("DELETE FROM log WHERE first = 4", 7, 9),
    "the first page is gone": ("DELETE FROM log WHERE first = 1", 4, 6),
    "moved": ("UPDATE log SET first = 5 WHERE first = 4", 5, 7),
    "counted wrong": ("UPDATE log SET count = 2 WHERE first = 4", 4, 5),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_page_is_named(path, what):
    sql, first, last = DAMAGE[what]
    opened_with(path, 3, pages=4).close()
    changed(path, sql)
    store = open_store(path)
    with pytest.raises(DamagedStore, match=f"positions {first} to {last} of campaign 1"):
        log_of(store, 1)
    (found,) = verify(store)
    assert f"positions {first} to {last} of campaign 1" in found.problems[0]
    if what not in ("a page is gone", "moved", "counted wrong", "the checksum"):
        assert len(found.problems) == 1  # pages behind the damage are whole
    store.close()


def test_pages_that_changed_places_are_found(path):
    opened_with(path, 3, pages=4).close()
    changed(path, "UPDATE log SET body = (SELECT body FROM log WHERE first = 7) WHERE first = 4")
    store = open_store(path)
    assert log_of(store, 1, until=3) == votes(1, 3)
    with pytest.raises(DamagedStore, match="positions 4 to 6 of campaign 1"):
        log_of(store, 1)
    assert log_of(store, 1, after=6) == votes(7, 6)
    store.close()


def test_the_log_of_another_campaign_is_found(path):
    store = opened_with(path, 3)
    store.create_campaign("d")
    store.close()
    changed(path, "UPDATE log SET campaign = 2")
    store = open_store(path)
    with pytest.raises(DamagedStore, match="of campaign 2"):
        log_of(store, 2)
    store.close()


def test_damaged_decisions_are_named(path):
    store = open_store(path)
    store.create_campaign("c")
    store.write(batch_of(1, 1, 3, decided=True))
    store.close()
    changed(path, "UPDATE decision SET body = replace(CAST(body AS TEXT), 't2', 't9')")
    store = open_store(path)
    with pytest.raises(DamagedStore, match="table decision of campaign 1: first 1, part 0 is damaged"):
        list(store.decisions(1))
    assert "table decision" in verify(store)[0].problems[0]
    store.close()


def test_a_damaged_file(path):
    opened_with(path, 50, pages=40).close()
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises((DamagedStore, StoreUnavailable)):
        log_of(open_store(path), 1)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "header", "other"])
def test_a_damaged_snapshot_is_passed_over(path, damage):
    store = opened_with(path, 3, pages=3)
    snapshots = store.snapshots(1)
    snapshots.save(3, b"older")
    snapshots.save(9, b"newer" + b"x" * 1000)
    file = path.with_name("votes.db.snapshots") / "1-9.snapshot"
    data = file.read_bytes()
    wrong = {
        "cut": data[:-40],
        "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "empty": b"",
        "header": b"x" + data[1:],
        "other": (file.parent / "1-3.snapshot").read_bytes(),
    }
    file.write_bytes(wrong[damage])
    if damage == "other":
        with pytest.warns(DamagedSnapshot, match="is another"):
            assert snapshots.latest() == (3, b"older")
    else:
        with pytest.warns(DamagedSnapshot, match="campaign 1 is not used: .*1-9.snapshot is damaged"):
            assert snapshots.latest() == (3, b"older")
        (file.parent / "1-3.snapshot").unlink()
        with pytest.warns(DamagedSnapshot):
            assert snapshots.latest() is None
    snapshots.save(9, b"again")
    assert snapshots.latest() == (9, b"again")
    store.close()


def test_a_snapshot_on_a_full_disk(path):
    store = opened_with(path, 3)
    snapshots = store.snapshots(1)
    snapshots.save(2, b"older")
    with largest_file(10_000), pytest.raises(StoreUnavailable, match="a snapshot cannot be written"):
        snapshots.save(3, b"x" * 18_000)
    assert snapshots.latest() == (2, b"older")
    assert sorted(p.name for p in path.with_name("votes.db.snapshots").iterdir()) == ["1-2.snapshot"]
    store.close()


# Writers


def test_a_second_writer_in_this_process_is_refused(path):
    store = opened_with(path, 2)
    with pytest.raises(NotOwner, match=f"is being written by process {os.getpid()}"):
        open_store(path)
    link = path.with_name("link.db")
    link.symlink_to(path)
    with pytest.raises(NotOwner, match="is being written by"):
        open_store(link)
    assert store.owner(1) == f"process {os.getpid()}"
    store.write(batch_of(1, 3, 2))
    store.close()
    again = open_store(path)
    assert log_of(again, 1) == votes(1, 4)
    again.close()


OTHER = """
import sys
from adjudge.service.store.opening import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_in_another_process_is_refused(path):
    with subprocess.Popen([sys.executable, "-c", OTHER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(NotOwner, match=f"is being written by process {other.pid}: end it first"):
            open_store(path)
        reader = open_store(path, readonly=True)
        assert reader.owner(1) == f"process {other.pid}"
        reader.close()
        other.kill()
    open_store(path).close()  # the lock went with the process


def test_another_program_holds_the_file(path, monkeypatch):
    monkeypatch.setattr(module, "BUSY_MS", 50)
    store = opened_with(path, 2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program holds the file"):
        store.write(batch_of(1, 3, 1))
    other.execute("ROLLBACK")
    other.close()
    store.write(batch_of(1, 3, 1))
    assert store.last(1) == 3
    store.close()


# Crashes: a writer prints the last position of each commit, once it has returned.

COMMITTING = """
import sys
from adjudge.service.store.opening import open_store
from stored_logs import batch_of
store = open_store(sys.argv[1])
number = store.create_campaign("c") if not store.campaigns() else 1
first = store.last(number) + 1
print(first - 1, flush=True)
sizes = (1, 3, 50, 2, 7, 200, 1)
for turn in range(int(sys.argv[2])):
    size = sizes[turn % 7]
    store.write(batch_of(number, first, size, decided=True))
    first += size
    print(first - 1, flush=True)
    if len(sys.argv) < 4:
        store.tidy(idle=turn % 5 == 4)
import os
os.kill(os.getpid(), 9)
"""


def committing(path, turns=10**9, *more):
    env = os.environ | {"PYTHONPATH": str(Path(stored_logs.__file__).parent)}
    command = [sys.executable, "-c", COMMITTING, str(path), str(turns), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def checked(path, acknowledged):
    """Opens the store, and asserts that all that was acknowledged is there, and nothing else but whole batches."""
    store = open_store(path)
    last = store.last(1)
    assert last >= acknowledged
    assert log_of(store, 1) == votes(1, last)
    assert [row.position for row in store.decisions(1)] == list(range(1, last + 1))
    assert verify(store)[0].problems == []
    store.close()
    return last


@pytest.mark.slow
def test_a_writer_killed_while_committing(path):
    for turn in range(10):
        with committing(path) as writer:
            assert writer.stdout.readline()
            time.sleep(0.01 + 0.013 * turn)
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split("\n")[:-1]  # a line that was cut off was not acknowledged
        checked(path, int(lines[-1]) if lines else 0)


def test_a_torn_write_ahead_log(path, tmp_path):
    """With any tail of the write-ahead log missing, every commit before the cut survives."""
    with committing(path, 14, "no checkpoint") as writer:
        acknowledged = [int(line) for line in writer.stdout]
    wal = path.with_name("votes.db-wal").read_bytes()
    sizes = {0}
    for cut in [*range(0, len(wal), 3331), len(wal) - 1, len(wal)]:
        torn = tmp_path / f"torn{cut}.db"
        shutil.copy(path, torn)
        torn.with_name(torn.name + "-wal").write_bytes(wal[:cut])
        try:
            store = open_store(torn)
        except StoreError as error:
            raise AssertionError(f"cut at {cut}") from error
        last = store.last(1)
        assert log_of(store, 1) == votes(1, last)
        assert last in acknowledged
        assert last >= max(sizes)
        sizes.add(last)
        if store.campaigns():
            assert verify(store)[0].problems == []
            store.write(batch_of(1, last + 1, 3))  # and the log continues
            assert log_of(store, 1) == votes(1, last + 3)
        store.close()
        for left in tmp_path.glob(f"torn{cut}.db*"):
            left.unlink()
    assert sizes == set(acknowledged)


WAL_BYTES = 1 << 18


@pytest.fixture
def short_log(path, monkeypatch):
    """A store whose writer makes every checkpoint itself, and a function that writes and returns the length of the log."""
    monkeypatch.setattr(module, "CHECKPOINT_BYTES", WAL_BYTES)
    monkeypatch.setattr(module, "WRITER_CHECKPOINT_BYTES", WAL_BYTES)
    store = open_store(path)
    store.create_campaign("c")

    def write(count):
        for _ in range(count):
            store.write(batch_of(1, store.last(1) + 1, 20))
            store.tidy()
        return path.with_name("votes.db-wal").stat().st_size

    yield store, write
    store.close()


def test_the_write_ahead_log_does_not_grow_with_the_number_of_writes(short_log):
    _, write = short_log
    assert write(100) < 2 * WAL_BYTES
    assert write(900) < 2 * WAL_BYTES


def test_the_write_ahead_log_grows_for_a_reader_and_not_after_it(short_log):
    store, write = short_log
    write(20)
    with store.reader() as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (20,)
        length = write(100)
        assert length > 4 * WAL_BYTES
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (20,)
        reader.execute("COMMIT")
    write(30)  # copies the log, then starts it again
    assert write(200) < length + 2 * WAL_BYTES


def test_commits_and_checkpoints_in_parallel_lose_nothing(path, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_BYTES", 1 << 17)
    monkeypatch.setattr(module, "WRITER_CHECKPOINT_BYTES", 1 << 18)
    store = open_store(path)
    store.create_campaign("c")
    for turn in range(300):
        store.write(batch_of(1, 1 + 20 * turn, 20))
        store.tidy()
    assert log_of(store, 1) == votes(1, 6000)
    store.close()


def test_an_erased_name_is_nowhere_in_the_files(path):
    store = opened_with(path, 1)
    batch = batch_of(1, 2, 1)
    batch.workers = [(1, 0, "ann-with-a-name"), (1, 1, "bob-with-a-name")]
    store.write(batch)
    erasing = batch_of(1, 3, 1)
    erasing.erased = [(1, 0)]
    store.write(erasing)
    store.tidy(idle=True)
    files = b"".join(p.read_bytes() for p in path.parent.glob("votes.db*") if p.is_file())
    assert b"ann-with-a-name" not in files
    assert b"bob-with-a-name" in files
    store.close()


def test_a_generator_that_is_left_holds_nothing(path):
    store = opened_with(path, 1, pages=200)
    some = store.read(1)
    next(some)
    reader = threading.Thread(target=list, args=[store.read(1)])
    reader.start()
    del some
    store.write(batch_of(1, 201, 1))
    assert store.last(1) == 201
    reader.join()
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_others_on_the_machine_do_not_read_a_new_store(path):
    before = os.umask(0o022)
    try:
        with closing(opened_with(path, 3)) as store:
            store.snapshots(1).save(3, b"state")
            store.backup(path.with_name("backup.db"))
            beside = [*path.parent.glob("votes.db*"), path.with_name("backup.db")]
            assert {f"votes.db{end}" for end in ("", "-wal", "-shm", ".snapshots")} <= {each.name for each in beside}
            open_to_others = [each.name for each in beside if each.stat().st_mode & 0o077]
    finally:
        os.umask(before)
    assert open_to_others == ["votes.db.lock"]  # it holds the number of a process
    path.chmod(0o640)
    open_store(path).close()
    assert path.stat().st_mode & 0o777 == 0o640, "what the operator has chosen stays"
