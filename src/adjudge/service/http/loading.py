"""Load a campaign from its store: the newest usable snapshot, or the beginning of the log, and the log from there on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from adjudge.errors import AdjudgeError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.replay import fold_log
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store.archive import StoreArchive
from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Created
from adjudge.service.store.ids import IdIndex
from adjudge.service.store.log import Base
from adjudge.service.store.store import Store

Put: TypeAlias = Callable[[ArchiveRow], object]
log = logging.getLogger(__name__)


class Names:
    """Names by number, and numbers by name. Numbers count from 1, and are never given twice."""

    def __init__(self, rows: Iterable[tuple[int, str | None]] = ()) -> None:
        self.numbers: dict[str, int] = {}  # by name
        self._names: dict[int, str | None] = {}
        self._last = 0
        self.learn(rows)

    def __len__(self) -> int:
        return len(self._names)

    def number(self, name: str) -> int | None:
        """Return the number of a worker, None for an unknown one."""
        return self.numbers.get(name)

    def name(self, number: int) -> str | None:
        """Return the name of a worker, None for an erased one."""
        return self._names.get(number)

    def after(self, number: int, limit: int) -> list[int]:
        """Return the numbers of up to `limit` workers after one."""
        return [n for n in range(number + 1, min(self._last, number + limit) + 1) if n in self._names]

    @property
    def last(self) -> int:
        """The number of the last worker."""
        return self._last

    def learn(self, rows: Iterable[tuple[int, str | None]]) -> None:
        """Take in workers that another process has added."""
        for number, name in rows:
            self._names[number] = name
            if name is not None:
                self.numbers[name] = number
            self._last = max(self._last, number)

    def add(self, name: str) -> int:
        """Return the number of a new worker."""
        self._last = number = self._last + 1
        self.numbers[name] = number
        self._names[number] = name
        return number

    def erase(self, number: int) -> None:
        """Forget the name of a worker."""
        name = self._names.get(number)
        if name is not None:
            del self.numbers[name]
            self._names[number] = None


@dataclass
class Loaded:
    """A campaign's state, and what belongs to it outside of the fold."""

    state: CampaignState
    names: Names
    ids: IdIndex
    archive: StoreArchive
    snapshot_at: int = 0  # the position of the last snapshot; 0: none

    def saved(self) -> bytes:
        """Return what a snapshot keeps. It is whole only while no refit is under way."""
        return snapshot.bundle(snapshot.to_bytes(self.state), self.archive.state(), self.ids.state(self.state.position))


def load(store: Store, campaign: int, put: Put) -> Loaded | None:
    """Return a campaign as its log has it; None where nothing was written to it yet.

    `put` takes what the archive is to write, once the campaign runs.
    """
    return store.repeat_with_base(campaign, lambda base: _load_from(store, campaign, put, base))


def _load_from(store: Store, campaign: int, put: Put, base: Base | None) -> Loaded | None:
    end = store.last(campaign)
    loaded = _from_snapshot(store, campaign, put, end, 0 if base is None else base.position)
    if loaded is None:
        if base is None:
            loaded = _from_first_event(store, campaign, put)
        else:
            loaded = _open_saved(store, campaign, put, store.bases.data(base), base.position)
    if loaded is None:
        return None
    state = loaded.state
    fold_log(store, campaign, state, end)
    loaded.ids.catch_up(state.position)
    names, last = loaded.names, max(state.crowd.all, default=0)
    if last > names.last or len(names) != names.last:
        have = f"{len(names)} of {max(last, names.last)}"
        raise DamagedStore(f"table worker of campaign {campaign}: {have} workers are there; restore a backup")
    return loaded


def new(store: Store, campaign: int, created: Created, put: Put) -> Loaded:
    """Return a campaign without events, whose first one is to be `created`."""
    archive = StoreArchive(store, campaign, put)
    return Loaded(CampaignState(created, archive), Names(store.workers(campaign)), IdIndex(store, campaign), archive)


def _from_first_event(store: Store, campaign: int, put: Put) -> Loaded | None:
    for _, page in store.read(campaign, until=1):
        if not isinstance(page[0], Created):
            raise DamagedStore(f"campaign {campaign} begins with {type(page[0]).__name__}, not with Created: restore a backup")
        return new(store, campaign, page[0], put)
    return None


def _open_saved(store: Store, campaign: int, put: Put, data: bytes, position: int) -> Loaded:
    """Return what was saved at a position."""
    state, archived, ids = snapshot.unbundle(data)
    archive = StoreArchive(store, campaign, put, archived)
    names = Names(store.workers(campaign))
    return Loaded(snapshot.from_bytes(state, archive), names, IdIndex(store, campaign, ids), archive, position)


def _from_snapshot(store: Store, campaign: int, put: Put, end: int, since: int) -> Loaded | None:
    """Return the newest snapshot. One from before `since` is of no use: votes that were archived then are deleted."""
    newest = store.snapshots(campaign).latest(until=end)
    if newest is None or newest[0] < since:
        return None
    try:
        return _open_saved(store, campaign, put, newest[1], newest[0])
    except AdjudgeError as error:
        log.warning("campaign %d: the snapshot at %d cannot be used, the log is replayed: %s", campaign, newest[0], error)
        return None
