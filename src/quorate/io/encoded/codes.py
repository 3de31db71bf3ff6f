"""Ids to codes while votes stream by: workers and labels, and the rows (pairs of them) that occur."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.bounds import require_below
from quorate.errors import InputError, listed, shown
from quorate.io.coder import KINDS, MISSING, require_same
from quorate.io.ids import narrowed, sort_order, vocabulary
from quorate.kernels.core import compiled
from quorate.vocabulary import Kind, Vocabulary

Codes = NDArray[np.uint32]


class RunningCodes:
    """Gives every distinct id a code in order of first appearance, batch by batch; missing ids get MISSING.

    >>> codes = RunningCodes("worker")
    >>> codes.encode(pl.Series(["b", "a", "b"])).tolist(), codes.encode(pl.Series(["c", "a"])).tolist()
    ([0, 1, 0], [2, 1])
    >>> codes.vocabulary().ids()
    ['b', 'a', 'c']
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self.kind: Kind | None = None
        self._core: Any = compiled()
        self._table: Any = None
        self._known: dict[object, int] = {}  # without the compiled core
        self._fresh: list[pl.Series] = []  # the distinct ids, in the pieces they came in
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def encode(self, ids: pl.Series) -> Codes:
        """Returns the code of every id of a prepared series, [n]."""
        if ids.null_count() == len(ids):
            return np.full(len(ids), MISSING)
        kind = KINDS.get(ids.dtype, "string")  # categories are texts
        if self.kind is not None:
            require_same(self.role, self.kind, kind)
        self.kind = kind
        codes = self._known_codes(ids) if self._core is None else self._compiled_codes(ids)
        self._remember(ids, codes)
        return codes

    def ids(self, begin: int = 0) -> pl.Series:
        """Returns the distinct ids with codes from `begin` on, in code order."""
        whole = pl.concat(self._fresh) if self._fresh else pl.Series([], dtype=pl.String)
        self._fresh = [whole]
        return whole[begin:]

    def vocabulary(self) -> Vocabulary:
        """Returns the distinct ids, in code order."""
        return vocabulary(self.ids())

    def _compiled_codes(self, ids: pl.Series) -> Codes:
        if self._table is None:
            self._table = self._core.TextDictionary() if self.kind == "string" else self._core.IntDictionary()
        out = self._core.Codes()
        stream = self._core.Stream(ids.to_frame("id").__arrow_c_stream__())
        try:
            while (batch := stream.next()) is not None:
                self._core.encode(batch, [0], [self._table], [out], 1)
        except ValueError as error:  # more ids than codes
            raise InputError(f"too many {self.role}s: {error}") from error
        codes: Codes = out.finish()
        return codes

    def _known_codes(self, ids: pl.Series) -> Codes:
        known = self._known
        return np.array([int(MISSING) if i is None else known.setdefault(i, len(known)) for i in ids], np.uint32)

    def _remember(self, ids: pl.Series, codes: Codes) -> None:
        """Keeps the ids that were never seen before: those with codes from the old size on."""
        where = np.flatnonzero((codes >= self._size) & (codes != MISSING))
        if not len(where):
            return
        fresh, first = np.unique(codes[where], return_index=True)
        new = ids.gather(where[first])
        self._fresh.append(new.cast(pl.String) if self.kind == "string" else new)
        self._size = int(fresh[-1]) + 1


class Rows(NamedTuple):
    """The final panel, and where each row seen on the way stands in it."""

    worker_ptr: NDArray[np.int64]  # [workers + 1]
    row_label: NDArray[np.int32]  # [rows]
    workers: Vocabulary
    labels: Vocabulary
    place: Codes  # [rows seen + 1] the final row of each code; the last one is MISSING's


