"""The tasks of a campaign: those in memory, with columns to list them by, and the records of archived ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from adjudge.errors import InputError
from adjudge.service.campaigns.decision import CODES, NEW, Standing

if TYPE_CHECKING:
    from adjudge.service.campaigns.rule import Rule

SETTLED_STATUSES: Final = frozenset({"decided", "locked"})
WAITING: Final = frozenset({"open", "escalated"})  # what is held is neither: the clock, or a person, decides it any moment
EMPTY_SLOT: Final = 255  # in place of the code of a status: no task is on this line
LOOKED_AHEAD: Final = 8
_SETTLED_CODES: Final = [CODES[status] for status in sorted(SETTLED_STATUSES)]
_WAITING_CODES: Final = [CODES[status] for status in sorted(WAITING)]
_IS_SETTLED: Final = [int(code in _SETTLED_CODES) for code in range(256)]
_IS_WAITING: Final = [int(code in _WAITING_CODES) for code in range(256)]
Answer: TypeAlias = tuple[int, bool, int, bool, list[float]]  # label, tie, votes, whether it is gold, probabilities
NO_ANSWER: Final[Answer] = (-1, False, 0, False, [])
# As the stream takes a task back: (worker, label) of its votes, label, units of soft shares, mark of a fit, gold, number.
Evicted: TypeAlias = tuple[list[tuple[str, int]], int, tuple[int, ...] | None, int, int, int]
_ENCODER: Final = msgspec.msgpack.Encoder()


class Task(msgspec.Struct, array_like=True, gc=False):
    """A task without its votes."""

    name: str
    opened: int  # time of its first event
    touched: int  # time of its last one
    standing: Standing = NEW
    position: int = 0  # of the event that gave it its status and label
    version: int = 0  # of the policy that did
    flips: int = 0  # how often the decided label became another
    last: int = -1  # the label that was decided last, or -1
    moved: dict[int, int] | None = None  # worker: position of their vote in force, if it is not their first on the task
    aside: list[int] | None = None  # workers whose votes on it are kept aside
    expired: bool = False  # its votes have expired and are deleted
    slot: int = -1  # its line in the columns, last of all: it is not saved

    def note_move(self, worker: int, position: int) -> None:
        """Note where a worker's vote in force is, as it is not their first on the task."""
        if self.moved is None:
            self.moved = {}
        self.moved[worker] = position

    def clamp(self, rule: Rule, time: int) -> None:
        """Let no time of it be later than now."""
        self.opened, self.touched = min(self.opened, time), min(self.touched, time)
        self.standing = rule.clamp(self.standing, time)

    def flips_with(self, after: Standing) -> bool:
        """Return whether a standing would change the decided label."""
        return after.status in SETTLED_STATUSES and after.label >= 0 and 0 <= self.last != after.label


class TaskSummary(NamedTuple):
    """Figures of the tasks in memory."""

    counts: dict[str, int]  # by status
    oldest: dict[str, int]  # by unsettled status: when the oldest task came in, in microseconds since 1970
    labels: dict[int, int]  # decided tasks by label
    doubt: float | None  # mean chance that the label of a decided task is wrong


