"""Feedback of TruLens: its records of feedback, and the frame of `get_records_and_feedback`, which has a column per feedback.

The name of a feedback stands for the judge. Feedback that failed is an abstention; feedback that is not finished is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts

CALLS: Final = "_calls"  # suffix of the column with the calls of a feedback
UNFINISHED: Final = "feedback that is not finished"
UNFINISHED_STATUS: Final = ("none", "running")


class RecordFeedback(msgspec.Struct, gc=False):
    """The result of a feedback function, or of a person."""

    name: str
    record_id: str
    result: float | str | None = None
    status: str | None = None


class RecordItem(msgspec.Struct, gc=False):
    """What a record is about."""

    record_id: str
    input: Any = None
    output: Any = None


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the feedback on records."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for feedback in _feedback(content):
            if feedback.result is None and feedback.status in UNFINISHED_STATUS:
                verdicts.skipped[UNFINISHED] += 1
            else:
                verdicts.add(feedback.name, feedback.name, feedback.record_id, feedback.result)
    return verdicts.extract({"task": "record_id", "worker": "name", "label": "result"})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield input and output of each record, from frames of records."""
    for content in contents:
        for record in content.decoded(RecordItem) if content.has("input", "output") else ():
            yield record.record_id, {"input": record.input, "output": record.output}


def feedback_columns(content: Content) -> list[str]:
    """Return the columns of feedback in a frame of records."""
    return [name for name in content.fields if f"{name}{CALLS}" in content.fields]


def _feedback(content: Content) -> Iterator[RecordFeedback]:
    if content.has("feedback_result_id"):
        yield from content.decoded(RecordFeedback)
        return
    names = feedback_columns(content)
    fields: list[Any] = [
        ("record_id", str),
        *((f"f{n}", float | str | None, msgspec.field(name=name, default=None)) for n, name in enumerate(names)),
    ]
    for row in content.decoded(msgspec.defstruct("Record", fields)):
        for n, name in enumerate(names):
            yield RecordFeedback(name, row.record_id, getattr(row, f"f{n}"))
