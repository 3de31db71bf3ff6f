"""A campaign from its store: the newest snapshot that is whole, or what the log begins with, and the log from there on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from adjudge.errors import AdjudgeError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http.names import Names
from adjudge.service.store.archive import StoreArchive
from adjudge.service.store.bases import Base
from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.errors import DamagedStore, Expired
from adjudge.service.store.events import Created
from adjudge.service.store.ids import IdIndex
from adjudge.service.store.store import Store

Put: TypeAlias = Callable[[ArchiveRow], object]
log = logging.getLogger(__name__)


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
    while True:
        base = store.bases.find(campaign)
        try:
            loaded = _loaded(store, campaign, put, base)
        except Expired:
            if store.bases.find(campaign) == base:
                raise
            continue
        if store.bases.find(campaign) == base:  # else another process has deleted votes meanwhile that were looked for
            return loaded


def _loaded(store: Store, campaign: int, put: Put, base: Base | None) -> Loaded | None:
    end = store.last(campaign)
    loaded = _from_snapshot(store, campaign, put, end, 0 if base is None else base.position)
    if loaded is None:
        loaded = _from_first_event(store, campaign, put) if base is None else _from_base(store, campaign, put, base)
    if loaded is None:
        return None
    state = loaded.state
    for first, page in store.read(campaign, after=state.position, until=end):
        for position, event in enumerate(page, first):
            state.apply(position, event)
        state.changes.clear()
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


def _from_base(store: Store, campaign: int, put: Put, base: Base) -> Loaded:
    """Return what a log begins with whose first events are deleted."""
    return _opened(store, campaign, put, store.bases.data(base), base.position)


def _opened(store: Store, campaign: int, put: Put, data: bytes, position: int) -> Loaded:
    """Return what was saved at a position."""
    state, archived, ids = snapshot.opened(data)
    archive = StoreArchive(store, campaign, put, archived)
    names = Names(store.workers(campaign))
    return Loaded(snapshot.from_bytes(state, archive), names, IdIndex(store, campaign, ids), archive, position)


def _from_snapshot(store: Store, campaign: int, put: Put, end: int, since: int) -> Loaded | None:
    """Return the newest snapshot. One from before `since` is of no use: votes that were archived then are deleted."""
    found = store.snapshots(campaign).latest(until=end)
    if found is None or found[0] < since:
        return None
    try:
        return _opened(store, campaign, put, found[1], found[0])
    except AdjudgeError as error:
        log.warning("campaign %d: the snapshot at %d cannot be used, the log is replayed: %s", campaign, found[0], error)
        return None
