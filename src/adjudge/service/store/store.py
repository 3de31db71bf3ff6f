"""The store of a service: an append-only log of events per campaign, and the rows that belong to it, in a database.

Everything here is the same for every database; `sqlite.py` and `postgres.py` add connections, locks and snapshots.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, Final, NamedTuple, TypeVar

from adjudge.errors import UNSEEN, quote
from adjudge.service.store.batch import ArchiveRow, Batch, DecisionRow, EventPage
from adjudge.service.store.errors import DamagedStore, Expired, OutOfStep, StoreError
from adjudge.service.store.events import Event, decode
from adjudge.service.store.items import Items, put_items
from adjudge.service.store.log import (
    Base,
    Bases,
    Chain,
    LogHead,
    StoredPage,
    decision_page,
    decision_rows,
    empty_head,
    head_of,
    json_text,
    seal_page,
)
from adjudge.service.store.rows import (
    TABLES,
    VERSION,
    Link,
    Row,
    add_rows,
    as_bytes,
    decode_text,
    encode_text,
    insert_rows,
    open_row,
    read_pages,
    read_rows,
    row_checksum,
    scan_rows,
    select_list,
    update_rows,
)
from adjudge.service.store.snapshots import Snapshots
from adjudge.service.store.tables import Annotations, Tokens, Webhooks, put_annotations, put_messages

T = TypeVar("T")
MAX_CAMPAIGN_NAME_CHARACTERS: Final = 256
READ_CHUNK_BYTES: Final = 4 << 20  # read at once, approximately
READ_CHUNK_ROWS: Final = 4096  # read at once if they are small
MAX_IDLE_READERS: Final = 8  # connections kept for the next reader
# Adds a page only if it follows the last one, regardless of what this process believes it has written.
APPEND: Final = """INSERT INTO log (campaign, first, count, body, checksum) SELECT ?, ?, ?, ?, ?
    WHERE coalesce((SELECT first + count FROM log WHERE campaign = ? ORDER BY first DESC LIMIT 1), 1) = ?"""


class CampaignRow(NamedTuple):
    """A campaign: its number, which never changes, and its name."""

    number: int
    name: str


class Store(ABC):
    """Logs of campaigns, and the rows that belong to them.

    One thread writes: `create_campaign`, `own`, `release`, `write`, `replace_records`, `tidy` and the methods that change tokens,
    webhooks, bases and annotations (`Writer` owns that thread). Everything else reads, from any thread, and sees what is
    committed. Campaigns are given by number, times in microseconds since 1970.
    """

    is_shared: ClassVar[bool]  # whether several processes can write, each campaigns of its own
    contains: ClassVar[str]  # SQL that says whether the column `body` contains the bytes of a value

    def __init__(self, url: str, *, readonly: bool) -> None:
        self.url = url  # without a password
        self.readonly = readonly
        self.tokens = Tokens(self)
        self.webhooks = Webhooks(self)
        self.bases = Bases(self)
        self.annotations = Annotations(self)
        self.items = Items(self)
        self._heads: dict[int, LogHead] = {}  # of logs that this process has written, as they are on disk
        self._pool: list[Link] = []
        self._guard = threading.Lock()
        self._closed = False

    # Connections

    @abstractmethod
    def _connect_reader(self) -> Link:
        """Return a new connection that reads."""

    @abstractmethod
    def _translate_errors(self, action: str) -> AbstractContextManager[None]:
        """Raise errors of the database as ours; `action` is a participle for the message."""

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """Lend a connection that reads, to any thread."""
        with self._translate_errors("read"):
            with self._guard:
                if self._closed:
                    raise StoreError(f"the store {self.url} is closed")
                link = self._pool.pop() if self._pool else None
            link = link or self._connect_reader()
            try:
                yield link
            except BaseException:
                link.close()
                raise
            with self._guard:
                if len(self._pool) < MAX_IDLE_READERS and not self._closed:
                    self._pool.append(link)
                    return
            link.close()

    def _close_readers(self) -> None:
        with self._guard:
            self._closed = True
            links, self._pool = self._pool, []
        for link in links:
            link.close()

    @abstractmethod
    def writing(self) -> AbstractContextManager[Link]:
        """Lend the connection that writes, to the writer's thread, for one transaction."""

    def _refusal(self) -> StoreError:
        return StoreError(f"the store {self.url} is {'closed' if self._closed else 'open for reading only'}")

    def _check_version(self, version: int) -> int:
        """Return the version of the tables; raise if this program cannot use it."""
        if version > VERSION:
            raise StoreError(
                f"the store {self.url} is of a newer adjudge (its tables have version {version}, this one knows {VERSION}): "
                "upgrade adjudge"
            )
        if self.readonly and version < VERSION:
            raise StoreError(f"the store {self.url} is of an older adjudge (version {version}): open it for writing once")
        return version

    @abstractmethod
    def overwrite(self) -> None:
        """Have deleted data erased from the disk as well, at the next quiet moment."""

    @abstractmethod
    def tidy(self, *, idle: bool = False) -> None:
        """Do maintenance that keeps commits fast, if it is due; the writer calls this after each commit, and when idle."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; the store cannot be used any more."""

    # Campaigns

    @abstractmethod
    def own(self, campaign: int) -> None:
        """Make this process the one that writes a campaign; raise `NotOwner` if another is. Repeated calls do nothing."""

    @abstractmethod
    def release(self, campaign: int) -> None:
        """Let another process own a campaign."""

    @abstractmethod
    def owner(self, campaign: int) -> str | None:
        """Return the process that owns a campaign, in words; None if no process does."""

    @abstractmethod
    def others(self) -> dict[int, str]:
        """Return the campaigns that other processes own, and these processes, in words."""

    @abstractmethod
    def held(self) -> frozenset[int]:
        """Return the campaigns whose locks this process holds now, and has held without a break since it called `own`.

        This makes a round trip to the database, from any thread, and does not wait for a commit.
        """

    @abstractmethod
    def snapshots(self, campaign: int) -> Snapshots:
        """Return the snapshots of a campaign."""

    @abstractmethod
    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write everything committed into one file, a SQLite store, while the store is in use; replace an earlier backup."""

    def campaigns(self) -> list[CampaignRow]:
        """Return all campaigns, by number."""
        with self.reading() as link:
            return [CampaignRow(*row) for row in read_rows(link, "campaign", "ORDER BY number")]

    def create_campaign(self, name: str) -> int:
        """Return the number of a new campaign, which this process owns. Its `Created` event follows in a batch."""
        if not 1 <= len(name) <= MAX_CAMPAIGN_NAME_CHARACTERS or UNSEEN.search(name):
            limits = f"give 1 to {MAX_CAMPAIGN_NAME_CHARACTERS} visible characters"
            raise StoreError(f"a campaign cannot be called {quote(name)}: {limits}")
        with self.writing() as link:
            if link.rows("SELECT 1 FROM campaign WHERE name = ?", name):
                raise StoreError(f"there is a campaign {quote(name)} already")
            [number] = add_rows(link, "campaign", [(name,)])
        self.own(number)
        return number

    def repeat_with_base(self, campaign: int, work: Callable[[Base | None], T]) -> T:
        """Return the result of reading a log from its base on; start over if the base is replaced while it is read."""
        while True:
            base = self.bases.find(campaign)
            try:
                result = work(base)
            except Expired:
                if self.bases.find(campaign) == base:
                    raise
                continue
            if self.bases.find(campaign) == base:  # else votes in the archive may have been deleted meanwhile
                return result

    # The log

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction, which is on disk when this returns. After an error nothing of it is.

        Raises `OutOfStep` if a page does not begin where the log ends. (If the connection to a server breaks during the commit,
        the outcome is unknown: read the log again.)
        """
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
                self._heads.pop(campaign, None)  # the next write reads it from disk
            raise
        self._heads.update(heads)
        for generation in batch.ids:
            generation.written = True

    def _append(self, link: Link, campaign: int, page: EventPage) -> LogHead:
        head = self._heads.get(campaign) or self._head(link, campaign)
        if page.first == head.last + 1:
            new = seal_page(head, page.events)
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
            insert_rows(link, "worker", [(campaign, number, encode_text(name)) for campaign, number, name in batch.workers])
        for erased in batch.erased:
            update_rows(link, "worker", lambda worker: worker.update(name=None), "WHERE campaign = ? AND number = ?", *erased)
        if batch.archived:
            rows = [ArchiveRow(*row) for row in batch.archived]
            records = [(row.campaign, encode_text(row.task), row.position, row.record, row.touched) for row in rows]
            insert_rows(link, "archive", records)
        for ids in batch.ids:
            insert_rows(link, "id_page", [(ids.campaign, ids.number, *page) for page in ids.pages()])
            insert_rows(link, "id_generation", [(ids.campaign, ids.number, ids.until)])
        if batch.outbox:
            put_messages(link, batch.outbox)
        put_annotations(link, batch.annotations, batch.annotated_tasks)
        put_items(link, batch.items)

    def _head(self, link: Link, campaign: int) -> LogHead:
        rows = link.rows("SELECT first + count - 1, checksum FROM log WHERE campaign = ? ORDER BY first DESC LIMIT 1", campaign)
        return LogHead(rows[0][0], as_bytes(rows[0][1])) if rows else empty_head(campaign)

    def committed(self, campaign: int) -> int:
        """Return the last position that this process knows to be on disk, without reading it; 0 if it knows none."""
        head = self._heads.get(campaign)
        return head.last if head else 0

    def last(self, campaign: int) -> int:
        """Return the last position of a log, 0 if it is empty."""
        with self.reading() as link:
            return self._head(link, campaign).last

    def ends(self) -> list[tuple[int, str, int]]:
        """Return number, name and last position of every campaign, with one query."""
        last = "SELECT first + count - 1 FROM log WHERE campaign = number ORDER BY first DESC LIMIT 1"
        with self.reading() as link:
            rows = link.rows(f"SELECT number, name, coalesce(({last}), 0) FROM campaign ORDER BY number")
        return [(number, name, end) for number, name, end in rows]

    def begins(self, campaign: int) -> int:
        """Return the first position of a log that is kept: 1 if nothing has expired."""
        return self._read_deleted(campaign).last + 1

    def read(
        self, campaign: int, *, after: int = 0, until: int | None = None, skip_expired: bool = False
    ) -> Iterator[tuple[int, list[Event]]]:
        """Yield the log after a position and up to another, in pieces: the position of the first event, and the events.

        Checksums are verified. If requested events have expired, also while they are being read, this raises `Expired`, and
        a reader that folds the log starts over from its base; `skip_expired` yields the rest instead.
        """
        before, start, deleted = self._before(campaign, after + 1)
        if after < deleted.last and not skip_expired:
            raise _make_expired(campaign, deleted)
        chain = Chain(campaign, before)
        for page in self._pages(campaign, start, until):
            if page.first != chain.head.last + 1 and (deleted := self._read_deleted(campaign)).last > chain.head.last:
                if not skip_expired:  # deleted while it was read
                    raise _make_expired(campaign, deleted)
                if page.last <= deleted.last:
                    continue
                chain.head = deleted
            events = chain.open_page(page)
            skipped = max(0, after + 1 - page.first)
            wanted = events[skipped : None if until is None else max(0, until + 1 - page.first)]
            if wanted:
                yield page.first + skipped, wanted
        if not skip_expired and until is not None and chain.head.last < until:
            deleted = self._read_deleted(campaign)
            if deleted.last > max(after, chain.head.last):
                raise _make_expired(campaign, deleted)

    def pages(self, campaign: int) -> Iterator[StoredPage]:
        """Yield the pages of a log that are kept, as stored, unchecked."""
        return self._pages(campaign, self.begins(campaign), None)

    def _read_deleted(self, campaign: int) -> LogHead:
        """Return the end of the deleted part of a log, the empty head if there is none."""
        with self.reading() as link:
            return head_of(link, campaign)

    def _before(self, campaign: int, position: int) -> tuple[LogHead, int, LogHead]:
        """Return the head before the page with a position, the first position of that page, and the end of the deleted part."""
        with self.reading() as link:
            rows = link.rows(
                "SELECT first, count, checksum FROM log WHERE campaign = ? AND first <= ? ORDER BY first DESC LIMIT 2",
                *(campaign, position),
            )
            deleted = head_of(link, campaign)
        rows = [row for row in rows if row[0] > deleted.last]  # others may have been deleted meanwhile
        if not rows:
            return deleted, deleted.last + 1, deleted
        if len(rows) == 1:
            return deleted, rows[0][0], deleted
        first, count, check = rows[1]
        return LogHead(first + count - 1, as_bytes(check)), rows[0][0], deleted

    def _pages(self, campaign: int, start: int, until: int | None) -> Iterator[StoredPage]:
        """Yield pages that begin at `start` or later; no connection is held between them."""
        limit = 64
        while True:
            with self.reading() as link:
                rows = link.rows(
                    """SELECT first, count, body, checksum FROM log WHERE campaign = ? AND first >= ? AND first <= ?
                        ORDER BY first LIMIT ?""",
                    *(campaign, start, (1 << 62) if until is None else until, limit),
                )
            for first, count, body, check in rows:
                yield StoredPage(first, count, as_bytes(body), as_bytes(check))
            if len(rows) < limit:
                return
            start, limit = rows[-1][0] + 1, _next_limit(rows, 2)

    def mark(self, campaign: int, position: int) -> bytes | None:
        """Return the checksum of a log up to a position, which identifies it among all logs.

        None if the log ends before, or is deleted beyond it.
        """
        if position < 1:
            return empty_head(campaign).checksum
        before, start, deleted = self._before(campaign, position)
        if position <= deleted.last:
            return deleted.checksum if position == deleted.last else None
        page = next(self._pages(campaign, start, position), None)
        if page is None or not page.first <= position <= page.last:
            return None
        events = Chain(campaign, before).open_page(page)
        return page.checksum if position == page.last else seal_page(before, events[: position + 1 - page.first]).checksum

    # Rows of a campaign

    def workers(self, campaign: int, *, after: int = -1) -> Iterator[tuple[int, str | None]]:
        """Yield number and name of every worker after a number; an erased name is None."""
        which = "WHERE campaign = ? AND number > ? ORDER BY number LIMIT ?"

        def read(link: Link, number: int) -> list[Row]:
            return read_rows(link, "worker", which, campaign, number, READ_CHUNK_ROWS)

        for page in read_pages(self, read, (after,), lambda row: (row[1],), READ_CHUNK_ROWS):
            for _, number, name in page:
                yield number, None if name is None else decode_text(name)

    def decisions(
        self, campaign: int, *, after: int = 0, limit: int | None = None, task: str | None = None
    ) -> Iterator[DecisionRow]:
        """Yield decisions after a position, in the order of the log, of all tasks or of one.

        `limit` is approximate: the decisions at one position are never separated, so that a cursor can be a position.
        """
        count, position = 0, 0
        for row in self._decisions(campaign, after, task):
            if limit is not None and count >= limit and row.position != position:
                return
            yield row
            count, position = count + 1, row.position

    def _decisions(self, campaign: int, after: int, task: str | None) -> Iterator[DecisionRow]:
        # The page before the first that begins behind `after` may contain later positions as well.
        with self.reading() as link:
            rows = link.rows(
                "SELECT first, part FROM decision WHERE campaign = ? AND first <= ? ORDER BY first DESC, part DESC LIMIT 1",
                *(campaign, after),
            )
        start: tuple[int, int] = (rows[0][0], rows[0][1]) if rows else (0, 0)
        matches = "" if task is None else f"AND {self.contains}"
        values = () if task is None else (json_text(task),)
        limit = 16
        while True:
            with self.reading() as link:
                which = f"WHERE campaign = ? AND (first, part) >= (?, ?) {matches} ORDER BY first, part LIMIT ?"
                rows = read_rows(link, "decision", which, campaign, *start, *values, limit)
            for page in rows:
                for row in decision_rows(page[4]):
                    if row.position > after and (task is None or row.task == task):
                        yield row
            if len(rows) < limit:
                return
            start, limit = (rows[-1][1], rows[-1][2] + 1), _next_limit(rows, 4)

    def events_of(self, campaign: int, task: str, *, after: int, until: int) -> Iterator[tuple[int, Event]]:
        """Yield position and event of a task after a position and up to another: a scan of the log between them.

        Checksums are not verified: those of a page rest on all pages before it.
        """
        _, start, _ = self._before(campaign, after + 1)
        which = f"campaign = ? AND first >= ? AND first <= ? AND {self.contains}"
        sql = f"SELECT first, body FROM log WHERE {which} ORDER BY first LIMIT 64"
        while True:
            with self.reading() as link:
                rows = link.rows(sql, campaign, start, until, json_text(task))
            for first, body in rows:
                for position, event in enumerate(decode(as_bytes(body)), first):
                    is_about = getattr(event, "task", None) == task or task in getattr(event, "tasks", ())
                    if is_about and after < position <= until:
                        yield position, event
            if len(rows) < 64:
                return
            start = rows[-1][0] + 1

    def find_record(self, campaign: int, task: str, *, until: int) -> bytes | None:
        """Return the newest record of a task at or before a position, None if there is none."""
        which = "WHERE campaign = ? AND task = ? AND position <= ? ORDER BY position DESC LIMIT 1"
        with self.reading() as link:
            rows = read_rows(link, "archive", which, campaign, encode_text(task), until)
        return rows[0][3] if rows else None

    def archived_tasks(self, campaign: int) -> Iterator[str]:
        """Yield the tasks that have records."""
        sql = "SELECT DISTINCT task FROM archive WHERE campaign = ? AND task > ? ORDER BY task LIMIT ?"

        def read(link: Link, after: bytes) -> list[Row]:
            return link.rows(sql, campaign, after, READ_CHUNK_ROWS)

        for page in read_pages(self, read, (b"",), tuple, READ_CHUNK_ROWS):
            yield from (decode_text(row[0]) for row in page)

    def archived_page(self, campaign: int, *, after: str, until: int, limit: int) -> list[ArchiveRow]:
        """Return the newest records at or before a position of up to `limit` tasks after one, by task; "" is before all."""
        newest = "SELECT max(position) FROM archive WHERE campaign = a.campaign AND task = a.task AND position <= ?"
        which = f"a WHERE campaign = ? AND task > ? AND position = ({newest}) ORDER BY task LIMIT ?"
        with self.reading() as link:
            return [archive_row(row) for row in read_rows(link, "archive", which, campaign, encode_text(after), until, limit)]

    def records_before(self, campaign: int, touched: int, *, limit: int) -> list[ArchiveRow]:
        """Return up to `limit` records with votes of tasks last touched before a time: unknown times first, then oldest first."""
        which = "WHERE campaign = ? AND touched < ? ORDER BY touched LIMIT ?"
        with self.reading() as link:
            return [archive_row(row) for row in read_rows(link, "archive", which, campaign, touched, limit)]

    def replace_records(self, rows: Iterable[ArchiveRow]) -> None:
        """Replace the records with the same tasks and positions."""
        with self.writing() as link:
            for row in rows:
                key = row.campaign, encode_text(row.task), row.position
                link.run(
                    "UPDATE archive SET record = ?, touched = ?, checksum = ? WHERE campaign = ? AND task = ? AND position = ?",
                    *(row.record, row.touched, row_checksum("archive", (*key, row.record, row.touched)), *key),
                )
        self.overwrite()

    def id_generations(self, campaign: int) -> list[tuple[int, int]]:
        """Return the number of every stored generation of ids, and the position up to which it goes: see `IdIndex`."""
        with self.reading() as link:
            rows = read_rows(link, "id_generation", "WHERE campaign = ? ORDER BY generation", campaign)
        return [(generation, until) for _, generation, until in rows]

    def id_pages(self, campaign: int, generation: int) -> Iterator[bytes]:
        """Yield the pages of a generation, in order."""
        with self.reading() as link:
            rows = read_rows(link, "id_page", "WHERE campaign = ? AND generation = ? ORDER BY first", campaign, generation)
        return (row[4] for row in rows)

    def id_candidates(self, campaign: int, key: bytes, start: int, end: int) -> list[bytes]:
        """Return, for each generation from `start` to before `end`, the page that has a hash if the generation does."""
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
        """Yield every row of a table with row checksums, or of one campaign in it; for a damaged row, yield the error."""
        return scan_rows(self, table, campaign)

    def strays(self) -> list[str]:
        """Return a message for each table with rows of campaigns that do not exist."""
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
    """Return the record in a row of the table `archive`."""
    campaign, task, position, record, touched = row
    return ArchiveRow(campaign, position, decode_text(task), record, touched)


def decision_values(campaign: int, part: int, rows: list[DecisionRow]) -> tuple[object, ...]:
    """Return the values of a row of the table `decision`, after checking the order of the decisions."""
    if any(earlier.position > later.position for earlier, later in zip(rows, rows[1:], strict=False)):
        raise StoreError(f"decisions of campaign {campaign} are not in the order of their positions")
    values = campaign, rows[0].position, part, rows[-1].position, decision_page(rows)
    return *values, row_checksum("decision", values)


def _next_limit(rows: list[Row], column: int) -> int:
    """Return the number of rows to read at once, by the size of those read last."""
    size = sum(len(row[column]) for row in rows) or 1
    return max(1, min(READ_CHUNK_ROWS, READ_CHUNK_BYTES * len(rows) // size))


def _make_expired(campaign: int, deleted: LogHead) -> Expired:
    return Expired(
        f"the log of campaign {campaign} begins at position {deleted.last + 1}: what was before has expired, and is deleted"
    )
