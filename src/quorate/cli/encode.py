"""`quorate encode`: votes of any size into a folder that `aggregate` reads without holding it in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from quorate.cli.command import one_of
from quorate.cli.output import label_list, read_as
from quorate.cli.questions import FORMAT_HELP, PREDICTIONS_HELP, QUESTION_HELP, formats
from quorate.data.options import DEFAULTS, Duplicates

EXAMPLES = (
    ("Read a large file once, and aggregate it several times:", "quorate encode votes.csv -o encoded"),
    ("With any model, in little memory:", "quorate aggregate encoded --engine disk -m ds -o labels.csv"),
)


def command(
    votes: Annotated[
        list[str],
        typer.Argument(
            metavar="VOTES",
            help="Files or patterns: csv, tsv, jsonl, parquet, arrow, .gz or .zst; - is standard input.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to create; encoded votes there are replaced.")],
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of what a vote counts, 0 being an abstention (default: 1).")] = None,
    labels: Annotated[str | None, typer.Option(help="The labels in order, joined by commas.")] = None,
    duplicates: Annotated[
        str, typer.Option(help="Repeated votes: all, last, first or error.", autocompletion=one_of(Duplicates))
    ] = DEFAULTS.duplicates,
    memory: Annotated[str | None, typer.Option(help="Memory limit, like 2GB (default: half of the free memory).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the same command after an interruption.")] = False,
    form: Annotated[str, typer.Option("--format", help=FORMAT_HELP, autocompletion=formats)] = "auto",
    question: Annotated[str | None, typer.Option(help=QUESTION_HELP)] = None,
    predictions: Annotated[bool, typer.Option("--predictions", help=PREDICTIONS_HELP)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Encode votes into a folder, in bounded memory at any size."""
    import quorate as qr
    from quorate.cli import console

    talk = console.talk(quiet)
    with console.passes(talk) as progress:
        made = qr.encode(
            votes if len(votes) > 1 else votes[0],
            output,
            task=task,
            worker=worker,
            label=label,
            weight=weight,
            labels=None if labels is None else label_list(labels),
            duplicates=cast(Duplicates, duplicates),
            memory=memory,
            resume=resume,
            progress=progress,
            format=form,
            question=question,
            predictions=predictions,
        )
    if made.understood is not None:
        talk.say(read_as(votes, made.understood))
    size = sum(path.stat().st_size for path in output.iterdir())
    talk.say(f"{len(made)} votes on {made.n_tasks} tasks by {made.n_workers} workers are in {output} ({size / 1e6:.1f} MB)")
