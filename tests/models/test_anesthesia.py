"""Exact figures on the 1979 data of Dawid and Skene: 45 patients graded 1 to 4 by five observers, the first one three times."""

from pathlib import Path

import numpy as np
import pytest

import adjudge as adj

VOTES = Path(__file__).parents[1] / "anesthesia.csv"
PUBLISHED = [0.40, 0.42, 0.11, 0.07]  # class shares that Dawid and Skene report
SOFT = "142222132243121111222222112111131224233111212"
HARD = "132222132243121111222222112111131223233111212"
FIGURES = {  # labels in the order of patients, iterations, log-likelihood
    "mv": (HARD, 0, np.nan),
    "fds": (HARD, 2, -193.479093520585),
    "hybrid": (SOFT, 7, -190.733730948061),
    "ds": (SOFT, 9, -190.731354265096),
}


@pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])
@pytest.mark.parametrize("model", FIGURES)
def test_labels_iterations_and_likelihood(model, engine):
    labels, iterations, log_likelihood = FIGURES[model]
    result = adj.aggregate(VOTES, model=model, engine=engine, confidence="posterior")
    assert "".join(str(label) for label in result.labels.sort("task")["label"]) == labels
    assert result.iterations == iterations
    assert result.log_likelihood == pytest.approx(log_likelihood, rel=1e-9, nan_ok=True)


def test_class_shares_are_the_published_ones():
    assert adj.aggregate(VOTES, model="ds").priors["prior"].round(2).to_list() == PUBLISHED


def test_confusion_of_the_observer_who_judged_three_times():
    confusion = adj.aggregate(VOTES, model="ds").confusion(1).drop("true").to_numpy()
    expected = [[0.91, 0.09, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    assert np.allclose(confusion, expected, atol=0.005)
