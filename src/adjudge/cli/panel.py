"""`adjudge panel`: how many judges are enough, which panel for which money, which judge adds nothing."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from adjudge.cli import reading
from adjudge.cli.command import one_of
from adjudge.data.options import DEFAULTS, ModelName, PanelKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl

    from adjudge.evaluation.panel.study import PanelStudy

EXAMPLES = (
    ("How many judges are enough, and which add nothing:", "adjudge panel votes.csv"),
    ("Measured by known labels, every judge into a file:", "adjudge panel votes.csv --truth truth.csv --judges judges.csv"),
    ("The best panel for 3 cents a task, at one cent a vote:", "adjudge panel votes.csv --cost 0.01 --budget 0.03"),
)
MAX_JUDGES = 10  # on the screen
MAX_PANELS = 12


def command(
    votes: reading.VotesFiles,
    truth: Annotated[Path | None, typer.Option(help="Known labels, to measure by; else what all votes say.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    cost: Annotated[
        str | None, typer.Option(help="What a vote costs: a number, ann=0.2,bob=0.5, or a table worker, cost.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="The money for one task.")] = None,
    model: Annotated[
        str,
        typer.Option("-m", "--model", help="The model that labels the votes of a panel.", autocompletion=one_of(ModelName)),
    ] = DEFAULTS.model,
    by: Annotated[
        str,
        typer.Option(
            help="Panels are some judges, or some votes of each task: auto, judges or votes.", autocompletion=one_of(PanelKind)
        ),
    ] = "auto",
    sizes: Annotated[str | None, typer.Option(help="Sizes of panels, joined by commas: 1,3,5.")] = None,
    subsets: Annotated[int, typer.Option(help="Random panels of each size, at most.")] = 50,
    within: Annotated[float, typer.Option(help="Accuracy that does not matter.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the random panels.")] = 0,
    curve: Annotated[Path | None, typer.Option(help="Write a line per size here.")] = None,
    judges: Annotated[Path | None, typer.Option(help="Write a line per judge here.")] = None,
    panels: Annotated[Path | None, typer.Option(help="Write the chosen panels here.")] = None,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    labels: reading.Labels = None,
    wide: reading.Wide = False,
    count: reading.Count = None,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    strict: reading.Strict = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only how many are enough.")] = False,
) -> None:
    """Find how many judges are enough, and which to choose.

    Random panels of every size are labelled and measured, by truth where it is given.
    """
    import adjudge as adj
    from adjudge.cli import console, output
    from adjudge.cli.relabel import typed_cost
    from adjudge.io.write import write_frame

    prices = None if cost is None else typed_cost(cost)
    inputs = {"the votes": votes, "the truth": truth, "the costs": prices if isinstance(prices, Path) else None}
    output.check({"--curve": curve, "--judges": judges, "--panels": panels}, inputs, to_stdout=True)
    known = adj.read(reading.source(votes), **reading.given(locals()))
    with _progress(quiet or as_json) as progress:
        study = adj.panel(
            known,
            truth=truth,
            truth_task=truth_task,
            truth_label=truth_label,
            cost=prices,
            budget=budget,
            model=cast(Any, model),
            by=cast(Any, by),
            sizes=_sizes(sizes),
            subsets=subsets,
            within=within,
            seed=seed,
            progress=progress,
        )
    for path, frame in ((curve, study.sizes_frame), (judges, study.judges_frame), (panels, lambda: _flat(study.panels_frame()))):
        if path is not None:
            write_frame(frame(), path)
    if as_json:
        output.document(study.to_dict() | {"understood": output.summary_of(known.understood)})
    elif quiet:
        typer.echo(study.enough)
    else:
        if known.understood is not None:
            console.data().say(output.read_as(votes, known.understood))
        _print(study)


def _sizes(given: str | None) -> Sequence[int] | None:
    from adjudge.errors import OptionError, shown

    if given is None:
        return None
    try:
        return [int(size) for size in given.split(",")]
    except ValueError:
        raise OptionError(f"--sizes is {shown(given)}: give whole numbers joined by commas, as 1,3,5") from None


def _progress(quiet: bool) -> AbstractContextManager[Callable[[str], None] | None]:
    """Return what shows the panel that is looked at, on a terminal; where nobody sees it, nothing is loaded for it."""
    import sys

    from adjudge.cli.output import is_shown

    return nullcontext() if quiet or not is_shown(sys.stderr) else _shown()


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    from adjudge.cli import console
    from adjudge.errors import visible

    with console.talk().status("") as status:
        yield lambda what: status.update(visible(what))


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return chosen panels with their workers as one text, a JSON list: tables of text have no lists."""
    import polars as pl

    texts = [json.dumps(workers, ensure_ascii=False) for workers in frame["workers"].to_list()]
    return frame.with_columns(workers=pl.Series(texts, dtype=pl.String))


def _print(study: PanelStudy) -> None:
    """Print the answer, the curve, the judges and the chosen panels."""
    from adjudge.cli import console

    out = console.data()
    for line in study.sentences():
        out.say(line)
    has_cost = study.points[-1].cost is not None
    out.heading("panels of random judges" if study.by == "judges" else "random votes of each task")
    kind = "accuracy" if study.measured_by == "truth" else "expected accuracy"
    names = ["size", kind, "nine of ten", "points short", "effective votes", *(["cost per task"] if has_cost else [])]
    rows = [
        (
            str(one.size),
            _share(one.accuracy),
            f"{_share(one.low)} to {_share(one.high)}",
            f"{100 * one.shortfall.value:.1f}",
            f"{one.effective_votes:.2g}",
            *([f"{one.cost:.3g}"] if one.cost is not None else []),
        )
        for one in study.points
    ]
    out.print(console.table(names, rows))
    _print_judges(study)
    if study.chosen:
        out.heading("chosen panels, measured on tasks that the choice has not seen")
        names = ["judges", "size", kind, "90% interval", *(["cost per task"] if has_cost else [])]
        chosen = [
            (
                study.names(one.workers),
                str(one.size),
                _share(one.accuracy.value),
                f"{_share(one.accuracy.low)} to {_share(one.accuracy.high)}",
                *([f"{one.cost:.3g}"] if one.cost is not None else []),
            )
            for one in study.chosen[:MAX_PANELS]
        ]
        out.print(console.table(names, chosen, ids=1))
        if len(study.chosen) > MAX_PANELS:
            out.say(f"… and {len(study.chosen) - MAX_PANELS} more: --panels FILE lists them")


def _print_judges(study: PanelStudy) -> None:
    """Print the judges that add most and least."""
    from adjudge.cli import console

    out = console.data()
    known = [one for one in study.found if one.adds is not None]
    few = known if len(known) <= MAX_JUDGES else [*known[: MAX_JUDGES // 2], *known[-MAX_JUDGES // 2 :]]
    if not few:
        return
    out.heading("what a judge adds, in points of accuracy" + (": most and least" if len(known) > len(few) else ""))
    rows = [
        (
            study.workers[one.worker],
            one.word,
            f"{100 * one.adds.value:.1f}",
            f"{100 * one.adds.low:.1f} to {100 * one.adds.high:.1f}",
        )
        for one in few
        if one.adds is not None
    ]
    out.print(console.table(["judge", "", "adds", "90% interval"], rows, ids=2))
    if len(study.found) > len(few):
        out.say(f"… and {len(study.found) - len(few)} more: --judges FILE lists them, and why")


def _share(share: float) -> str:
    return f"{100 * share:.1f}%"
