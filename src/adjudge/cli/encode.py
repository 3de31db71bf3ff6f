"""`adjudge encode`: votes of any size into a folder that `aggregate` reads without holding it in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adjudge.cli import reading
from adjudge.cli.output import read_as
from adjudge.data.options import DEFAULTS

EXAMPLES = (
    ("Read a large file once, and aggregate it several times:", "adjudge encode votes.csv -o encoded"),
    ("With any model, in little memory:", "adjudge aggregate encoded --engine disk -m ds -o labels.csv"),
)


def command(
    votes: reading.VotesFiles,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to create; encoded votes there are replaced.")],
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    weight: reading.Weight = None,
    labels: reading.Labels = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    memory: Annotated[str | None, typer.Option(help="Memory limit, like 2GB (default: half of the free memory).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the same command after an interruption.")] = False,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Encode votes into a folder, in bounded memory at any size."""
    import adjudge as adj
    from adjudge.cli import console

    talk, how_read = console.talk(quiet), reading.given(locals())
    with console.passes(talk) as progress:
        made = adj.encode(
            reading.source(votes),
            output,
            memory=memory,
            resume=resume,
            progress=progress,
            **how_read,
        )
    if made.understood is not None:
        talk.say(read_as(votes, made.understood))
    size = sum(path.stat().st_size for path in output.iterdir())
    talk.say(f"{len(made)} votes on {made.n_tasks} tasks by {made.n_workers} workers are in {output} ({size / 1e6:.1f} MB)")
