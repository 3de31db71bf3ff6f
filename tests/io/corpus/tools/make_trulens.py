"""Make the logs of TruLens here, with a recorded app, its feedback functions and a local store: `python make_trulens.py`."""

import os
import tempfile

from jury import ANSWERS, GRADERS, HERE, answer, grade, note, reviews, verdict, write
from trulens.apps.app import TruApp
from trulens.core import Feedback, TruSession
from trulens.core.otel.instrument import instrument
from trulens.core.schema.feedback import FeedbackResult, FeedbackResultStatus

BY_QUESTION = {answer(n)[0]: n for n in range(ANSWERS)}


class App:
    @instrument()
    def respond(self, question):
        return answer(BY_QUESTION[question])[1]


def feedback(grader):
    def judge(question, given):
        value = verdict(grader, BY_QUESTION[question])
        if value is None:
            raise ValueError("no grade")
        return float(value)

    return Feedback(judge, name=f"correct_{grader}").on_input_output()


def quality(question, given):
    return grade("strict", BY_QUESTION[question])


def main(folder):
    session = TruSession(database_url=f"sqlite:///{folder}/trulens.db")
    functions = [*map(feedback, GRADERS), Feedback(quality, name="quality").on_input_output()]
    app = TruApp(App(), app_name="arithmetic", app_version="1", feedbacks=functions)
    with app:
        for n in range(ANSWERS):
            app.app.respond(answer(n)[0])
    session.force_flush()
    app.compute_feedbacks()
    session.force_flush()
    frame, names = session.get_records_and_feedback()
    assert set(names) >= {f"correct_{grader}" for grader in GRADERS}, names
    keep = ["app_name", "app_version", "app_id", "record_id", "input", "output", "ts", "latency", "total_tokens"]
    frame = frame[[*keep, *(column for column in frame.columns if column not in keep and "json" not in column)]]
    frame.to_json(HERE / "trulens-records.json", orient="records", date_format="iso")
    results = []
    for n in range(ANSWERS):
        for grader in GRADERS:
            value = verdict(grader, n)
            said = (
                {"status": FeedbackResultStatus.FAILED, "error": "no grade"}
                if value is None
                else {"status": FeedbackResultStatus.DONE, "result": float(value)}
            )
            results.append(FeedbackResult(record_id=f"record_{n}", name=f"correct_{grader}", **said))
    results += [FeedbackResult(record_id=f"record_{n}", name="Human Feedback", result=float(v)) for n, v in reviews()]
    write("trulens-feedback.jsonl", "".join(one.model_dump_json() + "\n" for one in results), "trulens-core")
    note("trulens-core", "trulens-feedback")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRULENS_OTEL_TRACING"] = "1"
        main(folder)
