"""E-steps, majority vote and recounts on a device: exact, and as `adjudge.kernels.reference` defines them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.errors import AdjudgeError
from adjudge.gpu import byte_costs
from adjudge.gpu.device import SHARED_ROOM, Device, Program
from adjudge.gpu.layout import LONG_TASK, DeviceLayout, TieIds, label_type
from adjudge.gpu.sorted_votes import MAX_SORTED_LABELS, MAX_TILE_TASKS, Runs, bytes_to_build, tile_tasks
from adjudge.gpu.tables import unit_bits
from adjudge.kernels.reference import Sums

THREADS: Final = 256  # of a block
MAX_IN_LANES: Final = 16  # labels of which each has a lane: more would take long to compile
WIDE_STATIC: Final = 256  # bytes of shared memory that kernels of any number of labels have anyway
WIDE_PER_LABEL: Final = 3 * 8  # and what they have per label
BLOCKS_AT_ONCE: Final = 16  # of a multiprocessor: each thread loops over tasks
NOTHING, HARD, DELTA, COARSE_SUMS, FINE_SUMS, LATER = range(6)  # how votes are counted: as in cuda/decide.cuh
NEVER: Final = 1 << 62  # no task has so many votes
MIN_NARROW_VOTES: Final = 1 << 26  # votes from which costs of one byte pay: their launches take half a millisecond
MIN_SORTED_VOTES: Final = 1 << 24  # votes from which a sorted copy pays
SORTED_FROM: Final = 3  # recounts of the same votes from which it pays, where counts exceed the cache
SORTED_FROM_CACHED: Final = 40  # where they do not


class PassKernels:
    """Kernels over votes."""

    device: Device
    min_narrow_votes: int = MIN_NARROW_VOTES
    min_sorted_votes: int = MIN_SORTED_VOTES
    sorted_from_cached: int = SORTED_FROM_CACHED

    def em_pass(
        self,
        layout: DeviceLayout,
        table: Any,  # device float64 [rows, K]
        log_prior: NDArray[np.float64],  # [K]
        ties: TieIds,
        label_hash: NDArray[np.uint64],  # [K]
        *,
        hard: bool,
        by_prior: bool,
        delta: bool = False,
        likelihood: bool = True,
        labels: Any,  # IN/OUT device [tasks]
        confidence: Any = None,  # OUT device float64 [tasks]
        tie: Any = None,  # OUT device bool [tasks]
        posterior: Any = None,  # OUT device float64 [tasks, K]
        counts: Any = None,  # OUT device [rows, K] added to: int64, or float64 where soft
        class_counts: Any = None,  # OUT device [K] added to
        unit: float = LOG_UNIT,
        rest: Any = None,  # OUT device float64 [rows, K] added to
        class_rest: Any = None,  # OUT device float64 [K] added to
    ) -> Sums:
        """Return the sums of one E-step with the recount that feeds the M-step; the classification likelihood is NaN."""
        how = NOTHING if counts is None else (DELTA if delta else HARD) if hard else COARSE_SUMS if rest is None else FINE_SUMS
        device, k = self.device, len(log_prior)
        likelihood = likelihood or not hard
        prior, tie_weights = device.upload(log_prior), device.upload(log_prior) if by_prior else None
        model = (table, prior, *_ties(device, ties, label_hash, tie_weights), int(likelihood))
        decided = labels, confidence, tie, posterior
        counting = how, unit_bits(unit), counts, rest, class_counts, class_rest
        changed, parts, sums = device.xp.zeros(2, np.uint64), self._parts(layout, k), []
        later = self._sorted_shares(layout, counts, k) if how == COARSE_SUMS else None
        if later is not None:
            counting = LATER, unit_bits(unit), later[1], None, class_counts, class_rest
        quick = not likelihood and confidence is None and tie is None and posterior is None
        if quick and k <= byte_costs.MAX_LABELS and layout.n_votes >= self.min_narrow_votes and parts:
            if how == HARD:  # everything is counted in the end
                counting = NOTHING, 0, None, None, None, None
            moving = (counts, class_counts) if how == DELTA else (None, None)
            unsure = byte_costs.scan(device, layout, table, log_prior, labels, moving[0], moving[1], changed)
            sums.append(self._em(layout, k, unsure, False, model, decided, counting, changed))
            parts = parts[1:]
        for some, long in parts:
            sums.append(self._em(layout, k, some, long, model, decided, counting, changed))
        if how == HARD and counting[0] == NOTHING:
            self.recount_hard(layout, labels, counts, class_counts)
        if later is not None:
            later[0].add_shares(later[1], counts)
        other, impossible = (int(n) for n in device.download(changed))
        if not likelihood:
            return Sums(math.nan, math.nan, other, impossible)
        found = -math.inf if impossible else sum(float(device.download(one.sum())) for one in sums)
        return Sums(found, math.nan, other, impossible)

    def _em(self, layout: DeviceLayout, k: int, some: Any, long: bool, *given: tuple[Any, ...]) -> Any:
        """Run an E-step over some tasks, and return its likelihoods by block, device [blocks]."""
        model, decided, counting, changed = given
        kernel, program, blocks, shared, number = self._shape("em", layout, k, some, long)
        sums = self.device.xp.zeros(blocks)
        votes = _votes(layout, some)
        program.launch(kernel, blocks, THREADS, *votes, *number, *model, *decided, *counting, sums, changed, shared=shared)
        return sums

    def majority(
        self,
        layout: DeviceLayout,
        row_label: Any,  # device int32 [rows]
        ties: TieIds,
        label_hash: NDArray[np.uint64],  # [K]
        *,
        tie_weights: NDArray[np.float64] | None,  # [K]
        soft: bool,
        row_weight: Any = None,  # device float64 [rows]
        labels: Any,  # OUT device [tasks]
        confidence: Any = None,  # OUT device float64 [tasks]
        tie: Any = None,  # OUT device bool [tasks]
        posterior: Any = None,  # OUT device float64 [tasks, K]
        counts: Any = None,  # OUT device [rows, K] added to: int64, or float64 where soft
        class_counts: Any = None,  # OUT device [K] added to
        unit: float = LOG_UNIT,
        rest: Any = None,  # OUT device float64 [rows, K] added to
        class_rest: Any = None,  # OUT device float64 [K] added to
    ) -> None:
        """Decide every task by majority vote, and count it."""
        how = NOTHING if counts is None else HARD if not soft else COARSE_SUMS if rest is None else FINE_SUMS
        device, k = self.device, len(label_hash)
        tie_weights = None if tie_weights is None else device.upload(tie_weights)
        settled, row_label = _ties(device, ties, label_hash, tie_weights), row_label.astype(label_type(k))
        decided, counting = (labels, confidence, tie, posterior), (how, unit_bits(unit), counts, rest, class_counts, class_rest)
        for some, long in self._parts(layout, k):
            kernel, program, blocks, shared, number = self._shape("majority", layout, k, some, long)
            votes = _votes(layout, some)
            given = (*votes, *number, row_label, row_weight, *settled, *decided, *counting)
            program.launch(kernel, blocks, THREADS, *given, shared=shared)

    def recount_hard(self, layout: DeviceLayout, labels: Any, counts: Any, class_counts: Any, times: float = 1) -> None:
        """Add one per vote to counts[row, label of its task] and one per task to class_counts[label], `times` times."""
        rows_and_k, is_whole = counts.shape, counts.dtype == np.int64
        if not layout.n_tasks:
            return
        of_labels = self._count_labels(labels, len(class_counts))
        class_counts += of_labels.astype(class_counts.dtype) * class_counts.dtype.type(times)
        runs = self._tiled(layout, labels, *rows_and_k) if is_whole and times == 1 else None
        if runs is not None:
            runs.recount(labels, counts)
            return
        into = (counts, None) if is_whole else (None, counts)
        program = self.device.program("any_labels", LABEL_BYTES=labels.dtype.itemsize)
        for some, long in self._parts(layout, 1):
            size = len(some) if long else layout.n_tasks
            blocks = self._blocks(size if long else -(-size // THREADS))
            given = (*_votes(layout, some), rows_and_k[1], labels, *into, float(times))
            program.launch("recount_hard", blocks, THREADS, *given)

    def _count_labels(self, labels: Any, k: int) -> Any:
        """Return how many labels there are of each kind, device [K]."""
        shared = 4 * 32 * k
        if shared > SHARED_ROOM:
            return self.device.xp.bincount(labels, minlength=k)
        out, blocks = self.device.xp.zeros(k, np.uint64), self._blocks(-(-len(labels) // THREADS))
        program = self.device.program("any_labels", LABEL_BYTES=labels.dtype.itemsize)
        program.launch("count_labels", blocks, THREADS, labels, len(labels), k, out, shared=shared)
        return out

    def _tiled(self, layout: DeviceLayout, labels: Any, rows: int, k: int) -> Runs | None:
        """Return the votes sorted by row within tiles of tasks, where that pays and there is room."""
        if not self._pays(layout, f"tiles {k}", rows, k):
            return None
        tile = tile_tasks(layout.n_tasks, k, self.device.shared_bytes, self.device.multiprocessors)
        size = labels.dtype.itemsize
        found: Runs = layout.memo(f"tiles {k}", lambda: Runs.of(layout, rows, k, size, tile=tile))
        return found

    def _sorted_shares(self, layout: DeviceLayout, counts: Any, k: int) -> tuple[Runs, Any] | None:
        """Return the votes sorted by row, and room for the shares of all tasks; None where sums go to counts directly.

        They do where counts stay in the cache: nothing is gained there.
        """
        rows = len(counts)
        if self._is_cached(rows, k) or layout.n_tasks > MAX_TILE_TASKS or not self._pays(layout, f"rows {k}", rows, k):
            return None
        size = np.dtype(label_type(k)).itemsize
        found = layout.memo(f"rows {k}", lambda: Runs.of(layout, rows, k, size, tile=layout.n_tasks, walked=True))
        return found, self.device.xp.empty((layout.n_tasks, k))  # of this call alone: fits of several threads share a layout

    def _is_cached(self, rows: int, k: int) -> bool:
        """Return whether counts stay in the cache of the device."""
        return 8 * rows * k <= self.device.cache_bytes

    def _pays(self, layout: DeviceLayout, name: str, rows: int, k: int) -> bool:
        """Return whether a sorted copy of the votes is there, or pays by now and has room."""
        if layout.n_votes < self.min_sorted_votes or k > MAX_SORTED_LABELS or not k:
            return False
        enough = layout.uses(name) >= (self.sorted_from_cached if self._is_cached(rows, k) else SORTED_FROM)
        return enough and (layout.has(name) or self._has_room(layout, k))

    def _has_room(self, layout: DeviceLayout, k: int) -> bool:
        return bytes_to_build(layout.n_votes) + 8 * k * layout.n_tasks < self.device.memory()[0]

    def weight_shares(self, layout: DeviceLayout, row_label: Any, table: Any, out: Any) -> None:
        """Write each label's share of the positive weights that the votes of a task have to OUT device [tasks, K]."""
        if layout.n_tasks:
            votes = layout.ptr, layout.row, layout.n_tasks
            blocks = self._blocks(-(-layout.n_tasks // THREADS))
            self.device.program("any_labels", LABEL_BYTES=1).launch(
                "weight_shares", blocks, THREADS, *votes, out.shape[1], row_label, table, out
            )

    def votes_per_row(self, layout: DeviceLayout, rows: int) -> Any:
        """Return how many votes each row has, device int64 [rows]."""
        xp = self.device.xp
        if not layout.n_votes:
            return xp.zeros(rows, np.int64)
        return xp.bincount(layout.row, minlength=rows).astype(np.int64)

    def _parts(self, layout: DeviceLayout, k: int) -> list[tuple[Any, bool]]:
        """Return the tasks by how they are worked on: all short ones (no list), and the list of long ones."""
        if not layout.n_tasks or not k:
            return []
        return [(None, False)] + ([] if layout.long_tasks is None else [(layout.long_tasks, True)])

    def _shape(
        self, what: str, layout: DeviceLayout, k: int, some: Any, long: bool
    ) -> tuple[str, Program, int, int, tuple[int, ...]]:
        """Return the kernel of some tasks, its program, blocks, shared memory, and k where the program does not know it."""
        size = np.dtype(label_type(k)).itemsize
        if long or k > MAX_IN_LANES:
            shared = WIDE_PER_LABEL * k
            program = self.device.program("any_labels", LABEL_BYTES=size)
            return f"{what}_wide", program, self._blocks(len(some) if long else layout.n_tasks), shared, (k,)
        lanes = lanes_of(k)
        program = self.device.program("few_labels", K=k, LANES=lanes, LABEL_BYTES=size)
        return f"{what}_grouped", program, self._blocks(-(-layout.n_tasks * lanes // THREADS)), 0, ()

    def _blocks(self, wanted: int) -> int:
        return max(min(wanted, self.device.multiprocessors * BLOCKS_AT_ONCE), 1)


def lanes_of(k: int) -> int:
    """Return the smallest power of two that is not below a number of labels.

    >>> [lanes_of(k) for k in (1, 2, 3, 4, 5, 32)]
    [1, 2, 4, 4, 8, 32]
    """
    return 1 << max(k - 1, 0).bit_length()


def require_labels(k: int, devices: Iterable[Device]) -> None:
    """Raise where there are more labels than the kernels of a device take."""
    for device in devices:
        most = (device.shared_bytes - WIDE_STATIC) // WIDE_PER_LABEL
        if k > most:
            raise AdjudgeError(f"{device.name} takes at most {most} labels, and there are {k}: choose engine='cpu'")


def _votes(layout: DeviceLayout, some: Any) -> tuple[Any, ...]:
    """Return the votes as kernels take them: all tasks but long ones, or those of a list."""
    listed = None
    if isinstance(some, tuple):  # and its length, which the device knows
        some, listed = some
    elif some is not None:
        listed = layout.device.upload(np.array([len(some)], np.uint32))
    longest = LONG_TASK if some is None and layout.long_tasks is not None else NEVER
    return layout.ptr, layout.row, 0, layout.n_tasks, some, listed, longest


def _ties(device: Device, ties: TieIds, label_hash: NDArray[np.uint64], tie_weights: Any) -> tuple[Any, ...]:
    return ties.keys, ties.numbers, ties.salt, device.upload(label_hash), tie_weights
