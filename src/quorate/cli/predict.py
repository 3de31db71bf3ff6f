"""`quorate predict`: labels of new tasks, from a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from quorate.cli.command import one_of
from quorate.cli.questions import FORMAT_HELP, PREDICTIONS_HELP, QUESTION_HELP, formats
from quorate.data.options import DEFAULTS, Confidence, Duplicates

EXAMPLES = (
    ("Save what was learned:", "quorate aggregate votes.csv -o labels.csv --save crowd.quorate"),
    ("Label new tasks with it:", "quorate predict new.csv --using crowd.quorate -o new-labels.csv"),
)
SHOWN = 10  # unknown workers named on the terminal


def command(
    votes: Annotated[list[str], typer.Argument(metavar="VOTES", help="Files of votes; - is standard input.")],
    using: Annotated[Path, typer.Option(help="The model that `quorate aggregate --save` wrote.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    workers: Annotated[Path | None, typer.Option(help="Write the workers here, and whether the model knows each.")] = None,
    probabilities: Annotated[Path | None, typer.Option(help="Write the probability of every label here.")] = None,
    task: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the worker.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of what a vote counts, 0 being an abstention (default: 1).")] = None,
    duplicates: Annotated[
        str, typer.Option(help="Repeated votes: all, last, first or error.", autocompletion=one_of(Duplicates))
    ] = DEFAULTS.duplicates,
    confidence: Annotated[
        str | None,
        typer.Option(
            help="honest (of a model that was fitted so) or posterior.",
            show_default="the model's",
            autocompletion=one_of(Confidence),
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads to use (default: all cores).")] = None,
    form: Annotated[str, typer.Option("--format", help=FORMAT_HELP, autocompletion=formats)] = "auto",
    question: Annotated[str | None, typer.Option(help=QUESTION_HELP)] = None,
    predictions: Annotated[bool, typer.Option("--predictions", help=PREDICTIONS_HELP)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only data.")] = False,
) -> None:
    """Label new tasks with a saved model.

    Nothing is learned from their votes. Workers whom the model does not know are treated as the mean worker.
    """
    import quorate as qr
    from quorate.cli import output as out
    from quorate.errors import listed
    from quorate.io.write import write_frame

    frames = {"-o": output, "--workers": workers, "--probabilities": probabilities}
    out.check(frames, {"the votes": votes, "the model": using}, to_stdout=output is None)
    model = qr.load(using)
    source, counted = votes if len(votes) > 1 else votes[0], cast(Duplicates, duplicates)
    columns: dict[str, Any] = {"task": task, "worker": worker, "label": label, "duplicates": counted}
    export: dict[str, Any] = {"format": form, "question": question, "predictions": predictions}
    how: dict[str, Any] = {"confidence": cast(Confidence | None, confidence), "threads": threads}
    result = model.predict(source, **columns, **export, weight=weight, **how)
    if workers is not None:
        write_frame(result.workers_frame(), workers)
    if probabilities is not None:
        write_frame(result.probabilities_frame(), probabilities)
    if output is not None:
        write_frame(result.labels_frame(), output)
    else:
        out.labels(iter([result.labels_frame()]), len(result.votes.tasks) + len(result.votes.unvoted))
    if quiet:
        return
    from quorate.cli import console

    talk, unknown = console.talk(), result.unknown_workers
    talk.say(f"{result.votes.n_tasks} tasks labelled by {model!r}")
    if unknown:
        talk.say(f"{len(unknown)} workers are unknown, and treated as the mean worker: {listed(unknown, SHOWN)}")
