"""The careful model and honest confidence on Spark: what the engine of this process says, wherever rows are."""

from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.engines.passes import Answers
from adjudge.errors import InputError, OptionError
from adjudge.models.base import MODELS
from adjudge.spark.engine import SparkEngine
from adjudge.spark.session import gather
from same_fit import assert_same, fit

ENGINES = {
    "driver": SparkEngine(partitions=3),
    "executors": SparkEngine(partitions=2, rows="executors", blocks=3),
}
CROWD = adj.simulate(tasks=120, workers=12, labels=4, votes_per_task=5, skill=0.6, seed=6)  # a fit takes few passes
GOLD = dict(CROWD.truth.head(25).iter_rows()) | {"unknown": "l1"}

where = pytest.mark.parametrize("rows", ENGINES)


def honest(votes, model, engine, **known):
    return MODELS[model](**known.pop("options", {})).fit(votes, engine=engine, confidence="honest", **known)


def assert_honest(far, near):
    """Labels and ties equal, confidence and probabilities to 1e-6."""
    ours, theirs = (r.labels_frame().sort("task") for r in (far, near))
    assert ours.drop("confidence").equals(theirs.drop("confidence"))
    confidence = ours["confidence"].to_numpy()
    assert np.allclose(confidence, theirs["confidence"].to_numpy(), rtol=0, atol=1e-6)
    expected = near.probabilities_frame().sort("task").drop("task").to_numpy()
    for frame in (far.probabilities_frame(), gather(far.fit.honest())):
        found = frame.sort("task").drop("task").to_numpy()
        assert np.allclose(found, expected, rtol=0, atol=1e-6)
        assert np.allclose(found.max(axis=1), confidence)
    assert far.ties == near.ties
    assert np.isclose(far.expected_errors, near.expected_errors, rtol=1e-6)
    assert_honest_workers(far.workers_frame(), near.workers_frame())
    assert far.facts["shared_error"] == pytest.approx(near.facts["shared_error"], rel=1e-9)
    assert far.facts["holds"] == pytest.approx(near.facts["holds"], rel=1e-9)


def assert_honest_workers(ours, theirs):
    """Workers and votes equal, agreement, honest accuracy and its interval to 1e-6."""
    assert ours.select("worker", "votes").equals(theirs.select("worker", "votes"))
    for name in ("accuracy", "agreement", "accuracy_low", "accuracy_high"):
        assert np.allclose(ours[name].to_numpy(), theirs[name].to_numpy(), rtol=0, atol=1e-6), name
    low, mean, high = (ours[name].to_numpy() for name in ("accuracy_low", "accuracy", "accuracy_high"))
    assert (low <= mean).all()
    assert (mean <= high).all()


@pytest.mark.parametrize(("rows", "gold"), [("driver", None), ("executors", GOLD)])
def test_auto_with_honest_confidence(spark, frame_of, rows, gold):
    near = honest(CROWD.votes, "auto", "cpu", gold=gold)
    far = honest(frame_of(CROWD.votes), "auto", ENGINES[rows], gold=gold)
    assert near.fit.facts["chose"] == far.fit.facts["chose"] == "careful"
    assert_honest(far, near)
    far.release()


@where
def test_auto_with_its_own_confidence(spark, frame_of, rows):
    far, near = fit(frame_of(CROWD.votes), "auto", engine=ENGINES[rows]), fit(CROWD.votes, "auto")
    assert_same(far, near)
    assert np.allclose(far.confusion_matrix("w3"), near.confusion_matrix("w3"), atol=1e-9)
    far.release()


@pytest.mark.parametrize("rows", ["executors"])  # where the workers without a vote are in no block of rows
def test_confusions_of_careful_workers_know_all_histories(spark, frame_of, rows):
    """Also for workers without a vote here, who get the mean worker's, as in memory."""
    counts = [("w3", "l0", "l1", 6.0), ("w3", "l2", "l2", 30.0), ("gone", "l1", "l0", 40.0), ("gone", "l0", "l0", 9.0)]
    history = pl.DataFrame(counts, schema=["worker", "true", "given", "count"], orient="row")
    few = CROWD.votes.filter((pl.col("worker") != "w3") | (pl.col("label") != "l1"))  # a pair that only the history has
    near = honest(few, "auto", "cpu", history=history)
    far = honest(frame_of(few), "auto", ENGINES[rows], history=history)
    assert_honest(far, near)
    for worker in ("w3", "w4"):
        found = far.confusion_matrix(worker)
        assert np.allclose(found, near.confusion_matrix(worker), rtol=0, atol=1e-6)
        assert np.allclose(found.sum(axis=1), 1.0)
    alone = MODELS["auto"]().fit(few, engine="cpu", history=history.filter(pl.col("worker") != "gone"))
    assert np.abs(alone.confusion_matrix("w4") - near.confusion_matrix("w4")).max() > 1e-3  # or it would prove nothing
    with pytest.raises(InputError, match="worker 'gone' has no votes here"):
        far.confusion("gone")
    far.release()


