"""The report in a real browser: what people see, press and hear, with and without its script."""

import os
import shutil

import pytest

from .conftest import EVIL, LABEL

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: pip install 'adjudge[dev]'")
BROWSER = os.environ.get("ADJUDGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]  # a container has no sandbox of its own
SERIOUS = {"serious", "critical"}

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="the browser tests need chromium: apt-get install chromium"),
    # Playwright closes the pipes to its driver late, which Python 3.12 remarks on.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def address(result, crowd, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    result.report(path, truth=crowd[1], title=f"{EVIL}{LABEL}")
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """Open the page as asked; at the end nothing has been logged, asked of the network, or alerted."""
    contexts, heard = [], []

    def open_page(**options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (heard.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: heard.append(request.url) if request.url != address else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [one for one in heard if not one.startswith("data:")] == []


def test_clicking_a_worker_shows_its_confusion(opened):
    page = opened()
    panel, first = page.locator("#worker-detail"), page.locator("#workers-plot .dot[aria-label^='w2:']")
    first.click()
    assert panel.locator("h3").first.inner_text() == "w2"
    assert "What it confuses" in panel.inner_text()
    assert panel.locator("table.heat td.diag").count() == 3
    assert page.locator("#worker-list tr.on").count() == 1


def test_the_keyboard_goes_from_dot_to_dot_and_enter_shows_one(opened):
    page = opened()
    page.locator("#workers-plot .dot[tabindex='0']").focus()
    seen = set()
    for _ in range(8):
        page.keyboard.press("Enter")
        seen.add(page.locator("#worker-detail h3").first.inner_text())
        page.keyboard.press("ArrowRight")
    assert len(seen) == 8
    assert page.locator("#workers-plot .dot[tabindex='0']").count() == 1


def test_the_list_is_searched_and_a_name_shows_its_worker(opened):
    page = opened()
    page.get_by_label("Find a worker").fill("copy of")  # its name, and the reason of the one it copies
    rows = page.locator("#worker-list tbody tr:visible")
    assert rows.count() == 2
    assert page.locator("#worker-hint").inner_text() == "2 found"
    rows.get_by_role("button", name="copy of w1").press("Enter")
    panel = page.locator("#worker-detail").inner_text()
    assert panel.startswith("copy of w1")
    assert "answers like" in panel


def test_names_stay_text(opened):
    page = opened()
    assert page.locator("img").count() == 0
    assert page.title().startswith(EVIL)
    page.get_by_label("Find a worker").fill("onerror")
    page.locator("#worker-list tbody tr:visible button").click()
    panel = page.locator("#worker-detail")
    assert panel.locator("h3").first.inner_text() == EVIL
    assert LABEL in panel.inner_text()
    assert "in 100% of 120 votes" in panel.inner_text()
    assert page.locator("body > script:not([type])").count() == 1


def test_a_task_opens_to_what_every_vote_contributed(opened):
    page = opened()
    task = page.locator("details.task").first
    task.locator(":scope > summary").click()
    assert task.locator("svg.plot").is_visible()
    task.get_by_text("Data").click()
    parts = [float(cell.replace("−", "-")) for cell in task.locator("tbody td:nth-child(4)").all_inner_texts()]
    assert sum(parts[:-1]) == pytest.approx(parts[-1], abs=0.02)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    screen = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    page = opened(**screen, bypass_csp=True)  # the policy of the page would not let axe in
    page.evaluate("document.querySelectorAll('details.fold').forEach((one) => (one.open = true))")
    page.locator("details.task summary").first.click()
    found = axe.Axe().run(page).response["violations"]
    grave = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found if one["impact"] in SERIOUS]
    assert grave == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(opened, width):
    page = opened(viewport={"width": width, "height": 740})
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_script_everything_but_the_click_is_there(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#worker-detail").is_hidden()
    assert page.get_by_text("Find a worker").is_hidden()
    assert page.locator("#worker-list tbody tr").count() == 8
    assert page.locator("#workers-plot .dot").count() == 8
    assert page.locator("details.task").first.is_visible()
    for section in ("trust", "workers", "confusion", "balance", "tasks", "agreement", "truth", "trace"):
        assert page.locator(f"#{section} h2").is_visible()
