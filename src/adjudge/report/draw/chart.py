"""A chart that is as wide as its page: marks stand at percentages, and text keeps its size.

A drawing that is scaled as a whole has text of four pixels on a phone. Here only positions scale. Axes are drawings of their
own beside the marks, so that no script need measure anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from adjudge.report.html import Content, Markup, join, tag
from adjudge.report.palette import Shape

MARGIN: Final = 2.0  # percent of the width and of the height that marks stay away from the edges
AXIS: Final = 42  # pixels for the figures beside the vertical axis
Ticks = Sequence[tuple[float, str]]  # position from 0 to 1, and what stands there
# Marks of about the same area around the origin.
PATHS: Final[dict[Shape, str]] = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "ring": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-4.5-4.5h9v9h-9z",
    "triangle": "M0 5.5L-5.5-4.5h11z",
    "diamond": "M0-6L6 0L0 6L-6 0z",
}


def across(share: float) -> str:
    """Return where a share of the width is, or of the height from the top.

    >>> across(0.0), across(0.5), across(1.0)
    ('2%', '50%', '98%')
    """
    return f"{MARGIN + (100.0 - 2.0 * MARGIN) * min(max(share, 0.0), 1.0):.2f}".rstrip("0").rstrip(".") + "%"


def up(share: float) -> str:
    """Return where a share of the height is, from the bottom.

    >>> up(0.0), up(1.0)
    ('98%', '2%')
    """
    return across(1.0 - min(max(share, 0.0), 1.0))


def chart(
    marks: Sequence[Content],
    *,
    label: str,
    x_ticks: Ticks,
    y_ticks: Ticks = (),
    x_title: str = "",
    y_title: str = "",
    height: int = 320,
    kind: str = "",
    identity: str | None = None,
) -> Markup:
    """Return a chart.

    - `marks`: elements of SVG, whose positions are those of `across` and `up`.
    - `label`: what the picture shows, for those who do not see it.
    - `x_ticks`, `y_ticks`, `x_title`, `y_title`: the axes.
    - `height`: in pixels.
    - `kind`: a class of the whole; `identity`: an id of the marks, for the script.
    """
    lines = [tag("line", x1="0", x2="100%", y1=up(at), y2=up(at), class_="grid") for at, _ in y_ticks]
    lines += [tag("line", y1="0", y2="100%", x1=across(at), x2=across(at), class_="grid") for at, _ in x_ticks] if y_ticks else []
    beside = [tag("text", what, x=AXIS - 7, y=up(at), dy="4", text_anchor="end") for at, what in y_ticks]
    below = [tag("text", what, x=across(at), y="14", text_anchor="middle") for at, what in x_ticks]
    return tag(
        "div",
        tag("div", y_title, class_="yt") if y_title else None,
        tag("svg", beside, width=AXIS if y_ticks else 0, height=height, aria_hidden="true"),
        tag("svg", lines, list(marks), role="img", aria_label=label, width="100%", height=height, class_="plot", id=identity),
        [tag("span"), tag("svg", below, width="100%", height="20", aria_hidden="true")] if x_ticks else None,
        tag("span"),
        tag("div", x_title, class_="xt") if x_title else None,
        class_=f"chart {kind}".strip(),
    )


def shapes() -> Markup:
    """Return the marks that charts refer to: once per page."""
    found = [
        tag("path", d=path, id=f"m-{shape}", class_="hollow" if shape == "ring" else "mark") for shape, path in PATHS.items()
    ]
    return tag("svg", tag("defs", found), width="0", height="0", aria_hidden="true", focusable="false")


def symbol(shape: Shape, kind: str) -> Markup:
    """Return a mark by itself, for keys and tables."""
    path = tag("path", d=PATHS[shape], class_="hollow" if shape == "ring" else "mark")
    return tag("svg", path, viewBox="-7 -7 14 14", width="14", height="14", class_=kind, aria_hidden="true")


def rule_across(at: float, what: str, *, above: bool = True) -> Markup:
    """Return a horizontal rule at a share of the height, with a word at its right end."""
    return join(
        [
            tag("line", x1="0", x2="100%", y1=up(at), y2=up(at), class_="rule"),
            tag("text", what, x="99%", y=up(at), dy="-6" if above else "16", text_anchor="end", class_="strong"),
        ]
    )


def percent_ticks(low: float = 0.0, high: float = 1.0, number: int = 5) -> list[tuple[float, str]]:
    """Return ticks in percent over a range of shares.

    >>> percent_ticks(0.5, 1.0)
    [(0.0, '50%'), (0.2, '60%'), (0.4, '70%'), (0.6, '80%'), (0.8, '90%'), (1.0, '100%')]
    """
    step = next((s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25) if (high - low) / s <= number), 0.25)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    size = max(high - low, 1e-9)
    return [(round((n * step - low) / size, 6), f"{100 * n * step:.0f}%") for n in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks of a logarithmic axis: powers of ten, with halves between them where these are few.

    >>> [what for _, what in log_ticks(1, 400)]
    ['1', '10', '100']
    >>> [what for _, what in log_ticks(30, 90)]
    ['30', '50', '90']
    """
    tens = [10**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    some = tens if len(tens) > 2 else [m * 10**e for e in range(-1, 13) for m in (1, 2, 5) if low <= m * 10**e <= high]
    if len(some) < 3:
        some = sorted({round(low), *some, round(high)})
    return [(log_place(value, low, high), short(value)) for value in some]


def log_place(value: float, low: float, high: float) -> float:
    """Return where a value is on a logarithmic axis, from 0 to 1."""
    return math.log(max(value, low) / low) / max(math.log(high / low), 1e-9)


def linear_ticks(high: float) -> list[tuple[float, str]]:
    """Return a few whole ticks from 0.

    >>> linear_ticks(7)
    [(0.0, '0'), (0.2857142857142857, '2'), (0.5714285714285714, '4'), (0.8571428571428571, '6')]
    """
    step = next((m * 10**e for e in range(13) for m in (1, 2, 5) if high / (m * 10**e) <= 4), 1)
    return [(n * step / max(high, 1e-9), short(n * step)) for n in range(int(high / step) + 1)]


def short(value: float) -> str:
    """Return a number for an axis.

    >>> short(500), short(20_000), short(3_000_000)
    ('500', '20k', '3M')
    """
    for unit, mark in ((1_000_000, "M"), (1_000, "k")):
        if value >= 10 * unit or (value >= unit and value % unit == 0):
            return f"{value / unit:g}{mark}"
    return f"{value:g}"
