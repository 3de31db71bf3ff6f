"""M-steps on a device: from counts that stay there to tables, and sums that repeat bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.engines.base import WorkerBlock
from adjudge.gpu.device import THREADS, Device, Program, blocks_of
from adjudge.models.auto import CarefulRecipe
from adjudge.models.careful import (
    CarefulShared,
    Kind,
    error_shares,
    pooled_votes,
    shared_by_all,
    shift_weight,
    taste_power,
)
from adjudge.models.honest import Dependence

SLICE: Final = 256  # lines that one thread adds up


@dataclass(frozen=True, eq=False)
class Slices:
    """Items sorted by *segment*, and the slices of each segment."""

    start: Any  # device int64 [segments + 1] where the items of each begin
    item_start: Any  # device int64 [segments + 1] where the slices of each begin
    item_segment: Any  # device uint32 [slices]

    @classmethod
    def of(cls, device: Device, lengths: Any, size: int) -> Slices:
        """Return the slices of segments of some lengths, device int64 [segments]."""
        xp = device.xp
        start, item_start = starts(device, lengths), starts(device, (lengths + (size - 1)) // size)
        number = xp.arange(int(item_start[-1]), dtype=np.int64)
        segment = (xp.searchsorted(item_start, number, side="right") - 1).astype(np.uint32)
        return cls(start, item_start, segment)

    def __len__(self) -> int:
        return len(self.item_segment)


@dataclass(frozen=True, eq=False)
class SortedLines:
    """Lines in the order of their segments, which sums by segment are taken over."""

    slices: Slices
    order: Any  # device [lines]: which lines they are

    @classmethod
    def of(cls, device: Device, segment: Any, segments: int) -> SortedLines:
        """Return the order of lines by their segment, device [lines]."""
        order = device.xp.argsort(segment, kind="stable")
        return cls(Slices.of(device, device.xp.bincount(segment, minlength=segments), SLICE), order)

    def add(self, device: Device, line: Any, values: Any, out: Any) -> None:
        """Add lines of `values`, device [any, K], to those of their segment, OUT device [segments, K].

        `line` says which of `values` each of the lines in order is, device uint32 [lines].
        """
        of, (segments, k) = self.slices, out.shape
        if not len(line) or not out.size:
            return
        part, program = device.xp.empty((len(of), k)), device.program("segment_sums", K=k)
        given = (line, values, of.start, of.item_start, of.item_segment, part)
        program.launch("slices_add", blocks_of(part.size), THREADS, *given, len(of), SLICE)
        program.launch("slices_total", blocks_of(out.size), THREADS, part, of.item_start, out, segments)


def starts(device: Device, lengths: Any) -> Any:
    """Return where segments of some lengths begin, and where the last ends, device int64 [segments + 1]."""
    out = device.xp.zeros(len(lengths) + 1, np.int64)
    out[1:] = device.xp.cumsum(lengths)
    return out


MAX_BLOCKS: Final = 4096


class TableKernels:
    """Kernels over counts and tables."""

    device: Device

    def confusion_table(self, counts: Any, worker_ptr: Any, smoothing: float) -> tuple[Any, Any]:
        """Return log pi, device [rows, K], and the votes of each worker by true label, device [workers, K]."""
        xp, (_, k), workers = self.device.xp, counts.shape, len(worker_ptr) - 1
        table, totals = xp.empty(counts.shape), xp.zeros((workers, k))
        if workers and k:
            kernel = "confusion_table_hard" if counts.dtype == np.int64 else "confusion_table_soft"
            given = counts, worker_ptr, workers, k, float(smoothing), table, totals
            self.device.program("tables").launch(kernel, min(blocks_of(workers * k), MAX_BLOCKS), THREADS, *given)
        return table, totals

    def restore_counts(self, counts: Any, rest: Any = None, unit: float = LOG_UNIT) -> None:
        """Bring sums of shares back to scale: coarse ones, or fine ones with their second sums. OUT device [...]."""
        if counts.size:
            given = counts, rest, counts.size, unit_bits(unit)
            self.device.program("tables").launch("restore_counts", min(blocks_of(counts.size), MAX_BLOCKS), THREADS, *given)

    def classification(self, counts: Any, class_counts: NDArray[np.int64], table: Any, log_prior: NDArray[np.float64]) -> float:
        """Return C2 of the paper, the sum of log p(votes, chosen label), from the counts of the chosen labels alone."""
        of_classes = float((class_counts * np.where(class_counts > 0, log_prior, 0.0)).sum())
        if not counts.size:
            return of_classes
        blocks = min(blocks_of(counts.size), MAX_BLOCKS)
        sums = self.device.xp.empty(blocks)
        self.device.program("tables").launch("classification", blocks, THREADS, counts, table, counts.size, sums)
        return float(self.device.download(sums.sum())) + of_classes


def unit_bits(unit: float) -> int:
    """Return b of a unit of 2 to the power -b, as kernels take it.

    >>> unit_bits(LOG_UNIT)
    40
    """
    return 1 - math.frexp(unit)[1]


Floats = NDArray[np.float64]
T = TypeVar("T")


class RowIds:
    """Whose votes the rows of a table are, and for which label: arrays on a device."""

    def __init__(self, device: Device, worker_ptr: Any, row_worker: Any, row_label: Any, labels: int) -> None:
        self.device, self.labels = device, labels
        self.worker_ptr = worker_ptr  # device int64 [workers + 1]
        self.row_worker = row_worker  # device int64 [rows]
        self.row_label = row_label  # device int32 [rows]

    @cached_property
    def by_label(self) -> tuple[SortedLines, Any]:
        """The rows in the order of their labels, and the same order as kernels take it, device uint32 [rows]."""
        found = SortedLines.of(self.device, self.row_label, self.labels)
        return found, found.order.astype(np.uint32)


def careful_lines(ids: RowIds, counts: Any, recipe: CarefulRecipe) -> tuple[Any, Any]:
    """Return log W of a careful version, device [rows, K], and the votes of each worker by true label, device [workers, K].

    It is for votes without weights, of workers without a history; `counts` are int64 or float64, device [rows, K].
    """
    device, (rows, k) = ids.device, counts.shape
    with device.current():
        table = device.xp.empty((rows, k))
        if not table.size:
            return table, device.xp.zeros((len(ids.worker_ptr) - 1, k))
        seen = DeviceSeen(ids, counts.astype(np.float64, copy=False))
        shared = shared_by_all(seen.gather, recipe.dependence, recipe.exists, lambda *_: cast(Any, seen))
        given = seen.factors(recipe.kind, shared, recipe.dependence, recipe.exists)
        blocks = blocks_of(table.size)
        seen.program.launch("careful_table", blocks, THREADS, ids.row_worker, ids.row_label, *given, seen.counts, table, rows)
        return table, seen.met


class DeviceSeen:
    """Votes of all workers under the labels believed, on a device: `BelievedVotes` of `adjudge.models.careful`."""

    def __init__(self, ids: RowIds, counts: Any) -> None:
        xp, k = ids.device.xp, counts.shape[1]
        self.device, self.counts, self._ids, self._workers = ids.device, counts, ids, len(ids.worker_ptr) - 1
        self.met, self.said = self._by_label(2)  # device [workers, K] votes by true and by given label
        self.right, self.votes, self._usual = xp.empty((3, self._workers))  # device [workers] each
        self.program: Program = self.device.program("careful", K=k)
        blocks = blocks_of(self._workers * k)
        self.program.launch("careful_seen", blocks, THREADS, counts, ids.worker_ptr, ids.row_label, *self._seen(), self._workers)

    def _seen(self) -> tuple[Any, ...]:
        return self.met, self.said, self.right, self.votes

    def _by_label(self, number: int) -> Any:
        """Return arrays by worker and label, device [number, workers, K]."""
        return self.device.xp.empty((number, self._workers, self.counts.shape[1]))

    def gather(self, function: Callable[[Any, Any], T]) -> T:
        """Return what a function says of all workers; votes by true and given label are summed on the device."""
        return cast(T, self._pool()) if function is pooled_votes else function(None, self.counts)

    def _pool(self) -> Floats:
        """Return the votes of all workers, [K true, K given]."""
        k, (lines, order) = self.counts.shape[1], self._ids.by_label
        pooled = self.device.xp.zeros((k, k))
        lines.add(self.device, order, self.counts, pooled)
        return np.ascontiguousarray(self.device.download(pooled).T)

    def spread_moments(self, own: Floats, _: WorkerBlock | None = None) -> Floats:
        """Return what `spread` needs, and find what the mean worker would reach on the labels that each worker met."""
        blocks = blocks_of(self._workers)
        sums = self.device.xp.empty((blocks, 3))
        given = self.met, self.right, self.votes, self.device.upload(own), self._usual, sums
        self.program.launch("careful_moments", blocks, THREADS, *given, self._workers)
        found: Floats = self.device.download(sums).sum(axis=0)
        return found

    def factors(self, kind: Kind, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> tuple[Any, ...]:
        """Return what the lines of a version are made of, after `spread_moments` for the same mean worker.

        These are the probabilities to be right and to be wrong by true label, how the mean worker errs, which labels exist, the
        worker's taste for labels and its sums (version A), and the weight of the worker's own votes (B) with the votes met.
        """
        device = self.device
        errors, there = device.upload(error_shares(shared.mean_worker).T), device.upload(exists)
        sure, wrong = self._by_label(2)
        taste, norm, share = (*self._by_label(2), None) if kind == "A" else (None, None, self._by_label(1)[0])
        self.program.launch(
            "careful_factors", blocks_of(self._workers), THREADS,
            *self._seen(), self._usual, device.upload(shared.own), errors, there, sure, wrong, taste, norm, share,
            float(shared.kappa), shift_weight(kind, shared, found), taste_power(found.inflation), float(shared.most_own),
            self._workers,
        )  # fmt: skip
        return sure, wrong, errors, there, taste, norm, share, self.met
