"""The log in pages, each with a checksum over itself and everything before it, and the base that an expired log begins with.

A page holds the events that one commit wrote to one campaign. Its checksum is the hash of the previous page's checksum and its
own body. So reading the log finds and names a page that was changed or belongs to another log; positions reveal a missing one.

A base is the whole state of a campaign at a position, with the checksum of the log up to the first event that is kept. Unlike a
snapshot it is required: the state follows from the base and the events behind it. Kept events before its position are history,
which readers list and nothing folds. A base is valid from the transaction that names it. Older pages of the log and parts of
earlier bases are deleted afterwards, in chunks with commits in between; readers no longer see them, deleted or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from adjudge.service.store.batch import DecisionRow
from adjudge.service.store.errors import DamagedStore, Expired, StoreError
from adjudge.service.store.events import Event, decode, encode
from adjudge.service.store.rows import CHECKSUM_BYTES, Link, as_bytes, insert_rows, read_rows

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

_decisions: Final = msgspec.json.Decoder(list[tuple[int, str, msgspec.Raw]])
_encoder: Final = msgspec.json.Encoder()
PART_BYTES: Final = 1 << 20  # of a state in one row
DELETE_CHUNK_BYTES: Final = 1 << 20  # deleted at once, approximately
DELETE_CHUNK_PAGES: Final = 1024  # deleted at once, at most
PAGE_AT: Final = """SELECT first, count, body, checksum FROM log WHERE campaign = ? AND first <= ?
    ORDER BY first DESC LIMIT 1"""


class StoredPage(NamedTuple):
    """A page as stored: positions `first` to `first + size - 1`."""

    first: int
    size: int  # events
    body: bytes
    checksum: bytes

    @property
    def last(self) -> int:
        """The position of its last event."""
        return self.first + self.size - 1


class LogHead(NamedTuple):
    """The end of a log: its last position (0 if it is empty), and the checksum up to there."""

    last: int
    checksum: bytes


def empty_head(campaign: int) -> LogHead:
    """Return the head of a log without events; it differs by campaign, so that no log can replace another."""
    return LogHead(0, checksum(b"adjudge", b"%d" % campaign))


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return the hash of the parts, joined."""
    whole = blake2b(digest_size=CHECKSUM_BYTES)
    for part in parts:
        whole.update(part)
    return whole.digest()


def seal_page(head: LogHead, events: list[Event]) -> StoredPage:
    """Return the page that continues a log with these events."""
    body = encode(events)
    return StoredPage(head.last + 1, len(events), body, checksum(head.checksum, body))


@dataclass(slots=True)
class Chain:
    """Checks the pages of a campaign, one after another, starting from a head."""

    campaign: int
    head: LogHead

    def open_page(self, page: StoredPage) -> list[Event]:
        """Return the events of the next page, and move the head to its end; raise `DamagedStore` if it is damaged."""
        where = f"positions {page.first} to {page.last} of campaign {self.campaign}"
        if page.first != self.head.last + 1:
            gap = f"the log of campaign {self.campaign} is damaged: a page with {where} follows position {self.head.last}"
            raise DamagedStore(f"{gap}; restore a backup")
        if checksum(self.head.checksum, page.body) != page.checksum:
            raise DamagedStore(f"the log is damaged at {where}: the checksum differs; restore a backup")
        try:
            events = decode(page.body)
        except msgspec.DecodeError as error:  # the bytes are intact, so a newer version wrote them
            raise DamagedStore(f"{where} cannot be read: {error}; a newer adjudge may have written them") from error
        if len(events) != page.size:
            raise DamagedStore(f"the log is damaged at {where}: {len(events)} events are there; restore a backup")
        self.head = LogHead(page.last, page.checksum)
        return events


def find_damage(chain: Chain, pages: Iterable[StoredPage]) -> Iterator[str]:
    """Yield an error message for each damaged page, and continue behind it."""
    for page in pages:
        try:
            chain.open_page(page)
        except DamagedStore as error:
            yield str(error)
            chain.head = LogHead(page.last, page.checksum)


def decision_page(rows: list[DecisionRow]) -> bytes:
    """Return decisions as the body of a page: a JSON list of position, task, decision."""
    return _encoder.encode([(position, task, msgspec.Raw(body)) for position, task, body in rows])


