"""`adjudge agreement`: how far workers agree, and how many independent votes they amount to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from adjudge.cli import reading
from adjudge.cli.command import one_of
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Level, ModelName

if TYPE_CHECKING:
    from adjudge.evaluation.agreement.figures import Agreement
    from adjudge.io.sets import SetVotes

EXAMPLES = (
    ("How far workers agree, with intervals, and who answers alike:", "adjudge agreement votes.csv"),
    ("Grades in order, and every pair of workers into a file:", "adjudge agreement votes.csv --level ordinal --pairs pairs.csv"),
    ("Errors against truth, instead of majority vote:", "adjudge agreement votes.csv --truth truth.csv"),
)
MAX_MATRIX_WORKERS = 12  # in the matrix on the screen
MAX_COPYING_PAIRS = 10  # in the table on the screen


def command(
    votes: reading.VotesFiles,
    level: Annotated[
        str,
        typer.Option(help="Scale of labels: nominal, ordinal (in order) or interval (numbers).", autocompletion=one_of(Level)),
    ] = "nominal",
    truth: Annotated[Path | None, typer.Option(help="Known labels, to measure errors against; else majority vote.")] = None,
    truth_task: Annotated[str | None, typer.Option(help="Column of the task in the truth.")] = None,
    truth_label: Annotated[str | None, typer.Option(help="Column of the label in the truth.")] = None,
    model: Annotated[
        str,
        typer.Option(
            "-m",
            "--model",
            help="The model whose labels show common wrong answers without truth.",
            autocompletion=one_of(ModelName),
        ),
    ] = "fds",
    pairs: Annotated[Path | None, typer.Option(help="Write all pairs of workers that share a task here.")] = None,
    matrix: Annotated[Path | None, typer.Option(help="Write the agreement matrix of all workers here.")] = None,
    resamples: Annotated[int, typer.Option(help="Resamples of the tasks for each interval; 0 for none.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Share of the resamples that an interval contains.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
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
    multi: Annotated[bool, typer.Option("--multi", help="Votes are sets of options: one line per option.")] = False,
    set_separator: reading.SetSeparator = SET_SEPARATOR,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only Krippendorff's alpha.")] = False,
) -> None:
    """Measure how far workers agree, and find those who answer alike.

    Figures come with intervals. Without truth, errors are measured against majority vote.
    """
    import adjudge as adj
    from adjudge.cli import console, output
    from adjudge.io.sets import read_sets
    from adjudge.io.write import write_frame

    output.check({"--pairs": pairs, "--matrix": matrix}, {"the votes": votes, "the truth": truth}, to_stdout=True)
    source, how_read = reading.source(votes), reading.given(locals())
    drawn = {"resamples": resamples, "confidence": confidence, "seed": seed}
    if multi:
        given = {"--truth": truth, "--pairs": pairs, "--matrix": matrix, "--quiet": quiet or None}
        _refuse(given | {"--level": None if level == "nominal" else level})
        sets = read_sets(source, set_separator=set_separator, **how_read)
        found_of = _by_option(sets, drawn)
        if not as_json and sets.understood is not None:
            console.data().say(output.read_as(votes, sets.understood))
        _print_options(found_of, as_json=as_json)
        return
    known = adj.read(source, **how_read)
    found = adj.agreement(
        known,
        level=cast(Any, level),
        truth=truth,
        model=cast(Any, model),
        truth_task=truth_task,
        truth_label=truth_label,
        **cast(Any, drawn),
    )
    if pairs is not None:
        write_frame(found.pairs_frame(), pairs)
    if matrix is not None:
        write_frame(found.matrix_frame(), matrix)
    if as_json:
        output.document(found.summary() | {"understood": output.summary_of(known.understood)})
    elif quiet:
        typer.echo(float(found.alpha))
    else:
        if known.understood is not None:
            console.data().say(output.read_as(votes, known.understood))
        _print(found)


def _refuse(given: dict[str, object]) -> None:
    from adjudge.errors import OptionError

    for option, value in given.items():
        if value is not None:
            raise OptionError(f"{option} is for votes with one label: leave it out with --multi, which has one line per option")


def _by_option(sets: SetVotes, drawn: dict[str, Any]) -> dict[str, Agreement]:
    """Return how far workers agree on each option of sets: tasks are resampled, whose options depend on each other."""
    import adjudge as adj
    from adjudge.errors import InputError

    if not (sets.per_task > 1).any():
        raise InputError(f"none of the {len(sets.tasks)} tasks has two votes: agreement needs tasks that several workers judged")
    names = sets.options.texts()
    return {name: adj.agreement(sets.of_option(n), pairs=False, **drawn) for n, name in enumerate(names)}


def _print_options(found: dict[str, Agreement], *, as_json: bool) -> None:
    from adjudge.cli import console, output

    if as_json:
        output.document({option: one.summary() for option, one in found.items()})
        return
    columns = ["option", "percent agreement", "Krippendorff's alpha", "interval", "effective votes"]
    rows = [
        (option, float(one.percent), float(one.alpha), _range(one.alpha.low, one.alpha.high), float(one.effective_votes))
        for option, one in found.items()
    ]
    console.data().print(console.table(columns, rows, ids=1))


def _print(found: Agreement) -> None:
    from adjudge.cli import console

    out = console.data()
    out.say(
        f"{found.votes} votes on {found.tasks} tasks by {len(found.workers)} workers, {len(found.labels)} labels; "
        f"{found.paired_tasks} tasks have two votes or more"
    )
    if found.repeated_votes:
        out.say(f"{found.repeated_votes} votes repeat their worker's vote on the same task: --duplicates last keeps one of them")
    rows = [(row[1], row[2], _range(row[3], row[4])) for row in found.figures_frame().rows()]
    out.print()
    out.print(console.table([f"{found.level} labels", "value", f"{100 * found.confidence:g}% interval"], rows))
    if found.without_pairs:
        out.print()
        out.say(f"no pairs of workers: {found.without_pairs}")
    _errors(found)
    if found.pair_figures is not None and len(found.workers) <= MAX_MATRIX_WORKERS:
        out.heading("agreement of every two workers")
        out.print(console.heat_map(found.workers.texts(), found.matrix_array(found.pair_figures), corner=""))
    if len(found.copies):
        frame = found.copying_frame()
        out.heading("workers who answer alike: copies, errors for the same reason, or knowledge that others lack")
        out.print(console.table([name.replace("_", " ") for name in frame.columns], frame.head(MAX_COPYING_PAIRS).rows(), ids=2))
        if len(frame) > MAX_COPYING_PAIRS:
            out.say(f"… and {len(frame) - MAX_COPYING_PAIRS} more pairs: --pairs FILE lists them, --json the rings")


def _errors(found: Agreement) -> None:
    """Print what the errors say."""
    from adjudge.cli import console

    against = "the truth" if found.errors_against == "truth" else "majority vote"
    rows = [
        ("correlation of errors", found.error_correlation, _range(found.error_correlation.low, found.error_correlation.high)),
        ("votes per task", found.votes_per_task, ""),
        ("effective votes", found.effective_votes, _range(found.effective_votes.low, found.effective_votes.high)),
    ]
    out = console.data()
    out.heading(f"errors against {against}")
    out.print(console.table(["", "", ""], [(name, float(value), span) for name, value, span in rows]))
    if found.errors_against != "truth":
        out.say("effective votes against majority vote: with --truth they are often fewer")


def _range(low: float | None, high: float | None) -> str:
    from adjudge.cli.output import figure

    return "–" if low is None or high is None or low != low else f"{figure(low)} to {figure(high)}"
