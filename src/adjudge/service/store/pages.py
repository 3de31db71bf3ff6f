"""Pages of a log, each with a checksum over itself and everything before it.

A page holds the events that one commit wrote to one campaign. Its checksum is the hash of the previous page's checksum and its
own body. So reading the log finds and names a page that was changed or belongs to another log; positions reveal a missing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from adjudge.service.store.batch import DecisionRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Event, decode, encode
from adjudge.service.store.rows import CHECKSUM_BYTES


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


_decisions: Final = msgspec.json.Decoder(list[tuple[int, str, msgspec.Raw]])
_encoder: Final = msgspec.json.Encoder()


def decision_page(rows: list[DecisionRow]) -> bytes:
    """Return decisions as the body of a page: a JSON list of position, task, decision."""
    return _encoder.encode([(position, task, msgspec.Raw(body)) for position, task, body in rows])


def decision_rows(body: bytes) -> list[DecisionRow]:
    """Return the decisions in the body of a page."""
    return [DecisionRow(position, task, bytes(raw)) for position, task, raw in _decisions.decode(body)]


def json_text(text: str) -> bytes:
    """Return text as JSON writes it into a page, to search pages for it."""
    return _encoder.encode(text)
