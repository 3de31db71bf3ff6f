"""Writes the site for language models: a Markdown twin of every page next to its HTML, and `llms.txt`, which lists them.

`llms.txt` follows the convention of llmstxt.org: a heading, a summary in a block quote, and sections of links, each with a
description. The description of a page is its first sentence.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe
from docstrings import Shown, as_markdown

SECONDARY = "Project"  # the section for contributors, which readers may skip: the convention calls such a section Optional
OBJECT = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)  # a directive of mkdocstrings with its options
INHERITED = re.compile(r"inherited_members: \[(.*)\]")
PAGE_LINK = re.compile(r"(```.*?^```|`[^`\n]+`)|(?<=\]\()(?!https?:|#)([^)#\s]*)README\.md(?=[)#])", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NO_PROSE = re.compile(r"#|\||- |\d+\. |>|<|:::|!\[| {4}")  # how lines of headings, tables, lists, quotations, HTML and code begin
LEAD = re.compile(r"\*\*[^*]+[.:]\*\*\s*")  # "**Decided.** " before the sentence
LINKED = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
SENTENCE = re.compile(r".*?(?<!\bal)(?<!\b[A-Z])[.!?](?=\s+[A-Z*`\[(\"]|$)")  # neither initials nor "et al." end one


def write(pages: Path, html: Path, config: dict[str, Any]) -> None:
    """Write the twins and `llms.txt` into the folder of the site.

    Parameters
    ----------
    pages
        The folder of gathered pages.
    html
        The folder of the site.
    config
        Its configuration: name, description and navigation.

    """
    package = None
    for source in sorted(pages.rglob("*.md")):
        text = source.read_text()
        if OBJECT.search(text) and package is None:
            extensions = griffe.load_extensions(Shown())
            package = griffe.load("adjudge", search_paths=[Path(__file__).parents[2] / "src"], extensions=extensions)
        twin = html / twin_of(source.relative_to(pages).as_posix())
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_text(with_twin_links(OBJECT.sub(lambda found, package=package: documented(package, *found.groups()), text)))
    (html / "llms.txt").write_text(contents(pages, config))


def twin_of(page: str) -> str:
    """Return the path of a page's twin: that of its HTML, but for the suffix.

    >>> twin_of("models/glad.md"), twin_of("race/README.md")
    ('models/glad.md', 'race/index.md')
    """
    folder, name = posixpath.split(page)
    return posixpath.join(folder, "index.md" if name == "README.md" else name)


def with_twin_links(text: str) -> str:
    """Return Markdown whose links lead to twins.

    >>> with_twin_links("[a](race/README.md#how), `[b](README.md)`")
    '[a](race/index.md#how), `[b](README.md)`'
    """
    return PAGE_LINK.sub(lambda found: found[1] or f"{found[2]}index.md", text)


def contents(pages: Path, config: dict[str, Any]) -> str:
    """Return the text of `llms.txt`."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for section in config["nav"]:
        ((title, entries),) = section.items()
        lines += [f"## {'Optional' if title == SECONDARY else title}", ""]
        for name, page in listed(entries):
            text = (pages / page).read_text()
            heading = text.partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{name or heading}]({twin_of(page)}): {first_sentence(text)}")
        lines.append("")
    return "\n".join(lines)


def listed(entries: Iterable[Any]) -> Iterator[tuple[str | None, str]]:
    """Yield title and path of every page of a section; the title is None if the navigation gives none.

    >>> list(listed(["a.md", {"B": "b.md"}, {"C": [{"D": "d.md"}]}]))
    [(None, 'a.md'), ('B', 'b.md'), ('D', 'd.md')]
    """
    for entry in entries:
        if isinstance(entry, str):
            yield None, entry
            continue
        ((title, below),) = entry.items()
        if isinstance(below, str):
            yield title, below
        else:
            yield from listed(below)


def first_sentence(text: str) -> str:
    r"""Return the first sentence of a page's prose, without links; its heading if the page has no prose.

    >>> first_sentence("# T\n\n| a |\n|---|\n\n**Why.** It is *[fast](f.md)*\nand small. Really.\n")
    'It is *fast* and small.'
    """
    heading, _, body = text.partition("\n")
    for paragraph in FENCE.sub("", COMMENT.sub("", body)).split("\n\n"):
        lines = paragraph.strip("\n")
        if not lines or NO_PROSE.match(lines):
            continue
        if plain := " ".join(LINKED.sub(r"\1", LEAD.sub("", lines, count=1)).split()):
            found = SENTENCE.match(plain)
            return found[0] if found else plain.removesuffix(":") + "."
    return heading.removeprefix("# ")


def documented(package: Any, path: str, options: str = "") -> str:
    """Return the documentation of a public object as Markdown: signature, docstring, and those of its members.

    Parameters
    ----------
    package
        The package as griffe has read it.
    path
        The dotted name, such as `adjudge.Result`.
    options
        The lines below the directive; of these, `inherited_members` is followed.

    """
    target = _resolved(package[path.removeprefix(f"{package.name}.")])
    blocks = [f"## {path}", *_body(target, path.rpartition(".")[2])]
    if target.is_class:
        inherited = INHERITED.search(options)
        members = [target.all_members[name.strip()] for name in inherited[1].split(",")] if inherited else []
        members += [member for name, member in target.members.items() if not name.startswith("_") and not member.is_alias]
        for member in map(_resolved, members):
            if member.docstring is not None:
                blocks += [f"### {target.name}.{member.name}", *_body(member, member.name)]
    return "\n\n".join(blocks) + "\n"


def _resolved(found: Any) -> Any:
    return found.final_target if found.is_alias else found


def _body(found: Any, name: str) -> list[str]:
    """Return the signature of an object, if it has one, and its docstring."""
    blocks = []
    if found.is_function or (found.is_class and len(found.parameters) > 1):
        parameters = [_shown(one) for one in found.parameters if one.name not in ("self", "cls")]
        returns = f" -> {found.returns}" if found.is_function and found.returns is not None else ""
        blocks.append(f"```python\n{name}({', '.join(_marked(parameters))}){returns}\n```")
    if found.docstring is not None:
        blocks.append(as_markdown(found.docstring.value))
    return blocks


def _shown(parameter: Any) -> tuple[str, Any]:
    annotation = f": {parameter.annotation}" if parameter.annotation is not None else ""
    star = {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "")
    default = f" = {parameter.default}" if parameter.default is not None and not star else ""
    return f"{star}{parameter.name}{annotation}{default}", parameter.kind.value


def _marked(parameters: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield the parameters with a `*` before the first one that is keyword-only."""
    starred = False
    for text, kind in parameters:
        if kind == "keyword-only" and not starred:
            yield "*"
        starred = starred or kind in ("keyword-only", "variadic positional")
        yield text
