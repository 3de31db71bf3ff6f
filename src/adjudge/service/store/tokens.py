"""Tokens of clients, as rows: who may do what is the service's to say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from adjudge.service.store.errors import StoreError
from adjudge.service.store.link import Links
from adjudge.service.store.rows import add_rows, read_rows, update_rows


class TokenRow(NamedTuple):
    """A token. Its text is nowhere: only a hash of it."""

    number: int
    hash: bytes
    name: str
    scopes: tuple[str, ...]
    campaign: str | None  # its name; None: all campaigns
    created: int  # microseconds since 1970
    revoked: int | None  # the same


class Tokens:
    """The tokens of a store: `add` and `revoke` in the writer's thread, `all` in any.

    - `links`: the store's connections.
    """

    def __init__(self, links: Links) -> None:
        self._links = links

    def all(self) -> list[TokenRow]:
        """Return all tokens, revoked ones too, by number."""
        with self._links.reading() as link:
            rows = read_rows(link, "token", "ORDER BY number")
        return [TokenRow(number, bytes(key), name, tuple(json.loads(scopes)), *rest) for number, key, name, scopes, *rest in rows]

    def add(self, hash: bytes, name: str, scopes: Sequence[str], campaign: str | None, created: int) -> int:  # noqa: A002
        """Add a token and return its number.

        - `hash`: of its text.
        - `name`: for people.
        - `scopes`: what it is good for.
        - `campaign`: the name of the only campaign that it is for, or None.
        - `created`: the time, in microseconds since 1970.
        """
        with self._links.writing() as link:
            if link.rows("SELECT 1 FROM token WHERE hash = ?", hash):
                raise StoreError("this token exists already: make another")
            return add_rows(link, "token", [(hash, name, json.dumps(list(scopes)), campaign, created, None)])[0]

    def revoke(self, number: int, time: int) -> bool:
        """Revoke a token; return whether it was there and not revoked yet.

        - `number`: of the token.
        - `time`: in microseconds since 1970.
        """
        which = "WHERE number = ? AND revoked IS NULL"
        with self._links.writing() as link:
            return bool(update_rows(link, "token", lambda token: token.update(revoked=time), which, number))
