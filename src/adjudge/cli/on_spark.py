"""What `adjudge aggregate --engine spark` does otherwise: Spark reads the votes, and writes what comes of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adjudge.errors import InputError, OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from adjudge.engines.base import Engine
    from adjudge.spark.result import SparkResult

PREVIEW = 20  # labels shown on a terminal
CHUNK = 1 << 16  # labels printed at once


def check(frames: Mapping[str, str | None], save: Path | None, inputs: Mapping[str, Any], refused: Mapping[str, object]) -> None:
    """Raise for what Spark cannot do or write, as far as that is known without starting it, which takes long.

    `frames` are folders to write, `save` is a file on this machine, `inputs` is what is read: each by its name for users.
    """
    from adjudge.io.write import check_files, check_folder
    from adjudge.spark.files import check_names

    if save is not None:
        check_folder(save)
    local = {name: path for name, path in {**frames, "--save": save}.items() if "://" not in str(path)}
    check_files(local, {name: source for name, source in inputs.items() if "://" not in str(source)})
    for option, value in refused.items():
        if value:
            raise OptionError(f"{option} does not work with --engine spark: leave it out, or choose another engine")
    if inputs["the votes"] == ["-"]:
        raise InputError("Spark cannot read standard input: name a file, a folder or a URI")
    check_names([], _named(frames))


def prepared(engine: Engine, votes: list[str], master: str | None, frames: Mapping[str, str | None]) -> Engine:
    """Return the engine of a command: it starts Spark at `master` when votes are read, and asks it for targets elsewhere.

    Nothing of Spark's own appears on the screen: what goes wrong is said in one line, by us.
    """
    from adjudge.spark.files import check_names, check_target

    def check_targets(running: Any) -> None:
        for target in _named(frames):
            check_target(target, running)

    check_names(votes, [])
    return replace(cast(Any, engine), master=master, quiet=True, on_start=check_targets)  # type: ignore[no-any-return]


def _named(frames: Mapping[str, str | None]) -> list[str]:
    return [name for name in frames.values() if name is not None]


def write(result: SparkResult, output: str | None, workers: str | None, probabilities: str | None) -> None:
    """Write what was asked for, as folders that Spark writes."""
    from adjudge.spark.files import save

    for target, frame in ((workers, "workers"), (probabilities, "probabilities"), (output, "labels")):
        if target is not None:
            save(getattr(result, frame), target)


def show(result: SparkResult) -> None:
    """Print the labels: a preview on a terminal, CSV into a pipe; never more of them than a few at once."""
    import polars as pl

    from adjudge.io.write import write_stream
    from adjudge.spark.session import gather

    schema = gather(result.labels.limit(0)).schema
    if sys.stdout.isatty():
        from adjudge.cli import console

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
