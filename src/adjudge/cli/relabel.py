"""`adjudge relabel`: which tasks to ask about next, and whom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adjudge.cli import output as out
from adjudge.cli import reading
from adjudge.cli.command import ANY_MODEL, for_engine, for_input, for_knowledge, for_model, for_output, one_of
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, ModelName

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = (
    ("The hundred tasks where one more vote is worth most:", "adjudge relabel votes.csv -n 100 -o next.csv"),
    ("As many as 2.00 pays for, and whom to ask:", "adjudge relabel votes.csv --ask any --cost 0.05 --budget 2"),
    ("In the form that the votes came in, to label again:", "adjudge relabel judges.csv --wide -n 20 --to auto -o again.csv"),
)
NUMBER = 100  # of tasks where neither a number nor a budget is given
PREVIEW = 20  # rows on a terminal
AGAIN = (
    "Write -o in the form that the votes came in (auto), ready to be imported: label-studio, argilla or argilla-flat (tasks "
    "without votes), table (a line per task)."
)


def command(
    votes: reading.VotesFiles,
    number: Annotated[
        int | None, typer.Option("-n", "--number", help="How many tasks.", show_default=f"{NUMBER}, or what --budget pays")
    ] = None,
    ask: Annotated[
        str | None,
        for_knowledge(
            help="Who can be asked: any, workers joined by commas, or a file of them.", autocompletion=one_of((), "any")
        ),
    ] = None,
    cost: Annotated[
        str | None, for_knowledge(help="What a vote costs: a number, ann=0.2,bob=0.5, or a table worker, cost.")
    ] = None,
    budget: Annotated[float | None, for_knowledge(help="What the votes may cost in all.")] = None,
    using: Annotated[
        Path | None, for_knowledge(help="A model that `adjudge aggregate --save` wrote: it decides, and nothing is learned.")
    ] = None,
    model: Annotated[
        str,
        for_model("-m", "--model", help=ANY_MODEL, autocompletion=one_of(ModelName)),
    ] = DEFAULTS.model,
    seed: Annotated[int, for_model(help="Decides ties.")] = DEFAULTS.seed,
    gold: Annotated[str | None, for_knowledge(help="Known labels of some tasks, to learn from.")] = None,
    groups: Annotated[str | None, for_knowledge(help="Who votes as one: a table worker, group; or answers_like.")] = None,
    threads: Annotated[int | None, for_engine(help="Threads to use (default: all cores).")] = None,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the tasks here (else to stdout).")] = None,
    to: Annotated[
        str | None,
        for_output(help=AGAIN, autocompletion=one_of((), "auto", "table", "label-studio", "argilla", "argilla-flat")),
    ] = None,
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
    multi: Annotated[bool, for_input("--multi", help="Votes are sets of options, joined by | or as lists.")] = False,
    set_separator: reading.SetSeparator = SET_SEPARATOR,
    duplicates: reading.Duplicates = DEFAULTS.duplicates,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of a table.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only data.")] = False,
) -> None:
    """Find the tasks to ask about next, and whom to ask.

    First come those where one more vote is worth most: the expected gain in right labels, per cost where there is one.
    """
    from adjudge.cli.fitted import Fitting, fitted
    from adjudge.cli.questions import labels_file
    from adjudge.io.groups import ANSWERS_LIKE

    target = None if output is None else str(output)
    table = labels_file(votes, target, to, form, {"--no-header": no_header})
    inputs = {"the votes": votes, "the gold": gold, "the model": using}
    inputs |= {"the groups": None if groups == ANSWERS_LIKE else groups}
    inputs |= {"the workers": _file(ask), "the costs": _file(cost)}
    out.check({"-o": table}, inputs, others={"-o": output}, to_stdout=output is None)
    asked = Fitting(using, model, None, seed, gold, groups, threads, multi, set_separator)
    result = fitted(votes, reading.given(locals()), asked)
    wanted = NUMBER if number is None and budget is None else number
    frame = _asked(result, wanted, ask, cost, budget)
    _write(frame, result, votes, output, to)
    if as_json:
        summary = out.summary_of(result.understood)
        gain = float(frame["expected_gain"].sum())
        out.document({"understood": summary, "expected_gain": gain, "tasks": frame.to_dicts()})
        return
    if output is None:
        _print(frame)
    if not quiet:
        _tell(frame, result, votes)


def _asked(result: Any, n: int | None, ask: str | None, cost: str | None, budget: float | None) -> pl.DataFrame:
    from adjudge.errors import OptionError
    from adjudge.results.ask_next import ask_next, ask_next_sets
    from adjudge.results.sets import MultiResult

    price = None if cost is None else typed_cost(cost)
    if not isinstance(result, MultiResult):
        return ask_next(result, n, worker=None if ask is None else _workers(ask), cost=price, budget=budget)
    if ask is not None or not isinstance(price, float | None):
        raise OptionError("--ask, and costs per worker, are for votes with one label: leave them out with sets")
    return ask_next_sets(result, n, cost=price, budget=budget)


def _write(frame: pl.DataFrame, result: Any, votes: list[str], output: Path | None, to: str | None) -> None:
    """Write the tasks to a file, if there is one: as a table, or in the form of the votes."""
    if output is None:
        return
    from adjudge.cli.aggregate import flat
    from adjudge.io.again import write_again
    from adjudge.io.join import task_texts
    from adjudge.io.write import write_frame

    if to is None:
        write_frame(flat(frame, output.suffix), output)
    else:
        write_again(task_texts(frame["task"]).to_list(), reading.source(votes), output, to, result.understood)


def _print(frame: pl.DataFrame) -> None:
    """Print the first of the tasks as a table on a terminal, all as CSV into a pipe or a file."""
    from adjudge.cli.aggregate import flat

    if not sys.stdout.isatty():
        from adjudge.io.write import write_stream

        write_stream(iter([flat(frame)]), sys.stdout.buffer)
        return
    from adjudge.cli import console

    console.data().print(console.table(frame.columns, flat(frame).head(PREVIEW).rows(), ids=1))
    if len(frame) > PREVIEW:
        console.talk().say(f"… and {len(frame) - PREVIEW} more: write them all with -o next.csv", style="dim")


def _tell(frame: pl.DataFrame, result: Any, votes: list[str]) -> None:
    """Say what was read, and what the votes are expected to bring."""
    if result.understood is not None:
        out.say(out.read_as(votes, result.understood))
    what = "options" if hasattr(result, "results") else "labels"
    wrong = getattr(result, "expected_wrong_options", result.expected_errors)
    price = f" for {out.figure(float(frame['cost'].sum()))}" if "cost" in frame.columns else ""
    voted = frame.filter(frame["votes"] > 0)
    first = len(frame) - len(voted)  # tasks without votes have no label that could be wrong
    new = f", {first} of them without votes so far" if first else ""
    out.say(
        f"{len(frame)} of {len(result.votes.tasks) + result.unvoted} tasks{new}: one more vote on each{price} is expected to put "
        f"{voted['expected_gain'].sum():.3g} of {wrong:.3g} wrong {what} right"
    )


def _file(text: str | None) -> Path | None:
    """Return the file that an option names, if there is one."""
    return Path(text) if text is not None and Path(text).exists() else None


def _workers(text: str) -> Any:
    """Return who can be asked, as it was typed: any, a file, or ids joined by commas."""
    from adjudge.errors import OptionError
    from adjudge.io.exclude import read_workers

    if text == "any":
        return text
    found = _file(text)
    if found is not None:
        return read_workers(found)
    ids = [part.strip() for part in text.split(",")]
    if not all(ids):
        raise OptionError(f"--ask is {text!r}: give any, workers joined by commas, none of them empty, or a file")
    return ids


def typed_cost(text: str) -> Any:
    """Return a cost as it was typed: a number, worker=number joined by commas, or a file."""
    from adjudge.errors import OptionError

    found = _file(text)
    if found is not None:
        return found
    try:
        if "=" not in text:
            return float(text)
        pairs = [part.rpartition("=") for part in text.split(",")]
        return {worker.strip(): float(price) for worker, _, price in pairs}
    except ValueError:
        raise OptionError(f"--cost is {text!r}: give a number, worker=number joined by commas, or a table worker, cost") from None