class Tasks:
    """Tasks by name, and columns with a line for each: its confidence, its standing, and the order in which it was touched."""

    def __init__(self) -> None:
        self.by_name: dict[str, Task] = {}
        self.settled = self.waiting = 0  # how many are decided or locked, and how many open or escalated
        self._free: list[int] = []
        self._names: list[str | None] = []
        self.confidence: NDArray[np.float64] = np.zeros(1024)
        self.opened: NDArray[np.int64] = np.zeros(1024, np.int64)
        self.status: NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self.label: NDArray[np.int32] = np.zeros(1024, np.int32)  # of the standing, -1: none
        self._touched: NDArray[np.int64] = np.zeros(1024, np.int64)  # a number that grows with every touch
        self._touches = 0
        self._oldest: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # (touch, line), the latest first: see `oldest`

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.by_name.values())

    def enter(self, task: Task, confidence: float = 0.0) -> None:
        """Take a task into memory, whose label is this likely."""
        if self._free:
            slot = self._free.pop()
            self._names[slot] = task.name
        else:
            slot = len(self._names)
            self._names.append(task.name)
            if slot == len(self.status):
                columns = self.confidence, self.opened, self.status, self.label, self._touched
                self.confidence, self.opened, self.status, self.label, self._touched = (
                    np.concatenate([column, np.zeros_like(column)]) for column in columns
                )
        task.slot = slot
        self.by_name[task.name] = task
        self.confidence[slot] = confidence
        self.opened[slot] = task.opened
        self.status[slot] = EMPTY_SLOT
        self.place(task)

    def touch(self, task: Task) -> None:
        """Note that a task, whose status is what it was, was touched last of all."""
        self._touches += 1
        self._touched[task.slot] = self._touches

    def touch_many(self, slots: list[int], confidence: list[float]) -> None:
        """Touch the tasks of these lines, one after the other, whose labels are this likely."""
        lines, last = np.array(slots), self._touches + len(slots)
        self.confidence[lines] = confidence
        self._touched[lines] = np.arange(self._touches + 1, last + 1)
        self._touches = last

    def place(self, task: Task) -> None:
        """Note where a task stands, and that it was touched last of all."""
        slot, standing = task.slot, task.standing
        before, after = self.status.item(slot), CODES[standing.status]
        self._touches += 1
        self._touched[slot] = self._touches
        self.label[slot] = standing.label
        if before != after:
            self.status[slot] = after
            self.settled += _IS_SETTLED[after] - _IS_SETTLED[before]
            self.waiting += _IS_WAITING[after] - _IS_WAITING[before]

    def leave(self, task: Task) -> None:
        """Let a task go from memory."""
        del self.by_name[task.name]
        status = self.status.item(task.slot)
        self.settled -= _IS_SETTLED[status]
        self.waiting -= _IS_WAITING[status]
        self._names[task.slot] = None
        self._free.append(task.slot)
        self.status[task.slot] = EMPTY_SLOT
        task.slot = -1

    def in_order(self, *, settled: bool) -> list[str]:
        """Return the tasks that are settled, or those that wait, in the order in which they were last touched."""
        slots = self._slots(settled)
        return [name for slot in slots[np.argsort(self._touched[slots])].tolist() if (name := self._names[slot]) is not None]

    def touch_in_order(self, names: list[str]) -> None:
        """Touch tasks, one after the other."""
        for name in names:
            self.touch(self.by_name[name])

    def oldest(self, number: int, *, settled: bool) -> list[str]:
        """Return so many of the tasks that are settled, or of those that wait: the ones untouched for longest, in order."""
        taken: list[tuple[int, int]] = []
        ahead = self._oldest[settled]
        while len(taken) < min(number, self.settled if settled else self.waiting):
            if not ahead:
                ahead = self._oldest[settled] = self._look_ahead(number, [slot for _, slot in taken], settled=settled)
            touch, slot = ahead.pop()
            if self._touched[slot] == touch and self._is_there(slot, settled):
                taken.append((touch, slot))
        ahead.extend(reversed(taken))
        return [name for _, slot in taken if (name := self._names[slot]) is not None]

    def _look_ahead(self, number: int, without: list[int], *, settled: bool) -> list[tuple[int, int]]:
        """Return touch and line of the oldest tasks, the latest first; several times as many as requested.

        What is touched later, or comes later, is younger than all of them. So the next calls need not look at every line.
        """
        slots = np.setdiff1d(self._slots(settled), np.array(without, np.int64))
        wanted = max(LOOKED_AHEAD * number, 1024)
        touched = self._touched[slots]
        if len(slots) > wanted:
            near = np.argpartition(touched, wanted)[:wanted]
            slots, touched = slots[near], touched[near]
        order = np.argsort(-touched)
        return list(zip(touched[order].tolist(), slots[order].tolist(), strict=True))

    def _slots(self, settled: bool) -> NDArray[np.int64]:
        status = self.status[: len(self._names)]
        return np.flatnonzero(np.isin(status, _SETTLED_CODES if settled else _WAITING_CODES))

    def _is_there(self, slot: int, settled: bool) -> bool:
        return bool((_IS_SETTLED if settled else _IS_WAITING)[self.status[slot]])

    def older(self, time: int, most: int, *, settled: bool = True) -> int:
        """Return how many of the tasks that are settled, or of those that wait, were last touched before a time, up to `most`."""
        names = self.oldest(most, settled=settled)
        return next((at for at, name in enumerate(names) if self.by_name[name].touched >= time), len(names))

    def show(
        self, tasks: list[Task], winner: NDArray[np.int32], likely: NDArray[np.float64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.float64]]:
        """Note how certain these tasks are now; return status and label of each standing, [n], and the winners' confidence."""
        slots = np.fromiter((task.slot for task in tasks), np.int64, len(tasks))
        status, label, lines = self.status[slots], self.label[slots], np.arange(len(tasks))
        shown = np.where(label >= 0, label, winner)
        self.confidence[slots] = np.where(shown >= 0, likely[lines, np.maximum(shown, 0)], 0.0)
        return status, label, np.where(winner >= 0, likely[lines, np.maximum(winner, 0)], 0.0)

    def counts(self) -> dict[str, int]:
        """Return how many tasks have each status."""
        seen = np.bincount(self.status[: len(self._names)], minlength=256)
        return {status: int(seen[code]) for status, code in CODES.items()}

    def summary(self) -> TaskSummary:
        """Return figures of the tasks in memory. Any thread may call this: tasks that change meanwhile count either way."""
        n = len(self._names)
        status, opened, label, confidence = self.status[:n], self.opened[:n], self.label[:n], self.confidence[:n]
        size = min(len(status), len(opened), len(label), len(confidence))  # the columns may be growing
        status, opened, label, confidence = status[:size], opened[:size], label[:size], confidence[:size]
        masks = {name: status == code for name, code in CODES.items()}
        counts = {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}
        latest = np.iinfo(np.int64).max
        oldest = {
            name: int(opened.min(where=mask, initial=latest))
            for name, mask in masks.items()
            if name not in SETTLED_STATUSES and counts[name]
        }
        settled = (masks["decided"] | masks["locked"]) & (label >= 0)
        labels_now = label[settled]
        labels = np.bincount(labels_now[labels_now >= 0])  # a task may have been reopened since the mask was made
        return TaskSummary(
            counts,
            oldest,
            {code: count for code, count in enumerate(labels.tolist()) if count},
            1.0 - float(confidence.sum(where=settled)) / max(int(labels.sum()), 1) if len(labels) else None,
        )

    def list_page(
        self, statuses: set[str], order: str, *, limit: int, after: tuple[float, str] | None
    ) -> list[tuple[float, str]]:
        """Return (key, name) of tasks with these statuses after a cursor: by "uncertainty", or by "age", the oldest first."""
        n = len(self._names)
        has_status = np.isin(self.status[:n], [CODES[s] for s in statuses])
        slots = np.flatnonzero(has_status)
        keys = self.confidence[slots] if order == "uncertainty" else self.opened[slots].astype(np.float64)
        if after is not None:
            later = keys >= after[0]
            slots, keys = slots[later], keys[later]
        wanted = limit + 1
        if len(slots) > 4 * wanted + 64:  # the smallest keys, and all that are equal to the largest of those
            bound = np.partition(keys, wanted)[wanted]
            near = keys <= bound
            slots, keys = slots[near], keys[near]
        rows = sorted((key, self._names[slot]) for key, slot in zip(keys.tolist(), slots.tolist(), strict=True))
        out: list[Any] = [row for row in rows if after is None or row > after]
        return out[:limit]


