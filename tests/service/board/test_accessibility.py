"""axe-core finds nothing serious or critical on the page: every view, light and dark, on a phone and on a desk."""

import pytest

from service.board.browsing import MARKS, VIEWS, is_live
from service.serving import serving

pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: pip install 'adjudge[dev]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is missing: pip install 'adjudge[dev]'")
pytestmark = MARKS
SERIOUS = {"serious", "critical"}
SCREENS = [
    pytest.param({"color_scheme": scheme, "viewport": {"width": width, "height": 800}}, id=f"{scheme}-{width}")
    for scheme in ("light", "dark")
    for width in (360, 1280)
]


@pytest.fixture(params=SCREENS)
def screen(request):
    return {**request.param, "bypass_csp": True}  # the page's policy lets no foreign script in, axe neither


def findings(page, view):
    """Serious findings, with everything unfolded: (view, rule, elements)."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    violations = axe.Axe().run(page).response["violations"]
    return [
        (view, one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in violations if one["impact"] in SERIOUS
    ]


def test_every_view(opened, full, screen):
    page = opened(full.address, "/c/default/now", **screen)
    found = []
    for view in VIEWS:
        page.goto(f"{full.address}/c/default/{view}")
        is_live(page)
        found += findings(page, view)
    assert found == []


def test_what_people_open_on_a_view(opened, full, screen):
    page = opened(full.address, "/c/default/queue", **screen)
    is_live(page)
    page.keyboard.press("?")
    page.locator("#keys").wait_for(state="visible")
    found = findings(page, "keys")
    page.goto(f"{full.address}/c/default/worker?id=ann")
    page.get_by_role("button", name="Ban…").click()
    page.get_by_role("button", name="Ban and change").wait_for()
    found += findings(page, "ban")
    page.goto(f"{full.address}/c/default/policy")
    is_live(page)
    page.get_by_label("Confidence").fill("7")
    page.get_by_text("give a number above 0 and at most 1").wait_for()
    found += findings(page, "policy with an error")
    page.get_by_label("Confidence").fill("0.5")
    page.get_by_role("button", name="Back-test").first.click()
    page.get_by_text("would be decided otherwise").first.wait_for()
    found += findings(page, "backtest")
    assert found == []


def test_pages_without_a_campaign(opened, tmp_path, screen):
    opened.known["may fail"] = True
    with serving(tmp_path, labels=(), given=[("mia", "admin", None)]) as client:
        page = opened(client.address, "/", **screen)
        found = findings(page, "sign in")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        found += findings(page, "refused")
        page.get_by_label("Token").fill(client.tokens["mia"])
        page.get_by_role("button", name="Sign in").click()
        page.locator("h1").wait_for()
        found += findings(page, "no campaign")
        page.goto(f"{client.address}/c/missing/now")
        found += findings(page, "missing")
    assert found == []


def test_audits(opened, tmp_path, screen):
    with serving(tmp_path, policy={"minimum_votes": 1, "confidence": 0.5, "audit": {"share": 1.0}}) as client:
        votes = [{"task": f"t{n}", "worker": "ann", "label": "spam", "data": {"text": f"Item {n}"}} for n in range(3)]
        assert client("POST", "votes", votes).status == 200
        page = opened(client.address, "/c/default/queue", **screen)
        is_live(page)
        assert page.locator(".task-card").count() == 1
        found = findings(page, "an audit")
        page.keyboard.press("1")
        page.goto(f"{client.address}/c/default/now")
        is_live(page)
        found += findings(page, "now with audits")
    assert found == []
