"""Bases: what a log begins with once its first events are deleted.

A base is the whole state of a campaign at a position, and the checksum of the log up to where it now begins. It is needed, as a
snapshot never is: the state follows from the base and the events behind it. The events before its position that are not
deleted are history, which readers list and nothing folds. A base counts from the transaction that names it on. What
lies before it, pages of the log and parts of an earlier base, is deleted afterwards, in pieces between which commits have their
turn: whoever reads sees it no more, deleted or not yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from adjudge.service.store.errors import DamagedStore, Expired, StoreError
from adjudge.service.store.events import Event
from adjudge.service.store.link import Link, Links, raw
from adjudge.service.store.pages import Chain, LogHead, StoredPage, checksum, empty
from adjudge.service.store.rows import insert_rows, read_rows

PART: Final = 1 << 20  # bytes of a base in one row
DELETE_CHUNK_BYTES: Final = 1 << 20  # bytes that are deleted at once, about
DELETE_CHUNK_PAGES: Final = 1024  # pages that are deleted at once, at most
PAGE_AT: Final = """SELECT first, count, body, checksum FROM log WHERE campaign = ? AND first <= ?
    ORDER BY first DESC LIMIT 1"""


class Base(NamedTuple):
    """What a log begins with; its state is read with `Bases.data`."""

    campaign: int
    position: int  # up to which the log has been applied to the state
    begins: int  # the first position that is kept; it is no later than the one behind the state's
    expired: int  # records of tasks last touched before this time have no votes, be they deleted or not yet
    chain: bytes  # the checksum of the log before it
    mark: bytes  # the checksum of the log up to the state's position
    labels: list[str]  # the ids of the labels at the state's position
    parts: int
    content: bytes  # the checksum of the parts

    @property
    def head(self) -> LogHead:
        """Where the deleted part of the log ends."""
        return LogHead(self.begins - 1, self.chain)


class Cut(NamedTuple):
    """How much of a log is older than a time."""

    until: int  # the last position to delete
    before: int  # the time of the first event that is kept, or the time asked for where none is


class Log(Links, Protocol):
    """What bases are made of."""

    def mark(self, campaign: int, position: int) -> bytes | None:
        """Return the checksum of a log up to a position."""


def parts_of(data: bytes) -> Iterator[bytes]:
    """Yield a state in parts that fit a row each.

    - `data`: the state.
    """
    for start in range(0, len(data), PART):
        yield data[start : start + PART]


def head_of(link: Link, campaign: int) -> LogHead:
    """Return what the log of a campaign goes on from: the head of an empty one, or where its deleted part ends.

    - `link`: a connection.
    - `campaign`: its number.
    """
    rows = read_rows(link, "base", "WHERE campaign = ?", campaign)
    return LogHead(rows[0][2] - 1, rows[0][4]) if rows else empty(campaign)


class Bases:
    """The bases of a store: `add_part`, `put` and `delete_some` in the writer's thread, the others in any.

    - `log`: the store's connections.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def find(self, campaign: int) -> Base | None:
        """Return the base of a campaign, None where its log is whole.

        - `campaign`: its number.
        """
        with self._log.reading() as link:
            rows = read_rows(link, "base", "WHERE campaign = ?", campaign)
        if not rows:
            return None
        number, position, begins, expired, chain, mark, labels, parts, content = rows[0]
        names = msgspec.json.decode(labels, type=list[str])
        return Base(number, position, begins, expired, chain, mark, names, parts, content)

    def data(self, base: Base) -> bytes:
        """Return the state of a base, after every checksum of it was computed again.

        - `base`: as `find` returned it. Where another has taken its place since, this raises `Expired`: find that one.
        """
        with self._log.reading() as link:
            rows = link.rows(
                "SELECT body FROM base_part WHERE campaign = ? AND position = ? AND part < ? ORDER BY part",
                *(base.campaign, base.position, base.parts),
            )
        bodies = [raw(row[0]) for row in rows]
        if len(bodies) == base.parts and checksum(*map(checksum, bodies)) == base.content:
            mark = self._log.mark(base.campaign, base.position)
            if mark == base.mark:
                return b"".join(bodies)
        if self.find(base.campaign) != base:
            raise Expired(f"the base of campaign {base.campaign} at position {base.position} was replaced: read the new one")
        where = f"the base of campaign {base.campaign} at position {base.position}"
        raise DamagedStore(f"{where} is damaged, or is of another log: restore a backup")

    def cut(self, campaign: int, before: int, resets: Iterable[tuple[int, int]] = ()) -> Cut | None:
        """Return how much of a log is older than a time, in whole pages; None where nothing is.

        - `campaign`: its number.
        - `before`: the time, in microseconds since 1970.
        - `resets`: position and time of every `ClockSet` of the log. An event before one happened before it, whatever its own
          time says. So the times that count never fall, although those of the events do.
        """
        resets = list(resets)

        def latest(position: int, time: int) -> int:
            """Return when an event happened at the latest."""
            return min([time, *(reset for at, reset in resets if at >= position)])

        with self._log.reading() as link:
            low = head_of(link, campaign).last + 1
            newest = _page(link, campaign, 1 << 62)
            high = 0 if newest is None else newest.last + 1
            until = 0
            while low < high:
                page = _page(link, campaign, (low + high) // 2)
                if page is None:
                    break
                if latest(page.last, _open(link, campaign, page)[-1].time) < before:
                    until = page.last
                    low = until + 1
                else:
                    high = page.first
            following = None if newest is None or until == newest.last else _page(link, campaign, until + 1)
            if not until:
                return None
            if following is None:
                return Cut(until, before)
            return Cut(until, min(before, latest(until + 1, _open(link, campaign, following)[0].time)))

    def add_part(self, campaign: int, position: int, part: int, body: bytes) -> bytes:
        """Keep one part of a state, and return its checksum; nobody sees it until `put`.

        - `campaign`: its number.
        - `position`: of the state.
        - `part`: 0, 1, 2, …
        - `body`: of the part.
        """
        with self._log.writing() as link:
            key = campaign, position, part
            link.run("DELETE FROM base_part WHERE campaign = ? AND position = ? AND part = ?", *key)
            link.run("INSERT INTO base_part (campaign, position, part, body) VALUES (?, ?, ?, ?)", *key, body)
        return checksum(body)

    def put(
        self, campaign: int, position: int, *, begins: int, expired: int, labels: Sequence[str], parts: Sequence[bytes]
    ) -> None:
        """Let a log begin with a state from now on; what lies before is to be deleted with `delete_some`.

        - `campaign`: its number.
        - `position`: of the state, whose parts are there. All events up to it must be stored.
        - `begins`: the first position of the log that is kept; a page must end before it.
        - `expired`: records of tasks that were last touched before this time lose their votes.
        - `labels`: the ids of the labels at the position.
        - `parts`: the checksums of all parts of the state, as `add_part` returned them.
        """
        mark = self._log.mark(campaign, position)
        if mark is None:
            raise StoreError(f"campaign {campaign} cannot begin with a state at position {position}: its log does not reach it")
        with self._log.writing() as link:
            known = link.rows("SELECT position FROM base WHERE campaign = ?", campaign)
            if known and known[0][0] >= position:
                raise StoreError(f"campaign {campaign} begins with a state at position {known[0][0]}, and cannot go back")
            before, last = head_of(link, campaign), _page(link, campaign, begins - 1)
            if last is not None and last.last == begins - 1 > before.last:
                before = LogHead(last.last, last.checksum)
            if before.last != begins - 1 or begins > position + 1:
                raise StoreError(f"the log of campaign {campaign} cannot begin at position {begins}: no page ends before it")
            there = "SELECT count(*) FROM base_part WHERE campaign = ? AND position = ? AND part < ?"
            count = link.rows(there, campaign, position, len(parts))[0][0]
            if count != len(parts):
                raise StoreError(f"a base of campaign {campaign} at position {position} has {count} of {len(parts)} parts")
            link.run("DELETE FROM base WHERE campaign = ?", campaign)
            names = msgspec.json.encode(list(labels))
            row = campaign, position, begins, expired, before.checksum, mark, names, len(parts), checksum(*parts)
            insert_rows(link, "base", [row])

    def delete_some(self, campaign: int) -> bool:
        """Delete some of what lies before the base of a campaign; return whether there may be more.

        - `campaign`: its number.
        """
        with self._log.writing() as link:
            found = link.rows("SELECT position, begins FROM base WHERE campaign = ?", campaign)
            if not found:
                return False
            position, begins = found[0]
            pages = link.rows(
                "SELECT first, length(body) FROM log WHERE campaign = ? AND first < ? ORDER BY first LIMIT ?",
                campaign,
                begins,
                DELETE_CHUNK_PAGES,
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
            self._log.overwrite()
        return bool(parts)


def _open(link: Link, campaign: int, page: StoredPage) -> list[Event]:
    """Return the events of a page; raise where it is damaged: what is deleted by their times must not depend on a flipped bit."""
    head = head_of(link, campaign)
    if page.first > head.last + 1:
        before = _page(link, campaign, page.first - 1)
        head = head if before is None else LogHead(before.last, before.checksum)
    return Chain(campaign, head).opened(page)


def _page(link: Link, campaign: int, position: int) -> StoredPage | None:
    """Return the page that holds a position, or the last one before it; unchecked."""
    rows = link.rows(PAGE_AT, campaign, position)
    return StoredPage(rows[0][0], rows[0][1], raw(rows[0][2]), raw(rows[0][3])) if rows else None
