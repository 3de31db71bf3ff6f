"""Vectors in files; a file is reused when its vector is no longer needed."""

from __future__ import annotations

import os
import weakref
import zlib
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vectors import pieces
from adjudge.errors import InputError
from adjudge.io.folder.arrays import read_at, write_all, writing

SIZE: Final = 8  # bytes per number
CHUNK: Final = 1 << 17  # numbers read at once
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
        found = 0
        for cut in pieces(len(self), CHUNK):
            found = zlib.crc32(self[cut].view(np.uint8).data, found)
        return found


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
        found = path.stat().st_size if path.exists() else 0
        if found != self.length * SIZE:
            raise InputError(f"{path} has {found} bytes instead of {self.length * SIZE}: start again without resume")
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
