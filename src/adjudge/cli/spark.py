"""Commands over Spark: `adjudge stream`, and what `adjudge aggregate --engine spark` reads, checks and writes differently."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import command, split_words
from adjudge.data.options import STREAMED_DEFAULTS, Kept, StreamedModel
from adjudge.errors import InputError, OptionError

if TYPE_CHECKING:
    from types import SimpleNamespace

    import polars as pl

    from adjudge.engines.base import Engine
    from adjudge.spark.result import SparkResult

PRINTED_BATCH_LABELS = 1 << 16  # labels printed at once


@command(
    (
        "Decide on the files in a folder; run it again for new files:",
        "adjudge stream 'in/*.csv' --labels yes,no --state job -o out.csv --once",
    ),
    model=StreamedModel,
    duplicates=Kept,
    bad=("fail", "skip"),
)
def stream(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Folder or pattern of files of votes, of one format.")],
    labels: Annotated[str, typer.Option(help="The labels votes may have, joined by commas.")],
    state: Annotated[Path, typer.Option(help="Folder of this job's state; starting again with it resumes the job.")],
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for decisions, with one subfolder per batch: .parquet, .csv, .json, …")
    ],
    form: Annotated[str | None, typer.Option("--format", help="Format of the files, if SOURCE has no suffix.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master (else spark-submit's, else this machine).")] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", "--once", help="Process the files present and exit; else wait for more.")
    ] = False,
    every: Annotated[str, typer.Option(help="Time between two batches.")] = "1 second",
    files: Annotated[int | None, typer.Option(min=1, help="Maximum number of files per batch.")] = None,
    model: Annotated[
        str, typer.Option("-m", "--model", help="fds, ds, hybrid, or auto: fds that refits as auto.")
    ] = STREAMED_DEFAULTS.model,
    seed: Annotated[int, typer.Option(help="Decides ties.")] = STREAMED_DEFAULTS.seed,
    duplicates: Annotated[
        str, typer.Option(help="A worker's second vote on a task: last replaces, all adds.")
    ] = STREAMED_DEFAULTS.duplicates,
    strength: Annotated[
        float, typer.Option(help="Pseudo-votes of the mean worker per worker; 0 is the paper.")
    ] = STREAMED_DEFAULTS.strength,
    confidence: Annotated[
        str, typer.Option(help="honest: judged from other tasks and shared errors; or posterior (the model's own).")
    ] = STREAMED_DEFAULTS.confidence,
    gold: Annotated[Path | None, typer.Option(help="File of known labels (task, gold label); fixed, and learned from.")] = None,
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    order: Annotated[str | None, typer.Option(help="Columns that order the votes of a batch, joined by commas.")] = None,
    bad: Annotated[str, typer.Option(help="Rows that are not votes: fail, or skip.")] = "fail",
    refit_every: Annotated[int, typer.Option(help="Refit after every N batches; 0: never.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Keep labels up to date while files of votes appear.

    Every vote counts once, even when the job is killed. Spark reads the files.
    """
    from adjudge.spark.files import watch

    _check_folders(source, state, output)
    settings: Any = {"model": model, "seed": seed, "duplicates": duplicates, "strength": strength, "confidence": confidence}
    columns: Any = {"task": task, "worker": worker, "label": label, "bad": bad, "order": order.split(",") if order else ()}
    online = adj.Online(labels=split_words(labels), gold=gold, **settings)
    job = adj.SparkStream(online, state=state, sink=output, refit_every=refit_every, **columns)
    is_ours = "PYSPARK_GATEWAY_PORT" not in os.environ  # under spark-submit, what is logged is the operator's choice
    votes = watch(source, form=form, files=files, master=master, quiet=is_ours)
    if is_ours:
        votes.sparkSession.sparkContext.setLogLevel("OFF")
    try:
        done = job.run(votes, **({"availableNow": True} if available_now else {"processingTime": every}))
    except KeyboardInterrupt:  # how one leaves a job that waits for more
        done = job.progress
    if not quiet:
        counts = {"batches": done.batch + 1, "votes": done.votes}
        rare = {"without a label": done.abstentions, "bad rows left out": done.skipped}
        facts = [f"{name}: {number}" for name, number in (counts | {k: n for k, n in rare.items() if n}).items()]
        out.talk().say(f"{', '.join(facts)}; decisions are in {output}")


