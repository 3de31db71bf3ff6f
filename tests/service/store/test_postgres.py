"""Several processes over one PostgreSQL, and a server that goes away."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import stored_logs
from adjudge.service.store import postgres as module
from adjudge.service.store.errors import DamagedSnapshot, DamagedStore, NotOwner, OutOfStep, StoreError, StoreUnavailable
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import TABLES, VERSION
from adjudge.service.store.verify import verify
from stored_logs import batch_of, log_of, votes


@pytest.fixture
def server():
    from postgres import server

    return server()


@pytest.fixture
def url(server):
    return server.fresh()


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


def test_settings_and_tables(store):
    with store.writing() as link:
        assert link.rows("SHOW synchronous_commit") == [("on",)]
        assert link.rows("SHOW fsync") == [("on",)]
        for table, columns in TABLES.items():
            found = link.rows(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'adjudge' AND table_name = ? "
                "ORDER BY ordinal_position",
                table,
            )
            assert [row[0] for row in found] == list(columns)
        assert link.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_one_process_owns_a_campaign(store, url):
    one = store.create_campaign("one")
    store.write(batch_of(one, 1, 3))
    other = open_store(url)
    for act in (lambda: other.own(one), lambda: other.write(batch_of(one, 4, 1))):
        with pytest.raises(NotOwner, match=f"campaign {one} of .* is written by process {os.getpid()} on "):
            act()
    assert other.owner(one) == store.owner(one)
    assert other.owner(one).startswith(f"process {os.getpid()} on ")
    # The other owns one of its own, and follows the log of this one.
    two = other.create_campaign("two")
    other.write(batch_of(two, 1, 5))
    assert log_of(other, one) == votes(1, 3)
    assert log_of(store, two) == votes(1, 5)
    store.write(batch_of(one, 4, 2))
    assert other.last(one) == 5
    assert log_of(other, one, after=3) == votes(4, 2)
    store.release(one)
    assert store.owner(one) is None
    other.own(one)
    other.own(one)
    other.write(batch_of(one, 6, 1))
    with pytest.raises(NotOwner):
        store.write(batch_of(one, 6, 1))
    other.close()
    store.own(one)
    with pytest.raises(OutOfStep, match="its log ends at 6"):
        store.write(batch_of(one, 6, 1))
    store.write(batch_of(one, 7, 1))
    assert log_of(store, one) == votes(1, 7)


def test_a_campaign_that_was_never_owned_is_not_written(store, url):
    number = store.create_campaign("c")
    store.close()
    again = open_store(url)
    with pytest.raises(NotOwner, match="is not owned by this process"):
        again.write(batch_of(number, 1, 1))
    assert again.last(number) == 0
    again.close()


OTHER = """
import sys
from adjudge.service.store.opening import open_store
from adjudge.service.store.errors import NotOwner
from stored_logs import batch_of, log_of, votes
store = open_store(sys.argv[1])
try:
    store.own(1)
    print("owns 1", flush=True)
except NotOwner as error:
    print(error, flush=True)
number = store.create_campaign("theirs")
for first in range(1, 31):
    store.write(batch_of(number, first, 1))
assert log_of(store, 1)[:4] == votes(1, 4)
print(number, flush=True)
sys.stdin.readline()
print(store.last(1), flush=True)
sys.stdin.readline()
"""


def started(url):
    env = os.environ | {"PYTHONPATH": str(Path(stored_logs.__file__).parent)}
    return subprocess.Popen([sys.executable, "-c", OTHER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def test_two_processes(store, url):
    mine = store.create_campaign("mine")
    store.write(batch_of(mine, 1, 4))
    with started(url) as other:
        assert f"is written by process {os.getpid()} on" in other.stdout.readline()
        for first in range(5, 35):
            store.write(batch_of(mine, first, 1))
        theirs = int(other.stdout.readline())
        assert log_of(store, theirs) == votes(1, 30)
        with pytest.raises(NotOwner, match=f"is written by process {other.pid}"):
            store.own(theirs)
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "34\n"
        other.send_signal(signal.SIGKILL)
    for _ in range(100):  # the server notices that it is gone
        if store.owner(theirs) is None:
            break
        time.sleep(0.05)
    store.own(theirs)
    store.write(batch_of(theirs, 31, 2))
    assert log_of(store, theirs) == votes(1, 32)
    assert [found.problems for found in verify(store)] == [[], []]


def test_a_server_that_restarts(store, url, server):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    reader = open_store(url, readonly=True)
    assert reader.last(number) == 3
    server.stop()
    try:
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            store.write(batch_of(number, 4, 1))
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            store.write(batch_of(number, 4, 1))
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            reader.last(number)
    finally:
        server.start()
    store.write(batch_of(number, 4, 2))
    assert log_of(store, number) == votes(1, 5)
    assert reader.last(number) == 5
    assert store.owner(number).startswith(f"process {os.getpid()}")
    reader.close()


def cut_off(store):
    """Ends the server's side of the writing connection."""
    pid = store._writer.connection.info.backend_pid
    with store.reading() as link:
        link.rows("SELECT pg_terminate_backend(?, 5000)", pid)


