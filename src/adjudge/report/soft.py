"""The section of a report on ambiguity: tasks on which the crowd is divided, apart from those that are short of votes."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from adjudge.report import words
from adjudge.report.html import Markup, scroll, section, table
from adjudge.report.picture import Axis, Marks, Picture, Plot, Style, fields, name_axis
from adjudge.report.svg import inline
from adjudge.results.result import Result
from adjudge.results.soft import AMBIGUOUS, ASK_MORE, MAX_SOFT_LABELS, SETTLED, SoftLabels, soft_labels

AMBIGUITY_QUESTION: Final = "Which tasks divide the crowd, and which only need more votes?"
MAX_SOFT_CELLS: Final = 4_000_000  # tasks x labels up to which a report has the section
MAX_AMBIGUOUS_TASKS: Final = 10  # tasks
MAX_SHARES: Final = 3  # labels of a task
STYLES: Final = {SETTLED: Style("accent"), ASK_MORE: Style("grey", "ring"), AMBIGUOUS: Style("doubt", "diamond")}
HOW: Final = (
    "Each task has a distribution of answers that very many votes would show; few votes say where it may be. A task is ambiguous "
    "if the top answer has less than two thirds of it, settled if it has more, each with a probability of .8. On an ambiguous "
    "task more votes do not help: change the task, or keep the distribution (result.soft(), --soft soft.csv)."
)


def ambiguity(result: Result) -> Markup | None:
    """Return the section; None if votes are too many for a page, or too few to tell."""
    votes = result.votes
    if not result.is_here or votes.n_labels > MAX_SOFT_LABELS or votes.n_tasks * votes.n_labels > MAX_SOFT_CELLS:
        return None
    found = soft_labels(result)
    if np.isnan(found.reliability):
        return None
    told = words.sentence(found.sentences()[0])
    if not found.is_reliable:
        return section("ambiguity", AMBIGUITY_QUESTION, told, how=HOW)
    rows = _most_ambiguous(found)
    listed = (
        [scroll(table(["task", "votes", "answers of infinitely many votes"], rows, numbers=0), "The most ambiguous tasks")]
        if rows
        else []
    )
    return section("ambiguity", AMBIGUITY_QUESTION, told, inline(_picture(found, told)), *listed, how=HOW)


def _picture(found: SoftLabels, told: str) -> Picture:
    counts = found.verdict_counts
    names = name_axis(STYLES)
    frame = pl.DataFrame({"verdict": list(STYLES), "tasks": [counts[verdict] for verdict in STYLES], "zero": [0] * len(STYLES)})
    bars = Marks("bars", frame, x="zero", x2="tasks", y="verdict", by="verdict", hover=fields(verdict="text", tasks="count"))
    shown = [("tasks", [words.count(count) for count in frame["tasks"]])]
    axis = Axis("tasks", 0.0, max(*counts.values(), 1), form="count")
    return Picture(told, (Plot(axis, names, (bars,), styles=STYLES, columns=shown),))


def _most_ambiguous(found: SoftLabels) -> list[tuple[str, str, str]]:
    """Return task, votes and the first answers of the tasks that are most ambiguous."""
    share, ambiguous, _ = found.answers
    of_task = np.where(found.verdicts == 0, ambiguous, -1.0)[found.line]
    labels, votes = found.result.votes.labels.texts(), found.result.votes
    rows = []
    for code in np.argsort(-of_task, kind="stable")[:MAX_AMBIGUOUS_TASKS].tolist():
        if of_task[code] < 0:
            break
        mine = share[found.line[code]]
        first = np.argsort(-mine, kind="stable")[:MAX_SHARES].tolist()
        answers = ", ".join(f"{words.shorten(words.name(labels[k]), 30)} {words.percent(mine[k])}" for k in first)
        rows.append((words.shorten(words.name(str(votes.tasks[code])), 60), words.count(votes.votes_on(code)), answers))
    return rows
