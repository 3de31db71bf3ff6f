"""What the commands share on the terminal: tables, progress, curves, heat maps. Data goes to stdout, talk to stderr.

Ids, labels, paths and messages are text and nothing else: a `Screen` knows no markup, and shows what a terminal would obey
(control characters, escape sequences, marks that turn text around) as escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import progress as bars
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from adjudge.cli.output import figure
from adjudge.data.fit import TraceRow
from adjudge.errors import make_visible
from adjudge.models.em import Progress

BAR = 30  # characters of a bar
MIN_BAR = 10  # below this a bar tells nothing
CURVE = ("lowest", "highest", "tasks", "confidence", "accuracy")  # columns of a reliability curve
MIN_TEXT = 8  # characters that a column of text keeps next to wide figures
MAX_HEADING = 8  # characters of a name above a column; longer ones are numbered, with a legend below
LEGEND = 500  # characters of a name in a legend


class Screen(Console):
    """A console for which every string is plain text: no markup, no emoji codes, no colours for numbers, nothing obeyed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as plain text, never interpreted as markup."""
        return Text(
            make_visible(text), style=options.get("style", ""), justify=options.get("justify"), overflow=options.get("overflow")
        )

    def say(self, text: object, style: str | None = None) -> None:
        """Print one line, which the terminal may wrap but nothing else does."""
        self.print(plain(text), style=style, soft_wrap=True)

    def heading(self, text: object) -> None:
        """Print a heading behind an empty line."""
        self.print()
        self.say(text, style="bold")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, ids: int = 0) -> None:
        """Print a table; the parameters are those of the function `table`."""
        self.print(table(columns, rows, left, ids))

    def more(self, rows: int, shown: int, where: str) -> None:
        """Say how many rows of a table are not shown, and where they are, if there are any."""
        if rows > shown:
            self.say(f"… and {rows - shown} more: {where}")


def plain(text: object) -> Text:
    """Return anything as the text that a terminal may be given: ids, labels, paths and messages pass through here."""
    return Text(make_visible(str(text)))


@contextmanager
def _display(
    console: Console, *columns: bars.ProgressColumn, total: float | None = None, **shown: Any
) -> Iterator[tuple[bars.Progress, bars.TaskID]]:
    """Yield a display on a terminal only, which leaves no trace, and its one task; a spinner runs before what is not counted."""
    silent = not console.is_terminal or console.quiet
    text = bars.TextColumn("{task.description}", markup=False)
    every = (text, *columns) if columns else (bars.SpinnerColumn(), text, bars.TimeElapsedColumn())
    with bars.Progress(*every, console=console, transient=True, disable=silent) as bar:
        yield bar, bar.add_task("", total=total, **shown)


@contextmanager
def iterations(console: Console, what: str) -> Iterator[Progress]:
    """Yield a callback that shows the running iteration."""
    with _display(console) as (bar, running):
        bar.update(running, description=make_visible(what))

        def report(row: TraceRow) -> None:
            change = "" if row.change != row.change else f", moved by {row.change:.1g}"
            bar.update(running, description=f"{make_visible(what)}: iteration {row.iteration} ({row.phase}){change}")

        yield report


@contextmanager
def tally(console: Console, what: str) -> Iterator[Callable[[int], None]]:
    """Yield a callback that shows how many of something there are by now."""
    with _display(console) as (bar, running):

        def report(number: int) -> None:
            if number % 1000 == 0:
                bar.update(running, description=f"{number} {make_visible(what)}")

        yield report


@contextmanager
def counter(console: Console, total: float) -> Iterator[Callable[[str, int], None]]:
    """Yield a callback that counts rows as they are written."""
    with _display(console, bars.BarColumn(), bars.TimeRemainingColumn(), total=total) as (bar, running):
        yield lambda name, rows: bar.update(running, description=make_visible(name), advance=rows)


@contextmanager
def steps(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (what, steps done, of how many): a bar with the time left."""
    with _display(console, bars.BarColumn(), bars.TimeRemainingColumn()) as (bar, running):
        yield lambda what, done, total: bar.update(running, description=make_visible(what), completed=done, total=total)


