"""Backups while a store is in use, restoring, and export."""

import sqlite3
import threading
from datetime import UTC, datetime

import msgspec
import polars as pl
import pytest

import postgres
from adjudge.errors import AdjudgeError
from adjudge.io.write import write_batches
from adjudge.service.campaigns.decision import Decision
from adjudge.service.store.backup import restore
from adjudge.service.store.batch import Batch, DecisionRow, OutboxRow
from adjudge.service.store.errors import NotOwner, StoreError
from adjudge.service.store.events import Change, Created, LabelAdded, Retraction, Vote
from adjudge.service.store.export import DECISIONS_SCHEMA, decision_frames, vote_frames
from adjudge.service.store.ids import IdIndex, content_of
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import TABLES
from adjudge.service.store.verify import verify
from stored_logs import batch_of, log_of, votes


def everything(store):
    """All that a store holds, as readers see it."""
    return [
        (
            row,
            log_of(store, row.number),
            list(store.workers(row.number)),
            list(store.decisions(row.number)),
            sorted((task, store.find_record(row.number, task, until=99)) for task in store.archived_tasks(row.number)),
            store.webhooks.dead(row.number),
            store.id_generations(row.number),
        )
        for row in store.campaigns()
    ] + [store.tokens.all(), store.webhooks.targets(), store.webhooks.due(10**9)]


def filled(store):
    one, two = store.create_campaign("one"), store.create_campaign("tẅo")
    batch = batch_of(one, 1, 9, decided=True)
    batch.pages.update(batch_of(two, 1, 3).pages)
    batch.workers = [(one, 0, "ann"), (one, 1, "b\x00b"), (two, 0, "ann")]
    batch.archived = [(one, 4, "t", b"\x00\xff"), (one, 5, "t\x00u", b"")]
    store.tokens.add(b"h" * 32, "bot", ["vote"], None, 5)
    store.webhooks.add(one, "https://example.org", "s", {"a": 1}, 5)
    batch.outbox = [OutboxRow(1, one, 4, "k", b"{}", 9)]
    store.write(batch)
    erasing = batch_of(one, 10, 1)
    erasing.erased = [(one, 0)]
    store.write(erasing)
    return everything(store)


def other_url(url, tmp_path, kind):
    """Where a restored store may be."""
    if kind == "sqlite":
        return str(tmp_path / "restored.db")
    return postgres.server().fresh("other")


@pytest.mark.parametrize("kind", postgres.STORES)
def test_a_backup_holds_all_and_can_be_restored(store, url, tmp_path, kind):
    expected = filled(store)
    path = tmp_path / "backup.db"
    store.backup(path)
    assert [p.name for p in tmp_path.glob("*backup*")] == ["backup.db"]  # one file
    copy = open_store(path, readonly=True)
    assert everything(copy) == expected
    assert [found.problems for found in verify(copy)] == [[], []]
    copy.close()
    target = other_url(url, tmp_path, kind)
    restore(path, target)
    again = open_store(target)
    assert everything(again) == expected
    again.own(1)
    again.write(batch_of(1, 11, 2))
    assert log_of(again, 1) == votes(1, 12)
    assert again.create_campaign("three") == 3  # numbers continue
    assert again.tokens.add(b"i" * 32, "other", [], None, 6) == 2
    again.close()
    with pytest.raises(StoreError, match="there already|not empty"):
        restore(path, target)


def test_a_backup_of_a_moment_while_others_write(store, tmp_path):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 500, decided=True))
    stop, written = threading.Event(), [500]

    def writing():
        while not stop.is_set():
            store.write(batch_of(number, written[0] + 1, 20, decided=True))
            written[0] += 20

    thread = threading.Thread(target=writing)
    thread.start()
    try:
        for turn in range(4):
            before = written[0]
            store.backup(tmp_path / "backup.db")
            after = written[0]
            copy = open_store(tmp_path / "backup.db", readonly=True)
            last = copy.last(number)
            assert before <= last <= after + 20
            assert log_of(copy, number) == votes(1, last)
            assert [row.position for row in copy.decisions(number)] == list(range(1, last + 1))
            copy.close()
    finally:
        stop.set()
        thread.join()


