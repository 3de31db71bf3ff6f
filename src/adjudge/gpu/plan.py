"""What a fit takes on devices, and how its votes are divided among them: found before any memory is taken.

Votes are *resident* if they all fit on the device together with the tables. Otherwise they stay in pinned host memory and are
*streamed* in every pass: through two buffers, so that a shard is copied while the one before it is worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import gib
from adjudge.engines.shard import MAX_FINE_VOTES
from adjudge.errors import AdjudgeError
from adjudge.gpu.passes import MAX_BYTE_COST_LABELS
from adjudge.gpu.votes import MAX_SHARD_VOTES, label_type

# When "auto" takes a device, as measured (benchmarks/measured/gpu): nanoseconds per vote of the fastest fit on one thread
# and on all of them, seconds to load CuPy and to start a device with its kernels, and the votes from which a started device
# is faster.
ONE_THREAD_NS, ALL_THREADS_NS = 17.0, 1.3
COLD_SECONDS: Final = 2.5
WARM_VOTES: Final = 2_000_000
# Arrays [rows, K] of 8 bytes at once: the table, the counts before and those to come; later counts, a table, lines of votes
# with and without one of them. One more may be remembered, or on its way.
TABLES_IN_MEMORY: Final = 6
DEVICE_BYTES_PER_ROW: Final = 4 + 8 + 8 + 8 * 8  # label, worker and weight of a row; sums by row, or values of pairs of votes
DEVICE_BYTES_PER_VOTE: Final = 4  # its row
DEVICE_BYTES_PER_TASK: Final = 4 + 8  # where its votes begin, and its id
DEVICE_BYTES_PER_OUTCOME: Final = 8 + 1 + 8  # confidence and tie of a task, and the posterior they derive from
MAX_OUT: Final = 48 << 30  # output bytes of a pass over a shard; large, so that one shard holds many tasks
MAX_STREAMED_VOTES: Final = 1 << 26  # votes of a streamed shard: the copy of the first one has nothing to overlap with
MIN_STREAMED_VOTES: Final = 1 << 18  # votes of a streamed shard, of many: smaller ones wait for launches longer than for copies
DEVICE_BYTES_PER_GOLD_VOTE: Final = 4 + 8 + 16  # row and label of a vote on a gold task, and what becomes of them in a pass
SPARE: Final = 0.05  # of free memory, which programs and the library itself take


def crossover_votes(threads: int, *, warm: bool) -> int:
    """Return the number of votes from which a device is faster than so many threads, copies included.

    `warm` says whether the process has used a device before.

    >>> crossover_votes(16, warm=True), crossover_votes(2, warm=False), crossover_votes(16, warm=False)
    (2000000, 255102041, 1058201058)
    """
    return WARM_VOTES if warm else round(1e9 * COLD_SECONDS / (ONE_THREAD_NS / threads + ALL_THREADS_NS))


@dataclass(frozen=True)
class FitSize:
    """The sizes of a fit."""

    votes: int
    tasks: int
    rows: int
    labels: int
    workers: int
    gold_votes: int = 0  # on gold tasks, which stay on the device in any case

    def tables(self) -> int:
        """Return the bytes of tables, counts, arrays by row and votes on gold tasks, which every device has."""
        fine = 2 if self.votes <= MAX_FINE_VOTES else 0  # second sums
        by_worker = 8 * self.workers * (self.labels + 1)
        by_row = 8 * (TABLES_IN_MEMORY + fine) * self.rows * self.labels + DEVICE_BYTES_PER_ROW * self.rows
        return by_row + by_worker + DEVICE_BYTES_PER_GOLD_VOTE * self.gold_votes

    def per_label(self) -> int:
        """Return the bytes of the label of a task."""
        return np.dtype(label_type(self.labels)).itemsize

    def per_work(self) -> int:
        """Return the bytes per task that hard passes work in: a list of tasks, and costs of one byte."""
        return 4 + 4 * -(-self.labels // 4) if self.labels <= MAX_BYTE_COST_LABELS else 0

    def per_out(self) -> int:
        """Return the bytes of what passes write of a task: at most the probabilities of all labels."""
        return 8 * self.labels + DEVICE_BYTES_PER_OUTCOME


@dataclass(frozen=True)
class DevicePlan:
    """The shards of a fit: ranges of tasks, the device of each by its index, and whether votes stay there."""

    cuts: tuple[slice, ...]
    shard_device: tuple[int, ...]  # [shards]
    streamed: bool


def plan_shards(
    size: FitSize, task_ptr: NDArray[np.int64], names: Sequence[str], room: Sequence[int], *, allowed: bool = False
) -> DevicePlan:
    """Return how votes are divided among devices; raise with the estimate and the remedy where they are too small.

    `task_ptr` says where the votes of each task begin, [tasks + 1]; `names` and `room` are the name and the bytes of every
    device; `allowed` says whether the room is what the caller allows, or what is free.
    """
    parts = [part for part in _even(task_ptr, len(room)) if part.stop > part.start]
    left = []
    for index, part in enumerate(parts):
        fixed = size.tables() + size.per_label() * (part.stop - part.start)
        left.append(room[index] - fixed)
        if left[-1] <= 0:
            raise _too_small(size, names[index], fixed + _least_streamed(size, task_ptr, part), room[index], allowed=allowed)
    pairs = list(zip(parts, left, strict=True))
    streamed = any(_resident_bytes(size, task_ptr, part) + size.per_out() > have - have // 16 for part, have in pairs)
    cuts: list[slice] = []
    shard_device: list[int] = []
    for index, (part, have) in enumerate(pairs):
        some = _cut_streamed(size, task_ptr, part, have) if streamed else _cut_resident(size, task_ptr, part, have)
        if some is None:
            need = room[index] - have + _least_streamed(size, task_ptr, part)
            raise _too_small(size, names[index], need, room[index], allowed=allowed)
        cuts += some
        shard_device += [index] * len(some)
    return DevicePlan(tuple(cuts), tuple(shard_device), streamed)


def plan_in_place(size: FitSize, name: str, room: int, *, allowed: bool = False) -> DevicePlan:
    """Return the plan of votes that are on a device already: one shard; raise if the device has no room for the rest."""
    need = size.tables() + (size.per_label() + size.per_work() + DEVICE_BYTES_PER_OUTCOME) * size.tasks
    if need > room:
        raise _too_small(size, name, need, room, allowed=allowed)
    return DevicePlan((slice(0, size.tasks),), (0,), streamed=False)


def fits_beside(size: FitSize, plan: DevicePlan, room: Sequence[int]) -> bool:
    """Return whether devices have room for all of a fit but its votes, which are there; `room` is the bytes of every device."""
    for index, have in enumerate(room):
        tasks = [cut.stop - cut.start for cut, at in zip(plan.cuts, plan.shard_device, strict=True) if at == index]
        need = size.tables() + (size.per_label() + size.per_work()) * sum(tasks) + size.per_out() * max(tasks, default=0)
        if tasks and need > have:
            return False
    return True


def usable(free: int, limit: int | None) -> int:
    """Return the bytes that a fit may take of a device, of those that are free and those that are allowed.

    >>> usable(1000, None), usable(1000, 300)
    (950, 300)
    """
    most = free - round(free * SPARE)
    return most if limit is None else min(most, limit)


def bytes_of(task_ptr: NDArray[np.int64], part: slice) -> int:
    """Return the bytes of the votes and ids of a range of tasks."""
    votes, tasks = int(task_ptr[part.stop] - task_ptr[part.start]), int(part.stop - part.start)
    return DEVICE_BYTES_PER_VOTE * votes + DEVICE_BYTES_PER_TASK * (tasks + 1)


def _resident_bytes(size: FitSize, task_ptr: NDArray[np.int64], part: slice) -> int:
    """Return the device bytes of a range of tasks: their resident votes and the passes' buffers."""
    return bytes_of(task_ptr, part) + size.per_work() * int(part.stop - part.start)


