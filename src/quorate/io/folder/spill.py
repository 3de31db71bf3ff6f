"""Votes spilled to partitions by the hash of their task, so that all votes of a task meet in one of them.

A partition is a range of hashes: partition p of 2^bits holds the hashes whose first `bits` bits are p. Its file is a
sequence of Arrow streams, each behind its length (8 bytes), in the order of the input.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, shown
from quorate.io.coder import KINDS
from quorate.io.encoded.arrays import write_all
from quorate.io.ids import vocabulary
from quorate.kernels import cpu, reference
from quorate.kernels.core import compiled
from quorate.vocabulary import Vocabulary

PIECE = 1 << 16  # votes in one Arrow stream, at most: the unit in which a partition is read back
FLUSH = 1 << 20  # votes held while a partition is split
READ = 1 << 20  # bytes checked at once


def hash_ids(ids: Vocabulary) -> NDArray[np.uint64]:
    """Returns the hash of every id's text, [n]: what decides its partition, its place there, and ties."""
    kernels: ModuleType = reference if compiled() is None else cpu
    if ids.kind == "integer":
        return kernels.hash_integers(ids.values)  # type: ignore[no-any-return]
    return kernels.hash_texts(*ids.text_buffers())  # type: ignore[no-any-return]


class Spill:
    """Votes on their way to partitions: gathered in memory, written when there are enough of them."""

    def __init__(self, folder: Path, bits: int, skip: int = 0) -> None:
        self.folder = folder
        self.bits = bits
        self.votes = np.zeros(1 << bits, np.int64)  # [partitions] votes written
        self.sizes = np.zeros(1 << bits, np.int64)  # [partitions] bytes written
        self.sums = np.zeros(1 << bits, np.int64)  # [partitions] their CRC-32
        self.waiting = 0  # votes in memory
        self.skip = skip  # leading bits that all hashes here share
        self._held: list[tuple[pl.DataFrame, NDArray[np.int64]]] = []
        folder.mkdir(exist_ok=True)

    def add(self, task: pl.Series, row: NDArray[np.uint32], hashes: NDArray[np.uint64]) -> None:
        """Takes votes, [n] each, in their order."""
        part = _leading(hashes, self.skip, self.bits)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=1 << self.bits))
        self._held.append((pl.DataFrame({"task": task, "row": row})[order], ends))
        self.waiting += len(task)

    def flush(self) -> None:
        """Writes what is in memory."""
        for part in range(1 << self.bits):
            frames = [frame[0 if not part else int(ends[part - 1]) : int(ends[part])] for frame, ends in self._held]
            frames = [frame for frame in frames if len(frame)]
            if frames:
                self._write(part, pl.concat(frames))
        self._held, self.waiting = [], 0

    def restore(self, votes: list[int], sizes: list[int], sums: list[int], first: int) -> None:
        """Takes partitions of an earlier run, from `first` on, as they were when these figures were noted.

        What was written later is cut off; what is damaged is an error.
        """
        self.votes[:], self.sizes[:], self.sums[:] = votes, sizes, sums
        for part in range(first, len(sizes)):
            cut_to(self.path(part), sizes[part], sums[part])

    def path(self, part: int) -> Path:
        """Returns the file of a partition."""
        return self.folder / f"{part:05d}.spill"

    def read(self, part: int) -> Iterator[pl.DataFrame]:
        """Yields the votes of a partition in their order, a piece at a time."""
        return read_streams(self.path(part), "task", "row") if self.votes[part] else iter(())

    def remove(self, part: int) -> None:
        """Removes the file of a partition."""
        self.path(part).unlink(missing_ok=True)

    def _write(self, part: int, frame: pl.DataFrame) -> None:
        size, self.sums[part] = append_streams(self.path(part), frame, int(self.sums[part]))
        self.sizes[part] += size
        self.votes[part] += len(frame)


def split(spill: Spill, part: int, bits: int) -> Spill | None:
    """Returns the votes of a partition spilled again by the next bits of their hashes; None where one hash is all there is."""
    if _has_one_hash(spill, part):
        return None
    skip = spill.skip + spill.bits
    finer = Spill(spill.folder / f"{part:05d}", min(bits, 64 - skip), skip)
    for frame in spill.read(part):
        finer.add(frame["task"], frame["row"].to_numpy(), hash_ids(vocabulary(frame["task"])))
        if finer.waiting >= FLUSH:
            finer.flush()
    finer.flush()
    return finer


def _has_one_hash(spill: Spill, part: int) -> bool:
    seen: set[int] = set()
    for frame in spill.read(part):
        seen.update(np.unique(hash_ids(vocabulary(frame["task"])))[:2].tolist())
        if len(seen) > 1:
            return False
    return True


def append_streams(path: Path, frame: pl.DataFrame, crc32: int = 0) -> tuple[int, int]:
    """Return how many bytes it took to put a frame behind what a file holds, and the CRC-32 of it all."""
    size = 0
    with path.open("ab", buffering=0) as file:
        for some in frame.iter_slices(PIECE):
            packed = io.BytesIO()
            some.rechunk().write_ipc_stream(packed, compression="lz4", compat_level=pl.CompatLevel.oldest())
            data = packed.getbuffer()
            for block in (len(data).to_bytes(8, "little"), data):
                write_all(file, block)
                crc32 = zlib.crc32(block, crc32)
                size += len(block)
    return size, crc32


def read_streams(path: Path, ids: str, *others: str) -> Iterator[pl.DataFrame]:
    """Yields the frames of a file, in order, in the pieces they were written in: a column of ids, and others of codes."""
    types = dict.fromkeys(others, pl.UInt32)
    try:
        with path.open("rb") as file:
            while length := file.read(8):
                frame = pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "little"))))
                kind = frame.schema.get(ids)
                if kind not in KINDS or frame.schema != {ids: kind, **types}:
                    raise InputError(f"{path} holds other columns: begin anew without resume")
                yield frame
    except (OSError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot read back {path}: {shown(error)}; begin anew without resume") from error


def cut_to(path: Path, size: int, crc32: int) -> None:
    """Cuts a file back to the size it had; one that is shorter, or another, cannot be continued."""
    have = path.stat().st_size if path.exists() else 0
    if have < size:
        raise InputError(f"{path} is shorter than it was: it cannot be continued, begin anew without resume")
    if not size:
        path.unlink(missing_ok=True)
        return
    with path.open("r+b") as file:
        file.truncate(size)
        found = 0
        while data := file.read(READ):
            found = zlib.crc32(data, found)
    if found != crc32:
        raise InputError(f"{path} is damaged (its checksum does not match): begin anew without resume")


def _leading(hashes: NDArray[np.uint64], skip: int, bits: int) -> NDArray[np.uint16]:
    """Returns the bits behind the first `skip` ones, as a number, [n]."""
    if not bits:
        return np.zeros(len(hashes), np.uint16)
    return ((hashes << np.uint64(skip)) >> np.uint64(64 - bits)).astype(np.uint16)
