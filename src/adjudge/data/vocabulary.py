"""Ids and their codes, and the checks of arrays that hold codes.

An id *is* its text: `7` and `"7"` name the same task. The type (text, whole number, true/false) is only
remembered so that callers get back what they gave. Texts are stored in two flat arrays, as in Arrow, so
that millions of ids need no Python object.

Arrays from callers and files are checked in full, at NumPy's speed, before they are used as indices: each `require_…`
raises an `InputError` that names the array, the first wrong index, and the accepted values.
"""

from __future__ import annotations

import codecs
import itertools
import mmap
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from adjudge.errors import InputError, OptionError, choice_error, quote

BOUNDS_CHUNK_NUMBERS: Final = 1 << 16  # numbers compared at once: they stay in the processor's cache
TEXT_CHUNK: Final = 1 << 20  # bytes of texts per block
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
        raise InputError(f"{name} is {quote(value)} of type {type(value).__name__}: give a NumPy array of {wanted.name}")
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
    for start in range(0, len(array) - 1, BOUNDS_CHUNK_NUMBERS):
        some = array[start : start + BOUNDS_CHUNK_NUMBERS + 1]
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
    for start in range(0, len(ptr) - 1, BOUNDS_CHUNK_NUMBERS):
        some = ptr[start : start + BOUNDS_CHUNK_NUMBERS + 1]
        first = int(some[0])
        part = array[first : int(some[-1])]
        wrong = part[1:] <= part[:-1] if strictly else part[1:] < part[:-1]
        between = some[1:-1] - first  # starts of parts: the step from one part to the next is exempt
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
    for start in range(0, len(flat), BOUNDS_CHUNK_NUMBERS):
        some = flat[start : start + BOUNDS_CHUNK_NUMBERS]
        low, high = some.min(), some.max()  # NaN if one is
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
    for start in range(0, len(offsets) - 1, BOUNDS_CHUNK_NUMBERS):
        some = offsets[start : start + BOUNDS_CHUNK_NUMBERS]
        within = (data[some[some < len(data)]] & 0xC0) == 0x80
        if within.any():
            raise InputError(f"{name} {start + int(np.argmax(within))} begins within a character: give texts as UTF-8")