def _even(task_ptr: NDArray[np.int64], parts: int) -> list[slice]:
    """Return ranges of tasks with about as many votes each."""
    ends = [int(np.searchsorted(task_ptr, int(task_ptr[-1]) * (i + 1) // parts)) for i in range(parts)]
    ends[-1] = len(task_ptr) - 1
    return [slice(start, max(end, start)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _cut_resident(size: FitSize, task_ptr: NDArray[np.int64], part: slice, have: int) -> list[slice] | None:
    """Return the shards of votes that stay on a device: as few as what passes write of them allows."""
    out = min(have - _resident_bytes(size, task_ptr, part), MAX_OUT)
    tasks = max(out // size.per_out(), 1)
    return _cut(part, lambda start: min(start + tasks, _until(task_ptr, start, MAX_SHARD_VOTES)))


def _cut_streamed(size: FitSize, task_ptr: NDArray[np.int64], part: slice, have: int) -> list[slice] | None:
    """Return the shards of votes that are streamed; None if a task is too large for the buffers."""
    # The buffers have room for the most votes and the most tasks of a shard, which need not be those of one shard.
    per_vote, per_task = 2 * DEVICE_BYTES_PER_VOTE, 2 * DEVICE_BYTES_PER_TASK + size.per_work() + size.per_out()
    votes, tasks = int(task_ptr[part.stop] - task_ptr[part.start]), int(part.stop - part.start)
    largest = int(np.diff(task_ptr[part.start : part.stop + 1]).max())
    have -= 2 * DEVICE_BYTES_PER_TASK
    most_tasks = have * tasks // (per_vote * votes + per_task * tasks)  # as many as fit with the mean number of votes
    most_votes = max(min((have - per_task * most_tasks) // per_vote, MAX_STREAMED_VOTES), largest)
    most_tasks = (have - per_vote * most_votes) // per_task
    if most_tasks < 1 or most_votes < _least_votes(votes):
        return None
    return _cut(part, lambda start: min(start + most_tasks, _until(task_ptr, start, most_votes)))


def _until(task_ptr: NDArray[np.int64], start: int, votes: int) -> int:
    """Return the end of the tasks from `start` on that have at most so many votes together."""
    return int(np.searchsorted(task_ptr, task_ptr[start] + votes, side="right")) - 1


def _least_votes(votes: int) -> int:
    """Return the minimum number of votes of a streamed shard."""
    return MIN_STREAMED_VOTES if votes > MIN_STREAMED_VOTES else 1


def _least_streamed(size: FitSize, task_ptr: NDArray[np.int64], part: slice) -> int:
    """Return the least bytes in which votes can be streamed."""
    votes, tasks = int(task_ptr[part.stop] - task_ptr[part.start]), int(part.stop - part.start)
    largest = int(np.diff(task_ptr[part.start : part.stop + 1]).max())
    most_votes = max(largest, _least_votes(votes))
    per_task = 2 * DEVICE_BYTES_PER_TASK + size.per_work() + size.per_out()
    return (
        2 * DEVICE_BYTES_PER_VOTE * most_votes
        + per_task * max(tasks * most_votes // max(votes, 1), 1)
        + 2 * DEVICE_BYTES_PER_TASK
    )


def _cut(part: slice, end: Callable[[int], int]) -> list[slice] | None:
    """Return a range of tasks in pieces, each up to the end that a function says for its start; None if one has no task."""
    out, start = [], part.start
    while start < part.stop:
        stop = min(end(start), part.stop)
        if stop <= start:
            return None
        out.append(slice(start, stop))
        start = stop
    return out


def _too_small(size: FitSize, name: str, need: int, have: int, *, allowed: bool) -> AdjudgeError:
    return AdjudgeError(
        f"this fit needs about {gib(need)} of device memory ({size.rows} rows x {size.labels} labels, {size.tasks} tasks), but "
        f"{gib(max(have, 0))} {'are allowed' if allowed else 'are free'} on {name}: {'allow more, ' if allowed else ''}"
        "choose engine='cpu', merge rare labels, or drop workers with few votes"
    )
