"""Lists in pages: tasks, workers and votes, each page from one consistent state."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.service.campaigns.standing import CODES
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http import views
from adjudge.service.http.errors import Invalid
from adjudge.service.http.names import Names
from adjudge.service.http.types import TasksPage, VoteRow, VotesPage, WorkersPage
from adjudge.service.store.events import Event
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

ROW_US: Final = 20  # microseconds that a vote takes, more or less
LIST_BATCH_EVENTS: Final = 4096  # events
MAX_CONFUSION_CELLS_PER_PAGE: Final = (
    200_000  # of the confusions on one page of workers: with many labels it has fewer lines than asked for
)


def tasks(state: CampaignState, status: str | None, sort: str, limit: int, after: str | None) -> TasksPage:
    """Return tasks in memory in an order, after a cursor."""
    statuses = set(CODES) if status is None else {status}
    found = state.tasks.listed(statuses, sort, limit=limit, after=None if after is None else decode_cursor(after))
    rows = [views.decision(state, name) for _, name in found]
    return TasksPage(rows, encode_cursor(*found[-1]) if len(found) == limit else None)


def encode_cursor(key: float, name: str) -> str:
    """Return the cursor after a task in a list."""
    return base64.urlsafe_b64encode(msgspec.json.encode((key, name))).decode()


def decode_cursor(cursor: str) -> tuple[float, str]:
    """Return key and name of the last task before a cursor."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[float, str])
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise Invalid("after is no cursor: give the `next` of the page before") from None


def workers(state: CampaignState, names: Names, limit: int, after: int) -> WorkersPage:
    """Return workers in the order of their first votes, after a number."""
    limit = min(limit, max(1, MAX_CONFUSION_CELLS_PER_PAGE // len(state.labels) ** 2))
    numbers = names.after(after, limit)
    return WorkersPage(views.workers(state, names, numbers), numbers[-1] if len(numbers) == limit else None)


async def votes(campaign: Campaign, after: int, limit: int) -> VotesPage:
    """Return the votes in force after a position, in the order of the log; those that have expired are not in it."""
    await campaign.on_disk_now()
    store, end = campaign.campaigns.store, campaign.committed
    at = max(after, campaign.state.begins - 1)
    rows: list[VoteRow] = []
    while at < end:
        until = min(end, at + LIST_BATCH_EVENTS)
        pages = await campaign.campaigns.in_folding_thread(partial(_pages, store, campaign.number, at, until))
        for first, page in pages:
            rows += await campaign.read(partial(_votes_of, campaign, first, page, limit - len(rows)), ROW_US * len(page))
            if len(rows) == limit:
                return VotesPage(rows, rows[-1].position if rows[-1].position < end else None)
        at = until
    return VotesPage(rows, None)


def _pages(store: Store, campaign: int, after: int, until: int) -> list[tuple[int, list[Event]]]:
    return list(store.read(campaign, after=after, until=until, skip_expired=True))


def _votes_of(campaign: Campaign, first: int, page: list[Event], limit: int) -> list[VoteRow]:
    return list(islice(views.votes_in_force(campaign.state, campaign.names, first, page), limit))