def test_a_backup_is_taken_in_steps_of_one_moment(tmp_path, monkeypatch):
    """A commit between two steps neither shows up nor restarts the copy."""
    from adjudge.service.store import backup

    store = open_store(tmp_path / "votes.db")
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 3000))
    monkeypatch.setattr(backup, "COPY_PAGES", 4)
    real, turns = backup.copy_sqlite, []

    class Source:
        def __init__(self, connection):
            self.connection = connection

        def execute(self, sql):
            return self.connection.execute(sql)

        def backup(self, target, pages, sleep):
            def progress(status, remaining, total):
                turns.append(remaining)
                if len(turns) < 50:  # a copy that restarts must end
                    store.write(batch_of(number, store.last(number) + 1, 1))

            self.connection.backup(target, pages=pages, sleep=sleep, progress=progress)

    monkeypatch.setattr(backup, "copy_sqlite", lambda connection, store, path: real(Source(connection), store, path))
    store.backup(tmp_path / "backup.db")
    assert len(turns) > 5
    assert turns == sorted(turns, reverse=True)
    copy = open_store(tmp_path / "backup.db", readonly=True)
    assert log_of(copy, number) == votes(1, 3000)
    copy.close()
    store.close()


def test_a_backup_replaces_only_backups(tmp_path):
    store, other = open_store(tmp_path / "votes.db"), open_store(tmp_path / "other.db")
    store.create_campaign("c")
    for path in ("votes.db", "other.db", ".", "none/backup.db"):
        with pytest.raises(AdjudgeError, match="cannot write"):
            store.backup(tmp_path / path)
    for _ in range(2):
        store.backup(tmp_path / "backup.db")
    other.close()
    store.close()


