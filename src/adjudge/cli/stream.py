"""`adjudge stream`: labels kept up to date while files of votes appear, with Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from adjudge.cli.command import one_of
from adjudge.data.options import STREAMED_DEFAULTS, Confidence, Kept, StreamedModel

EXAMPLES = (
    (
        "Decide on the files that are there; once more, on those that came since:",
        "adjudge stream 'in/*.csv' --labels yes,no --state job -o out.csv --once",
    ),
)


def command(
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
        str,
        typer.Option(
            "-m", "--model", help="fds, ds, hybrid, or auto: fds that refits as auto.", autocompletion=one_of(StreamedModel)
        ),
    ] = STREAMED_DEFAULTS.model,
    seed: Annotated[int, typer.Option(help="Decides ties.")] = STREAMED_DEFAULTS.seed,
    duplicates: Annotated[
        str, typer.Option(help="A worker's second vote on a task: last replaces, all adds.", autocompletion=one_of(Kept))
    ] = STREAMED_DEFAULTS.duplicates,
    strength: Annotated[
        float, typer.Option(help="Pseudo-votes of the mean worker per worker; 0 is the paper.")
    ] = STREAMED_DEFAULTS.strength,
    confidence: Annotated[
        str,
        typer.Option(
            help="honest: judged from other tasks and shared errors; or posterior (the model's own).",
            autocompletion=one_of(Confidence),
        ),
    ] = STREAMED_DEFAULTS.confidence,
    gold: Annotated[Path | None, typer.Option(help="File of known labels (task, gold label); fixed, and learned from.")] = None,
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    order: Annotated[str | None, typer.Option(help="Columns that order the votes of a batch, joined by commas.")] = None,
    bad: Annotated[
        str, typer.Option(help="Rows that are not votes: fail, or skip.", autocompletion=one_of((), "fail", "skip"))
    ] = "fail",
    refit_every: Annotated[int, typer.Option(help="Refit after every N batches; 0: never.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Keep labels up to date while files of votes appear.

    Every vote counts once, even when the job is killed. Spark reads the files.
    """
    import adjudge as adj
    from adjudge.cli.output import label_list
    from adjudge.spark.files import watch

    _check_folders(source, state, output)
    settings: dict[str, Any] = {
        "model": model,
        "seed": seed,
        "duplicates": duplicates,
        "strength": strength,
        "confidence": confidence,
        "gold": gold,
    }
    online = adj.Online(labels=label_list(labels), **settings)
    columns = order.split(",") if order else ()
    on_bad: Any = bad
    stream = adj.SparkStream(
        online,
        state=state,
        sink=output,
        task=task,
        worker=worker,
        label=label,
        order=columns,
        bad=on_bad,
        refit_every=refit_every,
    )
    ours = "PYSPARK_GATEWAY_PORT" not in os.environ  # under spark-submit, what is logged is the operator's choice
    votes = watch(source, form=form, files=files, master=master, quiet=ours)
    if ours:
        votes.sparkSession.sparkContext.setLogLevel("OFF")
    try:
        done = stream.run(votes, **({"availableNow": True} if available_now else {"processingTime": every}))
    except KeyboardInterrupt:  # how one leaves a job that waits for more
        done = stream.progress
    if not quiet:
        counts = {"batches": done.batch + 1, "votes": done.votes}
        rest = {"without a label": done.abstentions, "bad rows left out": done.skipped}
        facts = [f"{name}: {number}" for name, number in (counts | {k: n for k, n in rest.items() if n}).items()]
        from adjudge.cli import console

        console.talk().say(f"{', '.join(facts)}; decisions are in {output}")


def _check_folders(source: str, state: Path, output: str) -> None:
    """Raise when what is written would be read, or written over: three folders, none in another that matters."""
    import glob

    from adjudge.errors import InputError
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
