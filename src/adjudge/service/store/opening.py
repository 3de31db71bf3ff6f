"""Opening a store by its path or address; the library for its database is loaded then."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Final, cast

from adjudge.errors import choice_error
from adjudge.service.store.protocol import Store

# Scheme to "module:class". A path has none.
STORES: Final = {
    "": "adjudge.service.store.sqlite:SqliteStore",
    "postgresql": "adjudge.service.store.postgres:PostgresStore",
    "postgres": "adjudge.service.store.postgres:PostgresStore",
}


def open_store(url: str | os.PathLike[str], *, readonly: bool = False) -> Store:
    """Return the store at a path (SQLite) or an address (`postgresql://…`).

    - `url`: the path or the address. A file that is not there is made, and so are the tables in an empty database.
    - `readonly`: reads only. Any number of processes may, beside the one that writes.

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
