"""E-steps, majority vote and recounts on a device: exact, and as `adjudge.kernels.reference` defines them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.errors import AdjudgeError
from adjudge.gpu.device import SHARED_ROOM, THREADS, Device, Program, blocks_of
from adjudge.gpu.honest import HonestKernels
from adjudge.gpu.tables import TableKernels, unit_bits
from adjudge.gpu.votes import LONG_TASK, DeviceLayout, TieIds, label_type
from adjudge.kernels.reference import Sums

BLOCKS_PER_MULTIPROCESSOR: Final = 16  # each thread loops over tasks, or over votes
# Of tasks and labels.
MAX_IN_LANES: Final = 16  # labels of which each has a lane: more would take long to compile
WIDE_STATIC: Final = 256  # static shared memory of kernels for any number of labels, in bytes
WIDE_PER_LABEL: Final = 3 * 8  # and per label
NOTHING, HARD, DELTA, COARSE_SUMS, FINE_SUMS, LATER = range(6)  # how votes are counted: as in cuda/decide.cuh
NO_LONG_TASK_VOTES: Final = 1 << 62  # no task has so many votes
# Of costs of one byte.
MIN_NARROW_VOTES: Final = 1 << 26  # votes from which they pay: their launches take half a millisecond
MAX_BYTE_COST_LABELS: Final = 16
COST_STEPS: Final = 32.0  # of costs, in 1: sums up to 255 reach 8, and few tasks are so close that they need a second look
MAX_EACH: Final = 8  # votes of every task for which a kernel of its own is compiled
SCAN_STATIC: Final = 9 << 10  # bytes of shared memory that the kernel has anyway
MAX_PARTS: Final = 3  # of the lines, one after the other in shared memory: more take longer than reading them through the caches
CACHED_SCAN_BLOCKS: Final = 32  # of a multiprocessor, where lines are read through the caches
WHOLE_THREADS: Final = 1024  # of a block that has all shared memory
IS_FIRST, IS_LAST = 1, 2  # part: as in cuda/byte_costs.cuh
# Of sorted copies of the votes.
MIN_SORTED_VOTES: Final = 1 << 24  # votes from which a copy pays
SORTED_FROM: Final = 3  # recounts of the same votes from which it pays, where counts exceed the cache
SORTED_FROM_CACHED: Final = 40  # where they do not
MAX_SORTED_LABELS: Final = 8
LONG_RUNS: Final = 8  # votes of a run on average, from which lanes walk them; shorter ones are counted by their sorted keys
STEPS: Final = 32  # votes that a lane walks
GROUP: Final = 32 * STEPS
PADDING_VOTE: Final = 0xFFFFFFFF
MAX_TILE_TASKS: Final = 2**31 - 1  # of a tile that lanes walk: the highest bit of a vote says that a run begins
TILE_THREADS: Final = 1024
LABEL_ROOM: Final = 8 << 10  # bytes of shared memory that are left free


def label_bits(k: int) -> int:
    """Return the bits of a label in shared memory.

    >>> [label_bits(k) for k in (2, 4, 5, 8, 17)]
    [2, 2, 4, 4, 8]
    """
    return 2 if k <= 4 else 4 if k <= 16 else 8


def tile_tasks(tasks: int, k: int, shared_bytes: int, multiprocessors: int) -> int:
    """Return how many tasks a tile has: as many as have their labels in shared memory, and no more than keep all busy.

    >>> tile_tasks(200_000_000, 4, 232_448, 132), tile_tasks(10**9, 4, 232_448, 132), tile_tasks(100, 4, 232_448, 132)
    (757632, 897024, 64)
    """
    most = (shared_bytes - LABEL_ROOM) * 8 // label_bits(k) // 64 * 64
    return min(most, max(-(-tasks // (2 * multiprocessors) // 64) * 64, 64))


@dataclass(frozen=True, eq=False)
class Runs:
    """The votes of a layout, sorted by tile and row."""

    device: Device
    program: Program
    tasks: int
    tile: int  # tasks of a tile
    row_bits: int
    task_bits: int
    tile_votes: Any  # device int64 [tiles + 1] where the sorted keys of each tile begin
    keys: Any | None  # device uint64 [votes], where runs are short
    tile_copy: NDArray[np.int64] | None = None  # [tiles + 1] where each tile begins in the copy
    copy: Any | None = None  # device uint32, as lanes walk it
    first_run: Any | None = None  # device uint32, of every lane
    run_row: Any | None = None  # device uint32 [runs]

    @classmethod
    def of(cls, layout: DeviceLayout, rows: int, k: int, label_bytes: int, *, tile: int, walked: bool = False) -> Runs:
        """Return the votes of a layout sorted by row within tiles; `walked` asks for the copy that lanes walk in any case."""
        device, xp, votes, tasks = layout.device, layout.device.xp, layout.n_votes, layout.n_tasks
        program = device.program("sorted_votes", K=k, LANES=lanes_of(k), BITS=label_bits(k), STEPS=STEPS, LABEL_BYTES=label_bytes)
        row_bits, task_bits = max(int(rows - 1).bit_length(), 1), max(int(tile - 1).bit_length(), 1)
        blocks = device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        keys = xp.empty(votes, np.uint64)
        program.launch("run_keys", blocks, THREADS, layout.ptr, layout.row, tasks, tile, row_bits, task_bits, keys)
        keys.sort()
        tiles = -(-tasks // tile)
        ends = np.minimum(np.arange(tiles + 1) * tile, tasks)
        tile_votes = layout.ptr[device.upload(ends)].astype(np.int64)
        begins = xp.empty(votes, np.uint8)
        program.launch("run_begins", blocks, THREADS, keys, votes, task_bits, begins)
        run = xp.cumsum(begins, dtype=np.uint32)
        number = int(run[-1])
        made = cls(device, program, tasks, tile, row_bits, task_bits, tile_votes, keys)
        if not walked and votes < LONG_RUNS * number:
            return made
        size = np.diff(device.download(tile_votes))
        tile_copy = np.concatenate([[0], np.cumsum(-(-size // GROUP) * GROUP)]).astype(np.int64)
        copy, first_run = xp.full(int(tile_copy[-1]), PADDING_VOTE, np.uint32), xp.zeros(int(tile_copy[-1]) // STEPS, np.uint32)
        run_row, there = xp.empty(number, np.uint32), device.upload(tile_copy)
        given = keys, votes, row_bits, task_bits, tile_votes, there, begins, run, copy, first_run, run_row
        program.launch("run_copy", blocks, THREADS, *given)
        return cls(device, program, tasks, tile, row_bits, task_bits, tile_votes, None, tile_copy, copy, first_run, run_row)

    def recount(self, labels: Any, counts: Any) -> None:
        """Add one per vote to counts[row, label of its task], OUT device int64 [rows, K]."""
        device, shared = self.device, self.tile * label_bits(counts.shape[1]) // 8 + 64
        tiles, tally = len(self.tile_votes) - 1, device.xp.zeros(counts.shape, np.uint32)
        of_tiles = tiles, self.tile, self.tasks
        blocks, given = min(tiles, device.multiprocessors), tuple[Any, ...]()
        if self.keys is not None:
            kernel, given = "recount_keys", (self.keys, self.tile_votes, *of_tiles, self.row_bits, self.task_bits)
        else:
            assert self.tile_copy is not None
            kernel = "recount_runs"
            given = self.copy, self.first_run, self.run_row, device.upload(self.tile_copy), *of_tiles
        self.program.launch(kernel, blocks, TILE_THREADS, *given, labels, tally, shared=shared)
        counts += tally

    def add_shares(self, shares: Any, counts: Any) -> None:
        """Add the shares of its task, device float64 [tasks, K], to counts[row] for every vote; there is one tile."""
        assert self.tile_copy is not None
        end, blocks = int(self.tile_copy[-1]), self.device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        given = self.copy, self.first_run, self.run_row, 0, end, shares, counts
        self.program.launch("share_runs", min(blocks, -(-end // GROUP)), THREADS, *given)


def bytes_to_build(votes: int) -> int:
    """Return the bytes that sorting takes at its peak: keys, their copy, where runs begin, and their numbers."""
    return votes * (8 + 8 + 1 + 4 + 4)


class TablePart(NamedTuple):
    """Some lines of a table, which are in shared memory during one launch."""

    first: int
    rows: int
    flags: int  # IS_FIRST and IS_LAST


def parts_of(rows: int, words: int, shared_bytes: int) -> list[TablePart]:
    """Return the parts of a table of costs that fit in shared memory; none where there would be too many.

    >>> parts_of(80_000, 1, 232_448)
    [TablePart(first=0, rows=40000, flags=1), TablePart(first=40000, rows=40000, flags=2)]
    >>> parts_of(4_000_000, 1, 232_448)
    []
    """
    room = max((shared_bytes - SCAN_STATIC) // (4 * words), 1)
    number = -(-rows // room)
    if not 1 <= number <= MAX_PARTS:
        return []
    size = -(-rows // number)
    firsts = range(0, rows, size)
    return [
        TablePart(first, min(size, rows - first), (IS_FIRST if first == 0 else 0) | (IS_LAST if first + size >= rows else 0))
        for first in firsts
    ]


def cost_words(log_prior: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the costs of priors, [K], four to a word: by how many steps each is below the largest, 255 at most.

    >>> [hex(word) for word in cost_words(np.log([0.5, 0.25, 0.25]))]
    ['0xff161600']
    """
    words = -(-len(log_prior) // 4)
    costs = np.full(4 * words, 255.0)
    with np.errstate(invalid="ignore"):
        costs[: len(log_prior)] = np.minimum(np.rint((log_prior.max() - log_prior) * COST_STEPS), 255.0)
    costs[np.isnan(costs)] = 255.0
    return costs.astype(np.uint8).view("<u4").astype(np.uint32)


def scan(
    device: Device,
    layout: DeviceLayout,
    table: Any,  # device float64 [rows, K]
    log_prior: NDArray[np.float64],  # [K]
    labels: Any,  # IN/OUT device [tasks]
    counts: Any | None,  # IN/OUT device int64 [rows, K] of the labels before; None: nothing is counted
    class_counts: Any | None,  # IN/OUT device int64 [K]
    changed: Any,  # OUT device uint64 [2] added to
) -> tuple[Any, Any]:
    """Label the tasks whose costs leave no doubt; return a list of the others, device uint32 [tasks], and its length, [1].

    Long tasks are in neither.
    """
    xp, (rows, k) = device.xp, table.shape
    words, size = -(-k // 4), labels.dtype.itemsize
    lines, largest = xp.empty((rows, words), np.uint32), device.upload(_largest(log_prior))
    parts = parts_of(rows, words, device.shared_bytes)
    each = layout.each if parts and layout.each <= MAX_EACH else 0  # caches are what the other way waits for
    macros = {"K": k, "LABEL_BYTES": size, "EACH": each, "SHARED": int(bool(parts))}
    program = device.program("byte_costs", **macros)
    costs = table, rows, COST_STEPS, lines, largest.view(np.uint64)
    program.launch("narrow_costs", min(blocks_of(rows), 4096), THREADS, *costs)
    # Room of this call alone: fits of several threads share a layout.
    unsure, listed = xp.empty(layout.n_tasks, np.uint32), xp.zeros(1, np.uint32)
    partial = xp.empty((layout.n_tasks, words), np.uint32) if len(parts) > 1 else None
    start, longest = device.upload(cost_words(log_prior)), LONG_TASK
    counting = int(counts is not None), counts, class_counts, unsure, listed, changed
    for part in parts or [TablePart(0, rows, IS_FIRST | IS_LAST)]:
        votes = layout.ptr, layout.row, layout.n_tasks, longest
        given = (*votes, lines, *part, partial, start, largest, COST_STEPS, labels, *counting)
        if parts:
            program.launch("narrow_scan", device.multiprocessors, WHOLE_THREADS, *given, shared=4 * words * part.rows)
        else:
            blocks = min(-(-layout.n_tasks // THREADS), device.multiprocessors * CACHED_SCAN_BLOCKS)
            program.launch("narrow_scan", blocks, THREADS, *given)
    return unsure, listed


def _largest(log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.abs(log_prior[np.isfinite(log_prior)])
    return np.array([finite.max(initial=0.0)])


class PassOutput(NamedTuple):
    """What a pass writes on the device; it leaves out what is None. Arrays are OUT."""

    labels: Any  # device [tasks]; also IN if an E-step counts changes
    confidence: Any = None  # device float64 [tasks]
    tie: Any = None  # device bool [tasks]
    posterior: Any = None  # device float64 [tasks, K]
    counts: Any = None  # device [rows, K] added to: int64, or float64 where soft
    class_counts: Any = None  # device [K] added to
    unit: float = LOG_UNIT
    rest: Any = None  # device float64 [rows, K] added to
    class_rest: Any = None  # device float64 [K] added to

    def counting(self, how: int) -> tuple[Any, ...]:
        """Return what kernels take to count so."""
        if how == NOTHING:
            return NOTHING, 0, None, None, None, None
        return how, unit_bits(self.unit), self.counts, self.rest, self.class_counts, self.class_rest

    def soft(self) -> int:
        """Return how shares are counted."""
        return COARSE_SUMS if self.rest is None else FINE_SUMS


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
        **out: Any,  # `PassOutput`
    ) -> Sums:
        """Return the sums of one E-step with the recount that feeds the M-step; the classification likelihood is NaN."""
        device, k, into = self.device, len(log_prior), PassOutput(**out)
        how = NOTHING if into.counts is None else (DELTA if delta else HARD) if hard else into.soft()
        likelihood = likelihood or not hard
        prior, tie_weights = device.upload(log_prior), device.upload(log_prior) if by_prior else None
        model = (table, prior, *_ties(device, ties, label_hash, tie_weights), int(likelihood))
        counting, changed, parts, sums = into.counting(how), device.xp.zeros(2, np.uint64), self._parts(layout, k), []
        later = self._sort_shares(layout, into.counts, k) if how == COARSE_SUMS else None
        if later is not None:
            counting = LATER, unit_bits(into.unit), later[1], None, into.class_counts, into.class_rest
        quick = not likelihood and into.confidence is None and into.tie is None and into.posterior is None
        if quick and k <= MAX_BYTE_COST_LABELS and layout.n_votes >= self.min_narrow_votes and parts:
            if how == HARD:  # everything is counted in the end
                counting = into.counting(NOTHING)
            moving = (into.counts, into.class_counts) if how == DELTA else (None, None)
            unsure = scan(device, layout, table, log_prior, into.labels, moving[0], moving[1], changed)
            sums.append(self._em(layout, k, unsure, False, model, into, counting, changed))
            parts = parts[1:]
        for some, long in parts:
            sums.append(self._em(layout, k, some, long, model, into, counting, changed))
        if how == HARD and counting[0] == NOTHING:
            self.recount_hard(layout, into.labels, into.counts, into.class_counts)
        if later is not None:
            later[0].add_shares(later[1], into.counts)
        other, impossible = (int(n) for n in device.download(changed))
        if not likelihood:
            return Sums(math.nan, math.nan, other, impossible)
        found = -math.inf if impossible else sum(float(device.download(one.sum())) for one in sums)
        return Sums(found, math.nan, other, impossible)

    def _em(
        self, layout: DeviceLayout, k: int, some: Any, long: bool, model: Any, into: PassOutput, counting: Any, changed: Any
    ) -> Any:
        """Run an E-step over some tasks, and return its likelihoods by block, device [blocks]."""
        kernel, program, blocks, shared, number = self._shape("em", layout, k, some, long)
        sums = self.device.xp.zeros(blocks)
        given = (*_votes(layout, some), *number, *model, *into[:4], *counting, sums, changed)
        program.launch(kernel, blocks, THREADS, *given, shared=shared)
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
        **out: Any,  # `PassOutput`
    ) -> None:
        """Decide every task by majority vote, and count it."""
        device, k, into = self.device, len(label_hash), PassOutput(**out)
        counting = into.counting(NOTHING if into.counts is None else into.soft() if soft else HARD)
        settled = _ties(device, ties, label_hash, None if tie_weights is None else device.upload(tie_weights))
        by_row = row_label.astype(label_type(k)), row_weight
        for some, long in self._parts(layout, k):
            kernel, program, blocks, shared, number = self._shape("majority", layout, k, some, long)
            given = (*_votes(layout, some), *number, *by_row, *settled, *into[:4], *counting)
            program.launch(kernel, blocks, THREADS, *given, shared=shared)

    def recount_hard(self, layout: DeviceLayout, labels: Any, counts: Any, class_counts: Any, times: float = 1) -> None:
        """Add one per vote to counts[row, label of its task] and one per task to class_counts[label], `times` times."""
        rows_and_k, is_whole = counts.shape, counts.dtype == np.int64
        if not layout.n_tasks:
            return
        of_labels = self._count_labels(labels, len(class_counts))
        class_counts += of_labels.astype(class_counts.dtype) * class_counts.dtype.type(times)
        runs = self._sort_by_tile(layout, labels, *rows_and_k) if is_whole and times == 1 else None
        if runs is not None:
            runs.recount(labels, counts)
            return
        into = (counts, None) if is_whole else (None, counts)
        program = self.device.program("any_labels", LABEL_BYTES=labels.dtype.itemsize)
        for some, long in self._parts(layout, 1):
            size = len(some) if long else layout.n_tasks
            blocks = self._blocks(size if long else blocks_of(size))
            given = (*_votes(layout, some), rows_and_k[1], labels, *into, float(times))
            program.launch("recount_hard", blocks, THREADS, *given)

    def _count_labels(self, labels: Any, k: int) -> Any:
        """Return how many labels there are of each kind, device [K]."""
        shared = 4 * 32 * k
        if shared > SHARED_ROOM:
            return self.device.xp.bincount(labels, minlength=k)
        out, blocks = self.device.xp.zeros(k, np.uint64), self._blocks(blocks_of(len(labels)))
        program = self.device.program("any_labels", LABEL_BYTES=labels.dtype.itemsize)
        program.launch("count_labels", blocks, THREADS, labels, len(labels), k, out, shared=shared)
        return out

    def _sort_by_tile(self, layout: DeviceLayout, labels: Any, rows: int, k: int) -> Runs | None:
        """Return the votes sorted by row within tiles of tasks, or None if that does not pay or does not fit."""
        if not self._pays(layout, f"tiles {k}", rows, k):
            return None
        tile = tile_tasks(layout.n_tasks, k, self.device.shared_bytes, self.device.multiprocessors)
        size = labels.dtype.itemsize
        found: Runs = layout.memo(f"tiles {k}", lambda: Runs.of(layout, rows, k, size, tile=tile))
        return found

    def _sort_shares(self, layout: DeviceLayout, counts: Any, k: int) -> tuple[Runs, Any] | None:
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
            blocks = self._blocks(blocks_of(layout.n_tasks))
            program = self.device.program("any_labels", LABEL_BYTES=1)
            program.launch("weight_shares", blocks, THREADS, *votes, out.shape[1], row_label, table, out)

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
        return max(min(wanted, self.device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR), 1)


def lanes_of(k: int) -> int:
    """Return the smallest power of two that is not below a number of labels.

    >>> [lanes_of(k) for k in (1, 2, 3, 4, 5, 32)]
    [1, 2, 4, 4, 8, 32]
    """
    return 1 << max(k - 1, 0).bit_length()


def require_labels(k: int, devices: Iterable[Device]) -> None:
    """Raise if there are more labels than the kernels of a device take."""
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
    longest = LONG_TASK if some is None and layout.long_tasks is not None else NO_LONG_TASK_VOTES
    return layout.ptr, layout.row, 0, layout.n_tasks, some, listed, longest


def _ties(device: Device, ties: TieIds, label_hash: NDArray[np.uint64], tie_weights: Any) -> tuple[Any, ...]:
    return ties.keys, ties.numbers, ties.salt, device.upload(label_hash), tie_weights


class DeviceKernels(PassKernels, TableKernels, HonestKernels):
    """All kernels of one device: those of `adjudge.kernels.reference`, over votes there.

    Arrays are on the device; arrays of size K may be on the host. The caller owns every buffer, and a kernel
    *adds* to the counts it is given, so that shards sum.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
