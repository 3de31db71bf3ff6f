"""Exports of annotation tools on the command line: their options, and all its questions in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

FORMAT_HELP: Final = (
    "auto (recognise exports by content), the name of one (label-studio, mturk, …; see docs/formats.md), or table."
)
QUESTION_HELP: Final = "Which question of an export with several; all for each in turn."
PREDICTIONS_HELP: Final = "Let models whose predictions are in an export vote, too."
TO_HELP: Final = (
    "Write -o in the form that the votes came in (auto): label-studio (predictions), argilla or argilla-flat (suggestions), "
    "table (labels beside its rows)."
)
OUTPUTS: Final = ("output", "workers", "probabilities", "save", "report")


def formats(incomplete: str) -> list[str]:
    """Return the formats whose names begin so, for a shell to complete.

    >>> formats("label")
    ['label-studio', 'label-studio-min']
    """
    from adjudge.io.formats.registry import AUTO, FORMATS, TABLE

    return [name for name in (AUTO, TABLE, *FORMATS) if name.startswith(incomplete)]


def each(command: Callable[..., None], given: dict[str, Any]) -> None:
    """Run a command for each question of an export; the name of the question goes into the names of the outputs."""
    from adjudge.errors import OptionError, shown
    from adjudge.io.read import questions_of

    if given["output"] is None:
        raise OptionError("--question all writes a file per question: give -o labels.csv, which becomes labels.QUESTION.csv")
    if given["votes"] == ["-"]:
        raise OptionError(
            "--question all reads the votes once per question, and standard input can be read only once: name a file"
        )
    source = given["votes"] if len(given["votes"]) > 1 else given["votes"][0]
    questions = questions_of(source, multi=given["multi"], format=given["form"], predictions=given["predictions"])
    names: dict[str, str] = {}
    for question in questions:
        file = str(named_for(given["output"], question))
        if names.setdefault(file.lower(), question) != question:  # some file systems do not tell case
            raise OptionError(
                f"the questions {shown(names[file.lower()])} and {shown(question)} would both be written to {file}: "
                "ask for each with --question and a file of its own"
            )
    for question in questions:
        outputs = {name: named_for(given[name], question) for name in OUTPUTS if given.get(name) is not None}
        command(**{**given, **outputs, "question": question})


def labels_file(votes: list[str], output: str | None, to: str | None, form: str, against: dict[str, bool]) -> str | None:
    """Return where labels go as a table of their own; None where they go back to the form of the votes.

    What cannot go back is said before any work: `form` is the format of the votes, `against` are options that rule it out.
    """
    if to is None:
        return output
    from adjudge.errors import OptionError
    from adjudge.io.back import target_of

    if output is None:
        raise OptionError("--to writes a file: say where with -o")
    for option, is_given in against.items():
        if is_given:
            raise OptionError(f"--to does not go with {option}: leave one of them out")
    target_of(votes, output, to, form)
    return None


def named_for(path: str | Path, question: str) -> str | Path:
    """Return the path of an output for one question.

    >>> named_for("labels.csv", "mood"), named_for("out/labels.csv.gz", "is it/ok?")
    ('labels.mood.csv', 'out/labels.is-it-ok.csv.gz')
    """
    place = Path(path)
    first, *rest = place.name.split(".")
    plain = re.sub(r"[^\w]+", "-", question).strip("-") or "question"
    return type(path)(place.with_name(".".join([first, plain, *rest])))
