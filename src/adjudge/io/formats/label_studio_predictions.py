"""Label Studio's predictions: the tasks of an export with their data, and the label of each as a model's prediction.

An import of Label Studio makes new tasks, so everything that it needs of the old ones is carried along, unparsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from adjudge.errors import InputError, listed, shown
from adjudge.io.formats.consensus import Answer, Consensus, Values
from adjudge.io.formats.content import Content, decode
from adjudge.io.formats.extract import Ask, choose, label_text
from adjudge.io.formats.label_studio import NAME, VOTES, Value

SUFFIXES: Final = (".json",)  # that Label Studio imports tasks with predictions from
BETWEEN: Final = " / "  # the names of a path in a taxonomy, as labels have them
EMPTY: Final = (b"{}", b"null")


class Given(msgspec.Struct, gc=False):
    """An answer to one question."""

    from_name: str = ""
    to_name: str = ""
    type: str = ""
    value: Value | None = None


class Annotation(msgspec.Struct, gc=False):
    """What a person or a model has answered on a task."""

    result: list[Given] | None = None


class Task(msgspec.Struct):
    """A task; its data is not even decoded."""

    id: int | str
    data: msgspec.Raw
    meta: msgspec.Raw = msgspec.Raw(b"{}")
    annotations: list[Annotation] | None = None
    predictions: list[Annotation | int] | None = None


class Prediction(msgspec.Struct):
    """A label as Label Studio takes it."""

    model_version: str
    score: float
    result: list[dict[str, Any]]


class Predicted(msgspec.Struct, omit_defaults=True):
    """A task as Label Studio imports it."""

    id: int | str
    data: msgspec.Raw
    predictions: list[Prediction] | tuple[()]
    meta: msgspec.Raw | None = None


class Unlabelled(msgspec.Struct, omit_defaults=True):
    """A task to be labelled as Label Studio imports it."""

    id: int | str
    data: msgspec.Raw
    meta: msgspec.Raw | None = None


def without_votes(contents: Sequence[Content]) -> list[Unlabelled]:
    """Return every task of an export without annotations and predictions."""
    tasks = [task for content in contents for task in _tasks(content)]
    return [Unlabelled(task.id, task.data, None if bytes(task.meta) in EMPTY else task.meta) for task in tasks]


def id_of(task: Unlabelled) -> object:
    """Return the id of a task."""
    return task.id


def rows(contents: Sequence[Content], consensus: Consensus, where: str) -> list[Predicted]:
    """Return every task of an export with its label as a prediction; without one where the task has no label."""
    tasks = [task for content in contents for task in _tasks(content)]
    consensus.require_some([str(task.id) for task in tasks], where)
    answers = [given for task in tasks for given in _given(task) if given.type in VOTES]
    names = (given.from_name for given in answers)
    question = consensus.column(NAME) or choose(names, Ask(), where)
    control, kind, values = _control([given for given in answers if given.from_name == question], question, where)

    def prediction(answer: Answer) -> Prediction:
        chosen = _value(kind, [values.of(option) for option in answer.options], question, where)
        result = [{**control, "type": kind, "value": chosen}] if answer.options else []
        return Prediction(consensus.by, answer.confidence, result)

    found = ((task, consensus.answers.get(str(task.id))) for task in tasks)
    return [
        Predicted(task.id, task.data, [] if one is None else [prediction(one)], None if bytes(task.meta) in EMPTY else task.meta)
        for task, one in found
    ]


def _tasks(content: Content) -> list[Task]:
    if content.kind == "records":  # in memory, where data is not bytes
        return list(decode(msgspec.json.encode(content.records), list[Task], content.name))
    return content.decoded(Task)


def _given(task: Task) -> Iterator[Given]:
    for one in (*(task.annotations or ()), *(task.predictions or ())):
        if isinstance(one, Annotation):
            yield from one.result or ()


def _control(answers: Sequence[Given], question: str, where: str) -> tuple[dict[str, str], str, Values]:
    """Return what a question is called and what it is about, the type of its answers, and its labels as they were given."""
    named = next((given for given in answers if given.to_name), None)
    if named is None:
        raise InputError(
            f"{where}: no answer to {shown(question)} has a to_name, without which Label Studio takes no prediction; "
            "give the export as Label Studio has written it"
        )
    values = Values({"taxonomy": lambda text: text.split(BETWEEN), "rating": _number}.get(named.type, str))
    for given in answers:
        if given.type == named.type and given.value is not None:
            for value in _options(given.value):
                text = BETWEEN.join(value) if isinstance(value, list) else label_text(value, where, "")
                values.add(text, value)
    return {"from_name": question, "to_name": named.to_name}, named.type, values


def _options(value: Value) -> Iterable[Any]:
    if value.choices is not None:
        return [value.choices] if isinstance(value.choices, str) else value.choices
    if value.taxonomy is not None:
        return value.taxonomy
    return [one for one in (value.rating, value.selected) if one is not None]


def _value(kind: str, options: list[Any], question: str, where: str) -> dict[str, Any]:
    """Return options in the shape of their type."""
    if kind in ("choices", "taxonomy"):
        return {kind: options}
    if len(options) > 1:
        raise InputError(f"{where}: {shown(question)} is a {kind}, which has one value, and a label has {listed(options)}")
    return {"selected" if kind == "pairwise" else kind: one for one in options}


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
