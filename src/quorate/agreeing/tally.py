"""Counting keys: in one array where their range is small, by sorting where it is large."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.errors import QuorateError

DENSE: Final = 1 << 25  # keys counted in one array, of 32 bits each
PENDING: Final = 1 << 22  # sorted keys held before they are merged
MOST: Final = 1 << 23  # distinct keys held at all, where they are sorted

Ints = NDArray[np.int64]


class TooManyError(QuorateError):
    """There are more distinct keys than can be held."""


class Tally:
    """Counts of keys 0 … size - 1, added block by block.

    >>> t = Tally(10)
    >>> t.add(np.array([3, 1, 3]))
    >>> [part.tolist() for part in t.counts()]
    [[1, 3], [1, 2]]
    """

    def __init__(self, size: int) -> None:
        self._dense = np.zeros(size, np.int32) if size <= DENSE else None
        self._keys: list[Ints] = []
        self._counts: list[Ints] = []
        self._pending = 0

    def add(self, keys: Ints) -> None:
        """Counts these keys."""
        if self._dense is not None:
            np.add.at(self._dense, keys, np.int32(1))
            return
        found, times = np.unique(keys, return_counts=True)
        self._keys.append(found)
        self._counts.append(times)
        self._pending += len(found)
        if self._pending > PENDING:
            self._merge()

    def counts(self) -> tuple[Ints, Ints]:
        """Returns the keys that occur, in order, and how often each does."""
        if self._dense is not None:
            keys = np.flatnonzero(self._dense)
            return keys, self._dense[keys].astype(np.int64)
        self._merge()
        return self._keys[0], self._counts[0]

    def _merge(self) -> None:
        keys = np.concatenate([np.zeros(0, np.int64), *self._keys])
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])
        order = np.argsort(keys, kind="stable")  # of sorted runs: a merge
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys, self._counts = [keys[first]], [np.add.reduceat(counts, first) if len(first) else counts]
        self._pending = 0
        if len(first) > MOST:
            raise TooManyError(f"more than {MOST} cells")
