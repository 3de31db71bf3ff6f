"""Full checks of arrays from callers or files before they are used as indices, at NumPy's speed.

Each `require_…` raises an `InputError` that names the array, the first wrong index, and the accepted values.
"""

from __future__ import annotations

import codecs
import mmap
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from adjudge.errors import InputError, shown

CHUNK: Final = 1 << 16  # numbers compared at once: they stay in the processor's cache
TEXT_CHUNK: Final = 1 << 20  # bytes of texts looked at at once
FACTOR: Final = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
INVERSE: Final = pow(FACTOR, -1, 1 << 64)


def require_array(name: str, value: object, dtype: DTypeLike, shape: tuple[int | None, ...] = (None,)) -> NDArray[Any]:
    """Return the array, if it has this dtype and shape (None is any length); it is never cast.

    >>> require_array("row", [0, 1], np.uint32)
    Traceback (most recent call last):
    adjudge.errors.InputError: row is [0, 1] of type list: give a NumPy array of uint32
    """
    wanted = np.dtype(dtype)
    if not isinstance(value, np.ndarray):
        raise InputError(f"{name} is {shown(value)} of type {type(value).__name__}: give a NumPy array of {wanted.name}")
    if value.dtype != wanted:
        raise InputError(f"{name} holds {value.dtype}: give a NumPy array of {wanted.name}")
    fits = value.ndim == len(shape) and all(w is None or n == w for n, w in zip(value.shape, shape, strict=True))
    if not fits:
        right = ", ".join("n" if n is None else str(n) for n in shape)
        raise InputError(f"{name} has the shape {list(value.shape)}: give [{right}]")
    return value


def require_offsets(name: str, array: NDArray[np.int64], end: int, *, strictly: bool = False) -> None:
    """Raise unless the numbers begin with 0, never fall (`strictly`: always rise), and end with `end`.

    >>> require_offsets("task_ptr", np.array([0, 3, 2, 5]), 5)
    Traceback (most recent call last):
    adjudge.errors.InputError: task_ptr falls from 3 to 2 at index 2: each part begins where the one before it ends
    """
    if not len(array) or array[0] != 0:
        raise InputError(f"{name} begins with {array[0] if len(array) else 'nothing'}: it must begin with 0")
    for start in range(0, len(array) - 1, CHUNK):
        some = array[start : start + CHUNK + 1]
        wrong = some[1:] <= some[:-1] if strictly else some[1:] < some[:-1]
        if wrong.any():
            at = start + int(np.argmax(wrong)) + 1
            if array[at] == array[at - 1]:
                raise InputError(f"{name} stays at {array[at]} at index {at}: no part may be empty")
            raise InputError(
                f"{name} falls from {array[at - 1]} to {array[at]} at index {at}: each part begins where the one before it ends"
            )
    if array[-1] != end:
        raise InputError(f"{name} ends with {array[-1]}: it must end with {end}")


def require_below(name: str, array: NDArray[np.integer], bound: int) -> None:
    """Raise unless every number is at least 0 and below `bound`.

    >>> require_below("row", np.array([0, 7], np.uint32), 5)
    Traceback (most recent call last):
    adjudge.errors.InputError: row holds 7 at index 1: give numbers from 0 to 4
    """
    if not len(array):
        return
    # A negative number is a large one where the sign is not looked at: one pass instead of two.
    unsigned = array.view(f"u{array.itemsize}") if array.dtype.kind == "i" and array.flags.c_contiguous else array
    if unsigned.dtype.kind == "u" and int(unsigned.max()) < min(bound, 1 << (8 * array.itemsize - 1)):
        return
    if int(array.min()) >= 0 and int(array.max()) < bound:
        return
    at = int(np.argmax((array < 0) | (array >= bound)))
    right = f"give numbers from 0 to {bound - 1}" if bound > 0 else "no number is valid here, because there is nothing to index"
    raise InputError(f"{name} holds {array[at]} at index {at}: {right}")


def require_sorted(name: str, array: NDArray[Any], ptr: NDArray[np.int64], *, strictly: bool = False) -> None:
    """Raise unless the numbers of each part never fall (`strictly`: always rise); `ptr` holds where each part begins.

    >>> require_sorted("row", np.array([1, 2, 0, 1]), np.array([0, 2, 4]))
    """
    for start in range(0, len(ptr) - 1, CHUNK):
        some = ptr[start : start + CHUNK + 1]
        first = int(some[0])
        part = array[first : int(some[-1])]
        wrong = part[1:] <= part[:-1] if strictly else part[1:] < part[:-1]
        between = some[1:-1] - first  # where parts begin: nothing is asked of the step from one to the next
        wrong[between[(between > 0) & (between < len(part))] - 1] = False
        if wrong.any():
            at = first + int(np.argmax(wrong)) + 1
            of = int(np.searchsorted(ptr, at, side="right")) - 1
            how = "sorted and distinct" if strictly else "sorted"
            raise InputError(
                f"{name} holds {array[at]} after {array[at - 1]} at index {at}: it must be {how} within each part ({of} here)"
            )


