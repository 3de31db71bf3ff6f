"""Make the logs of Langfuse here, with the typed models of its client, as its API returns them: `python make_langfuse.py`."""

import json
from datetime import UTC, datetime, timedelta

from jury import PERSON, reviews, verdicts, write
from langfuse.api import GetScoresV3Response
from langfuse.api.commons.types.score import Score_Boolean, Score_Categorical

START = datetime(2026, 1, 1, tzinfo=UTC)


def fields(number, name, source):
    at = START + timedelta(seconds=number)
    return {
        "id": f"score-{number}",
        "name": name,
        "source": source,
        "timestamp": at,
        "created_at": at,
        "updated_at": at,
        "environment": "default",
    }


def dumped(model):
    return json.loads(model.json())


def main():
    current, older = [], []
    for grader, n, value in verdicts():
        if value is None:  # an evaluator that fails leaves no score
            continue
        base = fields(len(current), f"correct-{grader}", "EVAL")
        current.append(
            base
            | {"project_id": "p1", "data_type": "BOOLEAN", "value": value, "author_user_id": None, "queue_id": None}
            | {"subject": {"kind": "observation", "id": f"observation-{n}", "trace_id": f"trace-{n}"}}
        )
        label = {"data_type": "CATEGORICAL", "value": 0, "string_value": "right" if value else "wrong"}
        older.append(dumped(Score_Categorical(**base, **label, trace_id=f"trace-{n}", observation_id=None)))
    for n, value in reviews():
        base = fields(len(current), "correct", "ANNOTATION") | {"author_user_id": PERSON, "queue_id": "queue-1"}
        subject = {"kind": "observation", "id": f"observation-{n}", "trace_id": f"trace-{n}"}
        current.append(base | {"project_id": "p1", "data_type": "BOOLEAN", "value": value, "subject": subject})
        said = {"data_type": "BOOLEAN", "value": float(value), "string_value": str(value)}
        older.append(dumped(Score_Boolean(**base, **said, trace_id=f"trace-{n}")))
    note = fields(len(current), "note", "ANNOTATION") | {"project_id": "p1", "data_type": "TEXT", "value": "see below"}
    current.append(note | {"subject": {"kind": "trace", "id": "trace-1"}})
    session = fields(len(current), "happy", "API") | {"project_id": "p1", "data_type": "BOOLEAN", "value": True}
    current.append(session | {"subject": {"kind": "session", "id": "session-1"}})
    page = GetScoresV3Response.model_validate({"data": current, "meta": {"limit": 100}})
    write("langfuse-scores.json", json.dumps(dumped(page), indent=1), "langfuse")
    write("langfuse-scores-v2.json", json.dumps(older))


if __name__ == "__main__":
    main()
