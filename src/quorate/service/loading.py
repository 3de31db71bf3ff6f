"""A campaign from its store: the newest snapshot that is whole, and the log from there on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from quorate.errors import InputError, QuorateError
from quorate.live import snapshot
from quorate.live.state import CampaignState
from quorate.service.names import Names
from quorate.store.archive import StoreArchive
from quorate.store.events import Created
from quorate.store.ids import IdIndex
from quorate.store.protocol import Store

log = logging.getLogger(__name__)


@dataclass
class Loaded:
    """A campaign's state, and what belongs to it outside of the fold."""

    state: CampaignState
    names: Names
    ids: IdIndex
    archive: StoreArchive
    snapshot_at: int  # the position of the last snapshot; 0: none


def load(store: Store, campaign: int) -> Loaded | None:
    """Return a campaign as its log has it; None where nothing was written to it yet."""
    archive = StoreArchive(store, campaign)
    state = _from_snapshot(store, campaign, archive)
    at = state.position if state is not None else 0
    for first, page in store.read(campaign, after=at):
        for position, event in enumerate(page, first):
            if state is None:
                if not isinstance(event, Created):
                    raise QuorateError(f"campaign {campaign} begins with {type(event).__name__}, not with Created: its log is damaged")
                state = CampaignState(event, archive)
            state.apply(position, event)
        if state is not None:
            state.changes.clear()
    if state is None:
        return None
    return Loaded(state, Names(store.workers(campaign)), IdIndex(store, campaign), archive, at)


def _from_snapshot(store: Store, campaign: int, archive: StoreArchive) -> CampaignState | None:
    found = store.snapshots(campaign).latest()
    if found is None:
        return None
    position, data = found
    if position > store.last(campaign):
        log.warning("campaign %d: the snapshot at %d is newer than the log, and is left alone", campaign, position)
        return None
    try:
        return snapshot.from_bytes(data, archive)
    except InputError as error:
        log.warning("campaign %d: the snapshot at %d cannot be read, the log is replayed: %s", campaign, position, error)
        return None
