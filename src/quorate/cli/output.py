"""What commands write, apart from what people read: files that are checked before any work, labels and JSON on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

PREVIEW = 20  # labels shown on a terminal


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
    from quorate.io.write import check_files, check_folder, check_target

    for name in frames.values():
        if name is not None:
            check_target(Path(name))
    for name in (others or {}).values():
        if name is not None:
            check_folder(Path(name))
    check_files({**frames, **(others or {}), "standard output": 1 if to_stdout else None}, inputs)


def labels(batches: Iterator[pl.DataFrame], tasks: int) -> None:
    """Print labels: the first of them as a table on a terminal, all as CSV into a pipe or a file."""
    if not sys.stdout.isatty():
        from quorate.io.write import write_stream

        write_stream(batches, sys.stdout.buffer)
        return
    from quorate.cli import console

    first = next(batches)
    console.data().print(console.table(first.columns, first.head(PREVIEW).rows(), ids=2))
    if tasks > PREVIEW:
        console.talk().say(f"… and {tasks - PREVIEW} more: write them all with -o labels.csv", style="dim")


def document(content: object) -> None:
    """Print one JSON document; what a terminal would obey is escaped as JSON does it, so that the content stays the same."""
    import json

    from quorate.errors import UNSEEN

    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")