@contextmanager
def status(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows what is looked at."""
    with console.status("") as shown:
        yield lambda what: shown.update(make_visible(what))


@contextmanager
def passes(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (what, votes done, of how many): a bar with the rate and the time left."""
    columns = bars.BarColumn(), bars.TextColumn("{task.fields[rate]}", markup=False), bars.TimeRemainingColumn()
    with _display(console, *columns, rate="") as (bar, running):
        shown = ""

        def report(what: str, done: int, total: int) -> None:
            nonlocal shown
            if what != shown:
                shown = what
                bar.reset(running, total=total or None, description=make_visible(what), rate="")
            speed = bar.tasks[0].speed
            rate = "" if speed is None else f"{speed / 1e6:.1f} million votes/s"
            bar.update(running, completed=done, total=max(total, done) if total else None, rate=rate)

        yield report


@contextmanager
def downloads(console: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Yield a callback (file, bytes here) that shows how much of everything has come."""
    columns = bars.BarColumn(), bars.DownloadColumn(), bars.TransferSpeedColumn(), bars.TimeRemainingColumn()
    with _display(console, *columns, total=total) as (bar, running):
        seen: dict[str, int] = {}

        def report(name: str, here: int) -> None:
            seen[name] = here
            bar.update(running, description=make_visible(name), completed=sum(seen.values()))

        yield report


def cut(text: str, width: int) -> str:
    """Return text no wider than so many columns of the terminal, with an ellipsis where it is cut.

    >>> cut("arena-hard", 6), cut("漢字漢字", 6), cut("short", 6)
    ('arena…', '漢字…', 'short')
    """
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, ids: int = 0) -> Grid:
    """Return a table whose first columns are text and the others figures.

    The first `ids` columns are ids, which are cut with an ellipsis if space is short; otherwise the first `left`
    columns are words, which are wrapped.
    """
    cells = [[figure(cell) for cell in row] for row in rows]
    return Grid([make_visible(name) for name in columns], cells, ids or left, wraps=not ids)


@dataclass(frozen=True)
class Grid:
    """A table that never cuts a figure: text gives way first, then columns of figures go below in a table of their own."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int  # columns of text, before those of figures
    wraps: bool = True  # whether text that does not fit is wrapped, or cut
    styles: Sequence[Sequence[str]] | None = None  # of the figures, [rows][figures]
    gap: int = 2  # spaces between two columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table, or several where the terminal is narrow."""
        figures = [self._figure_width(column) for column in range(self.left, len(self.columns))]
        natural = [self._natural(column) for column in range(self.left)]
        least = [min(width, self._longest_word(column)) for column, width in enumerate(natural)]
        for number, (first, last) in enumerate(_blocks(figures, options.max_width - sum(least) - self.left * self.gap, self.gap)):
            if number:
                yield Text()
            taken = sum(figures[first:last]) + self.gap * (self.left + last - first - 1)
            texts = _share_room(natural, least, options.max_width - taken)
            yield self._table(texts, figures, range(first, last))

    def cuts(self, width: int) -> bool:
        """Return whether some text is cut, or the table falls apart, on a terminal of this width."""
        columns = range(len(self.columns))
        wanted = sum(self._natural(c) if c < self.left else self._figure_width(c) for c in columns)
        return wanted + self.gap * (len(columns) - 1) > width

    def _table(self, texts: Sequence[int], figures: Sequence[int], shown: range) -> Table:
        out = Table(box=None, pad_edge=False, padding=(0, self.gap, 0, 0), show_header=any(self.columns))
        for column, width in enumerate(texts):
            out.add_column(self._text(self.columns[column], width), width=width, overflow="fold")
        for column in shown:
            name = Text(self.columns[self.left + column], overflow="fold")
            out.add_column(name, justify="right", width=figures[column], overflow="fold")
        for number, row in enumerate(self.rows):
            cells = [self._text(row[column], width) for column, width in enumerate(texts)]
            for column in shown:
                style = "" if self.styles is None else self.styles[number][column]
                cells.append(Text(row[self.left + column].rjust(figures[column]), style=style, no_wrap=True))
            out.add_row(*cells)
        return out

    def _text(self, text: str, width: int) -> Text:
        return Text(text, overflow="fold") if self.wraps else Text(cut(text, width), no_wrap=True)

    def _natural(self, column: int) -> int:
        return max([cell_len(self.columns[column]), *(cell_len(row[column]) for row in self.rows)], default=0)

    def _longest_word(self, column: int) -> int:
        """Return the width that a column of text needs at least: ids are cut, and words are wrapped but not split."""
        words = [cell_len(word) for row in self.rows for word in row[column].split()] if self.wraps else []
        return min(max([MIN_TEXT, *words]), 2 * MIN_TEXT)

    def _figure_width(self, column: int) -> int:
        """Return the width of a column of figures: its widest figure, or the longest word of its heading."""
        words = [cell_len(word) for word in self.columns[column].split()]
        return max([1, min(max(words, default=0), 2 * MAX_HEADING), *(cell_len(row[column]) for row in self.rows)])


def _blocks(widths: Sequence[int], room: int, gap: int) -> list[tuple[int, int]]:
    """Return the columns (first, behind the last) that stand side by side in so much room; there is one at least in each."""
    blocks, first, taken = [], 0, 0
    for column, width in enumerate(widths):
        if column > first and taken + gap + width > room:
            blocks.append((first, column))
            first, taken = column, 0
        taken += width + (gap if column > first else 0)
    return [*blocks, (first, len(widths))]


def _share_room(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns of text in so much room: as wide as they are where that fits, never below the least."""
    widths = list(least)
    spare = room - sum(widths)
    for column in sorted(range(len(widths)), key=lambda c: natural[c]):  # who wants little gets it
        share = max(spare, 0) // (sum(natural[c] > widths[c] for c in range(len(widths))) or 1)
        more = min(natural[column] - widths[column], share)
        widths[column] += more
        spare -= more
    return widths


def reliability(bins: Mapping[str, NDArray[Any]]) -> Curve:
    """Return a reliability curve as a table: a bar as long as the accuracy, and where the confidence said it would end."""
    return Curve(list(zip(*(bins[name].tolist() for name in CURVE), strict=True)))


@dataclass(frozen=True)
class Curve:
    """A reliability curve; the bars are as long as the terminal lets them be."""

    bins: Sequence[tuple[float, float, int, float, float]]  # lowest, highest, tasks, confidence, accuracy

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, without bars if they do not fit."""
        rows = [(f"{low:.3f} – {high:.3f}", str(tasks), f"{mean:.3f}", f"{hit:.3f}") for low, high, tasks, mean, hit in self.bins]
        names = ["confidence", "tasks", "mean", "accuracy"]
        widths = [max(len(name), *(len(row[place]) for row in rows)) for place, name in enumerate(names)]
        room = min(BAR, options.max_width - sum(widths) - 2 * len(widths))
        out = Table(box=None, pad_edge=False)
        for name, width in zip(names, widths, strict=True):
            out.add_column(name, justify="right", width=width, no_wrap=True)
        if room >= MIN_BAR:
            out.add_column("accuracy █ and confidence │")
        for row, (*_, mean, hit) in zip(rows, self.bins, strict=True):
            out.add_row(*row, *([_bar(hit, mean, room)] if room >= MIN_BAR else []))
        yield out


def _bar(filled: float, mark: float, length: int) -> str:
    line = ["█" if place < round(length * filled) else "·" for place in range(length)]
    line[min(int(length * mark), length - 1)] = "│"
    return "".join(line)


def heat_map(names: Sequence[str], matrix: NDArray[np.float64], corner: str = "true \\ said") -> Square:
    """Return a square of shares as a table of coloured percentages: by default a confusion, a row per true label."""
    cells = [["–" if share != share else f"{share * 100:.0f}%" for share in line] for line in matrix.tolist()]
    return Square(
        [make_visible(name) for name in names], cells, corner, [[_shade(share) for share in line] for line in matrix.tolist()]
    )


def square(names: Sequence[str], cells: Sequence[Sequence[object]], corner: str = "") -> Square:
    """Return a square of figures as a table, with the same names on both sides."""
    return Square([make_visible(name) for name in names], [[figure(cell) for cell in row] for row in cells], corner)


@dataclass(frozen=True)
class Square:
    """Figures of all against all. Names too long for a column heading are numbered, with a legend below."""

    names: Sequence[str]
    cells: Sequence[Sequence[str]]
    corner: str
    styles: Sequence[Sequence[str]] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, and the legend where there is need of one."""
        long = any(cell_len(name) > MAX_HEADING or not name.strip() for name in self.names)
        heads = [str(n) for n in range(1, len(self.names) + 1)] if long else [name.replace(" ", "\u00a0") for name in self.names]
        sides = [f"{head} {name}" for head, name in zip(heads, self.names, strict=True)] if long else self.names
        rows = [[side, *row] for side, row in zip(sides, self.cells, strict=True)]
        grid = Grid([self.corner, *heads], rows, 1, wraps=False, styles=self.styles, gap=1)
        yield grid
        if long and grid.cuts(options.max_width):
            yield Text()
            for head, name in zip(heads, self.names, strict=True):
                yield Text(f"{head}: {name if len(name) <= LEGEND else name[:LEGEND] + '…'}", overflow="fold")


def _shade(share: float) -> str:
    if share != share:
        return ""
    shade = int(235 - 190 * share)  # white paper to deep blue ink
    ink = "white" if share > 0.45 else "black"
    return f"{ink} on rgb({shade},{min(shade + 15, 255)},250)"
