"""Argilla's suggestions: the records of an export with the label of each as the suggestion of a model.

Argilla knows its records by their ids, so logging them again changes the suggestions and nothing else. A question has one
suggestion: the label takes the place of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from adjudge.io.formats.argilla import FLAT, NESTED, RESPONSES
from adjudge.io.formats.consensus import Answer, Consensus, Values
from adjudge.io.formats.content import JSON, Content
from adjudge.io.formats.extract import Ask, choose, label_text

SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
TABLE_SUFFIXES: Final = (".parquet", ".pq", ".jsonl", ".ndjson")  # of flat records that are a table: they have lists
USERS: Final = f"{RESPONSES}.users"
# The fields of a suggestion, and what they are called where records are flat.
FIELDS: Final = {"value": ".suggestion", "score": ".suggestion.score", "agent": ".suggestion.agent"}


def rows(contents: Sequence[Content], consensus: Consensus, where: str) -> list[dict[str, Any]] | pl.DataFrame:
    """Return every record with its label as a suggestion; as it is where the record has no label."""
    if any(content.kind not in JSON for content in contents):
        frames = [content.table(content.fields) for content in contents]
        return _table(pl.concat(frames, how="diagonal_relaxed"), consensus, where)
    records = [record for content in contents for record in content.records]
    return (_nested if "responses" in contents[0].fields else _flat)(records, consensus, where)


def without_votes(contents: Sequence[Content]) -> list[dict[str, Any]] | pl.DataFrame:
    """Return every record without responses and suggestions, as one that is pending."""
    if any(content.kind not in JSON for content in contents):
        frame = pl.concat([content.table(content.fields) for content in contents], how="diagonal_relaxed")
        return frame.drop(name for name in frame.columns if _is_of_votes(name))
    records = [record for content in contents for record in content.records]
    return [{name: value for name, value in record.items() if not _is_of_votes(name)} for record in records]


def id_of(record: dict[str, Any]) -> object:
    """Return the id of a record."""
    return record.get("id")


def _is_of_votes(name: str) -> bool:
    """Return whether a field has responses, suggestions, or says that there are enough of them."""
    ends = (RESPONSES, USERS, f"{RESPONSES}.status", *FIELDS.values())
    return name in ("responses", "suggestions", "status") or name.endswith(ends)


def _nested(records: list[dict[str, Any]], consensus: Consensus, where: str) -> list[dict[str, Any]]:
    tasks = [str(record.get("id")) for record in records]
    consensus.require_some(tasks, where)
    named = consensus.column(NESTED)  # responses.QUESTION[].value
    asked = None if named is None else named.removeprefix("responses.").removesuffix("[].value")
    responses = [record.get("responses") or {} for record in records]
    question = asked or choose((name for given in responses for name in given), Ask(), where)
    given = (one.get("value") for every in responses for one in every.get(question) or ())
    suggest = Suggestions(consensus, given, where)
    out = []
    for task, record in zip(tasks, records, strict=True):
        found = suggest.of(task)
        new = {} if found is None else {"suggestions": {**(record.get("suggestions") or {}), question: found}}
        out.append({**record, **new})
    return out


def _flat(records: list[dict[str, Any]], consensus: Consensus, where: str) -> list[dict[str, Any]]:
    tasks = [str(record.get("id")) for record in records]
    consensus.require_some(tasks, where)
    question = _flat_question(dict.fromkeys(name for record in records for name in record), consensus, where)
    given = (value for record in records for value in record.get(question + RESPONSES) or ())
    suggest = Suggestions(consensus, given, where)
    out = []
    for task, record in zip(tasks, records, strict=True):
        found = suggest.of(task) or {}
        out.append({**record, **{question + FIELDS[what]: value for what, value in found.items()}})
    return out


def _table(frame: pl.DataFrame, consensus: Consensus, where: str) -> pl.DataFrame:
    tasks = [str(task) for task in frame["id"]]
    consensus.require_some(tasks, where)
    question = _flat_question(frame.columns, consensus, where)
    given = (value for values in frame[question + RESPONSES] for value in (() if values is None else values))
    suggest = Suggestions(consensus, given, where)
    found = [suggest.of(task) for task in tasks]
    columns = {}
    for what, end in FIELDS.items():
        name = question + end
        old = frame[name].to_list() if name in frame.columns else [None] * len(tasks)
        columns[name] = pl.Series([was if new is None else new[what] for new, was in zip(found, old, strict=True)], strict=False)
    return frame.with_columns(**columns)


def _flat_question(names: Iterable[str], consensus: Consensus, where: str) -> str:
    named = consensus.column(FLAT)  # QUESTION.responses
    if named is not None:
        return named.removesuffix(RESPONSES)
    every = set(names)
    return choose((name.removesuffix(USERS) for name in every if name.endswith(USERS)), Ask(), where)


class Suggestions:
    """Labels as suggestions: values as people gave them, lists where people gave lists, with a score for each."""

    def __init__(self, consensus: Consensus, given: Iterable[Any], where: str) -> None:
        self._consensus, self._values, self._is_list = consensus, Values(), consensus.is_set
        for answer in given:
            self._is_list |= isinstance(answer, list | pl.Series)
            for value in answer if isinstance(answer, list | pl.Series) else [answer]:
                if value is not None:
                    self._values.add(label_text(value, where, ""), value)

    def of(self, task: str) -> dict[str, Any] | None:
        """Return the suggestion for a task; None where it has no label."""
        answer: Answer | None = self._consensus.answers.get(task)
        if answer is None:
            return None
        values = [self._values.of(option) for option in answer.options]
        several = self._is_list  # Argilla wants a score for each value then, and one score otherwise
        return {
            "value": values if several else values[0],
            "score": answer.scores if several else answer.confidence,
            "agent": self._consensus.by,
        }
