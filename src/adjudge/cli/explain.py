"""`adjudge explain`: why tasks have their labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from adjudge.cli import reading
from adjudge.cli.command import ANY_MODEL, for_engine, for_input, for_knowledge, for_model, for_output, one_of
from adjudge.data.options import DEFAULTS, SET_SEPARATOR, Confidence, ModelName

if TYPE_CHECKING:
    from adjudge.results.explanation import Explanation, SetExplanation

EXAMPLES = (
    ("Why a task has its label, vote by vote:", "adjudge explain votes.csv --task-id t17"),
    ("Two tasks, as data:", "adjudge explain votes.csv --task-id t17 --task-id t23 --json"),
    ("What decided the label, in place of how sure it is:", "adjudge explain votes.csv --task-id t17 --by model"),
)


def command(
    votes: reading.VotesFiles,
    task_id: Annotated[list[str], typer.Option("--task-id", help="The task to explain; may be given several times.")],
    using: Annotated[
        Path | None, for_knowledge(help="A model that `adjudge aggregate --save` wrote: it decides, and nothing is learned.")
    ] = None,
    model: Annotated[
        str,
        for_model("-m", "--model", help=ANY_MODEL, autocompletion=one_of(ModelName)),
    ] = DEFAULTS.model,
    confidence: Annotated[
        str | None,
        for_model(help="posterior (the model's own) or honest.", show_default="honest", autocompletion=one_of(Confidence)),
    ] = None,
    by: Annotated[
        str,
        for_model(
            help="What is explained: confidence, or model for the model's own posterior, which decides labels.",
            autocompletion=one_of((), "confidence", "model"),
        ),
    ] = "confidence",
    settled: Annotated[float, for_model(help="The confidence from which a label counts as settled.")] = 0.95,
    seed: Annotated[int, for_model(help="Decides ties.")] = DEFAULTS.seed,
    gold: Annotated[str | None, for_knowledge(help="Known labels of some tasks, to learn from.")] = None,
    groups: Annotated[str | None, for_knowledge(help="Who votes as one: a table worker, group; or answers_like.")] = None,
    threads: Annotated[int | None, for_engine(help="Threads to use (default: all cores).")] = None,
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
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of text.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only explanations.")] = False,
) -> None:
    """Say why tasks have their labels.

    What every vote adds, whose change would flip the label, how many more votes would settle it.
    """
    from adjudge.cli import output
    from adjudge.cli.fitted import Fitting, fitted

    output.check({}, {"the votes": votes, "the gold": gold, "the model": using}, to_stdout=True)
    asked = Fitting(using, model, confidence, seed, gold, groups, threads, multi, set_separator)
    result = fitted(votes, reading.given(locals()), asked)
    found = _explained(result, task_id, settled, by)
    understood = result.understood
    if as_json:
        content = {"understood": output.summary_of(understood), "tasks": [one.to_dict() for one in found]}
        output.document(content)
        return
    if understood is not None and not quiet:
        output.say(output.read_as(votes, understood))
    from adjudge.cli import console

    out = console.data()
    for number, one in enumerate(found):
        for line in ["", *str(one).splitlines()][0 if number else 1 :]:
            out.say(line)


def _explained(result: Any, tasks: list[str], settled: float, by: str) -> list[Explanation] | list[SetExplanation]:
    """Return the explanations of all tasks; one that is unknown is an error before any is shown."""
    from adjudge.results.explain import codes_of, explain_many
    from adjudge.results.sets import MultiResult

    if isinstance(result, MultiResult):
        return [result.explain(task, settled=settled, by=cast(Any, by)) for task in tasks]
    return explain_many(result, codes_of(result, list(tasks)), settled=settled, by=cast(Any, by))
