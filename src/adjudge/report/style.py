"""The style of the page: colours from the palette as variables of CSS, light and dark, and the rules of page.css."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from adjudge.report import palette
from adjudge.report.palette import Colour, Mode, contrast, mixed

MODES: Final[tuple[Mode, ...]] = ("light", "dark")
LEVELS: Final = 10  # steps of a heat map beyond none
TINT: Final = 0.2  # of a category behind text
NAMED: Final = {
    "page": palette.PAGE,
    "card": palette.CARD,
    "line": palette.LINE,
    "text": palette.TEXT,
    "muted": palette.MUTED,
    "grey": palette.GREY,
    "accent": palette.ACCENT,
    "on-accent": palette.ON_ACCENT,
    "doubt": palette.DOUBT,
}


def style() -> str:
    """Return the whole style sheet."""
    light, dark = ("".join(f"{name}:{value};" for name, value in variables(mode)) for mode in MODES)
    # Print is for paper: always the light colours.
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"{''.join(_rules())}\n{packaged('page.css')}"
    )


def packaged(name: str) -> str:
    """Return a file of this package as text."""
    return files("adjudge.report").joinpath(name).read_text(encoding="utf-8")


def level(share: float) -> int:
    """Return the step of a heat map for a share from 0 to 1.

    >>> level(0.0), level(0.004), level(0.52), level(1.0)
    (0, 1, 5, 10)
    """
    return 0 if share <= 0.0 else min(max(round(share * LEVELS), 1), LEVELS)


def variables(mode: Mode) -> Iterator[tuple[str, str]]:
    """Yield name and colour of every variable."""

    def of(colour: Colour) -> str:
        return colour.light if mode == "light" else colour.dark

    for name, colour in NAMED.items():
        yield f"--{name}", of(colour)
    for number, colour in enumerate(palette.CATEGORIES):
        yield f"--c{number}", of(colour)
        yield f"--t{number}", mixed(of(palette.PAGE), of(colour), TINT)
    for verdict, sign in palette.VERDICTS.items():
        yield f"--v-{verdict}", of(sign.colour)
    low, high = palette.SEQUENCE
    below, middle, above = palette.AROUND
    for step in range(LEVELS + 1):
        share = step / LEVELS
        yield from _heat(f"h{step}", mixed(of(low), of(high), share))
        yield from _heat(f"p{step}", mixed(of(middle), of(above), share))
        yield from _heat(f"m{step}", mixed(of(middle), of(below), share))


def _heat(name: str, ground: str) -> Iterator[tuple[str, str]]:
    """Yield the ground of a cell, and the ink that is read best on it: black or white, as one of them always suffices."""
    yield f"--{name}", ground
    yield f"--{name}i", max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, ground))


def _rules() -> Iterator[str]:
    """Yield the rules that follow from the palette: cells of heat maps, verdicts, categories."""
    for step in range(LEVELS + 1):
        for kind in "hpm":
            yield f".{kind}{step}{{background:var(--{kind}{step});fill:var(--{kind}{step});color:var(--{kind}{step}i)}}"
    for verdict in palette.VERDICTS:
        yield f".v-{verdict}{{color:var(--v-{verdict})}}"
    for number in range(len(palette.CATEGORIES)):
        yield f".c{number}{{background:var(--t{number});border-color:var(--c{number})}}"
