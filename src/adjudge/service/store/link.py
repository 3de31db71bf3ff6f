"""A connection to a database, as the code that is the same for all databases sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


def raw(value: object) -> bytes:
    """Return a value that should be bytes: in a damaged SQLite file it may be anything, and the checksum will tell.

    - `value`: as the database gave it.
    """
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


class Link(Protocol):
    """A connection: SQL with `?` for each value."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return what a query gives."""

    def run(self, sql: str, *values: object) -> int:
        """Return how many rows a statement has changed."""

    def numbers(self, table: str, count: int) -> list[int]:
        """Return so many numbers for new rows of a table whose numbers the database gives out; none is given twice."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Insert rows in few statements: each statement makes the other threads wait for its end, or it for them."""


class Links(Protocol):
    """Where connections come from."""

    def reading(self) -> AbstractContextManager[Link]:
        """Lend a connection that reads, to any thread."""

    def writing(self) -> AbstractContextManager[Link]:
        """Lend the connection that writes, to the writer's thread: what is done with it is one transaction."""

    def overwrite(self) -> None:
        """Let what was deleted be gone from the disk as well, at the next quiet moment."""
