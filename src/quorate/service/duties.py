"""What a campaign does by itself: ticks of the clock, refits, sweeps of old tasks into the archive, snapshots, expiry, bans."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from quorate.live import snapshot
from quorate.live.decision import Decision
from quorate.service import views
from quorate.service.expiry import Expiry
from quorate.service.reach import Reach, batches
from quorate.store import events
from quorate.store.archive import CopiedArchive

if TYPE_CHECKING:
    from quorate.live.state import CampaignState
    from quorate.online.refit import Refit
    from quorate.service.campaign import Campaign

log = logging.getLogger(__name__)
SWEPT_AT_ONCE: Final = 512  # tasks per event, so that no single one holds the writer up
SNAPSHOT_EVENTS: Final = 200_000  # events since the last snapshot at which the next one is saved
# A refit rests so many times as long as the last one took, unless nothing else comes. Answers are slower while one runs, as
# they are while a snapshot is saved: all of that together has to be less than a hundredth of the time.
REST: Final = 300
DAY: Final = 86_400 * 1_000_000  # microseconds


def run_refit(refit: Refit) -> None:
    """Run a refit on one thread: requests need the others."""
    refit.run(threads=1)


def due_sweep(state: CampaignState, now: int) -> events.Sweep | None:
    """Return the sweep that is due; None where no task has to leave memory, and no votes have expired."""
    tasks, keep, oldest = state.tasks, state.retention, state.expired
    decided = min(SWEPT_AT_ONCE, tasks.settled - keep.tasks)
    others = min(SWEPT_AT_ONCE, tasks.waiting - keep.waiting)
    emptied = tasks.older(oldest, SWEPT_AT_ONCE, settled=False) if oldest and others <= 0 else 0
    if keep.days is not None:
        oldest = max(oldest, now - int(keep.days * DAY))
    if oldest and decided < SWEPT_AT_ONCE:
        decided = max(decided, tasks.older(oldest, SWEPT_AT_ONCE))
    if max(decided, others, emptied) <= 0:
        return None
    return events.Sweep(time=now, decided=max(0, decided), others=max(0, others), emptied=emptied)


class Duties:
    """What is due of one campaign."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._is_refitting = self._is_saving = False
        self.snapshot_at = 0
        self.refits = 0
        self._fitted_at = 0  # time
        self._rests_until = 0.0  # by the monotonic clock
        self._seen = 0  # position at the last look
        self.expiry = Expiry(campaign, self)
        self.reach = Reach(campaign, self)

    def begin(self, snapshot_at: int) -> None:
        """Begin with a campaign that was loaded: its last snapshot is at this position."""
        self.snapshot_at = snapshot_at
        self._fitted_at = self._campaign.state.time
        self.expiry.begin()

    async def look(self) -> None:
        """Do what is due."""
        state = self._campaign.state
        now = self._campaign.now()
        due = state.next_due()
        if due and due <= now:
            self._campaign.submit(events.Tick(time=now))
        await self.sweep()
        if self.expiry.is_due():
            self._campaign.campaigns.start(self.expiry.run())
        if self.reach.is_due():
            self._campaign.campaigns.start(self.reach.run())
        is_quiet, self._seen = state.position == self._seen, state.position
        if self.is_refit_due() and (is_quiet or time.monotonic() >= self._rests_until):
            self._campaign.campaigns.start(self.refit())
        elif state.position - self.snapshot_at >= SNAPSHOT_EVENTS and not self._is_saving and not state.refit_read:
            self._campaign.campaigns.start(self.save_snapshot())

    def is_refit_due(self) -> bool:
        """Return whether enough has changed since the last refit."""
        state = self._campaign.state
        if self._is_refitting:
            return False
        if state.refit_read:  # one was begun, and cut off when the server ended
            return True
        if not state.since_refit:
            return False
        if state.since_refit >= max(state.refit.votes, state.refit.share * state.votes_in_memory()):
            return True
        seconds = state.refit.seconds
        return seconds is not None and self._campaign.now() - self._fitted_at >= seconds * 1e6

    async def refit(self) -> int:
        """Fit the votes in memory, off the write path, and let that take effect; return the position that it read."""
        campaign = self._campaign
        if self._is_refitting:
            return campaign.state.refit_read
        self._is_refitting, began = True, time.monotonic()
        try:
            campaign.require_open()
            campaign.submit(events.RefitBegun(time=campaign.now()))
            state, read = campaign.state, campaign.state.position
            work = state.refit_under_way
            await campaign.campaigns.in_thread(partial(run_refit, work))
            if campaign.state is not state:  # it was built again from the log meanwhile
                return read
            campaign.submit(events.RefitDone(time=campaign.now(), read=read))
            self._fitted_at = campaign.state.time
            self.refits += 1
            now = time.monotonic()
            self._rests_until = now + REST * (now - began)
            return read
        finally:
            self._is_refitting = False

    async def sweep(self) -> None:
        """Let tasks that were untouched for longest leave memory, where there are too many, or too old ones.

        Votes that have expired go, too: those of decided tasks as they leave, those of others while they stay.
        """
        campaign = self._campaign
        while (sweep := due_sweep(campaign.state, campaign.now())) is not None:
            campaign.submit(sweep)
            await asyncio.sleep(0)  # requests come first

    async def save_snapshot(self) -> None:
        """Save the state, for a quick start: what is saved is on disk in the log already."""
        campaign = self._campaign
        if self._is_saving or campaign.state.refit_read or campaign.state.position == self.snapshot_at:
            return
        self._is_saving = True
        try:
            position, data = campaign.state.position, campaign.loaded.saved()
            await campaign.on_disk_now()
            store = campaign.campaigns.store
            await campaign.campaigns.in_thread(lambda: store.snapshots(campaign.number).save(position, [data]))
            self.snapshot_at = position
        finally:
            self._is_saving = False

    async def try_out(self, event: events.Ban | events.Unban) -> list[tuple[Decision, Decision]]:
        """Return the decisions that an event would change, archived ones included, on a copy of the state."""
        campaign = self._campaign
        data, archive = snapshot.to_bytes(campaign.state), CopiedArchive(campaign.state.archive)
        is_ban, known = isinstance(event, events.Ban), campaign.state.crowd.all
        workers = [known[number] for number in event.workers if number in known and known[number].banned != is_ban]
        names = await self.reach.find_tasks(workers, voted=is_ban)

        def work() -> list[tuple[Decision, Decision]]:
            copy = snapshot.from_bytes(data, archive)
            before = views.before(copy, event.workers)
            copy.apply(copy.position + 1, event)
            changes = views.changed(copy, before)
            for some in batches(names):
                before = views.archived_before(copy, some)
                copy.apply(copy.position + 1, events.Revisit(time=event.time, tasks=some))
                changes += views.changed(copy, before)
                while (sweep := due_sweep(copy, event.time)) is not None:
                    copy.apply(copy.position + 1, sweep)
            return changes

        return await campaign.campaigns.in_thread(work)
