"""Pictures as charts of Altair, for people who want to change them, and how charts look. Only this module imports Altair.

Every chart begins with `_on`, whose texts are inert.
"""

from __future__ import annotations

import io
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import polars as pl

from adjudge.errors import AdjudgeError
from adjudge.io.write import write_aside
from adjudge.report import palette
from adjudge.report.palette import FONT, Mode, Shape
from adjudge.report.picture import MAX_NAMED, MIN_PRINTED, Axis, Channel, Field, Form, Marks, Picture, Plot, Rule, Shade, Style
from adjudge.results.plotting import Theme

try:
    import altair as alt
except ImportError as error:
    raise AdjudgeError("plots need altair: pip install 'adjudge[report]'") from error

__all__ = ["Chart", "alt", "apply_theme", "chart", "config", "inert", "save_svg"]  # `alt` is given on

Chart: TypeAlias = alt.typing.ChartType  # any chart of Altair
MODE_OF_THEME: Final[Mapping[str, Mode]] = {"light": "light", "dark": "dark", "none": "light"}  # whose colours the marks have
# As everywhere here: a thin space between thousands.
NUMBER_LOCALE: Final = {"decimal": ".", "thousands": "\u2009", "grouping": [3], "currency": ["", ""]}
COORDINATE_PATTERN: Final = re.compile(r'(?<= )(?:d|transform|x2|y2|x|y|width|height)="[^"]*"')
LONG_DECIMAL_PATTERN: Final = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
REFERRED: Final = re.compile(r'(?<= id=")(?:gradient_|clip)\d+(?=")|(?<=url\(#)(?:gradient_|clip)\d+(?=\))')
TITLE_CHARACTERS: Final = 80  # of a line
# Vega's names of our shapes, if they differ. A ring is a circle that is not filled.
SHAPES: Final[Mapping[Shape, str]] = {"ring": "circle", "triangle": "triangle-down"}
FORMATS: Final[Mapping[Form, str]] = {"count": ",d", "share": ".1%", "percent": ".3~p", "signed": "+.3~g", "number": ".3~g"}
ALIGN: Final = {"start": "left", "middle": "center", "end": "right"}
MARKUP: Final = re.compile(r"<(?=/|!|script)", re.IGNORECASE)
JOINER: Final = "\u2060"  # an invisible character


def config(mode: Mode) -> dict[str, Any]:
    """Return the settings of Vega-Lite that give every chart one look: quiet axes, titles on the left, room around it."""
    ink = palette.colours(mode)
    text, muted, accent = ink["text"], ink["muted"], ink["accent"]

    def letters(of: str, colour: str, size: int, **more: object) -> dict[str, Any]:
        return {f"{of}Color": colour, f"{of}FontSize": size, **{f"{of}{name}": value for name, value in more.items()}}

    return {
        "axis": {
            **letters("label", muted, 12, Padding=4),
            **letters("title", text, 13, Padding=10, FontWeight="normal"),
            **{"domainColor": muted, "tickColor": muted, "gridColor": ink["line"], "gridOpacity": 0.8, "gridWidth": 1},
        },
        "axisX": {"labelFlush": False},
        "axisY": {"domain": False, "ticks": False},
        "background": ink["page"],
        "concat": {"spacing": 28},
        "font": FONT,
        "header": {**letters("label", text, 13, FontWeight=600), "title": None},
        "legend": {
            **letters("label", text, 12, Limit=240),
            **letters("title", text, 12, FontWeight="normal"),
            **{"symbolOpacity": 1, "symbolSize": 80, "symbolStrokeWidth": 1.6},
        },
        "locale": {"number": NUMBER_LOCALE},
        "line": {"color": accent, "strokeWidth": 2},
        "bar": {"color": accent},
        "point": {"color": accent, "filled": True, "size": 60},
        "rect": {"color": accent},
        "rule": {"color": muted},
        "text": {"color": text, "fontSize": 12},
        "padding": 16,
        "title": {
            **{"anchor": "start", "frame": "group", "offset": 14, "lineHeight": 20},
            **{"color": text, "fontSize": 15, "fontWeight": 600},
            **letters("subtitle", muted, 12, LineHeight=16, Padding=6),
        },
        "view": {"continuousHeight": 340, "continuousWidth": 600, "stroke": None},
    }


