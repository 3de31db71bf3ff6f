"""The sections of a report on sets of options: tasks with several correct answers."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from adjudge.evaluation.sets import SetEvaluation
from adjudge.report import sections, words
from adjudge.report.html import Markup, section, small, table, tag
from adjudge.report.views import labels as of_labels
from adjudge.report.views.votes import agreement, confusions
from adjudge.report.views.workers import WorkersView, workers
from adjudge.results.sets import YES, MultiResult

MAX_SETS: Final = 30
MAX_OPTIONS: Final = 12  # of a task, the least certain first


def set_workers(result: MultiResult) -> WorkersView:
    """Return the view of the workers: judged by their yes or no to every option, with their sets as votes."""
    view = workers(result.over_questions)
    per_set = max(len(result.votes.options), 1)
    frame = view.frame.with_columns(votes=pl.col("votes") // per_set)
    return WorkersView(frame, view.people, view.chance, view.is_judged, view.left_out)


def set_sections(result: MultiResult, view: WorkersView, evaluation: SetEvaluation | None) -> list[Markup | None]:
    """Return all sections, in order."""
    own = result.results[0] if len(result.results) == 1 else None
    others = agreement(view.people) if view.is_judged else None
    return [
        _trust(result, evaluation),
        sections.workers(view, {}, "set"),
        sections.crowd(confusions(view.people, None)[0]),
        sections.balance(of_labels.shares(result)),
        _doubts(result),
        sections.alike(others, view.left_out),
        _against_truth(evaluation),
        None if own is None else sections.convergence(of_labels.trace(own)),
    ]


def _trust(result: MultiResult, evaluation: SetEvaluation | None) -> Markup:
    view, wrong = of_labels.headline(result), result.expected_wrong_options
    binned = of_labels.bin_confidence(result.labels_frame()["confidence"].drop_nulls().to_numpy())
    questions = f"of {words.count(view.tasks * view.labels)} questions, one per task and option"
    cards = [("tasks", words.count(view.tasks), sections.size_of(view)), sections.wrong_card(view)]
    cards.append(("expected wrong answers", words.figure(wrong), questions))
    if evaluation is not None and evaluation.tasks:
        tasks = words.tally(evaluation.tasks, "task")
        behind = f"{words.percent(evaluation.option_accuracy)} of the answers; {tasks} with truth"
        cards.append(("sets that are right", words.percent(evaluation.exact_accuracy), behind))
    how = (
        "The confidence of a set is the probability that every one of its options is right: the product over options, which "
        "takes errors about one task for independent."
    )
    return sections.trust_section(view, cards, binned, binned.sentence.replace("label", "set"), how)


def _doubts(result: MultiResult) -> Markup:
    """Return the least certain sets, with the probability of every option and who chose it."""
    frame = result.labels_frame().filter(pl.col("confidence").is_not_null())
    chances = result.probabilities_frame().drop("task").to_numpy()
    order = np.argsort(frame["confidence"].to_numpy(), kind="stable")[:MAX_SETS]
    names = result.votes.options.texts()
    options = [words.shorten(name, 60) for name in names]
    binary, k = result.votes.binary, len(options)
    lines = []
    for at in order.tolist():
        row = frame.row(at, named=True)
        first = slice(int(binary.task_ptr[at * k]), int(binary.task_ptr[(at + 1) * k]))
        option = np.repeat(np.arange(k), np.diff(binary.task_ptr[at * k : (at + 1) * k + 1]))
        said = np.bincount(option, binary.row_label[binary.row[first]] == YES, minlength=k).astype(np.int64)
        unsure = np.argsort(np.abs(chances[at] - 0.5), kind="stable")[:MAX_OPTIONS]
        rows = [
            (
                options[o],
                "chosen" if names[o] in row["label"] else "",
                words.percent(float(chances[at][o])),
                f"{said[o]} of {row['votes']}",
            )
            for o in unsure.tolist()
        ]
        chosen = ", ".join(words.shorten(name, 40) for name in row["label"]) or "none of the options"
        votes = tag("span", words.tally(row["votes"], "vote"), class_="small")
        inside = table(["option, least certain first", "", "probability", "votes for it"], rows, numbers=2)
        lines.append(sections.task_line(row["task"], words.shorten(chosen, 120), row["confidence"], votes, inside))
    left = len(frame) - len(lines)
    more = small(f"{words.count(left)} more tasks: `result.labels` has all sets.") if left > 0 else None
    how = "A line is a task: its set, and the probability that the whole set is right. Open it to see every option."
    answer = "The sets below are the least certain ones." if len(lines) > 1 else "There is one task."
    return section("tasks", of_labels.DOUBTS, answer, lines, more, how=how)


def _against_truth(evaluation: SetEvaluation | None) -> Markup:
    question = "How good are the sets?"
    if evaluation is None or not evaluation.tasks:
        what = "No truth was given" if evaluation is None else "The truth has none of the tasks whose set was not given"
        return sections.no_truth(question, what, "accuracy")
    share = words.percent(evaluation.exact_accuracy)
    answer = f"{share} of {words.tally(evaluation.tasks, 'set')} with truth are right as a whole."
    rows = [
        ("whole sets", share),
        ("answers, one per task and option", words.percent(evaluation.option_accuracy)),
        ("F1 over all answers", words.figure(evaluation.micro_f1)),
        ("F1, mean of the options", words.figure(evaluation.macro_f1)),
        ("Jaccard, mean of the tasks", words.figure(evaluation.jaccard)),
    ]
    return section("truth", question, answer, table(["", ""], rows, numbers=1))
