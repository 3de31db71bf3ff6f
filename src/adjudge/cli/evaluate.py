"""`adjudge evaluate`: labels against truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from adjudge.cli.console import Screen
    from adjudge.evaluation.truth import Evaluation

EXAMPLES = (
    ("Labels first:", "adjudge aggregate votes.csv -o labels.csv --probabilities probs.csv"),
    ("How many are right, and what confidence is worth:", "adjudge evaluate labels.csv --truth truth.csv"),
    ("Labels that are grades, from low to high:", "adjudge evaluate labels.csv --truth truth.csv --order no,yes"),
    ("With the probability of every label:", "adjudge evaluate labels.csv --truth truth.csv --probabilities probs.csv"),
)


def command(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="File of labels, as `adjudge aggregate` writes it.")],
    truth: Annotated[Path, typer.Option(help="File of known labels: task and label.")],
    task: Annotated[str | None, typer.Option(help="Column of the task in the labels.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label in the labels.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="Probabilities of all labels, as `adjudge aggregate --probabilities` writes them.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Labels from the lowest to the highest grade, joined by commas; numbers need none.")
    ] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Labels are sets of options, joined by | or as lists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the accuracy.")] = False,
) -> None:
    """Measure labels against truth: how many are right, and which.

    Accuracy, precision, recall and F1 per label, confusion of labels. Where the labels have a column `confidence`,
    or with --probabilities, also what confidence is worth. Labels that are grades (numbers, or with --order) also have
    their mean absolute error, quadratic-weighted kappa and rank correlation.
    """
    import adjudge as adj
    from adjudge.cli.output import label_list

    columns: Any = {"task": task, "label": label, "truth_task": truth_task, "truth_label": truth_label}
    columns["order"] = None if order is None else label_list(order, "order")
    result = adj.evaluate(labels, truth, **columns, multi=multi, probabilities=probabilities)
    if not result.tasks:
        raise adj.InputError(f"no task has both a label and truth: {labels} or {truth} has no lines with a task and a label")
    if as_json:
        from adjudge.cli import output

        output.document(result.summary())
        return
    if quiet:
        typer.echo(result.accuracy)
        return
    from adjudge.cli import console

    out = console.data()
    if not isinstance(result, adj.Evaluation):
        rows = [[name.replace("_", " "), value] for name, value in result.summary().items()]
        out.print(console.table(["", ""], rows))
        return
    out.say(f"accuracy {result.accuracy:.4f} ({result.correct} of {result.tasks} tasks that have both a label and truth)")
    out.say(f"left out: {result.without_truth} labels without truth, {result.without_label} tasks with truth but no label")
    if result.gold:
        out.say(f"{result.gold} of these labels were given as gold; accuracy of the others {result.accuracy_without_gold:.4f}")
    if result.grades is not None and len(result.label_names) > 2:  # of two labels accuracy says it all
        _grades(out, result)
    frame = result.per_label_frame()
    out.heading("per label")
    out.print(console.table(frame.columns, frame.rows(), ids=1))
    confusion = result.confusion_frame()
    out.heading("tasks by true label (rows) and chosen label (columns)")
    out.print(console.square(confusion[confusion.columns[0]].to_list(), [row[1:] for row in confusion.rows()], "true"))
    if result.calibration.tasks:
        _confidence(out, result)


def _grades(out: Screen, result: Evaluation) -> None:
    """Print how far grades are from the truth, and whether they rank tasks as it does."""
    from adjudge.cli import console

    figures = {
        "mean absolute error": result.mean_absolute_error,
        "quadratic-weighted kappa": result.quadratic_kappa,
        "rank correlation (Spearman)": result.rank_correlation,
    }
    out.heading("as grades")
    out.print(console.table(["", ""], [[name, value] for name, value in figures.items() if value == value]))


def _confidence(out: Screen, result: Evaluation) -> None:
    """Print what confidence is worth: the figures that are known, and the reliability curve."""
    from adjudge.cli import console

    found = result.calibration
    figures = {
        "wrong labels": found.errors,
        "expected wrong labels": found.expected_errors,
        "expected calibration error": found.expected_calibration_error,
        "Brier score, all labels (0 to 2)": found.brier,
        "Brier score, label right or not (0 to 1)": found.confidence_brier,
        "log loss (floor 1e-12)": found.log_loss,
    }
    out.heading(f"confidence, on {found.tasks} tasks")
    out.print(console.table(["", ""], [[name, value] for name, value in figures.items() if value == value]))
    out.print()
    out.print(console.reliability(found.bins))
