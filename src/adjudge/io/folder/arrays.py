"""Arrays in files: one-dimensional .npy files, mapped or read in chunks, written in chunks or as shards with checksums."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, BinaryIO, Final, Self, TypedDict

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from adjudge.data.vocabulary import DTYPE_OF_KIND, Kind, Vocabulary, require_below
from adjudge.errors import InputError, read_error, write_error

READ_BYTES: Final = 1 << 30  # per call: macOS reads less than 2 GiB at once
COUNTED_VOTES: Final = 1 << 22  # per chunk, when the votes of rows are counted
HEADER: Final = 128  # bytes before the items: enough for any length, which is written at the end


class ArrayFile:
    """A one-dimensional .npy file that grows; it is complete when closed. `length` items of an earlier run are kept."""

    def __init__(self, path: Path, dtype: DTypeLike, length: int = 0) -> None:
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = length
        if not length:
            path.unlink(missing_ok=True)  # a process that has the earlier file open keeps it
        self._file: BinaryIO = path.open("r+b" if length else "wb", buffering=0)
        size = HEADER + length * self.dtype.itemsize
        if length and os.fstat(self._file.fileno()).st_size < size:
            raise InputError(f"{path} is shorter than before: it cannot be resumed, start again")
        self._file.truncate(size)
        self._file.seek(size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            self.close()
        else:
            self.abandon()

    def append(self, items: NDArray[Any]) -> memoryview:
        """Append items, and return their bytes."""
        plain = np.ascontiguousarray(items).astype(self.dtype, copy=False)
        data = plain.view(np.uint8).data if plain.size else memoryview(b"")
        write_all(self._file, data)
        self.length += len(plain)
        return data

    def close(self) -> None:
        """Write the header, and close the file."""
        with self._file:
            self._file.seek(0)
            write_all(self._file, header(self.dtype, self.length))

    def abandon(self) -> None:
        """Close the file as it is, to be resumed or removed."""
        self._file.close()


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all data to an unbuffered file, in as many writes as it takes; raise if the disk is full."""
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[file.write(unwritten) :]


def header(dtype: np.dtype[Any], length: int) -> bytes:
    """Return the first 128 bytes of a .npy file (format 1.0) of these items.

    >>> header(np.dtype("<u4"), 3)[1:6], len(header(np.dtype("<u4"), 3))
    (b'NUMPY', 128)
    """
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + f"{text:<{HEADER - 11}}\n".encode("latin1")


class StoredArray:
    """A one-dimensional .npy file that is opened once and read by position.

    Every read goes to the opened file, even if another file has its path later. If the opened file has been written to,
    reading it is an error, never a mixture.
    """

    def __init__(self, path: Path, dtype: DTypeLike, length: int, *, folder: int | None = None) -> None:
        """Open the file, by its name in the open directory `folder` if given."""
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self._length = length
        self._all: NDArray[Any] | None = None  # all items, once they were read
        self._held: NDArray[Any] | None = None  # room for them, while they are checked
        flags = os.O_RDONLY | os.O_NONBLOCK  # do not wait for a pipe of this name
        try:
            self._descriptor = os.open(path if folder is None else path.name, flags, dir_fd=folder)
        except OSError as error:
            raise read_error(path, error) from error
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        status = os.fstat(self._descriptor)
        self._stamp = status.st_size, status.st_mtime_ns
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"cannot read {path}: it is not a file")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, cut: slice) -> NDArray[Any]:
        """Return a copy of some items."""
        start, stop, _ = cut.indices(self._length)
        out = np.empty(max(stop - start, 0), self.dtype)
        self.read_into(out, start)
        return out

    def __reduce__(self) -> str:
        raise TypeError(f"{self.path} is open in this process only: open it again in the other process")

    def read_into(self, out: NDArray[Any], start: int) -> None:
        """Read the items from `start` on to OUT."""
        read_at(self._descriptor, HEADER + start * self.dtype.itemsize, out, self.path)
        status = os.fstat(self._descriptor)
        if (status.st_size, status.st_mtime_ns) != self._stamp:
            raise InputError(f"{self.path} was written to since it was opened: open it again")

    def all(self) -> NDArray[Any]:
        """Return all items, read-only; they are read into memory on the first call."""
        whole = self._all
        if whole is None:
            whole = self[:]
            whole.flags.writeable = False
            self._all = whole
        return whole

    def hold(self) -> None:
        """Allocate an array for all items, into which chunks are read while they are checked: see `chunk` and `keep`."""
        self._held = np.empty(self._length, self.dtype)

    @property
    def is_held(self) -> bool:
        """Whether there is an array for all items."""
        return self._held is not None

    def chunk(self, start: int, stop: int) -> NDArray[Any]:
        """Return an array to read some items into: part of the array for all items, or a new one."""
        return np.empty(stop - start, self.dtype) if self._held is None else self._held[start:stop]

    def keep(self) -> None:
        """Take the array that was read in chunks as the items of the file."""
        if self._held is not None:
            self._held.flags.writeable = False
            self._all, self._held = self._held, None

    def release(self) -> None:
        """Free the memory of the items; `all` reads them again."""
        self._all = None

    def check_size(self) -> None:
        """Raise unless the file has the size of its header and items."""
        size = HEADER + self._length * self.dtype.itemsize
        if self._stamp[0] != size:
            raise InputError(f"{self.path} is damaged: it has {self._stamp[0]} bytes, not {size}")

    def check_header(self) -> None:
        """Raise unless the header is the one that was written."""
        stored = np.empty(HEADER, np.uint8)
        read_at(self._descriptor, 0, stored, self.path)
        if stored.tobytes() != header(self.dtype, self._length):
            raise InputError(f"{self.path} is damaged: its header is not that of {self._length} items of type {self.dtype.str}")

    def map(self) -> NDArray[Any]:
        """Return the items as a memory map. `data.votes.piece` reads from the file instead."""
        if not self._length:
            return np.zeros(0, self.dtype)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            out: Any = np.memmap(file, self.dtype, "r", HEADER, (self._length,))
        out.stored = self
        return out  # type: ignore[no-any-return]


