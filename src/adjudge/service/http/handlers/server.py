"""The server itself: does it answer, can it take votes, how is it doing, what does it offer."""

from __future__ import annotations

from starlette.responses import Response

from adjudge.service.campaigns.decision import moment
from adjudge.service.http import feed
from adjudge.service.http import types as t
from adjudge.service.http.call import Call, Reply
from adjudge.service.http.feed import Place
from adjudge.service.http.metrics import CONTENT_TYPE, format_figures, list_reasons


async def healthz(_: Call) -> t.HealthAnswer:
    """Say that the process answers."""
    return t.HealthAnswer()


async def readyz(call: Call) -> Reply | t.ReadyAnswer:
    """Say whether votes can be taken now: campaigns are loaded and the log can be written."""
    reasons = await list_reasons(call.context)
    return Reply(503, t.ReadyAnswer(False, reasons)) if reasons else t.ReadyAnswer(True)


async def set_clock(call: Call) -> t.ClockAnswer:
    """Take the time of the server's clock for right, and set the logs of campaigns back that are ahead of it.

    Times of tasks that are later than the clock become its time: a hold that began then lasts from now on.
    """
    time, names = await call.context.campaigns.set_clock(call.body.by, call.body.reason)
    return t.ClockAnswer(moment(time), names)


async def metrics(call: Call) -> Response:
    """Give figures of the service in the text format of Prometheus."""
    return Response(format_figures(call.context), media_type=CONTENT_TYPE)


async def description(call: Call) -> Response:
    """Describe this interface as OpenAPI 3.1."""
    return Response(call.context.descriptions[call.context.tokens.required], media_type="application/json")


async def stream_events(call: Call) -> Response:
    """Tell decisions as server-sent events, from now on or from where a client has stopped.

    The header Last-Event-ID, or else `after`, resumes: every decision after that place is sent once. When the token is
    revoked, the stream ends with the event `unauthorized`.
    """
    last = (call.headers.last_event_id or b"").decode("latin-1")
    after = Place.of_event(last) if last else Place.of_query(call.query.after) if call.query.after is not None else None
    return feed.EventStream(call.campaign.tail, after, call.permit, call.context.stopping)
