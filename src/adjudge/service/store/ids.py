"""The ids that clients gave to their votes, and the votes they stand for, so that a repeated request counts once.

Ids are kept forever, in little memory. The newest are in a dictionary. Every 32,768 of them become a *generation*: pages of
sorted hashes in the store. For most new ids, a Bloom filter (Communications of the ACM 13, 1970) tells without a query that no
generation has them. It is made of slices that double in size, so that it need not know the number of hashes in advance
(Almeida et al., Information Processing Letters 101, 2007).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Change, Vote
from adjudge.service.store.rows import encode_text

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

BITS_PER_HASH: Final = 12
PROBES: Final = 8  # per hash; with 12 bits per hash a full slice reports 3 of 1000 foreign hashes
SMALLEST_SLICE_HASHES: Final = 1 << 15
HASH_BYTES: Final = 16
Words: Any = np.dtype("<u8")
IDS_PER_GENERATION: Final = 1 << 15
FILTER_INTERVAL_IDS: Final = 16  # new ids between additions to the filter
FILTER_CHUNK_IDS: Final = 512  # ids of the last generation added at once
IDS_PER_PAGE: Final = 60  # two pages of 60 fill a page of SQLite
IdStatus: TypeAlias = Literal["new", "same", "other"]


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


def content_of(task: str, worker: int, label: int) -> bytes:
    """Return the content that an id stands for, from the fields of a `Vote` or `Change`."""
    return encode_text(f"{worker} {label} {task}")


def hash_of(data: bytes) -> bytes:
    """Return the hash, of 16 bytes, under which ids, contents and tasks are stored."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


