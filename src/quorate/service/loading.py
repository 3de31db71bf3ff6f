"""A campaign from its store: the newest snapshot that is whole, and the log from there on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from quorate.errors import QuorateError
from quorate.live import snapshot
from quorate.live.state import CampaignState
from quorate.service.names import Names
from quorate.store.archive import StoreArchive
from quorate.store.errors import DamagedStore
from quorate.store.events import Created
from quorate.store.ids import IdIndex
from quorate.store.protocol import Store

Put: TypeAlias = Callable[[tuple[int, int, str, bytes]], object]
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
    end = store.last(campaign)
    loaded = _from_snapshot(store, campaign, put, end)
    if loaded is None:
        loaded = _from_first_event(store, campaign, put)
    if loaded is None:
        return None
    state = loaded.state
    for first, page in store.read(campaign, after=state.position, until=end):
        for position, event in enumerate(page, first):
            state.apply(position, event)
        state.changes.clear()
    loaded.ids.catch_up(state.position)
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


def _from_snapshot(store: Store, campaign: int, put: Put, end: int) -> Loaded | None:
    found = store.snapshots(campaign).latest(until=end)
    if found is None:
        return None
    try:
        state, archived, ids = snapshot.opened(found[1])
        archive = StoreArchive(store, campaign, put, archived)
        names = Names(store.workers(campaign))
        return Loaded(snapshot.from_bytes(state, archive), names, IdIndex(store, campaign, ids), archive, found[0])
    except QuorateError as error:
        log.warning("campaign %d: the snapshot at %d cannot be used, the log is replayed: %s", campaign, found[0], error)
        return None
