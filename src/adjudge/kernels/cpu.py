"""The compiled twins of the reference kernels: the same arguments, the same results, over threads.

This is the one place that imports the compiled core, which may not have been built.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.data.wide import Cells, WideTable
from adjudge.errors import AdjudgeError, InputError, NotCompiled, warn
from adjudge.kernels.reference import Floats, HonestRule, Sums, check_codes

Offsets = NDArray[np.int64]
Codes = NDArray[np.int32]


@cache
def compiled() -> ModuleType | None:
    """Return the compiled core, or None (with one warning) where it could not be built."""
    try:
        return import_module("adjudge._core")
    except ImportError as error:
        warn(
            f"adjudge runs without its compiled core ({error}); results are the same, but slower: "
            "install a C++17 compiler and reinstall adjudge",
            NotCompiled,
        )
        return None


@cache
def cores() -> int:
    """Return the number of the machine's cores, cached because the system call takes as long as a small pass."""
    return os.cpu_count() or 1


def required() -> Any:
    """Return the compiled core; raise if it was not built."""
    core = compiled()
    if core is None:
        raise AdjudgeError("the compiled core was not built: choose engine='reference', or reinstall with a C++17 compiler")
    return core


def kernels_named(name: str) -> ModuleType:
    """Return a module of kernels by its full name; its reference where the compiled core was not built.

    >>> kernels_named("adjudge.kernels.reference").__name__
    'adjudge.kernels.reference'
    """
    return import_module(name if compiled() is not None else name.replace("cpu", "reference"))


def methods_of(kernels: ModuleType) -> ModuleType:
    """Return the kernels of single methods that belong to `cpu` or `reference`."""
    return import_module(f"adjudge.kernels.methods_{kernels.__name__.rpartition('.')[2]}")


def fastest() -> ModuleType:
    """Return the module of the compiled kernels, or the reference where they were not built."""
    return kernels_named(__name__)


def em_pass(
    *votes_and_model: Any,
    hard: bool,
    checked: bool = False,
    delta: bool = False,
    likelihood: bool = True,
    classification: bool = True,
    **out: Any,
) -> Sums:
    """Return what `reference.em_pass` does."""
    core, (task_ptr, row, table, log_prior, task_key, label_hash) = required(), votes_and_model
    if not checked:
        check_votes(task_ptr, row, len(table), out.get("threads", 1))
    if isinstance(table, WideTable):
        return _wide_pass(*votes_and_model, likelihood=likelihood, **out)
    votes_and_model = task_ptr, row, table, log_prior, hashable(task_key), label_hash
    if hard:
        sums = core.hard_pass(*votes_and_model, delta=delta, likelihood=likelihood, classification=classification, **out)
    else:
        sums = core.soft_pass(*votes_and_model, **out)
    return Sums(*sums[:4])


def _wide_pass(task_ptr: Any, row: Any, table: WideTable, log_prior: Floats, task_key: Any, label_hash: Any, **how: Any) -> Sums:
    """Return the sums of a pass whose table is in parts; it decides labels, and counts nothing."""
    parts = table.arrays()
    sums = required().wide_pass(task_ptr, row, len(table), parts, log_prior, hashable(task_key), label_hash, **how)
    return Sums(*sums[:4])


def count_cells(ptr: Offsets, item: Codes, label: Codes, n_labels: int, threads: int = 1) -> Cells:
    """Return the items of each group by label: those of group g are `item[ptr[g]:ptr[g + 1]]`, with labels `label`, [items].

    Items whose label is below 0 are left out.
    """
    return _cells(required().count_cells(ptr, item, label, threads), n_labels)


def sum_cells(ptr: Offsets, item: Codes, of_item: Cells, threads: int = 1) -> Cells:
    """Return the sum of the cells of each group's items, which are as in `count_cells`."""
    k = of_item.n_labels
    return _cells(required().sum_cells(ptr, item, of_item.arrays, k, threads), k)


def merge_cells(one: Cells, other: Cells, x: float, y: float, threads: int = 1) -> Cells:
    """Return x times the cells of one plus y times those of the other; all cells that either has are in it."""
    k = one.n_labels
    return _cells(required().merge_cells(one.arrays, other.arrays, k, x, y, threads), k)


def _cells(arrays: Any, n_labels: int) -> Cells:
    ptr, label, count = arrays
    return Cells(ptr, label, count, n_labels)


