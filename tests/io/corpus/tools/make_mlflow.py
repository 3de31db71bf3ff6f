"""Make the logs of MLflow here, with its tracing and a local store: `python make_mlflow.py`."""

import os
import tempfile

os.environ |= {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false", "LOGNAME": "ann"}

import mlflow
from jury import HERE, PERSON, answer, reviews, verdicts, write
from mlflow.entities import AssessmentError, AssessmentSource


def source(kind, name):
    return AssessmentSource(source_type=kind, source_id=name)


def main(folder):
    os.chdir(folder)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("arithmetic", artifact_location="mlflow-artifacts:/1")
    experiment = mlflow.set_experiment("arithmetic")
    traces = {}
    by_grader = {}
    for grader, n, value in verdicts():
        if n not in traces:
            question, given, _ = answer(n)
            traces[n] = record(question, given)
        said = {"value": value} if value is not None else {"error": AssessmentError("REFUSED", "no grade")}
        feedback = mlflow.log_feedback(
            trace_id=traces[n], name="correct", source=source("LLM_JUDGE", f"openai:/{grader}"), rationale="…", **said
        )
        by_grader[grader, n] = feedback.assessment_id
    for n, value in reviews():
        person = source("HUMAN", PERSON)
        if n == 0:  # the person corrects the judge, and then a verdict of her own
            wrong = mlflow.override_feedback(
                trace_id=traces[n], assessment_id=by_grader["strict", n], value=not value, source=person
            )
            mlflow.override_feedback(trace_id=traces[n], assessment_id=wrong.assessment_id, value=value, source=person)
        elif n == 1:
            mlflow.log_feedback(trace_id=traces[n], name="correct", value=value, source=person)
            mlflow.log_expectation(trace_id=traces[n], name="correct", value=value, source=person)
            mlflow.log_expectation(trace_id=traces[n], name="polite", value=True, source=person)
        else:
            mlflow.log_feedback(trace_id=traces[n], name="correct", value=value, source=person)
    frame = mlflow.search_traces(locations=[experiment.experiment_id])
    frame.to_json(HERE / "mlflow-frame.json.gz", orient="records")
    frame[["trace_id", "state", "request", "response", "assessments"]].to_parquet(HERE / "mlflow-frame.parquet")
    every = [mlflow.get_trace(trace) for trace in traces.values()]
    write("mlflow-traces.jsonl", "".join(trace.to_json() + "\n" for trace in every), "mlflow")


@mlflow.trace
def respond(question, given):
    return given


def record(question, given):
    respond(question, given)
    return mlflow.get_last_active_trace_id()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
