"""Argilla 2: records with the responses to every question, nested as its JSON has them or flat as in Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from adjudge.errors import InputError, shown
from adjudge.io.formats.content import JSON, Content
from adjudge.io.formats.extract import DRAFT, PREDICTED, Ask, Ballots, Extract, choose

NESTED: Final = "argilla"
FLAT: Final = "argilla-flat"
RESPONSES: Final = ".responses"
DISCARDED: Final = "discarded"


def read(content: Content, ask: Ask) -> Extract:
    """Return submitted responses as votes, discarded ones as abstentions; suggestions are votes of their agents where asked."""
    if content.kind in JSON and "responses" in content.fields:
        return _nested(content, ask)
    return _flat(content, ask)


def _nested(content: Content, ask: Ask) -> Extract:
    records = content.records
    responses = [_mapping(record.get("responses"), number, "responses", content) for number, record in enumerate(records, 1)]
    suggestions = [
        _mapping(record.get("suggestions"), number, "suggestions", content) for number, record in enumerate(records, 1)
    ]
    sources = [*responses, *(suggestions if ask.predictions else [])]
    question = choose((name for one in sources for name in one), ask, content.name)
    ballots = Ballots(ask, content.name)
    for record, given, suggested in zip(records, responses, suggestions, strict=True):
        answered = given.get(question) or []
        if not isinstance(answered, list):
            raise InputError(
                f"{content.name}: responses to {shown(question)} are {shown(answered)}: a list of objects is expected"
            )
        for response in answered:
            if not isinstance(response, dict):
                raise InputError(f"{content.name}: a response to {shown(question)} is {shown(response)}: an object is expected")
            _take(ballots, record.get("id"), response.get("user_id"), response.get("value"), response.get("status"))
        one = suggested.get(question)
        if isinstance(one, dict):
            _suggest(ballots, record.get("id"), one.get("agent"), one.get("value"), ask)
    worker = f"responses.{question}[].user_id" + (f", suggestions.{question}.agent" if ask.predictions else "")
    columns = {"task": "id", "worker": worker, "label": f"responses.{question}[].value"}
    return ballots.extract(NESTED, columns, question)


def _flat(content: Content, ask: Ask) -> Extract:
    questions = [name.removesuffix(RESPONSES) for name in content.fields if name.endswith(RESPONSES)]
    question = choose((name for name in questions if content.has(f"{name}{RESPONSES}.users")), ask, content.name)
    if content.kind == "table":  # what libraries write for a list there cannot be told from text
        raise InputError(
            f"{content.name}: {FLAT} has lists of responses, which text files cannot hold: export the records as JSON or Parquet"
        )
    answers, users = question + RESPONSES, f"{question}{RESPONSES}.users"
    more = {what: f"{question}.{what}" for what in ("responses.status", "suggestion", "suggestion.agent")}
    names = ["id", answers, users, *(name for name in more.values() if name in content.fields)]
    content.require(*names, form=FLAT)
    columns = _columns(content, names)
    empty: list[Any] = [None] * len(columns["id"])
    states, suggested, agents = (columns.get(more[what], empty) for what in more)
    ballots = Ballots(ask, content.name)
    rows = zip(columns["id"], columns[answers], columns[users], states, suggested, agents, strict=True)
    for task, values, people, status, value, agent in rows:
        given, who = _list(values), _list(people)
        state = _list(status) or [None] * len(given)
        if not len(given) == len(who) == len(state):
            raise InputError(
                f"{content.name}: record {shown(task)} has {len(given)} responses to {question!r}, but {len(who)} users and "
                f"{len(state)} statuses"
            )
        for answer, person, one in zip(given, who, state, strict=True):
            _take(ballots, task, person, answer, one)
        if value is not None:
            _suggest(ballots, task, agent, value, ask)
    worker = f"{users}, {question}.suggestion.agent" if ask.predictions else users
    return ballots.extract(FLAT, {"task": "id", "worker": worker, "label": answers}, question)


def _take(ballots: Ballots, task: object, user: object, value: object, status: object) -> None:
    if status == "draft":
        ballots.skipped[DRAFT] += 1
    else:
        ballots.vote(task, user, None if status == DISCARDED or value is None else _options(value))


def _suggest(ballots: Ballots, task: object, agent: object, value: object, ask: Ask) -> None:
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
        f"{content.name}: {what} of record {number} are {shown(value)}: an object with a field per question is expected"
    )


def _columns(content: Content, names: list[str]) -> dict[str, list[Any]]:
    if content.kind in JSON:
        return {name: [record.get(name) for record in content.records] for name in names}
    frame: pl.DataFrame = content.table(names)
    return {name: frame[name].to_list() for name in names}


def _list(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