def apply_theme(chart: Chart, theme: Theme = "light") -> Chart:
    """Return the chart in a look of ours: "light", "dark", or "none", which leaves it to Altair's own themes.

    Altair cannot concatenate charts that have a theme; charts without one can be combined.
    """
    if theme == "none":
        return chart
    looking = chart.copy(deep=False)
    looking.config = config(MODE_OF_THEME[theme])
    return looking


def save_svg(chart: Chart, path: Path) -> None:
    """Write the chart to `path` as SVG, by vl-convert: without a browser, and the same bytes for the same chart.

    Descriptions of single marks are left out: they are most of the file, and a picture comes with its text. Positions are
    rounded to a hundredth of a pixel, because the last digits depend on the machine, and ids are renumbered, because Vega
    keeps counting from picture to picture.
    """
    small = chart.copy(deep=False)
    small.config = {**(small.config if isinstance(small.config, dict) else {}), "aria": False}
    drawn = io.StringIO()
    small.save(drawn, format="svg")
    text = COORDINATE_PATTERN.sub(
        lambda places: LONG_DECIMAL_PATTERN.sub(lambda number: f"{float(number[0]):.2f}", places[0]), drawn.getvalue()
    )
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


def inert(text: str) -> str:
    """Return a text in which HTML finds no end of a script: Altair writes charts into scripts of pages as they are.

    An invisible character is put behind a "<" that could begin one. Everything else stays.

    >>> len(inert("</script>")), inert("a < b")
    (10, 'a < b')
    """
    return MARKUP.sub("<" + JOINER, text)


def _on(frame: pl.DataFrame) -> Any:
    """Return a chart of a frame, whose texts are `inert`."""
    texts = [
        frame[name].str.replace_all(r"(?i)<(/|!|script)", f"<{JOINER}$1")
        for name, kind in frame.schema.items()
        if kind == pl.String
    ]
    return alt.Chart(frame.with_columns(texts))


def chart(picture: Picture) -> Chart:
    """Return the chart of a picture, in its theme."""
    known = palette.colours(MODE_OF_THEME[picture.theme])
    empty = _on(pl.DataFrame({"text": [" "]})).mark_text().encode(text="text:N").properties(width=400, height=10)
    plots = [_PlotLayers(plot, known).draw() for plot in picture.plots] or [empty]
    drawn = plots[0] if len(plots) == 1 else alt.vconcat(*plots, spacing=24)
    sentence = inert(picture.sentence)
    lines = textwrap.wrap(sentence, TITLE_CHARACTERS)
    below = [line for note in picture.notes if note for line in textwrap.wrap(inert(note), TITLE_CHARACTERS + 25)]
    title = alt.Title(lines, subtitle=below) if below else alt.Title(lines)
    whole: Chart = drawn.properties(title=title, description=sentence)
    return apply_theme(whole, picture.theme)


