"""Connections to a database, and rows with a checksum each: computed on write, compared on every read.

The checksum covers the name of the table and every other column, including the key. So a row that was changed, or moved to the
place of another, is found and named. The log has a stronger one (`pages.py`), which also detects missing pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from adjudge.errors import quote
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.schema import TABLES

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

Row: TypeAlias = tuple[Any, ...]
CHECKSUM_BYTES: Final = 16
ROWS_PER_SCAN_QUERY: Final = 1024
# The tables with row checksums, and the columns of their keys.
KEY_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "campaign": ("number",),
    "decision": ("campaign", "first", "part"),
    "worker": ("campaign", "number"),
    "archive": ("campaign", "task", "position"),
    "annotation": ("campaign", "annotation"),
    "annotated_task": ("campaign", "task"),
    "item": ("campaign", "task"),
    "base": ("campaign",),
    "id_generation": ("campaign", "generation"),
    "id_page": ("campaign", "generation", "first"),
    "token": ("number",),
    "webhook": ("number",),
    "outbox": ("number",),
}
# The columns of each in the order in which they are hashed, selected and returned; the checksum comes after them.
HASHED_COLUMNS: Final = {table: tuple(column for column in TABLES[table] if column != "checksum") for table in KEY_COLUMNS}
_encode: Final = msgspec.msgpack.Encoder().encode


class Link(Protocol):
    """A connection: SQL with `?` for each value."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return the result of a query."""

    def run(self, sql: str, *values: object) -> int:
        """Return how many rows a statement has changed."""

    def numbers(self, table: str, count: int) -> list[int]:
        """Return numbers for new rows of a table whose numbers the database assigns; each number is used once."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Insert rows in few statements, because each statement competes with other threads for the interpreter's lock."""

    def close(self) -> None:
        """Close the connection."""


def encode_text(text: str) -> bytes:
    """Return text as the database stores it: a name may contain any character, including NUL and lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text that `encode_text` stored."""
    return bytes(data).decode("utf-8", "surrogatepass")


def as_bytes(value: object) -> bytes:
    """Return a value that should be bytes; in a damaged SQLite file it may have any type, which the checksum then reveals."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def row_checksum(table: str, row: Sequence[object]) -> bytes:
    """Return the checksum of a row, given its values in the order of `HASHED_COLUMNS[table]`."""
    return blake2b(_encode((table, *row)), digest_size=CHECKSUM_BYTES).digest()


def insert_rows(link: Link, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Insert rows, given as values in the order of `HASHED_COLUMNS[table]`, with their checksums."""
    link.insert(table, (*HASHED_COLUMNS[table], "checksum"), [(*row, row_checksum(table, row)) for row in rows])


def add_rows(link: Link, table: str, rows: Sequence[Sequence[object]]) -> list[int]:
    """Insert rows, given without their numbers, into a table whose numbers the database assigns; return the numbers."""
    numbers = link.numbers(table, len(rows))
    insert_rows(link, table, [(number, *row) for number, row in zip(numbers, rows, strict=True)])
    return numbers


def read_rows(link: Link, table: str, clauses: str, *values: object) -> list[Row]:
    """Return rows in the order of `HASHED_COLUMNS[table]`; raise `DamagedStore` if a checksum differs.

    `clauses` is the SQL after the table's name (WHERE, ORDER BY, LIMIT), and `values` fill its question marks.
    """
    return [open_row(table, row) for row in link.rows(f"SELECT {select_list(table)} FROM {table} {clauses}", *values)]


def read_pages(
    store: Store, read: Callable[..., list[Row]], after: tuple[object, ...], key: Callable[[Row], tuple[object, ...]], limit: int
) -> Iterator[list[Row]]:
    """Yield rows page by page, holding no connection in between.

    `read` gets a connection and the key after which the page begins, and returns up to `limit` rows.
    """
    while True:
        with store.reading() as link:
            rows = read(link, *after)
        if rows:
            yield rows
        if len(rows) < limit:
            return
        after = key(rows[-1])


@cache
def select_list(table: str, alias: str = "") -> str:
    """Return the columns that `open_row` takes, for the SELECT of a query that calls the table `alias`."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{column}" for column in (*HASHED_COLUMNS[table], "checksum"))


def open_row(table: str, row: Row) -> Row:
    """Return the values of a row without its checksum, which is the last; raise `DamagedStore` if it differs."""
    *values, stored = row
    if row_checksum(table, values) != stored:
        raise DamagedStore(f"{describe_row(table, values)} is damaged: the checksum differs; restore a backup")
    return tuple(values)


def update_rows(link: Link, table: str, change: Callable[[dict[str, Any]], object], clauses: str, *values: object) -> int:
    """Change rows and their checksums; return how many were changed.

    `change` modifies a row, given as a dictionary, in place; the key must stay. `clauses` and `values` are as for `read_rows`.
    """
    key, columns = KEY_COLUMNS[table], HASHED_COLUMNS[table]
    others = [column for column in columns if column not in key]
    sets = ", ".join(f"{column} = ?" for column in (*others, "checksum"))
    unchanged = f"{' AND '.join(f'{column} = ?' for column in key)} AND checksum = ?"
    count = 0
    for row in link.rows(f"SELECT {select_list(table)} FROM {table} {clauses}", *values):
        fields = dict(zip(columns, open_row(table, row), strict=True))
        change(fields)
        new = tuple(fields[column] for column in columns)
        condition = (*(fields[column] for column in key), row[-1])  # another process may have changed or deleted the row
        changed = (fields[column] for column in others)
        count += link.run(f"UPDATE {table} SET {sets} WHERE {unchanged}", *changed, row_checksum(table, new), *condition)
    return count


def scan_rows(store: Store, table: str, campaign: int | None = None) -> Iterator[Row | DamagedStore]:
    """Yield every row of a table, or of one campaign in it, in the order of its key; for a damaged row, yield the error."""
    key = KEY_COLUMNS[table]
    names, marks = ", ".join(key), ", ".join("?" * len(key))
    columns = [HASHED_COLUMNS[table].index(column) for column in key]
    whole, only = ("", ()) if campaign is None else ("campaign = ?", (campaign,))

    def read(link: Link, *after: object) -> list[Row]:
        conditions = [text for text in (whole, f"({names}) > ({marks})" if after else "") if text]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {select_list(table)} FROM {table} {where} ORDER BY {names} LIMIT {ROWS_PER_SCAN_QUERY}"
        return link.rows(sql, *only, *after)

    for page in read_pages(store, read, (), lambda row: tuple(row[at] for at in columns), ROWS_PER_SCAN_QUERY):
        for row in page:
            try:
                yield open_row(table, row)
            except DamagedStore as error:
                yield error


def describe_row(table: str, row: Sequence[object]) -> str:
    """Return which row of which table this is, in words."""
    values = dict(zip(HASHED_COLUMNS[table], row, strict=True))
    campaign = values.get("campaign")
    owner = f" of campaign {quote(campaign)}" if "campaign" in KEY_COLUMNS[table] or isinstance(campaign, int) else ""
    key = ", ".join(f"{column} {_quote(values[column])}" for column in KEY_COLUMNS[table] if column != "campaign")
    return f"table {table}{owner}{': ' if key else ''}{key}"


def _quote(value: object) -> str:
    return quote(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