def find_repeated_text(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> int | None:
    """Return the index of the first text that repeats an earlier one; None if all are distinct.

    Only texts with equal hashes are compared.

    >>> find_repeated_text(np.array([0, 1, 2, 3]), np.frombuffer(b"aba", np.uint8))
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
        # A difference of sums is the text's own sum times FACTOR**(its offset).
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


def ensure_frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if it is read-only, otherwise a read-only copy.

    Checked arrays must not change. Only a view made before its array became read-only could still change it.

    >>> a = np.arange(3)
    >>> ensure_frozen(a) is a, ensure_frozen(ensure_frozen(a)).flags.writeable
    (False, False)
    """
    whole: Any = array
    while isinstance(whole, np.ndarray) and not whole.flags.writeable:
        whole = whole.base
    if array.flags.c_contiguous and not isinstance(whole, np.ndarray):
        return array
    return freeze(np.array(array, order="C"))


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make a new array, which nobody else refers to, read-only and return it."""
    whole: Any = array
    while isinstance(whole, np.ndarray):
        whole.flags.writeable = False
        whole = whole.base
    return array


Kind = Literal["string", "integer", "boolean"]
Id = str | int | bool
KIND_OF_TYPE: Final[dict[type, Kind]] = {str: "string", int: "integer", bool: "boolean"}
DTYPE_OF_KIND: Final[dict[Kind, type[np.generic]]] = {"string": np.uint8, "integer": np.int64, "boolean": np.bool_}
MAX_INTEGER_ID: Final = 2**63 - 1


class Vocabulary:
    """An immutable list of distinct ids; an id's code is its index in the list.

    Examples
    --------
    >>> v = Vocabulary.of(["cat", "dog"])
    >>> v[1], v.codes(["dog", "cow"]).tolist(), len(v)
    ('dog', [1, -1], 2)

    """

    kind: Kind
    values: NDArray[np.generic]  # string: uint8, the bytes of all texts; integer: int64; boolean: bool
    offsets: NDArray[np.int64]  # string: [n + 1], where each text begins; else empty

    is_hashed: ClassVar[bool] = False  # whether ids are found by their hash, without a dictionary of all of them
    is_declared: bool = False  # whether somebody gave these ids in this order, as labels are declared: it may mean something

    def __init__(self, kind: Kind, values: NDArray[np.generic], offsets: NDArray[np.int64] | None = None) -> None:
        """Check the arrays and copy them unless they are read-only; a mapped file is checked on first use.

        Parameters
        ----------
        kind : Kind
            Type of the ids: "string", "integer" or "boolean".
        values : array of generic
            The ids; for strings, the UTF-8 bytes of all of them (uint8).
        offsets : array of int64, optional
            For strings, shape (n + 1,): where each id begins in `values`.

        """
        if kind not in DTYPE_OF_KIND:
            raise choice_error("kind", kind, DTYPE_OF_KIND)
        self.kind = kind
        self.values = ensure_frozen(require_array("values", values, DTYPE_OF_KIND[kind]))
        if kind == "string":
            self.offsets = ensure_frozen(require_array("offsets", offsets, np.int64))
            if not len(self.offsets):
                raise InputError("offsets are empty: they must begin with 0")
        elif offsets is None or not np.size(offsets):
            self.offsets = np.zeros(0, np.int64)
        else:
            raise InputError(f"offsets are for ids of kind string: leave them out for kind {kind}")
        self._is_valid = self._is_distinct = False  # whether that is known
        if not (is_mapped(self.values) or is_mapped(self.offsets)):
            self._require_valid("ids")

    @classmethod
    def wrap(cls, kind: Kind, values: NDArray[np.generic], offsets: NDArray[np.int64] | None = None) -> Self:
        """Return the vocabulary of trusted new arrays, neither checked nor copied.

        Parameters
        ----------
        kind, values, offsets : as for the class
            The arrays; they become read-only.

        """
        out = cls.__new__(cls)
        out.kind = kind
        out.values = freeze(values)
        out.offsets = freeze(np.zeros(0, np.int64) if offsets is None else offsets)
        out._is_valid = out._is_distinct = True
        return out

    def declared(self) -> Vocabulary:
        """Return the same ids, in an order that somebody gave."""
        out = Vocabulary.wrap(self.kind, self.values, self.offsets)
        out._is_valid, out._is_distinct, out.is_declared = self._is_valid, self._is_distinct, True
        return out

    def require_distinct(self, name: str) -> None:
        """Raise unless the ids are distinct and the arrays valid; earlier checks are not repeated.

        Parameters
        ----------
        name : str
            What the error message calls these ids.

        Raises
        ------
        InputError
            If an id occurs twice, or an array is damaged.

        """
        self._require_valid(name)
        if self._is_distinct:
            return
        if self.kind == "string":
            again = find_repeated_text(self.offsets, self.values.view(np.uint8))
        else:
            first = np.unique(self.values, return_index=True)[1]
            later = np.ones(len(self.values), np.bool_)
            later[first] = False
            again = int(np.argmax(later)) if later.any() else None
        if again is not None:
            raise InputError(f"{name} hold {quote(self[again])} twice, the second time at index {again}: give distinct ids")
        self._is_distinct = True

    def _require_valid(self, name: str) -> None:
        if not self._is_valid and self.kind == "string":
            require_offsets(f"the offsets of {name}", self.offsets, len(self.values))
            require_texts(name, self.offsets, self.values.view(np.uint8))
        self._is_valid = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self.values)
        freeze(self.offsets)
        self._is_valid = self._is_distinct = False
        self._require_valid("ids")

    @classmethod
    def of(cls, ids: Iterable[object], what: str = "id") -> Vocabulary:
        """Return the vocabulary of these ids, in this order.

        Parameters
        ----------
        ids : iterable of object
            Distinct ids of one type.
        what : str, default "id"
            What error messages call an id.

        Raises
        ------
        InputError
            If types are mixed or an id is repeated.

        Examples
        --------
        >>> Vocabulary.of([3, 1]).kind
        'integer'

        """
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise OptionError(f"{what}s is {quote(ids)}: give a list of {what}s")
        given = [i.item() if isinstance(i, np.generic) else i for i in ids]
        kind = common_kind(given, what)
        texts = [text_of(i) for i in given]
        if len(set(texts)) < len(texts):
            twice = next(t for n, t in enumerate(texts) if t in texts[:n])
            raise InputError(f"{what} {quote(twice)} is listed twice: list each one once")
        if kind != "string":
            return cls.wrap(kind, np.array(given, dtype=DTYPE_OF_KIND[kind]))
        out = cls.of_texts(texts)
        out._is_distinct = True
        return out

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Vocabulary:
        """Return a string vocabulary of texts, without checking that they are distinct.

        Parameters
        ----------
        texts : sequence of str
            The ids, in code order.

        """
        try:
            encoded = [t.encode("utf-8") for t in texts]
        except UnicodeEncodeError as error:
            raise InputError(f"{quote(error.object)} is not valid text: {error.reason}") from error
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(b) for b in encoded], out=offsets[1:])
        out = cls.wrap("string", np.frombuffer(b"".join(encoded), np.uint8), offsets)
        out._is_distinct = False
        return out

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.kind == "string" else len(self.values)

    def __getitem__(self, code: int) -> Id:
        if self.kind != "string":
            item: Id = self.values[code].item()
            return item
        n = len(self)
        if not -n <= code < n:
            raise IndexError(code)
        start, end = self.offsets[code % n], self.offsets[code % n + 1]
        return self.values[start:end].tobytes().decode("utf-8")

    def __repr__(self) -> str:
        some = [self[i] for i in range(min(3, len(self)))]
        return f"Vocabulary({len(self)} {self.kind} ids{': ' if some else ''}{', '.join(quote(s, 20) for s in some)})"

    def ids(self) -> list[Id]:
        """Return every id, in code order, as Python objects (for labels and for people, not for millions)."""
        if self.kind != "string":
            listed: list[Id] = self.values.tolist()
            return listed
        whole, cuts = self.values.tobytes(), self.offsets.tolist()
        return [whole[a:b].decode("utf-8") for a, b in itertools.pairwise(cuts)]

    def texts(self) -> list[str]:
        """Return the text of every id, in code order."""
        return [text_of(i) for i in self.ids()]

    def codes(self, ids: Iterable[object]) -> NDArray[np.int64]:
        """Return the code of each id, or -1 if it is unknown.

        Parameters
        ----------
        ids : iterable of object
            Ids to look up, compared as text.

        """
        index = self._index
        return np.array([index.get(text_of(i), -1) for i in ids], np.int64)

    def take(self, codes: NDArray[np.integer]) -> Vocabulary:
        """Return the vocabulary of the ids with these codes, in this order.

        Parameters
        ----------
        codes : array of integer
            Codes of the ids to keep.

        """
        offsets = None
        if self.kind != "string":
            values = self.values[codes]
        else:
            starts = self.offsets[:-1][codes]
            lengths = self.offsets[1:][codes] - starts
            offsets = np.zeros(len(codes) + 1, np.int64)
            np.cumsum(lengths, out=offsets[1:])
            # Byte i of the new text is at (start of its id) + (offset within its id).
            values = self.values[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
        out, rises = Vocabulary.wrap(self.kind, values, offsets), bool((codes[1:] > codes[:-1]).all())
        out._is_valid = self._is_valid
        out._is_distinct = self._is_distinct and (
            rises or (bool(codes.min() >= 0) and bool((np.bincount(codes, minlength=len(self)) <= 1).all()))
        )
        out.is_declared = self.is_declared and rises
        return out

    def text_buffers(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return (offsets [n + 1], bytes) of the texts of all ids, regardless of their kind."""
        if self.kind == "string":
            return self.offsets, self.values.astype(np.uint8, copy=False)
        plain = np.where(self.values, b"true", b"false").astype("S5") if self.kind == "boolean" else self.values.astype("S20")
        wide = plain.view(np.uint8).reshape(len(plain), plain.itemsize)
        offsets = np.zeros(len(plain) + 1, np.int64)
        np.cumsum((wide != 0).sum(axis=1), out=offsets[1:])
        return offsets, wide[wide != 0]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {t: code for code, t in enumerate(self.texts())}


def text_of(value: object) -> str:
    """Return the text that identifies an id: decimal digits for numbers, true and false for booleans.

    >>> text_of(7), text_of(True), text_of("a b")
    ('7', 'true', 'a b')
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)


def common_kind(values: Sequence[object], what: str, first_row: int = 0) -> Kind:
    """Return the common kind of all values; the error names the first value of another type."""
    kinds: set[type] = set(map(type, values))
    if len(kinds) > 1 or not kinds <= KIND_OF_TYPE.keys():
        first = next((t for v in values if (t := type(v)) in KIND_OF_TYPE), None)
        row, bad = next((n, v) for n, v in enumerate(values) if type(v) is not first)
        rest = f"the previous ids are of type {first.__name__}" if first and row else "ids are text, whole numbers or booleans"
        raise InputError(
            f"{what} in row {first_row + row + 1} is {quote(bad)} of type {type(bad).__name__}: {rest}; use one type throughout"
        )
    kind = KIND_OF_TYPE[kinds.pop()] if kinds else "string"
    if kind == "integer" and max(map(abs, values), default=0) > MAX_INTEGER_ID:  # type: ignore[arg-type]
        raise InputError(f"a {what} is beyond 64 bits: give such ids as text")
    return kind
