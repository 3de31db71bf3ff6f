"""A section of the page: the question, the answer in one sentence, the picture, and what is folded away below it."""

from __future__ import annotations

from adjudge.report.html import Content, Markup, folded, tag


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
        None if how is None else folded("How to read it", tag("p", how, class_="how")),
        None if data is None else folded("Data", data, class_="fold data"),
        id=identity,
        aria_labelledby=f"{identity}-title",
    )


def small(*content: Content) -> Markup:
    """Return a remark in small type."""
    return tag("p", *content, class_="small")


def code(text: str) -> Markup:
    """Return a command or an expression."""
    return tag("code", text)


def figures(lines: list[tuple[str, str, str]]) -> Markup:
    """Return figures as cards: what it is, the figure, and what stands behind it."""
    cards = [
        tag("div", tag("dt", what), tag("dd", figure, class_="big"), tag("dd", behind, class_="of") if behind else None)
        for what, figure, behind in lines
    ]
    return tag("dl", cards, class_="figures")
