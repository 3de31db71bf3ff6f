"""Arrays in files: one-dimensional .npy files, written in chunks, and mapped or read in chunks."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from adjudge.errors import InputError, AdjudgeError

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
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


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
            raise InputError(f"cannot read {path}: {error.strerror}") from error
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
        found = np.empty(HEADER, np.uint8)
        read_at(self._descriptor, 0, found, self.path)
        if found.tobytes() != header(self.dtype, self._length):
            raise InputError(f"{self.path} is damaged: its header is not that of {self._length} items of type {self.dtype.str}")

    def mapped(self) -> NDArray[Any]:
        """Return the items as a memory map. `data.votes.piece` reads from the file instead."""
        if not self._length:
            return np.zeros(0, self.dtype)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            out: Any = np.memmap(file, self.dtype, "r", HEADER, (self._length,))
        out.stored = self
        return out  # type: ignore[no-any-return]


def read_at(descriptor: int, at: int, out: NDArray[Any], path: Path) -> None:
    """Fill OUT with items from this byte on; raise if the file ends before."""
    rest = out.view(np.uint8).data if out.size else memoryview(b"")
    while rest:
        try:
            got = os.preadv(descriptor, [rest], at)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        if not got:
            raise InputError(f"{path} is shorter than before: something else writes to it")
        rest, at = rest[got:], at + got


def mapped(path: Path, dtype: DTypeLike, length: int) -> NDArray[Any]:
    """Return the items of a file as a memory map."""
    stored = StoredArray(path, dtype, length)
    stored.check_size()
    return stored.mapped()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system while writing into one line."""
    try:
        yield
    except OSError as error:
        raise AdjudgeError(f"cannot write {path}: {error.strerror or error}") from error
