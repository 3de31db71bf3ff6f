"""A model that was learned anywhere labels a Spark frame as it labels the same votes in memory."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.errors import InputError, MissingLabels, OptionError
from adjudge.spark.engine import SparkEngine
from adjudge.spark.session import gather
from same_fit import assert_same, fit

CROWD = adj.simulate(tasks=80, workers=10, labels=3, votes_per_task=4, seed=8)
# Other tasks, two more workers, and one label that nobody gives.
NEW = (
    adj.simulate(tasks=60, workers=12, labels=3, votes_per_task=3, seed=9)
    .votes.filter(pl.col("label") != "l1")
    .with_columns(task="new " + pl.col("task"))
)


def assert_same_prediction(far, near):
    assert type(far).__name__ == "SparkResult"
    assert repr(far) == f"Spark{near!r}"
    assert_same(far, near)
    ours, theirs = (r.labels_frame().sort("task")["confidence"].to_numpy() for r in (far, near))
    assert np.allclose(ours, theirs, rtol=0, atol=1e-6, equal_nan=True)
    ours, theirs = gather(far.posterior).sort("task"), near.posterior.sort("task")
    assert np.allclose(ours.drop("task").to_numpy(), theirs.drop("task").to_numpy(), rtol=0, atol=1e-6)
    assert far.unknown_workers == near.unknown_workers
    assert far.temperature == near.temperature
    ours = far.workers_frame()
    shared = [name for name in near.workers_frame().columns if name in ours.columns]
    assert ours.columns == shared
    theirs = near.workers_frame().select(shared)
    assert ours.select("worker", "votes", "known").equals(theirs.select("worker", "votes", "known"))
    for name in set(shared) - {"worker", "known"}:
        assert np.allclose(ours[name].to_numpy(), theirs[name].to_numpy(), rtol=0, atol=1e-6)
    worker = far.votes.workers[0]
    assert [tuple(row) for row in far.confusion(worker).collect()] == near.confusion(worker).rows()


# Every rule of scoring and both kinds of confidence; not every pair of them, as each takes seconds.
@pytest.mark.parametrize(
    ("model", "confidence"),
    [("auto", "honest"), ("mv", "honest"), ("ds", "posterior"), ("fds", "honest"), ("one-coin", "posterior"), ("iwmv", "honest")],
)
def test_the_same_labels_as_in_memory(spark, engine, frame_of, model, confidence):
    known = fit(CROWD.votes, model, confidence=confidence)
    far, near = known.predict(frame_of(NEW), engine=engine), known.predict(NEW)
    assert near.unknown_workers == ["w10", "w11"]
    assert_same_prediction(far, near)
    far.release()


def test_a_fit_on_spark_predicts_on_spark(spark, engine, frame_of, tmp_path):
    far, near = adj.aggregate(frame_of(CROWD.votes), engine=engine), adj.aggregate(CROWD.votes)
    assert_same_prediction(far.predict(frame_of(NEW)), near.predict(NEW))
    far.save(tmp_path / "far.adjudge")
    saved = adj.load(tmp_path / "far.adjudge")
    assert_same_prediction(saved.predict(frame_of(NEW)), near.predict(NEW))
    NEW.write_parquet(tmp_path / "new.parquet")
    assert_same_prediction(saved.predict(str(tmp_path / "new.parquet"), engine="spark"), near.predict(NEW))
    assert_same_prediction(saved.predict(NEW, engine="spark"), near.predict(NEW))  # votes in memory go there, too
    again = far.predict(frame_of(NEW)).predict(NEW)  # what was predicted predicts by the same model
    assert again.labels.equals(far.predict(NEW).labels)


def test_votes_that_the_model_takes_for_impossible(spark, engine, frame_of):
    learned = [(t, w, "x" if t % 2 else "y") for t in range(8) for w in "abc"]
    new = [("p", "a", "x"), ("p", "b", "y"), ("p", "c", "y"), ("q", "a", "x"), ("q", "b", "y")]
    known = fit(learned, "fds", confidence="posterior")
    assert_same_prediction(known.predict(frame_of(new), engine=engine), known.predict(new))


@pytest.mark.parametrize(("model", "confidence"), [("ds", "posterior"), ("mv", "honest")])
def test_a_calibrated_model(spark, engine, frame_of, model, confidence):
    known = fit(CROWD.votes, model, gold=CROWD.truth, calibrate=True, confidence=confidence)
    assert known.temperature != 1.0
    far, near = known.predict(frame_of(NEW), engine=engine), known.predict(NEW)
    plain = adj.aggregate(CROWD.votes, model=model, confidence=confidence).predict(NEW)
    assert not np.allclose(near.labels["confidence"].to_numpy(), plain.labels["confidence"].to_numpy(), atol=1e-3)
    assert_same_prediction(far, near)


def test_abstentions_columns_and_ids_of_numbers(spark, engine, frame_of):
    known = adj.aggregate(CROWD.votes.with_columns(pl.col("worker").str.slice(1).cast(pl.Int64)))
    new = pl.DataFrame({"item": [7, 7, 8], "judge": [1, 99, 2], "verdict": ["l0", "l2", None]})
    with pytest.warns(MissingLabels, match="1 of 3 votes"):
        far = known.predict(frame_of(new), engine=engine, task="item", worker="judge", label="verdict")
    with pytest.warns(MissingLabels):
        near = known.predict(new)
    assert_same_prediction(far, near)
    assert (far.unknown_workers, far.unvoted) == ([99], 1)


def test_what_is_refused_in_one_line(spark, engine, frame_of):
    known, frame = adj.aggregate(CROWD.votes), frame_of(NEW)
    with pytest.raises(InputError, match="the model has the labels l0, l1, l2, the votes have other"):
        known.predict(frame_of([("t", "w1", "other")]))
    with pytest.raises(OptionError, match="^predict needs the workers of the votes in one process, and those of 24 rows stay"):
        known.predict(frame, engine=SparkEngine(rows="executors"))
    with pytest.raises(OptionError, match="engine is 'cpu', but the votes are on Spark"):
        known.predict(frame, engine="cpu")
    grouped = adj.aggregate(CROWD.votes, groups={"w1": "a", "w2": "a"})
    with pytest.raises(OptionError, match="a model with groups needs the votes in memory, not on engine 'spark'"):
        grouped.predict(frame)
    with pytest.raises(OptionError, match="rows of a Spark frame have no order"):
        known.predict(frame, duplicates="last")
