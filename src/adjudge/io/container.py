"""One file for arrays and their metadata: versioned, checksummed, replaced atomically, read without running anything.

The layout, little-endian throughout:

- 8 bytes: ADJUDGE and a line feed
- 8 bytes: the length of the header
- the header, JSON: `kind`, `version`, `meta`, and for every array its `name`, `dtype`, `shape`, `offset`
- the arrays, one after the other, each beginning at a multiple of 8 bytes after the header
- 32 bytes: the SHA-256 of everything before
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.errors import InputError, AdjudgeError, listed, shown
from adjudge.io.bounds import Array, Bounds, Types, non_overlapping
from adjudge.io.write import check_folder, write_aside

MAGIC: Final = b"ADJUDGE\n"
DTYPES: Final = ("<i8", "<i4", "<u8", "<u4", "<f8", "|u1", "|b1")
MOST_DIMENSIONS: Final = 2
LOADED_BY: Final = {"model": "adj.load", "online": "adj.Online.load"}  # kind -> what reads it


def save(path: Path, kind: str, version: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a container; the same content gives the same bytes."""
    check_folder(path)
    blocks = packed(kind, version, meta, arrays)

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the new name without the content

    write_aside(path, write)


def packed(kind: str, version: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """Return the bytes of a container, in parts; the same content gives the same bytes."""
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
    whole, digest = [MAGIC, len(header).to_bytes(8, "little"), header, *blocks], sha256()
    for block in whole:
        digest.update(block)
    return [*whole, digest.digest()]


def is_container(path: Path) -> bool:
    """Return whether a file begins as a container does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def kind_of(path: Path) -> str | None:
    """Return what a container says it holds; None where it cannot be told, of which `load` says why."""
    try:
        with path.open("rb") as file:
            begin, whole = file.read(16), os.fstat(file.fileno()).st_size
            size = min(int.from_bytes(begin[8:], "little"), whole)  # a forged one may be any number
            header = json.loads(file.read(size)) if begin.startswith(MAGIC) else None
    except (OSError, ValueError, RecursionError):
        return None
    kind = header.get("kind") if isinstance(header, dict) else None
    return kind if isinstance(kind, str) else None


def load(
    path: Path,
    kind: str,
    version: int,
    meta: Types | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of a container of this kind; damage, another kind or a newer version is an error.

    `meta` gives the required fields of the header and their types, `arrays` the required arrays. The caller checks their
    content (`adjudge.io.bounds`). The arrays are read-only views of the file's bytes.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return unpacked(path, data, kind, version, meta, arrays)


def unpacked(
    source: object,
    data: bytes,
    kind: str,
    version: int,
    meta: Types | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what `load` does, from bytes; `source` is what errors call them."""
    if not data.startswith(MAGIC):
        raise InputError(f"{source} is not a file that adjudge saved")
    if len(data) < 48 or sha256(memoryview(data)[:-32]).digest() != data[-32:]:
        raise InputError(f"{source} is damaged (its checksum does not match): restore it from a copy")
    bounds, size = Bounds(source), int.from_bytes(data[8:16], "little")
    bounds.need(size % 8 == 0 and 16 + size <= len(data) - 32, f"its header cannot be {size} bytes long")
    try:
        header = json.loads(data[16 : 16 + size])
        json.dumps(header, ensure_ascii=False).encode()  # half characters can be written in JSON, but are no text
    except (ValueError, RecursionError):
        bounds.fail("its header is not JSON in UTF-8")
    bounds.need(isinstance(header, dict), "its header is not an object")
    bounds.fields("its header", header, {"kind": str, "version": int, "meta": dict, "arrays": list})
    if header["kind"] != kind:
        reader = LOADED_BY.get(header["kind"])
        raise InputError(f"{source} holds {shown(header['kind'])}, not {kind!r}{f': {reader} reads it' if reader else ''}")
    bounds.need(header["version"] >= 1, f"it has the format {shown(header['version'])}")
    if header["version"] > version:
        newer = f"{source} was saved by a newer adjudge (format {header['version']}, this one reads {version}): upgrade"
        raise AdjudgeError(newer)
    found = _arrays(bounds, header["arrays"], data, 16 + size)
    if meta is not None:
        bounds.fields("its meta", header["meta"], meta)
    if arrays is not None:
        bounds.arrays(found, arrays)
    return header["meta"], found


def _arrays(bounds: Bounds, entries: list[Any], data: bytes, begin: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a header, each within the file, without overlap."""
    out: dict[str, NDArray[Any]] = {}
    places, end = [], len(data) - 32
    for entry in entries:
        bounds.need(isinstance(entry, dict), f"{shown(entry)} does not describe an array")
        bounds.fields("an array of its header", entry, {"name": str, "dtype": str, "shape": list, "offset": int})
        name, dtype, shape, offset = shown(entry["name"]), entry["dtype"], entry["shape"], entry["offset"]
        bounds.need(entry["name"] not in out, f"the array {name} occurs twice")
        bounds.need(dtype in DTYPES, f"the array {name} is of type {shown(dtype)}; known are {listed(DTYPES)}")
        sizes = all(type(n) is int and 0 <= n <= end for n in shape)
        bounds.need(sizes and len(shape) <= MOST_DIMENSIONS, f"the array {name} has the shape {shown(shape)}")
        place = begin + offset
        last = place + math.prod(shape) * np.dtype(dtype).itemsize
        fits = offset >= 0 and offset % 8 == 0 and last <= end
        bounds.need(fits, f"the array {name} is not within the file")
        places.append((place, last))
        array = np.frombuffer(data, np.uint8, last - place, offset=place)
        if dtype == "|b1":
            bounds.within(entry["name"], array, 0, 1)
        out[entry["name"]] = array.view(dtype).reshape(shape)
    bounds.need(non_overlapping(places), "two of its arrays overlap")
    return out
