"""Label Studio's CSV, TSV and JSON_MIN: a row per annotation, with a column per question among those of the data."""

from __future__ import annotations

import json
from typing import Any, Final

import polars as pl

from adjudge.errors import InputError, listed
from adjudge.io.formats.content import JSON, Content, as_text
from adjudge.io.formats.extract import Ask, Ballots, Extract, SeveralQuestions

NAME: Final = "label-studio-min"
ANSWERS: Final = ("choices", "rating", "taxonomy", "selected")  # what an answer that is an object may hold
OWN: Final = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per row.

    The file does not say which columns are questions and which are data. A column whose values differ within a task is
    a question: data is the same for all annotators.
    """
    task, worker = ask.column("task") or "id", ask.column("worker") or "annotator"
    content.require(task, worker, form=NAME)
    others = [name for name in content.fields if name not in OWN and name not in (task, worker)]
    named = ask.column("label")
    if named is not None:
        content.require(named, form=NAME)
    frame = content.table([task, worker, *(others if named is None else [named])])
    ids = as_text(frame[task])
    question = named or _question(content.name, frame.select(others).with_columns(ids.alias("task id")), others)
    in_json = content.kind in JSON  # answers are as they were written there, not as columns have them
    people = _people(content, worker) if in_json else as_text(frame[worker]).to_list()
    answers = [record.get(question) for record in content.records] if in_json else frame[question].to_list()
    ballots = Ballots(ask, content.name)
    for one, who, answer in zip(ids, people, answers, strict=True):
        ballots.vote(one, who, options_of(answer))
    return ballots.extract(NAME, {"task": task, "worker": worker, "label": question}, question)


def _people(content: Content, worker: str) -> list[object]:
    given = [record.get(worker) for record in content.records]
    return [one.get("email") or one.get("id") if isinstance(one, dict) else one for one in given]


def _question(where: str, frame: pl.DataFrame, others: list[str]) -> str:
    varying = [name for name in others if frame.group_by("task id").agg(pl.col(name).n_unique())[name].gt(1).any()]
    if len(varying) == 1 or (not varying and len(others) == 1):
        return (varying or others)[0]
    if varying:
        raise SeveralQuestions(where, varying)
    raise InputError(
        f"{where}: which column holds the answers? No column differs between the annotators of a task; "
        f"say which with question=… (--question): {listed(others) or 'there is none beside those of Label Studio'}"
    )


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
        value = next((value[name] for name in ANSWERS if name in value), [value])
    if not isinstance(value, list):
        return [value]
    return [" / ".join(map(str, one)) if isinstance(one, list) else one for one in value]
