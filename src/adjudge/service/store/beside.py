"""A store that is opened beside the process that writes it: for tokens, which are made and revoked while a server runs."""

from __future__ import annotations

import os
from pathlib import Path

from adjudge.service.store.errors import NotOwner
from adjudge.service.store.opening import open_store
from adjudge.service.store.protocol import Store
from adjudge.service.store.sqlite import SqliteLink, SqliteStore


def open_beside(url: str | os.PathLike[str]) -> Store:
    """Return a store whose tokens can be changed, whether or not another process writes its log.

    Each change is a short transaction of its own, and the database lets one after the other through.

    - `url`: as for `open_store`. A file that is not there is made.

    >>> import tempfile
    >>> from adjudge.service.store.opening import open_store
    >>> folder = tempfile.TemporaryDirectory()
    >>> server = open_store(folder.name + "/votes.db")
    >>> beside = open_beside(folder.name + "/votes.db")
    >>> beside.tokens.add(b"hash", "ann", ["vote"], None, 0)
    1
    >>> [token.name for token in server.tokens.all()]
    ['ann']
    >>> beside.close(); server.close(); folder.cleanup()
    """
    text = os.fspath(url)
    if "://" in text:
        return open_store(text)  # there a campaign has a lock of its own, and the rest has none
    if not Path(text).exists():
        open_store(text).close()
    return BesideStore(text)


class BesideStore(SqliteStore):
    """A SQLite store without the lock of its writer: tokens can be changed, the log is only read.

    - `path`: of the file, which must be there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, readonly=True)
        with self._translated("opened"):
            connection = self._connection("rw")
            # Every commit is synced; the write-ahead log is copied into the file by the server alone, when it has time.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._writer = SqliteLink(connection)

    def own(self, campaign: int) -> None:
        """Refuse: the log is the server's to write."""
        raise NotOwner(f"campaign {campaign} of {self.url} cannot be written: the store is open for tokens only")

    def create_campaign(self, name: str) -> int:
        """Refuse: the log is the server's to write."""
        raise NotOwner(f"a campaign cannot be made in {self.url}: the store is open for tokens only")

    def write(self, batch: object) -> None:
        """Refuse: the log is the server's to write."""
        raise NotOwner(f"the log of {self.url} cannot be written: the store is open for tokens only")
