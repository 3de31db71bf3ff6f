"""The tasks of a campaign that are in memory: what stands of each, and columns by which they are listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from quorate.live.standing import CODES, NEW, Standing

SETTLED: Final = frozenset({"decided", "locked"})


class Task(msgspec.Struct, gc=False):
    """What stands of one task beside its votes."""

    name: str
    opened: int  # time of its first event
    touched: int  # time of its last one
    standing: Standing = NEW
    position: int = 0  # of the event that gave it its status and label
    version: int = 0  # of the policy that did
    flips: int = 0  # how often the decided label became another
    last: int = -1  # the label that was decided last, or -1
    moved: dict[int, int] | None = None  # worker: position of their vote in force, where it is not their first on the task
    slot: int = -1  # its line in the columns; not saved


class Tasks:
    """Tasks by name; the settled ones and those that wait, each in the order in which they were last touched."""

    def __init__(self) -> None:
        self.by_name: dict[str, Task] = {}
        self.settled: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        self._free: list[int] = []
        self._names: list[str | None] = []
        self.confidence: NDArray[np.float64] = np.zeros(1024)
        self.opened: NDArray[np.int64] = np.zeros(1024, np.int64)
        self.status: NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self.label: NDArray[np.int32] = np.zeros(1024, np.int32)  # of the standing, -1: none

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.by_name.values())

    def enter(self, task: Task) -> None:
        """Take a task into memory."""
        if self._free:
            slot = self._free.pop()
            self._names[slot] = task.name
        else:
            slot = len(self._names)
            self._names.append(task.name)
            if slot == len(self.status):
                self.confidence, self.opened, self.status, self.label = (
                    np.concatenate([a, np.zeros_like(a)]) for a in (self.confidence, self.opened, self.status, self.label)
                )
        task.slot = slot
        self.by_name[task.name] = task
        self.opened[slot] = task.opened
        self.place(task)

    def touch(self, task: Task) -> None:
        """Note that a task, whose status is what it was, was touched last of all."""
        order = self.settled if task.standing.status in SETTLED else self.waiting
        del order[task.name]
        order[task.name] = None

    def place(self, task: Task) -> None:
        """Note where a task stands, and that it was touched last of all."""
        standing, name = task.standing, task.name
        self.status[task.slot] = CODES[standing.status]
        self.label[task.slot] = standing.label
        self.settled.pop(name, None)
        self.waiting.pop(name, None)
        (self.settled if standing.status in SETTLED else self.waiting)[name] = None

    def leave(self, task: Task) -> None:
        """Let a task go from memory."""
        del self.by_name[task.name]
        self.settled.pop(task.name, None)
        self.waiting.pop(task.name, None)
        self._names[task.slot] = None
        self._free.append(task.slot)
        self.status[task.slot] = 255
        task.slot = -1

    def older(self, time: int, most: int) -> int:
        """Return how many settled tasks were last touched before a time, up to `most`."""
        number = 0
        for name in self.settled:  # in the order in which they were touched
            if number == most or self.by_name[name].touched >= time:
                break
            number += 1
        return number

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

    def listed(self, statuses: set[str], order: str, *, limit: int, after: tuple[float, str] | None) -> list[tuple[float, str]]:
        """Return (key, name) of tasks with these statuses after a cursor: by "uncertainty", or by "age", the oldest first."""
        n = len(self._names)
        there = np.isin(self.status[:n], [CODES[s] for s in statuses])
        slots = np.flatnonzero(there)
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
