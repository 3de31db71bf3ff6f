"""What advice says is what was measured, and no more."""

import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.compare import judging
from adjudge.evaluation.compare.judging import ModelFigures, choose, compare_pairs
from adjudge.evaluation.intervals import Estimate


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=400, workers=20, labels=2, votes_per_task=5, skill_spread=0.25, seed=11)


def test_without_truth_nobody_is_called_most_accurate(crowd):
    found = adj.compare(crowd.votes)
    text = " ".join(found.advice)
    assert found.best == "auto"
    assert found.advice[0].startswith("Take auto (")
    assert found.facts["why"] in found.advice[0]
    assert "Nothing that votes alone tell says which model is most accurate" in found.advice[0]
    assert f"{found.disputed} of 400 tasks" in text
    stable = found.models.filter(model="auto").row(0, named=True)
    assert f"auto keeps {stable['stable_workers']:.1%} of its labels" in text
    assert f"worth {found.facts['effective_votes']:.1f} independent ones" in text


def test_the_evidence_of_overruling_is_that_of_the_frame(crowd):
    found = adj.compare(crowd.votes)
    own = found.disagreements.filter(pl.col("models").str.contains("auto"))
    sentence = next(one for one in found.advice if one.startswith("auto overrules"))
    assert f"on {len(own)} tasks" in sentence
    assert f"{own['label_votes'].mean():.1f} votes" in sentence
    assert f"at {own['label_accuracy'].mean():.0%} against" in sentence
    assert f"workers at {own['majority_accuracy'].mean():.0%}." in sentence


def test_where_all_agree_the_choice_does_not_matter():
    found = adj.compare([(t, w, "ab"[t % 2]) for t in range(30) for w in range(3)])
    assert "Every model gives the labels of majority vote (30 tasks): the choice does not matter here." in found.advice
    assert len(found.disagreements) == 0
    assert "drawn at random" not in " ".join(found.advice), "there is nothing to find"


def test_models_that_hardly_differ_cannot_be_far_better():
    crowd = adj.simulate(tasks=300, workers=10, votes_per_task=5, skill=0.85, skill_spread=0.05, seed=2)
    found = adj.compare(crowd.votes)
    most = found.differences.filter((pl.col("model_a") == "auto") | (pl.col("model_b") == "auto"))["differing"].max()
    assert 0 < most <= 6
    assert f"No model differs from auto on more than {most / 300:.1%} of the tasks, so none can be far better." in found.advice


def test_with_truth_the_first_sentence_has_the_figures(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth)
    own = found.models.filter(model=found.best).row(0, named=True)
    assert found.advice[0].startswith(
        f"Take {found.best}: it is right on {own['accuracy']:.1%} of the 400 tasks with truth "
        f"({own['accuracy_low']:.1%} to {own['accuracy_high']:.1%})"
    )
    majority = found.models.filter(model="mv")["accuracy"].item()
    assert f"Majority vote is right on {majority:.1%}" in found.advice[1]
    apart = found.differences.filter(model_a=found.best, model_b="mv").row(0, named=True)
    assert f"{apart['difference'] * 100:.1f} points" in found.advice[1]
    chance = "p < 0.001" if apart["p_value"] < 0.001 else f"p = {apart['p_value']:.3f}"
    assert found.advice[1].endswith(f"less, {chance} (one planned comparison, not corrected).")
    below = found.models.filter(pl.col("below_highest"))["model"].to_list()
    assert ("Significantly below" in found.advice[2]) == bool(below)
    assert all(name in found.advice[2] for name in below)


def test_significantly_below_is_that_of_the_differences(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth)
    top = found.models["model"][0]
    wins = found.differences.filter(pl.col("significant") & (pl.col("model_a") == top))["model_b"].to_list()
    assert found.models.filter(pl.col("below_highest"))["model"].to_list() == wins


def test_few_workers_and_tasks_are_called_by_their_number():
    few = adj.compare([("t", w, "xy"[w % 2]) for w in range(3)])
    assert any(one.startswith("Without one of the workers auto keeps ") for one in few.advice)
    assert not any("nan" in one or "Without a fifth" in one for one in few.advice)
    assert "(1 task)" in few.advice[2]
    assert "of the 1 task with truth" in adj.compare([("t", "a", "x"), ("t", "b", "x")], truth={"t": "x"}).advice[0]


def first_sentence(tasks, **right):
    """Why a model is advised that is right on the first so many tasks."""
    where = {name: np.arange(tasks) < number for name, number in sorted(right.items(), key=lambda one: -one[1])}
    found = {name: ModelFigures(tasks, n, Estimate(n / tasks, 0.0, 1.0), *[np.nan] * 4) for name, n in right.items()}
    return judging._why(choose(where), found, compare_pairs(where, 500, 0.95, 0), "these tasks")


def test_a_lead_is_called_what_it_is():
    assert "may be chance" not in first_sentence(1000, auto=700, ds=750)
    assert "5.0 points" in first_sentence(1000, auto=700, ds=750)
    assert "more than auto, though that may be chance (p = 0.062)" in first_sentence(1000, auto=700, ds=704)
    assert "ds is right on 5.0 points" in first_sentence(20, auto=15, ds=16)
    assert "too little on so few tasks to prefer it" in first_sentence(20, auto=15, ds=16)
    assert first_sentence(20, auto=15, ds=15).endswith("and no other model on more")


def test_what_gold_says_is_attributed_to_hidden_gold(crowd):
    found = adj.compare(crowd.votes, gold=crowd.truth.head(50), folds=7, models=["auto"])
    assert any("without the gold of its own part, one of 7" in one for one in found.advice)


def test_few_gold_tasks_leave_the_cautious_model(crowd):
    for seed in range(5):
        gold = crowd.truth.sample(10, seed=seed)
        assert adj.compare(crowd.votes, gold=gold, seed=seed, models=["auto", "ds", "fds", "iwmv"]).best == "auto"


def test_text_and_summary(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth, models=["auto", "ds"])
    assert repr(found) == f"Comparison(advises {found.best}, 3 models, judged by the truth of 400 tasks)"
    text = str(found)
    assert text.startswith("\n".join(found.advice))
    assert "95% interval" in text
    assert max(len(line) for line in text.split("\n\n")[1].splitlines()) < 100
    document = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert document["best"] == found.best
    assert [row["model"] for row in document["models"]] == found.models["model"].to_list()
    assert len(document["differences"]) == 3
    alone = adj.compare(crowd.votes, models=["auto"], refits=0)
    assert repr(alone) == "Comparison(advises auto, 2 models, without truth)"
    assert "accuracy" not in str(alone).split("\n\n")[1]
    json.dumps(alone.summary(), allow_nan=False)
