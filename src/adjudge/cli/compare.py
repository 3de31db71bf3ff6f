"""`adjudge compare`: models on the same votes, which differences are real, and which model to take."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from adjudge.cli import reading
from adjudge.cli.command import for_engine, for_knowledge, for_model, for_output
from adjudge.data.options import DEFAULTS

if TYPE_CHECKING:
    from adjudge.evaluation.compare.comparison import Comparison
    from adjudge.evaluation.compare.fits import Progress

EXAMPLES = (
    ("What votes alone tell of the models:", "adjudge compare votes.csv"),
    ("Accuracy with intervals, and which differences are real:", "adjudge compare votes.csv --truth truth.csv"),
    ("The same from known labels that models learn from:", "adjudge compare votes.csv --gold gold.csv"),
    ("Two models, and the tasks in dispute:", "adjudge compare votes.csv --models auto,ds --disagreements disputed.csv"),
)
AXIS = 40  # characters of the axis that accuracies are drawn on


def command(
    votes: reading.VotesFiles,
    truth: Annotated[Path | None, for_knowledge(help="Known labels to judge models by; never learned from.")] = None,
    truth_task: Annotated[str | None, for_knowledge(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, for_knowledge(help="Column of the label in the truth.")] = None,
    gold: Annotated[
        Path | None, for_knowledge(help="Known labels to learn from; without --truth models are judged by them, cross-validated.")
    ] = None,
    models: Annotated[
        str | None,
        for_model(help="Names of models, joined by commas, or all; mv is always one (default: auto and the paper's)."),
    ] = None,
    folds: Annotated[int, for_model(help="Parts of the gold, each hidden from the fit that it judges.")] = 5,
    refits: Annotated[
        int | None, for_model(help="Fits without a fifth of the workers, and of the tasks (default: 5 without truth and gold).")
    ] = None,
    resamples: Annotated[int, for_model(help="Resamples of the tasks for each interval; 0 for none.")] = 1000,
    confidence: Annotated[float, for_model(help="Share of the resamples that an interval contains.")] = 0.95,
    seed: Annotated[int, for_model(help="Decides ties, folds and resamples.")] = DEFAULTS.seed,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    labels: reading.Labels = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    weight: reading.Weight = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    output_models: Annotated[Path | None, for_output("-o", "--output", help="Write the figures of all models here.")] = None,
    differences: Annotated[Path | None, for_output(help="Write the differences between every two models here.")] = None,
    disagreements: Annotated[Path | None, for_output(help="Write the tasks on which majority vote is overruled here.")] = None,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the name of the advised model.")] = False,
    threads: Annotated[int | None, for_engine(help="How many threads to use (default: all cores).")] = None,
) -> None:
    """Compare models on the same votes, and say which to take.

    With --truth or --gold by their accuracy. Without, by what votes alone tell: where models differ from majority vote and on
    what evidence, and how stable their labels are.
    """
    import adjudge as adj
    from adjudge.cli import console, output
    from adjudge.evaluation.compare.compare import EVERY, model_names
    from adjudge.io.write import write_frame

    targets = {"--output": output_models, "--differences": differences, "--disagreements": disagreements}
    output.check(targets, {"the votes": votes, "the truth": truth, "the gold": gold}, to_stdout=True)
    # Names are checked before anything is read.
    given = models if models is None or models == EVERY else output.label_list(models, "models")
    chosen = None if given is None else model_names(given)
    known = adj.read(reading.source(votes), **reading.given(locals()))
    with _progress(quiet or as_json) as progress:
        found = adj.compare(
            known,
            truth=truth,
            gold=gold,
            models=cast(Any, chosen),
            folds=folds,
            refits=refits,
            resamples=resamples,
            confidence=confidence,
            seed=seed,
            threads=threads,
            progress=progress,
            truth_task=truth_task,
            truth_label=truth_label,
            strict=strict,
        )
    frames = (found.models_frame, found.differences_frame, found.disagreements_frame)
    for frame, target in zip(frames, targets.values(), strict=True):
        if target is not None:
            write_frame(frame(), target)
    if as_json:
        output.document(found.summary() | {"understood": output.summary_of(known.understood)})
    elif quiet:
        typer.echo(found.best)
    else:
        if known.understood is not None:
            console.data().say(output.read_as(votes, known.understood))
        _print(found)


def _progress(silent: bool) -> AbstractContextManager[Progress | None]:
    """Return what shows how many fits are done; where nobody sees it, nothing is made for it."""
    from adjudge.cli import console, output

    return nullcontext() if silent or not output.is_shown(sys.stderr) else console.steps(console.talk())


def _print(found: Comparison) -> None:
    from adjudge.cli import console

    out = console.data()
    out.print()
    for sentence in found.advice:
        out.say(sentence)
    out.print()
    columns, rows = found.overview()
    out.print(console.table(columns, rows))
    if found.judged_by is not None:
        out.heading(f"accuracy with its {100 * found.confidence:g}% interval; │ is majority vote")
        out.print(console.table(["", ""], axis(found), left=2))


def axis(found: Comparison) -> list[tuple[str, str]]:
    """Return the name of every model that ran, and its accuracy with its interval drawn on one axis."""
    rows = found.models_frame().drop_nulls("accuracy").select("model", "accuracy", "accuracy_low", "accuracy_high").rows()
    spans = [(name, value, value if low is None else low, value if high is None else high) for name, value, low, high in rows]
    left, right = min(low for *_, low, _ in spans), max(high for *_, high in spans)
    majority = next(value for name, value, *_ in spans if name == "mv")

    def place(value: float) -> int:
        return int((value - left) / max(right - left, 1e-12) * (AXIS - 1) + 0.5)

    out = []
    for name, value, low, high in spans:
        line = [" "] * AXIS
        line[place(low) : place(high) + 1] = "─" * (place(high) + 1 - place(low))
        line[place(low)], line[place(high)] = "├", "┤"
        line[place(majority)] = {" ": "│", "─": "┼"}.get(line[place(majority)], line[place(majority)])
        line[place(value)] = "●"
        out.append((name, "".join(line)))
    return out
