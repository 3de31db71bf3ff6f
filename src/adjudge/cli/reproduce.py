"""`adjudge reproduce`: the paper's tables and figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adjudge.cli.command import one_of


def command(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for tables, plots and report.md; made if absent.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder that has NAME/votes.csv and truth.csv (default: ADJUDGE_DATA, else ./data)."),
    ] = None,
    sets: Annotated[str | None, typer.Option(help="Sets to run, joined by commas (default: all six).")] = None,
    subset: Annotated[
        str,
        typer.Option(help="Votes of a question: the first in the file, or random.", autocompletion=one_of((), "first", "random")),
    ] = "first",
    trials: Annotated[int, typer.Option(help="Seeds per point; they decide ties and draw random subsets.")] = 10,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the cells that an earlier run finished.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Run the paper's experiments, and set its figures beside ours.

    An interrupted run resumes.
    """
    from adjudge.cli import console
    from adjudge.cli.datasets import default_folder
    from adjudge.errors import InputError
    from adjudge.io.write import identities, lies_in
    from adjudge.paper import plots, protocol, report
    from adjudge.paper.grid import Plan
    from adjudge.paper.reproduce import cells_of, reproduce

    folder = data or default_folder()
    names = protocol.choose(None if sets is None else sets.split(","))
    if identities(output) & identities(folder) or any(lies_in(output, folder / name) for name in names):
        raise InputError(f"{output} is a folder of the data sets that are read: name another folder")
    talk = console.talk(quiet)
    with console.counter(talk, cells_of(names, folder)) as progress:
        found = reproduce(folder, output, names, Plan(subset, trials), fresh=fresh, done=lambda name: progress(name, 1))
    counts = report.summary(report.judge(found.grid, subset))
    talk.print(console.table(counts.columns, counts.rows()))
    if not found.drawn:
        talk.say(plots.MISSING)
    talk.say(f"the report is {output / 'report.md'}")
