"""`quorate evaluate`: labels against truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="File of labels, as `quorate aggregate` writes it.")],
    truth: Annotated[Path, typer.Option(help="File of known labels: task and label.")],
    task: Annotated[str | None, typer.Option(help="Column of the task in the labels.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label in the labels.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Labels are sets of options, joined by | or as lists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the accuracy alone.")] = False,
) -> None:
    """Measures labels against truth: accuracy, precision, recall and F1 per label, confusion of labels."""
    import quorate as qr

    result = qr.evaluate(labels, truth, task=task, label=label, truth_task=truth_task, truth_label=truth_label, multi=multi)
    if as_json:
        import json

        typer.echo(json.dumps(result.summary(), ensure_ascii=False, allow_nan=False))
        return
    if quiet:
        typer.echo(result.accuracy)
        return
    from quorate.cli import console

    out = console.data()
    if multi:
        rows = [[name.replace("_", " "), value] for name, value in result.summary().items()]
        out.print(console.table(["", ""], rows))
        return
    out.print(f"accuracy {result.accuracy:.4f} ({result.correct} of {result.tasks} tasks that have both a label and truth)")
    out.print(f"left out: {result.without_truth} labels without truth, {result.without_label} tasks with truth but no label")
    frame = result.per_label_frame()
    out.print("\nper label", style="bold")
    out.print(console.table(frame.columns, frame.rows()))
    confusion = result.confusion_frame()
    out.print("\ntasks by true label (rows) and chosen label (columns)", style="bold")
    out.print(console.table(confusion.columns, confusion.rows()))
