"""Fast hard E-steps: costs of one byte, in shared memory where they fit, and a list of tasks that need an exact second look."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.gpu.device import Device
from adjudge.gpu.layout import LONG_TASK, DeviceLayout

MAX_LABELS: Final = 16
COST_STEPS: Final = 32.0  # of costs, in 1: sums up to 255 reach 8, and few tasks are so close that they need a second look
MAX_EACH: Final = 8  # votes of every task for which a kernel of its own is compiled
STATIC: Final = 9 << 10  # bytes of shared memory that the kernel has anyway
MAX_PARTS: Final = 3  # of the lines, one after the other in shared memory: more take longer than reading them through the caches
THREADS, BLOCKS = 256, 32  # of a block; of a multiprocessor, where lines are read through the caches
WHOLE_THREADS: Final = 1024  # of a block that has all shared memory
IS_FIRST, IS_LAST = 1, 2  # part: as in cuda/byte_costs.cuh


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
    room = max((shared_bytes - STATIC) // (4 * words), 1)
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
    found: NDArray[np.uint32] = costs.astype(np.uint8).view("<u4").astype(np.uint32)
    return found


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
    program.launch(
        "narrow_costs", min(-(-rows // THREADS), 4096), THREADS, table, rows, COST_STEPS, lines, largest.view(np.uint64)
    )
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
            blocks = min(-(-layout.n_tasks // THREADS), device.multiprocessors * BLOCKS)
            program.launch("narrow_scan", blocks, THREADS, *given)
    return unsure, listed


def _largest(log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.abs(log_prior[np.isfinite(log_prior)])
    return np.array([finite.max(initial=0.0)])