def test_a_campaign_that_another_took_meanwhile(store, url):
    number, own = store.create_campaign("c"), store.create_campaign("own")
    store.write(batch_of(number, 1, 3))
    other = open_store(url)
    cut_off(store)
    other.own(number)
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(number, 4, 1))
    with pytest.raises(NotOwner, match=f"campaign {number} of .* is written by process"):
        store.write(batch_of(number, 4, 1))
    store.write(batch_of(own, 1, 2))  # the other campaign is still this one's
    other.write(batch_of(number, 4, 5))
    other.close()
    with pytest.raises(NotOwner):  # until it is acquired again
        store.write(batch_of(number, 4, 1))
    store.own(number)
    assert log_of(store, number) == votes(1, 8)
    store.write(batch_of(number, 9, 1))


def test_held_are_the_campaigns_that_were_owned_without_a_break(store, url):
    one, two = store.create_campaign("one"), store.create_campaign("two")
    other = open_store(url)
    theirs = other.create_campaign("theirs")
    assert (store.held(), other.held()) == ({one, two}, {theirs})
    store.release(two)
    assert store.held() == {one}
    cut_off(store)
    assert store.held() == set()
    other.own(one)
    other.release(one)
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(one, 1, 1))
    store.write(batch_of(one, 1, 1))
    assert store.held() == set(), "it owns the campaign again, but not without a break: its log has to be read"
    store.own(one)
    assert store.held() == {one}
    other.close()


def test_a_campaign_that_another_took_and_gave_back(store, url):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    cut_off(store)
    other = open_store(url)
    other.own(number)
    other.write(batch_of(number, 4, 2))
    other.close()
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(number, 4, 1))
    with pytest.raises(OutOfStep, match="begins at position 4, but its log ends at 5"):
        store.write(batch_of(number, 4, 1))
    assert log_of(store, number) == votes(1, 5)


def test_a_connection_that_breaks_again_while_locks_are_taken(store, monkeypatch):
    import psycopg

    numbers = [store.create_campaign(name) for name in "abc"]
    cut_off(store)
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(numbers[0], 1, 1))
    real, turns = store._lock, []

    def breaking(link, campaign):
        turns.append(campaign)
        if len(turns) == 2:
            raise psycopg.OperationalError("the connection is lost")
        return real(link, campaign)

    monkeypatch.setattr(store, "_lock", breaking)
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(numbers[0], 1, 1))
    for number in numbers:
        store.write(batch_of(number, 1, 1))
        assert store.owner(number)


def test_a_lost_connection_of_its_own_is_ended(store):
    """The server may hold the locks of a connection that broke, until it notices: the process itself takes them back."""
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    lost, store._writer = store._writer, None  # as if the network had swallowed it
    store.write(batch_of(number, 4, 1))
    assert log_of(store, number) == votes(1, 4)
    lost.connection.close()


def test_a_commit_that_broke_in_the_middle(store, monkeypatch):
    """Nobody knows whether it is written: reading the log again says so."""
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    real = store._decide

    def cut(link, campaign, rows):
        real(link, campaign, rows)
        cut_off(store)

    monkeypatch.setattr(store, "_decide", cut)
    with pytest.raises(StoreUnavailable):
        store.write(batch_of(number, 4, 2, decided=True))
    monkeypatch.undo()
    assert log_of(store, number) == votes(1, 3)
    assert list(store.decisions(number)) == []
    store.write(batch_of(number, 4, 2, decided=True))
    assert log_of(store, number) == votes(1, 5)


