"""Sums by segment on a device that repeat bit for bit: segments are cut into slices, whose sums are added in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from adjudge.gpu.device import Device

THREADS: Final = 256  # of a block
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


def blocks_of(n: int, threads: int = THREADS) -> int:
    """Return the blocks in which n things have a thread each."""
    return max(-(-n // threads), 1)
