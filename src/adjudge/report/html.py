"""Markup from Python: what is not markup already is text, and nothing in it is obeyed by a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any, Final

from adjudge.errors import make_visible

Content = object  # text, Markup, a number, None, or a list of these
# What ends a script, begins a comment or a tag, or ends a line of JavaScript: as JSON may spell it.
IN_SCRIPT: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Markup(str):
    """Text that is markup: it was made here, and goes into a page as it is.

    >>> str(tag("p", "1 < 2", Markup("<br>")))
    '<p>1 &lt; 2<br></p>'
    """

    __slots__ = ()


def text(value: object) -> Markup:
    r"""Return anything as text for a page: what cannot be seen is shown as an escape, what is markup as characters.

    >>> str(text("<img src=x>\x00"))
    '&lt;img src=x&gt;\\x00'
    """
    return Markup(escape(make_visible(str(value)), quote=True))


def join(parts: Iterable[Content]) -> Markup:
    """Return contents one after the other; None is nothing."""
    return Markup("".join(_content(part) for part in parts))


def tag(kind: str, *content: Content, **attributes: Any) -> Markup:
    """Return an element; `class_` is its class, an underscore in other names a hyphen, True an attribute without value.

    >>> str(tag("td", 3, class_="number", aria_label='say "x"', hidden=False))
    '<td class="number" aria-label="say &quot;x&quot;">3</td>'
    """
    named = "".join(_attribute(name, value) for name, value in attributes.items())
    if kind in VOID:
        return Markup(f"<{kind}{named}>")
    return Markup(f"<{kind}{named}>{join(content)}</{kind}>")


VOID: Final = frozenset({"meta", "link", "input", "br"})


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{text(value)}"'


def _content(part: Content) -> str:
    if part is None or part is False:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, list | tuple):
        return join(part)
    return text(part)


def data(identity: str, content: object) -> Markup:
    r"""Return JSON that the script of a page reads as text: it holds nothing that a browser takes for markup.

    >>> str(data("d", {"label": "</script>"}))
    '<script type="application/json" id="d">{"label":"\\u003c/script\\u003e"}</script>'
    """
    packed = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPT)
    packed = packed.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return Markup(f'<script type="application/json" id="{text(identity)}">{packed}</script>')


def table(heads: Iterable[Content], rows: Iterable[Iterable[Content]], *, numbers: int = 0) -> Markup:
    """Return a table whose last `numbers` columns are figures, and whose first cells name their rows.

    If all heads are empty there are none.
    """
    names = list(heads)
    first = len(names) - numbers

    def line(cells: Iterable[Content]) -> Markup:
        return tag(
            "tr",
            [
                tag("td" if at else "th", cell, class_="n" if at >= first else None, scope=None if at else "row")
                for at, cell in enumerate(cells)
            ],
        )

    head = tag("tr", [tag("th", what, scope="col", class_="n" if at >= first else None) for at, what in enumerate(names)])
    body = tag("tbody", [line(row) for row in rows])
    return tag("table", tag("thead", head) if any(names) else None, body)


def fold(summary: Content, *content: Content, class_: str = "fold") -> Markup:
    """Return a section that opens on click."""
    return tag("details", tag("summary", summary), *content, class_=class_)


def scroll(content: Content, label: str, *, class_: str = "scroll") -> Markup:
    """Return something wide or long that scrolls by itself, with the keyboard too."""
    return tag("div", content, class_=class_, tabindex="0", role="region", aria_label=label)


def section(
    identity: str, question: str, answer: str, *body: Content, how: Content = None, data: Content = None, lead: bool = False
) -> Markup:
    """Return a section.

    - `identity`: its anchor.
    - `question`, `answer`: the heading, and the sentence that says what the picture shows here.
    - `body`: the picture, and what else stands open.
    - `how`: how to read it, folded.
    - `data`: the figures behind the picture as a table, folded.
    - `lead`: whether the answer is the first of the page.
    """
    return tag(
        "section",
        tag("h2", question, id=f"{identity}-title"),
        tag("p", answer, class_="lead" if lead else "answer"),
        body,
        None if how is None else fold("How to read it", tag("p", how, class_="how")),
        None if data is None else fold("Data", data, class_="fold data"),
        id=identity,
        aria_labelledby=f"{identity}-title",
    )


def small(text: str) -> Markup:
    """Return a remark in small type; see `prose`."""
    return tag("p", prose(text), class_="small")


def prose(text: str) -> Markup:
    """Return a sentence of ours, in which a command or an expression stands between backticks.

    >>> prose("`result.labels` has all sets.")
    '<code>result.labels</code> has all sets.'
    """
    return join(tag("code", part) if at % 2 else part for at, part in enumerate(text.split("`")))


def figures(lines: list[tuple[str, str, str]]) -> Markup:
    """Return figures as cards: the name, the figure, and its basis."""
    cards = [
        tag("div", tag("dt", what), tag("dd", figure, class_="big"), tag("dd", behind, class_="of") if behind else None)
        for what, figure, behind in lines
    ]
    return tag("dl", cards, class_="figures")
