"""What charts share: titles, names, colours of one look, and the chart of nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.palette import Colour, Mode, Shape
from adjudge.report.theme import Chart, alt

WIDTH: Final = 600  # pixels of a chart without its axes
SQUARE: Final = 420  # the widest matrix
LINE: Final = 80  # characters of a title
# Vega's names of our shapes. A ring is a circle that is not filled.
SHAPES: Final[dict[Shape, str]] = {
    "circle": "circle",
    "ring": "circle",
    "square": "square",
    "triangle": "triangle-up",
    "diamond": "diamond",
}
MARKUP: Final = re.compile(r"<(?=/|!|script)", re.IGNORECASE)
JOINER: Final = "\u2060"  # an invisible character
PERCENT: Final = ".0%"  # as Vega formats a share


def inert(text: str) -> str:
    """Return a text in which HTML finds no end of a script: Altair writes charts into scripts of pages as they are.

    An invisible character is put behind a "<" that could begin one. Everything else stays.

    >>> len(inert("</script>")), inert("a < b")
    (10, 'a < b')
    """
    return MARKUP.sub("<" + JOINER, text)


def on(frame: pl.DataFrame) -> alt.Chart:
    """Return a chart of a frame, whose texts are `inert`: every chart begins here."""
    texts = [inert_column(frame[name]) for name, kind in frame.schema.items() if kind == pl.String]
    return alt.Chart(frame.with_columns(texts))


def inert_column(texts: pl.Series) -> pl.Series:
    """Return a column of `inert` texts."""
    return texts.str.replace_all(r"(?i)<(/|!|script)", f"<{JOINER}$1")


def titled(chart: Any, sentence: str, *notes: str) -> Any:
    """Return the chart under the sentence that says what it shows; notes stand below it, smaller.

    Names in sentences are data: a title is text, and Vega reads nothing into it.
    """
    sentence = inert(sentence)
    lines = textwrap.wrap(sentence, LINE)
    below = [line for note in notes if note for line in textwrap.wrap(inert(note), LINE + 25)]
    title = alt.Title(lines, subtitle=below) if below else alt.Title(lines)
    return chart.properties(title=title, description=sentence)


def nothing(sentence: str, hint: str = "") -> Chart:
    """Return a chart that only says why there is nothing to draw, and what to do."""
    empty = on(pl.DataFrame({"text": [hint or " "]})).mark_text(align="left", x=0).encode(text="text:N")
    drawn: Chart = titled(empty.properties(width=WIDTH, height=24), sentence)
    return drawn


def distinct(names: Iterable[str], width: int = words.MAX_NAME) -> list[str]:
    """Return names cut in the middle where they are long, all different: a chart keeps places by them.

    >>> distinct(["a", "b" * 9, "bbbb" + "c" + "bbbb"], 5)
    ['a', 'bb…bb', 'bb…bb (2)']
    """
    taken: dict[str, int] = {}
    out = []
    for name in names:
        short = inert(words.shortened(name, width))
        number = taken[short] = taken.get(short, 0) + 1
        out.append(short if number == 1 else f"{short} ({number})")
    return out


def hue(colour: Colour, mode: Mode) -> str:
    """Return a colour of one look."""
    return colour.dark if mode == "dark" else colour.light


def shade(colours: Sequence[Colour], mode: Mode, ends: tuple[float, float]) -> Any:
    """Return a scale of shades between the ends, mixed as `ink` mixes them."""
    domain = (ends[0], ends[1]) if len(colours) == 2 else (ends[0], (ends[0] + ends[1]) / 2, ends[1])
    return alt.Scale(domain=domain, range=[hue(colour, mode) for colour in colours], interpolate="rgb", clamp=True)


def ink(shares: pl.Series, colours: Sequence[Colour], mode: Mode) -> pl.Series:
    """Return whether dark text reads better than white on each shade, given how far it is from the first colour to the last."""
    stops = [hue(colour, mode) for colour in colours]
    out = []
    for share in shares.fill_null(0.0).clip(0.0, 1.0):
        below = min(int(share * (len(stops) - 1)), len(stops) - 2)
        cell = palette.mixed(stops[below], stops[below + 1], share * (len(stops) - 1) - below)
        out.append(palette.contrast(cell, "#000000") > palette.contrast(cell, "#ffffff"))
    return pl.Series("dark_ink", out, pl.Boolean)


INK: Final = alt.condition("datum.dark_ink", alt.value("#000000"), alt.value("#ffffff"))
