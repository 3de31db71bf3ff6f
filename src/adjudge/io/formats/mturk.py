"""The batch results of Mechanical Turk: a row per assignment, with a column `Answer.…` per field of the form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from adjudge.errors import InputError, quote
from adjudge.io.formats.export import REJECTED, AnswerCollector, Ask, Extract, choose
from adjudge.io.formats.registry import Content

ANSWER_PREFIX: Final = "Answer."
DOCUMENT: Final = "Answer.taskAnswers"  # all answers of an assignment, as JSON
CHECKBOX_VALUES: Final = frozenset({"true", "false", "on", "off"})
ON: Final = frozenset({"true", "on"})


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per assignment that was not rejected."""
    task, worker, status = ask.column("task") or "HITId", ask.column("worker") or "WorkerId", "AssignmentStatus"
    named = ask.columns.get("label")
    own = [name for name in content.fields if name.startswith(ANSWER_PREFIX)] if named is None else [named]
    content.require(task, worker, status, *own, form="mturk")
    frame = content.texts([task, worker, status, *own])
    rejected = frame[status].str.to_lowercase().eq("rejected").fill_null(False)
    kept = frame.filter(~rejected)
    answers = _answers(kept, own, content.name)
    question = choose(answers, ask, content.name, ANSWER_PREFIX)
    ballots = AnswerCollector(ask, content.name)
    for task_id, who, options in zip(kept[task], kept[worker], answers[question], strict=True):
        ballots.vote(task_id, who, options)
    ballots.skipped[REJECTED] += int(rejected.sum())
    return ballots.extract({"task": task, "worker": worker, "label": named or ANSWER_PREFIX + question}, question)


def _answers(frame: pl.DataFrame, columns: list[str], where: str) -> dict[str, list[list[object] | None]]:
    """Return the options chosen, by question: of plain fields, of one field per option, and of JSON documents."""
    out: dict[str, list[list[object] | None]] = {}
    marked: dict[str, dict[str, list[Any]]] = {}
    for name in columns:
        values = frame[name].to_list()
        if name == DOCUMENT:
            documents = [_document(value, row, where) for row, value in enumerate(values, 1)]
            for key in dict.fromkeys(key for one in documents for key in one):
                out[key] = [_options(one.get(key)) for one in documents]
            continue
        group, _, option = name.removeprefix(ANSWER_PREFIX).rpartition(".")
        if group and {str(value).lower() for value in values if value is not None} <= CHECKBOX_VALUES and len(columns) > 1:
            marked.setdefault(group, {})[option] = values
        else:
            out[name.removeprefix(ANSWER_PREFIX)] = [None if value is None else [value] for value in values]
    for group, options in marked.items():
        chosen = [[o for o, values in options.items() if str(values[n]).lower() in ON] for n in range(len(frame))]
        out[group] = [list(one) or None for one in chosen]
    return out


def _document(text: str | None, row: int, where: str) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{where}: {DOCUMENT} in row {row} is {quote(text)}, which is not JSON ({why})") from error
    answers = answers[0] if isinstance(answers, list) and answers else answers
    return answers if isinstance(answers, dict) else {}


def _options(value: Any) -> list[object] | None:
    """Return the options of an answer as the elements of a form write it: text, a label, labels, or marks."""
    if value in (None, ""):
        return None
    if not isinstance(value, dict):
        return list(value) if isinstance(value, list) else [value]
    for name in ("label", "labels"):
        if name in value:
            return _options(value[name])
    if all(isinstance(mark, bool) for mark in value.values()):
        return [option for option, mark in value.items() if mark] or None
    return [value]  # an error says what it is
