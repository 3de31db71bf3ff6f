"""Full checks of data from outside, before a number is used as an index.

A checksum finds damage, but neither forgery nor the mistakes of an older version. Every check says in one line what
is wrong and in which source, and works on whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from adjudge.data.bounds import require_below, require_offsets, require_texts
from adjudge.errors import InputError, listed, shown

Types = Mapping[str, type | tuple[type, ...]]  # the types that each value of a mapping may be of
LARGEST = 2.0**62  # no count of votes comes near this; sums of far more than there can be rows stay finite


@dataclass(frozen=True)
class Array:
    """What an array must be: its type, as NumPy writes it ("<i8"), and its dimensions.

    A dimension is a number, or a name that stands for the same number wherever it occurs; "tasks+1" is one more.
    """

    dtype: str | None  # None: any that a container can hold
    shape: tuple[str | int, ...]
    optional: bool = False


@dataclass(frozen=True)
class Bounds:
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
                self.fail(f"{name} has {key} {shown(given[key])}, which is not of type {wanted}")

    def arrays(self, given: Mapping[str, NDArray[Any]], wanted: Mapping[str, Array]) -> dict[str, int]:
        """Raise unless the arrays have the wanted names, types and shapes; return the size of each named dimension."""
        strangers = [name for name in given if name not in wanted]
        self.need(not strangers, f"it has an array {listed(map(shown, strangers), 3)} that nothing uses")
        sizes: dict[str, int] = {}
        for name, want in wanted.items():
            array = given.get(name)
            if array is None:
                self.need(want.optional, f"the array {name} is missing")
                continue
            self.need(want.dtype in (None, array.dtype.str), f"{name} is of type {array.dtype.str}, not {want.dtype}")
            self.need(array.ndim == len(want.shape), f"{name} has {array.ndim} dimensions, not {len(want.shape)}")
            for size, dimension in zip(array.shape, want.shape, strict=True):
                label, more = (dimension, 0) if isinstance(dimension, int) else _dimension(dimension)
                expected = label if isinstance(label, int) else sizes.setdefault(label, size - more)
                self.need(expected >= 0 and size == expected + more, f"{name} has {size} items instead of {expected + more}")
        return sizes

    def pointers(self, name: str, array: NDArray[np.int64], end: int, *, rising: bool = False) -> None:
        """Raise unless positions begin at 0, never fall (or, `rising`, always rise) and end at `end`."""
        with self._said():
            require_offsets(name, array, end, strictly=rising)

    def within(self, name: str, array: NDArray[Any], low: float, high: float) -> None:
        """Raise unless every number is from `low` to `high`, both included; NaN is an error."""
        if array.size and not (array.min() >= low and array.max() <= high):
            flat = array.ravel()
            at = int((~((flat >= low) & (flat <= high))).argmax())
            self.fail(f"{name} has {flat[at]} at item {at}, not a number from {low} to {high}")

    def below(self, name: str, array: NDArray[np.integer], limit: int) -> None:
        """Raise unless every number can be an index of something with `limit` items."""
        with self._said():
            require_below(name, array, limit)

    def texts(self, name: str, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        """Raise unless bytes split at these offsets are texts in UTF-8."""
        self.pointers(f"{name}_offsets", offsets, len(data))
        if len(data) and int(data.max()) >= 0x80:  # ASCII can be cut anywhere
            with self._said():
                require_texts(f"{name}_texts", offsets, data)

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Add the name of the source to the error of an invalid array."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.source} is not valid: {error}") from None


def _dimension(text: str) -> tuple[str, int]:
    """Return the name of a dimension and what is added to it.

    >>> _dimension("tasks+1"), _dimension("tasks")
    (('tasks', 1), ('tasks', 0))
    """
    name, _, more = text.partition("+")
    return name, int(more or 0)


def non_overlapping(places: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts of a file, each (begin, end), have no byte in common.

    >>> non_overlapping([(8, 16), (0, 8)]), non_overlapping([(0, 9), (8, 16)])
    (True, False)
    """
    ordered = sorted(place for place in places if place[0] < place[1])
    return all(before[1] <= after[0] for before, after in zip(ordered, ordered[1:], strict=False))
