"""Make the logs of OpenTelemetry here, with its SDK and the encoders of its exporters: `python make_opentelemetry.py`.

Lines of OTLP are what the file exporter of the collector writes; the console exporter writes one object per event.
"""

import base64
import json

from google.protobuf.json_format import MessageToDict
from jury import ANSWERS, GRADERS, answer, grade, verdict, write
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_span_in_context

EVENT = "gen_ai.evaluation.result"


def said(grader, n):
    """The attributes of an evaluation, as the conventions for generative AI name them."""
    value = verdict(grader, n)
    out = {"gen_ai.evaluation.name": f"correct.{grader}", "gen_ai.response.id": f"response-{n}"}
    if value is None:
        return out | {"error.type": "timeout"}
    return out | {"gen_ai.evaluation.score.label": "pass" if value else "fail", "gen_ai.evaluation.explanation": "because"}


def scored(grader, n):
    return {"gen_ai.evaluation.name": "quality", "gen_ai.evaluation.score.value": grade(grader, n)}


def as_json(message):
    """An OTLP message as JSON has it: protobuf writes ids in base64, OTLP in hexadecimal."""
    return in_hex(MessageToDict(message))


def in_hex(value):
    if isinstance(value, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        return {key: base64.b64decode(part).hex() if key in ids else in_hex(part) for key, part in value.items()}
    return [in_hex(part) for part in value] if isinstance(value, list) else value


def main():
    resource = Resource({"service.name": "evaluations"})
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracing, logging = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    tracer, logger = tracing.get_tracer("app"), logging.get_logger("evaluator")
    for n in range(ANSWERS):
        question, given, _ = answer(n)
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
            span.set_attribute("gen_ai.input.messages", json.dumps([{"role": "user", "content": question}]))
            span.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "content": given}]))
            for grader in GRADERS:
                span.add_event(EVENT, said(grader, n))
            context = set_span_in_context(span)
            for attributes in [*(said(grader, n) for grader in GRADERS), scored("strict", n)]:
                logger.emit(LogRecord(timestamp=n, context=context, event_name=EVENT, attributes=attributes))
            logger.emit(LogRecord(timestamp=n, context=context, body="something else"))
    every = logs.get_finished_logs()
    halves = [encode_logs(every[:40]), encode_logs(every[40:])]
    write("otlp-logs.jsonl", "".join(json.dumps(as_json(half)) + "\n" for half in halves))
    whole = as_json(encode_spans(spans.get_finished_spans()))
    write("otlp-traces.json", json.dumps(whole, indent=1))
    packages = ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common"]
    write("console-logs.jsonl", "".join(one.to_json(indent=None) + "\n" for one in every), *packages)


if __name__ == "__main__":
    main()
