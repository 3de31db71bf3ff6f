"""One file for arrays and what they mean: versioned, checksummed, written aside, read without running anything.

The layout, little-endian throughout:

- 8 bytes: QUORATE and a line feed
- 8 bytes: the length of the header
- the header, JSON: `kind`, `version`, `meta`, and for every array its `name`, `dtype`, `shape`, `offset`
- the arrays, one after the other, each beginning at a multiple of 8 bytes after the header
- 32 bytes: the SHA-256 of everything before
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.errors import InputError, QuorateError
from quorate.io.write import check_folder, write_aside

MAGIC: Final = b"QUORATE\n"


def save(path: Path, kind: str, version: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes a container; the same content gives the same bytes."""
    check_folder(path)
    entries, blocks, offset = [], [], 0
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        entries.append({"name": name, "dtype": plain.dtype.str, "shape": list(plain.shape), "offset": offset})
        padding = -plain.nbytes % 8
        blocks.append(plain.tobytes() + bytes(padding))
        offset += plain.nbytes + padding
    header = json.dumps({"kind": kind, "version": version, "meta": meta, "arrays": entries}, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)

    def write(aside: Path) -> None:
        digest = sha256()
        with aside.open("wb") as file:
            for block in (MAGIC, len(header).to_bytes(8, "little"), header, *blocks):
                digest.update(block)
                file.write(block)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the new name without the content

    write_aside(path, write)


def is_container(path: Path) -> bool:
    """Returns whether a file begins as a container does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def load(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns (meta, arrays) of a container of this kind; damage, another kind or a newer version is an error."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not data.startswith(MAGIC):
        raise InputError(f"{path} is not a file that quorate saved")
    if len(data) < 48 or sha256(data[:-32]).digest() != data[-32:]:
        raise InputError(f"{path} is damaged (its checksum does not match): restore it from a copy")
    size = int.from_bytes(data[8:16], "little")
    header = json.loads(data[16 : 16 + size])
    if header["kind"] != kind:
        raise InputError(f"{path} holds {header['kind']!r}, not {kind!r}")
    if header["version"] > version:
        raise QuorateError(f"{path} was saved by a newer quorate (format {header['version']}, this one reads {version}): upgrade")
    arrays = {}
    for entry in header["arrays"]:
        count = int(np.prod(entry["shape"], dtype=np.int64))
        flat = np.frombuffer(data, np.dtype(entry["dtype"]), count, offset=16 + size + entry["offset"])
        arrays[entry["name"]] = flat.reshape(entry["shape"])
    return header["meta"], arrays
