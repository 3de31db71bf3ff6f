"""Many labels: counts of which only the cells with votes are stored, and tables in parts.

A worker who gave one of a thousand labels a few times has counts for a few true labels. What such a vote says of all the
others follows from its worker and its given label alone. So neither counts nor tables need a number for every row and label:
both take memory by votes, and by workers and labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from adjudge.data.votes import WorkerRows

Floats = NDArray[np.float64]
MIN_CELLS_PER_VOTE: Final = 16  # of a table, from which its cells are stored apart


def is_wide(rows: int, labels: int, votes: int) -> bool:
    """Return whether counts and tables of many labels are stored by what differs: where most cells have no votes."""
    return rows * labels >= MIN_CELLS_PER_VOTE * votes


@dataclass(frozen=True, eq=False)
class Cells:
    """Votes by row and true label, [rows, K], of which only some cells are stored; the others are 0.

    It can be indexed and summed like an array, and NumPy makes an array of it where it must.
    """

    ptr: NDArray[np.int64]  # [rows + 1] where the cells of each row begin
    label: NDArray[np.int32]  # [cells] rising within a row
    count: Floats  # [cells]
    n_labels: int

    ndim = 2
    dtype = np.dtype(np.float64)

    @classmethod
    def of(cls, counts: Floats) -> Cells:
        """Return the cells of an array that are not 0."""
        row, label = np.nonzero(counts)
        ptr = np.searchsorted(row, np.arange(len(counts) + 1)).astype(np.int64)
        return cls(ptr, label.astype(np.int32), counts[row, label].astype(np.float64), counts.shape[1])

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the array that this stands for."""
        return len(self), self.n_labels

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """The cells as compiled kernels take them."""
        return self.ptr, self.label, self.count

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """The row of each cell, [cells]."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        out: NDArray[Any] = self[:].astype(np.float64 if dtype is None else dtype, copy=False)
        return out

    def __getitem__(self, at: Any) -> Any:
        """Return the lines of some rows, [rows, K], or the cells of rows and labels, [n]."""
        if isinstance(at, tuple):
            rows, labels = np.broadcast_arrays(*at)
            return self._at(rows.astype(np.int64), labels.astype(np.int64))
        rows = np.arange(len(self))[at]
        out = np.zeros((*np.shape(rows), self.n_labels))
        line, cell = items_of(self.ptr, np.atleast_1d(rows))
        out.reshape(-1, self.n_labels)[line, self.label[cell]] = self.count[cell]
        return out

    def _at(self, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Floats:
        place = find_cells(self, rows, labels)
        out: Floats = np.where(place >= 0, self.count[np.maximum(place, 0)] if len(self.count) else 0.0, 0.0)
        return out

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of all votes, or the sums by true label (axis 0, [K]) or by row (axis 1, [rows])."""
        if axis is None:
            return self.count.sum()
        if axis == 0:
            return np.bincount(self.label, self.count, minlength=self.n_labels)
        return np.bincount(self.row, self.count, minlength=len(self))

    def astype(self, dtype: Any, copy: bool = True) -> Cells:
        """Return these cells: their counts are numbers of any kind."""
        return self

    def copy(self) -> Cells:
        """Return these cells, which never change."""
        return self

    def tobytes(self) -> bytes:
        """Return bytes that are equal where the counts are."""
        return b"".join(part.tobytes() for part in self.arrays)

    def by_worker(self, panel: WorkerRows) -> Floats:
        """Return the votes of each worker by true label, [workers, K]."""
        k, worker = self.n_labels, panel.row_worker()
        at = worker[self.row] * k + self.label
        return np.bincount(at, self.count, minlength=panel.n_workers * k).astype(np.float64).reshape(-1, k)

    def by_given(self, row_label: NDArray[np.int32]) -> Floats:
        """Return the votes of all workers together, [K given, K true]."""
        k = self.n_labels
        at = row_label[self.row].astype(np.int64) * k + self.label
        return np.bincount(at, self.count, minlength=k * k).astype(np.float64).reshape(k, k)

    def take(self, rows: NDArray[np.int64]) -> Cells:
        """Return the cells of some rows; a row below 0 has none."""
        has = rows >= 0
        length = np.where(has, np.diff(self.ptr)[np.maximum(rows, 0)] if len(self) else 0, 0)
        _, cell = items_of(self.ptr, rows[has])
        ptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        return Cells(ptr, self.label[cell], self.count[cell], self.n_labels)


