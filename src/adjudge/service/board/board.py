"""The application of the page: sign-in, sessions and forms around its views, and answers that browsers treat as harmless."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adjudge.report.picture import Picture
from adjudge.service.board.activity import Activities
from adjudge.service.board.backtests import Backtests
from adjudge.service.board.figures import FigureCache
from adjudge.service.board.pages import Pages, redirect
from adjudge.service.board.pictures import people
from adjudge.service.board.roster import Roster, Rosters
from adjudge.service.board.routes import PAGE_ROUTES
from adjudge.service.board.sessions import SESSION_COOKIE, BrowserSession, Sessions
from adjudge.service.board.visit import FORM_MEDIA_TYPE, PageRequest, address, parse_cookies, parse_fields
from adjudge.service.http import limits
from adjudge.service.http.app import HEADERS, as_problem, require_local
from adjudge.service.http.call import Context
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.errors import Forbidden, Malformed, Problem, Unauthorized
from adjudge.service.http.logs import LOGGER, request_ids
from adjudge.service.http.parsing import Headers
from adjudge.service.http.routing import Route, Router
from adjudge.service.http.tokens import FULL_GRANT, Grant, Permit

ROOTS: Final = (b"/c/", b"/assets/")
PAGE_PATHS: Final = frozenset({b"/", b"/sign-in", b"/sign-out", b"/theme"})
START: Final = b"/start"  # for routing, in place of "/"
NO_PAGE: Final = "page"  # route label in metrics if no route matches


class Board:
    """Answers what browsers ask for.

    - `context`: what all requests of the server share.
    """

    def __init__(self, context: Context) -> None:
        self.context, self.pages, self.sessions = context, Pages(), Sessions()
        self.activities, self.figures = Activities(context.campaigns), FigureCache()
        self.rosters, self.tests = Rosters(), Backtests()
        self._pictures: dict[int, tuple[int, Picture]] = {}  # of the workers of a campaign, at a position
        self._router = Router(PAGE_ROUTES)
        self._new_id = request_ids()

    def owns(self, path: bytes) -> bool:
        """Return whether an address is one of the page's."""
        return path in PAGE_PATHS or path.startswith(ROOTS)

    async def picture(self, campaign: Campaign, roster: Roster) -> Picture:
        """Return the picture of a roster, which is drawn once."""
        known = self._pictures.get(campaign.number)
        if known is None or known[0] != roster.position:
            drawn = await campaign.campaigns.in_thread(people(roster.frame, roster.chance).picture)
            known = self._pictures[campaign.number] = roster.position, drawn
        return known[1]

    async def run(self) -> None:
        """Watch the campaigns for as long as the server runs."""
        await self.activities.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began, name, request_id = time.perf_counter(), NO_PAGE, self._new_id()
        headers: Headers = scope["state"][HEADERS]
        cookies = parse_cookies([value for key, value in scope["headers"] if key == b"cookie"])
        visit: PageRequest | None = None
        try:
            route, ids = self._router.find(scope["method"], START if scope["raw_path"] == b"/" else scope["raw_path"])
            name = route.name
            grant, session = self._admit(route, headers, cookies)
            if route.scope is not None:
                grant.check(route.scope, ids[0] if ids else None)
                grant.bucket.take(1)
            query = scope["query_string"]
            path = scope["raw_path"].decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
            permit = Permit(self.context.authority, grant, route.scope, ids[0] if ids else None)
            fields = parse_fields(query)
            visit = PageRequest(
                self, self.context, headers, grant, session, ids, fields, path, request_id.decode(), permit, cookies
            )
            if route.method == "POST":
                visit.form = await self._form(scope, headers, receive)
                session.check_form(visit.form.pop("csrf", ""))
            response = await self._answer(route, visit)
        except limits.Disconnected:
            return
        except Exception as error:
            problem = as_problem(error, request_id)
            response = self._refuse(problem, route=name, scope=scope, visit=visit, request_id=request_id)
        self.context.metrics.count_answer(name, response.status_code, time.perf_counter() - began)
        if scope["method"] == "POST":
            extra = {"route": name, "status": response.status_code, "request": request_id.decode()}
            LOGGER.info("done", extra=extra | ({} if visit is None else {"ids": visit.ids, "token": visit.grant.name}))
        await response(scope, receive, send)

    def _admit(self, route: Route, headers: Headers, cookies: dict[str, str]) -> tuple[Grant, BrowserSession]:
        """Return what the session of a request allows, and the session."""
        authority, tokens = self.context.authority, self.context.tokens
        if route.method == "POST":
            require_same_origin(headers)
        if not tokens.required:
            require_local(headers)
            return FULL_GRANT, self.sessions.local
        if route.scope is None:
            session = self.sessions.find(cookies.get(SESSION_COOKIE))
            return Grant(None, frozenset()), self.sessions.local if session is None else session
        authority.require_recent()
        session = self.sessions.find(cookies.get(SESSION_COOKIE))
        if session is None:
            raise Unauthorized("sign in first: your session is missing or has expired")
        return tokens.current(Grant(session.name, frozenset(), digest=session.digest)), session

    async def _form(self, scope: Scope, headers: Headers, receive: Receive) -> dict[str, str]:
        kinds = [value for key, value in scope["headers"] if key == b"content-type"]
        if len(kinds) != 1 or kinds[0].partition(b";")[0].strip().lower() != FORM_MEDIA_TYPE:
            raise Malformed("a form has to be sent as application/x-www-form-urlencoded")
        return parse_fields(await limits.read_body(receive, headers.content_length))

    async def _answer(self, route: Route, visit: PageRequest) -> Response:
        """Return what the handler answers, if this server may answer now what it has read."""
        visit.permit.check()
        authority = self.context.authority
        campaign = self.context.campaigns.by_name.get(visit.ids[0]) if visit.ids else None
        lease = None if campaign is None or route.scope is None else authority.lease(campaign)
        handler: Any = route.handler
        with self.context.under_way:
            try:
                response: Response = await handler(visit)
            finally:
                await authority.confirm(lease)
        if route.method == "GET":
            visit.permit.check()
        return response

    def _refuse(self, problem: Problem, *, route: str, scope: Scope, visit: PageRequest | None, request_id: bytes) -> Response:
        """Return the page that says what is wrong; without a session, the way to sign in."""
        status = problem.status or 500
        LOGGER.info("refused", extra={"route": route, "status": status, "request": request_id.decode(), "detail": str(problem)})
        if isinstance(problem, Unauthorized) and self.context.tokens.required and scope["method"] in ("GET", "HEAD"):
            wanted = scope["raw_path"].decode("latin-1")
            query = scope["query_string"].decode("latin-1")
            return redirect(address("/sign-in", next=f"{wanted}?{query}" if query else wanted))
        response = self.pages.problem(problem, visit, request_id.decode())
        if problem.retry_after is not None:
            response.headers["retry-after"] = str(max(1, round(problem.retry_after)))
        return response


def require_same_origin(headers: Headers) -> None:
    """Raise `Forbidden` if a form was sent by a page of another origin."""
    if headers.sec_fetch_site not in (None, b"same-origin"):
        raise Forbidden("forms are taken from the service's own pages only")
    if headers.origin is not None:
        origin = headers.origin.lower().removeprefix(b"https://").removeprefix(b"http://")
        if headers.host is None or origin != headers.host.lower():
            raise Forbidden("forms are taken from the service's own pages only")
