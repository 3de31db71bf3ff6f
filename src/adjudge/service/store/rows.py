"""Rows with a checksum each: computed when a row is written, compared whenever it is read.

The checksum covers the name of the table and every other column, the key included. So a row that was changed, or put in the
place of another, is found and named. The log has a stronger one (`pages.py`), which finds missing pages as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from adjudge.errors import quote
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.link import Link, Links, Row
from adjudge.service.store.tables import TABLES

CHECKSUM_BYTES: Final = 16
SCAN_ROWS: Final = 1024  # rows per query of a scan
# The tables whose rows have such a checksum, and the columns of their keys.
KEY_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "campaign": ("number",),
    "decision": ("campaign", "first", "part"),
    "worker": ("campaign", "number"),
    "archive": ("campaign", "task", "position"),
    "annotation": ("campaign", "annotation"),
    "annotated_task": ("campaign", "task"),
    "base": ("campaign",),
    "id_generation": ("campaign", "generation"),
    "id_page": ("campaign", "generation", "first"),
    "token": ("number",),
    "webhook": ("number",),
    "outbox": ("number",),
}
# The columns of each, in the order in which they are hashed, selected and returned; the checksum comes after them.
HASHED_COLUMNS: Final = {table: tuple(column for column in TABLES[table] if column != "checksum") for table in KEY_COLUMNS}
_encode: Final = msgspec.msgpack.Encoder().encode


def row_checksum(table: str, row: Sequence[object]) -> bytes:
    """Return the checksum of a row.

    - `table`: its name.
    - `row`: the values of all columns but the checksum, in the order of `HASHED_COLUMNS[table]`.
    """
    return blake2b(_encode((table, *row)), digest_size=CHECKSUM_BYTES).digest()


def insert_rows(link: Link, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Insert rows with their checksums.

    - `link`: the connection that writes.
    - `table`: the name of the table.
    - `rows`: values in the order of `HASHED_COLUMNS[table]`.
    """
    link.insert(table, (*HASHED_COLUMNS[table], "checksum"), [(*row, row_checksum(table, row)) for row in rows])


def add_rows(link: Link, table: str, rows: Sequence[Sequence[object]]) -> list[int]:
    """Insert rows into a table whose numbers the database gives out; return the numbers.

    - `link`, `table`: as for `insert_rows`.
    - `rows`: values in the order of `HASHED_COLUMNS[table]`, without the number.
    """
    numbers = link.numbers(table, len(rows))
    insert_rows(link, table, [(number, *row) for number, row in zip(numbers, rows, strict=True)])
    return numbers


def read_rows(link: Link, table: str, which: str, *values: object) -> list[Row]:
    """Return rows in the order of `HASHED_COLUMNS[table]`; raise `DamagedStore` if a checksum differs.

    - `link`: a connection.
    - `table`: the name of the table.
    - `which`: SQL after the name of the table: WHERE, ORDER BY, LIMIT.
    - `values`: for its question marks.
    """
    return [open_row(table, row) for row in link.rows(f"SELECT {select_list(table)} FROM {table} {which}", *values)]


@cache
def select_list(table: str, alias: str = "") -> str:
    """Return the columns that `open_row` takes, for a SELECT.

    - `table`: its name.
    - `alias`: what the query calls it.
    """
    prefix = f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{column}" for column in (*HASHED_COLUMNS[table], "checksum"))


def open_row(table: str, row: Row) -> Row:
    """Return the values of a row without its checksum; raise `DamagedStore` if that differs.

    - `table`: its name.
    - `row`: the values, the checksum last.
    """
    *values, stored = row
    if row_checksum(table, values) != stored:
        raise DamagedStore(f"{describe_row(table, values)} is damaged: the checksum differs; restore a backup")
    return tuple(values)


def update_rows(link: Link, table: str, change: Callable[[dict[str, Any]], object], which: str, *values: object) -> int:
    """Change rows and their checksums; return how many there were.

    - `link`: the connection that writes.
    - `table`: the name of the table.
    - `change`: is called with each row as a dictionary, and changes that; the key stays.
    - `which`, `values`: as for `read_rows`.
    """
    key, columns = KEY_COLUMNS[table], HASHED_COLUMNS[table]
    others = [column for column in columns if column not in key]
    sets = ", ".join(f"{column} = ?" for column in (*others, "checksum"))
    found = f"{' AND '.join(f'{column} = ?' for column in key)} AND checksum = ?"
    count = 0
    for row in link.rows(f"SELECT {select_list(table)} FROM {table} {which}", *values):
        fields = dict(zip(columns, open_row(table, row), strict=True))
        change(fields)
        new = tuple(fields[column] for column in columns)
        place = (*(fields[column] for column in key), row[-1])  # another process may have changed or deleted it meanwhile
        changed = (fields[column] for column in others)
        count += link.run(f"UPDATE {table} SET {sets} WHERE {found}", *changed, row_checksum(table, new), *place)
    return count


def scan_rows(links: Links, table: str, campaign: int | None = None) -> Iterator[Row | DamagedStore]:
    """Yield every row of a table in the order of its key, or what is wrong with it. No connection is held in between.

    - `links`: the store's connections.
    - `table`: the name of the table.
    - `campaign`: only rows of this campaign; None: all.
    """
    key = KEY_COLUMNS[table]
    names, marks = ", ".join(key), ", ".join("?" * len(key))
    of, only = ("", ()) if campaign is None else ("campaign = ?", (campaign,))
    after: tuple[object, ...] = ()
    while True:
        conditions = [text for text in (of, f"({names}) > ({marks})" if after else "") if text]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        with links.reading() as link:
            rows = link.rows(
                f"SELECT {select_list(table)} FROM {table} {where} ORDER BY {names} LIMIT {SCAN_ROWS}", *only, *after
            )
        for row in rows:
            try:
                yield open_row(table, row)
            except DamagedStore as error:
                yield error
        if len(rows) < SCAN_ROWS:
            return
        after = tuple(rows[-1][HASHED_COLUMNS[table].index(column)] for column in key)


def describe_row(table: str, row: Sequence[object]) -> str:
    """Return in words which row of which table this is.

    - `table`: its name.
    - `row`: its values, in the order of `HASHED_COLUMNS[table]`.
    """
    values = dict(zip(HASHED_COLUMNS[table], row, strict=True))
    campaign = values.get("campaign")
    whose = f" of campaign {quote(campaign)}" if "campaign" in KEY_COLUMNS[table] or isinstance(campaign, int) else ""
    place = ", ".join(f"{column} {_shown(values[column])}" for column in KEY_COLUMNS[table] if column != "campaign")
    return f"table {table}{whose}{': ' if place else ''}{place}"


def _shown(value: object) -> str:
    return quote(value.decode("utf-8", "replace")) if isinstance(value, bytes) else quote(value)
