"""The addresses of the page, and what each needs."""

from __future__ import annotations

from typing import Any, Final

from adjudge.service.board import audit, history, now, people, policies, queue, signing, task_page
from adjudge.service.http.routing import Route
from adjudge.service.http.tokens import Scope


def _page(method: str, path: str, scope: Scope | None, handler: Any) -> Route:
    return Route(method, path, scope, handler, {}, content="text/html")


CAMPAIGN: Final = "/c/{campaign}"
PAGES: Final[tuple[Route, ...]] = (
    _page("GET", "/start", "read", now.home),
    _page("GET", "/sign-in", None, signing.ask),
    _page("POST", "/sign-in", None, signing.sign_in),
    _page("POST", "/sign-out", None, signing.sign_out),
    _page("POST", "/theme", None, signing.choose_theme),
    _page("GET", "/assets/{name}", None, signing.asset),
    _page("GET", f"{CAMPAIGN}/now", "read", now.show),
    _page("GET", f"{CAMPAIGN}/live", "read", now.live),
    _page("GET", f"{CAMPAIGN}/find", "read", now.find),
    _page("POST", f"{CAMPAIGN}/breaker", "moderate", now.reset_breaker),
    _page("GET", f"{CAMPAIGN}/queue", "read", queue.show),
    _page("POST", f"{CAMPAIGN}/queue", "moderate", queue.decide),
    _page("POST", f"{CAMPAIGN}/queue/undo", "moderate", queue.undo),
    _page("GET", f"{CAMPAIGN}/task", "read", task_page.show),
    _page("POST", f"{CAMPAIGN}/task", "moderate", task_page.act),
    _page("GET", f"{CAMPAIGN}/workers", "read", people.show),
    _page("GET", f"{CAMPAIGN}/worker", "read", people.show_one),
    _page("POST", f"{CAMPAIGN}/worker", "moderate", people.judge),
    _page("GET", f"{CAMPAIGN}/audit", "moderate", audit.show),
    _page("POST", f"{CAMPAIGN}/audit", "moderate", audit.answer),
    _page("GET", f"{CAMPAIGN}/policy", "read", policies.show),
    _page("POST", f"{CAMPAIGN}/policy", "moderate", policies.act),
    _page("GET", f"{CAMPAIGN}/log", "read", history.show),
    _page("GET", f"{CAMPAIGN}/log/download", "read", history.download),
)
