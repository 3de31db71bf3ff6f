"""A real browser for the tests of the page: which one, its options, and the views it opens."""

import os
import shutil

import pytest

BROWSER = os.environ.get("ADJUDGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]  # a container has no sandbox of its own
ASK_A_PERSON = {"minimum_votes": 1, "maximum_votes": 2, "confidence": 0.999}
VIEWS = ("now", "queue", "task?id=t1", "workers", "worker?id=ann", "audit?id=ann", "policy", "log")
MARKS = [
    pytest.mark.skipif(BROWSER is None, reason="the browser tests need chromium: apt-get install chromium"),
    # Playwright closes the pipes to its driver late, which Python 3.12 remarks on.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def is_live(page):
    page.locator("#live.on").wait_for()
