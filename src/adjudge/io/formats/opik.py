"""Feedback scores of Opik: traces or spans as its API returns them, and the files that `opik export` writes, one per trace.

The name of a score is a question if its authors are known; otherwise name and source stand for the judge. A score is the
category, if it has one, else the number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of

AnyTrace = TypeVar("AnyTrace")


class AuthorScore(msgspec.Struct, gc=False):
    """What one author says."""

    value: float | None = None
    category_name: str | None = None


class FeedbackScore(msgspec.Struct, gc=False):
    """A score; the mean, if it has several authors."""

    name: str
    value: float | None = None
    category_name: str | None = None
    source: str | None = None
    value_by_author: dict[str, AuthorScore] | None = None


class ScoredTrace(msgspec.Struct, gc=False):
    """A trace or a span."""

    id: str
    feedback_scores: list[FeedbackScore] | None = None


class TraceContent(msgspec.Struct, gc=False):
    """What a trace or a span was about."""

    id: str
    input: Any = None
    output: Any = None


class Exported(msgspec.Struct, Generic[AnyTrace]):
    """A file of an export: a trace and its spans."""

    trace: AnyTrace
    spans: list[AnyTrace] = []


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the feedback scores of traces and spans."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for trace in _traces(content, ScoredTrace):
            for score in trace.feedback_scores or ():
                for author, said in (score.value_by_author or {}).items():
                    verdicts.add_scored(score.name, author, trace.id, said.category_name, said.value, is_question=True)
                if not score.value_by_author:
                    judge = judge_of(score.name, score.source)
                    verdicts.add_scored(score.name, judge, trace.id, score.category_name, score.value)
    return verdicts.extract({"task": "id", "worker": "value_by_author, else name", "label": "category_name, else value"})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield input and output of each trace and span."""
    for trace in (trace for content in contents for trace in _traces(content, TraceContent)):
        yield trace.id, {"input": trace.input, "output": trace.output}


def _traces(content: Content, kind: Any) -> Iterator[Any]:
    if not content.has("trace", "spans"):
        yield from content.decoded(kind)
        return
    for exported in content.decoded(Exported[kind]):
        yield exported.trace
        yield from exported.spans
