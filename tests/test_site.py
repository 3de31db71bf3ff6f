"""The site of the documentation: it builds strictly, every link in it leads somewhere, and it asks no other machine for anything."""

import doctest
import functools
import http.server
import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import adjudge as adj
from adjudge.cli.main import COMMANDS, app_of

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "docs" / "site" / "build.py"
MISSING = [name for name in ("zensical", "mkdocstrings", "mkdocstrings_handlers") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the site needs {', '.join(MISSING)}: pip install 'adjudge[docs]'")
RESOURCES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "link": "href"}


class Page(HTMLParser):
    """The ids of a page, its links, and the files a browser fetches for it."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.resources = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get(RESOURCES.get(tag)):
            self.resources.append(given[RESOURCES[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, BUILD, folder], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", BUILD.with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build():
    return loaded("build")


def test_every_page_of_docs_is_in_the_navigation(site, pages):
    start = pages[site / "index.html"]
    listed = {(site / urldefrag(link).url).resolve() for link in start.links if not link.startswith("http")}
    for source in (ROOT / "docs").rglob("*.md"):
        if source.read_text().startswith("# ") and source.parent.name != "decisions":
            name = source.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README.html", "index.html")
            assert (site / name).resolve() in listed, f"{name} is not to be found from the first page"
    decisions = pages[site / "decisions" / "index.html"]
    for source in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert source.with_suffix(".html").name in decisions.links


def test_the_navigation_has_at_most_seven_parts(site, pages):
    tabs = re.findall(r'class="md-tabs__link"', (site / "index.html").read_text())
    assert 0 < len(tabs) <= 7


def test_every_link_leads_somewhere(pages):
    for path, page in pages.items():
        if path.name == "404.html":  # shown for any address, so that its links begin at the root
            continue
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, anchor = urldefrag(link)
            there = (path.parent / unquote(target)).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            assert there.exists(), f"{path.name} links to {link}"
            if anchor and there.suffix == ".html":
                assert unquote(anchor) in pages[there].ids, f"{path.name} links to {link}"


def test_nothing_comes_from_another_machine(site, pages):
    for path, page in pages.items():
        for resource in page.resources:
            assert not re.match(r"([a-z]+:)?//", resource), f"{path.name} fetches {resource}"
        assert "@import" not in path.read_text()
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(\s*[\"']?|@import\s+[\"'])(?:https?:)?//[^)]*", path.read_text()) == []


def test_reference_has_every_public_name(site, pages):
    named = {each for path, page in pages.items() if path.parent.name == "reference" for each in page.ids}
    assert [name for name in adj.__all__ if f"adjudge.{name}" not in named] == []


def test_reference_of_python_shows_what_docstrings_say(site):
    shown = (site / "reference" / "aggregating.html").read_text()
    text = re.sub(r"<[^>]+>", "", shown)
    assert "Return the label of every task with its confidence" in text
    assert "Labels of some tasks (a frame, a file" in text
    assert not re.search(r"Parameters\s+-{3,}", text), "a section was taken for text"
    assert "&gt;&gt;&gt; import adjudge" in text.replace("&gt;&gt;&gt;&nbsp;", "&gt;&gt;&gt; ")
    assert "<blockquote>" not in shown, "an example was taken for a quotation"
    assert "DEFAULTS" not in text


def test_reference_of_commands_has_every_option(site, pages):
    page = site / "reference" / "command-line.html"
    assert [name for name in COMMANDS if f"adjudge-{name}" not in pages[page].ids] == []
    text = re.sub(r"<[^>]+>", "", page.read_text())
    import typer

    for name, command in typer.main.get_command(app_of(COMMANDS)).commands.items():
        for parameter in getattr(command, "params", []):
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert option in text, f"{option} of {name}"


def links_of(path):
    """Return where the links of a Markdown file lead within the site, without those in code."""
    text = re.sub(r"^```.*?^```|`[^`\n]+`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [urldefrag(link).url for link in re.findall(r"\]\((?!#|[a-z]+:)([^)\s]+)", text)]


def test_every_page_has_a_markdown_twin(site, pages):
    assert [path for path in pages if path.name != "404.html" and not path.with_suffix(".md").exists()] == []
    twins = list(site.rglob("*.md"))
    assert [path for path in twins if not path.with_suffix(".html").exists()] == []
    assert [path for path in twins if not path.read_text().startswith("# ")] == []


def test_links_of_twins_lead_somewhere(site):
    for path in site.rglob("*.md"):
        for link in links_of(path):
            assert (path.parent / unquote(link)).is_file(), f"{path.relative_to(site)} links to {link}"


def test_twins_of_the_reference_are_written_out(site):
    reference = {path: path.read_text() for path in (site / "reference").glob("*.md")}
    assert [path for path, text in reference.items() if ":::" in text] == []
    headings = {line[3:] for text in reference.values() for line in text.splitlines() if line.startswith("## ")}
    assert [name for name in adj.__all__ if f"adjudge.{name}" not in headings] == []
    assert "Return the label of every task with its confidence" in reference[site / "reference" / "aggregating.md"]


def test_llms_txt_lists_every_page_of_the_navigation(site):
    text = (site / "llms.txt").read_text()
    assert re.match(r"# adjudge\n\n> \S.*\n\n## ", text)
    entries = re.findall(r"^- \[.+\]\((\S+)\): \S.*$", text, re.MULTILINE)
    lines = [line for line in text.splitlines()[3:] if line and not line.startswith("## ")]
    assert len(entries) == len(lines), "an entry is a link and a description"
    nav = re.findall(r"\S+\.md$", (site.parent / "mkdocs.yml").read_text().partition("\nnav:\n")[2], re.MULTILINE)
    assert len(entries) == len(nav) > 100
    assert set(entries) == {page.replace("README.md", "index.md") for page in nav}
    assert [link for link in entries if not (site / link).is_file()] == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def address(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("source", ["server", "disk"])
def test_a_browser_finds_a_word_and_stays_on_this_machine(site, address, source):
    address = address if source == "server" else f"{site.as_uri()}/"
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    asked, errors = [], []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}start.html")
        page.wait_for_load_state("networkidle")
        found = page.locator("a[href*='agreement.html']:visible")
        assert found.count() == 0
        page.keyboard.press("Control+k")
        page.keyboard.type("krippendorff")
        found.first.wait_for(timeout=20_000)
        browser.close()
    assert errors == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("name", ["build", "docstrings", "llms"])
def test_examples_of_the_build_run(name, monkeypatch):
    monkeypatch.syspath_prepend(BUILD.parent)
    ran = doctest.testmod(loaded(name))
    assert ran.attempted > 0
    assert ran.failed == 0


def test_help_is_text_and_not_markup():
    shown = loaded("commands")._text("--worker 'judge_*' <b> [x](y) | `as_is`")
    assert shown == r"--worker 'judge\_\*' \<b\> \[x\](y) \| `as_is`"


def test_navigation_names_every_page_once(build):
    assert build.navigation([{"A": ["a.md", "b/[0-9]*.md"]}], ["a.md", "b/2.md", "b/1.md"]) == [
        {"A": ["a.md", "b/1.md", "b/2.md"]}
    ]
    with pytest.raises(build.SiteError, match="not in the navigation.*: c.md"):
        build.navigation(["a.md"], ["a.md", "c.md"])
    with pytest.raises(build.SiteError, match="not there, or twice: c.md"):
        build.navigation(["a.md", {"C": "c.md"}], ["a.md"])
    with pytest.raises(build.SiteError, match="twice: a.md"):
        build.navigation(["a.md", {"Again": "a.md"}], ["a.md"])


def test_pages_are_made_for_the_site(build):
    assert (
        build.page("docs/models/x.md", "[b](../../benchmarks/README.md#peers) `[c](d)`")
        == "[b](../benchmarks/README.md#peers) `[c](d)`"
    )
    assert build.page("CHANGELOG.md", "see [f](docs/formats.md)") == "see [f](formats.md)"
    with pytest.raises(build.SiteError, match="links to ../Makefile, which is not on the site"):
        build.page("docs/x.md", "[m](../Makefile)")
    assert build.page("docs/x.md", "```python\n>>> 1\n1\n```\n") == "```pycon\n>>> 1\n1\n```\n"
    assert build.page("docs/x.md", "one\n\n*In the repository, nothing.*\n\ntwo") == "one\n\ntwo"
    assert build.spaced("so:\n- a\n  b\n- c\n```\nx\n| y\n```") == "so:\n\n- a\n  b\n- c\n```\nx\n| y\n```"
