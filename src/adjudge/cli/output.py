"""What commands print and write: files checked before any work, tables and sentences, labels and JSON on standard output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from adjudge.data.options import SET_SEPARATOR
from adjudge.errors import UNSEEN, OptionError, make_visible

if TYPE_CHECKING:
    import polars as pl

    from adjudge.cli.console import Screen
    from adjudge.data.vocabulary import Vocabulary
    from adjudge.data.votes import Understood

ALL_COUNT = " (all of them count: --duplicates last counts one per worker and task)"
MAX_PANEL_JUDGES = 1000  # whose names are looked at for model families
PREVIEW_ROWS = 20  # shown on a terminal
MAX_SHOWN_ID_CHARACTERS = 40  # of an id in a table of a summary


def screen() -> Screen:
    """Return the console for results that people read: stdout."""
    from adjudge.cli.console import Screen

    return Screen()


def talk(quiet: bool = False) -> Screen:
    """Return the console for everything else: stderr, silent when asked."""
    from adjudge.cli.console import Screen

    return Screen(stderr=True, quiet=quiet)


def is_shown(stream: TextIO) -> bool:
    """Return whether people see what goes to a stream as it comes, so that colours and progress are worth their library."""
    return stream.isatty() or "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ


def progress(name: str, *more: Any, quiet: bool, unseen: Any = None) -> AbstractContextManager[Any]:
    """Return a progress display of `adjudge.cli.console` by name; if nobody sees it, its library is not even loaded."""
    if quiet or not is_shown(sys.stderr):
        return nullcontext(unseen)
    from adjudge.cli import console

    return getattr(console, name)(talk(), *more)  # type: ignore[no-any-return]


def source_of(files: list[str]) -> str | list[str]:
    """Return the source of votes that a command was given: one file, or several."""
    return files if len(files) > 1 else files[0]


def groups_file(groups: str | None) -> str | None:
    """Return the file that --groups names; None for a word."""
    from adjudge.io.families import FAMILIES
    from adjudge.io.workers import ANSWERS_LIKE

    return None if groups in (ANSWERS_LIKE, FAMILIES) else groups


def propose_groups(judges: Vocabulary, groups: object = None) -> None:
    """Say which judges are of one model family, unless there are groups already, or more judges than any panel has."""
    if groups is None and judges.kind == "string" and len(judges) <= MAX_PANEL_JUDGES:
        from adjudge.io.families import propose_families

        sentence = propose_families(judges.texts())
        if sentence is not None:
            say(sentence)


def read_as(sources: Sequence[str], understood: Understood) -> str:
    """Return one line about what was read, and as what."""
    names = "standard input" if list(sources) == ["-"] else sources[0] if len(sources) == 1 else f"{len(sources)} files"
    article = "a " if re.search("table|frame", understood.format) else ""  # exports go by their names
    every = understood.repeated > 0 and understood.duplicates == "all"
    return f"read {names} as {article}{understood}{ALL_COUNT if every else ''}"


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
    from adjudge.io.write import check_files, check_folder, check_page, check_target

    require_one_stream(inputs)
    for option, name in {**frames, **(others or {})}.items():
        if name is not None:
            if str(name) == "-":
                raise OptionError(f"{option} is -: that is standard output, and this goes to a file; give its path")
            (check_target if option in frames else check_folder)(Path(name))
    check_files({**frames, **(others or {}), "standard output": 1 if to_stdout else None}, inputs)
    if others and others.get("--report") is not None:
        check_page(Path(str(others["--report"])))


def require_one_stream(inputs: Mapping[str, Any]) -> None:
    """Raise if standard input, which can be read only once, is named twice."""
    listed = {name: given if isinstance(given, list) else [given] for name, given in inputs.items()}
    streams = [name for name, files in listed.items() for file in files if str(file) == "-"]
    if len(streams) > 1:
        raise OptionError(
            f"- is given twice, for {streams[0]} and for {streams[1]}: standard input can be read only once; name a file instead"
        )


def table_target(votes: list[str], output: str | None, to: str | None, form: str, refused: dict[str, bool]) -> str | None:
    """Return where -o goes as a table of its own; None if --to says that it goes back to the form of the votes.

    What cannot go back is an error before any work: `form` is the format of the votes, `refused` are options that rule it out.
    """
    if to is None:
        return output
    from adjudge.io.write_back import target_of

    if output is None:
        raise OptionError("--to writes a file: say where with -o")
    for option, is_given in refused.items():
        if is_given:
            raise OptionError(f"--to does not go with {option}: leave one of them out")
    target_of(votes, output, to, form)
    return None


def write_frames(targets: Iterable[Path | None], frames: Iterable[Callable[[], pl.DataFrame]]) -> None:
    """Write frames to the requested files; other frames are not computed."""
    from adjudge.io.write import write_frame

    for path, frame in zip(targets, frames, strict=True):
        if path is not None:
            write_frame(frame(), path)


def flatten_sets(frame: pl.DataFrame, suffix: str = "") -> pl.DataFrame:
    """Return a frame as its file can hold it: text files have no lists, so sets are joined."""
    import polars as pl

    if frame.schema["label"] != pl.List(pl.String) or suffix.lower() not in ("", ".csv", ".tsv", ".xlsx"):
        return frame
    return frame.with_columns(pl.col("label").list.join(SET_SEPARATOR))


def print_frames(batches: Iterator[pl.DataFrame], rows: int, *, ids: int = 2, file: str = "labels.csv") -> None:
    """Print frames with `rows` rows in total: on a terminal the first rows as a table, else all rows as CSV."""
    if not sys.stdout.isatty():
        from adjudge.io.write import write_stream

        write_stream(batches, sys.stdout.buffer)
        return
    first = next(batches)
    screen().table(first.columns, first.head(PREVIEW_ROWS).rows(), ids=ids)
    if rows > PREVIEW_ROWS:
        talk().say(f"… and {rows - PREVIEW_ROWS} more: write them all with -o {file}", style="dim")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1, ids: int = 0) -> None:
    """Print a table to stderr: as wide as the terminal lets it be, else as plain text.

    The first `ids` columns are ids, which are cut where they are long; or else the first `left` columns are words.
    """
    if is_shown(sys.stderr):
        talk().table(columns, rows, left=left, ids=ids)
        return
    lines = [[shorten(cell) if place < ids else figure(cell) for place, cell in enumerate(row)] for row in rows]
    lines = [list(columns), *lines] if any(columns) else lines
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if place < (ids or left) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), file=sys.stderr)  # noqa: T201


def say(sentence: str) -> None:
    """Print a sentence to stderr."""
    if is_shown(sys.stderr):
        talk().say(sentence)
    else:
        print(make_visible(sentence), file=sys.stderr)  # noqa: T201


def shorten(value: object, width: int = MAX_SHOWN_ID_CHARACTERS) -> str:
    """Return an id or a sentence as text that is shown, cut where it is long.

    >>> shorten("arena-hard", 6), shorten("short", 6)
    ('arena…', 'short')
    """
    text = make_visible(str(value))
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def figure(value: object) -> str:
    """Return a cell as people read it: four digits or an integer, a dash for unknown values.

    >>> figure(261400.2), figure(0.12345), figure(None)
    ('261400', '0.1235', '–')
    """
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"  # no exponent where counts have none
    return make_visible(str(value))


def interval(low: float | None, high: float | None, show: Callable[[float], str] = figure) -> str:
    """Return the two ends of an interval; a dash for one that is not known.

    >>> interval(0.25, 0.5), interval(0.25, 0.5, share), interval(None, None)
    ('0.25 to 0.5', '25.0% to 50.0%', '–')
    """
    return "–" if low is None or high is None or low != low else f"{show(low)} to {show(high)}"


def share(part: float) -> str:
    """Return a share in percent.

    >>> share(0.1234)
    '12.3%'
    """
    return f"{100 * part:.1f}%"


def present(
    summary: Callable[[], Mapping[str, Any]],
    show: Callable[[Screen], None],
    sources: list[str],
    understood: Understood | None,
    *,
    as_json: bool,
    quiet: bool,
    answer: object = None,
    judges: Vocabulary | None = None,  # who may be of one model family
) -> None:
    """Print what was found: as one JSON document, or if `quiet` the one `answer` that matters, or on the screen for people."""
    if as_json:
        document(summary() | {"understood": summary_of(understood)})  # type: ignore[operator]
    elif quiet:
        if answer is not None:
            sys.stdout.write(f"{make_visible(str(answer))}\n")
    else:
        out = screen()
        if understood is not None:
            out.say(read_as(sources, understood))
        show(out)
        if judges is not None:
            propose_groups(judges)


def summary_of(understood: Understood | None) -> dict[str, object] | None:
    """Return how votes were understood, as JSON has it; None if nothing was read."""
    return None if understood is None else understood.summary()


def escape_json(text: str) -> str:
    r"""Return JSON in which everything that a terminal would obey is escaped as JSON does it, so that the content stays the same.

    >>> escape_json('"a\x9bb"')
    '"a\\u009bb"'
    """
    import json

    return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def document(content: object) -> None:
    """Print one JSON document."""
    import json

    sys.stdout.write(escape_json(json.dumps(content, ensure_ascii=False, allow_nan=False)) + "\n")
