"""A picture, declared once: marks over frames on axes, under a sentence. `svg.py` and `charts.py` draw any picture.

Views declare pictures. A mark is a row of a frame: channels name columns (or give one value for all rows), so that a chart of
Altair has the view's own columns, and SVG is drawn from the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from adjudge.report import words
from adjudge.report.palette import Shape
from adjudge.results.plotting import Theme

WIDTH: Final = 600  # pixels of a plot without its axes, in a file or a notebook
MAX_CELL: Final = 56  # pixels of a matrix's cell
MAX_NAMED: Final = 28  # rows of a matrix up to which they have names
MIN_PRINTED: Final = 26  # pixels of a cell that holds a figure
MATRIX: Final = 420  # pixels of a matrix with many labels
Form = Literal["text", "count", "share", "percent", "signed", "number"]
Scale = Literal["linear", "log", "symlog"]
Kind = Literal["dots", "lines", "bars", "cells", "curve", "band", "texts"]
Channel = str | float  # a column, or one value for all rows


def write(value: Any, form: Form) -> str:
    """Return a value as a picture prints it.

    >>> write(0.25, "percent"), write(0.2512, "share"), write(-1.5, "signed"), write(None, "count")
    ('25%', '25.1%', '−1.5', '–')
    """
    if value is None or value != value:
        return "–"
    if form == "text":
        return str(value)
    if form == "share":
        return f"{100 * value:.1f}%"
    if form == "percent":
        return f"{round(100 * value, 9):.3g}%"
    if form == "count":
        return words.count(value)
    return f"{value:+.3g}".replace("-", "−") if form == "signed" and value else f"{value:.3g}"


class Field(NamedTuple):
    """A column that shows on hover; the first field of a mark names it."""

    column: str
    title: str = ""
    form: Form = "text"


def fields(**forms: Form | tuple[Form, str]) -> tuple[Field, ...]:
    """Return fields by column: their form, with a title if the column's name will not do.

    >>> fields(worker="text", shared=("count", "shared tasks"))
    (Field(column='worker', title='', form='text'), Field(column='shared', title='shared tasks', form='count'))
    """
    out = []
    for column, known in forms.items():
        form, title = (known, "" if known == "text" else column) if isinstance(known, str) else known
        out.append(Field(column, title, form))
    return tuple(out)


class Style(NamedTuple):
    """How marks of one kind look. The name of the colour is that of a variable of the palette."""

    colour: str
    shape: Shape = "circle"


ACCENT: Final = Style("accent")


class Shade(NamedTuple):
    """Cells in the shade of a column: from `low` to `high` in one hue, or around zero in two."""

    column: str
    low: float
    high: float
    around: bool = False
    log: bool = False
    ends: tuple[str, str] | None = None  # words for both ends, if a key is needed


class Rule(NamedTuple):
    """A dashed line across the plot at a value of one axis."""

    at: float
    axis: Literal["x", "y"]
    text: str = ""
    align: Literal["start", "middle", "end"] = "end"
    colour: str = "muted"
    inside: bool = False  # whether the text of a vertical rule is at its foot, not above it


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis: a scale with ticks, or names at equal distances."""

    title: str = ""
    low: float = 0.0
    high: float = 1.0
    ticks: Sequence[float] | int = 6  # or about how many round ones there are to be
    form: Form = "number"
    scale: Scale = "linear"
    names: Sequence[str] = ()  # distinct and short
    full: Sequence[str] = ()  # the same names uncut, for hover
    grid: bool = True
    below: Mapping[float, str] = field(default_factory=dict)  # a second line under ticks

    @cached_property
    def marked(self) -> Sequence[float]:
        """The values that have a tick."""
        if self.names or not isinstance(self.ticks, int):
            return () if self.names else self.ticks  # type: ignore[return-value]
        return log_ticks(self.low, self.high) if self.scale == "log" else step_ticks(self.low, self.high, self.ticks)

    def place(self, value: Any) -> float:
        """Return where a value is, from 0 to 1."""
        if self.names:
            return (self.names.index(value) + 0.5) / len(self.names)
        low, high = _scale(self.low, self.scale), _scale(self.high, self.scale)
        return min(max((_scale(value, self.scale) - low) / (high - low or 1.0), 0.0), 1.0)


