"""Label Studio's JSON: an array of tasks, each with its annotations and the predictions of models."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from adjudge.errors import InputError, listed
from adjudge.io.formats.content import Content
from adjudge.io.formats.extract import DRAFT, PREDICTED, Ask, Ballots, Extract, choose

NAME: Final = "label-studio"
VOTES: Final = frozenset({"choices", "rating", "taxonomy", "pairwise"})  # results that are labels
SEVERAL: Final = "answers on several regions of one task"
NUMBERS: Final = "predictions of which only numbers are in the export"


class Value(msgspec.Struct, gc=False):
    """What a result says; everything else of it (boxes, spans, text) is not even decoded."""

    choices: list[str] | str | None = None
    rating: int | float | None = None
    taxonomy: list[list[str]] | None = None
    selected: str | None = None


class Result(msgspec.Struct, gc=False):
    """An answer to one question."""

    from_name: str = ""
    type: str = ""
    value: Value | None = None


class Person(msgspec.Struct, gc=False):
    """Who made an annotation, where the export says more than a number."""

    email: str | None = None
    username: str | None = None
    id: int | str | None = None


class Annotation(msgspec.Struct, gc=False):
    """Everything that one person has answered on a task."""

    completed_by: int | str | Person | None = None
    result: list[Result] | None = None
    was_cancelled: bool | None = None
    ground_truth: bool | None = None


class Prediction(msgspec.Struct, gc=False):
    """Everything that one model has answered on a task."""

    result: list[Result] | None = None
    model_version: str | None = None


class Draft(msgspec.Struct, gc=False):
    """What somebody has not submitted, of which nothing is decoded."""


class Task(msgspec.Struct, gc=False):
    """A task."""

    id: int | str
    annotations: list[Annotation] | None = None
    predictions: list[Prediction | int] | None = None
    drafts: list[Draft | int] | None = None


def read(content: Content, ask: Ask) -> Extract:
    """Return annotations as votes, those marked as ground truth as gold."""
    tasks: list[Task] = content.decoded(Task)
    seen: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        for given in (*(task.annotations or ()), *((task.predictions or ()) if ask.predictions else ())):
            for result in _results(given):
                seen[result.from_name, result.type] += 1
    if not seen and not ask.predictions and any(task.predictions for task in tasks):
        raise InputError(f"{content.name} has answers of models alone: predictions=True (--predictions) makes them votes")
    questions = {name for name, kind in seen if kind in VOTES}
    if seen and not questions:
        kinds = listed(sorted({kind for _, kind in seen}))
        raise InputError(
            f"{content.name} has only results of the kinds {kinds}: {listed(sorted(VOTES))} are votes, others are not"
        )
    question = choose(questions, ask, content.name)
    ballots = Ballots(ask, content.name)
    for task in tasks:
        _take(task, question, ballots, ask)
    worker = "annotations[].completed_by" + (", predictions[].model_version" if ask.predictions else "")
    return ballots.extract(NAME, {"task": "id", "worker": worker, "label": question}, question)


def _take(task: Task, question: str, ballots: Ballots, ask: Ask) -> None:
    quick, name = not ask.sets, str(task.id)
    for number, annotation in enumerate(task.annotations or ()):
        results = annotation.result
        by: object = annotation.completed_by
        if type(by) is not int:
            by = _person(by, task, number, ballots)
        if quick and results is not None and len(results) == 1 and not annotation.was_cancelled and not annotation.ground_truth:
            # Nearly all annotations are of this shape, and there may be millions.
            only = results[0]
            chosen = None if only.value is None else only.value.choices
            if only.from_name == question and type(chosen) is list and len(chosen) == 1:
                ballots.tasks.append(name)
                ballots.workers.append(str(by))
                ballots.labels.append(chosen[0])
                continue
        found = _answers(results, question)
        if annotation.was_cancelled or (not found and not annotation.ground_truth):
            ballots.vote(task.id, by, None)
        elif len(found) > 1:
            ballots.skipped[SEVERAL] += 1
        elif annotation.ground_truth:
            ballots.gold(task.id, found[0] if found else None)
        else:
            ballots.vote(task.id, by, found[0])
    ballots.skipped[DRAFT] += len(task.drafts or ())
    for prediction in task.predictions or ():
        found = _answers(_results(prediction), question)
        if not ask.predictions:
            ballots.skipped[PREDICTED] += 1
        elif isinstance(prediction, int):
            ballots.skipped[NUMBERS] += 1
        elif len(found) > 1:
            ballots.skipped[SEVERAL] += 1
        elif found:
            ballots.vote(task.id, prediction.model_version or "model", found[0])


def _results(given: Annotation | Prediction | int) -> list[Result]:
    """Return the results; some exports have only the numbers of predictions."""
    return [] if isinstance(given, int) else given.result or []


def _answers(results: list[Result] | None, question: str) -> list[list[object]]:
    """Return the options of each answer to the question."""
    return [options(result.value) for result in results or () if result.from_name == question and result.type in VOTES]


def options(value: Value | None) -> list[object]:
    """Return what was chosen."""
    if value is None:
        return []
    if value.choices is not None:
        return [value.choices] if isinstance(value.choices, str) else [*value.choices]
    if value.taxonomy is not None:
        return [" / ".join(path) for path in value.taxonomy]
    return [one for one in (value.rating, value.selected) if one is not None]


def _person(by: object, task: Task, number: int, ballots: Ballots) -> object:
    """Return who made an annotation: a number, or an object with an address."""
    if isinstance(by, Person):
        by = next((one for one in (by.email, by.username, by.id) if one not in (None, "")), None)
    if by is None or by == "":
        raise InputError(
            f"{ballots.where}: annotation {number + 1} of task {task.id!r} has no completed_by: every vote needs a worker"
        )
    return by
