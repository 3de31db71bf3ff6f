"""Recounts over a second copy of the votes, sorted by row: the votes of a row are a run, whose sum goes to memory once.

For hard labels it is sorted within tiles of tasks, whose labels fit in shared memory. For soft ones it is sorted as a whole.
The copy takes a sort of all votes, which pays after some recounts of the same votes: soon where counts do not stay in the
cache, late where they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.gpu.device import Device, Program
from adjudge.gpu.layout import DeviceLayout

MAX_SORTED_LABELS: Final = 8
LONG_RUNS: Final = 8  # votes of a run in the mean, from which lanes walk them; shorter ones are counted by their sorted keys
STEPS: Final = 32  # votes that a lane walks
GROUP: Final = 32 * STEPS
ABSENT: Final = 0xFFFFFFFF
MAX_TILE_TASKS: Final = 2**31 - 1  # of a tile that lanes walk: the highest bit of a vote says that a run begins
THREADS, BLOCKS = 256, 16
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
        lanes = 1 << max(k - 1, 0).bit_length()
        program = device.program("sorted_votes", K=k, LANES=lanes, BITS=label_bits(k), STEPS=STEPS, LABEL_BYTES=label_bytes)
        row_bits, task_bits = max(int(rows - 1).bit_length(), 1), max(int(tile - 1).bit_length(), 1)
        blocks = device.multiprocessors * BLOCKS
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
        copy, first_run = xp.full(int(tile_copy[-1]), ABSENT, np.uint32), xp.zeros(int(tile_copy[-1]) // STEPS, np.uint32)
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
        end, blocks = int(self.tile_copy[-1]), self.device.multiprocessors * BLOCKS
        given = self.copy, self.first_run, self.run_row, 0, end, shares, counts
        self.program.launch("share_runs", min(blocks, -(-end // GROUP)), THREADS, *given)


def bytes_to_build(votes: int) -> int:
    """Return the bytes that sorting takes at its peak: keys, their copy, where runs begin, and their numbers."""
    return votes * (8 + 8 + 1 + 4 + 4)
