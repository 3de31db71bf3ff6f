"""Records of tasks that left memory, so that they can come back."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.bloom import Bloom
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.ids import hash_of

if TYPE_CHECKING:
    from adjudge.service.store.protocol import Store

FILTER_BATCH_TASKS: Final = 4096  # tasks that the filter takes together


class Record(NamedTuple):
    """What an archive keeps of a task."""

    task: str
    record: bytes
    touched: int | None = 0  # see `ArchiveRow`


class Archive(Protocol):
    """Where the tasks of one campaign go that leave memory. One thread uses it."""

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Keep records.

        - `position`: of the event that sent the tasks away; it never falls.
        - `records`: of the tasks.
        """

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position; None where there is none.

        - `task`: its id.
        - `until`: the position.
        """

    def seen(self, task: str) -> bool:
        """Return whether a task may have a record; where this is False it has none. Reads no disk.

        - `task`: its id.
        """


class MemoryArchive:
    """An archive in memory, for replays and tests.

    >>> archive = MemoryArchive()
    >>> archive.put(7, [Record("t1", b"one")]); archive.put(9, [Record("t1", b"two")])
    >>> archive.get("t1", 8), archive.get("t1", 9), archive.get("t1", 6), archive.seen("t2")
    (b'one', b'two', None, False)
    """

    def __init__(self) -> None:
        self._records: dict[str, list[tuple[int, bytes]]] = {}

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Keep records."""
        for task, record, *_ in records:
            self._records.setdefault(task, []).append((position, record))

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        return _newest(self._records.get(task, []), until)

    def seen(self, task: str) -> bool:
        """Return whether a task has a record."""
        return task in self._records

    def records(self) -> dict[tuple[str, int], bytes]:
        """Return all records by task and position."""
        return {(task, position): record for task, records in self._records.items() for position, record in records}


class StoreArchive:
    """The archive of a campaign in a store.

    - `store`: where records are.
    - `campaign`: its number.
    - `put`: called with what must be written: append it to `archived` of the batch that carries the event at this position.
    - `state`: of `state()`, from a snapshot. What was put after it must be put again, as applying the log again does.
      Without one the tasks are read from the store.

    Applying the log again puts what is stored already: such records are not written twice.
    """

    def __init__(self, store: Store, campaign: int, put: Callable[[ArchiveRow], object], state: bytes | None = None) -> None:
        self._store = store
        self._campaign = campaign
        self._put = put
        self._stored = store.last(campaign)  # records up to here were written with their events
        self._pending: dict[str, list[tuple[int, bytes]]] = {}  # perhaps not on disk yet
        self._put_at: deque[tuple[int, list[str]]] = deque()  # the positions of those, and the tasks at each
        self._filter = Bloom()
        if state is None:
            tasks = store.archived_tasks(campaign)
            while some := list(islice(tasks, FILTER_BATCH_TASKS)):
                self._remember(some)
        else:
            try:
                self._filter = Bloom.restored(msgspec.msgpack.decode(state, type=list[tuple[int, bytes]]))
            except msgspec.DecodeError as error:
                raise DamagedStore(f"the archive in a snapshot of campaign {campaign} cannot be read: {error}") from error

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Keep records."""
        self._forget()
        records = list(records)
        self._remember(task for task, *_ in records)
        if position > self._stored:
            self._put_at.append((position, [task for task, *_ in records]))
            for task, record, *touched in records:
                self._pending.setdefault(task, []).append((position, record))
                self._put(ArchiveRow(self._campaign, position, task, record, *touched))

    def follow(self, position: int) -> None:
        """Note that another process has written the log up to a position, and the records with it.

        - `position`: the last that it is known to have written.
        """
        self._stored = position

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        if not self.seen(task):
            return None
        pending = _newest(self._pending.get(task, []), until)
        return pending if pending is not None else self._store.archived(self._campaign, task, until=until)

    def seen(self, task: str) -> bool:
        """Return whether a task may have a record."""
        return hash_of(task.encode("utf-8", "surrogatepass")) in self._filter

    def state(self) -> bytes:
        """Return what a snapshot keeps: bits that tell which tasks have records."""
        return msgspec.msgpack.encode(self._filter.state())

    def _remember(self, tasks: Iterable[str]) -> None:
        """Note that these tasks have records; many at once take the filter hardly longer than one."""
        keys = {hash_of(task.encode("utf-8", "surrogatepass")) for task in tasks}
        self._filter.add(*sorted(key for key in keys if key not in self._filter))

    def _forget(self) -> None:
        """Drop from memory what is on disk by now."""
        stored = self._store.committed(self._campaign)
        while self._put_at and self._put_at[0][0] <= stored:
            for task in self._put_at.popleft()[1]:
                self._pending[task] = [one for one in self._pending.get(task, ()) if one[0] > stored]
                if not self._pending[task]:
                    del self._pending[task]


class CopiedArchive:
    """What a copy of a state uses, to try something out: it reads from an archive, and writes to another.

    - `below`: the archive that is read.
    - `own`: the one that is written, and read first; None: a new one in memory.
    """

    def __init__(self, below: Archive, own: Archive | None = None) -> None:
        self._below, self.own = below, MemoryArchive() if own is None else own

    def put(self, position: int, records: Iterable[Record]) -> None:
        """Keep records, for as long as this lives."""
        self.own.put(position, records)

    def get(self, task: str, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        found = self.own.get(task, until)
        return found if found is not None else self._below.get(task, until)

    def seen(self, task: str) -> bool:
        """Return whether a task may have a record."""
        return self.own.seen(task) or self._below.seen(task)


def _newest(records: list[tuple[int, bytes]], until: int) -> bytes | None:
    """Return the last of some records, in the order of their positions, at or before a position."""
    at = bisect_right(records, until, key=lambda record: record[0])
    return records[at - 1][1] if at else None
