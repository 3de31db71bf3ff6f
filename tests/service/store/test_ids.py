"""Ids of clients, records of tasks, and the filter in front of both."""

import pytest

from adjudge.service.store import ids as bloom_module
from adjudge.service.store import ids as module
from adjudge.service.store.archive import MemoryArchive, StoreArchive
from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.ids import Bloom, Generation, IdIndex, content_of, find_in_page, hash_of
from stored_logs import batch_of, votes


def hashes(start, count):
    return [hash_of(b"%d" % at) for at in range(start, start + count)]


def test_a_filter_forgets_nothing_and_is_seldom_wrong(monkeypatch):
    monkeypatch.setattr(bloom_module, "SMALLEST_SLICE_HASHES", 1 << 9)
    bloom = Bloom()
    for key in hashes(0, 700):
        bloom.add(key)
    bloom.add(*hashes(700, 6000))
    assert len(bloom) == 6700
    assert all(key in bloom for key in hashes(0, 6700))
    wrong = sum(key in bloom for key in hashes(10**6, 5000))
    assert 0 < wrong < 5000 * 0.02
    for at in (0, 511, 512, 6699):
        assert any(start <= at < end for start, end in bloom.ranges(hashes(at, 1)[0]))
    assert 8 * sum(len(bits) for _, bits in bloom.state()) <= 2 * 12 * 6700
    again = Bloom.from_state(bloom.state())
    assert again.state() == bloom.state()
    again.add(*hashes(6700, 3000))
    assert all(key in again for key in hashes(0, 9700))


@pytest.mark.parametrize(
    "state", [[], [(1, b"short")], [(1 << 20, bytes(12 << 12))], [(5, bytes(12 << 12)), (0, bytes(24 << 12))]]
)
def test_a_damaged_filter_is_refused(state):
    with pytest.raises(DamagedStore, match="a filter of ids does not fit"):
        Bloom.from_state(state)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "IDS_PER_GENERATION", 100)
    monkeypatch.setattr(module, "IDS_PER_PAGE", 7)
    monkeypatch.setattr(bloom_module, "SMALLEST_SLICE_HASHES", 100)


