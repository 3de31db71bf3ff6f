"""Items: the content of tasks (text, addresses, any JSON), which people look at and no model reads.

They are outside of the log, so that they can be erased; a task keeps the first one that was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from adjudge.service.store.batch import ItemRow
from adjudge.service.store.rows import HASHED_COLUMNS, Link, Row, decode_text, encode_text, read_pages, read_rows, row_checksum

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

ROWS_PER_QUERY: Final = 4096
ITEM_COLUMNS: Final = (*HASHED_COLUMNS["item"], "checksum")
PUT: Final = f"INSERT INTO item ({', '.join(ITEM_COLUMNS)}) VALUES ({', '.join('?' * len(ITEM_COLUMNS))}) ON CONFLICT DO NOTHING"


class Items:
    """The items of a store: `remove` runs in the writer's thread, everything else in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, campaign: int, task: str) -> bytes | None:
        """Return the item of a task as JSON, None if it has none."""
        with self._store.reading() as link:
            rows = read_rows(link, "item", "WHERE campaign = ? AND task = ?", campaign, encode_text(task))
        return rows[0][2] if rows else None

    def seen_before(self, campaign: int, time: int) -> Iterator[list[str]]:
        """Yield the tasks whose items came before a time, page by page, in the order of that time."""

        def read(link: Link, *after: object) -> list[Row]:
            where = "WHERE campaign = ? AND seen < ? AND (seen, task) > (?, ?) ORDER BY seen, task LIMIT ?"
            return read_rows(link, "item", where, campaign, time, *after, ROWS_PER_QUERY)

        pages = read_pages(self._store, read, (-(1 << 62), b""), lambda row: (row[3], row[1]), ROWS_PER_QUERY)
        return ([decode_text(row[1]) for row in rows] for rows in pages)

    def remove(self, campaign: int, tasks: Sequence[str]) -> int:
        """Delete the items of tasks for good; return how many there were."""
        with self._store.writing() as link:
            delete = "DELETE FROM item WHERE campaign = ? AND task = ?"
            count = sum(link.run(delete, campaign, encode_text(task)) for task in tasks)
        self._store.overwrite()
        return count


def put_items(link: Link, items: Sequence[ItemRow]) -> None:
    """Write items within a transaction; a task that has one keeps it."""
    for item in items:
        values = item.campaign, encode_text(item.task), item.data, item.seen
        link.run(PUT, *values, row_checksum("item", values))
