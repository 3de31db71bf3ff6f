import pytest

from service.board.browsing import ASK_A_PERSON, BROWSER, OPTIONS
from service.serving import serving


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: pip install 'adjudge[dev]'")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture
def opened(browser):
    """Open pages of a server as asked; at the end no script has failed and no other host was contacted."""
    contexts, heard = [], []
    known = {"may fail": False}

    def open_page(address, path, *, context=None, **options):
        if context is None:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}") if message.type == "error" else None)
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (heard.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: heard.append(request.url) if not request.url.startswith((address, "data:")) else None)
        page.goto(f"{address}{path}")
        return page

    open_page.known = known
    yield open_page
    for context in contexts:
        context.close()
    if known["may fail"]:  # a server that is away, or an answer of 409, is an error in the console
        heard[:] = [one for one in heard if not one.startswith("error: Failed to load resource")]
    assert heard == []


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A campaign with long names, many labels and a hostile item."""
    labels = ("spam", "ok", "a label of eighty characters, which is what people write who know no abbreviations", *"cdefghijk")
    with serving(tmp_path_factory.mktemp("full"), labels=labels, policy=ASK_A_PERSON) as client:
        data = {
            "text": "word " * 60 + "unbreakable" * 20,
            "url": "https://example.org/" + "path/" * 40,
            "deep": {"a": ["<b>"] * 3},
        }
        votes = [
            {"task": f"t{n}", "worker": worker, "label": label, "data": data}
            for n in range(12)
            for worker, label in (("ann", "spam"), ("bob" * 20, labels[2]), ("cy", labels[2]))
        ]
        client("POST", "votes", votes)
        client("POST", "tasks/t1/override", {"label": labels[2], "by": "e" * 60, "reason": "because " * 40})
        client("POST", "tasks/t1/reopen", {"by": "eve"})
        yield client