def test_a_page_is_searched():
    keys = hashes(0, 50)
    generation = Generation(1, 0, 1, dict(zip(keys, hashes(100, 50), strict=True)))
    pages = list(generation.pages())
    assert b"".join(body[: len(body) // 2] for *_, body in pages) == b"".join(sorted(keys))
    assert [first for first, *_ in pages[1:]] == [until for _, until, _ in pages[:-1]]
    assert (pages[0][0], pages[-1][1]) == (b"", b"")
    (*_, body) = pages[0]
    found = {key: value for key in keys if (value := find_in_page(body, key)) is not None}
    assert found == generation.contents if len(pages) == 1 else found.items() <= generation.contents.items()
    for key in (b"\x00" * 16, b"\xff" * 16, *hashes(500, 20)):
        assert find_in_page(body, key) is None


def remembered(store, number, index, first, count):
    """Writes votes with ids as a campaign does."""
    batch = batch_of(number, first, count)
    for position, vote in enumerate(batch.pages[number].events, first):
        assert index.remember(vote.id, content_of(vote.task, vote.worker, vote.label), position) == "new"
        while (generation := index.take_full()) is not None:
            batch.ids.append(generation)
    return batch


def check(index, last):
    """Asserts that all ids up to a position are known with their contents, and no other."""
    for vote in votes(1, last):
        assert index.look_up(vote.id, content_of(vote.task, vote.worker, vote.label)) == "same"
        assert index.remember(vote.id, content_of(vote.task, vote.worker, 5), 99999) == "other"
    for vote in votes(last + 1, 200):
        assert index.look_up(vote.id, content_of(vote.task, vote.worker, vote.label)) == "new"


def test_ids_are_known_for_ever(store, small):
    number = store.create_campaign("c")
    index = IdIndex(store, number)
    state, first = None, 1
    for size in (1, 98, 1, 1, 150, 305, 44, 60):
        batch = remembered(store, number, index, first, size)
        check(index, first + size - 1)  # before the batch is written as well
        store.write(batch)
        first += size
        if first > 300 and state is None:
            state, at = index.state(first - 1), first - 1
    check(index, 660)
    assert len(index) == 660
    assert len(index._unwritten) <= 3  # those that are on disk are dropped from memory
    assert store.id_generations(number) == [(n, 100 * (n + 1)) for n in range(6)]
    for kept in (None, state, index.state(660)):
        again = IdIndex(store, number, kept)
        again.catch_up(store.last(number))
        check(again, 660)
        assert len(again) == 660
        assert again.take_full() is None
    early = IdIndex(store, number, state)
    assert early.after >= 600 > at  # generations that were closed after the snapshot are taken from the store


def test_ids_of_a_state_that_the_store_does_not_have(store, small):
    """A snapshot is passed over where the store has fewer generations: the log is read again from there."""
    number = store.create_campaign("c")
    index = IdIndex(store, number)
    store.write(remembered(store, number, index, 1, 250))
    state = index.state(250)
    with store.writing() as link:
        link.run("DELETE FROM id_generation WHERE generation = 1")
        link.run("DELETE FROM id_page WHERE generation = 1")
    again = IdIndex(store, number, state)
    assert again.after == 100
    again.catch_up(250)
    check(again, 250)
    generation = again.take_full()
    assert (generation.number, generation.until) == (1, 200)
    batch = Batch()
    batch.ids.append(generation)
    store.write(batch)
    check(caught_up(store, number), 250)


def caught_up(store, number):
    index = IdIndex(store, number)
    index.catch_up(store.last(number))
    return index


def test_missing_pages_of_ids_are_found(store, small):
    number = store.create_campaign("c")
    index = IdIndex(store, number)
    store.write(remembered(store, number, index, 1, 250))
    with store.writing() as link:
        link.run("DELETE FROM id_page WHERE first IN (SELECT first FROM id_page WHERE generation = 1 ORDER BY first LIMIT 1)")
    with pytest.raises(DamagedStore, match="ids of campaign 1 are missing"):
        IdIndex(store, number)


def test_a_damaged_state_is_refused(store):
    number = store.create_campaign("c")
    with pytest.raises(DamagedStore, match="cannot be read"):
        IdIndex(store, number, b"nonsense")
    with pytest.raises(DamagedStore, match="cannot be read"):
        StoreArchive(store, number, lambda row: None, b"nonsense")


def test_a_position_without_ids_is_not_read_again(store, small):
    number = store.create_campaign("c")
    index = IdIndex(store, number)
    store.write(batch_of(number, 1, 5))
    again = IdIndex(store, number, index.state(5))
    assert again.after == 5


def test_an_archive_keeps_what_is_pending_and_what_is_stored(store):
    number = store.create_campaign("c")
    rows = []
    archive = StoreArchive(store, number, rows.append)
    model = MemoryArchive()
    first = 1
    for turn in range(6):
        records = [(f"t{at}", b"%d at %d" % (at, turn)) for at in range(turn, turn + 4)]
        archive.put(first + 2, records)
        model.put(first + 2, records)
        same(archive, model, first + 2)
        batch = batch_of(number, first, 3)
        batch.archived, rows[:] = list(rows), []
        store.write(batch)
        same(archive, model, first + 2)
        first += 3
        if turn == 2:
            state = archive.state()
    assert len(archive._pending) <= 4
    # After a restart the log is applied again from the snapshot: nothing is written twice.
    for kept in (None, state):
        again = StoreArchive(store, number, rows.append, kept)
        for turn in range(3, 6):
            again.put(1 + 3 * turn + 2, [(f"t{at}", b"%d at %d" % (at, turn)) for at in range(turn, turn + 4)])
        assert rows == []
        same(again, model, first)


def same(archive, model, last):
    for task in (f"t{at}" for at in range(12)):
        assert archive.may_have(task) == model.may_have(task)
        for until in range(last + 1):
            assert archive.get(task, until) == model.get(task, until)
