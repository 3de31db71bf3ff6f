"""Commands that ask something of a fit, or of a saved model: `adjudge predict`, `explain` and `ask-next`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    Cost,
    DataOnly,
    Flags,
    Json,
    Threads,
    VotesFiles,
    command,
    existing_file,
    for_knowledge,
    for_model,
    for_output,
    parse_cost,
)
from adjudge.data.options import DEFAULTS, SET_SEPARATOR
from adjudge.errors import OptionError, itemize

if TYPE_CHECKING:
    import polars as pl

    from adjudge.results.explanation import Explanation, SetExplanation

DEFAULT_ASKED_TASKS: Final = 100  # if neither a number nor a budget is given
MAX_SHOWN_UNKNOWN_WORKERS: Final = 10
ASK_TO_HELP: Final = (
    "Write -o in the format of the votes (auto), ready to import: label-studio, argilla or argilla-flat (tasks "
    "without votes), table (a line per task)."
)


@command(
    ("Save what was learned:", "adjudge aggregate votes.csv -o labels.csv --save crowd.adjudge"),
    ("Label new tasks with it:", "adjudge predict new.csv --using crowd.adjudge -o new-labels.csv"),
    without=("labels",),
)
def predict(
    votes: VotesFiles,
    using: Annotated[Path, for_knowledge(help="The model that `adjudge aggregate --save` wrote.")],
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the labels here (else to stdout).")] = None,
    workers: Annotated[Path | None, for_output(help="Write the workers here, and whether the model knows each.")] = None,
    probabilities: Annotated[Path | None, for_output(help="Write the probability of every label here.")] = None,
    confidence: Annotated[
        str | None, for_model(help="honest (of a model that was fitted so) or posterior.", show_default="the model's")
    ] = None,
    threads: Threads = None,
    quiet: DataOnly = False,
    *,
    how_read: Flags,
) -> None:
    """Label new tasks with a saved model.

    Nothing is learned from their votes. Workers whom the model does not know are treated as the mean worker. A model of sets
    (aggregate --multi --save) reads sets.
    """
    from adjudge.engines.registry import AutoEngine

    targets = {"--workers": workers, "--probabilities": probabilities, "-o": output}
    out.check(targets, {"the votes": votes, "the model": using}, to_stdout=output is None)
    model = adj.load(using)
    if how_read["set_separator"] != SET_SEPARATOR and not isinstance(model, adj.FittedSets):
        raise OptionError(f"--set-separator is for models of sets (aggregate --multi --save), and {using} is of single labels")
    how_read |= {"engine": AutoEngine(threads=threads), "confidence": confidence}
    result = model.predict(out.source_of(votes), **how_read)

    def labels() -> pl.DataFrame:
        return out.flatten_sets(result.labels_frame(), "" if output is None else output.suffix)

    out.write_frames(targets.values(), (result.workers_frame, result.probabilities_frame, labels))
    if output is None:
        out.print_frames(iter([labels()]), len(result.votes.tasks) + len(result.votes.unvoted))
    if quiet:
        return
    talk, unknown = out.talk(), result.unknown_workers
    if result.understood is not None:
        talk.say(out.read_as(votes, result.understood))
    talk.say(f"{len(result.votes.tasks)} tasks labelled by {model!r}")
    if unknown:
        names = itemize(unknown, MAX_SHOWN_UNKNOWN_WORKERS)
        talk.say(f"{len(unknown)} workers are unknown, and treated as the mean worker: {names}")


@command(
    ("Why a task has its label, vote by vote:", "adjudge explain votes.csv t17"),
    ("Two tasks, as data:", "adjudge explain votes.csv t17 t23 --json"),
    ("What decided the label, instead of its confidence:", "adjudge explain votes.csv t17 --by model"),
    by=("confidence", "model"),
)
def explain(
    file: Annotated[str, typer.Argument(metavar="VOTES", help="A file, or a pattern of files, as for `aggregate`; - is stdin.")],
    tasks: Annotated[list[str], typer.Argument(metavar="TASK", help="The tasks to explain.")],
    confidence: Annotated[str | None, for_model(help="posterior (the model's own) or honest.", show_default="honest")] = None,
    by: Annotated[
        str, for_model(help="What to explain: confidence, or model (its own posterior, which decides labels).")
    ] = "confidence",
    settled: Annotated[float, for_model(help="The confidence from which a label counts as settled.")] = 0.95,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of text.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only explanations.")] = False,
    *,
    fit: Flags,
    how_read: Flags,
) -> None:
    """Say why tasks have their labels.

    Shows what every vote adds, whose change would flip the label, and how many more votes would settle it.
    """
    out.check({}, {"the votes": file, "the gold": fit["gold"], "the model": fit["using"]}, to_stdout=True)
    result = _result(file, fit, how_read, confidence)
    explanations = _explanations(result, tasks, settled=settled, by=by)
    if as_json:
        out.document({"understood": out.summary_of(result.understood), "tasks": [one.to_dict() for one in explanations]})
        return
    if result.understood is not None and not quiet:
        out.say(out.read_as([file], result.understood))
    screen = out.screen()
    for number, explanation in enumerate(explanations):
        for line in ["", *str(explanation).splitlines()][0 if number else 1 :]:
            screen.say(line)


def _result(source: str | list[str], fit: Flags, how_read: Flags, confidence: str | None = None) -> Any:
    """Return the result of votes: fitted, or decided by a saved model."""
    from adjudge.engines.registry import AutoEngine

    using, engine = fit.pop("using"), AutoEngine(threads=fit.pop("threads"))
    if using is None:
        mode: Any = confidence or DEFAULTS.confidence
        return adj.aggregate(source, engine=engine, confidence=mode, trace="light", **fit, **how_read)
    defaults = {"model": DEFAULTS.model, "seed": DEFAULTS.seed, "multi": False}
    for name, value in (fit | {"labels": how_read.pop("labels")}).items():
        if value is not None and value != defaults.get(name):
            raise OptionError(f"--{name} is for a fit, and --using names a model that was fitted: leave one of them out")
    return adj.load(using).predict(source, engine=engine, confidence=confidence, **how_read)  # type: ignore[arg-type]


def _explanations(result: Any, tasks: list[str], **how: Any) -> list[Explanation] | list[SetExplanation]:
    """Return the explanations of all tasks; one that is unknown is an error before any is shown."""
    from adjudge.results.explain import codes_of, explain_many
    from adjudge.results.sets import MultiResult

    if isinstance(result, MultiResult):
        return [result.explain(task, **how) for task in tasks]
    return explain_many(result, codes_of(result, list(tasks)), **how)


@command(
    ("The hundred tasks where one more vote is worth most:", "adjudge ask-next votes.csv -n 100 -o next.csv"),
    ("As many tasks as a budget of 2.00 buys, and whom to ask:", "adjudge ask-next votes.csv --ask any --cost 0.05 --budget 2"),
    ("In the format of the votes, to label again:", "adjudge ask-next judges.csv --wide -n 20 --to auto -o again.csv"),
    ask=("any",),
)
def ask_next(
    votes: VotesFiles,
    number: Annotated[
        int | None,
        typer.Option("-n", "--number", help="How many tasks.", show_default=f"{DEFAULT_ASKED_TASKS}, or what --budget pays"),
    ] = None,
    ask: Annotated[str | None, for_knowledge(help="Available workers: any, ids joined by commas, or a file of ids.")] = None,
    cost: Cost = None,
    budget: Annotated[float | None, for_knowledge(help="Budget for all new votes.")] = None,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write the tasks here (else to stdout).")] = None,
    to: Annotated[str | None, for_output(help=ASK_TO_HELP)] = None,
    as_json: Json = False,
    quiet: DataOnly = False,
    *,
    fit: Flags,
    how_read: Flags,
) -> None:
    """Find the tasks to ask about next, and whom to ask.

    Sorted by the expected gain in right labels of one more vote, per cost if costs are given.
    """
    target = None if output is None else str(output)
    refused = {"--no-header": not how_read["header"], "--encoding": how_read["encoding"] is not None}
    table = out.table_target(votes, target, to, how_read["format"], refused)
    inputs = {"the votes": votes, "the gold": fit["gold"], "the model": fit["using"]}
    inputs |= {"the groups": out.groups_file(fit["groups"])}
    inputs |= {"the workers": existing_file(ask), "the costs": existing_file(cost)}
    out.check({"-o": table}, inputs, others={"-o": output}, to_stdout=output is None)
    result = _result(out.source_of(votes), fit, how_read)
    wanted = DEFAULT_ASKED_TASKS if number is None and budget is None else number
    frame = _ask(result, wanted, ask, cost, budget)
    if output is not None and to is None:
        out.write_frames([output], [lambda: out.flatten_sets(frame, output.suffix)])
    elif output is not None and to is not None:
        from adjudge.io.frames import text_column
        from adjudge.io.write_back import write_tasks

        write_tasks(text_column(frame["task"], "task").to_list(), out.source_of(votes), output, to, result.understood)
    if as_json:
        gain = float(frame["expected_gain"].sum())
        out.document({"understood": out.summary_of(result.understood), "expected_gain": gain, "tasks": frame.to_dicts()})
        return
    if output is None:
        out.print_frames(iter([out.flatten_sets(frame)]), len(frame), ids=1, file="next.csv")
    if not quiet:
        if result.understood is not None:
            out.say(out.read_as(votes, result.understood))
        out.say(_describe_gain(frame, result))


def _ask(result: Any, n: int | None, ask: str | None, cost: str | None, budget: float | None) -> pl.DataFrame:
    from adjudge.results.ask_next import ask_next, ask_next_sets
    from adjudge.results.sets import MultiResult

    price = None if cost is None else parse_cost(cost)
    if not isinstance(result, MultiResult):
        return ask_next(result, n, worker=None if ask is None else _workers(ask), cost=price, budget=budget)
    if ask is not None or not isinstance(price, float | None):
        raise OptionError("--ask, and costs per worker, are for votes with one label: leave them out with sets")
    return ask_next_sets(result, n, cost=price, budget=budget)


def _workers(text: str) -> Any:
    """Return the available workers as typed: any, a file, or ids joined by commas."""
    from adjudge.io.workers import read_workers

    file = existing_file(text)
    if text == "any" or file is not None:
        return text if file is None else read_workers(file)
    ids = [part.strip() for part in text.split(",")]
    if not all(ids):
        raise OptionError(f"--ask is {text!r}: give any, workers joined by commas, none of them empty, or a file")
    return ids


def _describe_gain(frame: pl.DataFrame, result: Any) -> str:
    """Return a sentence about what the votes are expected to bring."""
    what = "options" if hasattr(result, "results") else "labels"
    wrong = getattr(result, "expected_wrong_options", result.expected_errors)
    price = f" for {out.figure(float(frame['cost'].sum()))}" if "cost" in frame.columns else ""
    voted = frame.filter(frame["votes"] > 0)
    unvoted = len(frame) - len(voted)  # tasks without votes have no label that could be wrong
    new = f", {unvoted} of them without votes so far" if unvoted else ""
    return (
        f"{len(frame)} of {len(result.votes.tasks) + result.unvoted} tasks{new}: one more vote on each{price} is expected to put "
        f"{voted['expected_gain'].sum():.3g} of {wrong:.3g} wrong {what} right"
    )
