"""How charts look, light and dark. Only this module imports Altair; the others take `alt` from here."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from adjudge.data.options import Choice, Rules
from adjudge.errors import AdjudgeError
from adjudge.io.write import write_aside
from adjudge.report import palette
from adjudge.report.palette import Mode
from adjudge.results.plotting import Theme

try:
    import altair as alt
except ImportError as error:
    raise AdjudgeError("plots need altair: pip install 'adjudge[report]'") from error

__all__ = ["MODES", "RULES", "Chart", "Theme", "alt", "config", "save_svg", "themed"]  # `alt` is given on

RULES: Final[Rules] = {"theme": Choice(get_args(Theme))}
MODES: Final[Mapping[str, Mode]] = {"light": "light", "dark": "dark", "none": "light"}  # whose colours the marks have
# As everywhere here: a thin space between thousands.
NUMBERS: Final = {"decimal": ".", "thousands": "\u2009", "grouping": [3], "currency": ["", ""]}
PLACES: Final = re.compile(r'(?<= )(?:d|transform|x2|y2|x|y|width|height)="[^"]*"')
NUMBER: Final = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
REFERRED: Final = re.compile(r'(?<= id=")(?:gradient_|clip)\d+(?=")|(?<=url\(#)(?:gradient_|clip)\d+(?=\))')
# Fonts of equal widths: a saved picture has its places from the machine that drew it, and its letters from the one that shows it.
FONT: Final = "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif"
Chart: TypeAlias = alt.typing.ChartType  # any chart of Altair


def config(mode: Mode) -> dict[str, Any]:
    """Return the settings of Vega-Lite that give every chart one look: quiet axes, titles on the left, room around it."""
    page, text, muted, line, accent = (
        getattr(colour, mode) for colour in (palette.PAGE, palette.TEXT, palette.MUTED, palette.LINE, palette.ACCENT)
    )
    axis = {
        "domainColor": muted,
        "gridColor": line,
        "gridOpacity": 0.8,
        "gridWidth": 1,
        "labelColor": muted,
        "labelFontSize": 12,
        "labelPadding": 4,
        "tickColor": muted,
        "titleColor": text,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    }
    legend = {
        "labelColor": text,
        "labelFontSize": 12,
        "labelLimit": 240,
        "symbolOpacity": 1,
        "symbolSize": 80,
        "symbolStrokeWidth": 1.6,
        "titleColor": text,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    title = {
        "anchor": "start",
        "color": text,
        "fontSize": 15,
        "fontWeight": 600,
        "frame": "group",
        "lineHeight": 20,
        "offset": 14,
        "subtitleColor": muted,
        "subtitleFontSize": 12,
        "subtitleLineHeight": 16,
        "subtitlePadding": 6,
    }
    return {
        "axis": axis,
        "axisX": {"labelFlush": False},
        "axisY": {"domain": False, "ticks": False},
        "background": page,
        "concat": {"spacing": 28},
        "font": FONT,
        "header": {"labelColor": text, "labelFontSize": 13, "labelFontWeight": 600, "title": None},
        "legend": legend,
        "locale": {"number": NUMBERS},
        "line": {"color": accent, "strokeWidth": 2},
        "bar": {"color": accent},
        "point": {"color": accent, "filled": True, "size": 60},
        "rect": {"color": accent},
        "rule": {"color": muted},
        "text": {"color": text, "fontSize": 12},
        "padding": 16,
        "title": title,
        "view": {"continuousHeight": 340, "continuousWidth": 600, "stroke": None},
    }


def themed(chart: Chart, theme: Theme = "light") -> Chart:
    """Return the chart in a look of ours: "light", "dark", or "none", which leaves it to Altair's own themes.

    A chart that has a look cannot be put beside another one in Altair; one without can.
    """
    if theme == "none":
        return chart
    looking = chart.copy(deep=False)
    looking.config = config(MODES[theme])
    return looking


def save_svg(chart: Chart, path: Path) -> None:
    """Write the chart to `path` as SVG, by vl-convert: without a browser, and the same bytes for the same chart.

    Descriptions of single marks are left out: they are most of the file, and a picture has its text beside it. Places are
    rounded to a hundredth of a pixel, since the last digits depend on the machine, and what is referred to is numbered anew,
    since Vega counts on from picture to picture.
    """
    small = chart.copy(deep=False)
    small.config = {**(small.config if isinstance(small.config, dict) else {}), "aria": False}
    drawn = io.StringIO()
    small.save(drawn, format="svg")
    text = PLACES.sub(lambda places: NUMBER.sub(lambda number: f"{float(number[0]):.2f}", places[0]), drawn.getvalue())
    numbers: dict[str, str] = {}
    text = REFERRED.sub(lambda one: numbers.setdefault(one[0], f"part{len(numbers)}"), text)
    write_aside(path, lambda aside: aside.write_text(text + "\n", encoding="utf-8"))


def _register() -> None:
    """Let Altair know both looks by name: `alt.theme.enable("adjudge")` gives them to the charts of others, too."""
    names: Mapping[str, Mode] = {"adjudge": "light", "adjudge-dark": "dark"}
    for name, mode in names.items():
        look: Any = {"config": config(mode)}
        alt.theme.register(name, enable=False)(lambda look=look: look)


_register()
