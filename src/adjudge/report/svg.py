"""Pictures as SVG: inline in a page that is as wide as its screen, or as a document of its own.

Marks are placed at percentages of the plot and text keeps its size: a drawing scaled as a whole has text of four pixels on a
phone. A page adds axes around the plot and lets it grow; a document nests the same plot at a fixed size. In a page colours are
CSS variables, which follow light and dark; in a document they are those of its theme.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from adjudge.report import words
from adjudge.report.html import Content, Markup, join, scroll, table, tag
from adjudge.report.palette import FONT, LEVELS, Mode, Shape, colours, level
from adjudge.report.picture import MAX_NAMED, MIN_PRINTED, Axis, Channel, Marks, Picture, Plot, Rule, Shade, Style, write

MARGIN: Final = 2.0  # percent of the plot between its edges and the ends of a scale
AXIS_WIDTH: Final = 42  # pixels for the figures of a vertical scale
CHAR: Final = 6.4  # pixels of a character of 12 pixels, on average
NARROW, BROAD = "iljtfrI.,:;|!' ()[]", "mwMW@%—…→<>=+#&"
PAGE_FONT: Final = 1.15  # times as wide as Arial that the widest system font of a page is
GAP: Final = 0.1  # share of a bar's width that stays free
MAX_HOVERED: Final = 400  # cells up to which each is an element with its own text
MAX_LARGE: Final = 120  # dots up to which they have their full size
MAX_PAGE_NAME: Final = 18  # characters of the name of a row in a page
MAX_ROWS: Final = 400  # of a table
MAX_TEXT: Final = 200  # characters of a name in a table
PADDING: Final = 16  # pixels around a document
TITLE_CHAR: Final = 7.8  # pixels of a character of the title
DASHES: Final = "5 4"
MIN_BAR: Final = 0.4  # percent: what is shorter could not be seen
WHOLE: Final = {"width": "100%", "height": "100%", "preserveAspectRatio": "none"}
Paint: TypeAlias = Callable[[str], str]
Place: TypeAlias = tuple[float, float]
# Marks of about the same area around the origin.
PATHS: Final[dict[Shape, str]] = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "ring": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-4.5-4.5h9v9h-9z",
    "triangle": "M0 5.5L-5.5-4.5h11z",
    "diamond": "M0-6L6 0L0 6L-6 0z",
}


def in_page(name: str) -> str:
    """Return a colour as a variable of the page's style."""
    return f"var(--{name})"


def shapes(paint: Paint = in_page, prefix: str = "m") -> Markup:
    """Return the shapes that marks refer to: once per page or document."""
    large = [_shape(shape, paint, f"{prefix}-{shape}") for shape in PATHS]
    small = [tag("g", _shape(shape, paint), id=f"{prefix}-{shape}-small", transform="scale(.65)") for shape in PATHS]
    return tag("defs", large, small)


def _shape(shape: Shape, paint: Paint, identity: str | None = None) -> Markup:
    if shape == "ring":
        return tag("path", d=PATHS[shape], id=identity, fill=paint("page"), stroke="currentColor", stroke_width="1.75")
    return tag("path", d=PATHS[shape], id=identity, fill="currentColor", stroke=paint("page"), stroke_width="1")


def symbol(style: Style, paint: Paint = in_page) -> Markup:
    """Return a mark by itself, for keys and tables."""
    box = {"viewBox": "-7 -7 14 14", "width": "14", "height": "14", "aria_hidden": "true"}
    return tag("svg", _shape(style.shape, paint), color=paint(style.colour), **box)


def bar(share: float, colour: str = "accent", width: int = 56) -> Markup:
    """Return a small bar of a share, for tables."""
    filled = tag("rect", width=f"{max(min(share, 1.0), 0.0) * width:.1f}", height="9", fill=in_page(colour))
    ground = tag("rect", width=width, height="9", fill=in_page("h1"))
    return tag("svg", ground, filled, width=width, height="9", aria_hidden="true")


# --- the plot: the same in a page and in a document


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def _percent(value: float) -> str:
    return f"{_number(value)}%"


def _x(axis: Axis, value: Any) -> float:
    """Return where a value is, in percent of the plot's width."""
    return 100.0 * axis.place(value) if axis.names else MARGIN + (100.0 - 2.0 * MARGIN) * axis.place(value)


