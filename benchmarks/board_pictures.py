"""The pictures of docs/board.md: a real server with simulated reviewers, looked at in Chromium.

    python benchmarks/board_pictures.py [FOLDER] [--all]

With `--all`: every view at 360 and 1280 pixels, light and dark, empty and with tasks, for a look before a change is merged.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

from adjudge.service import running

ROOT = Path(__file__).parents[1]
BROWSER = os.environ.get("ADJUDGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
LABELS = ("spam", "abuse", "fine")
TEXTS = {
    "spam": "Earn $5,000 a week from home. Message me on Telegram for the link, places are limited!",
    "abuse": "You people are all idiots and should leave this forum. Nobody wants you here.",
    "fine": "Has anyone tried the new trail by the lake? Is it passable with a pushchair after the rain?",
}
PICTURES = {  # of docs/board.md: view and scheme
    "now": ("now", "light"),
    "queue": ("queue", "light"),
    "task": ("task?id=comment-17", "light"),
    "workers": ("workers", "dark"),
}
VIEWS = ("now", "queue", "task?id=comment-17", "workers", "worker?id=mod-3", "audit?id=mod-3", "policy", "log")


def ask(url, body, method="POST"):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def fill(url, tasks=240, seed=7):
    """Send the votes of twelve reviewers, two of whom do not read what they judge."""
    rng = random.Random(seed)
    campaign = f"{url}/v1/campaigns/default"
    policy = {"confidence": 0.93, "maximum_votes": 6, "escalate": {"disagreement": 0.45}, "breakers": {"window": 200}}
    ask(f"{campaign}/policy", {"policy": policy, "by": "dana", "note": "ask a person sooner"}, "PUT")
    skill = {f"mod-{n}": 0.97 - 0.03 * n for n in range(10)} | {"mod-10": 0.36, "mod-11": 0.33}
    for task in range(tasks):
        true = rng.choices(LABELS, (0.3, 0.15, 0.55))[0]
        item = {"text": TEXTS[true], "url": f"https://forum.example/t/{task}"}
        votes = []
        for worker in rng.sample(sorted(skill), rng.randint(1, 6)):
            label = true if rng.random() < skill[worker] else rng.choice([label for label in LABELS if label != true])
            votes.append({"task": f"comment-{task}", "worker": worker, "label": label, "data": item})
        ask(f"{campaign}/votes", votes)


def shoot(page, url, path, width, full):
    page.set_viewport_size({"width": width, "height": 860 if width > 600 else 740})
    page.goto(url)
    page.locator("#live.on").wait_for()
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        print(f"{path.name}: {wide} pixels wide, and the screen has {width}")
    page.screenshot(path=path, full_page=full)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "board")
    parser.add_argument("--all", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        with running(labels=LABELS, store=Path(folder) / "votes.db") as url:
            if chosen.all:
                every(browser, url, chosen.folder, "empty")
            fill(url)
            if chosen.all:
                every(browser, url, chosen.folder, "full")
            else:
                for name, (view, scheme) in PICTURES.items():
                    context = browser.new_context(color_scheme=scheme)
                    shoot(context.new_page(), f"{url}/c/default/{view}", chosen.folder / f"{name}.png", 1280, full=False)
                    context.close()
        browser.close()


def every(browser, url, folder, what):
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        for view in VIEWS if what == "full" else ("now", "queue", "workers", "policy", "log"):
            for width in (360, 1280):
                name = view.partition("?")[0]
                shoot(page, f"{url}/c/default/{view}", folder / f"{what}-{name}-{scheme}-{width}.png", width, full=True)
        context.close()


if __name__ == "__main__":
    main()
