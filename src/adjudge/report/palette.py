"""The colours of every picture, for light and dark pages, and the shapes that go with them.

Categories are those of Okabe and Ito, which people who see few colours tell apart. Three of the eight are too pale for white
paper and one too dark for a dark page, so each has a light and a dark form: text has a contrast of at least 4.5:1 to the page,
marks of 3:1. Colour is never the only sign: a verdict has a shape, too.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Mode = Literal["light", "dark"]
Shape = Literal["circle", "ring", "square", "triangle", "diamond"]


class Colour(NamedTuple):
    """One colour on a light and on a dark page."""

    light: str
    dark: str


class Sign(NamedTuple):
    """How something is marked."""

    colour: Colour
    shape: Shape


# Fonts of equal widths: a saved picture has its places from the machine that drew it, and its letters from the one that shows it.
FONT: Final = "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif"
LEVELS: Final = 10  # steps of a heat map beyond none
TINT: Final = 0.2  # of a category behind text
# Okabe and Ito, in an order in which neighbours differ most.
CATEGORIES: Final = (
    Colour("#0072b2", "#56b4e9"),  # blue
    Colour("#d55e00", "#f08a4b"),  # vermilion
    Colour("#00835f", "#2fbf93"),  # bluish green
    Colour("#a8729a", "#d796bb"),  # reddish purple
    Colour("#9a6a00", "#e6a117"),  # orange
    Colour("#3a8fc4", "#a3d5f5"),  # sky blue
    Colour("#7d7600", "#e6dc4f"),  # yellow
    Colour("#4a515c", "#c3c9d2"),  # black
)
VERDICTS: Final = {
    "informative": Sign(CATEGORIES[0], "circle"),
    "unclear": Sign(Colour("#7a828f", "#868f9d"), "ring"),
    "spammer": Sign(CATEGORIES[1], "square"),
    "adversary": Sign(CATEGORIES[3], "triangle"),
    "copy": Sign(CATEGORIES[4], "diamond"),
}
NAMED: Final = {
    "page": Colour("#ffffff", "#14171c"),
    "card": Colour("#f5f6f8", "#1d2127"),
    "line": Colour("#d5d9e0", "#3a4049"),  # hairlines: they carry nothing that is not said elsewhere
    "text": Colour("#1b1f26", "#e8eaee"),
    "muted": Colour("#565e6b", "#a5adba"),  # text of less weight, axes
    "grey": VERDICTS["unclear"].colour,  # marks of less weight
    "accent": CATEGORIES[0],
    "on-accent": Colour("#ffffff", "#14171c"),  # text on the accent
    "doubt": CATEGORIES[1],  # what is below the line of doubt
}
# Of sequential scales, from none to all: one hue, on light pages darker and on dark pages lighter.
SEQUENCE: Final = (Colour("#f2f6fa", "#1b222b"), Colour("#00598c", "#7cc4f0"))
# Of scales around a middle: below it, at it, above it.
AROUND: Final = (Colour("#c05300", "#f08a4b"), Colour("#f3f4f6", "#23282f"), Colour("#00598c", "#7cc4f0"))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG defines it.

    >>> round(contrast("#ffffff", "#000000"), 1)
    21.0
    """
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def mix(low: str, high: str, share: float) -> str:
    """Return the colour that lies so far from `low` to `high`.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    parts = (round(a + (b - a) * share) for a, b in zip(_parts(low), _parts(high), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in _parts(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def level(share: float) -> int:
    """Return the step of a heat map for a share from 0 to 1.

    >>> level(0.0), level(0.004), level(0.52), level(1.0)
    (0, 1, 5, 10)
    """
    return 0 if share <= 0.0 else min(max(round(share * LEVELS), 1), LEVELS)


def colours(mode: Mode) -> dict[str, str]:
    """Return every colour by name: the variables of a page's style sheet, by which pictures name their colours, too."""

    def of(colour: Colour) -> str:
        return colour.light if mode == "light" else colour.dark

    out = {name: of(colour) for name, colour in NAMED.items()}
    for number, colour in enumerate(CATEGORIES):
        out |= {f"c{number}": of(colour), f"t{number}": mix(of(NAMED["page"]), of(colour), TINT)}
    out |= {f"v-{verdict}": of(sign.colour) for verdict, sign in VERDICTS.items()}
    below, middle, above = AROUND
    for step in range(LEVELS + 1):
        for letter, low, high in (("h", *SEQUENCE), ("p", middle, above), ("m", middle, below)):
            ground = mix(of(low), of(high), step / LEVELS)
            ink = "#000000" if contrast("#000000", ground) >= contrast("#ffffff", ground) else "#ffffff"  # one always suffices
            out |= {f"{letter}{step}": ground, f"{letter}{step}i": ink}
    return out