def _y(axis: Axis, value: Any) -> float:
    """Return where a value is, in percent of the plot's height from the top: names run downwards, scales upwards."""
    return 100.0 * axis.place(value) if axis.names else 100.0 - _x(axis, value)


def _line(start: Place, end: Place, *content: Content, **attributes: Any) -> Markup:
    """Return a line between two places, which are in percent."""
    (x1, y1), (x2, y2) = (tuple(map(_percent, place)) for place in (start, end))
    return tag("line", *content, x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def _rect(corner: Place, size: Place, *content: Content, **attributes: Any) -> Markup:
    """Return a rectangle; its corner and its size are in percent."""
    (x, y), (width, height) = (tuple(map(_percent, place)) for place in (corner, size))
    return tag("rect", *content, x=x, y=y, width=width, height=height, **attributes)


class _Drawing:
    """The inside of one plot."""

    def __init__(self, plot: Plot, paint: Paint, prefix: str, *, is_fixed: bool) -> None:
        self.plot, self.paint, self.prefix, self.is_fixed = plot, paint, prefix, is_fixed
        self.cell = plot.size[0] / max(len(plot.x.names), 1)

    def draw(self) -> Markup:
        """Return everything between the axes."""
        behind = [marks for marks in self.plot.marks if marks.kind in ("cells", "band")]
        shown = [marks for marks in self.plot.marks if marks not in behind and (self.is_fixed or not marks.fixed)]
        drawn = [[self._draw_marks(marks) for marks in some] for some in (behind, shown)]
        outlines = [self._outline(*span, outline.colour) for outline in self.plot.outlines for span in outline.spans]
        return join([list(self._grid()), drawn[0], [self._rule(rule) for rule in self.plot.rules], drawn[1], outlines])

    def _grid(self) -> Iterator[Markup]:
        plot, colour = self.plot, self.paint("line")
        if plot.is_matrix:
            return
        for value in plot.y.names or plot.y.marked if plot.y.grid else ():
            yield _line((0, y := _y(plot.y, value)), (100, y), stroke=colour)
        for value in plot.x.marked if plot.x.grid else ():
            yield _line((x := _x(plot.x, value), 0), (x, 100), stroke=colour)

    def _rule(self, rule: Rule) -> Markup:
        look: dict[str, Any] = {"stroke": self.paint("muted"), "stroke_width": "1.25", "stroke_dasharray": DASHES}
        fill = self.paint(rule.colour)
        if rule.axis == "y":
            y = _y(self.plot.y, rule.at)
            text = tag("text", rule.text, x="99.5%", y=_percent(y), dy="-5", text_anchor="end", fill=fill)
            return join([_line((0, y), (100, y), **look), text])
        x = _x(self.plot.x, rule.at)
        foot: dict[str, Any] = {"dx": {"start": 5, "middle": 0, "end": -5}[rule.align], "y": "100%", "dy": "-10"}
        place = foot if rule.inside else {"y": "-6"}
        text = tag("text", rule.text, x=_percent(x), text_anchor=rule.align, fill=fill, **place)
        return join([_line((x, 0), (x, 100), **look), text])

    def _outline(self, first: int, last: int, colour: str) -> Markup:
        n = len(self.plot.x.names)
        start, size = 100 * first / n, 100 * (last - first) / n
        look = {"fill": "none", "stroke": self.paint(colour), "stroke_width": "2", "vector_effect": "non-scaling-stroke"}
        return _rect((start, start), (size, size), **look)

    def _draw_marks(self, marks: Marks) -> Content:
        rows = marks.frame.to_dicts()
        if marks.kind == "cells" and self.plot.is_matrix and len(rows) > MAX_HOVERED:
            return self._mosaic(marks, rows)
        if marks.kind == "curve":
            return self._curve(marks, rows)
        if marks.kind == "band":
            return self._band(marks, rows)
        one = {"dots": self._dot, "lines": self._segment, "bars": self._bar, "cells": self._cell, "texts": self._text}[marks.kind]
        return [one(marks, row) for row in rows]

    def _at(self, marks: Marks, row: dict[str, Any]) -> Place:
        return _x(self.plot.x, _value(marks.x, row)), _y(self.plot.y, _value(marks.y, row))

    def _to(self, marks: Marks, row: dict[str, Any]) -> Place:
        x, y = (first if second is None else second for first, second in ((marks.x, marks.x2), (marks.y, marks.y2)))
        return _x(self.plot.x, _value(x, row)), _y(self.plot.y, _value(y, row))

    def _style(self, marks: Marks, row: dict[str, Any]) -> Style:
        return marks.style if marks.by is None else self.plot.styles[row[marks.by]]

    def _dot(self, marks: Marks, row: dict[str, Any]) -> Markup:
        (x, y), style, hover = map(_percent, self._at(marks, row)), self._style(marks, row), _hover(marks, row)
        if marks.size is not None:
            most = float(marks.frame[marks.size].max() or 1)  # type: ignore[arg-type]
            radius = _number(3 + 7 * math.sqrt(row[marks.size] / most))
            return tag("circle", hover, cx=x, cy=y, r=radius, fill=self.paint(style.colour))
        shape = f"#{self.prefix}-{style.shape}{'-small' if len(marks.frame) > MAX_LARGE else ''}"
        known = {} if marks.identity is None else {"class_": "dot", "data_w": row[marks.identity]}
        return tag("use", hover, href=shape, x=x, y=y, color=self.paint(style.colour), **known)

    def _segment(self, marks: Marks, row: dict[str, Any]) -> Markup:
        look = {"stroke": self.paint(self._style(marks, row).colour), "stroke_width": "1.25"}
        return _line(self._at(marks, row), self._to(marks, row), **look, stroke_opacity=_opacity(marks, row))

    def _bar(self, marks: Marks, row: dict[str, Any]) -> Markup:
        (x1, y1), (x2, y2), fill = self._at(marks, row), self._to(marks, row), self.paint(self._style(marks, row).colour)
        if self.plot.y.names:  # a thick line: thickness is in pixels, length in percent
            end = x2 if abs(x2 - x1) > MIN_BAR else x1 + MIN_BAR
            return _line((x1, y1), (end, y1), _hover(marks, row), stroke=fill, stroke_width=marks.thick)
        width, height = abs(x2 - x1), max(abs(y2 - y1), 0.8 if marks.thick else 0.0)
        corner = min(x1, x2) + width * GAP / 2, max(y1, y2) - height
        return _rect(corner, (width * (1 - GAP), height), _hover(marks, row), fill=fill)

    def _cell(self, marks: Marks, row: dict[str, Any]) -> Markup:
        assert marks.shade is not None
        shade, faint, matrix = _shade(marks.shade, row[marks.shade.column]), _opacity(marks, row), self.plot.is_matrix
        (x1, y1), (x2, y2) = self._at(marks, row), self._to(marks, row)
        if matrix:
            wide, high = 100 / len(self.plot.x.names), 100 / len(self.plot.y.names)
            left, top = x1 - wide / 2, y1 - high / 2
        else:
            left, top, wide, high = min(x1, x2), min(y1, y2), max(abs(x2 - x1), MIN_BAR), abs(y2 - y1)
        look = {"fill": self.paint(shade), "fill_opacity": faint, "stroke": self.paint("page") if matrix else None}
        rect = _rect((left, top), (wide, high), _hover(marks, row), **look)
        if marks.text is None or not row[marks.text] or self.cell < MIN_PRINTED:
            return rect
        place = {"x": _percent(left + wide / 2), "y": _percent(top + high / 2), "dy": "4", "text_anchor": "middle"}
        ink = self.paint("text" if faint else f"{shade}i")
        return join([rect, tag("text", row[marks.text], fill=ink, pointer_events="none", **place)])

    def _mosaic(self, marks: Marks, rows: Sequence[dict[str, Any]]) -> Markup:
        """Return cells as one path for each shade: thousands of elements would be slow to show."""
        assert marks.shade is not None
        across, down = ({name: at for at, name in enumerate(axis.names)} for axis in (self.plot.x, self.plot.y))
        paths: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            key = _shade(marks.shade, row[marks.shade.column]), f"{float(_opacity(marks, row) or 1):.1f}"
            x, y = across[_value(marks.x, row)], down[_value(marks.y, row)]
            paths.setdefault(key, []).append(f"M{x} {y}h1v1h-1z")
        cells = [
            tag("path", d="".join(parts), fill=self.paint(shade), fill_opacity=None if faint == "1.0" else faint)
            for (shade, faint), parts in sorted(paths.items())
        ]
        return tag("svg", cells, viewBox=f"0 0 {len(across)} {len(down)}", **WHOLE)

    def _curve(self, marks: Marks, rows: Sequence[dict[str, Any]]) -> list[Markup]:
        """Return a line from row to row, for each kind of mark; places in percent allow no path."""
        out = []
        for kind in [None] if marks.by is None else list(self.plot.styles):
            some = [row for row in rows if kind is None or row[str(marks.by)] == kind]
            colour = self.paint((marks.style if kind is None else self.plot.styles[kind]).colour)
            look: dict[str, Any] = {"stroke": colour, "stroke_width": "1.6", "stroke_dasharray": DASHES if marks.dashed else None}
            pairs = [(self._at(marks, a), self._at(marks, b)) for a, b in zip(some, some[1:], strict=False)]
            faint = _opacity(marks, some[0]) if some else None
            out += [_line(start, end, **look, stroke_opacity=faint) for start, end in pairs]
        return out

    def _band(self, marks: Marks, rows: Sequence[dict[str, Any]]) -> Markup:
        places = [self._at(marks, row) for row in rows] + [self._to(marks, row) for row in reversed(rows)]
        points = " ".join(f"{_number(x)},{_number(y)}" for x, y in places)
        shape = tag("polygon", points=points, fill=self.paint(marks.style.colour), fill_opacity=marks.opacity)
        return tag("svg", shape, viewBox="0 0 100 100", **WHOLE)

    def _text(self, marks: Marks, row: dict[str, Any]) -> Markup:
        x, y = map(_percent, self._at(marks, row))
        look = {"dx": marks.dx or None, "dy": "4", "text_anchor": marks.align, "fill": self.paint(marks.style.colour)}
        return tag("text", row[str(marks.text)], x=x, y=y, font_size="11", **look)


def _value(channel: Channel, row: dict[str, Any]) -> Any:
    return row[channel] if isinstance(channel, str) else channel


def _opacity(marks: Marks, row: dict[str, Any]) -> str | None:
    value = row[marks.opacity] if isinstance(marks.opacity, str) else marks.opacity
    return None if value >= 1.0 else _number(value)


def _shade(shade: Shade, value: float | None) -> str:
    """Return the name of a cell's colour: a step of the scale."""
    if value is None or value != value:
        return "card"
    if shade.around:
        return f"{'m' if value < 0 else 'p'}{level(abs(value) / shade.high)}"
    if shade.log:
        return f"h{level(0.1 + 0.7 * math.log(value / shade.low) / max(math.log(shade.high / shade.low), 1e-9))}"
    return f"h{level((value - shade.low) / (shade.high - shade.low))}"


def _hover(marks: Marks, row: dict[str, Any]) -> Markup | None:
    """Return what stands under the pointer: the first field as the name, then the others."""
    if not marks.hover:
        return None
    parts = [(field, write(row[field.column], field.form)) for field in marks.hover if row[field.column] not in (None, "")]
    named = [f"{field.title} {text}".strip() for field, text in parts]
    return tag("title", named[0] + (f": {', '.join(named[1:])}" if len(named) > 1 else ""))


# --- around the plot


def _row_names(axis: Axis, *, in_page: bool) -> list[str]:
    """Return the names of rows; shorter ones in a page, as long as they stay distinct."""
    short = [words.shorten(name, MAX_PAGE_NAME) for name in axis.full or axis.names] if in_page else []
    return short if short and len(set(short)) == len(short) else list(axis.names)


def _wide(texts: Sequence[str], font: float = 1.0) -> int:
    """Return about how many pixels the longest text takes."""
    return math.ceil(font * max((sum(map(_letter, text)) for text in texts), default=0.0))


def _letter(letter: str) -> float:
    if ord(letter) > 0x2E7F:  # East Asian letters are square
        return 12.0
    return 3.6 if letter in NARROW else 9.6 if letter in BROAD else 8.2 if letter.isupper() else CHAR


def _is_unnamed(plot: Plot) -> bool:
    """Whether a matrix has too many rows to name them."""
    return plot.is_matrix and len(plot.x.names) > MAX_NAMED


def _left_width(plot: Plot, *, in_page: bool) -> int:
    if plot.y.names:
        font = PAGE_FONT if in_page else 1.0
        return 0 if _is_unnamed(plot) else _wide(_row_names(plot.y, in_page=in_page), font) + 10
    return AXIS_WIDTH if plot.y.marked else 0


def _right_width(plot: Plot) -> int:
    return sum(_wide([head, *texts]) + 16 for head, texts in plot.columns)


def _height_above(plot: Plot) -> int:
    return 18 if plot.columns or any(rule.axis == "x" and rule.text and not rule.inside for rule in plot.rules) else 4


def _is_slanted(plot: Plot) -> bool:
    return _wide(plot.x.names) + 6 > plot.size[0] / max(len(plot.x.names), 1)


def _height_below(plot: Plot) -> int:
    if plot.x.names:
        return 0 if _is_unnamed(plot) else round(0.66 * _wide(plot.x.names)) + 14 if _is_slanted(plot) else 20
    return (36 if plot.x.below else 20) if plot.x.marked else 6


def _row_labels(plot: Plot, paint: Paint, *, in_page: bool) -> Markup:
    """Return the vertical axis: names or figures that end at the right edge of their box."""
    axis, right = plot.y, _left_width(plot, in_page=in_page) - 8
    if _is_unnamed(plot):
        return join([])
    place: dict[str, Any] = {"x": right, "dy": "4", "text_anchor": "end"}
    if axis.names:
        shown = zip(axis.names, _row_names(axis, in_page=in_page), axis.full or axis.names, strict=True)
        lines = [
            tag("text", short, None if short == full else tag("title", full), y=_percent(_y(axis, name)), **place)
            for name, short, full in shown
        ]
        return tag("g", lines, fill=paint("text"))
    lines = [tag("text", _tick(value, axis), y=_percent(_y(axis, value)), **place) for value in axis.marked]
    return tag("g", lines, fill=paint("muted"))


def _tick(value: float, axis: Axis) -> str:
    """Return a number for an axis: thousands as k, millions as M."""
    if axis.form == "count":
        for unit, mark in ((1_000_000, "M"), (1_000, "k")):
            if value >= 10 * unit or (value >= unit and value % unit == 0):
                return f"{value / unit:g}{mark}"
    return write(value, axis.form)


def _columns(plot: Plot, paint: Paint) -> Markup:
    """Return the columns of text at the right of rows, with their heads above."""
    out: list[Content] = []
    at = 0
    for head, texts in plot.columns:
        at += _wide([head, *texts]) + 16
        out.append(tag("text", head, x=at, y="-6", text_anchor="end", fill=paint("muted")))
        for name, text in zip(plot.y.names, texts, strict=True):
            out.append(tag("text", text, x=at, y=_percent(_y(plot.y, name)), dy="4", text_anchor="end", fill=paint("text")))
    return join(out)


def _ticks_below(plot: Plot, paint: Paint) -> Markup:
    """Return the texts under the horizontal axis."""
    axis, out = plot.x, list[Content]()
    if _is_unnamed(plot):
        return join([])
    for name, full in zip(axis.names, axis.full or axis.names, strict=True):
        hover = None if name == full else tag("title", full)
        if _is_slanted(plot):  # a box of its own: no transform takes percent
            turned = tag("text", name, hover, transform="translate(4 10) rotate(-40)", text_anchor="end")
            out.append(tag("svg", turned, x=_percent(_x(axis, name)), overflow="visible", width="1", height="1"))
        else:
            out.append(tag("text", name, hover, x=_percent(_x(axis, name)), y="14", text_anchor="middle"))
    for at, value in enumerate(() if axis.names else axis.marked):
        x, dropped = _percent(_x(axis, value)), "odd" if at % 2 and len(axis.marked) > 3 else None  # on narrow screens
        out.append(tag("text", _tick(value, axis), x=x, y="14", text_anchor="middle", class_=dropped))
        if value in axis.below:
            out.append(tag("text", axis.below[value], x=x, y="30", text_anchor="middle", class_=dropped))
    return tag("g", out, fill=paint("muted"))


def _ramps(plot: Plot) -> list[Shade]:
    return [marks.shade for marks in plot.marks if marks.shade is not None and marks.shade.ends is not None]


def _steps(shade: Shade) -> list[str]:
    """Return the names of the colours of a key, from one end to the other."""
    if shade.around:
        return [f"m{step}" for step in range(LEVELS, 0, -2)] + [f"p{step}" for step in range(0, LEVELS + 1, 2)]
    return [f"h{step}" for step in range(1, 9 if shade.log else LEVELS + 1)]


def _ramp(shade: Shade, paint: Paint) -> Markup:
    return join(tag("rect", x=12 * at, width=12, height="12", fill=paint(step)) for at, step in enumerate(_steps(shade)))


def _top_title(plot: Plot) -> str:
    """Return the title above the plot: that of the vertical axis; for a matrix, both titles."""
    if plot.is_matrix and plot.y.title and plot.x.title:
        return f"{plot.y.title} ↓ {plot.x.title} →"
    return plot.y.title


def _bottom_title(plot: Plot) -> str:
    return "" if plot.is_matrix else plot.x.title


# --- a page


def inline(picture: Picture) -> Markup:
    """Return the plots of a picture for a page whose style has the palette's variables, and whose body has `shapes`."""
    return join(_in_page(plot, picture, has_key=_has_key(picture, at)) for at, plot in enumerate(picture.plots))


def _has_key(picture: Picture, at: int) -> bool:
    """Whether a plot needs a key, or has that of the plot above it."""
    return not at or picture.plots[at].key != picture.plots[at - 1].key


def data_table(picture: Picture) -> Markup:
    """Return what a picture shows as tables: a line per mark, a column per field of its hover text."""
    out = []
    for marks in (marks for plot in picture.plots for marks in plot.marks if marks.hover):
        heads = [field.title or field.column for field in marks.hover]
        rows = [
            [words.shorten(write(row[field.column], field.form), MAX_TEXT) for field in marks.hover]
            for row in marks.frame.head(MAX_ROWS).iter_rows(named=True)
        ]
        out.append(scroll(table(heads, rows), f"Data: {picture.sentence}", class_="list"))
    return join(out)


def _in_page(plot: Plot, picture: Picture, *, has_key: bool) -> Markup:
    width, height = plot.size
    unnamed, left, right, below = _is_unnamed(plot), _left_width(plot, in_page=True), _right_width(plot), _height_below(plot)
    wide = width if plot.is_matrix and not unnamed else "100%"
    inside = tag(
        "svg",
        _Drawing(plot, in_page, "m", is_fixed=False).draw(),
        role="img",
        aria_label=picture.sentence,
        width=wide,
        height=None if unnamed else height,
        viewBox=f"0 0 {width} {height}" if unnamed else None,
        class_="plot",
        id=plot.identity,
    )
    kind = "heatbox" if unnamed else "matrix" if plot.is_matrix else ""
    side: dict[str, Any] = {"height": height, "aria_hidden": "true"}
    drawn = tag(
        "div",
        tag("div", _top_title(plot), class_="yt") if _top_title(plot) else None,
        tag("div", class_="room") if _height_above(plot) > 4 else None,
        tag("svg", _row_labels(plot, in_page, in_page=True), width=left, **side) if left else tag("span"),
        inside,
        tag("svg", _columns(plot, in_page), width=right, **side) if right else tag("span"),
        [tag("span"), tag("svg", _ticks_below(plot, in_page), width=wide, height=below, aria_hidden="true"), tag("span")],
        [tag("span"), tag("div", _bottom_title(plot), class_="xt")] if _bottom_title(plot) else None,
        class_=f"chart {kind}".strip(),
    )
    if plot.is_matrix and not unnamed:
        drawn = tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=f"Matrix: {picture.sentence}")
    if not plot.is_matrix and plot.width < 500:
        drawn = tag("div", drawn, class_="square")
    return join([tag("h3", plot.heading) if plot.heading else None, drawn, _page_key(plot) if has_key else None])


