"""A store made from a backup."""

from __future__ import annotations

import os
from pathlib import Path

from adjudge.service.store.errors import StoreError
from adjudge.service.store.opening import open_store
from adjudge.service.store.sqlite import SqliteStore
from adjudge.service.store.verify import verify, verify_shared


def restore(backup: str | os.PathLike[str], url: str | os.PathLike[str]) -> None:
    """Make a store from a backup, after a check of every row of it.

    - `backup`: the file that `backup` wrote.
    - `url`: the path of the new store, where nothing may be, or the address of a database without one.
    """
    source = SqliteStore(backup, readonly=True)
    try:
        wrong = [*verify_shared(source)[1], *(problem for found in verify(source) for problem in found.problems)]
        if wrong:
            raise StoreError(f"the backup {os.fspath(backup)} is damaged: {wrong[0]}")
        target = os.fspath(url)
        if "://" not in target:
            if os.path.lexists(target):
                raise StoreError(f"cannot restore to {target}: it is there already; move it away, or give another path")
            source.backup(Path(target))
            return
        store = open_store(target)
        try:
            store.fill(source.tables())  # type: ignore[attr-defined]
        finally:
            store.close()
    finally:
        source.close()
