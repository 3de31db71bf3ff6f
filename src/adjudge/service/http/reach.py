"""Bans and unbans that reach the archive.

The event of a ban changes the tasks in memory. The archive is then searched for tasks with votes of the banned workers, off the
event loop, and they come back in small `Revisit` events, which change their decisions. The state remembers which workers are
not done, so that work that was cut off is finished after a restart. Tasks that leave memory after the ban have lost those votes
already, and tasks that come back meanwhile lose them then: so none is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.errors import InputError
from adjudge.service.campaigns.archived import VotesOf
from adjudge.service.campaigns.crowd import Worker
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import views
from adjudge.service.http.errors import Unavailable
from adjudge.service.http.turns import LONG_READ_US, Steps
from adjudge.service.store import events
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState
    from adjudge.service.http.campaign import Campaign
    from adjudge.service.http.duties import Duties

log = logging.getLogger(__name__)
TASKS_PER_EVENT: Final = 64  # so that no single event holds requests up
RECORDS_PER_PAGE: Final = 1000  # that are searched in one go


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
                for some in batches(names):
                    changes += await self._revisit(state, some)
                    await self._duties.sweep()
                await campaign.in_turn(self._finishing(state, due))
        return changes

    def _finishing(self, state: CampaignState, due: dict[int, int]) -> Steps[None]:
        """Note that bans and unbans have reached the archive, but for workers who were banned or unbanned again since."""
        self._require_same(state)
        done = [number for number, at in due.items() if state.unreached.get(number) == at]
        yield from self._campaign.folding(events.Revisit(time=self._campaign.now(), tasks=[], reached=done))

    async def find_tasks(self, workers: Iterable[Worker], *, voted: bool) -> list[str]:
        """Return the archived tasks with votes of workers: those that count (`voted`), or those that are kept aside."""
        campaign = self._campaign
        state, workers = campaign.state, list(workers)
        if not voted:
            return await campaign.read(partial(_kept_aside, state, workers), LONG_READ_US + 1)
        found: list[str] = []
        after: str | None = ""
        texts = [worker.text for worker in workers]
        search = await campaign.campaigns.in_thread(partial(VotesOf, texts))  # compiles a pattern of them all
        while workers and after is not None:
            page = partial(_search, campaign.campaigns.store, campaign.number, after, state.position, search)
            names, after = await campaign.campaigns.in_thread(page)
            found += [name for name in names if name not in state.tasks.by_name]
        return found

    async def _revisit(self, state: CampaignState, names: list[str]) -> list[tuple[Decision, Decision]]:
        """Bring tasks back, in the thread that folds; return the decisions that change."""
        campaign = self._campaign

        def steps() -> Steps[list[tuple[Decision, Decision]]]:
            self._require_same(state)
            before: dict[str, Decision] = yield partial(views.archived_before, state, names)
            if before:
                self._require_same(state)
                yield from campaign.folding(events.Revisit(time=campaign.now(), tasks=list(before)))
            changes: list[tuple[Decision, Decision]] = yield partial(views.changed, state, before)
            return changes

        return await campaign.in_turn(steps())

    def _require_same(self, state: CampaignState) -> None:
        """Raise where the state was built again from the log meanwhile, or another process writes the campaign now."""
        self._campaign.require_open()
        if self._campaign.state is not state:
            raise Unavailable("the campaign was loaded again: the rest of the ban follows by itself", retry_after=1)


def _kept_aside(state: CampaignState, workers: list[Worker]) -> list[str]:
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
