"""Builds the site of the documentation from docs/, the program and its docstrings: `python docs/site/build.py [FOLDER]`.

The pages are gathered in FOLDER/pages (build/site/pages, unless said otherwise): those of docs/, some files that stand
elsewhere in the repository, and the references of the command line and of the HTTP interface, which are written anew each time.
Then the site is built from them into FOLDER/html, with a Markdown twin of each page and an `llms.txt` that lists them. A link
that leads nowhere, or a page that the navigation does not have, is an error.
"""

from __future__ import annotations

import fnmatch
import importlib
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BENCHMARKS = ROOT / "benchmarks"
MEASURED = (*(BENCHMARKS / "notes").glob("*.md"), *(path for path in (BENCHMARKS / "measured").rglob("*.*") if path.is_file()))
ELSEWHERE = (  # pages outside docs/, and the pictures and tables that they show
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/RESULTS.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in MEASURED),
)
WRITTEN = {"<!-- commands -->\n": "commands", "<!-- routes -->\n": "interface"}  # where, and by which module beside this one
ASIDE = re.compile(r"^\*In the repository.*?\*\n\n?", re.MULTILINE | re.DOTALL)  # of no concern on the site
PROMPT = re.compile(r"^```python(?=\n>>> )", re.MULTILINE)
LINK = re.compile(r"(```.*?^```|`[^`\n]+`)|(?<=\]\()(?!https?:|#)([^)#\s]+)", re.MULTILINE | re.DOTALL)  # code, or a link
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # it colours what it says, asked or not
BEGINS = re.compile(r"- |\d+\. |\|")  # a line of a list or a table
CONTINUES = re.compile(r"- |\d+\. |\||  ")  # a line that may stand before it within the same


class SiteError(Exception):
    """What keeps the site from being built."""


def main(folder: Path) -> int:
    """Gather the pages in a folder, build the site there, and return the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        pages = gather(folder / "pages")
        config = yaml.safe_load((HERE / "mkdocs.yml").read_text())
        config["nav"] = navigation(config["nav"], pages)
    except SiteError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    next(plugin for plugin in config["plugins"] if "mkdocstrings" in plugin)["mkdocstrings"]["handlers"]["python"]["paths"] = [
        str(ROOT / "src")
    ]
    shutil.copy(HERE / "docstrings.py", folder)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        sys.stderr.write(COLOUR.sub("", built.stdout + built.stderr))
    else:
        importlib.import_module("llms").write(folder / "pages", folder / "html", config)
        sys.stdout.write(f"{len(pages)} pages are in {folder / 'html'}: open index.html\n")
    return built.returncode


def gather(pages: Path) -> list[str]:
    """Write all pages and what they show into a folder, and return their names in it."""
    shutil.copytree(HERE / "assets", pages / "assets")
    names = []
    for source in sorted([*(ROOT / "docs").rglob("*"), *(ROOT / name for name in ELSEWHERE)]):
        if source.is_dir() or HERE in source.parents or any(part.startswith(".") for part in source.relative_to(ROOT).parts):
            continue
        name = name_of(source.relative_to(ROOT).as_posix())
        target = pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copy(source, target)
        elif (text := source.read_text()).startswith("# "):  # others are tables, for programs
            target.write_text(page(source.relative_to(ROOT).as_posix(), text))
            names.append(name)
    return names


def name_of(path: str) -> str:
    """Return the name on the site of a file of the repository: docs/ is its root, the others keep their place.

    >>> name_of("docs/models/glad.md"), name_of("CHANGELOG.md")
    ('models/glad.md', 'CHANGELOG.md')
    """
    return path.removeprefix("docs/")


def page(path: str, text: str) -> str:
    """Return a page as the site has it: links lead to pages of the site, references are written out, sessions are coloured."""

    def moved(found: re.Match[str]) -> str:
        code, target = found.groups()
        if code is not None:
            return str(code)
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if not wanted.startswith("docs/") and wanted not in ELSEWHERE:
            raise SiteError(f"{path} links to {target}, which is not on the site")
        return posixpath.relpath(name_of(wanted), posixpath.dirname(name_of(path)) or ".")

    for mark, module in WRITTEN.items():
        if mark in text:  # loads the program, which other pages do not need
            text = text.replace(mark, importlib.import_module(module).reference())
    text = PROMPT.sub("```pycon", ASIDE.sub("", LINK.sub(moved, text)))  # a session: its output is no code
    return spaced(text)


def spaced(text: str) -> str:
    r"""Return Markdown with an empty line before every list and table: the site needs it where the repository's view does not.

    >>> spaced("Either:\n- one\n- or two\n")
    'Either:\n\n- one\n- or two\n'
    """
    out: list[str] = []
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        before = out[-1] if out else ""
        if not in_code and BEGINS.match(line) and before.strip() and not CONTINUES.match(before):
            out.append("")
        out.append(line)
    return "\n".join(out)


def navigation(entries: list[Any], pages: Iterable[str]) -> list[Any]:
    """Return the navigation with its patterns written out; every page must be in it, once."""
    there = set(pages)
    found = _written_out(entries, there)
    listed = list(_pages_of(found))
    if missing := there.difference(listed):
        raise SiteError(f"not in the navigation of docs/site/mkdocs.yml: {', '.join(sorted(missing))}")
    if wrong := {name for name in listed if name not in there or listed.count(name) > 1}:
        raise SiteError(f"in the navigation of docs/site/mkdocs.yml, but not there, or twice: {', '.join(sorted(wrong))}")
    return found


def _written_out(entries: list[Any], there: set[str]) -> list[Any]:
    out: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            out += sorted(fnmatch.filter(there, entry)) or [entry]
            continue
        ((title, below),) = entry.items()
        if isinstance(below, list):
            if kept := _written_out(below, there):
                out.append({title: kept})
        else:
            out.append({title: below})
    return out


def _pages_of(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries if isinstance(entries, list) else entries.values():
            yield from _pages_of(entry)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
