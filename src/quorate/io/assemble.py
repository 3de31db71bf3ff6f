"""Codes to the arrays of `Votes`: rows numbered, votes sorted by task and row."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.errors import InputError, OptionError, listed, shown
from quorate.io.coder import MISSING, Coded
from quorate.vocabulary import Vocabulary

Codes = NDArray[np.uint32]
DUPLICATES = ("all", "last", "first", "error")


class Arrays(NamedTuple):
    """The arrays of `Votes`; a task or a worker may have no vote."""

    task_ptr: NDArray[np.int64]
    row: NDArray[np.uint32]
    worker_ptr: NDArray[np.int64]
    row_label: NDArray[np.int32]


def assemble(
    codes: dict[str, Codes],  # role -> [votes], in input order; a MISSING label is no vote
    n_tasks: int,
    worker_rank: Codes,  # [workers] the place of each worker's code in the final order
    label_rank: Codes,  # [labels] likewise
    n_labels: int,
) -> Arrays:
    """Returns the votes of these codes: the definition, in NumPy."""
    given = codes["label"] != MISSING
    task = codes["task"][given].astype(np.int64)
    worker = worker_rank[codes["worker"][given]].astype(np.int64)
    label = label_rank[codes["label"][given]].astype(np.int64)
    rows, row = np.unique(worker * max(n_labels, 1) + label, return_inverse=True)
    row_worker, row_label = np.divmod(rows, max(n_labels, 1))
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    return Arrays(
        task_ptr,
        row[np.lexsort((row, task))].astype(np.uint32),
        np.searchsorted(row_worker, np.arange(len(worker_rank) + 1)).astype(np.int64),
        row_label.astype(np.int32),
    )


def assemble_compiled(
    core: ModuleType, codes: dict[str, Codes], n_tasks: int, worker_rank: Codes, label_rank: Codes, n_labels: int, threads: int
) -> Arrays:
    """Returns what `assemble` does, by counting sort over threads; the worker's and label's codes are used up."""
    row = codes["worker"]
    task_ptr, n_votes, worker_ptr, row_label = core.assemble(
        codes["task"], row, codes["label"], n_tasks, worker_rank, label_rank, n_labels, threads
    )
    return Arrays(task_ptr, row[:n_votes], worker_ptr, row_label)


def check_duplicates(rule: str) -> None:
    """Raises unless this is a rule for repeated votes."""
    if rule not in DUPLICATES:
        raise OptionError(f"duplicates is {shown(rule)}: choose one of {listed(DUPLICATES)}")


def drop_duplicates(coded: Coded, duplicates: str) -> None:
    """Marks as MISSING the votes of a worker on a task that do not count: all but the last, or the first."""
    given = np.flatnonzero(coded.codes["label"] != MISSING)
    task, worker = coded.codes["task"][given], coded.codes["worker"][given]
    pair = task.astype(np.int64) * max(len(coded.ids["worker"]), 1) + worker
    if duplicates == "last":
        pair, given = pair[::-1], given[::-1]
    distinct, first = np.unique(pair, return_index=True)
    if len(distinct) == len(pair):
        return
    again = np.ones(len(pair), np.bool_)
    again[first] = False
    if duplicates == "error":
        vote = int(given[np.argmax(again)])
        _refuse(coded.ids["task"], coded.ids["worker"], coded.codes["task"][vote], coded.codes["worker"][vote])
    coded.codes["label"][given[again]] = MISSING


def _refuse(tasks: Vocabulary, workers: Vocabulary, task: np.uint32, worker: np.uint32) -> None:
    raise InputError(
        f"worker {shown(workers[int(worker)])} voted more than once on task {shown(tasks[int(task)])}: "
        "choose duplicates='all', 'last' or 'first'"
    )
