"""Truth and labels in Spark frames are gathered, and measured as in memory."""

import polars as pl
import pytest

import adjudge as adj
from adjudge.errors import InputError
from adjudge.spark.session import to_spark

CROWD = adj.simulate(tasks=70, workers=9, labels=3, votes_per_task=4, seed=5)
TRUTH = CROWD.truth.rename({"task": "item", "label": "Ground.Truth"}).with_columns(comment=pl.lit("x"))


def assert_equal(far, near):
    """All figures equal, those of confidence to 1e-6."""
    ours, theirs = (e.summary() for e in (far, near))
    assert ours.pop("reliability") == [pytest.approx(line, abs=1e-6) for line in theirs.pop("reliability")]
    for name in ("expected_errors", "expected_calibration_error", "brier", "confidence_brier", "log_loss"):
        assert ours.pop(name) == pytest.approx(theirs.pop(name), abs=1e-6)
    assert ours == theirs
    assert far.tasks == 70


@pytest.fixture(scope="module")
def near():
    return adj.aggregate(CROWD.votes)


def test_truth_of_a_result(spark, engine, frame_of, near):
    truth, expected = to_spark(TRUTH, spark), adj.evaluate(near, TRUTH)
    assert_equal(adj.evaluate(adj.aggregate(frame_of(CROWD.votes), engine=engine), truth), expected)
    assert_equal(adj.evaluate(near, truth), expected)
    named = adj.evaluate(near, truth.withColumnRenamed("item", "a.b"), truth_task="a.b", truth_label="Ground.Truth")
    assert_equal(named, expected)


def test_labels_and_probabilities(spark, engine, frame_of, near):
    far = adj.aggregate(frame_of(CROWD.votes), engine=engine)
    found = adj.evaluate(far.labels, TRUTH, probabilities=far.probabilities)
    assert_equal(found, adj.evaluate(near, TRUTH))
    assert found.confusion.columns == ["true", "l0", "l1", "l2"]
    assert adj.evaluate(far.labels.drop("confidence"), far).accuracy == 1.0  # a result as truth


def test_numbers_as_ids_meet_texts(spark):
    labels = spark.createDataFrame([(1, 7), (2, 8), (3, None)], "task int, label bigint")
    truth = spark.createDataFrame([("1", "7"), ("2", "7"), ("2", "7"), ("9", None)], "task string, truth string")
    assert repr(adj.evaluate(labels, truth)) == "Evaluation(accuracy 0.5000 on 2 tasks)"


def test_agreement_takes_truth(spark, near):
    votes = adj.read(CROWD.votes)
    ours, theirs = (adj.agreement(votes, truth=t, resamples=0) for t in (to_spark(TRUTH, spark), TRUTH))
    assert ours.error_correlation == theirs.error_correlation


def test_bad_truth_is_one_line(spark, near):
    truth = to_spark(TRUTH, spark)
    cases = {
        "the Spark frame: no column looks like the truth": truth.select("item", "comment"),
        "the truth gives task 't1' more than one label": spark.createDataFrame(
            [("t1", "l0"), ("t1", "l1")], "task string, label string"
        ),
        "this frame is a stream": spark.readStream.format("rate").load(),
        "cannot read the Spark frame: .*torn": truth.selectExpr("item", "raise_error('torn') as truth"),
    }
    for message, frame in cases.items():
        with pytest.raises(adj.AdjudgeError, match=message) as caught:
            adj.evaluate(near, frame)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="a Spark frame is not read into memory: give its toArrow"):
        adj.evaluate([("t1", "a|b")], truth, multi=True)
