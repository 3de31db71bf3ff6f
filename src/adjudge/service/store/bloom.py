"""A set of hashes that is sometimes wrong one way: what was never added may seem to be there, at a few bits per hash.

Bloom's filter (Communications of the ACM 13, 1970), made of slices that double in size, so that it need not know how many
hashes will come (Almeida et al., Information Processing Letters 101, 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from adjudge.service.store.errors import DamagedStore

BITS_PER_HASH: Final = 12
PROBES: Final = 8  # of each hash; with 12 bits per hash 3 of 1000 foreign hashes seem to be there, per full slice
SMALLEST: Final = 1 << 15  # hashes in the first slice
HASH_BYTES: Final = 16
Words: Any = np.dtype("<u8")


class _FilterSlice:
    """A filter for so many hashes."""

    __slots__ = ("bits", "capacity", "count", "size")

    def __init__(self, capacity: int, bits: bytearray | None = None, count: int = 0) -> None:
        self.capacity = capacity
        self.size = capacity * BITS_PER_HASH
        self.bits = bytearray(self.size >> 3) if bits is None else bits
        self.count = count

    def holds(self, at: int, step: int) -> bool:
        """Return whether a hash may have been added: its probes begin at `at`, and are `step` apart."""
        bits, size = self.bits, self.size
        at, step = at % size, step % size | 1
        for bit in range(at, at + PROBES * step, step):
            probe = bit % size
            if not bits[probe >> 3] >> (probe & 7) & 1:
                return False
        return True

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Add hashes: an array of shape (n, 2)."""
        view = np.frombuffer(self.bits, np.uint8)
        at, step = (keys % np.uint64(self.size)).T
        probes = (at + np.arange(PROBES, dtype=np.uint64)[:, None] * (step | np.uint64(1))) % np.uint64(self.size)
        bits = np.uint8(1) << (probes & np.uint64(7)).astype(np.uint8)
        np.bitwise_or.at(view, (probes >> np.uint64(3)).ravel(), bits.ravel())
        self.count += len(keys)


class Bloom:
    """A set of hashes of 16 bytes, each uniform.

    >>> from hashlib import blake2b
    >>> some = Bloom()
    >>> key = blake2b(b"t1", digest_size=16).digest()
    >>> some.add(key)
    >>> key in some, blake2b(b"t2", digest_size=16).digest() in some, len(some)
    (True, False, 1)
    """

    def __init__(self) -> None:
        self._slices = [_FilterSlice(SMALLEST)]

    def __len__(self) -> int:
        return sum(part.count for part in self._slices)

    @property
    def memory(self) -> int:
        """Bytes taken by the filter."""
        return sum(len(part.bits) for part in self._slices)

    def __contains__(self, key: bytes) -> bool:
        return next(self.where(key), None) is not None

    def where(self, key: bytes) -> Iterator[tuple[int, int]]:
        """Yield every range of numbers in which a hash may have been added, the first hash having the number 0.

        - `key`: the hash.
        """
        at, step = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        start = 0
        for part in self._slices:
            if part.holds(at, step):
                yield start, start + part.count
            start += part.count

    def add(self, *keys: bytes) -> None:
        """Add hashes.

        - `keys`: each of 16 bytes.
        """
        self.add_many(b"".join(keys))

    def add_many(self, keys: bytes) -> None:
        """Add hashes.

        - `keys`: 16 bytes each, one after the other.
        """
        pairs = np.frombuffer(keys, Words).astype(np.uint64, copy=False).reshape(-1, 2)
        while len(pairs):
            part = self._slices[-1]
            if part.count == part.capacity:
                part = _FilterSlice(2 * part.capacity)
                self._slices.append(part)
            some = pairs[: part.capacity - part.count]
            part.add(some)
            pairs = pairs[len(some) :]

    def state(self) -> list[tuple[int, bytes]]:
        """Return what `restored` makes the same filter of: for each slice the number of hashes, and the bits."""
        return [(part.count, bytes(part.bits)) for part in self._slices]

    @classmethod
    def restored(cls, state: list[tuple[int, bytes]]) -> Bloom:
        """Return the filter that had this state.

        - `state`: of `state()`.
        """
        bloom = cls()
        bloom._slices = [_FilterSlice(SMALLEST << at, bytearray(bits), count) for at, (count, bits) in enumerate(state)]
        for at, part in enumerate(bloom._slices):
            full = part.count == part.capacity or at == len(state) - 1
            if len(part.bits) << 3 != part.size or not full or not 0 <= part.count <= part.capacity:
                raise DamagedStore(f"a filter of ids does not fit: slice {at} has {part.count} hashes in {len(part.bits)} bytes")
        if not state:
            raise DamagedStore("a filter of ids does not fit: it has no slices")
        return bloom
