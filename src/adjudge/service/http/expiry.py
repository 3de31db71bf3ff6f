"""Votes that are older than a campaign keeps them: deleted from the log, from the archive and from memory.

First an event says what expires, and the tasks that are too old lose their votes by it. Then the state as it is now
becomes the base of the log. What the base makes unneeded is deleted after that, in pieces between which commits have their turn.
Wherever this is cut off, the log loads, and the next time ends what is left to do.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.errors import InputError
from adjudge.service.campaigns.archived import Archived
from adjudge.service.http.annotations import forget_old
from adjudge.service.http.turns import Slice, Steps
from adjudge.service.store import events
from adjudge.service.store.bases import split_parts
from adjudge.service.store.batch import ArchiveRow
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign
    from adjudge.service.http.duties import Duties

log = logging.getLogger(__name__)
HOUR: Final = 3600 * 1_000_000  # microseconds
DAY: Final = 24 * HOUR
RECORDS_AT_ONCE: Final = 128
REFIT_POLL_INTERVAL_S: Final = 0.05  # seconds, between looks at a refit that is under way


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
            every = HOUR if settled is None else DAY if days is None else min(DAY, max(HOUR, days * DAY / 24))
            self._due_at = clock.elapsed_s() + every / 1e6
            if days is not None and settled is not None:
                await self._expire(settled - int(days * DAY))
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
        while rows := await campaigns.in_thread(partial(_without_votes, number, expired, store)):
            await campaigns.in_writer(store.replace_records, rows)
        await forget_old(self._campaign, expired)
        await self._forget_items(expired)

    async def _forget_items(self, before: int) -> None:
        """Delete the items of tasks whose votes have expired, or that never had any."""
        campaign, store = self._campaign, self._campaign.campaigns.store
        pages = store.items.seen_before(campaign.number, before)

        def over(names: list[str]) -> Steps[list[str]]:
            found, pace = list[str](), Slice()
            for name in names:
                task = campaign.state.find(name)
                if task is None or task.expired or task.touched < before:
                    found.append(name)
                if pace.is_over():
                    yield None
                    pace.begin()
            return found

        while names := await campaign.campaigns.in_thread(partial(next, pages, None)):
            gone = await campaign.in_turn(over(names))
            await campaign.campaigns.in_writer(store.items.remove, campaign.number, gone)


def _without_votes(campaign: int, before: int, store: Store) -> list[ArchiveRow]:
    """Return records of tasks that were last touched before a time, as they are without votes; none where all are so."""
    return [stripped(row, before) for row in store.records_before(campaign, before, limit=RECORDS_AT_ONCE)]


def stripped(row: ArchiveRow, before: int) -> ArchiveRow:
    """Return the record of a task without its votes, where it was last touched before a time.

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
