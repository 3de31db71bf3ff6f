"""Votes as they are stored on a device, and the keys that decide ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.gpu.device import Device

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
    each: int  # the votes of every task, where all have as many; else 0
    long_tasks: Any | None = None  # device uint32 [some] the tasks of `LONG_TASK` votes or more; None where there is none
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
        """Return how often this was asked for, this time included."""
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