class Generation:
    """Ids that were given between two positions of a log, as a `Batch` carries them to the store.

    `until` is the position up to which this and the earlier generations have every id; `contents` maps the hash of an id to
    that of its content.
    """

    __slots__ = ("campaign", "contents", "number", "until", "written")

    def __init__(self, campaign: int, number: int, until: int, contents: dict[bytes, bytes]) -> None:
        self.campaign = campaign
        self.number = number  # 0, 1, 2, …
        self.until = until
        self.contents = contents
        self.written = False  # set by the store once the generation is on disk, where lookups then find it

    def pages(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield the first hash of each page, that of the next page, and the page: sorted hashes of ids, then of contents.

        The first page begins and the last one ends with no hash, so that every hash has a page and a missing one is noticed.
        """
        ids = np.frombuffer(b"".join(self.contents), ">u8").reshape(-1, 2)
        contents = np.frombuffer(b"".join(self.contents.values()), ">u8").reshape(-1, 2)
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        keys, values = ids[order].tobytes(), contents[order].tobytes()
        for start in range(0, len(keys), IDS_PER_PAGE * HASH_BYTES):
            end = start + IDS_PER_PAGE * HASH_BYTES
            first = keys[start : start + HASH_BYTES] if start else b""
            yield first, keys[end : end + HASH_BYTES], keys[start:end] + values[start:end]


class _IndexState(msgspec.Struct, array_like=True):
    """The state of an index for a snapshot; its size is bounded, as generations are in the store."""

    generation: int
    after: int
    recent: dict[bytes, bytes]
    filter: list[tuple[int, bytes]]


class IdIndex:
    """The ids that were given in one campaign. One thread uses it.

    Without a store, nothing outlives the process. With `state`, from a snapshot, the index resumes as it was; without it, it
    begins with the generations of the store. `catch_up` adds the ids of the log after the position `after`.

    >>> index = IdIndex(None, 1)
    >>> vote = content_of("t1", 0, 1)
    >>> index.remember("a", vote, 2), index.remember("a", vote, 3), index.remember("a", content_of("t1", 0, 2), 3)
    ('new', 'same', 'other')
    """

    def __init__(self, store: Store | None, campaign: int, state: bytes | None = None) -> None:
        self._store = store
        self._campaign = campaign
        self._recent: dict[bytes, bytes] = {}
        self._unwritten: list[Generation] = []  # not yet in the store, or not in the filter
        self._full: list[Generation] = []  # and not yet taken by `take_full`
        self._filter = Bloom()
        self._adding = b""  # hashes of the last generation that are not in the filter yet
        self._generation = 0  # the number of the next
        self.after = 0
        generations = [] if store is None else store.id_generations(campaign)
        if state is not None:
            self._restore(state, len(generations))
        for number, until in generations[self._generation :]:
            if number != self._generation:
                raise DamagedStore(f"ids of campaign {campaign} are missing: generation {self._generation}; restore a backup")
            assert store is not None
            self._filter.add(*(body[: len(body) // 2] for body in store.id_pages(campaign, number)))
            self._generation += 1
            self.after = until
            self._recent = {}  # they are in a generation by now
        if len(self._filter) != self._generation * IDS_PER_GENERATION:
            have = f"{len(self._filter)} of {self._generation * IDS_PER_GENERATION}"
            raise DamagedStore(f"ids of campaign {campaign} are missing: {have} are there; restore a backup")

    def _restore(self, state: bytes, stored: int) -> None:
        """Resume from a state, provided that the store has all of its generations."""
        try:
            saved = msgspec.msgpack.decode(state, type=_IndexState)
        except msgspec.DecodeError as error:
            raise DamagedStore(f"the ids in a snapshot of campaign {self._campaign} cannot be read: {error}") from error
        if saved.generation <= stored:
            self._generation, self.after, self._recent = saved.generation, saved.after, saved.recent
            self._filter = Bloom.from_state(saved.filter)

    def __len__(self) -> int:
        return self._generation * IDS_PER_GENERATION + len(self._recent)

    def remember(self, id: str, content: bytes, position: int) -> IdStatus:  # noqa: A002 (the name of the field)
        """Return whether an id is new, and store it then, or was given before with the same or with other content.

        `content` is the result of `content_of`, and `position` that of the event that carries the id.
        """
        key, value = hash_of(encode_text(id)), hash_of(content)
        known = self._find(key)
        if known is not None:
            return "same" if known == value else "other"
        self._recent[key] = value
        self.after = position
        if self._adding and not len(self._recent) % FILTER_INTERVAL_IDS:
            self._add(FILTER_CHUNK_IDS)
        if len(self._recent) == IDS_PER_GENERATION:
            self._close()
        return "new"

    def look_up(self, id: str, content: bytes) -> IdStatus:  # noqa: A002
        """Return what `remember` would, without storing anything."""
        known = self._find(hash_of(encode_text(id)))
        return "new" if known is None else "same" if known == hash_of(content) else "other"

    def take_full(self) -> Generation | None:
        """Return a generation for the batch that carries the last remembered id, if it has become full.

        Call this after every `remember`. If a batch is lost, create the index again from the store.
        """
        return self._full.pop(0) if self._full else None

    def _close(self) -> None:
        """Turn the recent ids into a generation."""
        self._add(IDS_PER_GENERATION)
        closed = Generation(self._campaign, self._generation, self.after, self._recent)
        self._adding = b"".join(closed.contents)
        self._unwritten = [*(generation for generation in self._unwritten if not generation.written), closed]
        self._full.append(closed)
        self._generation += 1
        self._recent = {}

    def _add(self, count: int) -> None:
        """Add some of the last generation to the filter; all of it at once would take milliseconds."""
        size = count * HASH_BYTES
        self._filter.add(self._adding[:size])
        self._adding = self._adding[size:]
        if not self._adding:
            self._unwritten = [generation for generation in self._unwritten if not generation.written]

    def catch_up(self, until: int) -> None:
        """Add the ids of the log after `after`, up to a position."""
        assert self._store is not None
        for first, events in self._store.read(self._campaign, after=self.after, until=until):
            for position, event in enumerate(events, first):
                if isinstance(event, Vote | Change) and event.id is not None:
                    self.remember(event.id, content_of(event.task, event.worker, event.label), position)
        self.after = max(self.after, until)

    def state(self, position: int) -> bytes:
        """Return the state for a snapshot; with it, an index needs only the log after `position`."""
        self.after = max(self.after, position)
        self._add(IDS_PER_GENERATION)
        return msgspec.msgpack.encode(_IndexState(self._generation, self.after, self._recent, self._filter.state()))

    def _find(self, key: bytes) -> bytes | None:
        """Return the hash of the content of an id, None if the id is unknown."""
        recent = self._recent.get(key)
        if recent is not None:
            return recent
        for generation in self._unwritten:
            if key in generation.contents:
                return generation.contents[key]
        for start, end in self._filter.ranges(key):
            if self._store is not None:
                numbers = start // IDS_PER_GENERATION, -(-end // IDS_PER_GENERATION)
                for body in self._store.id_candidates(self._campaign, key, *numbers):
                    content = find_in_page(body, key)
                    if content is not None:
                        return content
        return None


def find_in_page(body: bytes, key: bytes) -> bytes | None:
    """Return the content that a page has for the hash of an id, None if it has none."""
    half = len(body) // 2
    at = bisect_left(range(half // HASH_BYTES), key, key=lambda i: body[i * HASH_BYTES : (i + 1) * HASH_BYTES])
    start = at * HASH_BYTES
    return body[half + start : half + start + HASH_BYTES] if body[start : start + HASH_BYTES] == key and start < half else None
