"""The pictures of the report in README and docs/report.md: the demo's report in Chromium, light and dark.

    python benchmarks/report_pictures.py [FOLDER]

writes report.png and report-dark.png into docs/report unless another folder is given.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import adjudge as adj
from adjudge.cli.demo import LABELS, simulate_crowd

FOLDER = Path(__file__).parents[1] / "docs" / "report"
BROWSER = os.environ.get("ADJUDGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
SIZE = {"width": 1000, "height": 860}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        page_file = Path(work, "report.html")
        crowd = simulate_crowd(seed=17)
        adj.aggregate(crowd.votes, labels=LABELS).report(page_file, title="Thirty moderators, 600 comments")
        browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(page_file.as_uri())
            page.screenshot(path=folder / name)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
