"""`evaluate` on confidence: its sources, its tasks, and the refused ones."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

import adjudge as adj
from strategies import crowds

FIGURES = ("expected_errors", "expected_calibration_error", "brier", "confidence_brier", "log_loss")
LABELS = pl.DataFrame({"task": ["a", "b", "c"], "label": ["x", "y", "x"], "confidence": [0.9, 0.6, 0.8]})
TRUTH = {"a": "x", "b": "x", "c": "x"}


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=300, workers=12, labels=3, votes_per_task=4, spammers=0.2, seed=3)


def figures(evaluation):
    return {name: getattr(evaluation, name) for name in FIGURES}


def test_by_hand():
    e = adj.evaluate(LABELS, TRUTH)
    assert e.calibration.errors == 1
    assert e.expected_errors == pytest.approx(0.7)
    assert e.confidence_brier == pytest.approx((0.1**2 + 0.6**2 + 0.2**2) / 3)
    assert e.expected_calibration_error == pytest.approx(0.1)  # one bin: confidence 2.3 / 3, accuracy 2 / 3
    assert np.isnan([e.brier, e.log_loss]).all()
    assert e.reliability.rows() == [(0.6, 0.9, 3, pytest.approx(2.3 / 3), pytest.approx(2 / 3))]
    assert e.reliability.columns == ["lowest", "highest", "tasks", "confidence", "accuracy"]


@pytest.mark.parametrize("model", ["mv", "ds", "fds", "hybrid", "iwmv", "glad"])
def test_a_result_and_its_files_tell_the_same(crowd, model, tmp_path):
    if model == "glad":
        crowd = adj.simulate(tasks=300, workers=12, labels=2, votes_per_task=4, seed=3)
    result = adj.aggregate(crowd.votes, model=model)
    whole = adj.evaluate(result, crowd.truth)
    assert whole.calibration.tasks == 300
    result.labels.write_csv(tmp_path / "labels.csv")
    result.labels.write_parquet(tmp_path / "labels.parquet")
    result.probabilities.sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / "p.csv")
    result.probabilities.write_ndjson(tmp_path / "p.jsonl")
    for labels in (
        result.labels,
        result.labels.to_pandas(),
        result.labels.to_arrow(),
        tmp_path / "labels.csv",
        tmp_path / "labels.parquet",
    ):
        alone = adj.evaluate(labels, crowd.truth)
        expected = figures(whole) | {"brier": pytest.approx(np.nan, nan_ok=True), "log_loss": pytest.approx(np.nan, nan_ok=True)}
        assert figures(alone) == pytest.approx(expected, nan_ok=True)
        for probabilities in (tmp_path / "p.csv", tmp_path / "p.jsonl", result.probabilities.to_pandas(), result):
            assert figures(adj.evaluate(labels, crowd.truth, probabilities=probabilities)) == pytest.approx(figures(whole))


def test_a_result_against_scikit_learn(crowd):
    result = adj.aggregate(crowd.votes, model=adj.DawidSkene(smoothing=0.5))  # smoothed: no zeros, so that both clip nothing
    e = adj.evaluate(result, crowd.truth)
    both = result.probabilities.join(crowd.truth, on="task")
    names = result.probabilities.columns[1:]
    arguments = (both["label"].to_list(), both.select(names).to_numpy())
    assert e.brier == pytest.approx(brier_score_loss(*arguments, labels=names, scale_by_half=False))
    assert e.log_loss == pytest.approx(sklearn_log_loss(*arguments, labels=names))


@given(crowds())
def test_any_crowd(votes):
    result = adj.aggregate(votes, model=adj.DawidSkene(max_iter=1000))
    truth = {task: label for task, _, label in votes[::2]}  # truth for some tasks
    e = adj.evaluate(result, truth)
    assert e.calibration.tasks == e.tasks == len(truth)
    assert e.calibration.errors == e.tasks - e.correct
    assert e.gold == 0
    assert e.accuracy_without_gold == e.accuracy
    assert 0 <= e.confidence_brier <= 1
    assert 0 <= e.brier <= 2
    assert 0 <= e.log_loss <= -np.log(1e-12)
    assert result.expected_errors == pytest.approx(
        result.labels["confidence"].len() - result.labels["confidence"].sum(), abs=1e-9
    )
    if len(truth) == len(result.labels):
        assert e.expected_errors == pytest.approx(result.expected_errors)
    json.dumps(e.summary(), allow_nan=False)


def test_without_confidence_nothing_is_reported():
    for labels in ({"a": "x"}, [("a", "x")], pl.DataFrame({"task": ["a"], "label": ["x"]})):
        e = adj.evaluate(labels, TRUTH)
        assert e.reliability is None
        assert e.reliability_frame().is_empty()
        assert np.isnan(list(figures(e).values())).all()
        summary = e.summary()
        assert [summary[name] for name in (*FIGURES, "errors", "reliability")] == [None] * 7
        assert summary["tasks_with_confidence"] == 0
    nothing = adj.evaluate(adj.aggregate([("a", "w", "x")]), {})
    assert nothing.reliability is None


def test_tasks_without_confidence_are_left_out():
    labels = LABELS.with_columns(confidence=pl.Series([0.9, None, float("nan")]))
    e = adj.evaluate(labels, TRUTH)
    assert (e.tasks, e.calibration.tasks, e.calibration.errors) == (3, 1, 0)
    abstained = [("a", "w", "x"), ("b", "w", None)]
    with pytest.warns(adj.MissingLabels):
        result = adj.aggregate(abstained)
    assert adj.evaluate(result, TRUTH).calibration.tasks == 1
    assert adj.evaluate(LABELS, TRUTH, probabilities={"task": ["c"], "x": [1], "y": [0]}).calibration.tasks == 1


def test_probabilities_go_before_confidence():
    probabilities = pl.DataFrame({"task": ["c", "b", "a"], "x": [0.5, 0.75, 1.0], "y": [0.5, 0.25, 0.0]})
    e = adj.evaluate(LABELS, TRUTH, probabilities=probabilities)
    assert e.expected_errors == pytest.approx(0.5 + 0.75 + 0)
    assert e.brier == pytest.approx((0.5 + 2 * 0.0625) / 3)


def test_labels_that_have_no_column_have_probability_0():
    e = adj.evaluate({"a": "z"}, {"a": "q"}, probabilities={"task": ["a"], "x": [0.6], "y": [0.4]})
    assert e.expected_errors == 1.0
    assert e.brier == pytest.approx(0.36 + 0.16 + 1)


def test_labels_called_like_columns(tmp_path):
    """A label may be called task, item, confidence or gold; its column of probabilities is found all the same."""
    names = ["task", "item", "confidence", "gold"]
    votes = [(f"t{n}", f"w{w}", names[(n + (w == 2) * (n % 3 == 0)) % 4]) for n in range(12) for w in range(3)]
    truth = {f"t{n}": names[n % 4] for n in range(12)}
    result = adj.aggregate(votes, model="mv", confidence="posterior")
    whole = adj.evaluate(result, truth)
    result.probabilities.write_csv(tmp_path / "p.csv")
    assert figures(adj.evaluate(result.labels, truth, probabilities=tmp_path / "p.csv")) == pytest.approx(figures(whole))
    expected = sum(1 - c for c in result.labels["confidence"])
    assert whole.expected_errors == pytest.approx(expected)
    assert whole.brier == pytest.approx(2 * sum((1 - c) ** 2 for c in result.labels["confidence"]) / 12)


def test_a_column_called_confidence_can_be_the_label():
    frame = pl.DataFrame({"task": ["a"], "confidence": ["x"]})
    assert adj.evaluate(frame, TRUTH, label="confidence").accuracy == 1.0


GOLD = LABELS.with_columns(gold=pl.Series([True, False, False]))


@pytest.mark.parametrize("kind", ["polars", "pandas", "csv", "pandas csv", "parquet"])
def test_gold_counts_in_the_accuracy_alone(kind, tmp_path):
    path = tmp_path / f"labels.{kind.split()[-1]}"
    if kind == "csv":
        GOLD.write_csv(path)
    elif kind == "pandas csv":
        GOLD.to_pandas().to_csv(path, index=False)  # True, False
    elif kind == "parquet":
        GOLD.write_parquet(path)
    e = adj.evaluate({"polars": GOLD, "pandas": GOLD.to_pandas()}.get(kind, path), TRUTH)
    assert (e.tasks, e.correct, e.gold) == (3, 2, 1)
    assert e.accuracy == pytest.approx(2 / 3)
    assert e.accuracy_without_gold == 0.5
    assert (e.calibration.tasks, e.calibration.errors) == (2, 1)
    assert e.expected_errors == pytest.approx(0.6)
    assert e.summary()["gold"] == 1
    full = adj.evaluate(GOLD, TRUTH, probabilities={"task": ["a", "b", "c"], "x": [1.0, 0.5, 0.5], "y": [0.0, 0.5, 0.5]})
    assert full.calibration.tasks == 2
    assert full.log_loss == pytest.approx(np.log(2))


def test_gold_may_be_wrong_and_may_be_everything():
    e = adj.evaluate(LABELS.with_columns(gold=pl.Series([False, True, None])), TRUTH)
    assert (e.gold, e.accuracy, e.accuracy_without_gold) == (1, pytest.approx(2 / 3), 1.0)
    every = adj.evaluate(LABELS.with_columns(gold=True), TRUTH)
    assert every.gold == 3
    assert every.summary()["accuracy_without_gold"] is None
    assert every.reliability is None


def test_a_gold_column_of_labels_is_not_a_mark():
    for labels in (LABELS.with_columns(gold=pl.col("label")), LABELS.with_columns(gold=pl.Series([1, 0, 1]))):
        e = adj.evaluate(labels, TRUTH)
        assert (e.gold, e.calibration.tasks) == (0, 3)


def test_the_curve_comes_in_the_callers_kind():
    assert isinstance(adj.evaluate(LABELS.to_pandas(), TRUTH).reliability, pd.DataFrame)


@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        (["high", "0.5", "0.5"], "the confidence of task 'a' is 'high': give a number from 0 to 1"),
        ([0.5, 60.0, 0.5], "the confidence of task 'b' is 60.0"),
        ([0.5, 0.5, -0.1], "the confidence of task 'c' is -0.1"),
        ([0.5, float("inf"), 0.5], "the confidence of task 'b' is inf"),
        ([True, False, True], "the confidence of task 'a' is True"),
        ([[0.5], [0.5], [0.5]], "the confidence of task 'a' is"),
    ],
)
def test_bad_confidence(confidence, message):
    with pytest.raises(adj.InputError, match=message):
        adj.evaluate(LABELS.with_columns(confidence=pl.Series(confidence)), TRUTH)


def test_rounding_is_not_bad_confidence():
    e = adj.evaluate(LABELS.with_columns(confidence=pl.Series([1 + 1e-12, 0.5, 0.5])), TRUTH)
    assert e.reliability["highest"].to_list() == [1.0]
    text = LABELS.with_columns(confidence=pl.Series([" 0.9", "", "NaN"]))
    assert adj.evaluate(text, TRUTH).calibration.tasks == 1


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ({"task": ["a"], "x": [0.5], "y": [0.1]}, "the probabilities of task 'a' sum to 0.6, not 1: give a column per label"),
        ({"task": ["a"], "x": [0.5], "y": [0.5], "votes": [3]}, "the probability of 'votes' of task 'a' is 3: give a number"),
        ({"task": ["a", "a"], "x": [1.0, 1.0]}, "the probabilities have task 'a' twice"),
        ({"task": ["a"]}, "the probabilities have no column except the task"),
        ({"x": [0.5], "y": [0.5]}, "no column looks like the task"),
        ([("a", 0.5, 0.5)], "has no column names: give a file, a frame or a dict of columns"),
    ],
)
def test_bad_probabilities(probabilities, message):
    with pytest.raises(adj.InputError, match=message):
        adj.evaluate(LABELS, TRUTH, probabilities=probabilities)


def test_sets_have_no_probabilities_here():
    with pytest.raises(adj.OptionError, match="probabilities are for labels, not for sets"):
        adj.evaluate([("a", "x|y")], [("a", "x")], multi=True, probabilities={"task": ["a"], "x": [1.0]})


def test_twice_with_different_confidence():
    assert adj.evaluate(pl.concat([LABELS, LABELS]), TRUTH).tasks == 3
    with pytest.raises(adj.InputError, match="the labels give task 'a' more than one label or confidence"):
        adj.evaluate(pl.concat([LABELS, LABELS.with_columns(confidence=0.1)]), TRUTH)
