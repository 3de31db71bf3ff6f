import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.models.temperature import COLDEST, HOTTEST, apply_temperature, fit_temperature, log_loss


@st.composite
def measured(draw):
    """(posterior, truth), with zeros and ones among the probabilities."""
    n, k = draw(st.integers(1, 60)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    posterior = rng.dirichlet(np.full(k, draw(st.sampled_from([0.003, 0.1, 1.0, 50.0]))), n)
    skill = draw(st.floats(0, 1))
    truth = np.where(rng.random(n) < skill, posterior.argmax(axis=1), rng.integers(0, k, n))
    return posterior, truth


@given(measured())
def test_never_worse(data):
    posterior, truth = data
    found = fit_temperature(posterior, truth)
    assert COLDEST * 0.999 <= found <= HOTTEST * 1.001
    assert log_loss(apply_temperature(posterior, found), truth) <= log_loss(posterior, truth)


def naive_loss(posterior, truth, temperature):
    """The log loss of p^(1/T), a task at a time, without a floor."""
    total = 0.0
    for line, true in zip(posterior.tolist(), truth.tolist(), strict=True):
        scores = [math.log(p) / temperature for p in line]
        top = max(scores)
        total += top + math.log(sum(math.exp(s - top) for s in scores)) - scores[true]
    return total / len(truth)


@given(measured())
def test_no_temperature_of_a_grid_is_better(data):
    posterior, truth = data
    posterior = np.maximum(posterior, 1e-9)
    posterior /= posterior.sum(axis=1, keepdims=True)
    best = naive_loss(posterior, truth, fit_temperature(posterior, truth))
    assert best <= min(naive_loss(posterior, truth, t) for t in np.geomspace(COLDEST, HOTTEST, 60)) + 1e-9


@given(measured(), measured())
def test_no_temperature_of_a_grid_is_better_with_a_prior(data, others):
    """The prior adds 20 tasks whose truth is what all tasks' own probabilities say."""
    posterior, truth = (np.maximum(data[0], 1e-9), data[1])
    believed = np.maximum(others[0], 1e-9)[:, : posterior.shape[1]]
    posterior, believed = (lines / lines.sum(axis=1, keepdims=True) for lines in (posterior, believed))
    if believed.shape[1] < posterior.shape[1]:
        believed = posterior

    def loss(temperature):
        cooled = apply_temperature(believed, temperature)
        prior = -20 * (believed * np.log(np.maximum(cooled, 1e-300))).sum(axis=1).mean()
        return len(truth) * naive_loss(posterior, truth, temperature) + prior

    found = fit_temperature(posterior, truth, believed)
    if found != 1.0:
        assert loss(found) <= min(loss(t) for t in np.geomspace(COLDEST, HOTTEST, 60)) + 1e-9
        gain = naive_loss(posterior, truth, 1.0) - naive_loss(posterior, truth, found)
        assert gain > 20 / len(truth) ** 2 - 1e-9


def test_few_known_tasks_say_little():
    """20 right labels in a row do not make a confidence of .9 certain; 400 with 60 wrong ones pull it down."""
    sure = np.array([[0.9, 0.1]])
    everything = np.repeat(sure, 500, axis=0)
    few, many = np.repeat(sure, 20, axis=0), np.repeat(sure, 400, axis=0)
    assert fit_temperature(few, np.zeros(20, int)) < 0.06
    assert 0.5 < fit_temperature(few, np.zeros(20, int), everything) < 1
    assert fit_temperature(few, (np.arange(20) < 3).astype(int), everything) == 1.0
    hot = fit_temperature(many, (np.arange(400) < 60).astype(int), everything)
    assert hot == pytest.approx(fit_temperature(many, (np.arange(400) < 60).astype(int)), rel=0.05)
    assert hot > 1.1


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("labels", [2, 5])
def test_finds_the_temperature_that_made_the_data(temperature, labels):
    """Truth drawn from p, told as p^T: the temperature that undoes it is T."""
    rng = np.random.default_rng(7)
    posterior = rng.dirichlet(np.ones(labels), 40_000)
    truth = (rng.random(40_000)[:, None] > posterior.cumsum(axis=1)).sum(axis=1)
    told = apply_temperature(posterior, 1 / temperature)
    assert fit_temperature(told, truth) == pytest.approx(temperature, rel=0.05)


def test_one_changes_not_a_bit():
    posterior = np.array([[1.0, 0.0], [0.3, 0.7], [1 / 3, 2 / 3]])
    same = apply_temperature(posterior, 1.0)
    assert same.tobytes() == posterior.tobytes()
    assert same is not posterior


@given(measured(), st.floats(0.05, 100))
def test_lines_stay_probabilities_and_keep_their_order(data, temperature):
    posterior, _ = data
    out = apply_temperature(posterior, temperature)
    assert out.sum(axis=1) == pytest.approx(np.ones(len(out)))
    before = np.take_along_axis(out, posterior.argsort(axis=1), axis=1)
    assert (np.diff(before, axis=1) >= -1e-12).all()


def test_ends_of_the_scale():
    sure = np.array([[0.8, 0.2]] * 10)
    assert fit_temperature(sure, np.zeros(10, int)) == pytest.approx(COLDEST), "always right: as sure as can be"
    assert fit_temperature(sure, np.ones(10, int)) == pytest.approx(HOTTEST), "always wrong: as unsure as can be"
    assert fit_temperature(np.full((10, 2), 0.5), np.arange(10) % 2) == 1.0, "nothing to scale"
    assert fit_temperature(np.zeros((0, 2)), np.zeros(0, int)) == 1.0
    assert fit_temperature(np.array([[1.0, 0.0]] * 4), np.zeros(4, int)) == 1.0


def test_zeros_do_no_harm():
    posterior = np.array([[1.0, 0.0]] * 10)
    truth = np.array([0] * 9 + [1])
    found = fit_temperature(posterior, truth)
    assert log_loss(apply_temperature(posterior, found), truth) == pytest.approx(-(0.9 * np.log(0.9) + 0.1 * np.log(0.1)))


@pytest.mark.parametrize(
    ("posterior", "truth", "message"),
    [
        ([0.5, 0.5], [0, 1], "posterior has shape \\(2,\\), truth \\(2,\\): give \\[n, K\\]"),
        ([[0.5, 0.5]], [0, 1], "truth \\(2,\\)"),
        ([[0.5, 0.5], [np.nan, 1.0]], [0, 1], "line 2 of posterior is \\[nan, 1.0\\]: give probabilities from 0 to 1"),
        ([[50.0, 50.0]], [0], "line 1 of posterior"),
        ([[0.5, 0.5]], [2], "code 1 of truth is 2: give codes from 0 to 1"),
        ([[0.5, 0.5]], [-1], "code 1 of truth is -1"),
    ],
)
def test_bad_input(posterior, truth, message):
    with pytest.raises(adj.InputError, match=message):
        fit_temperature(np.array(posterior), np.array(truth))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf, 1e308, 1e-308, True, "1"])
def test_bad_temperature(temperature):
    with pytest.raises(adj.OptionError, match="give a number of at least 1e-06 and at most 1e"):
        apply_temperature(np.array([[0.5, 0.5]]), temperature)