class _PlotLayers:
    """One plot as layers of a chart."""

    def __init__(self, plot: Plot, known: dict[str, str]) -> None:
        self.plot, self.known = plot, known
        self.x, self.y = self._axis(plot.x, alt.X), self._axis(plot.y, alt.Y)
        self.cell = plot.size[0] / max(len(plot.x.names), 1)

    def draw(self) -> Any:
        """Return the layers of the plot in one chart."""
        plot = self.plot
        behind = [marks for marks in plot.marks if marks.kind in ("cells", "band")]
        layers = [layer for marks in behind for layer in self._draw_marks(marks)]
        layers += [layer for rule in plot.rules for layer in self._rule(rule)]
        layers += [layer for marks in plot.marks if marks not in behind for layer in self._draw_marks(marks)]
        layers += self._columns()
        layers += self._outlines()
        whole = alt.layer(*layers)
        width, height = plot.size
        whole = whole.properties(width=width, height=alt.Step(plot.step) if plot.y.names and not plot.is_matrix else height)
        if plot.heading:
            whole = whole.properties(title=alt.Title(inert(plot.heading), fontSize=13, offset=6))
        return whole

    def _axis(self, axis: Axis, kind: Any) -> dict[str, Any]:
        title = inert(axis.title) or None
        if axis.names:
            unnamed = self.plot.is_matrix and len(axis.names) > MAX_NAMED
            names = [inert(name) for name in axis.names]
            plain: dict[str, Any] = {"ticks": False, "domain": False} if self.plot.is_matrix else {}
            across = kind is alt.X
            is_wide = max(map(len, names)) * 7 > self.plot.size[0] / len(names)
            shown = alt.Axis(
                labels=not unnamed,
                labelLimit=170 if across else 260,
                labelColor=self.known["text"],
                grid=axis.grid and not self.plot.is_matrix,
                **plain,
                labelAngle=-40 if across and is_wide else 0,
            )
            return {"title": title, "sort": names, "scale": alt.Scale(domain=names), "axis": shown}
        options: dict[str, Any] = {"values": list(axis.marked), "grid": axis.grid}
        if axis.below:  # figures alone: no name is read as an expression
            second = json.dumps({f"{value:g}": text for value, text in axis.below.items()})
            options["labelExpr"] = f"[datum.label, {second}[format(datum.value, '~g')]]"
        if axis.form != "text":
            options["format"] = FORMATS[axis.form]
        scale: dict[str, Any] = {"domain": (axis.low, axis.high), "nice": False, "zero": False}
        if axis.scale != "linear":
            scale |= {"type": axis.scale} | ({"constant": 1} if axis.scale == "symlog" else {})
        return {"title": title, "axis": alt.Axis(**options) if axis.marked else None, "scale": alt.Scale(**scale)}

    def _channels(self, marks: Marks, *, ends: bool = False) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, start, end in (("x", marks.x, marks.x2), ("y", marks.y, marks.y2)):
            if isinstance(end, str) and not isinstance(start, str):  # Vega-Lite takes the type of both from the first
                start, end = end, start  # noqa: PLW2901
            options, axis = (self.x, self.plot.x) if name == "x" else (self.y, self.plot.y)
            out[name] = self._channel(name.upper(), start, options, axis)
            if ends and end is not None:
                second = f"{name.upper()}2"
                out[f"{name}2"] = getattr(alt, second)(end) if isinstance(end, str) else getattr(alt, f"{second}Datum")(end)
        return out

    @staticmethod
    def _channel(name: str, channel: Channel, options: dict[str, Any], axis: Axis) -> Any:
        if isinstance(channel, str):
            return getattr(alt, name)(f"{channel}:{'N' if axis.names else 'Q'}", **options)
        return getattr(alt, f"{name}Datum")(channel, **options)

    def _draw_marks(self, marks: Marks) -> list[Any]:
        if not len(marks.frame):
            return []
        base = _on(marks.frame)
        draw = {"dots": self._dots, "lines": self._lines, "bars": self._bars, "cells": self._cells}
        if marks.kind in draw:
            return draw[marks.kind](marks, base)
        if marks.kind == "curve":
            line = base.mark_line(strokeWidth=1.6, **self._plain(marks), **({"strokeDash": [5, 4]} if marks.dashed else {}))
            coloured = {} if marks.by is None else {"color": self._colour(alt.Color, marks.by, filled=False)}
            return [line.encode(**self._channels(marks), **coloured)]
        if marks.kind == "band":
            return [base.mark_area(**self._plain(marks)).encode(**self._channels(marks, ends=True))]
        align: Any = ALIGN[marks.align]
        text = base.mark_text(align=align, dx=marks.dx, fontSize=11, color=self.known[marks.style.colour])
        return [text.encode(**self._channels(marks), text=f"{marks.text}:N")]

    def _plain(self, marks: Marks) -> dict[str, Any]:
        colour = {} if marks.by is not None else {"color": self.known[marks.style.colour]}
        return colour | ({"opacity": marks.opacity} if isinstance(marks.opacity, float) else {})

    def _colour(self, channel: Any, by: str, *, filled: bool, symbol: str | None = None) -> Any:
        kinds = self.plot.styles
        colours = [self.known["page" if filled and style.shape == "ring" else style.colour] for style in kinds.values()]
        options: dict[str, Any] = {} if symbol is None else {"symbolType": symbol}
        shown: dict[str, Any] = {"orient": "top", "title": None, "symbolSize": 90, "labelLimit": 320, "columns": 3}
        legend = alt.Legend(**shown, **options) if self.plot.key else None
        return channel(f"{by}:N", legend=legend).scale(domain=[inert(kind) for kind in kinds], range=colours)

    def _dots(self, marks: Marks, base: Any) -> list[Any]:
        channels = self._channels(marks) | self._tooltip(marks)
        if marks.size is not None:
            most: Any = marks.frame[marks.size].max()
            size = alt.Size(f"{marks.size}:Q", legend=None).scale(domain=(0, most), range=(30, 320))
            return [base.mark_circle(opacity=1, color=self.known[marks.style.colour]).encode(**channels, size=size)]
        if marks.by is None:
            colour, shape = self.known[marks.style.colour], _shape(marks.style)
            fill = self.known["page"] if marks.style.shape == "ring" else colour
            return [base.mark_point(size=64, shape=shape, stroke=colour, fill=fill, opacity=1).encode(**channels)]
        kinds = self.plot.styles
        shape = self._colour(alt.Shape, marks.by, filled=False)
        shape = shape.scale(domain=[inert(kind) for kind in kinds], range=list(map(_shape, kinds.values())))
        signs = {
            "shape": shape,
            "stroke": self._colour(alt.Stroke, marks.by, filled=False),
            "fill": self._colour(alt.Fill, marks.by, filled=True),
        }
        area = 64 if len(marks.frame) <= 60 else 45 if len(marks.frame) <= 400 else 25
        return [base.mark_point(size=area, strokeWidth=1.5, opacity=1).encode(**channels, **signs)]

    def _lines(self, marks: Marks, base: Any) -> list[Any]:
        dash = {"strokeDash": [5, 4]} if marks.dashed else {}
        line = base.mark_rule(strokeWidth=1.25, **self._plain(marks), **dash)
        coloured = {} if marks.by is None else {"stroke": self._colour(alt.Stroke, marks.by, filled=False)}
        return [line.encode(**self._channels(marks, ends=True), **coloured)]

    def _bars(self, marks: Marks, base: Any) -> list[Any]:
        plain, rows = self._plain(marks), self.plot.y.names
        drawn = base.mark_bar(height=marks.thick, **plain) if rows else base.mark_rect(xOffset=1, x2Offset=-1, **plain)
        coloured = {} if marks.by is None else {"fill": self._colour(alt.Fill, marks.by, filled=False, symbol="square")}
        return [drawn.encode(**self._channels(marks, ends=True), **coloured, **self._tooltip(marks))]

    def _cells(self, marks: Marks, base: Any) -> list[Any]:
        assert marks.shade is not None
        gap = {"stroke": self.known["page"], "strokeWidth": 1} if self.plot.is_matrix and self.cell > 10 else {"strokeWidth": 0}
        channels = self._channels(marks, ends=True)
        faint = {"opacity": alt.Opacity(f"{marks.opacity}:Q", scale=None)} if isinstance(marks.opacity, str) else {}
        colour = self._shade(marks.shade)
        is_printed = marks.text is not None and self.cell >= MIN_PRINTED
        base = _on(self._ink(marks)) if is_printed else base
        out = [base.mark_rect(**gap).encode(**channels, **self._tooltip(marks), **faint, color=colour)]
        if is_printed:
            text = base.mark_text(fontSize=12 if self.cell >= 40 else 10)
            coloured = alt.condition("datum.dark_ink", alt.value("#000000"), alt.value("#ffffff"))
            out.append(text.encode(**channels, text=f"{marks.text}:N", color=coloured))
        return out

    def _stops(self, shade: Shade) -> list[str]:
        if shade.around:
            return [self.known[name] for name in (f"m{palette.LEVELS}", "p0", f"p{palette.LEVELS}")]
        return [self.known["h1"], self.known["h8"]] if shade.log else [self.known["h0"], self.known[f"h{palette.LEVELS}"]]

    def _shade(self, shade: Shade) -> Any:
        """Return the colour of cells, with a legend if its ends have words."""
        legend = None
        if shade.ends is not None:
            legend = alt.Legend(title=[inert(end) for end in shade.ends], format=",d" if shade.log else ".1f", titleLimit=220)
        domain = (-shade.high, 0.0, shade.high) if shade.around else (shade.low, shade.high)
        kind: dict[str, Any] = {"type": "log"} if shade.log else {}
        scale = alt.Scale(domain=domain, range=self._stops(shade), interpolate="rgb", clamp=True, **kind)
        return alt.Color(f"{shade.column}:Q", legend=legend, scale=scale)

    def _ink(self, marks: Marks) -> pl.DataFrame:
        """Return the frame with `dark_ink`: whether black reads better than white on each cell."""
        assert marks.shade is not None
        shade, stops, out = marks.shade, self._stops(marks.shade), []
        low = -shade.high if shade.around else shade.low
        for value in marks.frame[shade.column].fill_null(low):
            share = min(max((value - low) / (shade.high - low), 0.0), 1.0) * (len(stops) - 1)
            below = min(int(share), len(stops) - 2)
            ground = palette.mix(stops[below], stops[below + 1], share - below)
            out.append(palette.contrast(ground, "#000000") > palette.contrast(ground, "#ffffff"))
        return marks.frame.with_columns(dark_ink=pl.Series(out, dtype=pl.Boolean))

    def _rule(self, rule: Rule) -> list[Any]:
        frame = pl.DataFrame({"at": [float(rule.at)], "text": [rule.text]})
        across = rule.axis == "y"
        channel = {"y": alt.Y("at:Q", **self.y)} if across else {"x": alt.X("at:Q", **self.x)}
        line = _on(frame).mark_rule(strokeDash=[5, 4], color=self.known["muted"]).encode(**channel)
        if not rule.text:
            return [line]
        align: Any = ALIGN[rule.align]
        if across:
            place: dict[str, Any] = {"x": "width", "align": "right", "baseline": "bottom", "dy": -3}
        elif rule.inside:
            place = {"y": "height", "dy": -5, "dx": {"start": 5, "middle": 0, "end": -5}[rule.align], "align": align}
            place["baseline"] = "bottom"
        else:
            place = {"y": -5, "align": align, "baseline": "bottom"}
        text = _on(frame).mark_text(fontSize=11, color=self.known[rule.colour], **place).encode(**channel, text="text:N")
        return [line, text]

    def _columns(self) -> list[Any]:
        """Return the columns of text at the right of named rows, and their heads."""
        out, at = [], float(self.plot.size[0])
        muted, y = self.known["muted"], self.plot.y
        for head, texts in self.plot.columns:
            at += 16 + 6.4 * max(len(text) for text in (head, *texts))
            frame = pl.DataFrame({"row": list(y.names), "text": list(texts)}, schema={"row": pl.String, "text": pl.String})
            column = _on(frame).mark_text(align="right", x=at, fontSize=12, color=self.known["text"])
            out.append(column.encode(y=alt.Y("row:N", **self.y), text="text:N"))
            title = _on(pl.DataFrame({"text": [head]})).mark_text(align="right", x=at, y=-10, fontSize=12, color=muted)
            out.append(title.encode(text="text:N"))
        return out

    def _outlines(self) -> list[Any]:
        """Return the squares around the diagonal, placed in pixels."""
        out = []
        for outline in self.plot.outlines:
            for first, last in outline.spans:
                box = _on(pl.DataFrame({"first": [first], "last": [last]}))
                box = box.mark_rect(filled=False, stroke=self.known[outline.colour], strokeWidth=2)
                start, end = alt.value(first * self.cell), alt.value(last * self.cell)
                out.append(box.encode(x=start, x2=end, y=start, y2=end))
        return out

    @staticmethod
    def _tooltip(marks: Marks) -> dict[str, Any]:
        if not marks.hover:
            return {}
        return {"tooltip": [_tip(field, marks.frame.schema[field.column]) for field in marks.hover]}


def _shape(style: Style) -> str:
    return SHAPES.get(style.shape, style.shape)


def _tip(field: Field, kind: pl.DataType) -> Any:
    title = field.title or field.column
    if kind == pl.String:
        return alt.Tooltip(f"{field.column}:N", title=title)
    form: dict[str, Any] = {} if field.form == "text" else {"format": FORMATS[field.form]}
    return alt.Tooltip(f"{field.column}:Q", title=title, **form)
