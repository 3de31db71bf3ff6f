"""Arrays in files: plain one-dimensional .npy, written piece by piece, mapped or read back piece by piece."""

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

from quorate.errors import InputError, QuorateError

HEADER: Final = 128  # bytes before the items: room for any length, so that it can be filled in at the end


class ArrayFile:
    """A one-dimensional .npy file that grows; it is whole when closed. `length` items of an earlier run are kept."""

    def __init__(self, path: Path, dtype: DTypeLike, length: int = 0) -> None:
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = length
        if not length:
            path.unlink(missing_ok=True)  # whoever has an earlier file open keeps it
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
        """Return the bytes of these items, written behind the others."""
        plain = np.ascontiguousarray(items).astype(self.dtype, copy=False)
        data = plain.view(np.uint8).data if plain.size else memoryview(b"")
        write_all(self._file, data)
        self.length += len(plain)
        return data

    def close(self) -> None:
        """Write the header, and leaves."""
        with self._file:
            self._file.seek(0)
            write_all(self._file, header(self.dtype, self.length))

    def abandon(self) -> None:
        """Leave the file as it is, to be continued or removed."""
        self._file.close()


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write everything to an unbuffered file, which may take it in parts; a full disk raises."""
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

    Every read goes to the file that was opened, even when another file has its path later. A file that was written to
    since then is an error, never a mixture.
    """

    def __init__(self, path: Path, dtype: DTypeLike, length: int, *, folder: int | None = None) -> None:
        """Open the file, found by its name in the open directory `folder` where one is given."""
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self._length = length
        self._all: NDArray[Any] | None = None  # all items, once they were read
        self._held: NDArray[Any] | None = None  # room for them, while they are checked
        flags = os.O_RDONLY | os.O_NONBLOCK  # a pipe of this name must not be waited for
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
        """Return all items, read into memory the first time they are asked for; they are read-only."""
        whole = self._all
        if whole is None:
            whole = self[:]
            whole.flags.writeable = False
            self._all = whole
        return whole

    def hold(self) -> None:
        """Make room for all items, to which chunks are read while they are checked: see `chunk` and `keep`."""
        self._held = np.empty(self._length, self.dtype)

    @property
    def is_held(self) -> bool:
        """Whether there is room for all items."""
        return self._held is not None

    def chunk(self, start: int, stop: int) -> NDArray[Any]:
        """Return room for some items, to be read to: a part of that for all of them, or room of its own."""
        return np.empty(stop - start, self.dtype) if self._held is None else self._held[start:stop]

    def keep(self) -> None:
        """Take the items that were read to their room for those of the file."""
        if self._held is not None:
            self._held.flags.writeable = False
            self._all, self._held = self._held, None

    def release(self) -> None:
        """Free the memory of the items; whoever asks for all of them reads them again."""
        self._all = None

    def check_size(self) -> None:
        """Raise when the file is not exactly as long as its items and their header are."""
        size = HEADER + self._length * self.dtype.itemsize
        if self._stamp[0] != size:
            raise InputError(f"{self.path} is damaged: it has {self._stamp[0]} bytes, not {size}")

    def check_header(self) -> None:
        """Raise when the bytes before the items are not those that were written."""
        found = np.empty(HEADER, np.uint8)
        read_at(self._descriptor, 0, found, self.path)
        if found.tobytes() != header(self.dtype, self._length):
            raise InputError(f"{self.path} is damaged: its header is not that of {self._length} items of type {self.dtype.str}")

    def mapped(self) -> NDArray[Any]:
        """Return the items without reading them: pages come as they are touched. `piece` reads from the file instead."""
        if not self._length:
            return np.zeros(0, self.dtype)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            out: Any = np.memmap(file, self.dtype, "r", HEADER, (self._length,))
        out.stored = self
        return out  # type: ignore[no-any-return]


def read_at(descriptor: int, at: int, out: NDArray[Any], path: Path) -> None:
    """Read as many items as OUT holds, from this byte on; a file that ends before is an error."""
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
    """Return the items of a file without reading them: pages come as they are touched."""
    stored = StoredArray(path, dtype, length)
    stored.check_size()
    return stored.mapped()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one line what is wrong when something cannot be written."""
    try:
        yield
    except OSError as error:
        raise QuorateError(f"cannot write {path}: {error.strerror or error}") from error
