"""What commands share: files checked before any work, the engine and its progress, labels and JSON on standard output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from adjudge.errors import visible

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import polars as pl

    from adjudge.data.understood import Understood
    from adjudge.engines.base import Engine
    from adjudge.models.em import Progress

PREVIEW = 20  # labels shown on a terminal
MAX_ID = 40  # characters of an id in a table of a summary


def label_list(text: str, what: str = "labels") -> list[str]:
    """Return labels, or `what` else is joined by commas, as a list.

    >>> label_list("cat, dog")
    ['cat', 'dog']
    """
    from adjudge.errors import OptionError

    labels = [part.strip() for part in text.split(",")]
    if not all(labels):
        raise OptionError(f"{what} is {text!r}: give {what} joined by commas, none of them empty")
    return labels


def unescaped(separator: str) -> str:
    r"""Return a separator as it is meant: a tab may be typed as \t.

    >>> unescaped(r"\t"), unescaped(";")
    ('\t', ';')
    """
    return "\t" if separator in (r"\t", "tab") else separator


def read_as(sources: Sequence[str], understood: Understood) -> str:
    """Return one line about what was read, and as what."""
    names = "standard input" if list(sources) == ["-"] else sources[0] if len(sources) == 1 else f"{len(sources)} files"
    article = "a " if re.search("table|frame", understood.format) else ""  # exports go by their names
    return f"read {names} as {article}{understood}"


def check(
    frames: Mapping[str, str | PathLike[str] | None],
    inputs: Mapping[str, Any],
    *,
    others: Mapping[str, str | PathLike[str] | None] | None = None,
    to_stdout: bool = False,
) -> None:
    """Raise, before any work, when a command cannot write its files, or would write over one that it reads.

    `frames` are tables, whose suffix names a format; `others` are files of any name. Each stands by the option that names it.
    """
    from adjudge.errors import OptionError
    from adjudge.io.write import check_files, check_folder, check_target

    for name in frames.values():
        if name is not None:
            check_target(Path(name))
    for option, name in (others or {}).items():
        if name is not None:
            if str(name) == "-":
                raise OptionError(f"{option} is -: that is standard output, and this goes to a file; give its path")
            check_folder(Path(name))
    check_files({**frames, **(others or {}), "standard output": 1 if to_stdout else None}, inputs)


def labels(batches: Iterator[pl.DataFrame], tasks: int) -> None:
    """Print labels: the first of them as a table on a terminal, all as CSV into a pipe or a file."""
    if not sys.stdout.isatty():
        from adjudge.io.write import write_stream

        write_stream(batches, sys.stdout.buffer)
        return
    from adjudge.cli import console

    first = next(batches)
    console.data().print(console.table(first.columns, first.head(PREVIEW).rows(), ids=2))
    if tasks > PREVIEW:
        console.talk().say(f"… and {tasks - PREVIEW} more: write them all with -o labels.csv", style="dim")


def is_shown(stream: TextIO) -> bool:
    """Return whether people see what goes to a stream as it comes, so that colours and progress are worth their library."""
    return stream.isatty() or "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1, ids: int = 0) -> None:
    """Print a table to stderr: as wide as the terminal lets it be, else as plain text.

    The first `ids` columns are ids, which are cut where they are long; or else the first `left` columns are words.
    """
    if is_shown(sys.stderr):
        from adjudge.cli import console

        console.talk().print(console.table(columns, rows, left=left, ids=ids))
        return
    lines = [[shortened(cell) if place < ids else figure(cell) for place, cell in enumerate(row)] for row in rows]
    lines = [list(columns), *lines] if any(columns) else lines
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if place < (ids or left) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), file=sys.stderr)  # noqa: T201


def width() -> int:
    """Return how many characters a line of the terminal has; 80 where there is none."""
    import shutil

    return shutil.get_terminal_size().columns


def shortened(value: object, width: int = MAX_ID) -> str:
    """Return an id or a sentence as text that is shown, cut where it is long.

    >>> shortened("arena-hard", 6), shortened("short", 6)
    ('arena…', 'short')
    """
    text = visible(str(value))
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def say(sentence: str) -> None:
    """Print a sentence to stderr."""
    if is_shown(sys.stderr):
        from adjudge.cli import console

        console.talk().say(sentence)
        return
    print(visible(sentence), file=sys.stderr)  # noqa: T201


def figure(value: object) -> str:
    """Return a cell as people read it: four digits or a whole number, a dash for what is not known.

    >>> figure(261400.2), figure(0.12345), figure(None)
    ('261400', '0.1235', '–')
    """
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"  # no exponent where counts have none
    return visible(str(value))


def summary_of(understood: Understood | None) -> dict[str, object] | None:
    """Return how votes were understood, as JSON has it; None where nothing was read."""
    return None if understood is None else understood.summary()


def document(content: object) -> None:
    """Print one JSON document; what a terminal would obey is escaped as JSON does it, so that the content stays the same."""
    import json

    from adjudge.errors import UNSEEN

    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")


@contextmanager
def at_work(
    place: Engine, output: Path | None, *, resume: bool, model: str, quiet: bool
) -> Iterator[tuple[Engine, Progress | None]]:
    """Yield the engine, and what to call after every iteration.

    An engine on disk works in a folder beside the output. The folder is removed in the end, and left to resume from
    when the run is broken off.
    """
    from adjudge.errors import InputError, OptionError

    if place.name != "disk":
        if resume:
            raise OptionError(f"--resume is for --engine disk: engine {place.name} holds everything in memory")
        with _iterations(model, quiet) as progress:
            yield place, progress
        return
    if resume and output is None:
        raise OptionError("--resume needs a run that writes to a file: give -o, too")
    import shutil
    from dataclasses import replace

    from adjudge.cli import console

    work = None if output is None else output.parent / f".{output.name}.work"
    if work is not None and work.exists() and not resume:
        shutil.rmtree(work)
    try:
        with console.passes(console.talk(quiet)) as report:
            yield replace(cast(Any, place), work=work, resume=resume, report=report), None
    except (InputError, OptionError):
        if work is not None and not resume:
            shutil.rmtree(work, ignore_errors=True)
        raise
    if work is not None:
        shutil.rmtree(work)


def _iterations(model: str, quiet: bool) -> AbstractContextManager[Progress | None]:
    """Return what shows the iterations of a fit; where nobody sees it, not even the library for it is loaded."""
    if quiet or not is_shown(sys.stderr):
        return nullcontext()
    from adjudge.cli import console

    return console.progress(console.talk(), model)
