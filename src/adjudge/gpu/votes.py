"""Votes on a device: how they are stored there, and the arrays of votes and tasks that come to the host on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import Id, Vocabulary, freeze, text_of
from adjudge.data.votes import Votes
from adjudge.gpu.device import Device
from adjudge.io.encode import over_labels
from adjudge.io.frames import match_ids
from adjudge.io.workers import load_votes

LONG_TASK: Final = 128  # votes from which a block of threads works on one task; below it, a thread does
MAX_SHARD_VOTES: Final = 2**32 - 1  # positions of votes in a shard have 32 bits


def label_type(n_labels: int) -> type[np.unsignedinteger[Any]]:
    """Return the type that labels have on a device: they are read in every pass, so they are as short as can be.

    >>> label_type(4).__name__, label_type(1000).__name__
    ('uint8', 'uint32')
    """
    return np.uint8 if n_labels <= 256 else np.uint32


@dataclass(frozen=True, eq=False)
class DeviceLayout:
    """The votes of some tasks on a device, in the order of the tasks."""

    device: Device
    ptr: Any  # device uint32 [tasks + 1] where the votes of each task begin in `row`, from 0
    row: Any  # device uint32 [votes]
    each: int  # the votes of every task, if all have as many; else 0
    long_tasks: Any | None = None  # device uint32 [some] the tasks of `LONG_TASK` votes or more; None if there is none
    _memo: dict[str, Any] = field(default_factory=dict)  # see `memo`
    _uses: dict[str, int] = field(default_factory=dict)  # see `uses`

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.ptr) - 1

    @property
    def n_votes(self) -> int:
        """The number of votes."""
        return len(self.row)

    def memo(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returned for this name, called on first use: a sorted copy of the votes."""
        if name not in self._memo:
            self._memo[name] = make()
        return self._memo[name]

    def has(self, name: str) -> bool:
        """Return whether something of this name was made."""
        return name in self._memo

    def uses(self, name: str) -> int:
        """Return the number of uses under this name, including this one."""
        self._uses[name] = self._uses.get(name, 0) + 1
        return self._uses[name]

    @classmethod
    def of(cls, device: Device, task_ptr: NDArray[np.int64], row: NDArray[np.uint32]) -> DeviceLayout:
        """Return votes of the host on a device; `task_ptr` are absolute positions in `row`, [tasks + 1]."""
        first, last = int(task_ptr[0]), int(task_ptr[-1])
        return cls.on(device, device.upload((task_ptr - first).astype(np.uint32)), device.upload(row[first:last]))

    @classmethod
    def on(cls, device: Device, ptr: Any, row: Any) -> DeviceLayout:
        """Return votes that are on the device already: uint32 [tasks + 1], from 0, and uint32 [votes]."""
        xp = device.xp
        if len(ptr) < 2:
            return cls(device, ptr, row, 0)
        length = ptr[1:] - ptr[:-1]
        shortest, longest = int(length.min()), int(length.max())
        long_tasks = xp.flatnonzero(length >= LONG_TASK).astype(np.uint32) if longest >= LONG_TASK else None
        return cls(device, ptr, row, shortest if shortest == longest < LONG_TASK else 0, long_tasks)


@dataclass(frozen=True, eq=False)
class TieIds:
    """What the keys of tasks are hashed from where tasks tie: ready keys, or ids that are whole numbers."""

    keys: Any | None  # device uint64 [tasks] as `reference.tie_keys` returns them
    numbers: Any | None  # device int64 [tasks] ids
    salt: int  # of the seed: `mix(seed)`, as a signed number of 64 bits


DEVICE_COUNT_CHUNK_VOTES: Final = 1 << 27  # votes counted at once: the counting takes more memory than they do
PART: Final = 1 << 20  # tasks that come to the host at once
MAX_INT64_DIGITS: Final = 19  # of whole numbers of 64 bits
LATER: Any = object()  # placeholder for an array that is copied on first use


