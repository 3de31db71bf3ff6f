"""Ids and their codes: the task, worker or label of each integer.

An id *is* its text: `7` and `"7"` name the same task. The type (text, whole number, true/false) is only
remembered so that callers get back what they gave. Texts are stored in two flat arrays, as in Arrow, so
that millions of ids need no Python object.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from adjudge.data import bounds
from adjudge.errors import InputError, OptionError, shown, unknown

Kind = Literal["string", "integer", "boolean"]
Id = str | int | bool
KIND_OF_TYPE: Final[dict[type, Kind]] = {str: "string", int: "integer", bool: "boolean"}
DTYPE_OF_KIND: Final[dict[Kind, type[np.generic]]] = {"string": np.uint8, "integer": np.int64, "boolean": np.bool_}
LARGEST: Final = 2**63 - 1


class Vocabulary:
    """An immutable list of distinct ids; an id's code is its index in the list.

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
        """Check the arrays, and copy them unless they are read-only; a mapped file is checked on first use."""
        if kind not in DTYPE_OF_KIND:
            raise unknown("kind", kind, DTYPE_OF_KIND)
        self.kind = kind
        self.values = bounds.frozen(bounds.require_array("values", values, DTYPE_OF_KIND[kind]))
        if kind == "string":
            self.offsets = bounds.frozen(bounds.require_array("offsets", offsets, np.int64))
            if not len(self.offsets):
                raise InputError("offsets are empty: they must begin with 0")
        elif offsets is None or not np.size(offsets):
            self.offsets = np.zeros(0, np.int64)
        else:
            raise InputError(f"offsets are for ids of kind string: leave them out for kind {kind}")
        self._is_valid = self._is_distinct = False  # whether that is known
        if not (bounds.is_mapped(self.values) or bounds.is_mapped(self.offsets)):
            self._require_valid("ids")

    @classmethod
    def known(cls, kind: Kind, values: NDArray[np.generic], offsets: NDArray[np.int64] | None = None) -> Self:
        """Return the vocabulary of trusted new arrays: they are neither checked nor copied."""
        out = cls.__new__(cls)
        out.kind = kind
        out.values = bounds.freeze(values)
        out.offsets = bounds.freeze(np.zeros(0, np.int64) if offsets is None else offsets)
        out._is_valid = out._is_distinct = True
        return out

    def declared(self) -> Vocabulary:
        """Return the same ids, in an order that somebody gave."""
        out = Vocabulary.known(self.kind, self.values, self.offsets)
        out._is_valid, out._is_distinct, out.is_declared = self._is_valid, self._is_distinct, True
        return out

    def require_distinct(self, name: str) -> None:
        """Raise unless these are distinct ids in valid arrays; earlier checks are not repeated."""
        self._require_valid(name)
        if self._is_distinct:
            return
        if self.kind == "string":
            again = bounds.repeated_text(self.offsets, self.values.view(np.uint8))
        else:
            first = np.unique(self.values, return_index=True)[1]
            later = np.ones(len(self.values), np.bool_)
            later[first] = False
            again = int(np.argmax(later)) if later.any() else None
        if again is not None:
            raise InputError(f"{name} hold {shown(self[again])} twice, the second time at index {again}: give distinct ids")
        self._is_distinct = True

    def _require_valid(self, name: str) -> None:
        if not self._is_valid and self.kind == "string":
            bounds.require_offsets(f"the offsets of {name}", self.offsets, len(self.values))
            bounds.require_texts(name, self.offsets, self.values.view(np.uint8))
        self._is_valid = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        bounds.freeze(self.values)
        bounds.freeze(self.offsets)
        self._is_valid = self._is_distinct = False
        self._require_valid("ids")

    @classmethod
    def of(cls, ids: Iterable[object], what: str = "id") -> Vocabulary:
        """Return the vocabulary of these ids in this order; mixed types and repeats are refused.

        >>> Vocabulary.of([3, 1]).kind
        'integer'
        """
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise OptionError(f"{what}s is {shown(ids)}: give a list of {what}s")
        given = [i.item() if isinstance(i, np.generic) else i for i in ids]
        kind = common_kind(given, what)
        texts = [text_of(i) for i in given]
        if len(set(texts)) < len(texts):
            twice = next(t for n, t in enumerate(texts) if t in texts[:n])
            raise InputError(f"{what} {shown(twice)} is listed twice: list each one once")
        if kind != "string":
            return cls.known(kind, np.array(given, dtype=DTYPE_OF_KIND[kind]))
        out = cls.of_texts(texts)
        out._is_distinct = True
        return out

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Vocabulary:
        """Return a string vocabulary of texts, without checking that they are distinct."""
        try:
            encoded = [t.encode("utf-8") for t in texts]
        except UnicodeEncodeError as error:
            raise InputError(f"{shown(error.object)} is not valid text: {error.reason}") from error
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(b) for b in encoded], out=offsets[1:])
        out = cls.known("string", np.frombuffer(b"".join(encoded), np.uint8), offsets)
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
        return f"Vocabulary({len(self)} {self.kind} ids{': ' if some else ''}{', '.join(shown(s, 20) for s in some)})"

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
        """Return the code of each id, compared by text; -1 where it is unknown."""
        index = self._index
        return np.array([index.get(text_of(i), -1) for i in ids], np.int64)

    def take(self, codes: NDArray[np.integer]) -> Vocabulary:
        """Return the vocabulary of the ids with these codes, in this order."""
        if not len(codes):
            none = Vocabulary.known(self.kind, self.values[:0].copy(), np.zeros(int(self.kind == "string"), np.int64))
            none.is_declared = self.is_declared
            return none
        if self.kind != "string":
            return self._taken(codes, self.values[codes])
        starts = self.offsets[:-1][codes]
        lengths = self.offsets[1:][codes] - starts
        offsets = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Byte i of the new text lies at (start of its id) + (place within its id).
        where = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return self._taken(codes, self.values[where], offsets)

    def _taken(self, codes: NDArray[np.integer], *arrays: NDArray[Any]) -> Vocabulary:
        out = Vocabulary.known(self.kind, *arrays)
        out._is_valid = self._is_valid
        out._is_distinct = self._is_distinct and _are_distinct(codes, len(self))
        out.is_declared = self.is_declared and bool((codes[1:] > codes[:-1]).all())
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


def _are_distinct(codes: NDArray[np.integer], n: int) -> bool:
    """Return whether these codes below n are known to be distinct; False also if that is not cheap to decide."""
    if (codes[1:] > codes[:-1]).all():
        return True
    return bool(codes.min() >= 0) and bool((np.bincount(codes, minlength=n) <= 1).all())


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
            f"{what} in row {first_row + row + 1} is {shown(bad)} of type {type(bad).__name__}: {rest}; use one type throughout"
        )
    kind = KIND_OF_TYPE[kinds.pop()] if kinds else "string"
    if kind == "integer" and max(map(abs, values), default=0) > LARGEST:  # type: ignore[arg-type]
        raise InputError(f"a {what} is beyond 64 bits: give such ids as text")
    return kind