def test_a_failed_backup_leaves_the_old_one(tmp_path, monkeypatch):
    from adjudge.service.store import backup

    store = open_store(tmp_path / "votes.db")
    store.create_campaign("c")
    store.backup(tmp_path / "backup.db")
    old = (tmp_path / "backup.db").read_bytes()
    store.write(batch_of(1, 1, 50))

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup.os, "fsync", full)
    with pytest.raises(AdjudgeError, match="cannot write .*backup.db: No space left"):
        store.backup(tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_bytes() == old
    monkeypatch.undo()
    store.close()


def test_a_backup_on_a_full_disk_says_so(tmp_path):
    from adjudge.service.store import backup

    def fill(target):
        target.execute("PRAGMA max_page_count = 2")
        target.execute("CREATE TABLE large (x)")
        target.execute("INSERT INTO large VALUES (zeroblob(100000))")

    with pytest.raises(StoreError, match="cannot write .*backup.db: database or disk is full"):
        backup.write_store(tmp_path / "backup.db", fill)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_backup_is_not_restored(tmp_path):
    store = open_store(tmp_path / "votes.db")
    store.create_campaign("c")
    for first in (1, 4):
        store.write(batch_of(1, first, 3))
    store.backup(tmp_path / "backup.db")
    store.close()
    with sqlite3.connect(tmp_path / "backup.db") as connection:
        connection.execute("UPDATE log SET checksum = zeroblob(16) WHERE first = 4")
    connection.close()
    with pytest.raises(StoreError, match="backup.db is damaged: .*positions 4 to 6 of campaign 1"):
        restore(tmp_path / "backup.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_restored_store_does_not_use_snapshots_of_the_lost_one(tmp_path):
    path = tmp_path / "votes.db"
    store = open_store(path)
    store.create_campaign("c")
    store.write(batch_of(1, 1, 3))
    store.backup(tmp_path / "backup.db")
    store.write(batch_of(1, 4, 3))
    store.snapshots(1).save(6, b"of the lost log")
    store.snapshots(1).save(2, b"still true")
    store.close()
    path.unlink()
    restore(tmp_path / "backup.db", path)
    again = open_store(path)
    again.write(batch_of(1, 4, 9, tag="other"))
    with pytest.warns(UserWarning, match="it is of another log"):
        assert again.snapshots(1).latest() == (2, b"still true")
    again.close()


def test_ids_are_restored_with_the_backup(tmp_path, monkeypatch):
    from adjudge.service.store import ids

    monkeypatch.setattr(ids, "IDS_PER_GENERATION", 10)
    store = open_store(tmp_path / "votes.db")
    number = store.create_campaign("c")
    index, batch = IdIndex(store, number), batch_of(number, 1, 25)
    for position, vote in enumerate(batch.pages[number].events, 1):
        index.remember(vote.id, content_of(vote.task, vote.worker, vote.label), position)
        while generation := index.take_full():
            batch.ids.append(generation)
    store.write(batch)
    store.backup(tmp_path / "backup.db")
    store.close()
    restore(tmp_path / "backup.db", tmp_path / "new.db")
    again = open_store(tmp_path / "new.db")
    index = IdIndex(again, number)
    index.catch_up(25)
    assert len(index) == 25
    assert all(index.look_up(vote.id, content_of(vote.task, vote.worker, vote.label)) == "same" for vote in votes(1, 25))
    again.close()


def test_all_tables_are_in_a_backup(store, tmp_path):
    store.backup(tmp_path / "backup.db")
    with sqlite3.connect(tmp_path / "backup.db") as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert tables - {"sqlite_sequence"} == set(TABLES)


# Export

EVENTS = [
    Created(time=1, labels=["a", "b"], names=["A", "B"], model="fds"),
    Vote(time=2, task="t1", worker=0, label=0, id="x"),
    Vote(time=3, task="t1", worker=1, label=1),
    Vote(time=4, task="=t2", worker=0, label=1),
    Change(time=5, task="t1", worker=0, label=1),
    Retraction(time=6, task="t1", worker=1),
    LabelAdded(time=7, id="c", name="C"),
    Vote(time=8, task="t1", worker=2, label=2),
    Retraction(time=9, task="=t2", worker=0),
    Vote(time=1_000_000, task="=t2", worker=0, label=2),
]


def exported(store):
    number = store.create_campaign("c")
    batch = Batch()
    for position, event in enumerate(EVENTS, 1):
        batch.extend(number, position, [event])
    batch.workers = [(number, 0, "ann"), (number, 1, "#2"), (number, 2, "eve")]
    batch.erased = [(number, 2)]
    decision = Decision(
        task="t1", label="b", confidence=0.75, status="decided", votes=2, policy=1, time=datetime(2026, 5, 1, 12, tzinfo=UTC),
        position=5, reason="sure",
    )  # fmt: skip
    batch.decide(number, [DecisionRow(5, "t1", msgspec.json.encode(decision))])
    store.write(batch)
    return number


def test_votes_in_force_and_all(store):
    number = exported(store)
    (frame,) = vote_frames(store, number)
    assert frame.select("task", "worker", "label", "position").rows() == [
        ("t1", "ann", "b", 5),
        ("t1", "##2", "c", 8),
        ("=t2", "ann", "c", 10),
    ]
    assert frame["time"][2] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    (frame,) = vote_frames(store, number, in_force=False)
    assert frame.select("event", "label", "id").rows()[:5] == [
        ("vote", "a", "x"), ("vote", "b", None), ("vote", "b", None), ("change", "b", None), ("retraction", None, None),
    ]  # fmt: skip
    assert len(frame) == 8
    (frame,) = vote_frames(store, 99)
    assert frame.is_empty()


@pytest.mark.parametrize("end", ["csv", "parquet", "jsonl"])
def test_exports_are_files(store, tmp_path, end, monkeypatch):
    from adjudge.service.store import export

    monkeypatch.setattr(export, "ROWS_PER_FRAME", 2)
    number = exported(store)
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[end]
    write_batches(vote_frames(store, number), tmp_path / f"votes.{end}")
    assert read(tmp_path / f"votes.{end}")["label"].to_list() == ["b", "c", "c"]
    write_batches(decision_frames(store, number), tmp_path / f"decisions.{end}")
    assert read(tmp_path / f"decisions.{end}").select("task", "label", "confidence", "votes").rows() == [("t1", "b", 0.75, 2)]


def test_an_export_of_decisions_has_the_fields_of_a_decision():
    assert set(DECISIONS_SCHEMA) == set(Decision.__struct_fields__)


def test_a_readonly_backup_cannot_be_written(tmp_path):
    store = open_store(tmp_path / "votes.db")
    store.create_campaign("c")
    store.backup(tmp_path / "backup.db")
    reader = open_store(tmp_path / "backup.db", readonly=True)
    with pytest.raises(NotOwner):
        reader.own(1)
    reader.close()
    store.close()
