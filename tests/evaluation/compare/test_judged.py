"""The figures are those of `evaluate`, and no gold is known to the fit that it judges."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.compare.judging import assign_folds, macro_f1
from adjudge.evaluation.inputs import KnownLabels


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=150, workers=10, labels=3, votes_per_task=4, seed=5)


def test_figures_against_truth_are_those_of_evaluate(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth, seed=3)
    assert (found.judged_by, found.judged_tasks, found.folds, found.gold_tasks) == ("truth", 150, 0, 0)
    assert found.models["accuracy"].is_sorted(descending=True)
    for row in found.models.iter_rows(named=True):
        result = adj.aggregate(crowd.votes, row["model"], seed=3)
        alone = adj.evaluate(result, crowd.truth)
        assert row["accuracy"] == alone.accuracy
        assert row["f1"] == pytest.approx(alone.macro_f1)
        assert row["calibration_error"] == pytest.approx(alone.expected_calibration_error)
        assert row["log_loss"] == pytest.approx(alone.log_loss)
        assert row["expected_wrong"] == pytest.approx(result.expected_errors)
        assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]


def test_gold_is_hidden_from_the_fit_that_it_judges(crowd):
    """Leaving out one gold task at a time, by hand."""
    gold = crowd.truth.sample(8, seed=1)
    found = adj.compare(crowd.votes, gold=gold, folds=8, models=["auto", "ds", "mv"])
    assert (found.judged_by, found.judged_tasks, found.folds, found.gold_tasks) == ("gold", 8, 8, 8)
    for model, accuracy in found.models.select("model", "accuracy").iter_rows():
        right = 0
        for task, label in gold.iter_rows():
            fitted = adj.aggregate(crowd.votes, model, gold=gold.filter(pl.col("task") != task))
            right += fitted.labels.filter(pl.col("task") == task)["label"].item() == label
        assert accuracy == right / 8, model


def test_gold_that_says_nothing_of_other_tasks_is_not_found_again():
    """Votes and gold at random: fits that knew the gold would be right everywhere."""
    rng = np.random.default_rng(2)
    votes = [(t, w, "ab"[rng.integers(2)]) for t in range(300) for w in range(5)]
    gold = {t: "ab"[rng.integers(2)] for t in range(300)}
    found = adj.compare(votes, gold=gold)
    assert found.models["accuracy"].is_between(0.38, 0.62).all()


def test_the_final_fits_learn_from_all_gold(crowd):
    gold = crowd.truth.sample(40, seed=2)
    found = adj.compare(crowd.votes, gold=gold, models=["fds"])
    assert found.labels["fds"].to_list() == adj.aggregate(crowd.votes, "fds", gold=gold).labels["label"].to_list()
    both = found.labels.join(gold, on="task")
    assert (both["fds"] == both["label"]).all()


def test_truth_beside_gold_judges_the_other_tasks(crowd):
    gold = crowd.truth.head(30)
    found = adj.compare(crowd.votes, truth=crowd.truth, gold=gold, models=["fds", "auto"])
    assert (found.judged_by, found.judged_tasks, found.gold_tasks, found.folds) == ("truth", 120, 30, 0)
    alone = adj.evaluate(adj.aggregate(crowd.votes, "fds", gold=gold), crowd.truth)
    assert found.models.filter(model="fds")["accuracy"].item() == alone.accuracy_without_gold


def test_a_true_label_that_nobody_gave_is_an_error_of_all(crowd):
    truth = crowd.truth.with_columns(label=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("none of these")).otherwise("label"))
    found = adj.compare(crowd.votes, truth=truth, models=["mv"])
    alone = adj.evaluate(adj.aggregate(crowd.votes, "mv"), truth)
    row = found.models.row(0, named=True)
    assert row["accuracy"] == alone.accuracy
    assert row["f1"] == pytest.approx(alone.macro_f1)
    assert row["log_loss"] == pytest.approx(alone.log_loss)


def test_folds_spread_every_label(crowd):
    known = KnownLabels(np.arange(60), np.repeat([0, 1, 2], [40, 15, 5]))
    fold = assign_folds(known, 5, np.random.default_rng(1))
    assert np.bincount(fold).tolist() == [12] * 5
    for label, each in ((0, 8), (1, 3), (2, 1)):
        assert np.bincount(fold[known.labels == label], minlength=5).tolist() == [each] * 5


def test_differences_are_paired(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "ds", "auto"])
    truth = found.labels.join(crowd.truth, on="task", maintain_order="left")["label"]
    assert len(found.differences) == 3
    for row in found.differences.iter_rows(named=True):
        a, b = (found.labels[row[name]] == truth for name in ("model_a", "model_b"))
        assert (row["only_a"], row["only_b"]) == ((a & ~b).sum(), (b & ~a).sum())
        assert row["difference"] == pytest.approx(a.mean() - b.mean())
        assert row["difference"] >= 0
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["p_adjusted"] >= row["p_value"]
        assert row["significant"] == (row["p_adjusted"] < 0.05)
        assert row["differing"] == (found.labels[row["model_a"]] != found.labels[row["model_b"]]).sum()


def test_macro_f1_of_nothing():
    assert np.isnan(macro_f1(np.zeros(0, np.int64), np.zeros(0, np.int64)))