def tasks_by_row(task_ptr: Offsets, row: NDArray[np.uint32], rows: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where the votes of each row begin, [rows + 1], and the task of each, [votes]."""
    ptr, task = np.empty(rows + 1, np.int64), np.empty(len(row), np.int32)
    required().tasks_by_row(task_ptr, row, ptr, task)
    return ptr, task


def majority(*votes: Any, tie_weights: Floats | None, soft: bool, checked: bool = False, **out: Any) -> None:
    """Do what `reference.majority` does."""
    core, (task_ptr, row, row_label, task_key, label_hash) = required(), votes
    if not checked:
        check_votes(task_ptr, row, len(row_label), out.get("threads", 1))
        check_codes("row_label", row_label, len(label_hash))
    votes = task_ptr, row, row_label, hashable(task_key), label_hash
    (core.majority_soft if soft else core.majority_hard)(*votes, favour=tie_weights, **out)


def hashable(task_key: Any) -> Any:
    """Return keys of ties as the core takes them: ready, or as ids that it hashes where tasks tie (see `engines.shard`)."""
    return task_key if isinstance(task_key, np.ndarray) else task_key.ids()


def recount_hard(*votes_and_counts: Any, checked: bool = False, threads: int = 1) -> None:
    """Do what `reference.recount_hard` does, once."""
    if not checked:
        task_ptr, row, _, counts, _ = votes_and_counts
        check_votes(task_ptr, row, len(counts), threads)
    required().count_labels(*votes_and_counts, threads)


def confusion_table(counts: Any, worker_ptr: Offsets, smoothing: float, threads: int = 1) -> tuple[Floats, Floats]:
    """Return what `reference.confusion_table` does."""
    table = room(counts.shape)
    totals = room((len(worker_ptr) - 1, counts.shape[1]))
    required().confusion_table(counts, worker_ptr, smoothing, table, totals, threads=threads)
    return table, totals


@dataclass(frozen=True, eq=False)
class Blend:
    """Counts mixed with others that were kept: sums over workers read both, so that nobody needs the mixture as an array."""

    kept: Floats  # [rows, K]
    counts: Any  # [rows, K]
    share: float  # of those that were kept
    threads: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return blend_counts(self.kept, self.counts, self.share, 1.0 - self.share, self.threads)


class WorkerSums(NamedTuple):
    """Sums over the rows of each worker; those that were not asked for are empty."""

    met: Floats  # [workers, K] votes by true label
    said: Floats  # [workers, K] by given label
    right: Floats  # [workers]
    votes: Floats  # [workers]
    given: Floats  # [K given, K true] votes of all workers together


def worker_sums(
    counts: Any,
    worker_ptr: Offsets,
    row_label: Codes,
    *,
    met: bool = True,
    said: bool = True,
    given: bool = False,
    threads: int = 1,
) -> WorkerSums:
    """Return sums over the rows of each worker of votes by row and true label, `counts`, [rows, K]."""
    kept, share = (counts.kept, counts.share) if isinstance(counts, Blend) else (None, 0.0)
    counts = np.ascontiguousarray(counts if kept is None else counts.counts)
    workers, k = len(worker_ptr) - 1, counts.shape[1]
    lines = room((workers if met else 0, k)), room((workers if said else 0, k))
    sums = WorkerSums(*lines, room((workers,)), room((workers,)), np.empty((k if given else 0, k)))
    out = sums.met if met else None, sums.said if said else None, sums.right, sums.votes, sums.given if given else None
    required().worker_sums(counts, worker_ptr, row_label, *out, kept, share, threads=threads)
    return sums


def careful_moments(met: Floats, right: Floats, votes: Floats, own: Floats, threads: int = 1) -> Floats:
    """Return what `adjudge.models.honest.spread_moments` does, [3], where `own` is the mean worker's accuracy, [K]."""
    sums = np.empty(3)
    required().careful_moments(met, right, votes, own, sums, threads=threads)
    return sums


def blend_counts(one: Any, other: Any, x: float, y: float, threads: int = 1, out: Floats | None = None) -> Floats:
    """Return x times one plus y times the other, [rows, K]; OUT may be one of them."""
    out = room(one.shape) if out is None else out
    required().blend_counts(one, other, x, y, out, threads=threads)
    return out


def careful_table(counts: Any, worker_ptr: Offsets, row_label: Codes, threads: int = 1, **shared: Any) -> Floats:
    """Return what `adjudge.models.careful.careful_table` does for all rows of some workers, [rows, K]."""
    if isinstance(counts, Blend):  # version A looks at sums alone
        counts = counts.counts if shared["taste_power"] else np.asarray(counts)
    table = room(counts.shape)
    required().careful_table(counts, worker_ptr, row_label, table=table, threads=threads, **shared)
    return table


def honest_lines(
    counts: Any, worker_ptr: Offsets, row_label: Codes, lent: Floats, exists: NDArray[np.bool_], in_all: float, threads: int = 1
) -> tuple[Floats, Floats]:
    """Return what `adjudge.models.honest.Honest.lines` does where votes have no weights and workers no history.

    Both lines of a row are side by side: a vote reads both.
    """
    both = room((len(counts), 2, counts.shape[1]))
    required().honest_lines(counts, worker_ptr, row_label, lent, exists.view(np.uint8), in_all, both, threads=threads)
    return both[:, 0], both[:, 1]


def room(shape: tuple[int, ...], dtype: Any = np.float64, *, zero: bool = False, threads: int = 1) -> NDArray[Any]:
    """Return an array that begins with a cache line, uninitialised or `zero`; the steps of a fit reuse the memory of large ones.

    >>> room((2, 3), np.int64, zero=True).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    made = required().room(math.prod(shape) * np.dtype(dtype).itemsize, zero, threads)
    out: NDArray[Any] = made.view(dtype).reshape(shape)
    return out


def restore_counts(counts: Floats, rest: Floats | None = None, unit: float = LOG_UNIT, threads: int = 1) -> None:
    """Do what `reference.restore_counts` does."""
    required().restore_counts(counts.reshape(-1), None if rest is None else rest.reshape(-1), unit, threads)


def votes_per_row(row: NDArray[np.uint32], rows: int, threads: int = 1) -> NDArray[np.int64]:
    """Return what `reference.votes_per_row` does."""
    counts = np.zeros(rows, np.int64)
    required().votes_per_row(row, counts, threads)
    return counts


def check_votes(task_ptr: Offsets, row: NDArray[np.uint32], rows: int, threads: int = 1) -> None:
    """Raise where `reference.check_votes` does."""
    try:
        required().check_votes(task_ptr, row, rows, threads)
    except ValueError as error:
        raise InputError(str(error)) from None


def classification(counts: Any, class_counts: Any, table: Floats, log_prior: Floats, threads: int = 1) -> float:
    """Return what `reference.classification` does."""
    return float(required().classification(counts, class_counts, table, log_prior, threads))


def pair_sums(
    task_ptr: Offsets,
    row: NDArray[np.uint32],
    row_label: Codes,
    labels: Codes,
    values: Floats,
    n_labels: int,
    row_weight: Floats | None = None,
    worker_ptr: Offsets | None = None,
    threads: int = 1,
) -> Floats:
    """Return what `reference.pair_sums` does; with `worker_ptr` the values are those of workers, [quantities, 2, workers]."""
    sums = np.empty(len(values) + 2)
    required().pair_sums(task_ptr, row, row_label, labels, values, n_labels, sums, row_weight, worker_ptr, threads)
    return sums


def honest_pass(
    task_ptr: Offsets,
    row: NDArray[np.uint32],
    row_label: Codes,
    labels: Codes,
    lines: Floats | WideTable,
    without: Floats | WideTable,
    rule: HonestRule,
    *,
    threads: int = 1,
    **out: Any,
) -> None:
    """Do what `reference.honest_pass` does; lines may be in parts."""
    required().honest_pass(task_ptr, row, row_label, labels, *_both(lines, without), *rule, threads=threads, **out)


def _both(lines: Floats | WideTable, without: Floats | WideTable) -> tuple[Any, Any]:
    """Return lines with and without one vote as the core takes them; in parts the first know the second."""
    return (lines.arrays()[0], None) if isinstance(lines, WideTable) else (lines, without)


def below_chance(
    task_ptr: Offsets,
    row: NDArray[np.uint32],
    row_label: Codes,
    labels: Codes,
    lines: Floats | WideTable,
    without: Floats | WideTable,
    rule: HonestRule,
    row_worker: NDArray[np.int64],
    worker_ptr: Offsets,
    unit: float,
    sums: NDArray[np.int64],
    row_weight: Floats | None = None,
    threads: int = 1,
) -> None:
    """Do what `reference.below_chance` does; lines may be in parts."""
    votes = task_ptr, row, row_label, labels, *_both(lines, without)
    required().below_chance(*votes, *rule, row_worker, worker_ptr, unit, sums, row_weight, threads)


def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], threads: int = 1) -> NDArray[np.uint64]:
    """Return what `reference.hash_texts` does."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    required().hash_texts(offsets, data, hashes, threads)
    return hashes


def hash_integers(values: NDArray[np.int64], threads: int = 1) -> NDArray[np.uint64]:
    """Return what `reference.hash_integers` does."""
    hashes = np.empty(len(values), np.uint64)
    required().hash_integers(values, hashes, threads)
    return hashes


def tie_keys(task_hash: NDArray[np.uint64], seed: int, threads: int = 1) -> NDArray[np.uint64]:
    """Return what `reference.tie_keys` does, in the place of the hashes."""
    required().tie_keys(task_hash, int(seed) % 2**64, threads)
    return task_hash
