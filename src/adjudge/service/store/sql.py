"""What stores do in SQL, the same for every database: the log, decisions, workers, records, ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from adjudge.errors import UNSEEN, quote
from adjudge.service.store.annotations import Annotations, put_annotations
from adjudge.service.store.bases import Bases, head_of
from adjudge.service.store.batch import ArchiveRow, Batch, DecisionRow, EventPage
from adjudge.service.store.errors import DamagedStore, Expired, OutOfStep, StoreError
from adjudge.service.store.events import Event
from adjudge.service.store.link import Link, Row, raw
from adjudge.service.store.pages import (
    Chain,
    LogHead,
    StoredPage,
    decision_page,
    decision_rows,
    empty,
    json_text,
    sealed,
)
from adjudge.service.store.protocol import CampaignRow
from adjudge.service.store.rows import (
    add_rows,
    insert_rows,
    open_row,
    read_rows,
    row_checksum,
    scan_rows,
    select_list,
    update_rows,
)
from adjudge.service.store.tables import TABLES
from adjudge.service.store.tokens import Tokens
from adjudge.service.store.webhooks import Webhooks, put

LONGEST_NAME: Final = 256  # characters, of a campaign
READ_CHUNK_BYTES: Final = 4 << 20  # bytes that are read at once, about
READ_CHUNK_ROWS: Final = 4096  # that are read at once, where they are small

# A page is only ever put behind the last one, whatever the process believes that it has written.
APPEND: Final = """INSERT INTO log (campaign, first, count, body, checksum) SELECT ?, ?, ?, ?, ?
    WHERE coalesce((SELECT first + count FROM log WHERE campaign = ? ORDER BY first DESC LIMIT 1), 1) = ?"""


class SqlStore(ABC):
    """A store in a database."""

    url: str
    readonly: bool
    is_shared: bool
    contains: str  # SQL that says whether the column `body` holds the bytes of a value

    def __init__(self) -> None:
        self.tokens = Tokens(self)
        self.webhooks = Webhooks(self)
        self.bases = Bases(self)
        self.annotations = Annotations(self)
        self._heads: dict[int, LogHead] = {}  # of logs that this process has written, as they are on disk

    @abstractmethod
    def reading(self) -> AbstractContextManager[Link]:
        """Lend a connection that reads."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Link]:
        """Lend the connection that writes, for one transaction."""

    @abstractmethod
    def own(self, campaign: int) -> None:
        """Make this process the one that writes a campaign."""

    @abstractmethod
    def overwrite(self) -> None:
        """Let what was deleted be gone from the disk as well, at the next quiet moment."""

    # Campaigns

    def campaigns(self) -> list[CampaignRow]:
        """Return all campaigns, by number."""
        with self.reading() as link:
            return [CampaignRow(*row) for row in read_rows(link, "campaign", "ORDER BY number")]

    def create_campaign(self, name: str) -> int:
        """Return the number of a new campaign, which this process owns."""
        if not 1 <= len(name) <= LONGEST_NAME or UNSEEN.search(name):
            raise StoreError(f"a campaign cannot be called {quote(name)}: give 1 to {LONGEST_NAME} visible characters")
        with self.writing() as link:
            if link.rows("SELECT 1 FROM campaign WHERE name = ?", name):
                raise StoreError(f"there is a campaign {quote(name)} already")
            [number] = add_rows(link, "campaign", [(name,)])
        self.own(number)
        return number

    # The log

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction; it is on disk when this returns."""
        heads: dict[int, LogHead] = {}
        try:
            with self.writing() as link:
                for campaign, page in batch.pages.items():
                    if page.events:
                        heads[campaign] = self._append(link, campaign, page)
                for campaign, rows in batch.decisions.items():
                    if rows:
                        self._decide(link, campaign, rows)
                self._write_rare(link, batch)
        except BaseException:
            for campaign in batch.pages:
                self._heads.pop(campaign, None)  # the disk is asked again
            raise
        self._heads.update(heads)
        for generation in batch.ids:
            generation.written = True

    def _append(self, link: Link, campaign: int, page: EventPage) -> LogHead:
        head = self._heads.get(campaign) or self._head(link, campaign)
        if page.first == head.last + 1:
            new = sealed(head, page.events)
            if link.run(APPEND, campaign, *new, campaign, new.first) == 1:
                return LogHead(new.last, new.checksum)
            head = self._head(link, campaign)
        raise OutOfStep(
            f"a batch for campaign {campaign} begins at position {page.first}, but its log ends at {head.last}: read it again"
        )

    def _decide(self, link: Link, campaign: int, rows: list[DecisionRow]) -> None:
        first = rows[0].position
        parts = link.rows("SELECT count(*) FROM decision WHERE campaign = ? AND first = ?", campaign, first)[0][0]
        values = decision_values(campaign, parts, rows)
        link.run("INSERT INTO decision (campaign, first, part, last, body, checksum) VALUES (?, ?, ?, ?, ?, ?)", *values)

    def _write_rare(self, link: Link, batch: Batch) -> None:
        if batch.workers:
            insert_rows(link, "worker", [(campaign, number, _bytes(name)) for campaign, number, name in batch.workers])
        for erased in batch.erased:
            update_rows(link, "worker", lambda worker: worker.update(name=None), "WHERE campaign = ? AND number = ?", *erased)
        if batch.archived:
            rows = [ArchiveRow(*row) for row in batch.archived]
            records = [(row.campaign, _bytes(row.task), row.position, row.record, row.touched) for row in rows]
            insert_rows(link, "archive", records)
        for ids in batch.ids:
            insert_rows(link, "id_page", [(ids.campaign, ids.number, *page) for page in ids.pages()])
            insert_rows(link, "id_generation", [(ids.campaign, ids.number, ids.until)])
        if batch.outbox:
            put(link, batch.outbox)
        put_annotations(link, batch.annotations, batch.annotated_tasks)

    def _head(self, link: Link, campaign: int) -> LogHead:
        rows = link.rows("SELECT first + count - 1, checksum FROM log WHERE campaign = ? ORDER BY first DESC LIMIT 1", campaign)
        return LogHead(rows[0][0], raw(rows[0][1])) if rows else empty(campaign)

    def committed(self, campaign: int) -> int:
        """Return the last position that this process knows to be on disk."""
        head = self._heads.get(campaign)
        return head.last if head else 0

    def last(self, campaign: int) -> int:
        """Return the last position of a log: 0 where it is empty."""
        with self.reading() as link:
            return self._head(link, campaign).last

    def ends(self) -> list[tuple[int, str, int]]:
        """Return number, name and last position of every campaign."""
        last = "SELECT first + count - 1 FROM log WHERE campaign = number ORDER BY first DESC LIMIT 1"
        with self.reading() as link:
            rows = link.rows(f"SELECT number, name, coalesce(({last}), 0) FROM campaign ORDER BY number")
        return [(number, name, end) for number, name, end in rows]

    def begins(self, campaign: int) -> int:
        """Return the first position of a log that is kept."""
        return self._deleted(campaign).last + 1

    def read(
        self, campaign: int, *, after: int = 0, until: int | None = None, left: bool = False
    ) -> Iterator[tuple[int, list[Event]]]:
        """Yield the log in pieces, checked."""
        before, start, deleted = self._before(campaign, after + 1)
        if after < deleted.last and not left:
            raise _expired(campaign, deleted)
        chain = Chain(campaign, before)
        for page in self._pages(campaign, start, until):
            if page.first != chain.head.last + 1 and (deleted := self._deleted(campaign)).last > chain.head.last:
                if not left:  # it was deleted while it was read
                    raise _expired(campaign, deleted)
                if page.last <= deleted.last:
                    continue
                chain.head = deleted
            events = chain.opened(page)
            skipped = max(0, after + 1 - page.first)
            wanted = events[skipped : None if until is None else max(0, until + 1 - page.first)]
            if wanted:
                yield page.first + skipped, wanted
        if not left and until is not None and chain.head.last < until:
            deleted = self._deleted(campaign)
            if deleted.last > max(after, chain.head.last):
                raise _expired(campaign, deleted)

    def pages(self, campaign: int) -> Iterator[StoredPage]:
        """Yield the pages of a log as they are stored."""
        return self._pages(campaign, self.begins(campaign), None)

    def _deleted(self, campaign: int) -> LogHead:
        """Return where the deleted part of a log ends: before its first position where there is none."""
        with self.reading() as link:
            return head_of(link, campaign)

    def _before(self, campaign: int, position: int) -> tuple[LogHead, int, LogHead]:
        """Return the head before the page that holds a position, where that page begins, and where the deleted part ends."""
        with self.reading() as link:
            rows = link.rows(
                "SELECT first, count, checksum FROM log WHERE campaign = ? AND first <= ? ORDER BY first DESC LIMIT 2",
                *(campaign, position),
            )
            deleted = head_of(link, campaign)
        rows = [row for row in rows if row[0] > deleted.last]  # the others may not be there any more
        if not rows:
            return deleted, deleted.last + 1, deleted
        if len(rows) == 1:
            return deleted, rows[0][0], deleted
        first, count, check = rows[1]
        return LogHead(first + count - 1, raw(check)), rows[0][0], deleted

    def _pages(self, campaign: int, start: int, until: int | None) -> Iterator[StoredPage]:
        """Yield pages from one that begins at `start` (or the next) on; no connection is held between them."""
        most = 64
        while True:
            with self.reading() as link:
                rows = link.rows(
                    """SELECT first, count, body, checksum FROM log WHERE campaign = ? AND first >= ? AND first <= ?
                        ORDER BY first LIMIT ?""",
                    *(campaign, start, (1 << 62) if until is None else until, most),
                )
            for first, count, body, check in rows:
                yield StoredPage(first, count, raw(body), raw(check))
            if len(rows) < most:
                return
            start = rows[-1][0] + 1
            most = max(1, min(READ_CHUNK_ROWS, READ_CHUNK_BYTES * len(rows) // (sum(len(row[2]) for row in rows) or 1)))

    def mark(self, campaign: int, position: int) -> bytes | None:
        """Return the checksum of a log up to a position; None where it ends before."""
        if position < 1:
            return empty(campaign).checksum
        before, start, deleted = self._before(campaign, position)
        if position <= deleted.last:
            return deleted.checksum if position == deleted.last else None
        page = next(self._pages(campaign, start, position), None)
        if page is None or not page.first <= position <= page.last:
            return None
        events = Chain(campaign, before).opened(page)
        return page.checksum if position == page.last else sealed(before, events[: position + 1 - page.first]).checksum

    # What belongs to it

    def workers(self, campaign: int, *, after: int = -1) -> Iterator[tuple[int, str | None]]:
        """Yield the number and the name of every worker, by number."""
        while True:
            with self.reading() as link:
                which = "WHERE campaign = ? AND number > ? ORDER BY number LIMIT ?"
                rows = read_rows(link, "worker", which, campaign, after, READ_CHUNK_ROWS)
            for _, number, name in rows:
                yield number, None if name is None else _text(name)
            if len(rows) < READ_CHUNK_ROWS:
                return
            after = rows[-1][1]

    def decisions(
        self, campaign: int, *, after: int = 0, limit: int | None = None, task: str | None = None
    ) -> Iterator[DecisionRow]:
        """Yield decisions in the order of their positions."""
        count, position = 0, 0
        for row in self._decisions(campaign, after, task):
            if limit is not None and count >= limit and row.position != position:
                return
            yield row
            count, position = count + 1, row.position

    def _decisions(self, campaign: int, after: int, task: str | None) -> Iterator[DecisionRow]:
        # The page before the first that begins behind `after` may hold later positions as well.
        with self.reading() as link:
            rows = link.rows(
                "SELECT first, part FROM decision WHERE campaign = ? AND first <= ? ORDER BY first DESC, part DESC LIMIT 1",
                *(campaign, after),
            )
        start: tuple[int, int] = (rows[0][0], rows[0][1]) if rows else (0, 0)
        found = "" if task is None else f"AND {self.contains}"
        values = () if task is None else (json_text(task),)
        most = 16
        while True:
            with self.reading() as link:
                which = f"WHERE campaign = ? AND (first, part) >= (?, ?) {found} ORDER BY first, part LIMIT ?"
                rows = read_rows(link, "decision", which, campaign, *start, *values, most)
            for page in rows:
                for row in decision_rows(page[4]):
                    if row.position > after and (task is None or row.task == task):
                        yield row
            if len(rows) < most:
                return
            start = (rows[-1][1], rows[-1][2] + 1)
            most = max(1, min(READ_CHUNK_ROWS, READ_CHUNK_BYTES * len(rows) // (sum(len(row[4]) for row in rows) or 1)))

    def archived(self, campaign: int, task: str, *, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position."""
        which = "WHERE campaign = ? AND task = ? AND position <= ? ORDER BY position DESC LIMIT 1"
        with self.reading() as link:
            rows = read_rows(link, "archive", which, campaign, _bytes(task), until)
        return rows[0][3] if rows else None

    def archived_tasks(self, campaign: int) -> Iterator[str]:
        """Yield the tasks that have records."""
        after = b""
        while True:
            with self.reading() as link:
                rows = link.rows(
                    "SELECT DISTINCT task FROM archive WHERE campaign = ? AND task > ? ORDER BY task LIMIT ?",
                    *(campaign, after, READ_CHUNK_ROWS),
                )
            yield from (_text(row[0]) for row in rows)
            if len(rows) < READ_CHUNK_ROWS:
                return
            after = rows[-1][0]

    def archived_page(self, campaign: int, *, after: str, until: int, limit: int) -> list[ArchiveRow]:
        """Return the newest record of some tasks at or before a position, by task."""
        newest = "SELECT max(position) FROM archive WHERE campaign = a.campaign AND task = a.task AND position <= ?"
        which = f"a WHERE campaign = ? AND task > ? AND position = ({newest}) ORDER BY task LIMIT ?"
        with self.reading() as link:
            return [archive_row(row) for row in read_rows(link, "archive", which, campaign, _bytes(after), until, limit)]

    def records_before(self, campaign: int, touched: int, *, limit: int) -> list[ArchiveRow]:
        """Return some of the records with votes whose tasks were last touched before a time."""
        which = "WHERE campaign = ? AND touched < ? ORDER BY touched LIMIT ?"
        with self.reading() as link:
            return [archive_row(row) for row in read_rows(link, "archive", which, campaign, touched, limit)]

    def replace_records(self, rows: Iterable[ArchiveRow]) -> None:
        """Put records in the place of those with the same task and position."""
        with self.writing() as link:
            for row in rows:
                key = row.campaign, _bytes(row.task), row.position
                link.run(
                    "UPDATE archive SET record = ?, touched = ?, checksum = ? WHERE campaign = ? AND task = ? AND position = ?",
                    *(row.record, row.touched, row_checksum("archive", (*key, row.record, row.touched)), *key),
                )
        self.overwrite()

    def id_generations(self, campaign: int) -> list[tuple[int, int]]:
        """Return the number of every stored generation of ids, and the position until which it goes."""
        with self.reading() as link:
            rows = read_rows(link, "id_generation", "WHERE campaign = ? ORDER BY generation", campaign)
        return [(generation, until) for _, generation, until in rows]

    def id_pages(self, campaign: int, generation: int) -> Iterator[bytes]:
        """Yield the pages of a generation, in order."""
        with self.reading() as link:
            rows = read_rows(link, "id_page", "WHERE campaign = ? AND generation = ? ORDER BY first", campaign, generation)
        return (row[4] for row in rows)

    def id_candidates(self, campaign: int, key: bytes, start: int, end: int) -> list[bytes]:
        """Return the pages of some generations that have a hash, if these generations do."""
        with self.reading() as link:
            rows = link.rows(
                f"""SELECT {select_list("id_page", "p")}, g.generation FROM id_generation g LEFT JOIN id_page p
                    ON p.campaign = g.campaign AND p.generation = g.generation AND p.first =
                        (SELECT q.first FROM id_page q WHERE q.campaign = g.campaign AND q.generation = g.generation
                        AND q.first <= ? ORDER BY q.first DESC LIMIT 1)
                    WHERE g.campaign = ? AND g.generation >= ? AND g.generation < ?""",
                *(key, campaign, start, end),
            )
        bodies = []
        for *row, generation in rows:
            _, _, _, until, body = open_row("id_page", tuple(row)) if row[0] is not None else (0, 0, b"", key, b"")
            if until and until <= key:
                raise DamagedStore(
                    f"table id_page of campaign {campaign}: a page of generation {generation} is missing; restore a backup"
                )
            bodies.append(body)
        return bodies

    def scan(self, table: str, campaign: int | None = None) -> Iterator[Row | DamagedStore]:
        """Yield every row of a table with row checksums, or what is wrong with it."""
        return scan_rows(self, table, campaign)

    def strays(self) -> list[str]:
        """Return in words which tables have rows of campaigns that do not exist."""
        problems = []
        for table, columns in TABLES.items():
            if columns.get("campaign") == "int":
                with self.reading() as link:
                    rows = link.rows(
                        f"SELECT campaign, count(*) FROM {table} WHERE campaign NOT IN (SELECT number FROM campaign) "
                        "GROUP BY campaign ORDER BY campaign"
                    )
                problems += [f"table {table} has {count} rows of campaign {at}, which does not exist" for at, count in rows]
        return problems


def archive_row(row: Row) -> ArchiveRow:
    """Return a record as it is stored.

    - `row`: of the table `archive`.
    """
    campaign, task, position, record, touched = row
    return ArchiveRow(campaign, position, _text(task), record, touched)


def decision_values(campaign: int, part: int, rows: list[DecisionRow]) -> tuple[object, ...]:
    """Return the values of a row of the table `decision`, after the order of the decisions was checked.

    - `campaign`: its number.
    - `part`: how many rows there are that begin at the same position.
    - `rows`: the decisions.
    """
    if any(one.position > two.position for one, two in zip(rows, rows[1:], strict=False)):
        raise StoreError(f"decisions of campaign {campaign} are not in the order of their positions")
    values = campaign, rows[0].position, part, rows[-1].position, decision_page(rows)
    return *values, row_checksum("decision", values)


def _expired(campaign: int, deleted: LogHead) -> Expired:
    return Expired(
        f"the log of campaign {campaign} begins at position {deleted.last + 1}: what was before has expired, and is deleted"
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")
