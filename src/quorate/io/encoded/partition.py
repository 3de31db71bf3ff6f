"""One partition of votes, brought into its final order: tasks by the hash of their id, votes by row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.io.assemble import drop_duplicates
from quorate.io.coder import Coded
from quorate.io.encoded.codes import Codes, Rows, RunningCodes, group
from quorate.io.encoded.spill import hash_ids
from quorate.io.ids import narrowed
from quorate.vocabulary import Vocabulary


class Arranged(NamedTuple):
    """The tasks of a partition in their final order, and those that nobody voted on."""

    task_ptr: NDArray[np.int64]  # [tasks + 1]
    row: NDArray[np.uint32]  # [votes]
    task_hash: NDArray[np.uint64]  # [tasks]
    tasks: Vocabulary
    unvoted: Vocabulary


def arrange(votes: Iterable[pl.DataFrame], rows: Rows, *, duplicates: str, narrow: bool) -> Arranged:
    """Returns the votes of a partition (frames of task and row code, in input order) in their final order."""
    task, row, ids = _encoded(votes, rows.place)
    if narrow:
        ids = narrowed(ids)
    if duplicates != "all":
        worker = np.repeat(np.arange(len(rows.workers), dtype=np.uint32), np.diff(rows.worker_ptr))
        by = np.append(worker, np.uint32(0))[np.minimum(row, len(worker))]  # whoever abstains does not matter
        drop_duplicates(Coded({"task": task, "worker": by, "label": row}, {"task": ids, "worker": rows.workers}), duplicates)
    order, hashes = by_hash(ids)
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    task_ptr, row = group(rank[task], row, len(ids))
    voted = task_ptr[1:] > task_ptr[:-1]
    if voted.all():
        return Arranged(task_ptr, row, hashes, ids.take(order), ids.take(order[:0]))
    task_ptr = np.concatenate([task_ptr[:-1][voted], task_ptr[-1:]])
    return Arranged(task_ptr, row, hashes[voted], ids.take(order[voted]), ids.take(order[~voted]))


def by_hash(ids: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Returns (the codes in the order of their hashes, equal hashes in the order of their texts; the hashes in this order)."""
    hashes = hash_ids(ids)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # next to never: one pair in 2^64
        texts, listed = ids.texts(), hashes.tolist()
        order = np.array(sorted(range(len(texts)), key=lambda code: (listed[code], texts[code])), np.int64)
    return order, ordered


def _encoded(votes: Iterable[pl.DataFrame], place: Codes) -> tuple[Codes, Codes, Vocabulary]:
    """Returns (the task of each vote, its final row, the tasks in order of first appearance)."""
    running, task, row = RunningCodes("task"), [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for frame in votes:
        task.append(running.encode(frame["task"]))
        row.append(place[np.minimum(frame["row"].to_numpy(), len(place) - 1)])
    return np.concatenate(task), np.concatenate(row), running.vocabulary()
