"""Votes spilled to partitions by the hash of their task, so that all votes of a task meet in one of them.

A partition is a range of hashes: partition p of 2^bits holds the hashes whose first `bits` bits are p. Its file is a
sequence of Arrow streams, each behind its length (8 bytes), in the order of the input.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError
from quorate.io.encoded.arrays import write_all
from quorate.io.ids import vocabulary
from quorate.kernels import cpu, reference
from quorate.kernels.core import compiled
from quorate.vocabulary import Vocabulary

PIECE = 1 << 16  # votes in one Arrow stream, at most: the unit in which a partition is read back
FLUSH = 1 << 20  # votes held while a partition is split


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

    def restore(self, votes: list[int], sizes: list[int], first: int) -> None:
        """Takes partitions of an earlier run, from `first` on, as they were when these figures were noted.

        What was written later is cut off.
        """
        self.votes[:], self.sizes[:] = votes, sizes
        for part in range(first, len(sizes)):
            cut_to(self.path(part), sizes[part])

    def path(self, part: int) -> Path:
        """Returns the file of a partition."""
        return self.folder / f"{part:05d}.spill"

    def read(self, part: int) -> Iterator[pl.DataFrame]:
        """Yields the votes of a partition in their order, a piece at a time."""
        return read_streams(self.path(part)) if self.votes[part] else iter(())

    def remove(self, part: int) -> None:
        """Removes the file of a partition."""
        self.path(part).unlink(missing_ok=True)

    def _write(self, part: int, frame: pl.DataFrame) -> None:
        self.sizes[part] += append_streams(self.path(part), frame)
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


def append_streams(path: Path, frame: pl.DataFrame) -> int:
    """Returns how many bytes it took to put a frame behind what a file holds."""
    size = 0
    with path.open("ab", buffering=0) as file:
        for some in frame.iter_slices(PIECE):
            packed = io.BytesIO()
            some.rechunk().write_ipc_stream(packed, compression="lz4", compat_level=pl.CompatLevel.oldest())
            data = packed.getbuffer()
            write_all(file, len(data).to_bytes(8, "little"))
            write_all(file, data)
            size += 8 + len(data)
    return size


def read_streams(path: Path) -> Iterator[pl.DataFrame]:
    """Yields the frames of a file, in order, in the pieces they were written in."""
    try:
        with path.open("rb") as file:
            while length := file.read(8):
                yield pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "little"))))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot read back {path}: {error}; begin anew without resume") from error


def cut_to(path: Path, size: int) -> None:
    """Cuts a file back to the size it had; a shorter one cannot be continued."""
    have = path.stat().st_size if path.exists() else 0
    if have < size:
        raise InputError(f"{path} is shorter than it was: it cannot be continued, begin anew without resume")
    if have > size:
        with path.open("r+b") as file:
            file.truncate(size)


def _leading(hashes: NDArray[np.uint64], skip: int, bits: int) -> NDArray[np.uint16]:
    """Returns the bits behind the first `skip` ones, as a number, [n]."""
    if not bits:
        return np.zeros(len(hashes), np.uint16)
    return ((hashes << np.uint64(skip)) >> np.uint64(64 - bits)).astype(np.uint16)
