"""Arrays in files: plain one-dimensional .npy, written piece by piece, mapped or read back piece by piece."""

from __future__ import annotations

import os
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
        self._file: BinaryIO = path.open("r+b" if length else "wb", buffering=0)
        size = HEADER + length * self.dtype.itemsize
        if length and os.fstat(self._file.fileno()).st_size < size:
            raise InputError(f"{path} is shorter than it was: it cannot be continued, begin anew")
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
        """Returns the bytes of these items, written behind the others."""
        plain = np.ascontiguousarray(items).astype(self.dtype, copy=False)
        data = plain.view(np.uint8).data if plain.size else memoryview(b"")
        write_all(self._file, data)
        self.length += len(plain)
        return data

    def close(self) -> None:
        """Writes the header, and leaves."""
        with self._file:
            self._file.seek(0)
            write_all(self._file, header(self.dtype, self.length))

    def abandon(self) -> None:
        """Leaves the file as it is, to be continued or removed."""
        self._file.close()


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Writes everything to an unbuffered file, which may take it in parts; a full disk raises."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def header(dtype: np.dtype[Any], length: int) -> bytes:
    """Returns the first 128 bytes of a .npy file (format 1.0) of these items.

    >>> header(np.dtype("<u4"), 3)[1:6], len(header(np.dtype("<u4"), 3))
    (b'NUMPY', 128)
    """
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + f"{text:<{HEADER - 11}}\n".encode("latin1")


def mapped(path: Path, dtype: DTypeLike, length: int) -> NDArray[Any]:
    """Returns the items of a file without reading them: pages come as they are touched."""
    if not length:
        return np.zeros(0, dtype)
    try:
        return np.memmap(path, np.dtype(dtype).newbyteorder("<"), "r", HEADER, (length,))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says in one line what is wrong when something cannot be written."""
    try:
        yield
    except OSError as error:
        raise QuorateError(f"cannot write {path}: {error.strerror or error}") from error
