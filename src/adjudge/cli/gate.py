"""Commands that hold votes and judges against a standard: `adjudge check` and `bias`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    Cluster,
    Flags,
    Json,
    Level,
    Model,
    VotesFiles,
    command,
    existing_file,
    for_input,
    for_knowledge,
    for_model,
    for_output,
    split_words,
)
from adjudge.data.options import DEFAULTS
from adjudge.errors import InputError, itemize, quote

if TYPE_CHECKING:
    from adjudge.cli.console import Screen
    from adjudge.evaluation.bias.bias import Bias
    from adjudge.evaluation.gate.check import CheckResult

MAX_SHOWN_EFFECTS: Final = 40  # lines of a table on the screen
Required = Annotated[
    list[str],
    typer.Option(
        "--require", help="A figure and its limit, as often as needed: accuracy, rate(LABEL), alpha, effective_votes, …"
    ),
]


@command(
    ("Whether labels are right often enough:", "adjudge check votes.csv --require 'accuracy>=0.9' --gold gold.csv"),
    (
        "The true share of a label, and a summary for the CI job:",
        "adjudge check votes.csv --require 'rate(yes)>=80%' --markdown check.md",
    ),
    ("No worse than last week:", "adjudge check new.csv --require alpha --baseline votes.csv --no-worse 0.1"),
    without=("set_separator",),
)
def check(
    votes: VotesFiles,
    require: Required,
    gold: Annotated[Path | None, for_knowledge(help="Known labels of random tasks, which the model does not learn from.")] = None,
    baseline: Annotated[Path | None, for_knowledge(help="Earlier votes to compare every figure with.")] = None,
    baseline_gold: Annotated[Path | None, for_knowledge(help="Known labels for the baseline (default: those of --gold).")] = None,
    no_worse: Annotated[
        float | None, for_model(help="How much worse than the baseline a figure may be: 0.02 is 2 points.")
    ] = None,
    cluster: Cluster = None,
    level: Level = 0.9,
    model: Model = DEFAULTS.model,
    resamples: Annotated[int, for_model(help="Resamples for the intervals of alpha and effective votes.")] = 1000,
    seed: Annotated[int, for_model(help="Seed of ties, resamples and the tasks to label.")] = 0,
    markdown: Annotated[Path | None, for_output(help="Append a summary in Markdown to this file, as CI jobs show it.")] = None,
    to_label: Annotated[Path | None, for_output(help="Write the tasks to label for a decision here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print only the verdict.")] = False,
    *,
    how_read: Flags,
) -> None:
    """Check votes against requirements: a gate for pipelines.

    Exit codes: 0 if every requirement holds, 3 if one fails, 4 if one is inconclusive; 1 for bad
    input, 2 for bad usage.
    """
    targets = {"--to-label": to_label}
    inputs = {"the votes": votes, "the gold": gold, "the baseline": baseline, "the baseline's gold": baseline_gold}
    inputs["the clusters"] = existing_file(cluster)
    out.check(targets, inputs, others={"--markdown": markdown}, to_stdout=True)
    settings: Any = {"level": level, "model": model, "resamples": resamples, "seed": seed, "no_worse": no_worse}
    known: Any = {"gold": gold, "baseline": baseline, "baseline_gold": baseline_gold, "cluster": cluster}
    checked = adj.check(out.source_of(votes), require, **known, **settings, **how_read)
    out.write_frames(targets.values(), (checked.to_label_frame,))
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write(checked.markdown())
    show = partial(_show_check, checked)
    out.present(checked.to_dict, show, votes, checked.understood, as_json=as_json, quiet=quiet, answer=checked.verdict)
    raise typer.Exit(checked.exit_code)


def _show_check(checked: CheckResult, screen: Screen) -> None:
    """Print the verdict, and a sentence per requirement."""
    screen.say(f"check: {checked.verdict}")
    for sentence in checked.sentences():
        screen.say(sentence)


@command(
    ("Whether a column sways judges, given the estimated truth:", "adjudge bias rows.csv --by length"),
    ("Columns of a table, measured by known labels:", "adjudge bias votes.csv --by group --table systems.csv --gold truth.csv"),
    without=("set_separator", "weight"),
)
def bias(
    votes: VotesFiles,
    by: Annotated[str, typer.Option(help="Columns with a value per task, joined by commas: length,language,family.")],
    table: Annotated[Path | None, for_input(help="A table of the task and these columns (default: the votes' own).")] = None,
    gold: Annotated[Path | None, for_knowledge(help="Known labels to measure by, instead of the other judges.")] = None,
    good: Annotated[str | None, for_model(help="The label to look at (default: pass, good, yes, …, or the last).")] = None,
    cluster: Cluster = None,
    level: Level = 0.9,
    model: Model = DEFAULTS.model,
    seed: Annotated[int, for_model(help="Seed of the model, which decides ties.")] = 0,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write a line per judge and effect here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print nothing but warnings.")] = False,
    *,
    how_read: Flags,
) -> None:
    """Measure whether columns of tasks sway judges' verdicts.

    A judge is measured against the truth that the others estimate, or against known labels. Intervals are for one
    effect each; the effects shown are corrected for multiple comparisons.
    """
    targets = {"--output": output}
    inputs = {"the votes": votes, "the gold": gold, "the table": table, "the clusters": existing_file(cluster)}
    out.check(targets, inputs, to_stdout=True)
    names = split_words(by, "by")
    given: Any = names if table is None else columns_of_tasks(table, names)
    settings: Any = {"gold": gold, "good": good, "cluster": cluster, "level": level, "model": model, "seed": seed}
    found = adj.bias(out.source_of(votes), by=given, **settings, **how_read)
    out.write_frames(targets.values(), (found.effects_frame,))
    out.present(found.to_dict, partial(_show_bias, found), votes, found.understood, as_json=as_json, quiet=quiet)


def columns_of_tasks(table: Path, names: list[str]) -> dict[str, Any]:
    """Return frames of task and value, by the name of the column of a table."""
    from adjudge.io.columns import REMAINING_COLUMNS
    from adjudge.io.sources import read_frame

    frame, _ = read_frame(str(table), {"task": None, REMAINING_COLUMNS: None})
    for name in names:
        if name not in frame.columns or name == "task":
            raise InputError(f"{table}: there is no column {quote(name)} for --by; the columns are: {itemize(frame.columns)}")
    return {name: frame.select("task", name) for name in names}


def _show_bias(found: Bias, screen: Screen) -> None:
    """Print what is shown, and the effects with the smallest p-values."""
    for sentence in found.sentences():
        screen.say(sentence)

    def points(part: float | None) -> str:
        return "–" if part is None else f"{100 * part:+.1f}"

    screen.heading(f"how much more often a judge gives {found.label}, in points")
    frame = found.effects_frame()
    rows = [
        (
            *(row["worker"], row["column"], row["value"], points(row["effect"])),
            out.interval(row["low"], row["high"], points),
            *(row["p_adjusted"], "yes" if row["shown"] else "", row["votes"]),
        )
        for row in frame.head(MAX_SHOWN_EFFECTS).iter_rows(named=True)
    ]
    names = ["judge", "column", "value", "effect", f"{100 * found.level:g}% interval", "corrected p", "shown", "votes"]
    screen.table(names, rows, ids=3)
    screen.more(len(frame), MAX_SHOWN_EFFECTS, "-o FILE has all")
