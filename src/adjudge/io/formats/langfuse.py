"""Scores of Langfuse: pages of its API (version 3 and 2), their records, and tables with the same fields.

A score is given to an observation, or else to a trace. The name of a score is a question if its author is known; otherwise name
and source stand for the judge. Texts, corrections, and scores of sessions and experiments are left out:
they are not verdicts on an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from adjudge.errors import InputError, quote
from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of

TEXT_SCORES: Final = "texts and corrections"
ITEMLESS_SCORES: Final = "scores of sessions and experiments"
ITEM_KINDS: Final = ("trace", "observation")
BOOLEANS: Final = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
DATA_TYPES: Final = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION")


class Subject(msgspec.Struct, gc=False):
    """What a score is given to."""

    kind: str
    id: str


class LangfuseScore(msgspec.Struct, gc=False):
    """A score of the API; version 2 names its trace and observation in the score itself."""

    name: str
    source: str
    data_type: str = msgspec.field(name="dataType")
    value: Any = None
    string_value: str | None = msgspec.field(name="stringValue", default=None)
    author: str | None = msgspec.field(name="authorUserId", default=None)
    subject: Subject | None = None
    trace: str | None = msgspec.field(name="traceId", default=None)
    observation: str | None = msgspec.field(name="observationId", default=None)


class ScorePage(msgspec.Struct):
    """A page of the API."""

    data: list[LangfuseScore]


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the scores of observations and traces."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for number, score in enumerate(_scores(content), 1):
            subject = score.subject
            item = score.observation or score.trace if subject is None else subject.id if subject.kind in ITEM_KINDS else None
            if score.data_type in ("TEXT", "CORRECTION"):
                verdicts.skipped[TEXT_SCORES] += 1
            elif item is None:
                verdicts.skipped[ITEMLESS_SCORES] += 1
            else:
                judge = score.author or judge_of(score.name, score.source)
                value = _value_of(score, f"{content.name}: value of score {number}")
                verdicts.add(score.name, judge, item, value, is_question=score.author is not None)
    return verdicts.extract({"task": "observationId, else traceId", "worker": "authorUserId, else name", "label": "value"})


def is_page(content: Content) -> bool:
    """Return whether an object is a page of scores, as far as its start shows."""
    return all(f'"{field}"'.encode() in content.start for field in ("dataType", "source", "name"))


def _scores(content: Content) -> Iterable[LangfuseScore]:
    if content.has("data", "meta"):
        return [score for page in content.decoded(ScorePage) for score in page.data]
    return content.decoded(LangfuseScore)


def _value_of(score: LangfuseScore, where: str) -> object:
    """Return a category as text, a yes or no as a boolean and a number as one; cells of a text table are all texts."""
    value = score.value
    if value is None or score.data_type == "CATEGORICAL":
        return value if score.string_value is None else score.string_value
    text = str(value).strip().lower()
    if score.data_type == "BOOLEAN" and text in BOOLEANS:
        return BOOLEANS[text]
    if score.data_type == "NUMERIC":
        try:
            return float(text)
        except ValueError:
            pass
    elif score.data_type not in DATA_TYPES:
        raise InputError(f"{where} has the dataType {quote(score.data_type)}; {', '.join(DATA_TYPES)} are expected")
    raise InputError(f"{where} is {quote(value)}, which is not {score.data_type}")
