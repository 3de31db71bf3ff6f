"""Logs that begin with a base, as their first pages are deleted: the same for SQLite and for PostgreSQL."""

import pytest

import postgres
from adjudge.service.store.backup import restore
from adjudge.service.store.batch import ArchiveRow, Batch
from adjudge.service.store.errors import DamagedStore, Expired, StoreError
from adjudge.service.store.events import Created, LabelAdded
from adjudge.service.store.export import vote_frames
from adjudge.service.store.log import PART_BYTES, split_parts
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from stored_logs import batch_of, log_of, votes

SIZES = (1, 3, 5, 2, 4)  # pages that end at positions 1, 4, 9, 11, 15
STATE = b"state" * 300_000  # of more than one part


@pytest.fixture
def number(store):
    """A campaign whose log has fifteen events, at the times 1 to 15."""
    number, position = store.create_campaign("c"), 1
    for size in SIZES:
        store.write(batch_of(number, position, size, decided=True))
        position += size
    return number


def begin(store, number, position=15, begins=10, state=STATE, expired=10):
    """Let a log begin with a state."""
    checks = [store.bases.add_part(number, position, part, body) for part, body in enumerate(split_parts(state))]
    store.bases.put(number, position, begins=begins, expired=expired, labels=["a", "b"], parts=checks)


def delete(store, number):
    while store.bases.delete_some(number):
        pass


def test_what_is_left_is_read_and_what_is_deleted_is_named(store, url, number):
    marks = [store.mark(number, position) for position in range(16)]
    assert store.begins(number) == 1
    assert store.bases.find(number) is None
    begin(store, number)
    for _ in range(2):  # before and after the pages are gone
        for opened in (store, open_store(url, readonly=True)):
            assert opened.begins(number) == 10
            assert log_of(opened, number, after=9) == votes(10, 6)
            assert log_of(opened, number, after=12, until=14) == votes(13, 2)
            assert [first for first, _ in opened.read(number, skip_expired=True)] == [10, 12]
            assert list(opened.read(number, until=9, skip_expired=True)) == []
            for after in (0, 3, 8):
                with pytest.raises(Expired, match="begins at position 10"):
                    list(opened.read(number, after=after))
            assert [opened.mark(number, position) for position in range(1, 9)] == [None] * 8
            assert [opened.mark(number, position) for position in range(9, 16)] == marks[9:]
            [found] = verify(opened)
            assert (found.begins, found.events, found.pages, found.problems) == (10, 6, 2, [])
            base = opened.bases.find(number)
            assert (base.position, base.begins, base.expired, base.labels) == (15, 10, 10, ["a", "b"])
            assert opened.bases.data(base) == STATE
            assert [row.position for row in opened.decisions(number)] == list(range(1, 16)), "decisions stay"
        opened.close()
        delete(store, number)
    with store.reading() as link:
        assert link.rows("SELECT min(first), count(*) FROM log WHERE campaign = ?", number) == [(10, 2)]
    store.write(batch_of(number, 16, 2))
    assert log_of(store, number, after=9) == votes(10, 8)
    assert verify(store)[0].problems == []


def test_a_later_base_takes_the_place_of_an_earlier_one(store, number):
    begin(store, number, position=12, begins=5)
    earlier = store.bases.find(number)
    begin(store, number)
    delete(store, number)
    with store.reading() as link:
        assert link.rows("SELECT DISTINCT position FROM base_part") == [(15,)]
    with pytest.raises(Expired, match="was replaced"):
        store.bases.data(earlier)
    for position, begins in ((15, 12), (14, 12), (99, 12), (15, 11), (15, 20)):
        with pytest.raises(StoreError, match="cannot go back|does not reach|no page ends"):
            begin(store, number, position=position, begins=begins)
    store.write(batch_of(number, 16, 1))
    with pytest.raises(StoreError, match="no page ends before it"):
        begin(store, number, position=16, begins=9)  # those before are deleted
    with pytest.raises(StoreError, match="has 2 of 3 parts"):
        store.bases.put(number, 16, begins=12, expired=12, labels=[], parts=[b"check"] * 3)
    begin(store, number, position=16, begins=10, state=b"the log need not be shorter")
    assert store.bases.data(store.bases.find(number)) == b"the log need not be shorter"


def test_parts_that_were_never_named_go_with_the_next_base(store, number):
    store.bases.add_part(number, 13, 0, b"killed here")
    assert store.begins(number) == 1
    assert log_of(store, number) == votes(1, 15)
    begin(store, number)
    delete(store, number)
    with store.reading() as link:
        assert {row[0] for row in link.rows("SELECT position FROM base_part")} == {15}


def test_pages_are_deleted_in_pieces_and_every_piece_leaves_a_whole_log(store, number, monkeypatch):
    monkeypatch.setattr("adjudge.service.store.log.DELETE_CHUNK_BYTES", 0)
    begin(store, number, position=14, begins=5)
    begin(store, number)
    pieces = 0
    while store.bases.delete_some(number):
        pieces += 1
        assert log_of(store, number, after=9) == votes(10, 6)
        assert verify(store)[0].problems == []
    assert pieces == 3 + 2  # pages, and the parts of the earlier base
    assert not store.bases.delete_some(number)