def require_finite(name: str, array: NDArray[np.float64], least: float | None = None, most: float | None = None) -> None:
    """Raise unless every number is finite and within the given bounds.

    >>> require_finite("priors", np.array([0.5, np.nan]))
    Traceback (most recent call last):
    adjudge.errors.InputError: priors holds nan at index 1: give finite numbers
    """
    flat = array.ravel()
    for start in range(0, len(flat), CHUNK):
        some = flat[start : start + CHUNK]
        low, high = some.min(), some.max()  # NaN where one is
        if np.isfinite(low) and np.isfinite(high) and (least is None or low >= least) and (most is None or high <= most):
            continue
        wrong = ~np.isfinite(some)
        wrong |= False if least is None else some < least
        wrong |= False if most is None else some > most
        at = start + int(np.argmax(wrong))
        bounds = "" if least is None else f" of at least {least:g}"
        bounds += "" if most is None else f"{' and' if bounds else ' of'} at most {most:g}"
        raise InputError(f"{name} holds {flat[at]} at index {at}: give finite numbers{bounds}")


def require_texts(name: str, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
    """Raise unless the bytes are UTF-8, and every text begins and ends between two characters.

    >>> require_texts("ids", np.array([0, 1, 2]), np.frombuffer("ä".encode(), np.uint8))
    Traceback (most recent call last):
    adjudge.errors.InputError: ids 1 begins within a character: give texts as UTF-8
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), TEXT_CHUNK):
            decoder.decode(data[start : start + TEXT_CHUNK].tobytes())
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InputError(f"{name} are not UTF-8 ({error.reason}): give texts as UTF-8") from None
    for start in range(0, len(offsets) - 1, CHUNK):
        some = offsets[start : start + CHUNK]
        within = (data[some[some < len(data)]] & 0xC0) == 0x80
        if within.any():
            raise InputError(f"{name} {start + int(np.argmax(within))} begins within a character: give texts as UTF-8")


def repeated_text(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> int | None:
    """Return the index of the first text that repeats an earlier one; None if all are distinct.

    Only texts with equal hashes are compared.

    >>> repeated_text(np.array([0, 1, 2, 3]), np.frombuffer(b"aba", np.uint8))
    2
    """
    hashes = _hashes(offsets, data)
    order = np.argsort(hashes, kind="stable")
    same = np.zeros(len(order), np.bool_)
    np.equal(hashes[order[1:]], hashes[order[:-1]], out=same[1:])
    if not same.any():
        return None
    doubtful = same.copy()
    doubtful[:-1] |= same[1:]
    seen: set[bytes] = set()
    for code in np.sort(order[doubtful]).tolist():
        text = data[offsets[code] : offsets[code + 1]].tobytes()
        if text in seen:
            return int(code)
        seen.add(text)
    return None


def _hashes(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a hash of every text, [n]: the sum of (byte + 1) * FACTOR**position, modulo 2**64, mixed with its length."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for cut in _text_chunks(offsets):
        ptr = offsets[cut.start : cut.stop + 1] - offsets[cut.start]
        n = int(ptr[-1])
        sums = np.zeros(n + 1, np.uint64)
        weighted = data[int(offsets[cut.start]) : int(offsets[cut.stop])].astype(np.uint64)
        weighted += np.uint64(1)
        weighted *= _powers(FACTOR, n)
        np.cumsum(weighted, out=sums[1:])
        # A difference of sums is the text's own sum times FACTOR**(where it begins).
        out[cut] = (sums[ptr[1:]] - sums[ptr[:-1]]) * _powers(INVERSE, n + 1)[ptr[:-1]]
        out[cut] ^= np.diff(ptr).astype(np.uint64) * np.uint64(FACTOR)
    return out


def _powers(base: int, n: int) -> NDArray[np.uint64]:
    out = np.full(n, base, np.uint64)
    out[:1] = 1
    return np.cumprod(out, dtype=np.uint64)


def _text_chunks(offsets: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of texts with about `TEXT_CHUNK` bytes each; a text is never split."""
    start = 0
    while start < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[start] + TEXT_CHUNK, side="right")) - 1
        end = min(max(end, start + 1), start + TEXT_CHUNK, len(offsets) - 1)
        yield slice(start, end)
        start = end


def is_mapped(array: object) -> bool:
    """Return whether an array is a memory-mapped file, which may be too expensive to read in full."""
    return isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if it is read-only, otherwise a read-only copy.

    Checked arrays must not change. Only a view made before its array became read-only could still change it.

    >>> a = np.arange(3)
    >>> frozen(a) is a, frozen(frozen(a)).flags.writeable
    (False, False)
    """
    if array.flags.c_contiguous and not _is_writable(array):
        return array
    out = np.array(array, order="C")
    out.flags.writeable = False
    return out


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make a new array, which nobody else refers to, read-only and return it."""
    whole: Any = array
    while isinstance(whole, np.ndarray):
        whole.flags.writeable = False
        whole = whole.base
    return array


def _is_writable(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False
