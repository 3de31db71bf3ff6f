"""Verification of a whole store: every page of every log, and every other row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from adjudge.service.store import ids
from adjudge.service.store.errors import DamagedStore, Expired
from adjudge.service.store.ids import HASH_BYTES
from adjudge.service.store.log import Base, Chain, StoredPage, decision_rows, empty_head, find_damage
from adjudge.service.store.rows import Row
from adjudge.service.store.store import Store

MAX_PROBLEMS: Final = 20  # reported for one table of a campaign
SHARED_TABLES: Final = ("campaign", "token", "webhook", "outbox")  # checked for all campaigns together


class CampaignReport(NamedTuple):
    """The contents of a campaign, and the damage in it."""

    campaign: int
    name: str
    pages: int
    events: int
    decisions: int
    problems: list[str]  # what is damaged, and where
    begins: int = 1  # the first position that is kept: events before have expired
    workers: int = 0
    records: int = 0  # of archived tasks
    ids: int = 0  # of clients, in full generations
    snapshots: int = 0
    annotations: int = 0  # of Label Studio
    items: int = 0  # contents of tasks


def verify(store: Store) -> list[CampaignReport]:
    """Verify every checksum of each campaign.

    >>> import tempfile
    >>> from adjudge.service.store.opening import open_store
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> number = store.create_campaign("spam")
    >>> [report] = verify(store)
    >>> report.name, report.events, report.problems
    ('spam', 0, [])
    >>> store.close(); folder.cleanup()
    """
    names = [row for row in store.scan("campaign") if not isinstance(row, DamagedStore)]
    return [_verify_campaign(store, number, name) for number, name in names]


def verify_shared(store: Store) -> tuple[dict[str, int], list[str]]:
    """Verify the tables that do not belong to one campaign; return the number of intact rows of each, and all problems."""
    problems = store.strays()
    return {table: sum(1 for _ in _intact_rows(store, table, None, problems)) for table in SHARED_TABLES}, problems


def _intact_rows(store: Store, table: str, campaign: int | None, problems: list[str]) -> Iterator[Row]:
    """Yield the intact rows of a table, and add a message to `problems` for each of the others."""
    damaged = 0
    for row in store.scan(table, campaign):
        if not isinstance(row, DamagedStore):
            yield row
            continue
        damaged += 1
        if damaged <= MAX_PROBLEMS:
            problems.append(str(row))
    if damaged > MAX_PROBLEMS:
        problems.append(f"table {table}: {damaged - MAX_PROBLEMS} more rows are damaged")


def _verify_campaign(store: Store, number: int, name: str) -> CampaignReport:
    try:
        return store.repeat_with_base(number, lambda base: _CampaignCheck(store, number, base).verify(name))
    except DamagedStore as error:
        return CampaignReport(number, name, 0, 0, 0, [str(error)])


class _CampaignCheck:
    """One pass over a campaign. A row is read before the rows that it may refer to, as a service may be writing."""

    def __init__(self, store: Store, number: int, base: Base | None) -> None:
        self._store, self._number, self._base = store, number, base
        self._problems: list[str] = []

    def verify(self, name: str) -> CampaignReport:
        """Read everything."""
        store, number = self._store, self._number
        try:
            if self._base is not None:
                try:
                    store.bases.data(self._base)
                except DamagedStore as error:
                    self._problems.append(str(error))
            decisions, decided = self._count_decisions()
            records, archived = self._count_records()
            id_count = self._count_ids()
            annotations = sum(1 for table in ("annotation", "annotated_task") for _ in self._rows(table))
            items = sum(1 for _ in self._rows("item"))
            pages, count, last = self._count_log()
            workers = self._count_workers()
            snapshots, damaged = store.snapshots(number).check()
            self._problems += damaged
            for what, position in (("decisions", decided), ("archived tasks", archived)):
                if position > last:
                    self._note(f"the log ends at position {last}, but there are {what} of position {position}")
        except (DamagedStore, Expired) as error:
            self._problems.append(str(error))
            return CampaignReport(number, name, 0, 0, 0, self._problems)
        begins = 1 if self._base is None else self._base.begins
        rows = workers, records, id_count, snapshots, annotations, items
        return CampaignReport(number, name, pages, count, decisions, self._problems, begins, *rows)

    def _note(self, problem: str) -> None:
        self._problems.append(f"campaign {self._number}: {problem}; restore a backup")

    def _rows(self, table: str) -> Iterator[Row]:
        return _intact_rows(self._store, table, self._number, self._problems)

    def _count_decisions(self) -> tuple[int, int]:
        """Return the number of decisions, and the last position of one."""
        count, last, expected = 0, 0, (0, 0)
        for _, first, part, end, body in self._rows("decision"):
            if part and (first, part) != expected:
                self._note(f"decisions of position {first} are missing")
            count, last, expected = count + len(decision_rows(body)), max(last, end), (first, part + 1)
        return count, last

    def _count_records(self) -> tuple[int, int]:
        """Return the number of records of archived tasks, and the last position of one."""
        count = last = 0
        for _, _, position, _, _ in self._rows("archive"):
            count, last = count + 1, max(last, position)
        return count, last

    def _count_ids(self) -> int:
        """Return the number of ids of clients."""
        counts: dict[int, int] = {}
        before, until = -1, b""
        for _, generation, first, end, body in self._rows("id_page"):
            expected = until if generation == before else b""
            if first != expected or (generation != before and until):
                self._note(f"ids are missing before a page of generation {generation}")
            counts[generation] = counts.get(generation, 0) + len(body) // (2 * HASH_BYTES)
            before, until = generation, end
        if until:
            self._note(f"ids are missing at the end of generation {before}")
        generations = [row[1] for row in self._rows("id_generation")]
        for generation in sorted({*generations, *counts, *range(len(generations))}):
            if generation not in generations or counts.get(generation) != ids.IDS_PER_GENERATION:
                have = counts.get(generation, 0)
                self._note(f"ids are missing: generation {generation} has {have} of {ids.IDS_PER_GENERATION}")
        return sum(counts.values())

    def _count_log(self) -> tuple[int, int, int]:
        """Return the number of pages and of events, and the last position."""
        head = empty_head(self._number) if self._base is None else self._base.head
        pages = count = 0
        last = head.last

        def read() -> Iterator[StoredPage]:
            nonlocal pages, count, last
            for page in self._store.pages(self._number):
                pages, count, last = pages + 1, count + page.size, page.last
                yield page

        self._problems.extend(find_damage(Chain(self._number, head), read()))
        return pages, count, last

    def _count_workers(self) -> int:
        """Return the number of workers, whose numbers have no gaps."""
        count = before = 0
        for _, number, _ in self._rows("worker"):
            if count and number != before + 1:
                self._note(f"the workers between number {before} and number {number} are missing")
            count, before = count + 1, number
        return count
