"""Annotations of Phoenix: what `get_span_annotations_dataframe` returns, as a frame, a table or records, and pages of its API.

An annotation name is a question; who annotates is the identifier, or the name and the kind of annotator if there is none. An
annotation without a label and a score is an abstention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of


class AnnotationOutcome(msgspec.Struct, gc=False):
    """What an annotation says."""

    label: str | None = None
    score: float | None = None


class SpanAnnotation(msgspec.Struct, gc=False):
    """An annotation of a span: a row of the frame, or an object of the API."""

    span_id: str
    annotator_kind: str = ""
    identifier: str | None = None
    annotation_name: str = ""
    name: str = ""
    label: str | None = msgspec.field(name="result.label", default=None)
    score: float | None = msgspec.field(name="result.score", default=None)
    result: AnnotationOutcome | None = None


class AnnotationPage(msgspec.Struct):
    """A page of the API."""

    data: list[SpanAnnotation]


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the annotations of spans."""
    verdicts = Verdicts(ask, join_names(contents))
    for content in contents:
        for annotation in _annotations(content):
            name = annotation.annotation_name or annotation.name
            judge = annotation.identifier or judge_of(name, annotation.annotator_kind)
            result: Any = annotation.result or annotation
            is_question = bool(annotation.identifier)
            verdicts.add_scored(name, judge, annotation.span_id, result.label, result.score, is_question=is_question)
    return verdicts.extract({"task": "span_id", "worker": "identifier", "label": "result.label"})


def _annotations(content: Content) -> Iterable[SpanAnnotation]:
    if content.has("next_cursor"):
        return [annotation for page in content.decoded(AnnotationPage) for annotation in page.data]
    return content.decoded(SpanAnnotation)
