"""Signing in and out, the choice of a theme, and the files of the page."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from adjudge.service.board.pages import THEMES, redirect
from adjudge.service.board.sessions import SESSION_COOKIE, SESSION_S
from adjudge.service.board.visit import PageRequest
from adjudge.service.http.errors import Invalid, NotFound, Unauthorized

THEME_S: Final = 31_536_000
_LOCAL_HOST: Final = re.compile(rb"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x7e]*")  # of this server: a second slash would name another host


def _destination(wanted: str) -> str:
    r"""Return where to go next: an address of this server, or else its start.

    >>> _destination("/c/default/queue?sort=age"), _destination("//evil.example/"), _destination("/\\evil.example")
    ('/c/default/queue?sort=age', '/', '/')
    """
    return wanted if _PATH.fullmatch(wanted) and "\\" not in wanted else "/"


async def ask(visit: PageRequest) -> Response:
    """Ask for a token."""
    wanted = _destination(visit.query.get("next", "/"))
    if not visit.context.tokens.required:
        return redirect(wanted)
    return visit.board.pages.page("sign_in.html", None, {"csrf": visit.session.csrf, "wanted": wanted, "detail": ""})


async def sign_in(visit: PageRequest) -> Response:
    """Begin a session with a token."""
    wanted, token = _destination(visit.text("next")), visit.text("token").strip()
    try:
        visit.context.authority.require_recent()
        grant = visit.context.tokens.find(b"Bearer " + token.encode("utf-8", "replace"))
        if "read" not in grant.allowed:
            raise Unauthorized("this token may only vote: the page needs the scope read, moderate or admin")
    except Unauthorized as problem:
        values = {"csrf": visit.session.csrf, "wanted": wanted, "detail": str(problem)}
        return visit.board.pages.page("sign_in.html", None, values, status=401)
    sessions = visit.board.sessions
    sessions.end(visit.cookies.get(SESSION_COOKIE))
    key, _ = sessions.begin(grant)
    response = redirect(wanted)
    _set_cookie(visit, response, SESSION_COOKIE, key, int(SESSION_S))
    return response


async def sign_out(visit: PageRequest) -> Response:
    """End the session."""
    visit.board.sessions.end(visit.cookies.get(SESSION_COOKIE))
    response = redirect("/sign-in")
    _set_cookie(visit, response, SESSION_COOKIE, "", 0)
    return response


async def choose_theme(visit: PageRequest) -> Response:
    """Keep a choice of light or dark."""
    theme = visit.text("theme")
    if theme not in THEMES:
        raise Invalid(f"theme has to be one of {', '.join(THEMES)}")
    response = redirect(_destination(visit.text("next")))
    _set_cookie(visit, response, "theme", theme, THEME_S)
    return response


async def asset(visit: PageRequest) -> Response:
    """Give a file of the page."""
    response = visit.board.pages.asset(visit.ids[0])
    if response is None:
        raise NotFound("there is nothing at this address")
    return response


def _set_cookie(visit: PageRequest, response: Response, name: str, value: str, age_s: int) -> None:
    """Set a cookie that scripts and other sites never see; beyond this machine it needs TLS."""
    is_local = visit.headers.host is not None and _LOCAL_HOST.fullmatch(visit.headers.host) is not None
    response.set_cookie(name, value, max_age=age_s, path="/", secure=not is_local, httponly=True, samesite="strict")
