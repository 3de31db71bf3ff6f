"""Grades on the command line: `aggregate --model ordinal --labels`, and `evaluate --order`."""

import json

import polars as pl
import pytest

WORDS = "bad,fair,good,fine"


@pytest.fixture
def graded(tmp_path):
    votes = {"task": [1, 1, 2, 2, 3, 3], "worker": ["a", "b"] * 3, "label": ["bad", "bad", "good", "fine", "fine", "fine"]}
    pl.DataFrame(votes).write_csv(tmp_path / "votes.csv")
    pl.DataFrame({"task": [1, 2, 3], "label": ["bad", "fine", "fine"]}).write_csv(tmp_path / "truth.csv")
    return tmp_path


def test_the_labels_are_the_order(run, graded):
    votes, labels = graded / "votes.csv", graded / "labels.csv"
    refused = run("aggregate", votes, "-m", "ordinal", "-o", labels)
    assert refused.code == 1
    assert "the labels bad, fine, good have no order that shows" in refused.err
    assert not labels.exists()
    made = run("aggregate", votes, "-m", "ordinal", "--labels", WORDS, "-o", labels, "--workers", graded / "w.csv", "--quiet")
    assert made.code == 0, made.err
    assert pl.read_csv(labels).columns == ["task", "label", "confidence", "votes", "tie", "mean", "median"]
    assert {"bias", "scale", "stretch"} <= set(pl.read_csv(graded / "w.csv").columns)


def test_evaluate_takes_an_order(run, graded):
    labels, truth = graded / "labels.csv", graded / "truth.csv"
    pl.DataFrame({"task": [1, 2, 3], "label": ["bad", "good", "fine"]}).write_csv(labels)
    shown = run("evaluate", labels, "--truth", truth, "--order", WORDS)
    assert (shown.code, "quadratic-weighted kappa" in shown.out) == (0, True)
    assert "kappa" not in run("evaluate", labels, "--truth", truth).out
    told = json.loads(run("evaluate", labels, "--truth", truth, "--order", WORDS, "--json").out)
    assert told["mean_absolute_error"] == pytest.approx(1 / 3)
    wrong = run("evaluate", labels, "--truth", truth, "--order", "bad,good")
    assert wrong.code == 1
    assert wrong.err.count("\n") == 1
    assert "label 'fine' is not in the order" in wrong.err