def decision_rows(body: bytes) -> list[DecisionRow]:
    """Return the decisions in the body of a page."""
    return [DecisionRow(position, task, bytes(raw)) for position, task, raw in _decisions.decode(body)]


def json_text(text: str) -> bytes:
    """Return text as JSON writes it into a page, to search pages for it."""
    return _encoder.encode(text)


class Base(NamedTuple):
    """The beginning of a log; `Bases.data` reads its state."""

    campaign: int
    position: int  # of the state
    begins: int  # the first position that is kept; at most one behind that of the state
    expired: int  # records of tasks last touched before this time have no votes, deleted yet or not
    chain: bytes  # the checksum of the log before the first position that is kept
    mark: bytes  # the checksum of the log up to the state's position
    labels: list[str]  # the ids of the labels at the state's position
    parts: int
    content: bytes  # the checksum of the parts

    @property
    def head(self) -> LogHead:
        """The end of the deleted part of the log."""
        return LogHead(self.begins - 1, self.chain)


class Cut(NamedTuple):
    """The part of a log that is older than a time."""

    until: int  # the last position to delete
    before: int  # the time of the first event that is kept, or the requested time if none is


def split_parts(data: bytes) -> Iterator[bytes]:
    """Yield a state in parts that fit a row each."""
    return (data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES))


def head_of(link: Link, campaign: int) -> LogHead:
    """Return the head that the kept log of a campaign continues: the empty one, or the end of the deleted part."""
    rows = read_rows(link, "base", "WHERE campaign = ?", campaign)
    return LogHead(rows[0][2] - 1, rows[0][4]) if rows else empty_head(campaign)