@pytest.mark.parametrize("rows", ["driver"])
def test_real_votes(spark, data_dir, rows):
    path = data_dir / "labelme"
    gold = pl.read_csv(path / "truth.csv", infer_schema=False).head(40)
    near = honest(path / "votes.csv", "auto", "cpu", gold=gold)
    far = honest(str(path / "votes.csv"), "auto", ENGINES[rows], gold=gold)
    assert_honest(far, near)
    far.release()


@pytest.mark.parametrize(("rows", "model"), [("driver", "mv"), ("driver", "ds"), ("executors", "iwmv")])  # votes, scores, weights
def test_honest_confidence_of_other_models(spark, frame_of, rows, model):
    known = {"options": {} if model == "mv" else {"max_iter": 2}, "gold": GOLD}
    with pytest.warns() if model != "mv" else nullcontext():
        near = honest(CROWD.votes, model, "cpu", **known)
        far = honest(frame_of(CROWD.votes), model, ENGINES[rows], **known)
    assert_honest(far, near)
    rule = near.fit.honest.honest
    if rows == "driver":
        ours, theirs = (r.session.run(Answers(rule.rule), rule.lines) for r in (far, near))
        assert np.allclose(ours, theirs, rtol=0, atol=1e-6)
    else:
        with pytest.raises(OptionError, match="use SparkEngine.rows='driver'. where they fit"):
            far.session.run(Answers(rule.rule), rule.lines)
    far.release()


@where
def test_all_that_a_user_asks_of_a_result(spark, frame_of, rows):
    """One call with auto and honest confidence, which warns of nothing (a warning is an error here)."""
    frame, new = frame_of(CROWD.votes), CROWD.votes.head(40)
    far = adj.aggregate(frame, model="auto", confidence="honest", engine=ENGINES[rows])
    near = adj.aggregate(CROWD.votes, model="auto", confidence="honest")
    assert far.facts.keys() == near.facts.keys()
    assert far.facts["why"] == near.facts["why"]
    assert far.labels.columns == ["task", "label", "confidence", "votes", "tie"]
    assert far.workers.columns == ["worker", "votes", "accuracy", "agreement", "abstained", "accuracy_low", "accuracy_high"]
    assert far.workers_frame(trust=False).columns == ["worker", "votes", "accuracy", "agreement", "abstained"]
    assert near.predict(frame).labels.columns == far.labels.columns
    own, model = gather(far.posterior).sort("task"), near.posterior.sort("task")
    assert own["task"].equals(model["task"])
    assert np.allclose(own.drop("task").to_numpy(), model.drop("task").to_numpy(), rtol=0, atol=1e-6)
    if rows == "driver":
        ours, theirs = far.predict(new).labels, near.predict(new).labels
        assert ours.drop("confidence").equals(theirs.drop("confidence"))
        assert np.allclose(ours["confidence"].to_numpy(), theirs["confidence"].to_numpy(), rtol=0, atol=1e-6)
    else:
        with pytest.raises(adj.AdjudgeError, match="is on the executors, and a saved model is one file"):
            far.predict(new)
    far.release()


@where
def test_votes_that_say_nothing_of_skill_are_left_to_the_majority(spark, frame_of, rows):
    rng = np.random.default_rng(3)
    error = np.where(rng.random(80) < 0.3, 0.45, 0.02)  # tasks are hard or easy, and workers all alike
    votes = [(f"t{t}", f"w{w}", "no" if (t % 2 == 0) ^ (rng.random() < error[t]) else "yes") for t in range(80) for w in range(7)]
    near, far = honest(votes, "auto", "cpu"), honest(frame_of(votes), "auto", ENGINES[rows])
    assert near.fit.facts["chose"] == "majority"
    assert near.fit.facts["why"] == far.fit.facts["why"]
    assert_honest(far, near)
    far.release()


@where
def test_no_other_labels_are_recounted(spark, frame_of, rows):
    votes = frame_of(CROWD.votes)
    session = ENGINES[rows].load(ENGINES[rows].read(votes), seed=0, ties="hash")
    for labels in (np.zeros(3, np.int32), np.zeros(0, np.int32)):
        with pytest.raises(OptionError, match="takes no labels to start with"):
            session.recount(labels)
