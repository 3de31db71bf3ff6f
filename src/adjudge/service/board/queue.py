"""The view *Needs a person*: one task at a time, decided with one key, and undone with another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import unquote

from starlette.responses import Response

from adjudge.service.board.activity import ESCALATED_REASONS, REOPENED, Activity
from adjudge.service.board.evidence import Weighed, weigh
from adjudge.service.board.figures import headline
from adjudge.service.board.items import Item, item_of
from adjudge.service.board.now import read, server_address
from adjudge.service.board.pages import redirect
from adjudge.service.board.visit import PageRequest
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http import views
from adjudge.service.http.errors import Conflict, Invalid, NotFound
from adjudge.service.http.types import TaskView

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState
    from adjudge.service.http.campaign import Campaign

Order = Literal["severity", "age"]
ORDERS: Final = {"severity": "uncertainty", "age": "age"}  # as `Tasks.listed` calls them
WAITING_REASONS: Final = (*ESCALATED_REASONS, REOPENED)
LISTED_TASKS: Final = 12  # tasks that are listed after the one that is shown
PAGE_TASKS: Final = 256  # looked at together
MAX_LOOKED_TASKS: Final = 4096  # looked at for one page: of a filter, and of audits, without those the person voted on
KEYS: Final = "1234567890"
AUDIT_KEY: Final = -float(1 << 60)  # below it in microseconds, every time is negative


class Waiting(NamedTuple):
    """A task that a person has to decide."""

    key: float
    task: str
    label: str | None
    reason: str
    confidence: float
    opened: int


class Shown(NamedTuple):
    """A task as the queue shows it; blind, it has neither its decision nor its votes."""

    task: str
    item: Item | None
    cursor: str
    view: TaskView | None = None
    weighed: Weighed | None = None


async def show(visit: PageRequest) -> Response:
    """Show the task that comes next, and those after it."""
    return await _page(visit)


async def _page(visit: PageRequest, *, status: int = 200, told: str = "", task: str | None = None) -> Response:
    """Return the view for the filters of a request; `told` is a message, `task` the task to show."""
    campaign, activity, query = visit.campaign, visit.board.activities.of(visit.campaign), visit.query
    filters = {name: query.get(name, "") or visit.form.get(name, "") for name in ("label", "reason", "sort", "after")}
    order = filters["sort"] or "severity"
    if order not in ORDERS:
        raise Invalid(f"sort has to be one of {', '.join(ORDERS)}")
    if filters["reason"] and filters["reason"] not in WAITING_REASONS:
        raise Invalid(f"reason has to be one of {', '.join(WAITING_REASONS)}")
    after = views.decode_cursor(filters["after"]) if filters["after"] else None
    label = campaign.code(unquote(filters["label"])) if filters["label"] else None
    found = await campaign.read(
        lambda: [
            *([] if filters["label"] or filters["reason"] else _audits(campaign, visit.name, after)),
            *_waiting(campaign.state, activity, order, after, label=label, reason=filters["reason"]),
        ],
        len(campaign.state.tasks) // 100 + (0 if campaign.state.audits is None else len(campaign.state.audits.waiting)),
    )
    wanted = task or query.get("task")
    listed = found[0] if found else None
    name = wanted or (None if listed is None else listed.task)
    shown = None if name is None else await _shown(visit, name, listed)
    figures = await read(visit)
    kept = {key: value for key, value in filters.items() if value and key != "after"}
    values = {
        "shown": shown,
        "rest": [one for one in found if one.task != name][:LISTED_TASKS],
        "figures": figures,
        "sentence": headline(figures, figures_now()),
        "filters": filters,
        "kept": kept,
        "order": order,
        "orders": ORDERS,
        "reasons": WAITING_REASONS,
        "labels": campaign.labels,
        "keys": KEYS,
        "told": told,
        "done": None if status != 200 else await _done(campaign, query.get("done")),
        "made": visit.board.activities.of(campaign).decisions,
        "server": server_address(visit),
    }
    return visit.board.pages.page("queue.html", visit, values, status=status, hosts=campaign.state.image_hosts)


def figures_now() -> float:
    """Return the time in seconds since 1970."""
    import time

    return time.time()


async def _shown(visit: PageRequest, name: str, listed: Waiting | None) -> Shown | None:
    campaign = visit.campaign
    key = listed.key if listed is not None and listed.task == name else None
    cursor = "" if key is None else views.encode_cursor(key, name)
    if campaign.state.audits is not None and name in campaign.state.audits.waiting:
        return Shown(name, await item_of(campaign, name), cursor)
    try:
        view = await campaign.task(name)
    except NotFound:
        return None
    weighed = await campaign.read(lambda: weigh(campaign.state, campaign.names, name), 500)
    return Shown(name, await item_of(campaign, name), cursor, view, weighed)


async def _done(campaign: Campaign, name: str | None) -> Decision | None:
    """Return the decision that was made last, if it still stands as a person made it."""
    if not name:
        return None
    try:
        decision = await campaign.read(lambda: views.view_decision(campaign.state, name), 50)
    except NotFound:
        return None
    return decision if decision.reason == "override" else None


def _audits(campaign: Campaign, person: str, after: tuple[float, str] | None) -> Iterator[Waiting]:
    """Yield audits for a person after a cursor, the longest waiting first, without anything known of their tasks.

    They come before all other tasks, as they count as wrong after their deadline: their keys are negative.
    """
    audits = campaign.state.audits
    drawn = [] if audits is None else [(AUDIT_KEY + each[0].time, name) for name, each in audits.waiting.items()]
    count = 0
    rows = (row for row in sorted(drawn) if after is None or row > after)
    for key, name in islice(rows, MAX_LOOKED_TASKS):
        if not campaign.people.has_voted(name, person):
            yield Waiting(key, name, None, "", 0.0, round(key - AUDIT_KEY))
            count += 1
            if count > LISTED_TASKS:
                return


def _waiting(
    state: CampaignState, activity: Activity, order: str, after: tuple[float, str] | None, *, label: int | None, reason: str
) -> Iterator[Waiting]:
    """Yield tasks that a person has to decide, after a cursor, until a page is full."""
    contested = sorted(_contested(state, activity, order))
    rows = _merged(state, ORDERS[order], after, [] if reason not in ("", REOPENED) else contested, reason)
    count = 0
    for looked, (key, name) in enumerate(rows):
        task = state.tasks.by_name.get(name)
        if task is None or looked >= MAX_LOOKED_TASKS:
            return
        if state.audits is not None and name in state.audits.waiting:  # it is shown blind
            continue
        standing, answer = task.standing, state.answer(name)
        code = standing.label if standing.label >= 0 else answer[0]
        if (label is not None and code != label) or (reason and standing.reason != reason):
            continue
        likely = answer[4][code] if code >= 0 and answer[4] else 0.0
        yield Waiting(key, name, state.names[code] if code >= 0 else None, standing.reason, likely, task.opened)
        count += 1
        if count > LISTED_TASKS:
            return


def _contested(state: CampaignState, activity: Activity, order: str) -> Iterator[tuple[float, str]]:
    column: Any = state.tasks.confidence if ORDERS[order] == "uncertainty" else state.tasks.opened
    for name in activity.contested:
        task = state.tasks.by_name.get(name)
        if task is not None and task.standing.reason == REOPENED:
            yield float(column[task.slot]), name


def _merged(
    state: CampaignState, order: str, after: tuple[float, str] | None, contested: list[tuple[float, str]], reason: str
) -> Iterator[tuple[float, str]]:
    """Yield key and name of escalated and contested tasks after a cursor, in order."""
    others = [row for row in contested if after is None or row > after]
    while reason != REOPENED:
        page = state.tasks.list_page({"escalated"}, order, limit=PAGE_TASKS, after=after)
        for row in page:
            while others and others[0] < row:
                yield others.pop(0)
            yield row
        if len(page) < PAGE_TASKS:
            break
        after = page[-1]
    yield from others


async def decide(visit: PageRequest) -> Response:
    """Decide a task as a person, and go to the next one."""
    name, label = visit.identity(), visit.label()
    kept = {key: visit.form[key] for key in ("filter_label", "reason", "sort", "after") if visit.form.get(key)}
    label_filter = kept.pop("filter_label", "")
    is_blind = visit.form.get("blind") == "1"
    try:
        if is_blind:
            await visit.campaign.judge(name, label, visit.name)
        else:
            await visit.campaign.override(name, label, visit.name, visit.text("note") or None, visit.position())
    except Conflict as conflict:
        visit.form = {**kept, "label": label_filter}
        return await _page(visit, status=409, told=str(conflict), task=name)
    done = {} if is_blind else {"done": name}
    return redirect(visit.here("queue", **{**kept, "label": label_filter, **done}))


async def undo(visit: PageRequest) -> Response:
    """Reopen a task that was just decided, and show it again."""
    name = visit.identity()
    kept = {key: visit.form[key] for key in ("label", "reason", "sort") if visit.form.get(key)}
    try:
        await visit.campaign.reopen(name, visit.name, "undone", visit.position())
    except Conflict as conflict:
        return await _page(visit, status=409, told=str(conflict), task=name)
    return redirect(visit.here("queue", **{**kept, "task": name}))