def _scale(value: float, scale: Scale) -> float:
    return value if scale == "linear" else math.log(max(value, 1e-9)) if scale == "log" else math.log1p(value)


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of one kind, one for every row of a frame.

    - `lines` and `bars` go from (x, y) to (x2, y2); on an axis of names a bar is as thick as `thick` pixels.
    - `cells` fill a row and a column of names, or the rectangle between both corners; `text` is printed inside.
    - `curve` joins the rows; `band` fills what is between y and y2.
    """

    kind: Kind
    frame: pl.DataFrame
    x: Channel
    y: Channel
    x2: Channel | None = None
    y2: Channel | None = None
    by: str | None = None  # column whose value chooses the style
    style: Style = ACCENT  # of all, unless `by` chooses
    shade: Shade | None = None
    text: str | None = None
    size: str | None = None  # column of areas in proportion
    opacity: str | float = 1.0
    hover: Sequence[Field] = ()
    identity: str | None = None  # column of numbers that the page's script knows marks by
    thick: int = 13
    dashed: bool = False
    align: Literal["start", "middle", "end"] = "middle"
    dx: int = 0
    fixed: bool = False  # whether it is left out where the plot's width is not known, as in a page


class Outline(NamedTuple):
    """Squares around the diagonal of a matrix, from one name to another."""

    spans: Sequence[tuple[int, int]]
    colour: str


@dataclass(frozen=True, eq=False)
class Plot:
    """One plot of a picture."""

    x: Axis
    y: Axis
    marks: Sequence[Marks]
    styles: Mapping[str, Style] = field(default_factory=dict)  # by kind of mark, in the order of the key
    rules: Sequence[Rule] = ()
    outlines: Sequence[Outline] = ()
    columns: Sequence[tuple[str, Sequence[str]]] = ()  # columns of text at the right of named rows
    heading: str = ""
    height: int = 340  # of a plot with a scale on its vertical axis
    step: int = 24  # of a named row
    width: int = WIDTH
    identity: str | None = None  # id in a page

    @property
    def is_matrix(self) -> bool:
        """Whether both axes are names, so that the plot is as wide as its cells."""
        return bool(self.x.names and self.y.names)

    @property
    def key(self) -> Mapping[str, Style]:
        """The styles that a key has to explain: several, or one if cells are shaded as well."""
        return self.styles if len(self.styles) > 1 or any(marks.shade for marks in self.marks) else {}

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        if self.is_matrix:
            side = round(min(MAX_CELL * len(self.x.names), MATRIX))
            return side, side
        return self.width, self.step * len(self.y.names) if self.y.names else self.height


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A picture of a result. A notebook shows it as SVG, without a network; `altair()` gives a chart to change.

    Examples
    --------
    >>> import adjudge as adj
    >>> picture = adj.aggregate([(1, "ann", "cat"), (1, "bob", "dog")], model="mv").plot.shares()
    >>> picture.svg().startswith("<svg"), " ".join(picture.altair().title.text) == picture.sentence
    (True, True)

    """

    sentence: str  # what the picture shows here
    plots: Sequence[Plot] = ()
    notes: Sequence[str] = ()
    theme: Theme = "light"

    def __repr__(self) -> str:
        return f"Picture({self.sentence!r})"

    def svg(self) -> str:
        """Return the picture as an SVG document: one file that needs nothing else."""
        from adjudge.report.svg import document

        return document(self)

    def altair(self) -> Any:
        """Return the picture as a chart of Altair; needs the extra `report`."""
        from adjudge.report.charts import chart

        return chart(self)

    def save(self, path: str | Path, **options: Any) -> None:
        """Write the picture to a file: .svg by itself; .png, .pdf, .html and .json through Altair.

        Parameters
        ----------
        path : str or Path
            The file; its suffix is the format.
        **options
            For Altair's `Chart.save`, such as `scale_factor=2` or `inline=True`.

        """
        from adjudge.io.write import write_aside

        target = Path(path)
        if target.suffix.lower() == ".svg":
            text = self.svg() + "\n"
            write_aside(target, lambda aside: aside.write_text(text, encoding="utf-8"))
        else:
            self.altair().save(str(target), **options)

    def with_theme(self, theme: Theme) -> Picture:
        """Return the picture in another theme.

        Parameters
        ----------
        theme : {"light", "dark", "none"}
            The other theme.

        """
        return replace(self, theme=theme)

    def _repr_html_(self) -> str:
        return f'<div style="max-width:100%;overflow-x:auto">{self.svg()}</div>'

    def _repr_svg_(self) -> str:
        return self.svg()


