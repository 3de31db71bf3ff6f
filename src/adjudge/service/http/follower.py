"""Campaigns that another process writes: their log is followed, and they are taken over once that process is gone.

Several servers can share one database. Each campaign is written by one of them, whose lock the database holds for as long as
it is connected. The others read its log as it grows and fold it into a state of their own, so that they answer readers too, a
moment later. The process that finds the lock free takes it, reads the rest of the log, and writes from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.errors import AdjudgeError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.effort import is_heavy
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.fold import Slice, Steps
from adjudge.service.http.leases import UNKNOWN_OWNER, now
from adjudge.service.http.maintenance import run_refit
from adjudge.service.store import events
from adjudge.service.store.errors import Expired, NotOwner
from adjudge.service.store.ids import IdIndex
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.http.campaigns import Campaigns

log = logging.getLogger(__name__)
FOLLOW_INTERVAL_S: Final = 0.2  # seconds between looks at the logs of others
LOCKS_EVERY: Final = 5  # looks between looks at the locks: one second
FOLLOW_BATCH_EVENTS: Final = 20_000  # events


def owner_of(store: Store, campaign: int) -> str | None:
    """Become the writer of a campaign, and return None; or say which other process is.

    - `campaign`: its number.
    - `store`: used in the thread of its writer.
    """
    try:
        store.own(campaign)
    except NotOwner:
        return store.owner(campaign) or UNKNOWN_OWNER
    return None


class Follower:
    """Follows the campaigns that others write.

    - `campaigns`: those of this server.
    """

    def __init__(self, campaigns: Campaigns) -> None:
        self._campaigns = campaigns
        self._refits: dict[int, asyncio.Future[None]] = {}  # under way in the log, fitted here as well
        self._is_told = False  # that the store cannot be read
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Look again and again."""
        looks = 0
        while True:
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            if self._campaigns.is_broken:
                continue  # all of them are loaded again
            looks += 1
            try:
                await self.look()
                if looks % LOCKS_EVERY == 0:
                    async with self._one_at_a_time:
                        await self._look_at_locks()
                self._is_told = False
            except (AdjudgeError, OSError) as error:
                if not self._is_told:
                    log.warning("the logs of other processes cannot be followed: %s", error)
                self._is_told = True

    async def look(self) -> None:
        """Read what the logs of others have gained, campaigns that others made among it."""
        campaigns = self._campaigns
        async with self._one_at_a_time:
            asked, followed = now(), {name for name, campaign in campaigns.by_name.items() if campaign.follows is not None}
            for number, name, last in await asyncio.to_thread(campaigns.store.ends):
                campaign = campaigns.by_name.get(name)
                if campaign is None and last:  # before its first event, its creator may not own it yet
                    await self._join(number, name)
                elif campaign is not None and campaign.follows is not None:
                    await self._advance(campaign, last)
                    if campaign.position >= last and name in followed:  # else it was this process's own when the end was read
                        campaign.current = max(campaign.current, asked)

    async def _join(self, number: int, name: str) -> None:
        """Follow a campaign that another process has made."""
        campaigns = self._campaigns
        loaded = await campaigns.load(number)
        owner = await asyncio.to_thread(campaigns.store.owner, number)
        if loaded is not None and name not in campaigns.by_name:
            campaigns.take(Campaign(campaigns, number, name, loaded), owner or UNKNOWN_OWNER)

    async def _look_at_locks(self) -> None:
        """Take over campaigns that nobody writes, and follow those that another process has taken over.

        A process whose connection broke has lost its locks, and learns it here, if not from a write that fails.
        """
        campaigns = self._campaigns
        if campaigns.store.is_shared and any(campaign.lease is not None for campaign in campaigns.by_name.values()):
            await campaigns.leases.renew()
        others = await asyncio.to_thread(campaigns.store.others)
        if campaigns.is_broken:
            return  # all of them are loaded again
        free: list[Campaign] = []
        for campaign in list(campaigns.by_name.values()):
            owner = others.get(campaign.number)
            if campaign.follows is not None and owner is None:
                free.append(campaign)
            elif campaign.follows is not None and owner is not None:
                campaign.follow(owner)
            elif campaign.lease is None and campaign.committed == campaign.position:
                # (What waits to be written will fail, and then all is loaded again.)
                campaign.follow(owner or UNKNOWN_OWNER)
        if free:
            await self._take_over(free)

    async def _take_over(self, free: Iterable[Campaign]) -> None:
        """Become the writer of campaigns that nobody writes, unless another process is quicker."""
        campaigns = self._campaigns
        taken: list[Campaign] = []
        for campaign in free:
            if await campaigns.in_writer(owner_of, campaigns.store, campaign.number) is not None:
                continue
            locked = now()
            try:
                await self._catch_up(campaign)
            except BaseException:
                await campaigns.in_writer(campaigns.store.release, campaign.number)
                raise
            taken.append(campaign)
        if not taken:
            return
        await campaigns.leases.await_predecessor(locked)
        for campaign in taken:
            if campaigns.is_broken or campaign.follows is None:
                continue  # it was loaded again meanwhile
            campaign.hold()
            log.warning("campaign %r is written by this process, from position %d on", campaign.name, campaign.position + 1)

    async def _catch_up(self, campaign: Campaign) -> None:
        """Read what is left of a log whose lock this process has got: nobody else writes it any more."""
        campaigns, number = self._campaigns, campaign.number
        await self._advance(campaign, await asyncio.to_thread(campaigns.store.last, number))
        ids = await asyncio.to_thread(_catch_up_ids, campaigns.store, number, campaign.loaded.ids, campaign.position)
        if campaigns.on_taken is not None:
            await campaigns.on_taken(campaign)
        self._refits.pop(number, None)
        campaign.ids = campaign.loaded.ids = ids

    # --- the log

    async def _advance(self, campaign: Campaign, last: int) -> None:
        """Fold the log up to its last position."""
        store, state, number = self._campaigns.store, campaign.state, campaign.number
        while state.position < last and campaign.state is state:
            start, until = state.position, min(last, state.position + FOLLOW_BATCH_EVENTS)
            try:
                pages = await asyncio.to_thread(lambda: list(store.read(number, after=start, until=until)))  # noqa: B023
            except Expired:
                await self._load_again(campaign)
                return
            workers = await asyncio.to_thread(lambda: list(store.workers(number, after=campaign.names.last)))
            if campaign.state is not state:  # it was built again from the log meanwhile
                return
            campaign.names.learn(workers)
            campaign.loaded.archive.follow(until)
            try:
                for _, page in pages:
                    await self._fold(campaign, page)
                base = await asyncio.to_thread(store.bases.find, number)
                if base is not None and base.position > start:  # votes of the archive may be gone that were looked for
                    await self._load_again(campaign)
            except Exception:
                log.exception("campaign %r cannot be followed, and is loaded again", campaign.name)
                await self._load_again(campaign)

    async def _load_again(self, campaign: Campaign) -> None:
        loaded = await self._campaigns.load(campaign.number)
        if loaded is not None:
            self._refits.pop(campaign.number, None)
            campaign.adopt(loaded)

    async def _fold(self, campaign: Campaign, page: Iterable[events.Event]) -> None:
        state, pace = campaign.state, Slice()
        for event in page:
            if isinstance(event, events.RefitDone):
                await self._finish_refit(campaign)
            elif isinstance(event, events.Erase):
                campaign.names.erase(event.worker)
            await campaign.in_turn(_apply_steps(state, event))
            if isinstance(event, events.RefitBegun):
                work = self._campaigns.in_thread(partial(run_refit, state.refit_under_way))
                self._refits[campaign.number] = asyncio.ensure_future(work)
            if pace.is_over():
                self._note_progress(campaign)
                await asyncio.sleep(0)  # requests have their turn
                pace.begin()
        self._note_progress(campaign)

    async def _finish_refit(self, campaign: Campaign) -> None:
        """Wait for the fit that the log is about to take up; if it began before this server did, make it now."""
        work = self._refits.pop(campaign.number, None)
        if work is None and campaign.state.refit_under_way is not None:
            work = asyncio.ensure_future(self._campaigns.in_thread(partial(run_refit, campaign.state.refit_under_way)))
        if work is not None:
            await work

    @staticmethod
    def _note_progress(campaign: Campaign) -> None:
        """Note how far the log was folded; the other process has recorded the decisions on the way."""
        campaign.state.changes.clear()
        campaign.on_disk(campaign.state.position)


def _apply_steps(state: CampaignState, event: events.Event) -> Steps[None]:
    """Fold an event of the log: in another thread where it takes long."""
    if is_heavy(state, event):
        yield partial(state.apply, state.position + 1, event)
    else:
        state.apply(state.position + 1, event)


def _catch_up_ids(store: Store, campaign: int, known: IdIndex, position: int) -> IdIndex:
    """Return the ids of a campaign up to a position, from those in memory and newer ones in the store."""
    base = store.bases.find(campaign)
    if base is not None and base.position > known.after:  # the log between may be deleted
        ids = IdIndex(store, campaign, snapshot.unbundle(store.bases.data(base))[2])
    else:
        ids = IdIndex(store, campaign, known.state(known.after))
    ids.catch_up(position)
    return ids
