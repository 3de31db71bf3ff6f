"""Honest confidence on votes so small that one knows what it should say, whichever model chose the labels."""

import numpy as np
import pytest

from adjudge.models.base import DEFAULT_COMPARED_MODELS as MODELS
from fitting import aggregate

every_model = pytest.mark.parametrize("model", MODELS)
every_engine = pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])


def honest(votes, model, **options):
    if model == "glad":  # its ridge is long: see docs/models/glad.md
        options["max_iter"] = 500
    return aggregate(votes, model=model, confidence="honest", **options)


@every_engine
@every_model
def test_two_judges_who_always_disagree(model, engine):
    votes = [
        (f"t{t}", w, label) for t in range(20) for w, label in (("a", "yes" if t % 2 else "no"), ("b", "no" if t % 2 else "yes"))
    ]
    found = honest(votes, model, engine=engine)
    assert np.allclose(found.labels["confidence"].to_numpy(), 0.5, atol=1e-9)
    assert found.ties == 20
    assert found.labels["tie"].all()
    assert found.expected_errors == pytest.approx(10)


@every_model
@pytest.mark.parametrize("k", [3, 5])
def test_answers_that_all_differ_say_nothing(model, k):
    """Every worker gives another label on each task: each is as likely as the others."""
    votes = [(f"t{t}", f"w{w}", f"l{(t + w) % k}") for t in range(4 * k) for w in range(k)]
    found = honest(votes, model)
    assert np.allclose(found.probabilities.drop("task").to_numpy(), 1 / k, atol=1e-9)
    assert found.ties == 4 * k


@every_model
def test_ten_who_agree_throughout(model):
    votes = [(f"t{t}", f"w{w}", f"l{t % 2}") for t in range(40) for w in range(10)]
    found = honest(votes, model)
    assert dict(found.labels.select("task", "label").iter_rows()) == {task: label for task, _, label in votes}
    assert found.labels["confidence"].to_numpy() == pytest.approx(np.full(40, 0.99), abs=0.005)
    assert found.ties == 0


@every_model
@pytest.mark.parametrize(("k", "sure"), [(3, 0.59), (2, 0.73)])
def test_one_vote_per_task(model, k, sure):
    """Nobody can say how often such a vote is right: it is believed more than chance, and little more."""
    votes = [(f"t{t}", f"w{t % 5}", f"l{t % k}") for t in range(100)]
    found = honest(votes, model)
    assert dict(found.labels.select("task", "label").iter_rows()) == {task: label for task, _, label in votes}
    assert found.labels["confidence"].mean() == pytest.approx(sure, abs=0.01)
    assert found.ties == 0
