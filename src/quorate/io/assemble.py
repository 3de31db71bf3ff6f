"""Codes to `Votes`: duplicates resolved, rows numbered, votes sorted by task and row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quorate.errors import InputError, shown
from quorate.vocabulary import Vocabulary
from quorate.votes import FrameKind, Votes

Codes = NDArray[np.integer]


def assemble(
    task: Codes,  # [votes] codes in input order
    worker: Codes,  # [votes]
    label: Codes,  # [votes]
    *,
    tasks: Vocabulary,
    workers: Vocabulary,
    labels: Vocabulary,
    duplicates: str = "all",
    abstentions: int = 0,
    frame_kind: FrameKind = "polars",
) -> Votes:
    """Returns the votes of these codes; tasks and workers left without a vote are set apart."""
    keep = _resolve(task, worker, duplicates, tasks, workers)
    if keep is not None:
        task, worker, label = task[keep], worker[keep], label[keep]
    per_task = np.bincount(task, minlength=len(tasks))
    tasks, unvoted, task = _voted(task, per_task, tasks)
    workers, _, worker = _voted(worker, np.bincount(worker, minlength=len(workers)), workers)

    pair = worker.astype(np.int64) * max(len(labels), 1) + label
    rows, row = np.unique(pair, return_inverse=True)
    row_worker, row_label = np.divmod(rows, max(len(labels), 1))
    order = np.lexsort((row, task))
    task_ptr = np.zeros(len(tasks) + 1, np.int64)
    np.cumsum(per_task[per_task > 0], out=task_ptr[1:])
    return Votes(
        task_ptr=task_ptr,
        row=row[order].astype(np.uint32),
        worker_ptr=np.searchsorted(row_worker, np.arange(len(workers) + 1)).astype(np.int64),
        row_label=row_label.astype(np.int32),
        tasks=tasks,
        workers=workers,
        labels=labels,
        unvoted=unvoted,
        abstentions=abstentions,
        frame_kind=frame_kind,
    )


def _voted(codes: Codes, votes: NDArray[np.int64], ids: Vocabulary) -> tuple[Vocabulary, Vocabulary, Codes]:
    """Returns the ids with votes, those without, and the codes renumbered to the former."""
    if votes.all():
        return ids, ids.take(np.zeros(0, np.int64)), codes
    has = votes > 0
    return ids.take(np.flatnonzero(has)), ids.take(np.flatnonzero(~has)), (np.cumsum(has) - 1)[codes]


def _resolve(task: Codes, worker: Codes, duplicates: str, tasks: Vocabulary, workers: Vocabulary) -> NDArray[np.int64] | None:
    """Returns which votes to keep, or None for all of them."""
    if duplicates == "all" or not len(task):
        return None
    pair = task.astype(np.int64) * len(workers) + worker
    if duplicates == "last":
        _, from_end = np.unique(pair[::-1], return_index=True)
        return np.sort(len(pair) - 1 - from_end)
    distinct, first = np.unique(pair, return_index=True)
    if duplicates == "error" and len(distinct) < len(pair):
        again = np.setdiff1d(np.arange(len(pair)), first)[0]
        raise InputError(
            f"worker {shown(workers[int(worker[again])])} voted more than once on task {shown(tasks[int(task[again])])}: "
            "choose duplicates='all', 'last' or 'first'"
        )
    return np.sort(first)
