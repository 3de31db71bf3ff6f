"""Label Studio: annotations and predictions of its JSON, rows of its CSV and JSON_MIN, and labels as predictions to import.

An import of Label Studio makes new tasks, so everything that it needs of the old ones is carried along, unparsed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from adjudge.errors import InputError, itemize, quote
from adjudge.io.formats import export
from adjudge.io.formats.decoding import decode
from adjudge.io.formats.export import AnswerCollector, Ask, Extract, Values, choose
from adjudge.io.formats.registry import JSON_KINDS, Content, as_text

NAME: Final = "label-studio"
MIN: Final = "label-studio-min"
VOTE_RESULT_TYPES: Final = frozenset({"choices", "rating", "taxonomy", "pairwise"})  # results that are labels
SEVERAL_REGIONS: Final = "answers on several regions of one task"
NUMBERED_PREDICTIONS: Final = "predictions of which only numbers are in the export"
ANSWER_KEYS: Final = ("choices", "rating", "taxonomy", "selected")  # what an answer that is an object may hold
METADATA_FIELDS: Final = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
SUFFIXES: Final = (".json",)  # that Label Studio imports tasks with predictions from
BETWEEN: Final = " / "  # the names of a path in a taxonomy, as labels have them
EMPTY: Final = (b"{}", b"null")
ORIGINAL_ID: Final = "adjudge_task"  # in the metadata of tasks that a draw of gold wrote


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


class ModelAnswers(msgspec.Struct, gc=False):
    """Everything that one model has answered on a task."""

    result: list[Result] | None = None
    model_version: str | None = None


class Draft(msgspec.Struct, gc=False):
    """What somebody has not submitted, of which nothing is decoded."""


class ExportedTask(msgspec.Struct, gc=False):
    """A task."""

    id: int | str
    annotations: list[Annotation] | None = None
    predictions: list[ModelAnswers | int] | None = None
    drafts: list[Draft | int] | None = None


def read(content: Content, ask: Ask) -> Extract:
    """Return annotations as votes, those marked as ground truth as gold."""
    tasks: list[ExportedTask] = content.decoded(ExportedTask)
    seen: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        for given in (*(task.annotations or ()), *((task.predictions or ()) if ask.predictions else ())):
            for result in _results(given):
                seen[result.from_name, result.type] += 1
    if not seen and not ask.predictions and any(task.predictions for task in tasks):
        raise InputError(f"{content.name} has answers of models alone: predictions=True (--predictions) makes them votes")
    questions = {name for name, kind in seen if kind in VOTE_RESULT_TYPES}
    if seen and not questions:
        kinds = itemize(sorted({kind for _, kind in seen}))
        raise InputError(
            f"{content.name} has only results of the kinds {kinds}: only {itemize(sorted(VOTE_RESULT_TYPES))} are votes"
        )
    question = choose(questions, ask, content.name)
    ballots = AnswerCollector(ask, content.name)
    for task in tasks:
        _take(task, question, ballots, ask)
    worker = "annotations[].completed_by" + (", predictions[].model_version" if ask.predictions else "")
    return ballots.extract({"task": "id", "worker": worker, "label": question}, question)


def _take(task: ExportedTask, question: str, ballots: AnswerCollector, ask: Ask) -> None:
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
        answers = _answers(results, question)
        if annotation.was_cancelled or (not answers and not annotation.ground_truth):
            ballots.vote(task.id, by, None)
        elif len(answers) > 1:
            ballots.skipped[SEVERAL_REGIONS] += 1
        elif annotation.ground_truth:
            ballots.gold(task.id, answers[0] if answers else None)
        else:
            ballots.vote(task.id, by, answers[0])
    ballots.skipped[export.DRAFT] += len(task.drafts or ())
    for prediction in task.predictions or ():
        answers = _answers(_results(prediction), question)
        if not ask.predictions:
            ballots.skipped[export.PREDICTED] += 1
        elif isinstance(prediction, int):
            ballots.skipped[NUMBERED_PREDICTIONS] += 1
        elif len(answers) > 1:
            ballots.skipped[SEVERAL_REGIONS] += 1
        elif answers:
            ballots.vote(task.id, prediction.model_version or "model", answers[0])


def _results(given: Annotation | ModelAnswers | int) -> list[Result]:
    """Return the results; some exports have only the numbers of predictions."""
    return [] if isinstance(given, int) else given.result or []


def _answers(results: list[Result] | None, question: str) -> list[list[object]]:
    """Return the options of each answer to the question."""
    return [
        options(result.value) for result in results or () if result.from_name == question and result.type in VOTE_RESULT_TYPES
    ]


def options(value: Value | None) -> list[object]:
    """Return what was chosen, as labels have it."""
    return [BETWEEN.join(one) if isinstance(one, list) else one for one in _chosen(value)]


def _chosen(value: Value | None) -> Sequence[Any]:
    """Return what was chosen, as Label Studio has it: a path of a taxonomy is a list of names."""
    if value is None:
        return []
    if value.choices is not None:
        return [value.choices] if isinstance(value.choices, str) else value.choices
    return value.taxonomy if value.taxonomy is not None else [one for one in (value.rating, value.selected) if one is not None]


def _person(by: object, task: ExportedTask, number: int, ballots: AnswerCollector) -> object:
    """Return who made an annotation: a number, or an object with an address."""
    if isinstance(by, Person):
        by = next((one for one in (by.email, by.username, by.id) if one not in (None, "")), None)
    if by is None or by == "":
        raise InputError(
            f"{ballots.where}: annotation {number + 1} of task {task.id!r} has no completed_by: every vote needs a worker"
        )
    return by


def read_min(content: Content, ask: Ask) -> Extract:
    """Return a vote per row.

    The file does not say which columns are questions and which are data. A column whose values differ within a task is
    a question: data is the same for all annotators.
    """
    task, worker = ask.column("task") or "id", ask.column("worker") or "annotator"
    content.require(task, worker, form=MIN)
    others = [name for name in content.fields if name not in METADATA_FIELDS and name not in (task, worker)]
    named = ask.column("label")
    if named is not None:
        content.require(named, form=MIN)
    frame = content.table([task, worker, *(others if named is None else [named])])
    ids = as_text(frame[task])
    question = named or _question(content.name, frame.select(others).with_columns(ids.alias("task id")), others)
    in_json = content.kind in JSON_KINDS  # answers are as they were written there, not as columns have them
    people = _people(content, worker) if in_json else as_text(frame[worker]).to_list()
    answers = [record.get(question) for record in content.records] if in_json else frame[question].to_list()
    ballots = AnswerCollector(ask, content.name)
    for task_id, who, answer in zip(ids, people, answers, strict=True):
        ballots.vote(task_id, who, options_of(answer))
    return ballots.extract({"task": task, "worker": worker, "label": question}, question)


def _people(content: Content, worker: str) -> list[object]:
    given = [record.get(worker) for record in content.records]
    return [one.get("email") or one.get("id") if isinstance(one, dict) else one for one in given]


def _question(where: str, frame: pl.DataFrame, others: list[str]) -> str:
    varying = [name for name in others if frame.group_by("task id").agg(pl.col(name).n_unique())[name].gt(1).any()]
    varying = varying or (others if len(others) == 1 else [])
    columns = others or ["none but those of Label Studio"]
    return export.choose_varying(columns, varying, where, "No column differs between the annotators of a task")


def options_of(value: Any) -> list[object] | None:
    """Return the options of an answer as Label Studio writes it: plain, as a list, or as an object that a list may hold.

    >>> options_of("Positive"), options_of('{"choices": ["a", "b"]}'), options_of(None), options_of(4)
    (['Positive'], ['a', 'b'], None, [4])
    >>> options_of([{"rating": 3}]), options_of('[{"taxonomy": [["A", "B"]]}]'), options_of([{"selected": "left"}])
    ([3], ['A / B'], ['left'])
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and value[0] in "{[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]
    if isinstance(value, dict):
        value = next((value[name] for name in ANSWER_KEYS if name in value), [value])
    if not isinstance(value, list):
        return [value]
    return [BETWEEN.join(map(str, one)) if isinstance(one, list) else one for one in value]