def name_axis(names: Iterable[str], *, title: str = "", width: int = 24, grid: bool = True) -> Axis:
    """Return an axis of names, cut in the middle if they are long."""
    full = list(names)
    return Axis(title, names=distinct(full, width), full=[words.shorten(name, 200) for name in full], grid=grid)


def name_rows(
    frame: pl.DataFrame, column: str, *, title: str = "", width: int = 24, grid: bool = True
) -> tuple[Axis, pl.DataFrame]:
    """Return an axis that names the rows of a frame by a column, and the frame with these names in the column `name`."""
    axis = name_axis(map(words.name, frame[column]), title=title, width=width, grid=grid)
    return axis, frame.with_columns(name=pl.Series(axis.names, dtype=pl.String))


def distinct(names: Iterable[str], width: int = words.MAX_NAME) -> list[str]:
    """Return names cut in the middle if they are long, all different: a picture places marks by them.

    >>> distinct(["a", "b" * 9, "bbbb" + "c" + "bbbb"], 5)
    ['a', 'bb…bb', 'bb…bb (2)']
    """
    taken: dict[str, int] = {}
    out: list[str] = []
    for name in names:
        short = words.shorten(name, width)
        while True:
            number = taken[short] = taken.get(short, 0) + 1
            candidate = short if number == 1 else f"{short} ({number})"
            if candidate not in out:
                break
        out.append(candidate)
    return out


def share_axis(title: str, low: float = 0.0, high: float = 1.0, *, grid: bool = True) -> Axis:
    """Return an axis of shares in percent.

    >>> share_axis("accuracy", 0.5).marked
    [0.5, 0.6, 0.7, 0.8, 0.9, 1]
    """
    return Axis(title, low, high, form="percent", grid=grid)


def step_ticks(low: float, high: float, number: int = 6) -> list[float]:
    """Return round ticks at equal distances, about `number` of them.

    >>> step_ticks(0, 7, 4), step_ticks(-1.2, 2.7)
    ([0, 2, 4, 6], [-1, 0, 1, 2])
    """
    size = max(high - low, 1e-9)
    step = next(m * 10.0**e for e in range(-4, 13) for m in (1, 2, 5) if size / (m * 10.0**e) <= number)
    ticks = [round(n * step, 6) for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return [int(tick) if float(tick).is_integer() else tick for tick in ticks]


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis of counts: 1, 2, 5, 10, …; closer over a narrow range, wider over a wide one.

    >>> log_ticks(1, 400), log_ticks(30, 90)
    ([1, 3, 10, 30, 100, 300], [30, 40, 50, 60, 80])
    """
    steps: tuple[float, ...] = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    if high / low > 2:
        steps = (1, 1.5, 2, 3, 4, 5, 6, 8)
    if high / low > 6:
        steps = (1, 2, 5) if high / low < 100 else (1, 3) if high / low < 3000 else (1,)
    ticks = [step * 10.0**power for power in range(13) for step in steps]
    return [int(tick) for tick in ticks if low <= tick <= high and tick == int(tick)]
