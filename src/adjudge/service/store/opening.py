"""Opening a store by its path or address, which loads the library for its database."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from adjudge.errors import choice_error
from adjudge.service.store.store import Store

# Scheme to "module:class". A path has none.
STORES: Final = {
    "": "adjudge.service.store.sqlite:SqliteStore",
    "postgresql": "adjudge.service.store.postgres:PostgresStore",
    "postgres": "adjudge.service.store.postgres:PostgresStore",
}


def open_store(url: str | os.PathLike[str], *, readonly: bool = False) -> Store:
    """Return the store at a path (SQLite) or an address (`postgresql://…`).

    A missing file is created, and so are the tables in an empty database. With `readonly`, any number of processes can read
    while another one writes.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> store.create_campaign("spam")
    1
    >>> store.campaigns()
    [CampaignRow(number=1, name='spam')]
    >>> store.close(); folder.cleanup()
    """
    text = os.fspath(url)
    scheme = text.partition("://")[0] if "://" in text else ""
    if scheme not in STORES:
        raise choice_error("kind of store", scheme, [f"{name}://" if name else "a path" for name in STORES])
    module, _, name = STORES[scheme].partition(":")
    return cast(Store, getattr(import_module(module), name)(text, readonly=readonly))


def open_token_store(url: str | os.PathLike[str]) -> Store:
    """Return a store whose tokens can be changed while another process writes its log.

    Each change is a short transaction of its own, which the database serialises with others. A missing file is created.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> server = open_store(folder.name + "/votes.db")
    >>> store = open_token_store(folder.name + "/votes.db")
    >>> store.tokens.add(b"hash", "ann", ["vote"], None, 0)
    1
    >>> [token.name for token in server.tokens.all()]
    ['ann']
    >>> store.close(); server.close(); folder.cleanup()
    """
    text = os.fspath(url)
    if "://" in text:
        return open_store(text)  # a database locks single campaigns, and nothing else
    if not Path(text).exists():
        open_store(text).close()
    from adjudge.service.store.sqlite import TokenStore

    return TokenStore(text)