def _page_key(plot: Plot) -> Markup | None:
    lines = [tag("li", symbol(style), kind) for kind, style in plot.key.items()]
    for shade in _ramps(plot):
        assert shade.ends is not None
        ramp = tag("svg", _ramp(shade, in_page), width=12 * len(_steps(shade)), height="12", aria_hidden="true")
        lines.append(tag("li", shade.ends[0], ramp, shade.ends[1]))
    return tag("ul", lines, class_="key") if lines else None


# --- a document


def document(picture: Picture) -> str:
    """Return the picture as an SVG document: title, notes, and all plots one below the other."""
    mode: Mode = "dark" if picture.theme == "dark" else "light"
    paint, prefix = colours(mode).__getitem__, f"adjudge-{mode}"
    widths = [_left_width(plot, in_page=False) + plot.size[0] + max(_right_width(plot), 14) for plot in picture.plots]
    width = max([420, *widths])
    lines = textwrap.wrap(picture.sentence, max(int(width / TITLE_CHAR), 30))
    notes = [line for note in picture.notes if note for line in textwrap.wrap(note, int(width / (0.92 * CHAR)))]
    parts: list[Content] = []
    at = 0.0
    for line in lines:
        parts.append(tag("text", line, x="0", y=at + 15, font_size="15", font_weight="600", fill=paint("text")))
        at += 20
    for line in notes:
        parts.append(tag("text", line, x="0", y=at + 14, fill=paint("muted")))
        at += 16
    at += 8
    for number, plot in enumerate(picture.plots):
        at += 16 if number else 0
        drawn, height = _in_document(plot, paint, prefix, width if _has_key(picture, number) else 0)
        parts.append(tag("g", drawn, transform=f"translate(0 {_number(at)})"))
        at += height
    size = (width + 2 * PADDING, round(at + 2 * PADDING))
    whole = tag(
        "svg",
        shapes(paint, prefix),
        tag("rect", width="100%", height="100%", fill=paint("page")) if picture.theme != "none" else None,
        tag("g", parts, transform=f"translate({PADDING} {PADDING})"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size[0]} {size[1]}",
        width=size[0],
        height=size[1],
        role="img",
        aria_label=" ".join([picture.sentence, *(note for note in picture.notes if note)]),
        font_family=FONT,
        font_size="12",
    )
    return str(whole)


