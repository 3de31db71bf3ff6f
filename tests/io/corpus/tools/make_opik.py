"""Make the logs of Opik here, with the typed models of its client, as `opik export` writes them: `python make_opik.py`."""

import json
from datetime import UTC, datetime, timedelta

from jury import ANSWERS, GRADERS, PERSON, answer, grade, reviews, verdict, write
from opik.rest_api.types import FeedbackScorePublic, TracePublic, ValueEntryPublic

START = datetime(2026, 1, 1, tzinfo=UTC)


def entry(author, value, source, n):
    category = "right" if value else "wrong"
    at = START + timedelta(seconds=n)
    return ValueEntryPublic(value=float(value), category_name=category, source=source, last_updated_at=at, author=author)


def trace(n):
    """A trace with a score of all authors together, as Opik keeps it, and a numeric score of one evaluator."""
    question, given, _ = answer(n)
    said = {grader: verdict(grader, n) for grader in GRADERS}
    authors = {grader: entry(grader, value, "sdk", n) for grader, value in said.items() if value is not None}
    reviewed = dict(reviews())
    if n in reviewed:
        authors[PERSON] = entry(PERSON, reviewed[n], "ui", n)
    mean = sum(one.value for one in authors.values()) / len(authors)
    scores = [FeedbackScorePublic(name="correct", category_name="", value=mean, source="sdk", value_by_author=authors)]
    scores.append(FeedbackScorePublic(name="quality", value=grade("strict", n), source="online_scoring"))
    scores += [
        FeedbackScorePublic(name=f"polite_{grader}", category_name="yes" if value else "no", value=float(value), source="sdk")
        for grader, value in said.items()
        if value is not None
    ]
    return TracePublic(
        id=f"0190-{n:04}",
        name="respond",
        start_time=START + timedelta(seconds=n),
        input={"question": question},
        output={"answer": given},
        feedback_scores=scores,
    )


def main():
    traces = [json.loads(json.dumps(trace(n).dict(), default=str)) for n in range(ANSWERS)]
    write("opik-traces.json", json.dumps(traces), "opik")
    exported = {"trace": traces[0], "spans": [], "attachments": [], "downloaded_at": str(START), "project_name": "arithmetic"}
    write("opik-export.json", json.dumps(exported, indent=2))


if __name__ == "__main__":
    main()
