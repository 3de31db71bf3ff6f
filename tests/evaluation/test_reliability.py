"""Figures of confidence against scikit-learn, against naive versions, and by their properties."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from adjudge.evaluation.evaluate import ENOUGH, MAX_CONFIDENCE_BINS, brier, calibration
from adjudge.models.temperature import PROBABILITY_FLOOR, log_loss


@st.composite
def graded(draw, max_size=300):
    """(confidence, right): coarse confidences, so that many are equal, any, or most of them all but 1."""
    n = draw(st.integers(1, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.sampled_from([0, 2, 5, 100, 10**9]))
    confidence = rng.integers(0, steps + 1, n) / steps if steps else 1 - rng.uniform(0, 0.7, n) ** 12
    return confidence, rng.random(n) < draw(st.floats(0, 1))


@st.composite
def posteriors(draw):
    """(posterior, truth) with every probability above the floor."""
    n, k = draw(st.integers(1, 40)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = rng.dirichlet(np.full(k, draw(st.sampled_from([0.05, 1.0, 20.0]))), n) + 1e-9
    return raw / raw.sum(axis=1, keepdims=True), rng.integers(0, k, n)


def naive_error(confidence, right):
    """The expected calibration error as its definition reads, in fractions and dicts."""
    n = len(confidence)
    wanted = max(1, min(10, n // 20))
    rounded = [round(c, 3) for c in confidence.tolist()]
    bins = {}
    for value, c, r in zip(rounded, confidence.tolist(), right.tolist(), strict=True):
        less = sum(other < value for other in rounded)
        bins.setdefault(int(Fraction(less * wanted, n)), []).append((c, r))
    means = [(len(b), sum(c for c, _ in b) / len(b), sum(r for _, r in b) / len(b)) for b in bins.values()]
    return sum(size * abs(c - r) for size, c, r in means) / n


@given(graded())
def test_calibration_error_by_definition(data):
    assert calibration(*data).expected_calibration_error == pytest.approx(naive_error(*data), abs=1e-12)


@given(graded(), st.randoms(use_true_random=False))
def test_bins_hold_every_task_once_and_in_order(data, random):
    confidence, right = data
    found = calibration(confidence, right)
    bins, n = found.bins, len(confidence)
    assert 1 <= len(bins["tasks"]) <= MAX_CONFIDENCE_BINS
    assert bins["tasks"].sum() == n
    assert (bins["highest"][:-1] < bins["lowest"][1:]).all()
    assert (bins["lowest"] <= bins["confidence"] + 1e-12).all()
    assert (bins["confidence"] <= bins["highest"] + 1e-12).all()
    assert (bins["tasks"] * bins["accuracy"]).sum() == pytest.approx(right.sum())
    assert found.errors == n - right.sum()
    assert found.expected_errors == pytest.approx(n - confidence.sum())
    whole = abs(confidence.mean() - right.mean())
    assert whole - 1e-12 <= found.expected_calibration_error <= 1, "bins can only reveal more than one bin does"
    order = list(range(n))
    random.shuffle(order)
    again = calibration(confidence[order], right[order])
    assert again.expected_calibration_error == pytest.approx(found.expected_calibration_error, abs=1e-12)
    assert again.bins["tasks"].tolist() == bins["tasks"].tolist()


def test_bins_are_those_of_scikit_learn_where_no_confidences_are_equal():
    rng = np.random.default_rng(3)
    confidence = rng.permutation(np.arange(1, 401) / 401)
    right = rng.random(400) < confidence
    accuracy, mean = calibration_curve(right, confidence, n_bins=10, strategy="quantile")
    bins = calibration(confidence, right).bins
    assert bins["confidence"] == pytest.approx(mean)
    assert bins["accuracy"] == pytest.approx(accuracy)
    assert (bins["tasks"] == 40).all()


def test_few_tasks_make_few_bins():
    confidence = np.linspace(0.5, 1, 3 * ENOUGH + 1)
    assert len(calibration(confidence, confidence > 0.6).bins["tasks"]) == 3
    assert len(calibration(confidence[:5], confidence[:5] > 0.6).bins["tasks"]) == 1


def test_confidences_equal_to_three_digits_share_a_bin():
    half = np.ones(ENOUGH)
    assert len(calibration(np.concatenate([0.8001 * half, 0.8004 * half]), np.ones(2 * ENOUGH, bool)).bins["tasks"]) == 1
    assert len(calibration(np.concatenate([0.8001 * half, 0.8012 * half]), np.ones(2 * ENOUGH, bool)).bins["tasks"]) == 2


def test_calibrated_confidence_shows_as_such_and_overconfidence_too():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 200_000)
    right = rng.random(200_000) < confidence
    assert calibration(confidence, right).expected_calibration_error < 0.006
    worse = rng.random(200_000) < confidence - 0.1
    assert calibration(confidence, worse).expected_calibration_error == pytest.approx(0.1, abs=0.006)


@given(posteriors())
def test_brier_and_log_loss_are_those_of_scikit_learn(data):
    posterior, truth = data
    labels = list(range(posterior.shape[1]))
    assert brier(posterior, truth) == pytest.approx(brier_score_loss(truth, posterior, labels=labels, scale_by_half=False))
    assert log_loss(posterior, truth) == pytest.approx(sklearn_log_loss(truth, posterior, labels=labels))


@given(graded())
def test_brier_of_the_confidence_is_that_of_scikit_learn(data):
    confidence, right = data
    found = calibration(confidence, right)
    assert found.confidence_brier == pytest.approx(brier_score_loss(right, confidence, labels=[False, True]))
    assert np.isnan([found.brier, found.log_loss]).all(), "nothing is known of the other labels"


def test_with_two_labels_one_brier_is_twice_the_other():
    posterior = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
    truth, chosen = np.array([0, 0, 1]), posterior.argmax(axis=1)
    found = calibration(posterior.max(axis=1), chosen == truth, posterior, truth)
    assert found.brier == pytest.approx(2 * found.confidence_brier)


def test_impossible_truth_costs_the_floor_and_no_more():
    posterior = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert log_loss(posterior, np.array([1, 0])) == pytest.approx(-np.log(PROBABILITY_FLOOR) / 2)
    assert log_loss(posterior, np.array([-1, 0])) == pytest.approx(-np.log(PROBABILITY_FLOOR) / 2), (
        "a label without column has probability 0"
    )
    assert brier(posterior, np.array([-1, 0])) == 1.0  # 1² for the sure label, 1² for the one without column


def test_nothing_known():
    found = calibration(np.zeros(0), np.zeros(0, np.bool_))
    assert (found.tasks, found.errors, found.bins) == (0, 0, {})
    assert np.isnan([found.expected_errors, found.expected_calibration_error, found.confidence_brier]).all()