def test_readers_meet_the_deletion(store, number, monkeypatch):
    for first in range(16, 116):
        store.write(batch_of(number, first, 1))
    left, strict = store.read(number, skip_expired=True), store.read(number)
    seen = [next(left)[0], next(strict)[0]]
    assert seen == [1, 1]
    begin(store, number, position=115, begins=101)
    delete(store, number)
    rest = [first for first, _ in left]  # what was fetched already, and then what is left
    assert rest[-15:] == list(range(101, 116))
    assert rest == sorted(rest)
    assert max(rest[:-15]) < 101
    with pytest.raises(Expired, match="begins at position 101"):
        list(strict)


def test_how_much_of_a_log_is_older_than_a_time(store, number):
    assert store.bases.cut(number, 1) is None  # no page is older as a whole
    assert [store.bases.cut(number, before) for before in (2, 4, 5)] == [(1, 2), (1, 2), (4, 5)]
    assert store.bases.cut(number, 10) == (9, 10)
    assert store.bases.cut(number, 11) == (9, 10), "the first event that is kept is of the time 10"
    assert store.bases.cut(number, 100) == (15, 100)
    begin(store, number)
    for _ in range(2):
        assert store.bases.cut(number, 10) is None
        assert store.bases.cut(number, 12) == (11, 12)
        delete(store, number)
    assert store.bases.cut(77, 10) is None


def test_records_are_found_by_their_age_and_replaced(store, number):
    batch = Batch()
    batch.archived = [
        ArchiveRow(number, 3, "t1", b"1", 30),
        ArchiveRow(number, 5, "t2", b"2", 20),
        ArchiveRow(number, 6, "t1", b"3", 60),
        ArchiveRow(number, 7, "t4", b"4"),
        ArchiveRow(number, 7, "t5", b"5", None),
    ]
    store.write(batch)
    assert [row.record for row in store.records_before(number, 60, limit=9)] == [b"4", b"2", b"1"]
    assert [row.record for row in store.records_before(number, 60, limit=2)] == [b"4", b"2"]
    assert store.records_before(number + 1, 60, limit=9) == []
    one, two, three = store.records_before(number, 60, limit=9)
    store.replace_records([one._replace(touched=99), two._replace(record=b"", touched=None), three._replace(touched=None)])
    assert store.records_before(number, 99, limit=9) == [ArchiveRow(number, 6, "t1", b"3", 60)]
    assert [store.find_record(number, task, until=9) for task in ("t1", "t2", "t4")] == [b"3", b"", b"4"]


@pytest.mark.parametrize("column", ["position", "begins", "expired", "chain", "mark", "labels", "parts", "content", "checksum"])
def test_a_damaged_base_is_found(store, number, column):
    begin(store, number)
    value = {"labels": b"[]"}.get(column, b"\x01" * 16 if column in ("chain", "mark", "content", "checksum") else 12)
    with store.writing() as link:
        link.run(f"UPDATE base SET {column} = ? WHERE campaign = ?", value, number)
    with pytest.raises(DamagedStore, match="table base of campaign 1 is damaged"):
        store.bases.data(store.bases.find(number))
    assert verify(store)[0].problems


def test_a_damaged_state_is_found(store, number):
    begin(store, number)
    with store.writing() as link:
        link.run("UPDATE base_part SET body = ? WHERE part = 1", b"x" * (len(STATE) - PART_BYTES))
    [found] = verify(store)
    assert found.problems == ["the base of campaign 1 at position 15 is damaged, or is of another log: restore a backup"]


@pytest.mark.parametrize("kind", postgres.STORES)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_backup_of_what_is_left_restores(store, number, tmp_path, kind, is_whole):
    begin(store, number)
    if is_whole:
        delete(store, number)
    store.backup(tmp_path / "backup.db")
    target = str(tmp_path / "restored.db") if kind == "sqlite" else postgres.server().fresh("other")
    restore(tmp_path / "backup.db", target)
    again = open_store(target)
    assert again.begins(number) == 10
    assert log_of(again, number, after=9) == votes(10, 6)
    assert again.bases.data(again.bases.find(number)) == STATE
    assert verify(again)[0].problems == []
    delete(again, number)
    again.own(number)
    again.write(batch_of(number, 16, 1))
    assert log_of(again, number, after=9) == votes(10, 7)
    again.close()


def test_snapshots_of_what_is_deleted_are_passed_over(store, number):
    snapshots = store.snapshots(number)
    snapshots.save(8, b"8")
    begin(store, number)
    assert snapshots.latest() is None  # in silence
    snapshots.save(15, b"15")
    snapshots.save(13, b"13")
    snapshots.forget(15)
    assert snapshots.latest() == (15, b"15")
    assert snapshots.latest(until=14) is None


def test_what_is_left_is_exported(store):
    number = store.create_campaign("c")
    batch = Batch()
    batch.extend(number, 1, [Created(time=1, labels=["a"], names=["a"], model="fds")])
    batch.extend(number, 2, [LabelAdded(time=1, id="b", name="b")])
    store.write(batch)
    store.write(batch_of(number, 3, 3))
    batch = Batch()
    batch.extend(number, 6, [LabelAdded(time=6, id="c", name="c")])
    store.write(batch)
    whole = [frame.rows() for frame in vote_frames(store, number)]
    store.bases.put(number, 4, begins=3, expired=3, labels=["a", "b"], parts=[])
    assert [frame.rows() for frame in vote_frames(store, number)] == whole
    store.bases.put(number, 6, begins=6, expired=6, labels=["a", "b", "c"], parts=[])
    store.write(batch_of(number, 7, 1))
    [frame] = vote_frames(store, number)
    assert frame.select("position", "label").rows() == [(7, "b")]
