"""The files of a fit on disk: shards that are read ahead of the passes over them, labels, and vectors."""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vectors import pieces
from adjudge.data.vocabulary import require_below
from adjudge.data.votes import Votes
from adjudge.engines.shard import cuts
from adjudge.errors import InputError, read_error
from adjudge.io.folder.arrays import ArrayFile, StoredArray, read_at, write_all, writing
from adjudge.io.folder.encoded import EncodedVotes

Cut = tuple[slice, slice]  # tasks and votes of a shard


class LoadedShard(NamedTuple):
    """The arrays of one shard, valid until the next but one is read."""

    tasks: slice
    task_ptr: NDArray[np.int64]  # [tasks + 1] counted from the shard's first vote
    row: NDArray[np.uint32]  # [votes]
    task_key: NDArray[np.uint64]  # [tasks]
    labels: NDArray[np.int32]  # [tasks]
    votes: slice
    right: NDArray[np.float64]  # [votes] as read, or to be written; empty where not requested


@dataclass(frozen=True)
class ShardFiles:
    """The open files of votes, task_ptr, row and task_hash, divided into shards."""

    files: Mapping[str, StoredArray]
    cuts: tuple[Cut, ...]
    weight: tuple[int, int] = (8, 50)  # bytes per vote and per task while passes run, the next shard included

    @classmethod
    def of(cls, votes: EncodedVotes) -> ShardFiles:
        """Return the files of encoded votes."""
        return cls(votes.files, tuple(votes.cuts()))

    @classmethod
    def lay_out(cls, votes: Votes, hashes: NDArray[np.uint64], cuts: list[slice], folder: Path) -> ShardFiles:
        """Write votes in memory to files, and return these."""
        arrays: dict[str, NDArray[Any]] = {"task_ptr": votes.task_ptr, "row": votes.row, "task_hash": hashes}
        files = {}
        for name, items in arrays.items():
            with ArrayFile(folder / f"{name}.npy", items.dtype) as file:
                file.append(items)
            files[name] = StoredArray(file.path, file.dtype, file.length)
        ptr = votes.task_ptr
        return cls(files, tuple((cut, slice(int(ptr[cut.start]), int(ptr[cut.stop]))) for cut in cuts))

    def merge_shards(self, votes: int, room: int) -> ShardFiles:
        """Return the same files in larger shards, of up to so many votes and bytes (see `shard_bytes`).

        A pass prepares its table once per shard, which pays for many votes only.
        """
        out: list[Cut] = []
        for tasks, cast in self.cuts:
            wider = (slice(out[-1][0].start, tasks.stop), slice(out[-1][1].start, cast.stop)) if out else (tasks, cast)
            if out and wider[1].stop - wider[1].start <= votes and self._bytes(wider) <= room:
                out[-1] = wider
            else:
                out.append((tasks, cast))
        return replace(self, cuts=tuple(out))

    def split_shards(self, room: int) -> ShardFiles:
        """Return the same files in shards of at most so many bytes; a task is never split."""
        out: list[Cut] = []
        for tasks, cast in self.cuts:
            size = self._bytes((tasks, cast))
            if size <= room:
                out.append((tasks, cast))
                continue
            ptr = self.files["task_ptr"][tasks.start : tasks.stop + 1]
            for cut in cuts(ptr, max((cast.stop - cast.start) * room // size, 1)):
                part = slice(tasks.start + cut.start, tasks.start + cut.stop)
                out.append((part, slice(int(ptr[cut.start]), int(ptr[cut.stop]))))
        return replace(self, cuts=tuple(out))

    @property
    def n_votes(self) -> int:
        """The number of votes."""
        return self.cuts[-1][1].stop if self.cuts else 0

    def shard_bytes(self) -> int:
        """Return the bytes that the largest shard takes while passes run over it, the next one included."""
        return max((self._bytes(cut) for cut in self.cuts), default=0)

    def _bytes(self, cut: Cut) -> int:
        tasks, votes = cut
        return int(self.weight[0] * (votes.stop - votes.start) + self.weight[1] * (tasks.stop - tasks.start))


class LabelFile:
    """The label of every task in a file, in the smallest type that holds it."""

    def __init__(self, path: Path, n_labels: int) -> None:
        self.path = path
        self.n_labels = n_labels
        self.dtype = np.dtype(np.uint8 if n_labels <= 1 << 8 else np.uint16 if n_labels <= 1 << 16 else np.int32)

    def read(self, descriptor: int, tasks: slice, out: NDArray[np.int32]) -> None:
        """Read the labels of some tasks to OUT [tasks]; raise for a code that is not a label."""
        packed = np.empty(len(out), self.dtype)
        read_at(descriptor, tasks.start * self.dtype.itemsize, packed, self.path)
        require_below(str(self.path), packed, self.n_labels)
        out[:] = packed

    def append(self, file: BinaryIO, labels: NDArray[np.int32]) -> bytes | memoryview:
        """Write the labels of the next tasks, and return their bytes."""
        packed = np.ascontiguousarray(labels, self.dtype).view(np.uint8).data if len(labels) else b""
        write_all(file, packed)
        return packed


class ShardReader:
    """Reads the shards of some files ahead of the passes over them."""

    def __init__(self, files: ShardFiles, kernels: ModuleType, seed: int) -> None:
        self._files = files
        self._kernels = kernels
        self._seed = seed
        self._free: list[list[dict[str, NDArray[Any]]]] = []  # unused pairs of buffers, kept because new pages take time
        self._most_tasks = max((t.stop - t.start for t, _ in files.cuts), default=0)
        self._most_votes = max((v.stop - v.start for _, v in files.cuts), default=0)

    def shards(self, labels: LabelFile | None, right: Path | None = None, *, room: bool = False) -> Iterator[LoadedShard]:
        """Yield the shards in order, with these labels, or with label 0 for every task.

        `right` is a file of one number per vote, which is read, too; `room` requests an array of that size to write to.
        """
        with ExitStack() as opened, ThreadPoolExecutor(1) as pool:
            beside: dict[str, int] = {}  # descriptors of the files of labels and of `right`
            for name, path in {"labels": None if labels is None else labels.path, "right": right}.items():
                if path is None:
                    continue
                try:
                    beside[name] = opened.enter_context(path.open("rb", buffering=0)).fileno()
                except OSError as error:
                    raise read_error(path, error) from error
            sets = self._free.pop() if self._free else [self._buffers() for _ in self._files.cuts[:2]]
            opened.callback(self._free.append, sets)
            for buffers in sets:
                if (room or right is not None) and "right" not in buffers:
                    buffers["right"] = np.empty(self._most_votes)
            coming: Future[LoadedShard] | None = None
            for index in range(len(self._files.cuts)):
                pending = pool.submit(self._load, index, sets[0], beside, labels, right) if coming is None else coming
                loaded = pending.result()
                following = index + 1
                if following < len(self._files.cuts):
                    coming = pool.submit(self._load, following, sets[following % 2], beside, labels, right)
                yield loaded

    def _buffers(self) -> dict[str, NDArray[Any]]:
        return {
            "task_ptr": np.empty(self._most_tasks + 1, np.int64),
            "row": np.empty(self._most_votes, np.uint32),
            "task_hash": np.empty(self._most_tasks, np.uint64),
            "labels": np.zeros(self._most_tasks, np.int32),
        }

    def _load(
        self,
        index: int,
        buffers: dict[str, NDArray[Any]],
        beside: dict[str, int],
        labels: LabelFile | None,
        of_votes: Path | None,
    ) -> LoadedShard:
        tasks, votes = self._files.cuts[index]
        n = tasks.stop - tasks.start
        ptr, row, key = buffers["task_ptr"][: n + 1], buffers["row"][: votes.stop - votes.start], buffers["task_hash"][:n]
        for name, start, out in (("task_ptr", tasks.start, ptr), ("row", votes.start, row), ("task_hash", tasks.start, key)):
            self._files.files[name].read_into(out, start)
        if votes.start:
            ptr -= votes.start
        current = buffers["labels"][:n]
        if labels is None:
            current[:] = 0
        else:
            labels.read(beside["labels"], tasks, current)
        right = buffers["right"][: len(row)] if "right" in buffers else np.zeros(0)
        if of_votes is not None:
            read_at(beside["right"], votes.start * right.itemsize, right, of_votes)
        return LoadedShard(tasks, ptr, row, self._kernels.tie_keys(key, self._seed), current, votes, right)

    def release_buffers(self) -> None:
        """Free the buffers that are kept for the next pass."""
        self._free.clear()


SIZE: Final = 8  # bytes per number
VECTOR_FILE_CHUNK_NUMBERS: Final = 1 << 17  # numbers read at once
Floats = NDArray[np.float64]


class FileVector:
    """Numbers in a file, read and written by slices; the file is given back with this object."""

    def __init__(self, files: VectorFiles, number: int) -> None:
        self.number = number
        self._files = files
        self.path = files.path(number)
        with writing(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        weakref.finalize(self, files.put_back, number, self._file)

    def __len__(self) -> int:
        return self._files.length

    def __getitem__(self, cut: slice, /) -> Floats:
        out = np.empty(cut.stop - cut.start)
        read_at(self._file.fileno(), cut.start * SIZE, out, self.path)
        return out

    def __setitem__(self, cut: slice, numbers: Floats, /) -> None:
        plain = np.ascontiguousarray(numbers, np.float64)
        with writing(self.path):
            self._file.seek(cut.start * SIZE)
            write_all(self._file, plain.view(np.uint8).data if len(plain) else b"")

    def alike(self) -> FileVector:
        """Return another vector of these files, whose numbers are not yet written."""
        return self._files.blank()

    def crc32(self) -> int:
        """Return the CRC-32 of all numbers."""
        checksum = 0
        for cut in pieces(len(self), VECTOR_FILE_CHUNK_NUMBERS):
            checksum = zlib.crc32(self[cut].view(np.uint8).data, checksum)
        return checksum


class VectorFiles:
    """Files of vectors in a folder, `length` numbers each; there are as many as were ever needed at once."""

    def __init__(self, folder: Path, length: int, name: str = "vector") -> None:
        self.length = length
        self.made = 0
        self._folder = folder
        self._name = name
        self._free: list[int] = []

    def path(self, number: int) -> Path:
        """Return the path of a vector."""
        return self._folder / f"{self._name}-{number}"

    def blank(self) -> FileVector:
        """Return a vector whose numbers are not yet written."""
        if not self._free:
            self._free.append(self.made)
            self.made += 1
        return FileVector(self, self._free.pop())

    def reopen(self, number: int) -> FileVector:
        """Return the vector of this number that an earlier process stored; call it before `blank`."""
        path = self.path(number)
        size = path.stat().st_size if path.exists() else 0
        if size != self.length * SIZE:
            raise InputError(f"{path} has {size} bytes instead of {self.length * SIZE}: start again without resume")
        self._free, self.made = list(range(number)), number + 1
        return FileVector(self, number)

    def put_back(self, number: int, file: object) -> None:
        """Take back a file that is no longer used."""
        file.close()  # type: ignore[attr-defined]
        self._free.append(number)

    def clear(self) -> None:
        """Remove the files that no vector needs."""
        for number in self._free:
            self.path(number).unlink(missing_ok=True)
