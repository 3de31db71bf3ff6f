"""Make the logs of LangSmith here, with the typed models of its client, as its API returns them: `python make_langsmith.py`."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from jury import PERSON, grade, reviews, verdicts, write
from langsmith.schemas import APIFeedbackSource, Feedback, FeedbackSourceBase, ModelFeedbackSource

START = datetime(2026, 1, 1, tzinfo=UTC)


def feedback(number, n, key, source, **said):
    at = START + timedelta(seconds=number)
    ids = {"id": UUID(int=number + 10_000), "run_id": UUID(int=n + 1), "trace_id": UUID(int=n + 1)}
    return Feedback(**ids, created_at=at, modified_at=at, key=key, feedback_source=source, **said)


def main():
    made = []
    for grader, n, value in verdicts():
        source = ModelFeedbackSource(metadata={"__run": {"run_id": str(UUID(int=n + 500))}}, user_name=grader)
        said = {"comment": "failed"} if value is None else {"score": float(value), "value": "right" if value else "wrong"}
        made.append(feedback(len(made), n, "correctness", source, **said))
    for n, value in reviews():
        source = FeedbackSourceBase(type="app", user_id=UUID(int=77), user_name=PERSON)
        made.append(feedback(len(made), n, "correctness", source, value="right" if value else "wrong", score=float(value)))
    for grader, n, _ in verdicts():
        made.append(feedback(len(made), n, f"quality-{grader}", APIFeedbackSource(), score=grade(grader, n)))
    write("langsmith-feedback.jsonl", "".join(one.model_dump_json() + "\n" for one in made), "langsmith")


if __name__ == "__main__":
    main()
