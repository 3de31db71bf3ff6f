"""`adjudge predict`: labels of new tasks, from a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adjudge.cli import reading
from adjudge.cli.command import one_of
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Confidence

EXAMPLES = (
    ("Save what was learned:", "adjudge aggregate votes.csv -o labels.csv --save crowd.adjudge"),
    ("Label new tasks with it:", "adjudge predict new.csv --using crowd.adjudge -o new-labels.csv"),
)
SHOWN = 10  # unknown workers named on the terminal


def command(
    votes: reading.VotesFiles,
    using: Annotated[Path, typer.Option(help="The model that `adjudge aggregate --save` wrote.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    workers: Annotated[Path | None, typer.Option(help="Write the workers here, and whether the model knows each.")] = None,
    probabilities: Annotated[Path | None, typer.Option(help="Write the probability of every label here.")] = None,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    weight: reading.Weight = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    set_separator: reading.SetSeparator = SET_SEPARATOR,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    confidence: Annotated[
        str | None,
        typer.Option(
            help="honest (of a model that was fitted so) or posterior.",
            show_default="the model's",
            autocompletion=one_of(Confidence),
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads to use (default: all cores).")] = None,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only data.")] = False,
) -> None:
    """Label new tasks with a saved model.

    Nothing is learned from their votes. Workers whom the model does not know are treated as the mean worker. A model of sets
    (aggregate --multi --save) reads sets.
    """
    import adjudge as adj
    from adjudge.cli import output as out
    from adjudge.cli.aggregate import flat
    from adjudge.errors import OptionError, listed
    from adjudge.io.write import write_frame

    frames = {"-o": output, "--workers": workers, "--probabilities": probabilities}
    out.check(frames, {"the votes": votes, "the model": using}, to_stdout=output is None)
    model = adj.load(using)
    how: dict[str, Any] = {**reading.given(locals()), "threads": threads, "confidence": confidence}
    if isinstance(model, adj.FittedSets):
        how["set_separator"] = set_separator
    elif set_separator != SET_SEPARATOR:
        raise OptionError(f"--set-separator is for models of sets (aggregate --multi --save), and {using} is of single labels")
    result = model.predict(reading.source(votes), **how)
    if workers is not None:
        write_frame(result.workers_frame(), workers)
    if probabilities is not None:
        write_frame(result.probabilities_frame(), probabilities)
    if output is not None:
        write_frame(flat(result.labels_frame(), output.suffix), output)
    else:
        out.labels(iter([flat(result.labels_frame())]), len(result.votes.tasks) + len(result.votes.unvoted))
    if quiet:
        return
    from adjudge.cli import console

    talk, unknown = console.talk(), result.unknown_workers
    if result.understood is not None:
        talk.say(out.read_as(votes, result.understood))
    talk.say(f"{len(result.votes.tasks)} tasks labelled by {model!r}")
    if unknown:
        talk.say(f"{len(unknown)} workers are unknown, and treated as the mean worker: {listed(unknown, SHOWN)}")
