"""What every store does, run for SQLite and for PostgreSQL."""

import threading

import pytest

from adjudge.errors import AdjudgeError
from adjudge.service.store.batch import Batch, DecisionRow, OutboxRow
from adjudge.service.store.errors import DamagedSnapshot, OutOfStep, StoreError
from adjudge.service.store.events import Tick
from adjudge.service.store.opening import open_store
from adjudge.service.store.tables import Failure
from adjudge.service.store.verify import verify
from stored_logs import batch_of, created, log_of, votes

ODD = ["a\x00b", "tab\t", "quote'\"", "%s ?", "ünïcödé 🦊", "\x1b[31m", "'; DROP TABLE log; --", " ", "\\", "a" * 256]


def waiting(store):
    """The messages that wait, whenever they are due."""
    return store.webhooks.due(1 << 62)


def test_campaigns_are_numbered_and_found_again(store, url):
    assert store.campaigns() == []
    assert [store.create_campaign(name) for name in ("spam", "'; DROP TABLE log; --", "ünï")] == [1, 2, 3]
    assert [row.name for row in store.campaigns()] == ["spam", "'; DROP TABLE log; --", "ünï"]
    with pytest.raises(StoreError, match="there is a campaign 'spam' already"):
        store.create_campaign("spam")
    for name in ("", "a\x00b", "x" * 257, "a\nb"):
        with pytest.raises(StoreError, match="cannot be called"):
            store.create_campaign(name)
    store.close()
    again = open_store(url)
    assert len(again.campaigns()) == 3
    assert again.create_campaign("next") == 4
    again.close()


def test_what_was_written_is_read_again(store, url):
    one, two = store.create_campaign("one"), store.create_campaign("two")
    first = Batch()
    first.extend(one, 1, [created()])
    store.write(first)
    assert store.committed(one) == 1
    for start in range(2, 100, 7):
        batch = batch_of(one, start, 7)
        other = batch_of(two, (start - 2) // 7 + 1, 1)
        batch.pages.update(other.pages)
        assert len(batch) == 8
        store.write(batch)
    expected = [created(), *votes(2, 98)]
    for opened in (store, open_store(url, readonly=True)):
        assert log_of(opened, one) == expected
        assert log_of(opened, two) == votes(1, 14)
        assert opened.last(one) == 99
        assert opened.last(two) == 14
        assert opened.last(77) == 0
        assert log_of(opened, 77) == []
    opened.close()
    assert [v.events for v in verify(store)] == [99, 14]
    assert [v.problems for v in verify(store)] == [[], []]


def test_a_range_of_the_log(store):
    number = store.create_campaign("c")
    position = 1
    for size in (1, 3, 5, 2, 4):
        store.write(batch_of(number, position, size))
        position += size
    whole = log_of(store, number)
    for after in range(16):
        for until in range(17):
            assert log_of(store, number, after=after, until=until) == whole[after : max(after, until)]
    assert log_of(store, number, after=99) == []


def test_a_log_of_more_pages_than_are_read_at_once(store):
    number = store.create_campaign("c")
    for position in range(1, 151):
        store.write(batch_of(number, position, 1))
    assert log_of(store, number) == votes(1, 150)
    assert len(list(store.pages(number))) == 150


def test_a_batch_must_follow_the_log(store):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 5))
    for first in (1, 5, 7, 0, -3):
        with pytest.raises(OutOfStep, match=f"begins at position {first}, but its log ends at 5"):
            store.write(batch_of(number, first, 2))
    store.write(batch_of(number, 6, 2))
    assert log_of(store, number) == votes(1, 7)