class RunningRows:
    """Workers, labels and rows seen so far. A vote is the code of its row; one without label is MISSING."""

    def __init__(self, declared: Vocabulary | None) -> None:
        self.workers = RunningCodes("worker")
        self.labels = RunningCodes("label")
        self.rows = RunningCodes("row")  # worker code * 2^32 + label code
        self.declared = declared

    def encode(self, worker: pl.Series, label: pl.Series, first_row: int) -> Codes:
        """Returns the code of every vote's row, [votes]."""
        by_worker = self.workers.encode(worker)
        before = len(self.labels)
        by_label = self.labels.encode(label)
        if self.declared is not None and len(self.labels) > before:
            self._require_declared(by_label, before, first_row)
        pair = (by_worker.astype(np.int64) << 32) | by_label
        pairs = pl.Series(pair)
        missing = by_label == MISSING
        return self.rows.encode(pairs.set(pl.Series(missing), None) if missing.any() else pairs)

    def check(self) -> None:
        """Raise unless every row that was read back is of a worker and a label that were, too."""
        if not len(self.rows):
            return
        rows = self.rows.ids()
        pair = rows.to_numpy() if rows.dtype == pl.Int64 else np.full(1, -1)
        require_below("the worker of a row", pair >> 32, len(self.workers))
        require_below("the label of a row", pair & 0xFFFFFFFF, len(self.labels))

    def finish(self, *, narrow: bool) -> Rows:
        """Returns the rows in their final order: by worker, then label, each in the order of its ids."""
        workers, labels = self.workers.vocabulary(), self.labels.vocabulary()
        if narrow:
            workers, labels = narrowed(workers), narrowed(labels)
        pair = self.rows.ids().cast(pl.Int64).to_numpy()
        worker_order = sort_order(workers)
        worker = _rank(worker_order)[pair >> 32].astype(np.int64)
        if self.declared is None:
            label_order = sort_order(labels)
            labels, label_rank = labels.take(label_order), _rank(label_order)
        else:
            label_rank = self.declared.codes(labels.ids()).astype(np.uint32)
            labels = self.declared
        label = label_rank[pair & 0xFFFFFFFF].astype(np.int64)
        order = np.lexsort((label, worker))
        place = np.full(len(pair) + 1, MISSING)
        place[order] = np.arange(len(order), dtype=np.uint32)
        voted, sizes = np.unique(worker, return_counts=True)  # a worker may have nothing but abstentions
        return Rows(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
            label[order].astype(np.int32),
            workers.take(worker_order[voted]),
            labels,
            place,
        )

    def _require_declared(self, codes: Codes, before: int, first_row: int) -> None:
        declared = self.declared
        assert declared is not None
        fresh = self.labels.ids(before).to_list()
        strange = np.flatnonzero(declared.codes(fresh) < 0)
        if len(strange):
            row = first_row + int(np.argmax(codes == before + strange[0])) + 1
            value = fresh[int(strange[0])]
            raise InputError(f"label {shown(value)} in row {row} is not among the declared labels: {listed(declared.ids())}")


def distinct(pieces: Iterable[pl.Series], role: str) -> tuple[Codes, Vocabulary]:
    """Returns the code of every id of a column that comes in pieces, and the distinct ids."""
    running = RunningCodes(role)
    codes = [running.encode(piece) for piece in pieces]
    return np.concatenate([np.zeros(0, np.uint32), *codes]), running.vocabulary()


def group(task: Codes, row: Codes, n_tasks: int) -> tuple[NDArray[np.int64], Codes]:
    """Returns (task_ptr [tasks + 1], row [votes]) sorted by task and row; votes whose row is MISSING are left out."""
    core: Any = compiled()
    if core is not None:
        task_ptr, votes = core.group_by_task(task, row, n_tasks, os.cpu_count() or 1)
        return task_ptr, row[:votes]
    given = row != MISSING
    task, row = task[given], row[given]
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    return task_ptr, row[np.lexsort((row, task))]


def _rank(order: NDArray[np.integer]) -> Codes:
    """Returns the place of each code in this order, [n]."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank
