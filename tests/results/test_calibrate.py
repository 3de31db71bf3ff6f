"""A temperature is fitted on top of the chosen confidence: the posterior, or the honest one."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.models.temperature import apply_temperature, fit_temperature, log_loss
from fitting import aggregate

CROWD = adj.simulate(tasks=400, workers=20, labels=3, votes_per_task=4, skill=0.45, shared_error=0.2, seed=5)
KNOWN = CROWD.truth.head(120)  # not learned from
CODE = {"l0": 0, "l1": 1, "l2": 2}


def probabilities(result):
    return result.probabilities.drop("task").to_numpy()


@pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])
@pytest.mark.parametrize("model", ["auto", "ds", "iwmv"])
def test_the_temperature_is_that_of_the_confidence_shown(model, engine):
    found = {}
    for confidence in ("posterior", "honest"):
        how = {"model": model, "confidence": confidence, "engine": engine}
        plain, hot = aggregate(CROWD.votes, **how), aggregate(CROWD.votes, calibrate=KNOWN, **how)
        truth = plain.labels.join(KNOWN, on="task", how="left", suffix="_true", maintain_order="left")["label_true"]
        code = np.array([CODE.get(label, -1) for label in truth], np.int32)
        known, expected = code >= 0, probabilities(plain)
        assert known.sum() == 120
        assert hot.temperature == pytest.approx(fit_temperature(expected[known], code[known], expected), rel=1e-9)
        assert hot.temperature != 1.0
        assert np.allclose(probabilities(hot), apply_temperature(expected, hot.temperature), atol=1e-12)
        assert hot.labels.drop("confidence").equals(plain.labels.drop("confidence"))
        assert np.allclose(hot.labels["confidence"].to_numpy(), probabilities(hot).max(axis=1), atol=1e-12)
        assert hot.posterior.equals(plain.posterior)  # the model's own, regardless of the reported one
        assert log_loss(probabilities(hot)[known], code[known]) < log_loss(expected[known], code[known])
        found[confidence] = hot
    assert abs(np.log(found["posterior"].temperature / found["honest"].temperature)) > 0.05


@pytest.mark.parametrize("model", ["auto", "fds"])
def test_gold_is_judged_by_fits_of_the_same_confidence(model):
    """With True each half of the gold is judged by a fit that has seen only the other, with the same confidence."""
    gold = KNOWN.sort("task")
    for confidence in ("posterior", "honest"):
        how = {"model": model, "confidence": confidence}
        hot = aggregate(CROWD.votes, gold=gold, calibrate=True, **how)
        half = gold["task"].rank("ordinal").to_numpy() % 2
        shown, truth = [], []
        for hidden in (0, 1):
            seen, judged = gold.filter(half != hidden), gold.filter(half == hidden)
            lines = aggregate(CROWD.votes, gold=seen, **how).probabilities.join(judged, on="task")
            shown.append(lines.select("l0", "l1", "l2").to_numpy())
            truth += [CODE[label] for label in lines["label"]]
        rest = aggregate(CROWD.votes, gold=gold, **how).probabilities.join(gold, on="task", how="anti").drop("task").to_numpy()
        expected = fit_temperature(np.concatenate(shown), np.array(truth, np.int32), rest)
        assert hot.temperature == pytest.approx(expected, rel=1e-9)
        certain = hot.labels.filter(gold=True)
        assert (certain["confidence"] == 1.0).all()