class Bases:
    """The bases of a store: `add_part`, `put` and `delete_some` run in the writer's thread, the others in any."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, campaign: int) -> Base | None:
        """Return the base of a campaign, None if its log is complete."""
        with self._store.reading() as link:
            rows = read_rows(link, "base", "WHERE campaign = ?", campaign)
        if not rows:
            return None
        number, position, begins, expired, chain, mark, labels, parts, content = rows[0]
        names = msgspec.json.decode(labels, type=list[str])
        return Base(number, position, begins, expired, chain, mark, names, parts, content)

    def data(self, base: Base) -> bytes:
        """Return the state of a base that `find` returned, after verifying all its checksums.

        Raises `Expired` if another base has replaced it since: find that one.
        """
        with self._store.reading() as link:
            rows = link.rows(
                "SELECT body FROM base_part WHERE campaign = ? AND position = ? AND part < ? ORDER BY part",
                *(base.campaign, base.position, base.parts),
            )
        bodies = [as_bytes(row[0]) for row in rows]
        if len(bodies) == base.parts and checksum(*map(checksum, bodies)) == base.content:
            mark = self._store.mark(base.campaign, base.position)
            if mark == base.mark:
                return b"".join(bodies)
        where = f"the base of campaign {base.campaign} at position {base.position}"
        if self.find(base.campaign) != base:
            raise Expired(f"{where} was replaced: read the new one")
        raise DamagedStore(f"{where} is damaged, or is of another log: restore a backup")

    def cut(self, campaign: int, before: int, resets: Iterable[tuple[int, int]] = ()) -> Cut | None:
        """Return the part of a log that is older than a time, in whole pages; None if there is none.

        `resets` has the position and the time of every `ClockSet` of the log. An event before a reset happened before it,
        regardless of its own time. So effective times never decrease, although those of the events do.
        """
        resets = list(resets)

        def latest(position: int, time: int) -> int:
            """Return the latest time at which an event can have happened."""
            return min([time, *(reset for at, reset in resets if at >= position)])

        with self._store.reading() as link:
            low = head_of(link, campaign).last + 1
            newest = _page(link, campaign, 1 << 62)
            high = 0 if newest is None else newest.last + 1
            until = 0
            while low < high:
                page = _page(link, campaign, (low + high) // 2)
                if page is None:
                    break
                if latest(page.last, _open_page(link, campaign, page)[-1].time) < before:
                    until = page.last
                    low = until + 1
                else:
                    high = page.first
            if not until:
                return None
            following = None if newest is None or until == newest.last else _page(link, campaign, until + 1)
            if following is None:
                return Cut(until, before)
            return Cut(until, min(before, latest(until + 1, _open_page(link, campaign, following)[0].time)))

    def add_part(self, campaign: int, position: int, part: int, body: bytes) -> bytes:
        """Store part 0, 1, 2, … of the state at a position, and return its checksum; `put` makes it visible."""
        with self._store.writing() as link:
            key = campaign, position, part
            link.run("DELETE FROM base_part WHERE campaign = ? AND position = ? AND part = ?", *key)
            link.run("INSERT INTO base_part (campaign, position, part, body) VALUES (?, ?, ?, ?)", *key, body)
        return checksum(body)

    def put(
        self, campaign: int, position: int, *, begins: int, expired: int, labels: Sequence[str], parts: Sequence[bytes]
    ) -> None:
        """Let a log begin with the state at a position, up to which all events must be stored.

        `begins` is the first position that is kept, and must follow the end of a page. Records of tasks last touched before
        the time `expired` lose their votes. `labels` are the ids at the position, and `parts` the checksums that `add_part`
        returned. `delete_some` deletes what is no longer needed.
        """
        mark = self._store.mark(campaign, position)
        if mark is None:
            raise StoreError(f"campaign {campaign} cannot begin with a state at position {position}: its log does not reach it")
        with self._store.writing() as link:
            known = link.rows("SELECT position FROM base WHERE campaign = ?", campaign)
            if known and known[0][0] >= position:
                raise StoreError(f"campaign {campaign} begins with a state at position {known[0][0]}, and cannot go back")
            before, last = head_of(link, campaign), _page(link, campaign, begins - 1)
            if last is not None and last.last == begins - 1 > before.last:
                before = LogHead(last.last, last.checksum)
            if before.last != begins - 1 or begins > position + 1:
                raise StoreError(f"the log of campaign {campaign} cannot begin at position {begins}: no page ends before it")
            stored = "SELECT count(*) FROM base_part WHERE campaign = ? AND position = ? AND part < ?"
            count = link.rows(stored, campaign, position, len(parts))[0][0]
            if count != len(parts):
                raise StoreError(f"a base of campaign {campaign} at position {position} has {count} of {len(parts)} parts")
            link.run("DELETE FROM base WHERE campaign = ?", campaign)
            names = msgspec.json.encode(list(labels))
            row = campaign, position, begins, expired, before.checksum, mark, names, len(parts), checksum(*parts)
            insert_rows(link, "base", [row])

    def delete_some(self, campaign: int) -> bool:
        """Delete a chunk of the data that the base of a campaign made unnecessary; return whether there may be more."""
        with self._store.writing() as link:
            base = link.rows("SELECT position, begins FROM base WHERE campaign = ?", campaign)
            if not base:
                return False
            position, begins = base[0]
            pages = link.rows(
                "SELECT first, length(body) FROM log WHERE campaign = ? AND first < ? ORDER BY first LIMIT ?",
                *(campaign, begins, DELETE_CHUNK_PAGES),
            )
            if pages:
                bound, size = pages[0][0], 0
                for first, length in pages:
                    if size > DELETE_CHUNK_BYTES:
                        break
                    bound, size = first, size + length
                link.run("DELETE FROM log WHERE campaign = ? AND first <= ?", campaign, bound)
                return True
            parts = link.rows(
                "SELECT position, part FROM base_part WHERE campaign = ? AND position < ? LIMIT 1", campaign, position
            )
            for old, part in parts:
                link.run("DELETE FROM base_part WHERE campaign = ? AND position = ? AND part = ?", campaign, old, part)
        if not parts:
            self._store.overwrite()
        return bool(parts)


def _open_page(link: Link, campaign: int, page: StoredPage) -> list[Event]:
    """Return the events of a page, or raise: a flipped bit in their times must not decide what is deleted."""
    head = head_of(link, campaign)
    if page.first > head.last + 1:
        before = _page(link, campaign, page.first - 1)
        head = head if before is None else LogHead(before.last, before.checksum)
    return Chain(campaign, head).open_page(page)


def _page(link: Link, campaign: int, position: int) -> StoredPage | None:
    """Return the page that holds a position, or the last one before it; unchecked."""
    rows = link.rows(PAGE_AT, campaign, position)
    return StoredPage(rows[0][0], rows[0][1], as_bytes(rows[0][2]), as_bytes(rows[0][3])) if rows else None