def _in_document(plot: Plot, paint: Paint, prefix: str, width: int) -> tuple[Markup, float]:
    """Return a plot at a fixed size, and its height; `width` is that of its key, 0 for none."""
    parts: list[Content] = []
    at = 0.0
    if plot.heading:
        parts.append(tag("text", plot.heading, x="0", y="14", font_size="13", font_weight="600", fill=paint("text")))
        at += 24
    key, height = _key(plot, paint, width) if width else (join([]), 0.0)
    parts.append(tag("g", key, transform=f"translate(0 {_number(at)})"))
    at += height
    if _top_title(plot):
        parts.append(tag("text", _top_title(plot), x="0", y=at + 12, fill=paint("muted")))
        at += 20
    at += _height_above(plot)
    (wide, high), left = plot.size, _left_width(plot, in_page=False)
    box: dict[str, Any] = {"y": _number(at), "height": high, "overflow": "visible"}
    parts += [
        tag("svg", _row_labels(plot, paint, in_page=False), x="0", width=max(left, 1), **box),
        tag("svg", _Drawing(plot, paint, prefix, is_fixed=True).draw(), x=left, width=wide, **box),
        tag("svg", _columns(plot, paint), x=left + wide, width=max(_right_width(plot), 1), **box),
    ]
    at += high
    under: dict[str, Any] = {"x": left, "y": _number(at), "width": wide, "height": "20", "overflow": "visible"}
    parts.append(tag("svg", _ticks_below(plot, paint), **under))
    at += _height_below(plot)
    if _bottom_title(plot):
        parts.append(tag("text", _bottom_title(plot), x=left + wide, y=at + 12, text_anchor="end", fill=paint("muted")))
        at += 20
    return join(parts), at