class Given(Result, gc=False):
    """An answer to one question, and the part of the task that it is about."""

    to_name: str = ""


class ExistingAnswer(msgspec.Struct, gc=False):
    """What a person or a model has answered on a task."""

    result: list[Given] | None = None


class StoredTask(msgspec.Struct):
    """A task; its data is not even decoded."""

    id: int | str
    data: msgspec.Raw
    meta: msgspec.Raw = msgspec.Raw(b"{}")
    annotations: list[ExistingAnswer] | None = None
    predictions: list[ExistingAnswer | int] | None = None


class WrittenPrediction(msgspec.Struct):
    """A label as Label Studio takes it."""

    model_version: str
    score: float
    result: list[dict[str, Any]]


class ImportedTask(msgspec.Struct, omit_defaults=True):
    """A task as Label Studio imports it; without predictions it is one to be labelled."""

    id: int | str
    data: msgspec.Raw
    predictions: list[WrittenPrediction] | None = None
    meta: msgspec.Raw | None = None


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the data of every task of a JSON export."""
    for content in contents:
        for task in _tasks([content]) if content.has("data") else ():
            yield str(task.id), decode(bytes(task.data), dict[str, Any], content.name)


def without_votes(contents: Sequence[Content]) -> list[ImportedTask]:
    """Return every task of an export without annotations and predictions."""
    return [_convert_task(task, None) for task in _tasks(contents)]


def with_original_id(task: ImportedTask) -> ImportedTask:
    """Return a task that keeps its id in its metadata, as an import gives it a new one."""
    meta = {} if task.meta is None else msgspec.json.decode(task.meta)
    if not isinstance(meta, dict):
        raise InputError(f"the meta of task {quote(task.id)} is {quote(meta)}: an object is expected")
    task.meta = msgspec.Raw(msgspec.json.encode({**meta, ORIGINAL_ID: str(task.id)}))
    return task


def original_ids(contents: Sequence[Content]) -> dict[str, str]:
    """Return the ids that tasks had before they were imported, where their metadata has them, by the ids they have now."""
    originals: dict[str, str] = {}
    for task in _tasks(contents):
        meta = None if ORIGINAL_ID.encode() not in bytes(task.meta) else msgspec.json.decode(task.meta)
        if isinstance(meta, dict) and isinstance(meta.get(ORIGINAL_ID), str):
            originals[str(task.id)] = meta[ORIGINAL_ID]
    return originals


def id_of(task: ImportedTask) -> object:
    """Return the id of a task."""
    return task.id


def rows(contents: Sequence[Content], consensus: export.Consensus, where: str) -> list[ImportedTask]:
    """Return every task of an export with its label as a prediction; without one if the task has no label."""
    tasks = _tasks(contents)
    consensus.require_some([str(task.id) for task in tasks], where)
    existing = (one for task in tasks for one in (*(task.annotations or ()), *(task.predictions or ())))
    answers = [given for one in existing if not isinstance(one, int) for given in one.result or ()]
    answers = [given for given in answers if given.type in VOTE_RESULT_TYPES]
    question = consensus.column(NAME) or choose((given.from_name for given in answers), Ask(), where)
    control, kind, values = _control([given for given in answers if given.from_name == question], question, where)

    def prediction(label: export.ConsensusLabel) -> WrittenPrediction:
        chosen = _value(kind, [values.of(option) for option in label.options], question, where)
        result = [{**control, "type": kind, "value": chosen}] if label.options else []
        return WrittenPrediction(consensus.by, label.confidence, result)

    labels = ((task, consensus.answers.get(str(task.id))) for task in tasks)
    return [_convert_task(task, [] if label is None else [prediction(label)]) for task, label in labels]


def _convert_task(task: StoredTask, predictions: list[WrittenPrediction] | None) -> ImportedTask:
    return ImportedTask(task.id, task.data, predictions, None if bytes(task.meta) in EMPTY else task.meta)


def _tasks(contents: Sequence[Content]) -> list[StoredTask]:
    tasks: list[StoredTask] = []
    for content in contents:
        if content.kind == "records":  # in memory, where data is not bytes
            tasks += decode(msgspec.json.encode(content.records), list[StoredTask], content.name)
        else:
            tasks += content.decoded(StoredTask)
    return tasks


def _control(answers: Sequence[Given], question: str, where: str) -> tuple[dict[str, str], str, Values]:
    """Return a question's name and object, the type of its answers, and its labels as given."""
    named = next((given for given in answers if given.to_name), None)
    if named is None:
        raise InputError(
            f"{where}: no answer to {quote(question)} has a to_name, without which Label Studio takes no prediction; "
            "give the export as Label Studio has written it"
        )
    values = Values({"taxonomy": lambda text: text.split(BETWEEN), "rating": _number}.get(named.type, str))
    for given in answers:
        for value in _chosen(given.value) if given.type == named.type else ():
            values.add(BETWEEN.join(value) if isinstance(value, list) else export.label_text(value, where, ""), value)
    return {"from_name": question, "to_name": named.to_name}, named.type, values


def _value(kind: str, options: list[Any], question: str, where: str) -> dict[str, Any]:
    """Return options in the shape of their type."""
    if kind in ("choices", "taxonomy"):
        return {kind: options}
    if len(options) > 1:
        raise InputError(f"{where}: {quote(question)} is a {kind}, which has one value, and a label has {itemize(options)}")
    return {"selected" if kind == "pairwise" else kind: one for one in options}


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
