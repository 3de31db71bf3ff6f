"""What `quorate aggregate --engine spark` does otherwise: Spark reads the votes, and writes what comes of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.errors import InputError, OptionError

if TYPE_CHECKING:
    from quorate.spark.result import SparkResult

PREVIEW = 20  # labels shown on a terminal
CHUNK = 1 << 16  # labels printed at once


def prepare(votes: list[str], master: str | None, outputs: Sequence[str | None], refused: Mapping[str, object]) -> None:
    """Start Spark; what it cannot do or write is said before long work."""
    from quorate.spark.files import check_target
    from quorate.spark.session import session

    for option, value in refused.items():
        if value:
            raise OptionError(f"{option} does not work with --engine spark: leave it out, or choose another engine")
    if votes == ["-"]:
        raise InputError("Spark cannot read standard input: name a file, a folder or a URI")
    targets = [name for name in outputs if name is not None]
    running = session(master)
    running.sparkContext.setLogLevel("FATAL")  # what goes wrong is told in one line, by us
    for target in targets:
        check_target(target, running)


def write(result: SparkResult, output: str | None, workers: str | None, probabilities: str | None) -> None:
    """Write what was asked for, as folders that Spark writes."""
    from quorate.spark.files import save

    for target, frame in ((workers, "workers"), (probabilities, "probabilities"), (output, "labels")):
        if target is not None:
            save(getattr(result, frame), target)


def show(result: SparkResult) -> None:
    """Print the labels: a preview on a terminal, CSV into a pipe; never more of them than a few at once."""
    import polars as pl

    from quorate.io.write import write_stream
    from quorate.spark.session import gather

    schema = gather(result.labels.limit(0)).schema
    if sys.stdout.isatty():
        from quorate.cli import console

        rows = [tuple(row) for row in result.labels.limit(PREVIEW).collect()]
        console.data().print(console.table(list(schema), rows, ids=2))
        if result.votes.n_tasks > PREVIEW:
            more = result.votes.n_tasks - PREVIEW
            console.talk().say(f"… and {more} more: write them all with -o labels.parquet", style="dim")
        return
    write_stream(pl.DataFrame(schema=schema), sys.stdout.buffer)
    lines: list[tuple[Any, ...]] = []
    for row in result.labels.toLocalIterator():
        lines.append(tuple(row))
        if len(lines) == CHUNK:
            _print(lines, schema)
            lines = []
    _print(lines, schema)


def _print(lines: list[tuple[Any, ...]], schema: Any) -> None:
    import polars as pl

    frame = pl.DataFrame(lines, schema=schema, orient="row")
    sys.stdout.buffer.write(frame.write_csv(include_header=False).encode())
    sys.stdout.buffer.flush()
