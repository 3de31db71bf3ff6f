"""Records of tasks that left memory, so that the tasks can return."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.ids import Bloom, hash_of
from adjudge.service.store.rows import encode_text

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

FILTER_CHUNK_TASKS: Final = 4096  # tasks added to the filter at once


class Record(NamedTuple):
    """The record of a task."""

    task: str
    record: bytes
    touched: int | None = 0  # see `ArchiveRow`


class Archive(Protocol):
    """The tasks of one campaign that left memory. One thread uses it."""

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Store records of tasks that the event at a position sent away; the position never decreases."""

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position, None if there is none."""

    def may_have(self, task: str) -> bool:
        """Return False only if a task has no record; this reads no disk."""


class MemoryArchive:
    """An archive in memory, for replays and tests.

    >>> archive = MemoryArchive()
    >>> archive.put(7, [Record("t1", b"one")]); archive.put(9, [Record("t1", b"two")])
    >>> archive.get("t1", 8), archive.get("t1", 9), archive.get("t1", 6), archive.may_have("t2")
    (b'one', b'two', None, False)
    """

    def __init__(self) -> None:
        self._records: dict[str, list[tuple[int, bytes]]] = {}

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Store records."""
        for task, record, *_ in records:
            self._records.setdefault(task, []).append((position, record))

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        return _newest(self._records.get(task, []), until)

    def may_have(self, task: str) -> bool:
        """Return whether a task has a record."""
        return task in self._records

    def records(self) -> dict[tuple[str, int], bytes]:
        """Return all records by task and position."""
        return {(task, position): record for task, records in self._records.items() for position, record in records}


class StoreArchive:
    """The archive of a campaign in a store.

    `put` receives each row that must be written with the event at its position. `state` is the result of `state()`, from a
    snapshot; without it, the tasks are read from the store. Replaying the log puts records that are stored already: these are
    not written twice.
    """

    def __init__(self, store: Store, campaign: int, put: Callable[[ArchiveRow], object], state: bytes | None = None) -> None:
        self._store = store
        self._campaign = campaign
        self._put = put
        self._stored = store.last(campaign)  # the log up to here was written, and the records with it
        self._pending: dict[str, list[tuple[int, bytes]]] = {}  # perhaps not on disk yet
        self._put_at: deque[tuple[int, list[str]]] = deque()  # the positions of those, and the tasks at each
        self._filter = Bloom()
        if state is None:
            tasks = store.archived_tasks(campaign)
            while chunk := list(islice(tasks, FILTER_CHUNK_TASKS)):
                self._remember(chunk)
        else:
            try:
                self._filter = Bloom.from_state(msgspec.msgpack.decode(state, type=list[tuple[int, bytes]]))
            except msgspec.DecodeError as error:
                raise DamagedStore(f"the archive in a snapshot of campaign {campaign} cannot be read: {error}") from error

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Store records."""
        self._drop_written()
        records = list(records)
        self._remember(task for task, *_ in records)
        if position > self._stored:
            self._put_at.append((position, [task for task, *_ in records]))
            for task, record, *touched in records:
                self._pending.setdefault(task, []).append((position, record))
                self._put(ArchiveRow(self._campaign, position, task, record, *touched))

    def follow(self, position: int) -> None:
        """Note that another process has written the log up to a position, and the records with it."""
        self._stored = position

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        if not self.may_have(task):
            return None
        pending = _newest(self._pending.get(task, []), until)
        return pending if pending is not None else self._store.find_record(self._campaign, task, until=until)

    def may_have(self, task: str) -> bool:
        """Return whether a task may have a record."""
        return hash_of(encode_text(task)) in self._filter

    def state(self) -> bytes:
        """Return the state for a snapshot: the filter of tasks with records."""
        return msgspec.msgpack.encode(self._filter.state())

    def _remember(self, tasks: Iterable[str]) -> None:
        """Add tasks to the filter; many at once take hardly longer than one."""
        keys = {hash_of(encode_text(task)) for task in tasks}
        self._filter.add(*sorted(key for key in keys if key not in self._filter))

    def _drop_written(self) -> None:
        """Drop pending records that are on disk by now."""
        stored = self._store.committed(self._campaign)
        while self._put_at and self._put_at[0][0] <= stored:
            for task in self._put_at.popleft()[1]:
                self._pending[task] = [record for record in self._pending.get(task, ()) if record[0] > stored]
                if not self._pending[task]:
                    del self._pending[task]


class CopiedArchive:
    """The archive of a copied state: it reads from `below`, and writes to an archive of its own, in memory by default."""

    def __init__(self, below: Archive, own: Archive | None = None) -> None:
        self._below, self.own = below, MemoryArchive() if own is None else own

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Store records in the archive of its own."""
        self.own.put(position, records)

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        record = self.own.get(task, until)
        return record if record is not None else self._below.get(task, until)

    def may_have(self, task: str) -> bool:
        """Return whether a task may have a record."""
        return self.own.may_have(task) or self._below.may_have(task)


def _newest(records: list[tuple[int, bytes]], until: int) -> bytes | None:
    """Return the last of some records, ordered by position, at or before a position."""
    at = bisect_right(records, until, key=lambda record: record[0])
    return records[at - 1][1] if at else None
