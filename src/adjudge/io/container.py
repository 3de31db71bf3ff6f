"""One file for arrays and their metadata: versioned, checksummed, replaced atomically, read without running anything.

The layout, little-endian throughout:

- 8 bytes: ADJUDGE and a line feed
- 8 bytes: the length of the header
- the header, JSON: `kind`, `version`, `meta`, and for every array its `name`, `dtype`, `shape`, `offset`
- the arrays, one after the other, each beginning at a multiple of 8 bytes after the header
- 32 bytes: the SHA-256 of everything before

A checksum finds damage, but neither forgery nor the mistakes of the program that wrote it. So `Bounds` checks whole arrays
before a number is used as an index, and says in one line what is wrong and in which source.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import require_below, require_offsets, require_texts
from adjudge.errors import AdjudgeError, InputError, itemize, quote, read_error
from adjudge.io.write import check_folder, write_aside

Types = Mapping[str, type | tuple[type, ...]]  # the types that each value of a mapping may be of
MAX_VOTE_COUNT = 2.0**62  # no count of votes comes near this; sums of far more than there can be rows stay finite


class Array(NamedTuple):
    """What an array must be: its type, as NumPy writes it ("<i8"), and its dimensions.

    A dimension is a number, or a name that stands for the same number wherever it occurs; "tasks+1" is one more.
    """

    dtype: str | None  # None: any that a container can hold
    shape: tuple[str | int, ...]
    optional: bool = False


class Bounds(NamedTuple):
    """The checks of one source, which is named in every error.

    >>> good = Bounds("votes.adjudge")
    >>> good.pointers("task_ptr", np.array([0, 2, 3]), 3)
    >>> good.pointers("task_ptr", np.array([0, 4, 3]), 3)
    Traceback (most recent call last):
        ...
    adjudge.errors.InputError: votes.adjudge is not valid: task_ptr falls from 4 to 3 at index 2: ...ends
    """

    source: object

    def fail(self, what: str) -> NoReturn:
        """Raise the error that says what is wrong."""
        raise InputError(f"{self.source} is not valid: {what}")

    def need(self, fine: object, what: str) -> None:
        """Raise unless a condition holds."""
        if not fine:
            self.fail(what)

    def fields(self, name: str, given: Mapping[str, Any], types: Types) -> None:
        """Raise unless a mapping has these keys, and values of exactly these types (true is not a whole number here)."""
        for key, accepted in types.items():
            if key not in given:
                self.fail(f"{name} has no {key!r}")
            kinds = accepted if isinstance(accepted, tuple) else (accepted,)
            if type(given[key]) not in kinds:
                wanted = " or ".join(kind.__name__ for kind in kinds)
                self.fail(f"{name} has {key} {quote(given[key])}, which is not of type {wanted}")

    def arrays(self, given: Mapping[str, NDArray[Any]], wanted: Mapping[str, Array]) -> dict[str, int]:
        """Raise unless the arrays have the wanted names, types and shapes; return the size of each named dimension."""
        strangers = [name for name in given if name not in wanted]
        self.need(not strangers, f"it has an array {itemize(map(quote, strangers), 3)} that nothing uses")
        sizes: dict[str, int] = {}
        for name, want in wanted.items():
            array = given.get(name)
            if array is None:
                self.need(want.optional, f"the array {name} is missing")
                continue
            self.need(want.dtype in (None, array.dtype.str), f"{name} is of type {array.dtype.str}, not {want.dtype}")
            self.need(array.ndim == len(want.shape), f"{name} has {array.ndim} dimensions, not {len(want.shape)}")
            for size, dimension in zip(array.shape, want.shape, strict=True):
                label, _, plus = str(dimension).partition("+")
                more = int(plus or 0)
                expected = dimension if isinstance(dimension, int) else sizes.setdefault(label, size - more)
                self.need(expected >= 0 and size == expected + more, f"{name} has {size} items instead of {expected + more}")
        return sizes

    def pointers(self, name: str, array: NDArray[np.int64], end: int, *, rising: bool = False) -> None:
        """Raise unless positions begin at 0, never fall (or, `rising`, always rise) and end at `end`."""
        require_offsets(f"{self.source} is not valid: {name}", array, end, strictly=rising)

    def within(self, name: str, array: NDArray[Any], low: float, high: float) -> None:
        """Raise unless every number is from `low` to `high`, both included; NaN is an error."""
        if array.size and not (array.min() >= low and array.max() <= high):
            flat = array.ravel()
            at = int((~((flat >= low) & (flat <= high))).argmax())
            self.fail(f"{name} has {flat[at]} at item {at}, not a number from {low} to {high}")

    def below(self, name: str, array: NDArray[np.integer], limit: int) -> None:
        """Raise unless every number can be an index of something with `limit` items."""
        require_below(f"{self.source} is not valid: {name}", array, limit)

    def texts(self, name: str, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        """Raise unless bytes split at these offsets are texts in UTF-8."""
        self.pointers(f"{name}_offsets", offsets, len(data))
        if len(data) and int(data.max()) >= 0x80:  # ASCII can be cut anywhere
            require_texts(f"{self.source} is not valid: {name}_texts", offsets, data)


def non_overlapping(places: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts of a file, each (begin, end), have no byte in common.

    >>> non_overlapping([(8, 16), (0, 8)]), non_overlapping([(0, 9), (8, 16)])
    (True, False)
    """
    ordered = sorted(place for place in places if place[0] < place[1])
    return all(before[1] <= after[0] for before, after in zip(ordered, ordered[1:], strict=False))


