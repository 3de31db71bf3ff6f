"""Argilla 2: records with the responses to every question, nested as its JSON has them or flat as in Hugging Face datasets.

Labels go back as the records of an export with suggestions of a model. Argilla knows its records by their ids, so logging them
again changes the suggestions and nothing else. A question has one suggestion: the label takes the place of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import polars as pl

from adjudge.errors import InputError, quote
from adjudge.io.formats.export import DRAFT, PREDICTED, AnswerCollector, Ask, Consensus, Extract, Values, choose, label_text
from adjudge.io.formats.registry import JSON_KINDS, Content

NESTED_FORMAT: Final = "argilla"
FLAT_FORMAT: Final = "argilla-flat"
RESPONSES_SUFFIX: Final = ".responses"
USERS: Final = ".responses.users"
SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
TABLE_SUFFIXES: Final = (".parquet", ".pq", ".jsonl", ".ndjson")  # of flat records that are a table: they have lists
# The fields of a suggestion, and their names in flat records.
SUGGESTION_SUFFIXES: Final = {"value": ".suggestion", "score": ".suggestion.score", "agent": ".suggestion.agent"}


def read(content: Content, ask: Ask) -> Extract:
    """Return submitted responses as votes, discarded ones as abstentions; suggestions are votes of their agents where asked."""
    if content.kind in JSON_KINDS and "responses" in content.fields:
        return _read_nested(content, ask)
    return _read_flat(content, ask)


def _read_nested(content: Content, ask: Ask) -> Extract:
    records = content.records
    responses = [_mapping(record.get("responses"), number, "responses", content) for number, record in enumerate(records, 1)]
    suggestions = [
        _mapping(record.get("suggestions"), number, "suggestions", content) for number, record in enumerate(records, 1)
    ]
    sources = [*responses, *(suggestions if ask.predictions else [])]
    question = choose((name for one in sources for name in one), ask, content.name)
    ballots = AnswerCollector(ask, content.name)
    for record, given, suggested in zip(records, responses, suggestions, strict=True):
        answered = given.get(question) or []
        if not isinstance(answered, list):
            raise InputError(
                f"{content.name}: responses to {quote(question)} are {quote(answered)}: a list of objects is expected"
            )
        for response in answered:
            if not isinstance(response, dict):
                raise InputError(f"{content.name}: a response to {quote(question)} is {quote(response)}: an object is expected")
            _take(ballots, record.get("id"), response.get("user_id"), response.get("value"), response.get("status"))
        one = suggested.get(question)
        if isinstance(one, dict):
            _suggest(ballots, record.get("id"), one.get("agent"), one.get("value"), ask)
    worker = f"responses.{question}[].user_id" + (f", suggestions.{question}.agent" if ask.predictions else "")
    columns = {"task": "id", "worker": worker, "label": f"responses.{question}[].value"}
    return ballots.extract(columns, question)


def _read_flat(content: Content, ask: Ask) -> Extract:
    questions = [name.removesuffix(RESPONSES_SUFFIX) for name in content.fields if name.endswith(RESPONSES_SUFFIX)]
    question = choose((name for name in questions if content.has(f"{name}{RESPONSES_SUFFIX}.users")), ask, content.name)
    if content.kind == "table":  # lists that libraries write there look like text
        raise InputError(
            f"{content.name}: {FLAT_FORMAT} has lists of responses, which text files cannot hold: "
            "export the records as JSON or Parquet"
        )
    answers, users = question + RESPONSES_SUFFIX, f"{question}{RESPONSES_SUFFIX}.users"
    more = {what: f"{question}.{what}" for what in ("responses.status", "suggestion", "suggestion.agent")}
    names = ["id", answers, users, *(name for name in more.values() if name in content.fields)]
    content.require(*names, form=FLAT_FORMAT)
    columns = _columns(content, names)
    empty: list[Any] = [None] * len(columns["id"])
    states, suggested, agents = (columns.get(more[what], empty) for what in more)
    ballots = AnswerCollector(ask, content.name)
    rows = zip(columns["id"], columns[answers], columns[users], states, suggested, agents, strict=True)
    for task, values, people, status, value, agent in rows:
        given, who = _list(values), _list(people)
        state = _list(status) or [None] * len(given)
        if not len(given) == len(who) == len(state):
            raise InputError(
                f"{content.name}: record {quote(task)} has {len(given)} responses to {question!r}, but {len(who)} users and "
                f"{len(state)} statuses"
            )
        for answer, person, one in zip(given, who, state, strict=True):
            _take(ballots, task, person, answer, one)
        if value is not None:
            _suggest(ballots, task, agent, value, ask)
    worker = f"{users}, {question}.suggestion.agent" if ask.predictions else users
    return ballots.extract({"task": "id", "worker": worker, "label": answers}, question)


def _take(ballots: AnswerCollector, task: object, user: object, value: object, status: object) -> None:
    if status == "draft":
        ballots.skipped[DRAFT] += 1
    else:
        ballots.vote(task, user, None if status == "discarded" or value is None else _options(value))


def _suggest(ballots: AnswerCollector, task: object, agent: object, value: object, ask: Ask) -> None:
    if ask.predictions and value is not None:
        ballots.vote(task, agent or "suggestion", _options(value))
    else:
        ballots.skipped[PREDICTED] += 1


def _options(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _mapping(value: object, number: int, what: str, content: Content) -> dict[str, Any]:
    """Return the questions of a record; some versions write them as a list."""
    if value is None or value == []:
        return {}
    if isinstance(value, dict):
        return value
    raise InputError(
        f"{content.name}: {what} of record {number} are {quote(value)}: an object with a field per question is expected"
    )


def _columns(content: Content, names: list[str]) -> dict[str, list[Any]]:
    if content.kind in JSON_KINDS:
        return {name: [record.get(name) for record in content.records] for name in names}
    frame: pl.DataFrame = content.table(names)
    return {name: frame[name].to_list() for name in names}


def _list(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def rows(contents: Sequence[Content], consensus: Consensus, where: str) -> list[dict[str, Any]] | pl.DataFrame:
    """Return every record with its label as a suggestion; as it is if the record has no label."""
    if any(content.kind not in JSON_KINDS for content in contents):
        return _suggest_in_table(_whole_table(contents), consensus, where)
    records = [record for content in contents for record in content.records]
    tasks = [str(record.get("id")) for record in records]
    consensus.require_some(tasks, where)
    if "responses" in contents[0].fields:
        responses = [record.get("responses") or {} for record in records]
        named = consensus.column(NESTED_FORMAT)  # responses.QUESTION[].value
        question = named.removeprefix("responses.").removesuffix("[].value") if named else ""
        question = question or choose((name for given in responses for name in given), Ask(), where)
        suggest = _suggester(consensus, (one.get("value") for every in responses for one in every.get(question) or ()), where)
        nested = [(record, suggest(task)) for record, task in zip(records, tasks, strict=True)]
        return [
            {**record, **({"suggestions": {**(record.get("suggestions") or {}), question: new}} if new else {})}
            for record, new in nested
        ]
    question = _flat_question(dict.fromkeys(name for record in records for name in record), consensus, where)
    given = (value for record in records for value in record.get(question + RESPONSES_SUFFIX) or ())
    suggest = _suggester(consensus, given, where)
    return [
        {**record, **{question + SUGGESTION_SUFFIXES[what]: value for what, value in suggest(task).items()}}
        for record, task in zip(records, tasks, strict=True)
    ]


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of every record; of a flat one, every field that has no responses and suggestions."""
    records = without_votes(contents)
    for record in records.iter_rows(named=True) if isinstance(records, pl.DataFrame) else records:
        fields = record.get("fields")
        yield str(record["id"]), fields if isinstance(fields, dict) else {k: v for k, v in record.items() if k != "id"}


