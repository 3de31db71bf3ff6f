"""The addresses of the page, and what each needs."""

from __future__ import annotations

from typing import Any, Final

from adjudge.service.board import audit, history, now, people, policies, queue, signing, task_page
from adjudge.service.http.routing import Route
from adjudge.service.http.tokens import Scope


def _page(method: str, path: str, scope: Scope | None, handler: Any) -> Route:
    return Route(method, path, scope, handler, {}, content="text/html")


CAMPAIGN_PATH: Final = "/c/{campaign}"
PAGE_ROUTES: Final[tuple[Route, ...]] = (
    _page("GET", "/start", "read", now.home),
    _page("GET", "/sign-in", None, signing.ask),
    _page("POST", "/sign-in", None, signing.sign_in),
    _page("POST", "/sign-out", None, signing.sign_out),
    _page("POST", "/theme", None, signing.choose_theme),
    _page("GET", "/assets/{name}", None, signing.asset),
    _page("GET", f"{CAMPAIGN_PATH}/now", "read", now.show),
    _page("GET", f"{CAMPAIGN_PATH}/live", "read", now.live),
    _page("GET", f"{CAMPAIGN_PATH}/find", "read", now.find),
    _page("POST", f"{CAMPAIGN_PATH}/breaker", "moderate", now.reset_breaker),
    _page("GET", f"{CAMPAIGN_PATH}/queue", "read", queue.show),
    _page("POST", f"{CAMPAIGN_PATH}/queue", "moderate", queue.decide),
    _page("POST", f"{CAMPAIGN_PATH}/queue/undo", "moderate", queue.undo),
    _page("GET", f"{CAMPAIGN_PATH}/task", "read", task_page.show),
    _page("POST", f"{CAMPAIGN_PATH}/task", "moderate", task_page.act),
    _page("GET", f"{CAMPAIGN_PATH}/workers", "read", people.show),
    _page("GET", f"{CAMPAIGN_PATH}/worker", "read", people.show_one),
    _page("POST", f"{CAMPAIGN_PATH}/worker", "moderate", people.judge),
    _page("GET", f"{CAMPAIGN_PATH}/audit", "moderate", audit.show),
    _page("POST", f"{CAMPAIGN_PATH}/audit", "moderate", audit.answer),
    _page("GET", f"{CAMPAIGN_PATH}/policy", "read", policies.show),
    _page("POST", f"{CAMPAIGN_PATH}/policy", "moderate", policies.act),
    _page("GET", f"{CAMPAIGN_PATH}/log", "read", history.show),
    _page("GET", f"{CAMPAIGN_PATH}/log/download", "read", history.download),
)
