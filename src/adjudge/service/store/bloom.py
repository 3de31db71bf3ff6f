"""A set of hashes that may report members it does not have, but never misses one, in a few bits per hash.

A Bloom filter (Communications of the ACM 13, 1970) made of slices that double in size, so that it need not know the number of
hashes in advance (Almeida et al., Information Processing Letters 101, 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from adjudge.service.store.errors import DamagedStore

BITS_PER_HASH: Final = 12
PROBES: Final = 8  # per hash; with 12 bits per hash a full slice reports 3 of 1000 foreign hashes
SMALLEST_SLICE_HASHES: Final = 1 << 15
HASH_BYTES: Final = 16
Words: Any = np.dtype("<u8")


class _FilterSlice:
    """A filter with a fixed capacity."""

    __slots__ = ("bits", "capacity", "count", "size")

    def __init__(self, capacity: int, bits: bytearray | None = None, count: int = 0) -> None:
        self.capacity = capacity
        self.size = capacity * BITS_PER_HASH
        self.bits = bytearray(self.size >> 3) if bits is None else bits
        self.count = count

    def may_contain(self, at: int, step: int) -> bool:
        """Return whether a hash may have been added: its probes begin at `at`, and are `step` apart."""
        bits, size = self.bits, self.size
        at, step = at % size, step % size | 1
        for bit in range(at, at + PROBES * step, step):
            probe = bit % size
            if not bits[probe >> 3] >> (probe & 7) & 1:
                return False
        return True

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Add hashes, an array of shape (n, 2)."""
        view = np.frombuffer(self.bits, np.uint8)
        at, step = (keys % np.uint64(self.size)).T
        probes = (at + np.arange(PROBES, dtype=np.uint64)[:, None] * (step | np.uint64(1))) % np.uint64(self.size)
        bits = np.uint8(1) << (probes & np.uint64(7)).astype(np.uint8)
        np.bitwise_or.at(view, (probes >> np.uint64(3)).ravel(), bits.ravel())
        self.count += len(keys)


class Bloom:
    """A set of uniformly distributed hashes of 16 bytes.

    >>> from hashlib import blake2b
    >>> keys = Bloom()
    >>> key = blake2b(b"t1", digest_size=16).digest()
    >>> keys.add(key)
    >>> key in keys, blake2b(b"t2", digest_size=16).digest() in keys, len(keys)
    (True, False, 1)
    """

    def __init__(self) -> None:
        self._slices = [_FilterSlice(SMALLEST_SLICE_HASHES)]

    def __len__(self) -> int:
        return sum(part.count for part in self._slices)

    def __contains__(self, key: bytes) -> bool:
        return next(self.ranges(key), None) is not None

    def ranges(self, key: bytes) -> Iterator[tuple[int, int]]:
        """Yield every range of indices that may contain a hash, where index 0 is the hash that was added first."""
        at, step = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        start = 0
        for part in self._slices:
            if part.may_contain(at, step):
                yield start, start + part.count
            start += part.count

    def add(self, *keys: bytes) -> None:
        """Add hashes, 16 bytes each, or several of them joined."""
        pairs = np.frombuffer(b"".join(keys), Words).astype(np.uint64, copy=False).reshape(-1, 2)
        while len(pairs):
            part = self._slices[-1]
            if part.count == part.capacity:
                part = _FilterSlice(2 * part.capacity)
                self._slices.append(part)
            fitting = pairs[: part.capacity - part.count]
            part.add(fitting)
            pairs = pairs[len(fitting) :]

    def state(self) -> list[tuple[int, bytes]]:
        """Return the state that `from_state` restores: for each slice the number of hashes, and the bits."""
        return [(part.count, bytes(part.bits)) for part in self._slices]

    @classmethod
    def from_state(cls, state: list[tuple[int, bytes]]) -> Bloom:
        """Return the filter that had this state; raise `DamagedStore` if it is inconsistent."""
        bloom = cls()
        bloom._slices = [
            _FilterSlice(SMALLEST_SLICE_HASHES << at, bytearray(bits), count) for at, (count, bits) in enumerate(state)
        ]
        for at, part in enumerate(bloom._slices):
            full = part.count == part.capacity or at == len(state) - 1
            if len(part.bits) << 3 != part.size or not full or not 0 <= part.count <= part.capacity:
                raise DamagedStore(f"a filter of ids does not fit: slice {at} has {part.count} hashes in {len(part.bits)} bytes")
        if not state:
            raise DamagedStore("a filter of ids does not fit: it has no slices")
        return bloom