def _check_folders(source: str, state: Path, output: str) -> None:
    """Raise when what is written would be read, or written over: three folders, none in another that matters."""
    import glob

    from adjudge.io.write import lies_in

    parts = Path(source).parts
    fixed = [place for place, part in enumerate(parts) if glob.has_magic(part)]
    votes = Path(*parts[: fixed[0]]) if fixed else Path(source)
    for option, folder in (("--state", str(state)), ("-o", output)):
        if "://" not in source + folder and (lies_in(folder, votes) or lies_in(votes, folder)):
            raise InputError(
                f"{option} {folder} and the votes in {votes} overlap, so the output would be read as votes: keep them apart"
            )
    if "://" not in output and (lies_in(output, state) or lies_in(state, output)):
        raise InputError(f"-o {output} and --state {state} overlap: give each its own folder")


def check(asked: SimpleNamespace, frames: Mapping[str, str | None], inputs: Mapping[str, Any]) -> None:
    """Raise for what Spark cannot do or write, as far as that is known without starting it, which takes long.

    `frames` are folders to write, `inputs` is what is read: each by its name for users.
    """
    from adjudge.io.write import check_files, check_folder
    from adjudge.spark.files import check_names

    if asked.save is not None:
        check_folder(asked.save)
    local = {name: path for name, path in {**frames, "--save": asked.save}.items() if "://" not in str(path)}
    check_files(local, {name: source for name, source in inputs.items() if "://" not in str(source)})
    refused = {"--multi": asked.multi, "--truth": asked.truth["truth"], "--weight": asked.how_read["weight"]}
    for option, value in (refused | {"--report": asked.report}).items():
        if value:
            raise OptionError(f"{option} does not work with --engine spark: leave it out, or choose another engine")
    if asked.votes == ["-"]:
        raise InputError("Spark cannot read standard input: name a file, a folder or a URI")
    check_names([], [name for name in frames.values() if name is not None])


def prepare(engine: Engine, asked: SimpleNamespace, frames: Mapping[str, str | None]) -> Engine:
    """Return the engine of a command: it starts Spark at the master when votes are read, and asks it for targets elsewhere.

    Spark prints nothing of its own: errors become one line.
    """
    from adjudge.spark.files import check_names, check_target

    def check_targets(running: Any) -> None:
        for target in frames.values():
            if target is not None:
                check_target(target, running)

    check_names(asked.votes, [])
    return replace(cast(Any, engine), master=asked.master, quiet=True, on_start=check_targets)  # type: ignore[no-any-return]


def write(asked: SimpleNamespace, result: SparkResult) -> None:
    """Write the requested outputs as folders, by Spark."""
    from adjudge.spark.files import save

    for target, frame in ((asked.workers, "workers"), (asked.probabilities, "probabilities"), (asked.output, "labels")):
        if target is not None:
            save(getattr(result, frame), target)


def show(result: SparkResult) -> None:
    """Print the labels: a preview on a terminal, CSV into a pipe; never more of them than a few at once."""
    labels = result.labels.limit(out.PREVIEW_ROWS) if sys.stdout.isatty() else result.labels
    out.print_frames(_batches(labels), result.votes.n_tasks, file="labels.parquet")


def _batches(labels: Any) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Spark frame as they come; one batch at least, for its columns."""
    import polars as pl

    from adjudge.spark.session import gather

    schema, rows = gather(labels.limit(0)).schema, labels.toLocalIterator()
    while True:
        lines = [tuple(row) for row in islice(rows, PRINTED_BATCH_LABELS)]
        yield pl.DataFrame(lines, schema=schema, orient="row")
        if len(lines) < PRINTED_BATCH_LABELS:
            return
