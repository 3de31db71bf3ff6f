"""Checking a whole store: every page of every log, and of the decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from quorate.store.bases import Base
from quorate.store.errors import DamagedStore, Expired
from quorate.store.pages import StoredPage, damage
from quorate.store.protocol import Store


class Verified(NamedTuple):
    """What was found of a campaign."""

    campaign: int
    name: str
    pages: int
    events: int
    decisions: int
    problems: list[str]  # what is damaged, and where; empty where all is well
    begins: int = 1  # the first position that is kept: what was before has expired


def verify(store: Store) -> list[Verified]:
    """Return what is found of each campaign when every checksum is computed again.

    - `store`: any.

    >>> import tempfile
    >>> from quorate.store.opening import open_store
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> number = store.create_campaign("spam")
    >>> verify(store)
    [Verified(campaign=1, name='spam', pages=0, events=0, decisions=0, problems=[], begins=1)]
    >>> store.close(); folder.cleanup()
    """
    return [_verified(store, number, name) for number, name in store.campaigns()]


def _verified(store: Store, number: int, name: str) -> Verified:
    while True:
        base = store.bases.find(number)
        found = _found(store, number, name, base)
        if store.bases.find(number) == base:  # else more of the log was deleted meanwhile
            return found


def _found(store: Store, number: int, name: str, base: Base | None) -> Verified:
    pages = events = decisions = 0

    def counted() -> Iterator[StoredPage]:
        nonlocal pages, events
        for page in store.pages(number):
            pages, events = pages + 1, events + page.size
            yield page

    problems: list[str] = []
    try:
        if base is not None:
            try:
                store.bases.data(base)
            except DamagedStore as error:
                problems.append(str(error))
        problems.extend(damage(number, counted(), None if base is None else base.head))
        problems.extend(store.annotations.damage(number))
        for _ in store.decisions(number):
            decisions += 1
    except (DamagedStore, Expired) as error:
        problems.append(str(error))
    return Verified(number, name, pages, events, decisions, problems, 1 if base is None else base.begins)