def items_of(ptr: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the items of some rows, one row after the other: which of the rows, and which item, [items] each."""
    length = np.diff(ptr)[rows]
    line = np.repeat(np.arange(len(rows)), length)
    first = np.cumsum(length) - length
    return line, np.arange(len(line)) - first[line] + ptr[rows][line]


def find_cells(cells: Cells, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the cell of each row and label, or -1, in the shape of the rows."""
    k = cells.n_labels
    key, wanted = cells.row * k + cells.label, rows * k + labels
    place = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
    out: NDArray[np.int64] = np.where(key[place] == wanted, place, -1) if len(key) else np.full(wanted.shape, -1)
    return out


@dataclass(frozen=True, eq=False)
class WidePart:
    """Lines of a table: a line is by_worker + by_given + by_row, at least `floor`, except for the cells of its own."""

    by_worker: Floats  # [workers, K]
    by_given: Floats  # [K given, K true]
    own: Cells  # [rows, K] values in place of the sums
    by_row: Floats | None = None  # [rows]
    floor: float = -np.inf
    without: Floats | None = None  # [cells of `own`] the same with one vote less

    def lines(self, panel: WorkerRows, rows: NDArray[np.int64]) -> Floats:
        """Return the lines of some rows, [n, K]."""
        out: Floats = self.by_worker[panel.row_worker()[rows]] + self.by_given[panel.row_label[rows]]
        if self.by_row is not None:
            out += self.by_row[rows][:, None]
        np.maximum(out, self.floor, out=out)
        line, cell = items_of(self.own.ptr, rows)
        out[line, self.own.label[cell]] = self.own.count[cell]
        return out


@dataclass(frozen=True, eq=False)
class WideTable:
    """A table, [rows, K], that is the mean of one or two tables in parts. Some of its lines are made when they are indexed."""

    panel: WorkerRows
    parts: tuple[WidePart, ...]

    ndim = 2
    dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return self.panel.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the array that this stands for."""
        return self.panel.n_rows, self.panel.n_labels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        out: NDArray[Any] = self[:].astype(np.float64 if dtype is None else dtype, copy=False)
        return out

    def __getitem__(self, at: Any) -> Any:
        """Return the lines of some rows, [rows, K], or the cells of rows and labels, [n]."""
        if isinstance(at, tuple):
            rows, labels = np.broadcast_arrays(*at)
            distinct, place = np.unique(rows, return_inverse=True)
            return self[distinct][place.reshape(rows.shape), labels]
        rows = np.arange(len(self))[at]
        lines = [part.lines(self.panel, np.atleast_1d(rows).ravel()) for part in self.parts]
        mean = lines[0] if len(lines) == 1 else (lines[0] + lines[1]) / 2.0
        return mean.reshape(*np.shape(rows), self.shape[1])

    def arrays(self) -> list[tuple[Any, ...]]:
        """Return the parts as compiled kernels take them."""
        worker, label = self.panel.row_worker(), self.panel.row_label
        return [(p.by_worker, p.by_given, p.by_row, worker, label, *p.own.arrays, p.without, float(p.floor)) for p in self.parts]

    def without(self) -> WideTable:
        """Return the table with one vote left out of the counts: only its cells with votes are ever read, the others are 0."""
        part = self.parts[0]
        if part.without is None:
            return self
        nothing = np.zeros_like(part.by_worker), np.zeros_like(part.by_given)
        return WideTable(self.panel, (WidePart(*nothing, replace(part.own, count=part.without)),))


def mean_table(one: Any, two: Any) -> Any:
    """Return the mean of two tables, [rows, K]: in parts if both are."""
    if isinstance(one, WideTable) and isinstance(two, WideTable):
        return WideTable(two.panel, (*one.parts, *two.parts))
    table = one + (np.asarray(two) if isinstance(two, WideTable) else two)
    table /= 2.0
    return table


def dense(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays by name, of which none is stored in parts."""
    return {name: np.asarray(value) if isinstance(value, Cells | WideTable) else value for name, value in values.items()}