def read_at(descriptor: int, at: int, out: NDArray[Any], path: Path) -> None:
    """Fill OUT with items from this byte on; raise if the file ends before."""
    room = out.view(np.uint8).data if out.size else memoryview(b"")
    while room:
        try:
            got = os.preadv(descriptor, [room[:READ_BYTES]], at)
        except OSError as error:
            raise read_error(path, error) from error
        if not got:
            raise InputError(f"{path} is shorter than before: something else writes to it")
        room, at = room[got:], at + got


def map_array(path: Path, dtype: DTypeLike, length: int) -> NDArray[Any]:
    """Return the items of a file as a memory map."""
    stored = StoredArray(path, dtype, length)
    stored.check_size()
    return stored.map()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TemporaryFolder:
    """A folder that is removed with this object, or when the process exits normally."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="adjudge-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system while writing into one line."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]  # of votes, tasks or bytes
Checksum = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Span(msgspec.Struct, forbid_unknown_fields=True):
    """The size of a shard, and the CRC-32 of its range of each file."""

    tasks: Count = 0
    votes: Count = 0
    text: Count = 0  # bytes of the tasks' ids, if these are texts
    crc32: dict[str, Checksum] = {}


class ShardsState(TypedDict):
    """What a `ShardWriter` resumes from."""

    shards: list[Span]
    lengths: dict[str, Count]


class IdsState(TypedDict):
    """What a `VocabularyWriter` resumes from."""

    crc32: dict[str, Checksum]
    lengths: dict[str, Count]


def sharded_files(kind: Kind) -> dict[str, Any]:
    """Return the files that are cut into shards, with the types of their items; only texts have offsets."""
    files: dict[str, Any] = {"task_ptr": np.int64, "row": np.uint32, "task_hash": np.uint64, "tasks": DTYPE_OF_KIND[kind]}
    return files | ({"tasks_offsets": np.int64} if kind == "string" else {})


class FilesWriter:
    """Appends to several array files; `lengths` has the items of files of an earlier run, `crc32` their checksums."""

    def __init__(
        self, folder: Path, types: dict[str, Any], lengths: dict[str, int], crc32: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._files = {name: ArrayFile(folder / f"{name}.npy", dtype, lengths.get(name, 0)) for name, dtype in types.items()}
        self.crc32 = dict(crc32)  # of whole files: those without shards
        try:
            for name in types:
                if name.endswith(("_ptr", "_offsets")) and not lengths:  # the first position is 0
                    self._append(name, np.zeros(1, np.int64))
        except BaseException:
            self.abandon()
            raise

    def _append(self, name: str, items: NDArray[Any]) -> memoryview:
        data = self._files[name].append(items)
        if name in self.crc32:
            self.crc32[name] = zlib.crc32(data, self.crc32[name])
        return data

    def lengths(self) -> dict[str, int]:
        """Return the number of items of each file."""
        return {name: file.length for name, file in self._files.items()}

    def entries(self) -> dict[str, dict[str, Any]]:
        """Close the files, and return their entries in the manifest."""
        for file in self._files.values():
            file.close()
        return {name: _entry(file, self.crc32.get(name)) for name, file in self._files.items()}

    def abandon(self) -> None:
        """Close the files as they are."""
        for file in self._files.values():
            file.abandon()


class VocabularyWriter(FilesWriter):
    """Appends ids to files, whose checksums cover whole files."""

    def __init__(self, folder: Path, name: str, kind: Kind, state: IdsState | None = None) -> None:
        types: dict[str, Any] = {name: DTYPE_OF_KIND[kind]} | ({f"{name}_offsets": np.int64} if kind == "string" else {})
        crc32: dict[str, int] = dict.fromkeys(types, 0) | (state["crc32"] if state else {})
        super().__init__(folder, types, state["lengths"] if state else {}, crc32)
        self._name = name

    def state(self) -> IdsState:
        """Return the state to resume from."""
        return {"crc32": self.crc32, "lengths": self.lengths()}

    def add(self, ids: Vocabulary) -> None:
        """Take more ids."""
        if ids.kind == "string":
            self._append(f"{self._name}_offsets", ids.offsets[1:] - ids.offsets[0] + self._files[self._name].length)
        self._append(self._name, ids.values)


def _entry(file: ArrayFile, crc32: int | None = None) -> dict[str, Any]:
    """Return the entry of a file in the manifest."""
    return {"dtype": file.dtype.str, "length": file.length} | ({} if crc32 is None else {"crc32": crc32})


def write_ids(folder: Path, name: str, ids: Vocabulary) -> dict[str, dict[str, Any]]:
    """Write ids, and return the entries of their files in the manifest."""
    writer = VocabularyWriter(folder, name, ids.kind)
    writer.add(ids)
    return writer.entries()


def write_items(folder: Path, name: str, items: NDArray[Any]) -> dict[str, dict[str, Any]]:
    """Write an array, and return the entry of its file in the manifest."""
    with ArrayFile(folder / f"{name}.npy", items.dtype) as file:
        crc32 = zlib.crc32(file.append(items))
    return {name: _entry(file, crc32)}


class ShardWriter(FilesWriter):
    """Appends tasks in their final order to files that are cut into shards."""

    def __init__(self, folder: Path, kind: Kind, shard_votes: int, state: ShardsState | None = None) -> None:
        super().__init__(folder, sharded_files(kind), state["lengths"] if state else {})
        self._shard_votes = shard_votes
        self.shards = state["shards"] if state else []
        self.votes = sum(span.votes for span in self.shards)
        self._text = sum(span.text for span in self.shards)

    def state(self) -> ShardsState:
        """Return the state to resume from."""
        return {"shards": self.shards, "lengths": self.lengths()}

    def add(
        self,
        task_ptr: NDArray[np.int64],  # [tasks + 1] positions in `row`
        row: NDArray[np.uint32],
        task_hash: NDArray[np.uint64],  # [tasks]
        tasks: Vocabulary,
    ) -> None:
        """Append tasks with their votes. Shards are filled completely, however many tasks come at a time."""
        start, n = 0, len(tasks)
        while start < n:
            if not self.shards or self._room() <= 0:
                self.shards.append(Span())
            end = int(np.searchsorted(task_ptr, task_ptr[start] + self._room(), side="right")) - 1
            if end <= start and self.shards[-1].tasks:  # the next task does not fit
                self.shards.append(Span())
                continue
            end = max(end, start + 1)  # a task is never split, however large
            votes = row[task_ptr[start] : task_ptr[end]]
            parts: dict[str, NDArray[Any]] = {
                "task_ptr": task_ptr[start + 1 : end + 1] - task_ptr[start] + self.votes,
                "row": votes,
                "task_hash": task_hash[start:end],
                "tasks": tasks.values[start:end],
            }
            span = self.shards[-1]
            if tasks.kind == "string":
                offsets = tasks.offsets[start : end + 1]
                parts["tasks"] = tasks.values[offsets[0] : offsets[-1]]
                parts["tasks_offsets"] = offsets[1:] - offsets[0] + self._text
                span.text += len(parts["tasks"])
                self._text += len(parts["tasks"])
            for name, items in parts.items():
                span.crc32[name] = zlib.crc32(self._append(name, items), span.crc32.get(name, 0))
            span.tasks += end - start
            span.votes += len(votes)
            self.votes += len(votes)
            start = end

    def votes_per_row(self, rows: int) -> NDArray[np.int64]:
        """Return how many votes each row has, [rows], as the finished file says: an earlier run may have written some."""
        row, counts = StoredArray(self._files["row"].path, np.uint32, self.votes), np.zeros(rows, np.int64)
        for start in range(0, len(row), COUNTED_VOTES):
            votes = row[start : start + COUNTED_VOTES]
            require_below(str(row.path), votes, rows)
            counts += np.bincount(votes, minlength=rows)
        return counts

    def _room(self) -> int:
        return self._shard_votes - self.shards[-1].votes
