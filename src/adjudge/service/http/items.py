"""Items of a campaign's tasks: what people look at to decide them, checked on the way in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adjudge.errors import quote
from adjudge.service.http.errors import Invalid, NotFound
from adjudge.service.http.fold import Slice, Steps
from adjudge.service.http.types import MAX_ITEM_BYTES
from adjudge.service.store.batch import ItemRow

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

MAX_ITEM_DEPTH: Final = 100  # levels of JSON
BRACKET_PATTERN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')  # or a whole string, whose brackets do not count


def rows_of(campaign: Campaign, sent: Iterable[tuple[str, Any]]) -> list[ItemRow]:
    """Return items as they are stored; raise if one is too large.

    - `sent`: task and item of each.
    """
    rows: list[ItemRow] = []
    for task, data in sent:
        try:
            content = msgspec.json.encode(data)
        except (OverflowError, ValueError) as error:
            raise Invalid(f"the data of task {quote(task)} cannot be stored: {error}") from None
        except RecursionError:
            content = b"[" * (MAX_ITEM_DEPTH + 1)
        if len(content) > MAX_ITEM_BYTES:
            raise Invalid(f"the data of task {quote(task)} has {len(content)} bytes: at most {MAX_ITEM_BYTES} are taken")
        if is_too_deep(content):
            raise Invalid(f"the data of task {quote(task)} is nested too deep: at most {MAX_ITEM_DEPTH} levels are taken")
        rows.append(ItemRow(campaign.number, task, content, campaign.campaigns.clock.now()))
    return rows


def is_too_deep(content: bytes) -> bool:
    """Return whether JSON is nested so deep that reading or showing it may need more stack than there is.

    >>> is_too_deep(b"[" * 100 + b"]" * 100), is_too_deep(b"[" * 101 + b"]" * 101), is_too_deep(b'"' + b"[" * 101 + b'"')
    (False, True, False)
    """
    if content.count(b"[") + content.count(b"{") <= MAX_ITEM_DEPTH:
        return False
    depth = 0
    for bracket in BRACKET_PATTERN.findall(content):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(bracket, 0)
        if depth > MAX_ITEM_DEPTH:
            return True
    return False


async def find(campaign: Campaign, task: str) -> bytes | None:
    """Return the item of a task as JSON, None if it has none."""
    return await asyncio.to_thread(campaign.campaigns.store.items.find, campaign.number, task)


async def forget_items(campaign: Campaign, before: int) -> None:
    """Delete the items of tasks whose votes expired before a time, or that never had any.

    - `before`: the time, in microseconds since 1970.
    """
    store = campaign.campaigns.store
    pages = store.items.seen_before(campaign.number, before)

    def select(names: list[str]) -> Steps[list[str]]:
        over, pace = list[str](), Slice()
        for name in names:
            task = campaign.state.find(name)
            if task is None or task.expired or task.touched < before:
                over.append(name)
            if pace.is_over():
                yield None
                pace.begin()
        return over

    while names := await campaign.campaigns.in_thread(partial(next, pages, None)):
        over = await campaign.in_turn(select(names))
        await campaign.campaigns.in_writer(store.items.remove, campaign.number, over)


async def erase(campaign: Campaign, task: str) -> int:
    """Delete the item of a task for good; return the position of the log."""
    campaign.require_open()
    await campaign.campaigns.commit()
    if not await campaign.campaigns.in_writer(campaign.campaigns.store.items.remove, campaign.number, [task]):
        raise NotFound(f"task {quote(task)} has no data")
    return campaign.position
