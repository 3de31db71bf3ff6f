"""Make the logs of Phoenix here, with its server (`phoenix serve`, on PHOENIX_PORT) and its client: `python make_phoenix.py`."""

import os
import time
from datetime import UTC, datetime, timedelta

import httpx
from jury import ANSWERS, HERE, PERSON, answer, grade, note, reviews, verdicts
from phoenix.client import Client

PROJECT = "arithmetic"
START = datetime(2026, 1, 1, tzinfo=UTC)


def span(n):
    question, given, _ = answer(n)
    return {
        "name": "answer",
        "context": {"trace_id": f"{n + 1:032x}", "span_id": span_id(n)},
        "span_kind": "LLM",
        "start_time": (START + timedelta(seconds=n)).isoformat(),
        "end_time": (START + timedelta(seconds=n + 0.5)).isoformat(),
        "status_code": "OK",
        "attributes": {"input.value": question, "output.value": given},
    }


def span_id(n):
    return f"{n + 1:016x}"


def count_spans(client):
    try:
        return len(client.spans.get_spans(project_identifier=PROJECT))
    except httpx.HTTPStatusError:  # the project is not there yet
        return 0


def main():
    client = Client(base_url=f"http://127.0.0.1:{os.environ['PHOENIX_PORT']}")
    client.spans.log_spans(project_identifier=PROJECT, spans=[span(n) for n in range(ANSWERS)])
    while count_spans(client) < ANSWERS:  # the server stores them when it has time
        time.sleep(0.2)
    annotations = [
        {
            "span_id": span_id(n),
            "name": "correct",
            "annotator_kind": "LLM",
            "identifier": grader,
            "result": {"explanation": "failed"}
            if value is None
            else {"label": "right" if value else "wrong", "score": float(value)},
        }
        for grader, n, value in verdicts()
    ]
    annotations += [
        {
            "span_id": span_id(n),
            "name": "correct",
            "annotator_kind": "HUMAN",
            "identifier": PERSON,
            "result": {"label": "right" if value else "wrong"},
        }
        for n, value in reviews()
    ]
    annotations += [
        {
            "span_id": span_id(n),
            "name": "quality",
            "annotator_kind": "LLM",
            "identifier": grader,
            "result": {"score": grade(grader, n)},
        }
        for grader, n, _ in verdicts()
    ]
    client.spans.log_span_annotations(span_annotations=annotations, sync=True)
    frame = client.spans.get_span_annotations_dataframe(
        project_identifier=PROJECT, span_ids=[span_id(n) for n in range(ANSWERS)]
    ).sort_values(["annotation_name", "identifier"])
    frame.drop(columns=["metadata"]).to_parquet(HERE / "phoenix-annotations.parquet")  # it is empty, which Parquet refuses
    frame.to_csv(HERE / "phoenix-annotations.csv")
    frame.reset_index().to_json(HERE / "phoenix-annotations.jsonl", orient="records", lines=True)
    note("arize-phoenix", "arize-phoenix-client")


if __name__ == "__main__":
    main()