class Archived(msgspec.Struct, array_like=True, frozen=True):
    """A task that has left memory."""

    task: Task
    answer: Answer  # when it left
    votes: Evicted | None  # None: the stream knew no vote on it
    version: int  # of the policy that held when it left

    @property
    def ballots(self) -> list[tuple[str, int]]:
        """Worker and label of every vote that the stream had."""
        return self.votes[0] if self.votes is not None else []

    def without_votes(self) -> Archived:
        """Return what is left of the record once its votes have expired: what is decided, and how certain that was."""
        task = msgspec.structs.replace(self.task, moved=None, aside=None, expired=True)
        return msgspec.structs.replace(self, task=task, votes=None)

    @property
    def confidence(self) -> float:
        """How likely its label was when it left."""
        label, likely = self.task.standing.label, self.answer[4]
        return likely[label if label >= 0 else self.answer[0]] if likely else 0.0

    def to_bytes(self) -> bytes:
        """Return the record as bytes."""
        return _ENCODER.encode(self)

    @staticmethod
    def from_bytes(record: bytes) -> Archived:
        """Return the record that was written as these bytes."""
        try:
            return _RECORD_DECODER.decode(record)
        except msgspec.MsgspecError as error:
            raise InputError(f"a task in the archive is damaged: {error}") from None


class VotesOf:
    """Looks for the votes of some workers in records, without reading all of each: most have none.

    - `texts`: the workers' ids in the stream.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._written = re.compile(b"|".join(re.escape(msgspec.msgpack.encode(text)) for text in sorted(self._texts)))

    def has_some(self, record: bytes) -> bool:
        """Return whether a record has votes of the workers that count."""
        if self._written.search(record) is None:
            return False
        return any(text in self._texts for text, _ in Archived.from_bytes(record).ballots)


_RECORD_DECODER: Final = msgspec.msgpack.Decoder(Archived)