def test_a_writer_past_its_lock_is_fenced_off(store, url):
    """Even where two processes believed that they own a campaign, a page is put behind the last one only."""
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    other = open_store(url)
    other._owned.add(number)
    other.write(batch_of(number, 4, 3))
    with pytest.raises(OutOfStep, match="begins at position 4, but its log ends at 6"):
        store.write(batch_of(number, 4, 1))
    with pytest.raises(OutOfStep):
        other.write(batch_of(number, 6, 1))
    assert log_of(store, number) == votes(1, 6)
    other.close()


def test_two_pages_at_the_same_moment(store, url):
    """The key of the table lets one of two transactions pass that both saw the log end at the same position."""
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3))
    other = open_store(url)
    other._owned.add(number)
    failures = []

    def writing():
        try:
            store.write(batch_of(number, 4, 1))
        except OutOfStep as error:
            failures.append(str(error))

    thread = threading.Thread(target=writing)
    with other.writing() as link:
        other._append(link, number, batch_of(number, 4, 2).pages[number])
        thread.start()
        while not link.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert thread.is_alive()
    thread.join()
    assert len(failures) == 1
    assert "written by another process at the same time" in failures[0]
    assert log_of(store, number) == votes(1, 5)
    store.write(batch_of(number, 6, 1))
    other.close()


def test_another_programs_schema_and_newer_versions(server, url):
    import psycopg

    with pytest.raises(StoreError, match="there is no store in"):
        open_store(url, readonly=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA adjudge")
        connection.execute("CREATE TABLE adjudge.theirs (x int)")
        with pytest.raises(StoreError, match="the schema adjudge of .* is of another program"):
            open_store(url)
        connection.execute("DROP TABLE adjudge.theirs")
        open_store(url).close()  # an empty schema, made by the database's administrator
        connection.execute("UPDATE adjudge.store SET version = %s", [VERSION + 1])
    for readonly in (False, True):
        with pytest.raises(StoreError, match=f"version {VERSION + 1}, this one knows {VERSION}.*upgrade adjudge"):
            open_store(url, readonly=readonly)


def test_a_migration_that_fails_leaves_nothing(url, monkeypatch):
    monkeypatch.setattr(module, "statements", lambda number, dialect: ["CREATE TABLE log (x int)", "CREATE TABLE log (x int)"])
    with pytest.raises(StoreError, match='"log" already exists'):
        open_store(url)
    monkeypatch.undo()
    store = open_store(url)
    assert store.campaigns() == []
    store.close()


def test_stores_opened_at_the_same_moment(url):
    command = [
        sys.executable,
        "-c",
        "import sys; from adjudge.service.store.opening import open_store; open_store(sys.argv[1]).close()",
    ]
    runs = [subprocess.Popen([*command, url], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for run in runs:
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 0, errors


def test_no_password_is_shown():
    with pytest.raises(StoreUnavailable) as caught:
        open_store("postgresql://ann:hunter2@127.0.0.1:1/votes")
    assert "postgresql://ann@127.0.0.1:1/votes" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://ann:hunter2@h/votes?nonsense=hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_damaged_page_is_named(store):
    number = store.create_campaign("c")
    for first in (1, 4, 7):
        store.write(batch_of(number, first, 3))
    with store.writing() as link:
        link.run("UPDATE log SET body = overlay(body PLACING '\\x20'::bytea FROM 3) WHERE first = 4")
    with pytest.raises(DamagedStore, match="positions 4 to 6 of campaign 1"):
        log_of(store, number)


def test_a_damaged_snapshot_is_passed_over(store):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 6))
    snapshots = store.snapshots(number)
    snapshots.save(3, b"older")
    snapshots.save(6, b"newer")
    with store.writing() as link:
        link.run("UPDATE snapshot_part SET body = 'newex'::bytea WHERE position = 6")
    with pytest.warns(DamagedSnapshot, match="the one at position 6: the checksum differs"):
        assert snapshots.latest() == (3, b"older")


def test_others_are_the_processes_that_own_campaigns(store, url):
    other = open_store(url)
    mine, theirs = store.create_campaign("mine"), other.create_campaign("theirs")
    assert store.others() == {theirs: store.owner(theirs)}
    assert list(other.others()) == [mine]
    other.release(theirs)
    assert store.others() == {}
    other.close()
