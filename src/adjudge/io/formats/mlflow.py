"""Assessments of MLflow: the frame of `mlflow.search_traces`, traces as JSON, and what `mlflow traces search` prints.

The name of an assessment is a question if its source has a name; otherwise name and kind of source stand for the judge. Feedback
that failed is an abstention. An assessment that its own source has overridden is left out; one that another source has
overridden stays the vote of the one who gave it. An expectation of the same name as a question is gold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of

OVERRIDDEN: Final = "assessments that their source has overridden"
Info = TypeVar("Info")
UNNAMED_SOURCES: Final = ("", "default", "unknown")  # what MLflow calls a source that nobody has named


class AssessmentSource(msgspec.Struct, frozen=True, gc=False):
    """Who has assessed."""

    source_type: str = ""
    source_id: str | None = None


class AssessedValue(msgspec.Struct, gc=False):
    """The value of a feedback or an expectation; feedback that failed has an error."""

    value: Any = None
    error: Any = None


class TraceAssessment(msgspec.Struct, gc=False):
    """An assessment of a trace or a span."""

    assessment_name: str
    assessment_id: str | None = None
    source: AssessmentSource = AssessmentSource()
    feedback: AssessedValue | None = None
    expectation: AssessedValue | None = None
    span_id: str | None = None
    overrides: str | None = None


class TraceInfo(msgspec.Struct, gc=False):
    """A row of the frame, or the header of a trace."""

    trace_id: str
    assessments: list[TraceAssessment] | None = None


class MlflowItem(msgspec.Struct, gc=False):
    """What a trace was about: in a row of the frame, or in the header of a trace, which has the start of it."""

    trace_id: str
    request: Any = None
    response: Any = None
    request_preview: str | None = None
    response_preview: str | None = None


class MlflowTrace(msgspec.Struct, Generic[Info]):
    """A trace."""

    info: Info


class Search(msgspec.Struct, Generic[Info]):
    """What `mlflow traces search --output json` prints."""

    traces: list[MlflowTrace[Info]]


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the feedback on traces, and the expectations that are gold."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for trace in _traces(content, TraceInfo):
            assessments = trace.assessments or []
            sources = {one.assessment_id: one.source for one in assessments}
            corrected = {one.overrides for one in assessments if one.overrides and sources.get(one.overrides) == one.source}
            for assessment in assessments:
                if assessment.assessment_id in corrected:
                    verdicts.skipped[OVERRIDDEN] += 1
                else:
                    _take(verdicts, trace.trace_id, assessment)
    return verdicts.extract({"task": "trace_id", "worker": "assessments[].source", "label": "assessments[].feedback.value"})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield request and response of each trace."""
    for trace in (trace for content in contents for trace in _traces(content, MlflowItem)):
        request, response = trace.request, trace.response
        yield (
            trace.trace_id,
            {
                "request": trace.request_preview if request is None else request,
                "response": trace.response_preview if response is None else response,
            },
        )


def _take(verdicts: Verdicts, trace: str, assessment: TraceAssessment) -> None:
    name, source, feedback = assessment.assessment_name, assessment.source, assessment.feedback
    task = f"{trace}/{assessment.span_id}" if assessment.span_id else trace
    if feedback is None:
        if assessment.expectation is not None:
            verdicts.gold(name, task, assessment.expectation.value)
        return
    is_named = source.source_id not in (*UNNAMED_SOURCES, None)
    judge = str(source.source_id) if is_named else judge_of(name, source.source_type)
    verdicts.add(name, judge, task, feedback.value if feedback.error is None else None, is_question=is_named)


def _traces(content: Content, kind: Any) -> Iterator[Any]:
    if "assessments" in content.fields:
        yield from content.decoded(kind)
        return
    is_search = content.has("traces")
    traces = [trace for search in content.decoded(Search[kind]) for trace in search.traces] if is_search else None
    for trace in content.decoded(MlflowTrace[kind]) if traces is None else traces:
        yield trace.info
