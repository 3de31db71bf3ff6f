"""The view *Now*: what is happening in a campaign, live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjudge.service.board.figures import Figures, headline
from adjudge.service.board.pages import redirect
from adjudge.service.board.visit import PageRequest
from adjudge.service.http.feed import KEEP_ALIVE, STUCK, format_last_event

LIVE_INTERVAL_S: Final = 1.0
MAX_TOLD_TASKS: Final = 50  # changed tasks per event of the live stream
encode: Final = msgspec.json.Encoder().encode


async def home(visit: PageRequest) -> Response:
    """Lead to the first campaign, or say how to make one."""
    names = visit.campaigns
    if not names:
        return visit.board.pages.page("empty.html", visit, {"server": server_address(visit)})
    first = "default" if "default" in names else names[0]
    visit.ids = [first]
    return redirect(visit.here("now"))


def server_address(visit: PageRequest) -> str:
    """Return the address of this server, as the browser knows it."""
    host = (visit.headers.host or b"127.0.0.1:8000").decode("latin-1")
    is_tls = (visit.headers.origin or b"").startswith(b"https:")
    return f"http{'s' if is_tls else ''}://{host}"


async def read(visit: PageRequest) -> Figures:
    """Return the figures of the campaign."""
    return await visit.board.figures.read(visit.board.activities.of(visit.campaign))


async def show(visit: PageRequest) -> Response:
    """Show the campaign at this moment."""
    activity, figures = visit.board.activities.of(visit.campaign), await read(visit)
    made = activity.decisions["votes"] + activity.decisions["people"]
    values = {
        "figures": figures,
        "activity": activity,
        "sentence": headline(figures, time.time()),
        "automatic": activity.decisions["votes"] / made if made else None,
        "made": made,
        "began": int(activity.began * 1e6),
        "server": server_address(visit),
        "label": visit.campaign.state.labels[0],
        "audits": await visit.campaign.audits(),
    }
    return visit.board.pages.page("now.html", visit, values)


async def find(visit: PageRequest) -> Response:
    """Lead to the task or worker of a name."""
    text, campaign = visit.query.get("q", "").strip(), visit.campaign
    if campaign.names.number(text) is not None and campaign.state.find(text) is None:
        return redirect(visit.here("worker", id=text))
    if text and campaign.state.find(text) is not None:
        return redirect(visit.here("task", id=text))
    return redirect(visit.here("workers", q=text))


async def reset_breaker(visit: PageRequest) -> Response:
    """Resume automatic decisions."""
    await visit.campaign.reset_breaker(visit.name)
    return redirect(visit.here("now"))


async def live(visit: PageRequest) -> Response:
    """Tell open pages what has changed, at most once a second."""
    return LiveStream(visit)


class LiveStream(Response):
    """Server-sent events with the figures that pages show, for as long as the browser listens.

    - `visit`: of the browser; the stream ends when its token is revoked or its session has expired.
    """

    media_type = "text/event-stream"

    def __init__(self, visit: PageRequest) -> None:
        super().__init__()
        self._visit = visit

    def init_headers(self, headers: Any = None) -> None:
        """Set headers: no length, nothing kept or gathered on the way."""
        self.raw_headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-content-type-options", b"nosniff"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events as they come."""
        visit = self._visit
        with visit.context.streams.open(visit.grant.digest, visit.ids[0]):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            gone = asyncio.ensure_future(_gone(receive))
            stop = asyncio.ensure_future(visit.context.stopping.wait())
            try:
                with visit.permit.watch() as revoked, suppress(TimeoutError):
                    async for chunk in self._events({gone, stop, revoked}, stop):
                        async with asyncio.timeout(STUCK):
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                gone.cancel()
                stop.cancel()

    async def _events(self, ends: set[asyncio.Future[Any]], stop: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        visit, position, silent_since = self._visit, -1, time.monotonic()
        activity = visit.board.activities.of(visit.campaign)
        yield b"retry: 2000\n: adjudge\n\n"
        while True:
            if visit.campaign.position != position:
                figures = await read(visit)
                tasks = [] if position < 0 else activity.changed_since(position)[:MAX_TOLD_TASKS]
                position, silent_since = figures.position, time.monotonic()
                told = {"position": position, "waiting": figures.waiting, "votes": figures.votes, "tasks": tasks}
                yield b"event: change\ndata: %b\n\n" % encode(told)
            elif time.monotonic() - silent_since > KEEP_ALIVE:
                silent_since = time.monotonic()
                yield b"event: alive\ndata: {}\n\n"
            await asyncio.wait(ends, timeout=LIVE_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                yield format_last_event("stopping", "the service is stopping")
                return
            if time.monotonic() >= visit.session.expires:
                yield format_last_event("expired", "the session has expired")
                return
            if any(end.done() for end in ends):
                yield format_last_event("unauthorized", "the session has ended")
                return


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
