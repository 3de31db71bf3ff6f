"""Figures of grades against scikit-learn and SciPy, and where there are none."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

import adjudge as adj

WORDS = ("bad", "fair", "good", "fine")


def pairs(seed, k=5, n=80):
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    return true, np.clip(true + rng.integers(-1, 2, n), 0, k - 1)


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_the_libraries(seed):
    true, chosen = pairs(seed)
    found = adj.evaluate(dict(enumerate(chosen.tolist())), dict(enumerate(true.tolist())))
    assert found.mean_absolute_error == pytest.approx(mean_absolute_error(true, chosen))
    assert found.quadratic_kappa == pytest.approx(cohen_kappa_score(true, chosen, weights="quadratic"))
    assert found.rank_correlation == pytest.approx(spearmanr(true, chosen).statistic)
    assert math.isnan(found.rank_correlation_of_means)


def test_an_order_makes_words_grades():
    true, chosen = pairs(4, k=4)
    labels, truth = ({n: WORDS[code] for n, code in enumerate(some)} for some in (chosen, true))
    assert math.isnan(adj.evaluate(labels, truth).mean_absolute_error)
    assert adj.evaluate(labels, truth).grades is None
    found = adj.evaluate(labels, truth, order=WORDS)
    assert found.mean_absolute_error == pytest.approx(mean_absolute_error(true, chosen))
    assert found.quadratic_kappa == pytest.approx(cohen_kappa_score(true, chosen, weights="quadratic"))
    assert found.rank_correlation == pytest.approx(spearmanr(true, chosen).statistic)
    assert found.label_names == WORDS
    assert found.summary()["quadratic_kappa"] == pytest.approx(found.quadratic_kappa)
    turned = adj.evaluate(labels, truth, order=WORDS[::-1])
    assert turned.quadratic_kappa == pytest.approx(found.quadratic_kappa)
    assert turned.rank_correlation == pytest.approx(found.rank_correlation)


def test_halves_stand_between_whole_numbers():
    scale = np.array(["1", "1.5", "2", "10"])
    true, chosen = pairs(6, k=4)
    labels, truth = ({n: str(scale[code]) for n, code in enumerate(some)} for some in (chosen, true))
    found = adj.evaluate(labels, truth)
    assert found.label_names == tuple(scale)
    assert found.rank_correlation == pytest.approx(spearmanr(true, chosen).statistic)
    assert adj.evaluate({"a": "3"}, {"a": "3"}).mean_absolute_error == 0.0


@pytest.mark.parametrize(("order", "apart"), [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], 1.0), ([2, 1, 4, 3], 3.0)])
def test_numbers_may_fall_or_be_names(order, apart):
    votes = [(task, judge, grade) for task, grade in enumerate(order * 3) for judge in ("ann", "bob", "eve")]
    result = adj.Ordinal(order=order).fit(votes)
    found = adj.evaluate(result, dict(enumerate(order * 3)))
    assert found.rank_correlation == pytest.approx(1.0)
    assert found.rank_correlation_of_means == pytest.approx(1.0)
    assert adj.evaluate({"a": 3}, {"a": 2}, order=order).mean_absolute_error == apart


def test_places_that_nobody_uses_count():
    found = adj.evaluate({1: "bad", 2: "fine"}, {1: "fine", 2: "fine"}, order=WORDS)
    assert found.mean_absolute_error == 1.5


def test_results_know_their_order_and_their_means():
    rng = np.random.default_rng(5)
    true = rng.integers(4, size=60)
    votes = [
        (task, judge, WORDS[int(np.clip(grade + rng.integers(-1, 2), 0, 3))])
        for task, grade in enumerate(true)
        for judge in ("ann", "bob", "eve")
    ]
    result = adj.aggregate(votes, model="ordinal", labels=WORDS)
    found = adj.evaluate(result, {task: WORDS[grade] for task, grade in enumerate(true)})
    labels = result.labels.sort("task")
    given = [WORDS.index(label) for label in labels["label"]]
    assert found.mean_absolute_error == pytest.approx(mean_absolute_error(true, given))
    assert found.rank_correlation_of_means == pytest.approx(spearmanr(true, labels["mean"].to_numpy()).statistic)
    strange = adj.evaluate(result, {0: "awful", 1: "good"})  # truth outside the order: no grades, but accuracy
    assert strange.grades is None


def test_where_nothing_varies_there_is_no_correlation():
    found = adj.evaluate({1: 3, 2: 3, 3: 3}, {1: 3, 2: 4, 3: 3})
    assert math.isnan(found.rank_correlation)
    assert found.mean_absolute_error == pytest.approx(1 / 3)
    assert math.isnan(adj.evaluate({1: "x"}, {1: "x"}, order=["x"]).quadratic_kappa)


@pytest.mark.parametrize(("order", "message"), [
    (["bad", "fair"], "label 'good' is not in the order, which is bad, fair"),
    (["bad", "bad"], "order has 'bad' twice"),
    ("bad", "order is 'bad': give all labels"),
])  # fmt: skip
def test_bad_orders(order, message):
    with pytest.raises(adj.OptionError, match=message):
        adj.evaluate({1: "good"}, {1: "bad"}, order=order)
    with pytest.raises(adj.OptionError, match="order is for labels, not for sets"):
        adj.evaluate({1: "a|b"}, {1: "a"}, multi=True, order=["a", "b"])