class DeviceVocabulary(Vocabulary):
    """Integer ids on a device, copied to the host on first use."""

    is_hashed = True  # in effect: ids are found on the device, without a dictionary

    def __init__(self, device: Device, numbers: Any) -> None:
        self.kind = "integer"
        self.offsets = freeze(np.zeros(0, np.int64))
        self.device = device
        self.numbers = numbers  # device int64 [n]
        self._is_valid = self._is_distinct = True  # encoding has made them so

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name != "values":
                raise AttributeError(name)
            with self.device.current():
                self.values = freeze(self.device.download(self.numbers))
            return self.values

    @property
    def is_on_host(self) -> bool:
        """Whether the values have come to the host."""
        return "values" in self.__dict__

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, code: int) -> Id:
        if self.is_on_host:
            return super().__getitem__(code)
        if not -len(self) <= code < len(self):
            raise IndexError(code)
        with self.device.current():
            return int(self.numbers[code])

    def codes(self, ids: Iterable[object]) -> NDArray[np.int64]:
        """Return the code of each id, compared by text; -1 if it is unknown. They are looked for on the device."""
        given = [_number(text_of(one)) for one in ids]
        out = np.full(len(given), -1, np.int64)
        asked, position = np.unique(np.array([one for one in given if one is not None], np.int64), return_inverse=True)
        if not len(asked) or not len(self):
            return out
        device, xp = self.device, self.device.xp
        with device.current():
            wanted = device.upload(asked)
            at = xp.minimum(xp.searchsorted(wanted, self.numbers), len(asked) - 1)
            here = xp.flatnonzero(wanted[at] == self.numbers)
            found, codes = device.download(at[here]), device.download(here)
        known = np.full(len(asked), -1, np.int64)
        known[found] = codes
        out[[one is not None for one in given]] = known[position]
        return out

    def take(self, codes: NDArray[np.integer]) -> Vocabulary:
        """Return the vocabulary of the ids with these codes, in this order; of a few, no others come to the host."""
        if self.is_on_host or 2 * len(codes) > len(self):
            return super().take(codes)
        with self.device.current():
            values = self.device.download(self.numbers[self.device.upload(np.asarray(codes, np.int64))])
        distinct = len(np.unique(codes)) == len(codes)
        return Vocabulary.wrap("integer", values) if distinct else Vocabulary("integer", values)

    def part(self, cut: slice) -> Vocabulary:
        """Return the ids of a range of codes."""
        if self.is_on_host:
            return Vocabulary.wrap("integer", self.values[cut])
        with self.device.current():
            return Vocabulary.wrap("integer", self.device.download(self.numbers[cut]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.kind, self.values)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DeviceVotes(Votes):
    """Votes on a device, made by `adjudge.gpu.encode`; their workers, labels and rows are on the host.

    Access to `task_ptr`, `row` or the ids of all tasks copies them to the host. A pickled copy is plain `Votes`.
    """

    engine: ClassVar[str | None] = "cuda"  # where these votes are

    task_ptr: NDArray[np.int64] = field(default_factory=lambda: LATER)
    row: NDArray[np.uint32] = field(default_factory=lambda: LATER)
    layout: DeviceLayout

    def __post_init__(self) -> None:
        for name in ("task_ptr", "row"):
            if self.__dict__[name] is LATER:
                del self.__dict__[name]  # see __getattr__; encoding has made them as they should be
        self._require_ids()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name not in ("task_ptr", "row"):
                raise AttributeError(name)
            device, layout = self.layout.device, self.layout
            with device.current():
                array = freeze(device.download(layout.row) if name == "row" else device.download(layout.ptr).astype(np.int64))
            self.__dict__[name] = array
            return array

    @property
    def task_numbers(self) -> Any:
        """The ids of tasks, device int64 [tasks]."""
        tasks = self.tasks
        assert isinstance(tasks, DeviceVocabulary)
        return tasks.numbers

    def __len__(self) -> int:
        return self.layout.n_votes

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have votes."""
        return self.layout.n_tasks

    def __copy__(self) -> DeviceVotes:
        return self  # immutable

    def __deepcopy__(self, _: object) -> DeviceVotes:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, (load_votes(self),)

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return how many votes each row holds, [rows]; they are counted once, on the device."""
        if "_per_row" not in self.__dict__:
            device, row = self.layout.device, self.layout.row
            with device.current():
                found = device.xp.zeros(self.n_rows, np.int64)
                for start in range(0, len(row), DEVICE_COUNT_CHUNK_VOTES):
                    found += device.xp.bincount(row[start : start + DEVICE_COUNT_CHUNK_VOTES], minlength=self.n_rows)
                self.__dict__["_per_row"] = freeze(device.download(found))
        counted: NDArray[np.int64] = self.__dict__["_per_row"]
        return counted

    def votes_on(self, task: int) -> int:
        """Return how many votes a task has, given by its code; no other task is looked at."""
        return int(self.votes_in(slice(task, task + 1))[0][-1])

    def votes_in(self, tasks: slice) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return (where the votes of each task begin, the votes' rows) of a range of tasks; no other task is copied."""
        if "row" in self.__dict__ and "task_ptr" in self.__dict__:
            return super().votes_in(tasks)
        device, layout = self.layout.device, self.layout
        with device.current():
            ptr = device.download(layout.ptr[tasks.start : tasks.stop + 1]).astype(np.int64)
            return ptr - ptr[0], device.download(layout.row[int(ptr[0]) : int(ptr[-1])])

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint32]]]:
        """Yield (some tasks, where the votes of each begin, the votes' rows), in task order: what is copied at once."""
        for cut in self._cuts():
            yield cut, *self.votes_in(cut)

    def task_parts(self) -> Iterator[tuple[slice, Vocabulary, NDArray[np.int64]]]:
        """Yield (some tasks, their ids, how many votes each has), in task order: what is copied at once."""
        tasks, device = self.tasks, self.layout.device
        assert isinstance(tasks, DeviceVocabulary)
        for cut in self._cuts():
            with device.current():
                ptr = device.download(self.layout.ptr[cut.start : cut.stop + 1])
            yield cut, tasks.part(cut), np.diff(ptr).astype(np.int64)

    def _cuts(self) -> Iterator[slice]:
        """Yield the tasks as slices that are copied at once."""
        for start in range(0, self.n_tasks, PART):
            yield slice(start, min(start + PART, self.n_tasks))

    def over(self, labels: Vocabulary) -> Votes:
        """Return the same votes over a superset of their labels: on the device, unless their rows change places."""
        position = match_ids(self.labels, labels)
        if (np.diff(position) < 0).any():
            return over_labels(load_votes(self), labels, "labels")
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__ | {"labels": labels, "row_label": freeze(position[self.row_label].astype(np.int32))})
        return out


def _number(text: str) -> int | None:
    """Return the whole number of 64 bits that has this text; None if none has.

    >>> _number("-7"), _number("007"), _number("seven")
    (-7, None, None)
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_INT64_DIGITS:
        return None
    value = int(text)
    return value if str(value) == text and -(2**63) <= value < 2**63 else None


def _plain(votes: Votes) -> Votes:
    """Return votes that were pickled in place of those on a device."""
    return votes
