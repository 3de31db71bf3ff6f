"""The thread that writes."""

import threading

import pytest

from adjudge.service.store.batch import Batch
from adjudge.service.store.errors import StoreError, StoreUnavailable
from adjudge.service.store.opening import open_store
from adjudge.service.store.writer import Writer
from stored_logs import batch_of, log_of, votes


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "votes.db")
    yield opened
    opened.close()


def gate(store, monkeypatch):
    """Lets the first write wait until the returned event is set."""
    entered, go, real = threading.Event(), threading.Event(), store.write

    def write(batch):
        entered.set()
        assert go.wait(20)
        real(batch)

    monkeypatch.setattr(store, "write", write)
    return entered, go


def test_batches_are_written_in_order_and_told(store):
    done = []
    writer = Writer(store, lambda batch, error: done.append((batch, error, threading.current_thread().name)))
    number = writer.run(store.create_campaign, "c").result(20)
    batches = [batch_of(number, 1 + 3 * at, 3) for at in range(50)]
    for batch in batches:
        writer.submit(batch)
    assert writer.run(store.last, number).result(20) == 150
    writer.close()
    assert [one[0] for one in done] == batches
    assert {one[1:] for one in done} == {(None, "adjudge-writer")}
    assert log_of(store, number) == votes(1, 150)


def test_a_batch_is_told_after_it_is_on_disk(store, tmp_path):
    seen = []
    reader = open_store(tmp_path / "votes.db", readonly=True)
    number = store.create_campaign("c")
    writer = Writer(store, lambda batch, error: seen.append(reader.last(number)))
    for at in range(20):
        writer.submit(batch_of(number, at + 1, 1))
    writer.close()
    reader.close()
    assert all(last >= at for at, last in enumerate(seen, 1))
    assert len(seen) == 20


def test_a_failure_takes_those_with_it_that_wait(store, monkeypatch):
    number = store.create_campaign("c")
    entered, go = gate(store, monkeypatch)
    done = []
    writer = Writer(store, lambda batch, error: done.append((len(batch), type(error).__name__)))
    writer.submit(batch_of(number, 7, 1))  # there is a gap: it fails
    assert entered.wait(20)
    writer.submit(batch_of(number, 1, 2))
    writer.submit(batch_of(number, 3, 3))
    work = writer.run(store.last, number)
    go.set()
    assert work.result(20) == 0
    writer.submit(batch_of(number, 1, 4))
    writer.close()
    assert done == [(1, "OutOfStep"), (2, "OutOfStep"), (3, "OutOfStep"), (4, "NoneType")]
    assert log_of(store, number) == votes(1, 4)


def test_a_batch_made_in_the_belief_that_a_lost_one_is_written_is_refused(store, monkeypatch):
    number = store.create_campaign("c")
    real, failing = store.write, [True]

    def write(batch):
        if failing.pop() if failing else False:
            raise StoreUnavailable("the disk is full")
        real(batch)

    monkeypatch.setattr(store, "write", write)
    done = []
    told = threading.Event()
    writer = Writer(store, lambda batch, error: (done.append(type(error).__name__), told.set()))
    writer.submit(batch_of(number, 1, 2))
    assert told.wait(20)
    writer.submit(batch_of(number, 3, 2))  # submitted before the failure was heard of
    writer.submit(batch_of(number, 1, 2))
    writer.close()
    assert done[:2] == ["StoreUnavailable", "OutOfStep"]
    assert store.last(number) in (0, 2)  # by whether it was in the queue at the second failure
    assert not log_of(store, number, after=2)


def test_an_error_of_some_work_is_of_who_waits(store):
    writer = Writer(store, lambda batch, error: None)
    with pytest.raises(ZeroDivisionError):
        writer.run(divmod, 1, 0).result(20)
    assert writer.run(divmod, 5, 2).result(20) == (2, 1)
    writer.close()


def test_an_error_after_a_batch_does_not_end_the_thread(store, caplog):
    number = store.create_campaign("c")

    def on_done(batch, error):
        raise RuntimeError("in on_done")

    writer = Writer(store, on_done)
    writer.submit(batch_of(number, 1, 1))
    writer.submit(batch_of(number, 2, 1))
    writer.close()
    assert store.last(number) == 2
    assert "in on_done" in caplog.text


def test_closed(store, monkeypatch):
    number = store.create_campaign("c")
    entered, go = gate(store, monkeypatch)
    writer = Writer(store, lambda batch, error: None)
    writer.submit(batch_of(number, 1, 1))
    assert entered.wait(20)
    with pytest.raises(StoreUnavailable, match="has not taken all"):
        writer.close(timeout=0.01)
    for use in (lambda: writer.submit(Batch()), lambda: writer.run(divmod, 1, 1)):
        with pytest.raises(StoreError, match="is closed"):
            use()
    go.set()
    writer.close()
    assert store.last(number) == 1


def test_the_writer_tidies_when_idle(store, monkeypatch):
    called = threading.Event()
    monkeypatch.setattr(store, "tidy", lambda idle=False: called.set() if idle else None)
    writer = Writer(store, lambda batch, error: None)
    assert called.wait(20)
    writer.close()
