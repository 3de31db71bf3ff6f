"""The tokens of clients as rows; the HTTP layer decides what each token allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjudge.service.store.errors import StoreError
from adjudge.service.store.rows import add_rows, read_rows, update_rows

if TYPE_CHECKING:
    from adjudge.service.store.store import Store


class TokenRow(NamedTuple):
    """A token. Only a hash of its text is stored."""

    number: int
    hash: bytes
    name: str
    scopes: tuple[str, ...]
    campaign: str | None  # its name; None: all campaigns
    created: int  # microseconds since 1970
    revoked: int | None  # likewise


class Tokens:
    """The tokens of a store: `add` and `revoke` run in the writer's thread, `all` in any."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[TokenRow]:
        """Return all tokens by number, including revoked ones."""
        with self._store.reading() as link:
            rows = read_rows(link, "token", "ORDER BY number")
        return [TokenRow(number, bytes(key), name, tuple(json.loads(scopes)), *rest) for number, key, name, scopes, *rest in rows]

    def add(self, hash: bytes, name: str, scopes: Sequence[str], campaign: str | None, created: int) -> int:  # noqa: A002
        """Add a token, and return its number; see `TokenRow` for the fields."""
        with self._store.writing() as link:
            if link.rows("SELECT 1 FROM token WHERE hash = ?", hash):
                raise StoreError("this token exists already: make another")
            return add_rows(link, "token", [(hash, name, json.dumps(list(scopes)), campaign, created, None)])[0]

    def revoke(self, number: int, time: int) -> bool:
        """Revoke a token at a time, in microseconds since 1970; return whether it existed and was not revoked yet."""
        valid = "WHERE number = ? AND revoked IS NULL"
        with self._store.writing() as link:
            return bool(update_rows(link, "token", lambda token: token.update(revoked=time), valid, number))
