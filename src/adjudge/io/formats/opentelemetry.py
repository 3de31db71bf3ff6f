"""Evaluations in OpenTelemetry, as the conventions for generative AI define them: events `gen_ai.evaluation.result`.

They are read from OTLP in JSON, logs or traces (what the collector's file exporter writes), and from the lines of the SDK's
console exporter. The response is judged, or else the span that the event belongs to. The name of the evaluation stands for the
judge; if several instrumentations evaluate under one name, they are the judges. An evaluation with an error, or with neither a
label nor a score, is an abstention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from adjudge.errors import InputError, quote
from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, judge_of

EVENT: Final = "gen_ai.evaluation.result"
NAME_ATTRIBUTE: Final = "gen_ai.evaluation.name"
LABEL_ATTRIBUTE: Final = "gen_ai.evaluation.score.label"
SCORE_ATTRIBUTE: Final = "gen_ai.evaluation.score.value"
RESPONSE_ATTRIBUTE: Final = "gen_ai.response.id"
ERROR_ATTRIBUTE: Final = "error.type"
MESSAGE_COLUMNS: Final = {"gen_ai.input.messages": "input", "gen_ai.output.messages": "output"}
UNATTACHED: Final = "evaluations of neither a response nor a span"


class EvaluationEvent(NamedTuple):
    """An event."""

    scope: str  # the instrumentation that has evaluated
    span: str
    attributes: dict[str, Any]


class Attribute(msgspec.Struct, gc=False):
    """A key and a value of one type."""

    key: str
    value: dict[str, Any] = {}


class SpanEvent(msgspec.Struct, gc=False):
    """An event of a span."""

    name: str = ""
    attributes: list[Attribute] = []


class EvaluatedSpan(msgspec.Struct, gc=False):
    """A span and its events."""

    span: str = msgspec.field(name="spanId", default="")
    events: list[SpanEvent] = []
    attributes: list[Attribute] = []


class LogRecord(msgspec.Struct, gc=False):
    """An event that is logged; earlier versions have its name among the attributes."""

    span: str = msgspec.field(name="spanId", default="")
    name: str = msgspec.field(name="eventName", default="")
    attributes: list[Attribute] = []


class Scope(msgspec.Struct, frozen=True, gc=False):
    """An instrumentation."""

    name: str = ""


class ScopeData(msgspec.Struct, gc=False):
    """What an instrumentation has recorded."""

    scope: Scope = Scope()
    records: list[LogRecord] = msgspec.field(name="logRecords", default=[])
    spans: list[EvaluatedSpan] = []


class ResourceData(msgspec.Struct, gc=False):
    """What a service has recorded."""

    logs: list[ScopeData] = msgspec.field(name="scopeLogs", default=[])
    spans: list[ScopeData] = msgspec.field(name="scopeSpans", default=[])


class Otlp(msgspec.Struct, gc=False):
    """A message of OTLP, logs or traces."""

    logs: list[ResourceData] = msgspec.field(name="resourceLogs", default=[])
    spans: list[ResourceData] = msgspec.field(name="resourceSpans", default=[])


class ConsoleRecord(msgspec.Struct, gc=False):
    """A line of the console exporter, which does not say which instrumentation it is from."""

    event_name: str = ""
    span_id: str = ""
    attributes: dict[str, Any] | None = None


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the evaluations of responses and spans."""
    where = join_names(contents)
    verdicts = Verdicts(ask, where)
    every = [evaluation for content in contents for evaluation in _evaluations(content)]
    if not every:
        raise InputError(f"{where} has no events {EVENT}, which are the evaluations that are read from OpenTelemetry")
    # One evaluator may name the response, and another the span that it came from.
    responses = {
        one.span: one.attributes[RESPONSE_ATTRIBUTE] for one in every if one.span and one.attributes.get(RESPONSE_ATTRIBUTE)
    }
    scopes: dict[str, set[str]] = {}
    for evaluation in every:
        scopes.setdefault(str(evaluation.attributes.get(NAME_ATTRIBUTE)), set()).add(evaluation.scope)
    for evaluation in every:
        attributes = evaluation.attributes
        task = attributes.get(RESPONSE_ATTRIBUTE) or responses.get(evaluation.span) or evaluation.span
        name = attributes.get(NAME_ATTRIBUTE)
        if not isinstance(name, str) or not name:
            raise InputError(f"{where}: {NAME_ATTRIBUTE} of an event {EVENT} is {quote(name)}; text is expected")
        if not task:
            verdicts.skipped[UNATTACHED] += 1
            continue
        judge = judge_of(name, evaluation.scope if len(scopes[name]) > 1 else None)
        label, score = (
            (None, None) if ERROR_ATTRIBUTE in attributes else (attributes.get(LABEL_ATTRIBUTE), attributes.get(SCORE_ATTRIBUTE))
        )
        verdicts.add_scored(name, judge, str(task), label, score, is_question=len(scopes[name]) > 1)
    return verdicts.extract({"task": f"{RESPONSE_ATTRIBUTE}, else span", "worker": NAME_ATTRIBUTE, "label": LABEL_ATTRIBUTE})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the messages of each span that was evaluated, from traces that hold them."""
    for message in (message for content in contents if _is_otlp(content) for message in content.decoded(Otlp)):
        for span in (span for resource in message.spans for scope in resource.spans for span in scope.spans):
            values = _values(span.attributes)
            messages = {column: values[key] for key, column in MESSAGE_COLUMNS.items() if key in values}
            responses = [_values(event.attributes).get(RESPONSE_ATTRIBUTE) for event in span.events if event.name == EVENT]
            if messages and responses:
                yield str(next((response for response in responses if response), span.span)), messages


def _is_otlp(content: Content) -> bool:
    return content.has("resourceLogs") or content.has("resourceSpans")


def _evaluations(content: Content) -> Iterator[EvaluationEvent]:
    if not _is_otlp(content):
        for line in content.decoded(ConsoleRecord):
            if line.event_name == EVENT:
                span = line.span_id.removeprefix("0x")
                yield EvaluationEvent("", span if span.strip("0") else "", line.attributes or {})
        return
    for message in content.decoded(Otlp):
        for data in (data for resource in (*message.logs, *message.spans) for data in (*resource.logs, *resource.spans)):
            for record in data.records:
                attributes = _values(record.attributes)
                if EVENT in (record.name, attributes.get("event.name")):
                    yield EvaluationEvent(data.scope.name, record.span if record.span.strip("0") else "", attributes)
            for span in data.spans:
                for event in span.events:
                    if event.name == EVENT:
                        yield EvaluationEvent(data.scope.name, span.span, _values(event.attributes))


def _values(attributes: Sequence[Attribute]) -> dict[str, Any]:
    """Return attributes by key; whole numbers come as text."""
    out = {}
    for attribute in attributes:
        for kind, value in attribute.value.items():
            is_number = kind == "intValue" and isinstance(value, str) and value.lstrip("-").isdecimal()
            out[attribute.key] = int(value) if is_number else value
    return out
