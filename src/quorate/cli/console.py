"""What the commands share on the terminal: tables, progress, curves, heat maps. Data goes to stdout, talk to stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from quorate.em import Progress
from quorate.fit import TraceRow

BAR = 30  # characters of a bar
CURVE = ("lowest", "highest", "tasks", "confidence", "accuracy")  # columns of a reliability curve


def talk(quiet: bool = False) -> Console:
    """Returns the console for people: stderr, silent when asked."""
    return Console(stderr=True, quiet=quiet, highlight=False)


def data() -> Console:
    """Returns the console for results people read: stdout."""
    return Console(highlight=False)


@contextmanager
def progress(console: Console, what: str) -> Iterator[Progress]:
    """Yields a callback that shows the running iteration, on a terminal only, and leaves no trace."""
    with Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or console.quiet,
    ) as bar:
        running = bar.add_task(what, total=None)

        def report(row: TraceRow) -> None:
            change = "" if row.change != row.change else f", moved by {row.change:.1g}"
            bar.update(running, description=f"{what}: iteration {row.iteration} ({row.phase}){change}")

        yield report


@contextmanager
def counter(console: Console, total: float) -> Iterator[Callable[[str, int], None]]:
    """Yields a callback that counts finished rows of what is being written, on a terminal only."""
    with Bar(console=console, transient=True, disable=not console.is_terminal or console.quiet) as bar:
        running = bar.add_task("", total=total)
        yield lambda name, rows: bar.update(running, description=name, advance=rows)


@contextmanager
def downloads(console: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Yields a callback (file, bytes here) that shows how much of everything has come, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal or console.quiet) as bar:
        running = bar.add_task("", total=total)
        seen: dict[str, int] = {}

        def report(name: str, here: int) -> None:
            seen[name] = here
            bar.update(running, description=name, completed=sum(seen.values()))

        yield report


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> Table:
    """Returns a table whose first `left` columns are text and the others figures."""
    out = Table(box=None, pad_edge=False, show_header=any(columns))
    for place, name in enumerate(columns):
        out.add_column(name, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        out.add_row(*(figure(cell) for cell in row))
    return out


def figure(value: object) -> str:
    """Returns a cell as people read it: four digits, a dash for what is not known."""
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def reliability(bins: Mapping[str, NDArray[Any]]) -> Table:
    """Returns a reliability curve as a table: a bar as long as the accuracy, and where the confidence said it would end."""
    out = Table(box=None, pad_edge=False)
    for name in ("confidence", "tasks", "mean", "accuracy"):
        out.add_column(name, justify="right")
    out.add_column("accuracy █ and confidence │")
    for low, high, tasks, mean, accuracy in zip(*(bins[name].tolist() for name in CURVE), strict=True):
        out.add_row(f"{low:.3f} – {high:.3f}", str(tasks), f"{mean:.3f}", f"{accuracy:.3f}", _bar(accuracy, mean))
    return out


def _bar(filled: float, mark: float) -> str:
    line = ["█" if place < round(BAR * filled) else "·" for place in range(BAR)]
    line[min(int(BAR * mark), BAR - 1)] = "│"
    return "".join(line)


def heat_map(names: Sequence[str], matrix: NDArray[np.float64], corner: str = "true \\ said ") -> Table:
    """Returns a square of shares as a table of coloured percentages: by default a confusion, a row per true label."""
    out = Table(box=None, pad_edge=False, padding=0)
    out.add_column(corner, style="dim")
    for name in names:
        out.add_column(f"{name} ", justify="right")
    for name, line in zip(names, matrix, strict=True):
        out.add_row(name, *(_cell(share, max(map(len, names))) for share in line))
    return out


def _cell(share: float, width: int) -> Text:
    if share != share:
        return Text("– ".rjust(width + 1))
    shade = int(235 - 190 * share)  # white paper to deep blue ink
    ink = "white" if share > 0.45 else "black"
    return Text(f"{share * 100:3.0f}% ".rjust(width + 1), style=f"{ink} on rgb({shade},{min(shade + 15, 255)},250)")
