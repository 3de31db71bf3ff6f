"""Few tasks do not lead away from the cautious model, many do; and equal models leave it where it is."""

import numpy as np
import pytest

from adjudge.evaluation.compare.judging import cautious_of, choose


def models(tasks, **right):
    """Where models are right: the first so many of the tasks."""
    return {name: np.arange(tasks) < number for name, number in right.items()}


@pytest.mark.parametrize(
    ("tasks", "auto", "ds", "best"),
    [
        (20, 15, 16, "auto"),  # one task is not evidence
        (20, 10, 18, "ds"),
        (100, 75, 75, "auto"),
        (100, 75, 70, "auto"),
        (1000, 750, 765, "ds"),
        (10_000, 7500, 7505, "ds"),
    ],
)
def test_how_far_ahead_a_model_must_be(tasks, auto, ds, best):
    found = choose(models(tasks, auto=auto, ds=ds))
    assert found.best == best
    assert found.cautious == "auto"
    assert found.highest == ("ds" if ds > auto else "auto")


def test_noise_around_one_accuracy_seldom_leads_away_on_few_tasks():
    rng = np.random.default_rng(3)
    left = 0
    for _ in range(200):
        base = rng.random(20) < 0.8
        right = {"auto": base} | {name: base ^ (rng.random(20) < 0.05) for name in ("ds", "fds", "glad")}
        left += choose(right).best != "auto"
    assert left < 20


def test_the_best_of_several_is_chosen():
    assert choose(models(500, mv=300, auto=400, ds=440, fds=460)).best == "fds"


def test_without_auto_majority_vote_is_the_cautious_one():
    assert choose(models(20, ds=15, mv=15)).best == "mv"
    assert cautious_of({"ds": 1, "glad": 2}) == "ds"
