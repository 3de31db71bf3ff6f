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
from adjudge.gpu.device import THREADS, Device, Program, blocks_of
from adjudge.models.auto import CarefulRecipe
from adjudge.models.careful import TINY, CarefulShared, pooled_votes, shared_by_all
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


def add_lines(device: Device, segment: Any, line: Any, values: Any, out: Any, size: int = SLICE) -> None:
    """Add lines of `values`, device [any, K], to those of their segment, OUT device [segments, K].

    `segment` is that of each line, device [lines], and `line(order)` returns which of `values` they are, in an order, uint32.
    """
    segments, k = out.shape
    if not len(segment) or not out.size:
        return
    of = Slices.of(device, device.xp.bincount(segment, minlength=segments), size)
    lines = line(device.xp.argsort(segment, kind="stable"))
    part, program = device.xp.empty((len(of), k)), device.program("segment_sums", K=k)
    given = (lines, values, of.start, of.item_start, of.item_segment, part)
    program.launch("slices_add", blocks_of(part.size), THREADS, *given, len(of), size)
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


def careful_lines(
    device: Device,
    counts: Any,  # device [rows, K] int64 or float64
    worker_ptr: Any,  # device int64 [workers + 1]
    row_worker: Any,  # device int64 [rows]
    row_label: Any,  # device int32 [rows]
    recipe: CarefulRecipe,
) -> tuple[Any, Any]:
    """Return log W of a careful version, device [rows, K], and the votes of each worker by true label, device [workers, K].

    It is for votes without weights, of workers without a history.
    """
    with device.current():
        rows, k = counts.shape
        table = device.xp.empty((rows, k))
        if not table.size:
            return table, device.xp.zeros((len(worker_ptr) - 1, k))
        seen = DeviceSeen(device, counts.astype(np.float64, copy=False), worker_ptr, row_label)
        shared = shared_by_all(seen.gather, recipe.dependence, recipe.exists, lambda *_: cast(Any, seen))
        of_version = _taste if recipe.kind == "A" else _own_votes
        given = of_version(seen, shared, recipe.dependence, recipe.exists)
        program = device.program("careful", K=k)
        program.launch("careful_table", blocks_of(table.size), THREADS, row_worker, row_label, *given, seen.counts, table, rows)
        return table, seen.met


class DeviceSeen:
    """Votes of all workers under the labels believed, on a device: `Seen` of `adjudge.models.careful`."""

    def __init__(self, device: Device, counts: Any, worker_ptr: Any, row_label: Any) -> None:
        self.device, self.counts, self._row_label = device, counts, row_label
        xp, k, workers = device.xp, counts.shape[1], len(worker_ptr) - 1
        self.met, self.said, self.right_votes = xp.empty((workers, k)), xp.empty((workers, k)), xp.empty(workers)
        out = self.met, self.said, self.right_votes
        self.program: Program = device.program("careful", K=k)
        self.program.launch("careful_seen", blocks_of(workers * k), THREADS, counts, worker_ptr, row_label, *out, workers)
        self.total = self.met.sum(axis=1)  # device [workers]

    @cached_property
    def right(self) -> Floats:
        """The right votes of each worker, [workers], on the host."""
        return self.device.download(self.right_votes)

    @cached_property
    def votes(self) -> Floats:
        """The votes of each worker, [workers], on the host."""
        return self.device.download(self.total)

    def expected_accuracy(self, own: Floats) -> Floats:
        """Return what the mean worker would reach on the labels that each worker met, [workers], on the host."""
        return self.device.download(self.expected_rate(own))

    def expected_rate(self, own: Floats) -> Any:
        """Return the same on the device."""
        xp = self.device.xp
        return xp.clip((self.met * self.device.upload(own)).sum(axis=1) / xp.maximum(self.total, TINY), 0.02, 0.98)

    def gather(self, function: Callable[[Any, Any], T]) -> T:
        """Return what a function says of all workers; votes by true and given label are summed on the device."""
        return cast(T, self._pool()) if function is pooled_votes else function(None, self.counts)

    def product(self, lines: Any, matrix: Any) -> Any:
        """Return lines, device [some, K], times a matrix, device [K, K]."""
        out = self.device.xp.empty(lines.shape)
        self.program.launch("careful_product", blocks_of(out.size), THREADS, lines, matrix, out, len(out))
        return out

    def _pool(self) -> Floats:
        """Return the votes of all workers, [K true, K given]."""
        k = self.counts.shape[1]
        pooled = self.device.xp.zeros((k, k))
        add_lines(self.device, self._row_label, lambda order: order.astype(np.uint32), self.counts, pooled)
        return np.ascontiguousarray(self.device.download(pooled).T)


def _taste(seen: DeviceSeen, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return what a table of version A is made of: a worker's accuracy, and the worker's taste for labels."""
    xp, met, phi = seen.device.xp, seen.met, found.inflation
    sure, wrong, there, errors = _rates(seen, shared, phi**-0.5, exists)
    believed = xp.where(there, sure, 0.0)
    expected = seen.product(met * wrong, seen.device.upload(errors)) + met * believed
    lent = 10.0 * expected / xp.maximum(expected.sum(axis=1, keepdims=True), TINY)
    taste = ((seen.said + lent + 1e-3) / (expected + lent + 1e-3)) ** (0.6 * phi**-0.25)
    by_given = seen.device.upload(errors.T)
    norm = wrong * seen.product(taste, by_given) + believed * taste  # sums over given labels
    return sure, wrong, by_given, there, taste, xp.where(norm > 0, norm, 1.0), None, met


def _own_votes(seen: DeviceSeen, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return what a table of version B is made of: a worker's accuracy, and the worker's own rows up to a cap."""
    sure, wrong, there, errors = _rates(seen, shared, shared.trust, exists)
    cap = shared.trust * found.effective_votes / (found.effective_votes + 5.0)
    share = seen.device.xp.minimum(seen.met / (seen.met + 10.0), cap)
    return sure, wrong, seen.device.upload(errors.T), there, None, None, share, seen.met


def _rates(seen: DeviceSeen, shared: CarefulShared, weight: float, exists: NDArray[np.bool_]) -> tuple[Any, Any, Any, Floats]:
    """Return the probabilities to be right and to be wrong by true label, device [workers, K] each, and two more.

    These are the labels that exist, device [K], and how the mean worker errs, [K true, K given], on the host.
    """
    device, xp = seen.device, seen.device.xp
    usual = seen.expected_rate(shared.own)
    rate = xp.clip((seen.right_votes + shared.kappa * usual) / (seen.total + shared.kappa), 0.01, 0.995)
    shift = weight * (xp.log(rate / (1.0 - rate)) - xp.log(usual / (1.0 - usual)))
    log_odds = device.upload(np.log(shared.own / (1.0 - shared.own)))
    sure = 1.0 / (1.0 + xp.exp(-(log_odds + shift[:, None])))
    there = device.upload(exists)
    errors = shared.mean_worker.copy()
    np.fill_diagonal(errors, 0.0)
    of_label = errors.sum(axis=1, keepdims=True)
    errors /= np.where(of_label > 0, of_label, 1.0)
    return sure, xp.where(there, 1.0 - sure, 0.0), there, errors