def without_votes(contents: Sequence[Content]) -> list[dict[str, Any]] | pl.DataFrame:
    """Return every record without responses and suggestions, as one that is pending."""
    if any(content.kind not in JSON_KINDS for content in contents):
        frame = _whole_table(contents)
        return frame.drop(name for name in frame.columns if _is_of_votes(name))
    records = [record for content in contents for record in content.records]
    return [{name: value for name, value in record.items() if not _is_of_votes(name)} for record in records]


def id_of(record: dict[str, Any]) -> object:
    """Return the id of a record."""
    return record.get("id")


def _whole_table(contents: Sequence[Content]) -> pl.DataFrame:
    return pl.concat([content.table(content.fields) for content in contents], how="diagonal_relaxed")


def _is_of_votes(name: str) -> bool:
    """Return whether a field has responses, suggestions, or says that there are enough of them."""
    ends = (RESPONSES_SUFFIX, USERS, f"{RESPONSES_SUFFIX}.status", *SUGGESTION_SUFFIXES.values())
    return name in ("responses", "suggestions", "status") or name.endswith(ends)


def _suggest_in_table(frame: pl.DataFrame, consensus: Consensus, where: str) -> pl.DataFrame:
    tasks = [str(task) for task in frame["id"]]
    consensus.require_some(tasks, where)
    question = _flat_question(frame.columns, consensus, where)
    given = (value for values in frame[question + RESPONSES_SUFFIX] for value in (() if values is None else values))
    suggestions = list(map(_suggester(consensus, given, where), tasks))
    columns = {}
    for what, end in SUGGESTION_SUFFIXES.items():
        name = question + end
        old = frame[name].to_list() if name in frame.columns else [None] * len(tasks)
        columns[name] = pl.Series([new.get(what, was) for new, was in zip(suggestions, old, strict=True)], strict=False)
    return frame.with_columns(**columns)


def _flat_question(names: Iterable[str], consensus: Consensus, where: str) -> str:
    named = consensus.column(FLAT_FORMAT)  # QUESTION.responses
    if named is not None:
        return named.removesuffix(RESPONSES_SUFFIX)
    return choose((name.removesuffix(USERS) for name in names if name.endswith(USERS)), Ask(), where)


def _suggester(consensus: Consensus, given: Iterable[Any], where: str) -> Callable[[str], dict[str, Any]]:
    """Return the function from a task to its suggestion, an empty one if the task has no label.

    Values are as people gave them, lists if people gave lists; then Argilla wants a score for each value.
    """
    values, is_list = Values(), consensus.is_set
    for answer in given:
        is_list |= isinstance(answer, list | pl.Series)
        for value in answer if isinstance(answer, list | pl.Series) else [answer]:
            if value is not None:
                values.add(label_text(value, where, ""), value)

    def suggest(task: str) -> dict[str, Any]:
        label = consensus.answers.get(task)
        if label is None:
            return {}
        chosen = [values.of(option) for option in label.options]
        value, score = (chosen, label.scores) if is_list else (chosen[0], label.confidence)
        return {"value": value, "score": score, "agent": consensus.by}

    return suggest