MAGIC: Final = b"ADJUDGE\n"
DTYPES: Final = ("<i8", "<i4", "<u8", "<u4", "<f8", "|u1", "|b1")
MOST_DIMENSIONS: Final = 2
LOADED_BY: Final = {"model": "adj.load", "scores": "adj.load", "online": "adj.Online.load"}  # kind -> what reads it


def save(path: Path, kind: str, version: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a container; the same content gives the same bytes."""
    check_folder(path)
    blocks = pack(kind, version, meta, arrays)

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the new name without the content

    write_aside(path, write)


def pack(kind: str, version: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
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
    """Return the kind of a container's content; None if it is unreadable, for which `load` has the reason."""
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
    path: Path, kind: str, version: int, meta: Types | None = None, arrays: Mapping[str, Array] | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (meta, arrays) of a container of this kind; damage, another kind or a newer version is an error.

    `meta` gives the required fields of the header and their types, `arrays` the required arrays. The caller checks their
    content (`Bounds`). The arrays are read-only views of the file's bytes.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise read_error(path, error) from error
    return unpack(path, data, kind, version, meta, arrays)


def unpack(
    source: object, data: bytes, kind: str, version: int, meta: Types | None = None, arrays: Mapping[str, Array] | None = None
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
        json.dumps(header, ensure_ascii=False).encode()  # JSON can hold lone surrogates, which are not text
    except (ValueError, RecursionError):
        bounds.fail("its header is not JSON in UTF-8")
    bounds.need(isinstance(header, dict), "its header is not an object")
    bounds.fields("its header", header, {"kind": str, "version": int, "meta": dict, "arrays": list})
    if header["kind"] != kind:
        reader = LOADED_BY.get(header["kind"])
        raise InputError(f"{source} holds {quote(header['kind'])}, not {kind!r}{f': {reader} reads it' if reader else ''}")
    bounds.need(header["version"] >= 1, f"it has the format {quote(header['version'])}")
    if header["version"] > version:
        newer = f"{source} was saved by a newer adjudge (format {header['version']}, this one reads {version}): upgrade"
        raise AdjudgeError(newer)
    contained = _arrays(bounds, header["arrays"], data, 16 + size)
    if meta is not None:
        bounds.fields("its meta", header["meta"], meta)
    if arrays is not None:
        bounds.arrays(contained, arrays)
    return header["meta"], contained


def _arrays(bounds: Bounds, entries: list[Any], data: bytes, begin: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a header, each within the file, without overlap."""
    out: dict[str, NDArray[Any]] = {}
    places, end = [], len(data) - 32
    for entry in entries:
        bounds.need(isinstance(entry, dict), f"{quote(entry)} does not describe an array")
        bounds.fields("an array of its header", entry, {"name": str, "dtype": str, "shape": list, "offset": int})
        name, dtype, shape, offset = quote(entry["name"]), entry["dtype"], entry["shape"], entry["offset"]
        bounds.need(entry["name"] not in out, f"the array {name} occurs twice")
        bounds.need(dtype in DTYPES, f"the array {name} is of type {quote(dtype)}; known are {itemize(DTYPES)}")
        sizes = all(type(n) is int and 0 <= n <= end for n in shape)
        bounds.need(sizes and len(shape) <= MOST_DIMENSIONS, f"the array {name} has the shape {quote(shape)}")
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