def test_a_batch_is_written_whole_or_not_at_all(store):
    one, two = store.create_campaign("one"), store.create_campaign("two")
    store.write(batch_of(one, 1, 2))
    bad = batch_of(one, 3, 2, decided=True)
    bad.pages.update(batch_of(two, 9, 1).pages)  # there is a gap
    bad.workers = [(one, 1, "ann")]
    bad.archived = [(one, 3, "t", b"record")]
    bad.outbox = [OutboxRow(1, one, 3, "key", b"{}", 5)]
    with pytest.raises(OutOfStep):
        store.write(bad)
    assert log_of(store, one) == votes(1, 2)
    assert list(store.workers(one)) == []
    assert list(store.decisions(one)) == []
    assert store.find_record(one, "t", until=9) is None
    assert len(waiting(store)) == 0
    del bad.pages[two]
    store.write(bad)
    assert log_of(store, one) == votes(1, 4)
    assert list(store.workers(one)) == [(1, "ann")]


def test_an_error_in_the_middle_leaves_nothing(store):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 1))
    bad = batch_of(number, 2, 1)
    bad.workers = [(number, 5, "ann"), (number, 5, "bob")]  # one number, twice
    with pytest.raises(AdjudgeError):
        store.write(bad)
    bad.workers = [(number, 5, object())]
    with pytest.raises(AttributeError):
        store.write(bad)
    assert log_of(store, number) == votes(1, 1)
    bad.workers = []
    store.write(bad)
    assert log_of(store, number) == votes(1, 2)


def test_an_empty_batch_and_empty_pages(store):
    number = store.create_campaign("c")
    batch = Batch()
    assert not batch
    store.write(batch)
    batch = batch_of(number, 1, 0)
    store.write(batch)
    assert store.last(number) == 0


def test_names_are_data(store):
    number = store.create_campaign("c")
    batch = batch_of(number, 1, 1)
    batch.workers = [(number, at, name) for at, name in enumerate(ODD)]
    batch.archived = [(number, 1, name, name.encode()) for name in ODD]
    for name in ODD:
        batch.decide(number, [DecisionRow(1, name, b'{"odd":1}')])
    store.write(batch)
    assert [name for _, name in store.workers(number)] == ODD
    assert sorted(store.archived_tasks(number)) == sorted(ODD)
    for name in ODD:
        assert store.find_record(number, name, until=1) == name.encode()
        assert [row.task for row in store.decisions(number, task=name)] == [name]


def test_a_name_is_erased_and_the_number_stays(store):
    number = store.create_campaign("c")
    batch = batch_of(number, 1, 1)
    batch.workers = [(number, 0, "ann"), (number, 1, "bob")]
    store.write(batch)
    erasing = batch_of(number, 2, 1)
    erasing.erased = [(number, 0)]
    store.write(erasing)
    assert list(store.workers(number)) == [(0, None), (1, "bob")]


def test_many_workers(store):
    number = store.create_campaign("c")
    batch = batch_of(number, 1, 1)
    batch.workers = [(number, at, f"w{at}") for at in range(5000)]
    store.write(batch)
    assert list(store.workers(number)) == [(at, f"w{at}") for at in range(5000)]


def test_decisions_by_position_and_by_task(store):
    number = store.create_campaign("c")
    position = 1
    expected = []
    for count in (3, 1, 4, 20, 2):
        batch = batch_of(number, position, count)
        for at in range(position, position + count):
            for task in ("t", f"t{at % 5}", 'has "quotes"'):
                row = DecisionRow(at, task, b'{"at":%d}' % at)
                batch.decide(number, [row])
                expected.append(row)
        store.write(batch)
        position += count
    assert list(store.decisions(number)) == expected
    for after in range(position + 1):
        assert list(store.decisions(number, after=after)) == [row for row in expected if row.position > after]
    for task in ("t", "t3", 'has "quotes"', "quotes", "none"):
        assert list(store.decisions(number, task=task)) == [row for row in expected if row.task == task]
    # A position is never parted, so that the last one is a cursor.
    seen, after = [], 0
    while some := list(store.decisions(number, after=after, limit=4)):
        assert len(some) == min(6, len(expected) - len(seen))
        seen += some
        after = some[-1].position
    assert seen == expected
    assert list(store.decisions(99)) == []


