"""Numbered changes of the tables, each in a transaction: how a store of an older version becomes one of this version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adjudge.service.store.migrations import m001_tables
from adjudge.service.store.tables import COLUMN_TYPES

# In order; the version of a store is how many of them it has. A migration that was released never changes.
MIGRATIONS: Final = (m001_tables,)
VERSION: Final = len(MIGRATIONS)


def statements(number: int, dialect: str) -> Sequence[str]:
    """Return the SQL of a migration.

    - `number`: from 1 on.
    - `dialect`: "sqlite" or "postgresql".
    """
    migration = MIGRATIONS[number - 1]
    own: Sequence[str] = migration.POSTGRESQL if dialect == "postgresql" else migration.SQLITE
    return [text.format_map(COLUMN_TYPES[dialect]) for text in (*migration.BOTH, *own)]
