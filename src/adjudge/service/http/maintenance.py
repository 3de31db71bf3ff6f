"""Background work on a campaign: clock ticks, refits, sweeps into the archive, snapshots, bans of archived tasks, expired votes.

Bans. The event of a ban changes the tasks in memory. The archive is then searched for votes of the banned workers, off the event
loop, and small `Revisit` events bring those tasks back and change their decisions. The state remembers unfinished workers, so a
restart resumes the work. Tasks that leave memory after the ban have already lost those votes, and tasks that return meanwhile
lose them on return, so none is missed.

Expired votes. First an event says what expires, and tasks that are too old lose their votes. The current state then becomes the
base of the log, and older data is deleted in chunks, with commits in between. The log loads wherever this
is interrupted, and the next run resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.engines.registry import AutoEngine
from adjudge.errors import InputError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.crowd import Worker
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.tasks import Archived, VotesOf
from adjudge.service.http import views
from adjudge.service.http.annotations import forget_old
from adjudge.service.http.errors import Unavailable
from adjudge.service.http.fold import LONG_READ_US, Steps
from adjudge.service.http.items import forget_items
from adjudge.service.store import events
from adjudge.service.store.archive import CopiedArchive
from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.log import split_parts
from adjudge.service.store.store import Store

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
TASKS_PER_EVENT: Final = 64  # so that no single event holds requests up
RECORDS_PER_PAGE: Final = 1000  # that are searched in one go
HOUR_US: Final = 3600 * 1_000_000
DAY_US: Final = 24 * HOUR_US
RECORDS_AT_ONCE: Final = 128
REFIT_POLL_INTERVAL_S: Final = 0.05  # seconds, between looks at a refit that is under way


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
        await self._campaign.in_turn(self._tick_steps())
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

    def _tick_steps(self) -> Steps[None]:
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
        """Archive the tasks that were untouched for longest, if there are too many, or too old ones.

        Votes that have expired go, too: those of decided tasks as they leave, those of others while they stay.
        """
        campaign = self._campaign
        while await campaign.in_turn(self._sweep_steps()):
            await asyncio.sleep(0)  # requests come first

    def _sweep_steps(self) -> Steps[bool]:
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
        """Return the position of the state, and the content of its snapshot."""

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
            before = views.collect_decisions(copy, judged.workers)
            copy.apply(copy.position + 1, judged)
            changes = views.compare_decisions(copy, before)
            for batch in batches(names):
                before = views.collect_archived_decisions(copy, batch)
                copy.apply(copy.position + 1, events.Revisit(time=judged.time, tasks=batch))
                changes += views.compare_decisions(copy, before)
                while (sweep := due_sweep(copy, judged.time)) is not None:
                    copy.apply(copy.position + 1, sweep)
            return changes

        return await campaign.campaigns.in_thread(work)


def batches(names: list[str]) -> Iterator[list[str]]:
    """Yield names in pieces, each for one event."""
    return (names[start : start + TASKS_PER_EVENT] for start in range(0, len(names), TASKS_PER_EVENT))


class Reach:
    """What bans and unbans of one campaign have still to do in its archive.

    - `campaign`: the campaign.
    - `duties`: its other duties, which let tasks leave memory again.
    """

    def __init__(self, campaign: Campaign, duties: Duties) -> None:
        self._campaign, self._duties = campaign, duties
        self._one_at_a_time = asyncio.Lock()

    def is_due(self) -> bool:
        """Return whether work was cut off, and nobody does it."""
        return bool(self._campaign.state.unreached) and not self._one_at_a_time.locked()

    async def run(self, workers: Collection[int] | None = None) -> list[tuple[Decision, Decision]]:
        """Let bans and unbans reach all archived tasks; return the decisions that change, before and after.

        - `workers`: whose; None: of all for whom it is not done.
        """
        campaign, changes = self._campaign, list[tuple[Decision, Decision]]()
        async with self._one_at_a_time:
            state = campaign.state
            while due := {n: at for n, at in dict(state.unreached).items() if workers is None or n in workers}:
                await campaign.on_disk_now()  # the search sees what is stored
                known = [state.crowd.all[number] for number in due]
                names = await self.find_tasks([worker for worker in known if worker.banned], voted=True)
                names += await self.find_tasks([worker for worker in known if not worker.banned], voted=False)
                for batch in batches(names):
                    changes += await self._revisit(state, batch)
                    await self._duties.sweep()
                await campaign.in_turn(self._finish_steps(state, due))
        return changes

    def _finish_steps(self, state: CampaignState, due: dict[int, int]) -> Steps[None]:
        """Note that bans and unbans have reached the archive, but for workers who were banned or unbanned again since."""
        self._require_same(state)
        done = [number for number, at in due.items() if state.unreached.get(number) == at]
        yield from self._campaign.folding(events.Revisit(time=self._campaign.now(), tasks=[], reached=done))

    async def find_tasks(self, workers: Iterable[Worker], *, voted: bool) -> list[str]:
        """Return the archived tasks with votes of workers: those that count (`voted`), or those that are kept aside."""
        campaign = self._campaign
        state, workers = campaign.state, list(workers)
        if not voted:
            return await campaign.read(partial(_list_aside, state, workers), LONG_READ_US + 1)
        tasks: list[str] = []
        after: str | None = ""
        texts = [worker.text for worker in workers]
        search = await campaign.campaigns.in_thread(partial(VotesOf, texts))  # compiles a pattern of them all
        while workers and after is not None:
            page = partial(_search, campaign.campaigns.store, campaign.number, after, state.position, search)
            names, after = await campaign.campaigns.in_thread(page)
            tasks += [name for name in names if name not in state.tasks.by_name]
        return tasks

    async def _revisit(self, state: CampaignState, names: list[str]) -> list[tuple[Decision, Decision]]:
        """Bring tasks back, in the thread that folds; return the decisions that change."""
        campaign = self._campaign

        def steps() -> Steps[list[tuple[Decision, Decision]]]:
            self._require_same(state)
            before: dict[str, Decision] = yield partial(views.collect_archived_decisions, state, names)
            if before:
                self._require_same(state)
                yield from campaign.folding(events.Revisit(time=campaign.now(), tasks=list(before)))
            changes: list[tuple[Decision, Decision]] = yield partial(views.compare_decisions, state, before)
            return changes

        return await campaign.in_turn(steps())

    def _require_same(self, state: CampaignState) -> None:
        """Raise where the state was built again from the log meanwhile, or another process writes the campaign now."""
        self._campaign.require_open()
        if self._campaign.state is not state:
            raise Unavailable("the campaign was loaded again: the rest of the ban follows by itself", retry_after=1)


def _list_aside(state: CampaignState, workers: list[Worker]) -> list[str]:
    """Return the archived tasks with votes of workers that are kept aside."""
    names = dict.fromkeys(name for worker in workers for name in worker.aside or ())
    return [name for name in names if name not in state.tasks.by_name]


def _search(store: Store, campaign: int, after: str, until: int, search: VotesOf) -> tuple[list[str], str | None]:
    """Return the tasks of a page of the archive that have the votes, and where the next page begins; None: it was the last."""
    rows = store.archived_page(campaign, after=after, until=until, limit=RECORDS_PER_PAGE)
    names = []
    for row in rows:
        try:
            if search.has_some(row.record):
                names.append(row.task)
        except InputError as error:
            log.warning("campaign %d: a ban does not reach task %r: %s", campaign, row.task, error)
    return names, rows[-1].task if len(rows) == RECORDS_PER_PAGE else None


class Expiry:
    """What expires of one campaign.

    - `campaign`: the campaign.
    - `duties`: its other duties, which let old tasks go.
    """

    def __init__(self, campaign: Campaign, duties: Duties) -> None:
        self._campaign, self._duties = campaign, duties
        self._is_running = False
        self._due_at = 0.0  # seconds of the steady clock

    def begin(self) -> None:
        """Begin with a campaign that was loaded: what was cut off is ended first."""
        self._due_at = 0.0

    def is_due(self) -> bool:
        """Return whether it is time to look: after a day, or sooner where votes are kept for days; never within an hour."""
        state = self._campaign.state
        days = state.retention.votes_days
        if self._is_running or (days is None and state.begins == 1):
            return False
        return self._campaign.campaigns.clock.elapsed_s() >= self._due_at

    async def run(self) -> None:
        """Delete what has expired."""
        if self._is_running:
            return
        self._is_running = True
        try:
            clock, days = self._campaign.campaigns.clock, self._campaign.state.retention.votes_days
            settled = clock.settled()
            every = HOUR_US if settled is None else DAY_US if days is None else min(DAY_US, max(HOUR_US, days * DAY_US / 24))
            self._due_at = clock.elapsed_s() + every / 1e6
            if days is not None and settled is not None:
                await self._expire(settled - int(days * DAY_US))
            await self._delete()
        finally:
            self._is_running = False

    async def _expire(self, before: int) -> None:
        """Let votes from before a time expire, and the log begin with the state as it is then."""
        campaign, campaigns = self._campaign, self._campaign.campaigns
        resets = list(campaign.state.clock_sets)
        cut = await campaigns.in_thread(lambda: campaigns.store.bases.cut(campaign.number, before, resets))
        if cut is None:
            return
        campaign.require_open()
        state = campaign.state
        await campaign.fold(lambda: events.Truncated(time=campaign.now(), until=cut.until, before=cut.before))
        await self._duties.sweep()
        while campaign.state is state and state.refit_read:  # what it has read is not part of a saved state
            await asyncio.sleep(REFIT_POLL_INTERVAL_S)
        if campaign.state is not state:  # it was built again from the log meanwhile
            return
        position, data = await self._duties.saved()
        begins, expired, labels = state.begins, state.expired, list(state.labels)
        await campaign.on_disk_now()
        checks = [
            await campaigns.in_writer(campaigns.store.bases.add_part, campaign.number, position, part, body)
            for part, body in enumerate(split_parts(data))
        ]
        put = partial(campaigns.store.bases.put, begins=begins, expired=expired, labels=labels, parts=checks)
        await campaigns.in_writer(put, campaign.number, position)
        self._duties.snapshot_at = max(self._duties.snapshot_at, position)

    async def _delete(self) -> None:
        """Delete what the base makes unneeded."""
        number, campaigns = self._campaign.number, self._campaign.campaigns
        store = campaigns.store
        base = await campaigns.in_thread(lambda: store.bases.find(number))
        if base is None:
            return
        while await campaigns.in_writer(store.bases.delete_some, number):
            await asyncio.sleep(0)
        await campaigns.in_thread(lambda: store.snapshots(number).forget(base.position))
        # The state's time may be earlier than that of the base, where the log was set back since.
        expired = min(base.expired, self._campaign.state.expired)
        while rows := await campaigns.in_thread(partial(_strip_page, number, expired, store)):
            await campaigns.in_writer(store.replace_records, rows)
        await forget_old(self._campaign, expired)
        await forget_items(self._campaign, expired)


def _strip_page(campaign: int, before: int, store: Store) -> list[ArchiveRow]:
    """Return records of tasks that were last touched before a time, as they are without votes; none where all are so."""
    return [strip_votes(row, before) for row in store.records_before(campaign, before, limit=RECORDS_AT_ONCE)]


def strip_votes(row: ArchiveRow, before: int) -> ArchiveRow:
    """Return the record of a task, without its votes if it was last touched before a time.

    - `row`: the record.
    - `before`: the time.
    """
    try:
        record = Archived.from_bytes(row.record)
    except InputError as error:
        log.warning("campaign %d: %s", row.campaign, error)
        return row._replace(touched=None)  # nobody can read it
    if record.task.touched >= before:
        return row._replace(touched=record.task.touched)
    return row._replace(record=record.without_votes().to_bytes(), touched=None)
