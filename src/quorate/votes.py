"""Votes as arrays: for every task the rows, (worker, given label) pairs, that were cast on it."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quorate.errors import InputError
from quorate.vocabulary import Vocabulary

FrameKind = Literal["polars", "pandas", "pyarrow"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Panel:
    """Who votes with which labels: all that an M-step asks of votes, wherever these lie.

    A *row* is a pair (worker, given label) that occurs in the data. Rows are sorted by worker, then label, so
    `row_label[worker_ptr[w]:worker_ptr[w + 1]]` are the labels that worker `w` has given at all.
    """

    worker_ptr: NDArray[np.int64]  # [workers + 1] where each worker's rows begin
    row_label: NDArray[np.int32]  # [rows] the label given
    workers: Vocabulary
    labels: Vocabulary

    @property
    def n_workers(self) -> int:
        """The number of workers that have votes."""
        return len(self.worker_ptr) - 1

    @property
    def n_labels(self) -> int:
        """The number of labels (K), declared or seen."""
        return len(self.labels)

    @property
    def n_rows(self) -> int:
        """The number of (worker, given label) pairs that occur."""
        return len(self.row_label)

    def row_worker(self) -> NDArray[np.int64]:
        """Returns the worker of each row, [rows]."""
        return np.repeat(np.arange(self.n_workers), np.diff(self.worker_ptr))

    def row_of(self, worker: NDArray[np.integer], label: NDArray[np.integer]) -> NDArray[np.int64]:
        """Returns the row of each (worker, given label) pair, [pairs]; -1 where it does not occur."""
        k = max(self.n_labels, 1)
        rows = self.row_worker() * k + self.row_label
        wanted = worker.astype(np.int64) * k + label
        place = np.searchsorted(rows, wanted)
        found = np.zeros(len(wanted), np.bool_)
        within = place < len(rows)
        found[within] = rows[place[within]] == wanted[within]
        return np.where(found, place, -1)

    def by_worker(self, by_row: NDArray[Any]) -> NDArray[Any]:
        """Returns the sum over each worker's rows, [workers, …], of something told by row, [rows, …]."""
        starts = self.worker_ptr[:-1]
        return np.add.reduceat(by_row, starts, axis=0) if len(starts) else by_row


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Votes(Panel):
    """All votes, sorted by task (in order of first appearance), within a task by row.

    >>> import quorate as qr
    >>> votes = qr.read([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")])
    >>> votes
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> votes.task_ptr.tolist(), votes.row.tolist()
    ([0, 2, 3], [0, 1, 0])
    """

    task_ptr: NDArray[np.int64]  # [tasks + 1] where each task's votes begin
    row: NDArray[np.uint32]  # [votes] the row of each vote
    tasks: Vocabulary
    unvoted: Vocabulary  # tasks whose every vote was an abstention
    abstentions: int = 0
    frame_kind: FrameKind = "polars"  # the caller's own kind of frame; results come back in it
    duplicates: str = "all"  # which of a worker's votes on one task counted: all, last or first

    def __post_init__(self) -> None:
        for array in (self.task_ptr, self.row, self.worker_ptr, self.row_label):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return (
            f"Votes({len(self)} votes, {self.n_tasks} tasks, {self.n_workers} workers, "
            f"{self.n_labels} labels, {self.n_rows} rows)"
        )

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have votes."""
        return len(self.task_ptr) - 1

    def votes_per_row(self) -> NDArray[np.int64]:
        """Returns how many votes each row holds, [rows]."""
        return np.bincount(self.row, minlength=self.n_rows)

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint32]]]:
        """Yields (some tasks, where the votes of each begin, the votes' rows), in task order; in memory all at once."""
        yield slice(0, self.n_tasks), self.task_ptr, self.row

    def task_parts(self) -> Iterator[tuple[slice, Vocabulary, NDArray[np.int64]]]:
        """Yields (some tasks, their ids, how many votes each has), in task order; in memory all at once."""
        yield slice(0, self.n_tasks), self.tasks, np.diff(self.task_ptr)


def piece(array: NDArray[Any], cut: slice) -> NDArray[Any]:
    """Returns part of an array; of a mapped one a copy read from its file, so that its pages do not fill the memory."""
    whole: Any = array
    if not isinstance(array, np.memmap) or not isinstance(whole.base, mmap.mmap):  # a view does not know its place
        return array[cut]
    start, stop, _ = cut.indices(len(array))
    line = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    count = max(stop - start, 0) * line // array.itemsize
    flat = np.fromfile(whole.filename, array.dtype, count, offset=array.offset + start * line)
    if len(flat) < count:
        raise InputError(f"{whole.filename} is shorter than it was: something else writes to it")
    return flat.reshape(-1, *array.shape[1:])
