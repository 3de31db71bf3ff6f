"""`auto` fits grades as such where workers who differ give neighbouring grades, and nothing else."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.models.grade_test import are_grades, may_be_grades


def juries(seed, items=400, judges=8, bias=0.5, noise=0.55, answered=0.8):
    """Votes of judges with a bias each on grades 1 to 5, and the truth."""
    rng = np.random.default_rng(seed)
    quality, shift = rng.normal(0, 1.1, items), rng.normal(0, bias, judges)
    truth = {f"i{n}": int(np.clip(np.round(3 + q), 1, 5)) for n, q in enumerate(quality)}
    rows = [
        (f"i{n}", f"j{judge}", int(np.clip(np.round(3 + quality[n] + shift[judge] + rng.normal(0, noise)), 1, 5)))
        for n in range(items)
        for judge in range(judges)
        if rng.random() < answered
    ]
    return pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row"), truth


def test_grades_are_fitted_as_grades(tmp_path):
    right = dict.fromkeys(("auto", "mv", "ds", "fds", "ordinal"), 0.0)
    for seed in range(5):
        votes, truth = juries(seed)
        results = {model: adj.aggregate(votes, model=model) for model in right}
        found = results["auto"]
        assert (found.model, found.facts["chose"], found.scoring) == ("auto", "ordinal", "ordinal")
        assert found.labels["label"].equals(results["ordinal"].labels["label"])
        right = {model: right[model] + adj.evaluate(result, truth).accuracy / 5 for model, result in results.items()}
    assert right["auto"] > max(right.values()) - 0.01
    assert right["auto"] > right["mv"] + 0.03
    found.save(tmp_path / "model.adjudge")
    known = adj.load(tmp_path / "model.adjudge").predict(votes)
    assert (known.labels["label"] == found.labels["label"]).mean() > 0.98
    assert "mean" in known.labels.columns


def test_every_engine_chooses_alike():
    votes, _ = juries(9, items=120)
    expected = adj.aggregate(votes, engine="reference").labels.select("task", "label").sort("task")
    for engine in ("cpu", "disk"):
        found = adj.aggregate(votes, engine=engine)
        assert found.facts["chose"] == "ordinal"
        assert found.labels.select("task", "label").sort("task").equals(expected)


def test_words_in_a_declared_order_are_grades():
    votes, _ = juries(3)
    words = ["awful", "bad", "fair", "good", "great"]
    named = votes.with_columns(pl.col("label").replace_strict(dict(enumerate(words, 1)), return_dtype=pl.String))
    assert adj.aggregate(named, labels=words).facts["chose"] == "ordinal"
    assert adj.aggregate(named).facts["chose"] == "careful"
    wrong = [words[n] for n in (2, 0, 4, 1, 3)]
    assert adj.aggregate(named, labels=wrong).facts["chose"] == "careful"


@pytest.mark.parametrize("labels", [3, 4, 5, 8])
def test_names_that_are_numbers_are_not_grades(labels):
    for seed, skill in ((1, 0.4), (2, 0.6), (3, 0.8)):
        crowd = adj.simulate(tasks=200, workers=15, labels=labels, skill=skill, seed=seed).votes
        numbered = crowd.with_columns(pl.col("label").str.slice(1).cast(pl.Int64))
        assert adj.aggregate(numbered).facts["chose"] != "ordinal"


def test_which_labels_may_be_grades():
    assert may_be_grades(Vocabulary.of(["0.5", "1.0", "1.5"]))
    assert not may_be_grades(Vocabulary.of([0, 1]))
    assert not may_be_grades(Vocabulary.of([-2, 0, 1, 2]))
    assert not may_be_grades(Vocabulary.of(list(range(21))))
    never = np.zeros((4, 4))
    never[:3, :3] = 1.0
    assert not are_grades(Vocabulary.of([1, 2, 3, 4]), never)