def test_decisions_of_one_event_in_several_batches(store):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 1, decided=True))
    for part in range(3):  # a refit changes so many that they are written in parts
        batch = Batch()
        batch.decide(number, [DecisionRow(1, f"part{part}", b"{}")])
        store.write(batch)
    assert [row.task for row in store.decisions(number)] == ["t1", "part0", "part1", "part2"]
    assert [row.task for row in store.decisions(number, after=0, limit=1)] == ["t1", "part0", "part1", "part2"]
    unordered = Batch()
    unordered.decisions[number] = [DecisionRow(3, "t", b"{}"), DecisionRow(2, "t", b"{}")]
    with pytest.raises(StoreError, match="not in the order"):
        store.write(unordered)


def test_records_are_found_by_position(store):
    number = store.create_campaign("c")
    batch = batch_of(number, 1, 9)
    batch.archived = [(number, at, "t", b"%d" % at) for at in (2, 5, 8)]
    store.write(batch)
    found = [store.find_record(number, "t", until=until) for until in range(10)]
    assert found == [None, None, b"2", b"2", b"2", b"5", b"5", b"5", b"8", b"8"]
    assert store.find_record(number, "u", until=9) is None
    assert store.find_record(99, "t", until=9) is None


def test_marks_tell_logs_apart(store):
    one, two = store.create_campaign("one"), store.create_campaign("two")
    store.write(batch_of(one, 1, 3))
    store.write(batch_of(one, 4, 3))
    for first in range(1, 7):
        store.write(batch_of(two, first, 1))
    marks = [store.mark(one, position) for position in range(8)]
    assert marks[-1] is None
    assert len(set(marks)) == 8
    assert not set(marks[:-1]) & {store.mark(two, position) for position in range(7)}


def test_snapshots(store, url):
    number = store.create_campaign("c")
    snapshots = store.snapshots(number)
    assert snapshots.latest() is None
    store.write(batch_of(number, 1, 4))
    store.write(batch_of(number, 5, 4))
    with pytest.raises(StoreError, match="is too early: the log ends at 8"):
        snapshots.save(9, b"state")
    for position in (3, 4, 6, 8):
        snapshots.save(position, b"state at %d" % position)
    assert snapshots.latest() == (8, b"state at 8")
    assert snapshots.latest(until=7) == (6, b"state at 6")
    assert snapshots.latest(until=5) is None  # two are kept
    large = b"".join(bytes([at]) * 700_000 for at in range(4))
    snapshots.save(8, large)  # in place of the earlier one
    store.close()
    again = open_store(url)
    assert again.snapshots(number).latest() == (8, large)
    assert again.snapshots(number + 1).latest() is None
    again.close()


def test_tokens(store, url):
    one = store.tokens.add(b"h" * 32, "bot", ["vote", "read"], "spam", 5)
    two = store.tokens.add(b"i" * 32, "ann's", ["admin"], None, 6, ["spam"])
    with pytest.raises(StoreError, match="exists already"):
        store.tokens.add(b"h" * 32, "again", [], None, 7)
    assert store.tokens.revoke(one, 9)
    assert not store.tokens.revoke(one, 10)
    assert not store.tokens.revoke(99, 10)
    rows = store.tokens.all()
    assert [tuple(row) for row in rows] == [
        (one, b"h" * 32, "bot", ("vote", "read"), "spam", 5, 9, None),
        (two, b"i" * 32, "ann's", ("admin",), None, 6, None, ("spam",)),
    ]
    other = open_store(url, readonly=True)
    assert other.tokens.all() == rows
    other.close()


