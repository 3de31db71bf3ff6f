"""The ids that clients gave to their votes, and the votes they stand for, so that a repeated request counts once.

Ids are kept forever, in little memory. The newest are in a dictionary. Every 32,768 of them become a *generation*: pages of
sorted hashes in the store. For most new ids, a Bloom filter tells without a query that no generation has them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
import numpy as np

from adjudge.service.store.bloom import HASH_BYTES, Bloom
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Change, Vote
from adjudge.service.store.rows import encode_text

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

IDS_PER_GENERATION: Final = 1 << 15
FILTER_INTERVAL_IDS: Final = 16  # new ids between additions to the filter
FILTER_CHUNK_IDS: Final = 512  # ids of the last generation added at once
IDS_PER_PAGE: Final = 60  # two pages of 60 fill a page of SQLite
IdStatus: TypeAlias = Literal["new", "same", "other"]


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
