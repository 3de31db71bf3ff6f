"""The view *Task*: its story, the contribution of every vote, and the actions of a moderator."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response, StreamingResponse

from adjudge.errors import quote
from adjudge.service.board.evidence import trace, weigh
from adjudge.service.board.items import item_of
from adjudge.service.board.pages import page_headers, redirect
from adjudge.service.board.pictures import evidence, probabilities
from adjudge.service.board.story import Story, read_story
from adjudge.service.board.visit import PageRequest
from adjudge.service.http.errors import Conflict, Invalid, Problem
from adjudge.service.http.logs import LOGGER
from adjudge.service.store.errors import StoreError

MARK = "<!-- the story follows -->"


async def show(visit: PageRequest) -> Response:
    """Show a task. Its story follows when it was read: the log has to be searched for it."""
    return await _page(visit, visit.identity())


async def _page(visit: PageRequest, task: str, *, status: int = 200, told: str = "") -> Response:
    campaign = visit.campaign
    view = await campaign.task(task)
    weighed = await campaign.read(lambda: weigh(campaign.state, campaign.names, task), 500)
    names, pages = campaign.state.names, visit.board.pages
    values: dict[str, Any] = {
        "task": view,
        "item": await item_of(campaign, task),
        "weighed": weighed,
        "names": dict(zip(campaign.state.labels, names, strict=True)),
        "labels": campaign.labels,
        "evidence": evidence(weighed, names),
        "likely": sorted(((share, label) for label, share in view.posterior.items()), key=lambda pair: -pair[0])[:10],
        "told": told,
        "mark": MARK,
    }
    page = pages.render("task.html", visit, values)
    before, _, after = page.partition(MARK)
    hosts = campaign.state.image_hosts

    async def parts() -> Any:
        yield before.encode("utf-8", "replace")
        try:
            story = await read_story(campaign, task)
        except (Problem, StoreError) as error:  # the head of the page is sent already
            LOGGER.warning("the story of a task cannot be read", extra={"request": visit.request_id, "detail": str(error)})
            story = Story([], [], has_more=False)
        drawn = probabilities(trace(weighed, story.voters), names) if weighed.label >= 0 else None
        text = pages.render("story.html", visit, {"story": story, "drawn": drawn, "names": values["names"]})
        yield f"{text}{after}".encode("utf-8", "replace")

    if status == 200:
        return StreamingResponse(parts(), status, headers=page_headers(hosts))
    return Response(b"".join([part async for part in parts()]), status, headers=page_headers(hosts))


async def act(visit: PageRequest) -> Response:
    """Decide, reopen, or say what is true."""
    campaign, task, action = visit.campaign, visit.identity(), visit.text("action")
    note = visit.text("note") or None
    try:
        if action == "override":
            await campaign.override(task, visit.label(), visit.name, note, visit.position())
        elif action == "reopen":
            await campaign.reopen(task, visit.name, note, visit.position())
        elif action == "gold":
            await campaign.gold(task, visit.label(), visit.name)
        elif action == "no-gold":
            await campaign.gold(task, None, visit.name)
        else:
            raise Invalid(f"action is {quote(action)}: give override, reopen, gold or no-gold")
    except Conflict as conflict:
        return await _page(visit, task, status=409, told=str(conflict))
    return redirect(visit.here("task", id=task))