def test_webhooks(store):
    number = store.create_campaign("c")
    hook = store.webhooks.add(number, "https://example.org/'", "secret", {"status": ["decided"]}, 5)
    other = store.webhooks.add(number + 1, "https://example.org/2", "s", {}, 6)
    assert [row.number for row in store.webhooks.targets()] == [hook, other]
    assert store.webhooks.targets(number)[0].settings == {"status": ["decided"]}
    assert waiting(store) == []
    batch = batch_of(number, 1, 3)
    batch.outbox = [OutboxRow(hook, number, at, f"key{at}", b'{"n":%d}' % at, 100 + at) for at in (1, 2, 3)]
    store.write(batch)
    assert len(waiting(store)) == 3
    assert [message.due for message in waiting(store)] == [101, 102, 103]
    first, second = store.webhooks.due(102)
    assert (first.key, first.body, first.attempts, first.error) == ("key1", b'{"n":1}', 0, None)
    store.webhooks.settle([first.number], [Failure(second.number, "timed out", 500, 103)])
    assert [one.key for one in store.webhooks.due(200)] == ["key3"]
    assert [(one.key, one.attempts, one.error) for one in store.webhooks.due(500)] == [
        ("key3", 0, None),
        ("key2", 1, "timed out"),
    ]
    store.webhooks.settle(failed=[Failure(second.number, "gone", None, 501)])
    assert [one.key for one in store.webhooks.due(10**9)] == ["key3"]
    (dead,) = store.webhooks.dead(number)
    assert (dead.key, dead.attempts, dead.error, dead.dead) == ("key2", 2, "gone", 501)
    assert store.webhooks.dead(number + 1) == []
    assert not store.webhooks.redeliver(number + 1, dead.number, 600)
    assert store.webhooks.redeliver(number, dead.number, 600)
    assert not store.webhooks.redeliver(number, dead.number, 600)
    assert store.webhooks.dead(number) == []
    assert len(waiting(store)) == 2
    assert store.webhooks.remove(hook, 700)
    assert not store.webhooks.remove(hook, 701)
    assert len(waiting(store)) == 0
    assert [row.number for row in store.webhooks.targets()] == [other]


def test_a_store_for_reading_cannot_be_written(store, url):
    number = store.create_campaign("c")
    store.write(batch_of(number, 1, 1))
    reader = open_store(url, readonly=True)
    with pytest.raises(StoreError, match="reading only"):
        reader.create_campaign("d")
    with pytest.raises(StoreError, match="reading only|not owned|is written by"):
        reader.write(batch_of(number, 2, 1))
    with pytest.raises(StoreError, match="reading only"):
        reader.own(number)
    reader.close()
    with pytest.raises(StoreError, match="closed"):
        reader.last(number)


def test_readers_in_other_threads_see_what_is_committed(store):
    number = store.create_campaign("c")
    errors, stop = [], threading.Event()

    def reading():
        try:
            before = 0
            while not stop.is_set():
                last = store.last(number)
                assert len(log_of(store, number)) >= last >= before
                before = last
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=reading) for _ in range(3)]
    for thread in threads:
        thread.start()
    for first in range(1, 200, 4):
        store.write(batch_of(number, first, 4))
        store.tidy(idle=first % 3 == 0)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_events_of_every_kind_are_read_as_they_were(store):
    number = store.create_campaign("c")
    batch = Batch()
    for position, event in enumerate([created(), *votes(2, 1), Tick(time=3)], 1):
        batch.extend(number, position, [event])
    store.write(batch)
    assert log_of(store, number) == [created(), *votes(2, 1), Tick(time=3)]


def test_a_snapshot_of_another_log_is_not_used(store):
    one = store.create_campaign("one")
    store.write(batch_of(one, 1, 5))
    store.snapshots(one).save(5, b"state")
    with store.writing() as link:  # a log that continued differently, as after an older backup was restored
        link.run("DELETE FROM log WHERE campaign = ?", one)
    store._heads.clear()
    store.write(batch_of(one, 1, 5, tag="other"))
    with pytest.warns(DamagedSnapshot, match="it is of another log"):
        assert store.snapshots(one).latest() is None


def test_messages_that_were_dated_ahead_are_hastened(store):
    number = store.create_campaign("c")
    batch = Batch()
    batch.outbox += [OutboxRow(1, number, 1, f"{due}", b"{}", due) for due in (5, 10, 99)]
    store.write(batch)
    store.webhooks.hasten(number, 10)
    assert sorted((each.key, each.due) for each in store.webhooks.due(10)) == [("10", 10), ("5", 5), ("99", 10)]
