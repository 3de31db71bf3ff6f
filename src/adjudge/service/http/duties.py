"""What a campaign does by itself: ticks of the clock, refits, sweeps of old tasks into the archive, snapshots, expiry, bans."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.engines.registry import AutoEngine
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import views
from adjudge.service.http.expiry import Expiry
from adjudge.service.http.reach import Reach, batches
from adjudge.service.http.turns import Steps
from adjudge.service.store import events
from adjudge.service.store.archive import CopiedArchive

if TYPE_CHECKING:
    from adjudge.online.refit import Refit
    from adjudge.service.campaigns.state import CampaignState
    from adjudge.service.http.campaign import Campaign

log = logging.getLogger(__name__)
SWEPT_AT_ONCE: Final = 64  # tasks per event, so that no single one holds requests or the writer up
SNAPSHOT_EVENTS: Final = 200_000  # events since the last snapshot at which the next one is saved
# A refit rests so many times as long as the last one took, unless nothing else comes. Answers are slower while one runs, as
# they are while a snapshot is saved: all of that together has to be less than a hundredth of the time.
REFIT_REST_RATIO: Final = 300
DAY_US: Final = 86_400 * 1_000_000  # microseconds


def run_refit(refit: Refit) -> None:
    """Run a refit on one thread: requests need the others."""
    refit.run(engine=AutoEngine(threads=1))


def due_sweep(state: CampaignState, now: int) -> events.Sweep | None:
    """Return the sweep that is due; None where no task has to leave memory, and no votes have expired."""
    tasks, keep, oldest = state.tasks, state.retention, state.expired
    decided = min(SWEPT_AT_ONCE, tasks.settled - keep.tasks)
    others = min(SWEPT_AT_ONCE, tasks.waiting - keep.waiting)
    emptied = tasks.older(oldest, SWEPT_AT_ONCE, settled=False) if oldest and others <= 0 else 0
    if keep.days is not None:
        oldest = max(oldest, now - int(keep.days * DAY_US))
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
        self._rests_until = self._refit_began = 0.0  # by the monotonic clock
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
        await self._campaign.in_turn(self._ticking())
        state = self._campaign.state
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

    def _ticking(self) -> Steps[None]:
        """Let the clock change what is due."""
        now, due = self._campaign.now(), self._campaign.state.next_due()
        if due and due <= now:
            yield from self._campaign.folding(events.Tick(time=now))

    def is_refit_due(self) -> bool:
        """Return whether enough has changed since the last refit."""
        state = self._campaign.state
        if self._is_refitting:
            return False
        if state.refit_read:  # one was begun, and cut off when the server ended
            return True
        if not state.since_refit:
            return False
        if state.since_refit >= state.refit.votes and state.since_refit >= state.refit.share * state.votes_in_memory():
            return True
        seconds, now = state.refit.seconds, self._campaign.now()
        self._fitted_at = min(self._fitted_at, now)  # the log may have been set back since
        return seconds is not None and now - self._fitted_at >= seconds * 1e6

    async def refit(self) -> int:
        """Fit the votes in memory, off the write path, and let that take effect; return the position that it read."""
        if not await self.begin_refit():
            return self._campaign.state.refit_read
        return await self.end_refit()

    async def begin_refit(self) -> bool:
        """Begin a refit, which `end_refit` has to end; return False where one is under way."""
        campaign = self._campaign
        if self._is_refitting:
            return False
        self._is_refitting, self._refit_began = True, time.monotonic()
        try:
            campaign.require_open()
            await campaign.fold(lambda: events.RefitBegun(time=campaign.now()))
        except BaseException:
            self._is_refitting = False
            raise
        return True

    async def end_refit(self) -> int:
        """Fit what was begun, and let that take effect; return the position that it read."""
        campaign, state = self._campaign, self._campaign.state
        read, work = state.refit_read, state.refit_under_way
        try:
            await campaign.campaigns.in_thread(partial(run_refit, work))

            def steps() -> Steps[bool]:
                if campaign.state is not state:  # it was built again from the log meanwhile
                    return False
                yield from campaign.folding(events.RefitDone(time=campaign.now(), read=read))
                return True

            if await campaign.in_turn(steps()):
                self._fitted_at = campaign.state.time
                self.refits += 1
                now = time.monotonic()
                self._rests_until = now + REFIT_REST_RATIO * (now - self._refit_began)
            return read
        finally:
            self._is_refitting = False

    async def sweep(self) -> None:
        """Let tasks that were untouched for longest leave memory, where there are too many, or too old ones.

        Votes that have expired go, too: those of decided tasks as they leave, those of others while they stay.
        """
        campaign = self._campaign
        while await campaign.in_turn(self._sweeping()):
            await asyncio.sleep(0)  # requests come first

    def _sweeping(self) -> Steps[bool]:
        """Let some of them go; return whether there were any."""
        campaign = self._campaign
        sweep = due_sweep(campaign.state, campaign.now())
        if sweep is None:
            return False
        yield from campaign.folding(sweep)
        return True

    async def save_snapshot(self) -> None:
        """Save the state, for a quick start: what is saved is on disk in the log already."""
        campaign = self._campaign
        if self._is_saving or campaign.state.refit_read or campaign.state.position == self.snapshot_at:
            return
        self._is_saving = True
        try:
            position, data = await self.saved()
            await campaign.on_disk_now()
            store = campaign.campaigns.store
            await campaign.campaigns.in_thread(lambda: store.snapshots(campaign.number).save(position, data))
            self.snapshot_at = position
        finally:
            self._is_saving = False

    async def saved(self) -> tuple[int, bytes]:
        """Return the position of the state, and what a snapshot of it keeps."""

        def steps() -> Steps[tuple[int, bytes]]:
            state = self._campaign.state
            return state.position, (yield self._campaign.loaded.saved)

        return await self._campaign.in_turn(steps())

    async def try_out(self, event: Callable[[], events.Ban | events.Unban]) -> list[tuple[Decision, Decision]]:
        """Return the decisions that an event would change, archived ones included, on a copy of the state."""
        campaign = self._campaign

        def steps() -> Steps[tuple[events.Ban | events.Unban, bytes]]:
            judged = event()
            return judged, (yield partial(snapshot.to_bytes, campaign.state))

        judged, data = await campaign.in_turn(steps())
        await campaign.on_disk_now()
        archive = CopiedArchive(campaign.state.archive)
        is_ban, known = isinstance(judged, events.Ban), campaign.state.crowd.all
        workers = [known[number] for number in judged.workers if number in known and known[number].banned != is_ban]
        names = await self.reach.find_tasks(workers, voted=is_ban)

        def work() -> list[tuple[Decision, Decision]]:
            copy = snapshot.from_bytes(data, archive)
            before = views.before(copy, judged.workers)
            copy.apply(copy.position + 1, judged)
            changes = views.changed(copy, before)
            for some in batches(names):
                before = views.archived_before(copy, some)
                copy.apply(copy.position + 1, events.Revisit(time=judged.time, tasks=some))
                changes += views.changed(copy, before)
                while (sweep := due_sweep(copy, judged.time)) is not None:
                    copy.apply(copy.position + 1, sweep)
            return changes

        return await campaign.campaigns.in_thread(work)
