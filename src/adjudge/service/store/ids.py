"""Which ids clients have given to their votes, and with what content: so that a repeated request counts once.

Ids are kept for ever, in little memory. The newest are in a dictionary. Every 32 768 of them become a *generation*: pages of
sorted hashes in the store. A Bloom filter tells of most new ids that no generation holds them.
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

if TYPE_CHECKING:
    from adjudge.service.store.protocol import Store

GENERATION: Final = 1 << 15  # ids
ADDED_EVERY: Final = 16  # new ids, until some of the last generation are put into the filter
ADDED_AT_ONCE: Final = 512
IDS_PER_PAGE: Final = 60  # ids; two pages of 60 fill a page of SQLite
Answer: TypeAlias = Literal["new", "same", "other"]


def content_of(task: str, worker: int, label: int) -> bytes:
    """Return what an id stands for, from the fields of a `Vote` or `Change`.

    - `task`: its id.
    - `worker`, `label`: their numbers, as the log has them.
    """
    return f"{worker} {label} {task}".encode("utf-8", "surrogatepass")


def hash_of(data: bytes) -> bytes:
    """Return the hash under which ids, contents and tasks are kept: 16 bytes.

    - `data`: what is hashed.
    """
    return blake2b(data, digest_size=HASH_BYTES).digest()


class Generation:
    """Ids that were given between two positions of a log: what a `Batch` carries to the store.

    - `campaign`: its number.
    - `number`: 0, 1, 2, …
    - `until`: every id up to this position is in this generation, or in an earlier one.
    - `contents`: the hash of the content, by the hash of the id.
    """

    __slots__ = ("campaign", "contents", "number", "until", "written")

    def __init__(self, campaign: int, number: int, until: int, contents: dict[bytes, bytes]) -> None:
        self.campaign = campaign
        self.number = number
        self.until = until
        self.contents = contents
        self.written = False  # the store says so once it is on disk: from then on it is found there

    def pages(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield where each page begins, where the next one does, and the page: its sorted hashes of ids, then those of contents.

        The first page begins and the last one ends with no hash: so every hash has a page, and a missing page is noticed.
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
    """The state of an index, for a snapshot: bounded, since generations are in the store."""

    generation: int
    after: int
    recent: dict[bytes, bytes]
    filter: list[tuple[int, bytes]]


class IdIndex:
    """The ids that were given in one campaign. One thread uses it.

    - `store`: where generations are; None where nothing need outlive the process.
    - `campaign`: its number.
    - `state`: of `state()`, from a snapshot: the index then begins as it was. Without one it begins with what the store has.

    The log after the position `after` must be given to it: `catch_up` does, up to a position.

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
        self._full: list[Generation] = []  # and not yet handed out by `full`
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
            self._filter.add_many(b"".join(body[: len(body) // 2] for body in store.id_pages(campaign, number)))
            self._generation += 1
            self.after = until
            self._recent = {}  # what was recent then is in a generation now
        if len(self._filter) != self._generation * GENERATION:
            have = f"{len(self._filter)} of {self._generation * GENERATION}"
            raise DamagedStore(f"ids of campaign {campaign} are missing: {have} are there; restore a backup")

    def _restore(self, state: bytes, stored: int) -> None:
        """Begin as an index with this state was, where the store has all that it had."""
        try:
            known = msgspec.msgpack.decode(state, type=_IndexState)
        except msgspec.DecodeError as error:
            raise DamagedStore(f"the ids in a snapshot of campaign {self._campaign} cannot be read: {error}") from error
        if known.generation <= stored:
            self._generation, self.after, self._recent = known.generation, known.after, known.recent
            self._filter = Bloom.restored(known.filter)

    def __len__(self) -> int:
        return self._generation * GENERATION + len(self._recent)

    @property
    def memory(self) -> int:
        """Bytes that the filter takes; the recent ids take some megabytes at most beside it."""
        return self._filter.memory

    def remember(self, id: str, content: bytes, position: int) -> Answer:  # noqa: A002 (the name of the field)
        """Return whether an id is new, and is remembered now; or was given before with the same content, or with other.

        - `id`: as the client gave it.
        - `content`: what it stands for: see `content_of`.
        - `position`: of the event that carries it, where it is new.
        """
        key, value = hash_of(id.encode("utf-8", "surrogatepass")), hash_of(content)
        known = self._recent.get(key) or self._older(key)
        if known is not None:
            return "same" if known == value else "other"
        self._recent[key] = value
        self.after = position
        if self._adding and not len(self._recent) % ADDED_EVERY:
            self._add(ADDED_AT_ONCE)
        if len(self._recent) == GENERATION:
            self._close()
        return "new"

    def known(self, id: str, content: bytes) -> Answer:  # noqa: A002
        """Return what `remember` would, and remember nothing.

        - `id`, `content`: as there.
        """
        key = hash_of(id.encode("utf-8", "surrogatepass"))
        known = self._recent.get(key) or self._older(key)
        return "new" if known is None else "same" if known == hash_of(content) else "other"

    def full(self) -> Generation | None:
        """Return a generation for the batch that carries the last remembered id, once it is full; else None.

        To be asked after every `remember`. A batch that is lost takes the index with it: make it anew from the store then.
        """
        return self._full.pop(0) if self._full else None

    def _close(self) -> None:
        """Make the recent ids a generation."""
        self._add(GENERATION)
        closed = Generation(self._campaign, self._generation, self.after, self._recent)
        self._adding = b"".join(closed.contents)
        self._unwritten = [*(one for one in self._unwritten if not one.written), closed]
        self._full.append(closed)
        self._generation += 1
        self._recent = {}

    def _add(self, count: int) -> None:
        """Put some of the last generation into the filter: all of it at once would take milliseconds."""
        size = count * HASH_BYTES
        self._filter.add_many(self._adding[:size])
        self._adding = self._adding[size:]
        if not self._adding:
            self._unwritten = [one for one in self._unwritten if not one.written]

    def catch_up(self, until: int) -> None:
        """Take in the ids of the log after `after`.

        - `until`: the last position to read.
        """
        assert self._store is not None
        for first, events in self._store.read(self._campaign, after=self.after, until=until):
            for position, event in enumerate(events, first):
                if isinstance(event, Vote | Change) and event.id is not None:
                    self.remember(event.id, content_of(event.task, event.worker, event.label), position)
        self.after = max(self.after, until)

    def state(self, position: int) -> bytes:
        """Return what a snapshot keeps: a new index with it needs only the log after this position.

        - `position`: up to which the log was given to this index.
        """
        self.after = max(self.after, position)
        self._add(GENERATION)
        return msgspec.msgpack.encode(_IndexState(self._generation, self.after, self._recent, self._filter.state()))

    def _older(self, key: bytes) -> bytes | None:
        """Return the content of an id that is not recent."""
        for generation in self._unwritten:
            if key in generation.contents:
                return generation.contents[key]
        for start, end in self._filter.where(key):
            if self._store is not None:
                for body in self._store.id_candidates(self._campaign, key, start // GENERATION, -(-end // GENERATION)):
                    found = found_in(body, key)
                    if found is not None:
                        return found
        return None


def found_in(body: bytes, key: bytes) -> bytes | None:
    """Return the content that a page has for an id; None where it has none.

    - `body`: the page.
    - `key`: the hash of the id.
    """
    half = len(body) // 2
    at = bisect_left(range(half // HASH_BYTES), key, key=lambda i: body[i * HASH_BYTES : (i + 1) * HASH_BYTES])
    start = at * HASH_BYTES
    return body[half + start : half + start + HASH_BYTES] if body[start : start + HASH_BYTES] == key and start < half else None
