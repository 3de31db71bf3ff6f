"""How votes are read, on the command line: the options that every command that reads votes has, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from adjudge.cli.command import for_input, one_of
from adjudge.cli.output import label_list, unescaped
from adjudge.cli.questions import FORMAT_HELP, PREDICTIONS_HELP, QUESTION_HELP, formats
from adjudge.data import options

FILES: Final = (
    "Files or patterns: csv, tsv, json, jsonl, parquet, arrow, xlsx, .gz or .zst; exports of annotation tools; "
    "a folder of `encode`; - is stdin."
)

VotesFiles = Annotated[list[str], typer.Argument(metavar="VOTES", help=FILES)]
Task = Annotated[str | None, for_input(help="Column of the task.")]
Worker = Annotated[str | None, for_input(help="Column of the worker.")]
Label = Annotated[str | None, for_input(help="Column of the label.")]
Weight = Annotated[str | None, for_input(help="Column of what a vote counts, 0 being an abstention (default: 1).")]
Labels = Annotated[str | None, for_input(help="The labels in order, joined by commas.")]
Wide = Annotated[bool, for_input("--wide", help="One line per task, one column per worker (--worker 'judge_*' says which).")]
Count = Annotated[str | None, for_input(help="Column with the number of votes that a line stands for; mv then needs no worker.")]
Abstain = Annotated[str | None, for_input(help="Labels that are abstentions, joined by commas: NA,skip or -1.")]
Normalize = Annotated[bool, for_input("--normalize", help="Join labels that differ only in case or white space.")]
Strict = Annotated[bool, for_input("--strict", help="Stop where votes look misread, instead of a warning.")]
Separator = Annotated[str | None, for_input(help="Between the fields of text files, if the header shows none.")]
NoHeader = Annotated[
    bool, for_input("--no-header", help="The first line is a vote: task, worker, label; or --task 2 --worker 1 --label 3.")
]
SetSeparator = Annotated[str, for_input(help="With sets: what joins the options of one.")]
Duplicates = Annotated[
    str, for_input(help="Repeated votes: all, last, first or error.", autocompletion=one_of(options.Duplicates))
]
Format = Annotated[str, for_input("--format", help=FORMAT_HELP, autocompletion=formats)]
Question = Annotated[str | None, for_input(help=QUESTION_HELP)]
Predictions = Annotated[bool, for_input("--predictions", help=PREDICTIONS_HELP)]

# Parameters of commands, as `given` takes them.
SAME: Final = (
    "task",
    "worker",
    "label",
    "duplicates",
    "wide",
    "count",
    "weight",
    "normalize",
    "strict",
    "question",
    "predictions",
)


def given(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of reading among the parameters of a command, as `adj.read` takes them.

    >>> given({"task": "item", "abstain": "NA, skip", "no_header": False, "form": "auto", "quiet": True})
    {'task': 'item', 'abstain': ['NA', 'skip'], 'header': True, 'format': 'auto'}
    """
    out = {name: typed[name] for name in SAME if name in typed}
    if "labels" in typed:
        out["labels"] = None if typed["labels"] is None else label_list(typed["labels"])
    if "abstain" in typed:
        out["abstain"] = None if typed["abstain"] is None else [word.strip() for word in typed["abstain"].split(",")]
    if "separator" in typed:
        out["separator"] = None if typed["separator"] is None else unescaped(typed["separator"])
    if "no_header" in typed:
        out["header"] = not typed["no_header"]
    if "form" in typed:
        out["format"] = typed["form"]
    return out


def source(votes: list[str]) -> str | list[str]:
    """Return the source of votes that a command was given: one file, or several."""
    return votes if len(votes) > 1 else votes[0]