def _key(plot: Plot, paint: Paint, width: int) -> tuple[Markup, float]:
    """Return the key of a plot, in as many lines as it needs, and its height."""
    entries: list[tuple[Content, int]] = []
    for kind, style in plot.key.items():
        mark = tag("g", _shape(style.shape, paint), transform="translate(6 8)", color=paint(style.colour))
        entries.append(([mark, tag("text", kind, x="17", y="12", fill=paint("text"))], 17 + _wide([kind])))
    for shade in _ramps(plot):
        assert shade.ends is not None
        low, size = _wide([shade.ends[0]]) + 8, 12 * len(_steps(shade))
        ramp: Content = [
            tag("text", shade.ends[0], y="12", fill=paint("text")),
            tag("g", _ramp(shade, paint), transform=f"translate({low} 2)"),
            tag("text", shade.ends[1], x=low + size + 8, y="12", fill=paint("text")),
        ]
        entries.append((ramp, low + size + 8 + _wide([shade.ends[1]])))
    out: list[Content] = []
    x, y = 0, 0
    for drawn, wide in entries:
        if x and x + wide > width:
            x, y = 0, y + 20
        out.append(tag("g", drawn, transform=f"translate({x} {y})"))
        x += wide + 20
    return join(out), (y + 26 if entries else 0)
