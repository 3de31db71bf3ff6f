"""Any sequence of writing, failing, closing, crashing and reading leaves the log that was acknowledged."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from adjudge.service.store.batch import Batch, DecisionRow
from adjudge.service.store.errors import AdjudgeError, OutOfStep
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from stored_logs import batch_of, log_of, votes


class Machine(RuleBasedStateMachine):
    """The store compared with a model of it: lists in memory."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="adjudge-machine-"))
        self.copies = 0
        self.path = self.folder / "votes.db"
        self.store = open_store(self.path)
        self.logs, self.names, self.decided = {}, {}, {}

    def teardown(self):
        self.store.close()
        shutil.rmtree(self.folder)

    @rule()
    @precondition(lambda self: len(self.logs) < 3)
    def create(self):
        number = self.store.create_campaign(f"c{len(self.logs)}")
        self.logs[number], self.names[number], self.decided[number] = [], {}, []

    def batch(self, sizes, tag):
        """A batch for some of the campaigns, and its additions to the model."""
        whole, added = Batch(), {}
        for number, size in zip(self.logs, sizes, strict=False):
            if size:
                first = len(self.logs[number]) + 1
                part = batch_of(number, first, size, tag)
                whole.pages.update(part.pages)
                row = DecisionRow(first, f"t{first}", b'{"tag":"%s"}' % tag.encode())
                whole.decide(number, [row])
                worker = len(self.names[number])
                whole.workers.append((number, worker, f"w{worker}{tag}"))
                added[number] = (part.pages[number].events, (worker, f"w{worker}{tag}"), row)
        return whole, added

    @rule(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=3), tag=st.sampled_from(["", "x", "ü"]))
    def write(self, sizes, tag):
        batch, added = self.batch(sizes, tag)
        self.store.write(batch)
        for number, (events, (worker, name), row) in added.items():
            self.logs[number] += events
            self.names[number][worker] = name
            self.decided[number].append(row)

    @rule(sizes=st.lists(st.integers(1, 5), min_size=3, max_size=3), how=st.sampled_from(["gap", "worker", "order"]))
    @precondition(lambda self: self.logs)
    def write_what_fails(self, sizes, how):
        batch, _ = self.batch(sizes, "lost")
        number = max(batch.pages)
        if how == "gap":
            batch.pages[number].first += 1
        elif how == "worker":
            batch.workers.append(batch.workers[-1])
        else:
            batch.decisions[number] = [DecisionRow(9, "t", b"{}"), DecisionRow(8, "t", b"{}")]
        with pytest.raises(OutOfStep if how == "gap" else AdjudgeError):
            self.store.write(batch)

    @rule()
    @precondition(lambda self: any(self.names.values()))
    def erase(self):
        number = next(n for n, names in self.names.items() if names)
        batch = Batch()
        batch.erased = [(number, 0)]
        self.store.write(batch)
        self.names[number][0] = None

    @rule(idle=st.booleans())
    def tidy(self, idle):
        self.store.tidy(idle=idle)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = open_store(self.path)

    @rule(torn=st.binary(max_size=40))
    def crash(self, torn):
        """The files as they are now, with the beginning of a write that was not finished, are all that is left."""
        self.copies += 1
        folder = self.folder / str(self.copies)
        folder.mkdir()
        for name in ("votes.db", "votes.db-wal"):
            if (self.path.parent / name).exists():
                shutil.copy(self.path.parent / name, folder / name)
        if (folder / "votes.db-wal").exists():
            with (folder / "votes.db-wal").open("ab") as file:
                file.write(torn)
        self.store.close()
        self.path = folder / "votes.db"
        self.store = open_store(self.path)

    @rule(after=st.integers(0, 100), until=st.integers(0, 100))
    def read_a_range(self, after, until):
        for number, events in self.logs.items():
            assert log_of(self.store, number, after=after, until=until) == events[after : max(after, until)]

    @rule()
    def back_up(self):
        target = self.folder / "backup.db"
        self.store.backup(target)
        copy = open_store(target, readonly=True)
        for number, events in self.logs.items():
            assert log_of(copy, number) == events
        copy.close()

    @invariant()
    def nothing_is_lost_or_doubled(self):
        assert [row.number for row in self.store.campaigns()] == list(self.logs)
        for number, events in self.logs.items():
            assert self.store.last(number) == len(events)
            assert log_of(self.store, number) == events
            assert dict(self.store.workers(number)) == self.names[number]
            assert list(self.store.decisions(number)) == self.decided[number]
        assert all(found.problems == [] for found in verify(self.store))


Machine.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestMachine = Machine.TestCase


def test_the_model_would_notice():
    """A store that loses its last page is caught by the check of the machine."""
    machine = Machine()
    try:
        machine.create()
        machine.write([3], "")
        machine.write([2], "")
        with machine.store.writing() as link:
            link.run("DELETE FROM log WHERE first = 4")
        with pytest.raises(AssertionError):
            machine.nothing_is_lost_or_doubled()
        assert log_of(machine.store, 1) == votes(1, 3)
    finally:
        machine.teardown()
