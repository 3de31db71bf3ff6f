"""Weights of saved, merged and predicting models: those of the method, not IWMV's."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import adjudge as adj
from adjudge.models.base import MODELS

CROWD = adj.simulate(tasks=200, workers=12, labels=3, votes_per_task=4, skill=0.6, adversaries=0.2, seed=5)
FIRST, SECOND = (CROWD.votes.filter(CROWD.votes["task"].str.slice(1).cast(int) % 2 == half) for half in (0, 1))
WEIGHTED = ["iwmv", "wawa", "zbs", "catd", "la"]


def weights(right, total, model):
    """The formula of each method, K being 3."""
    share = right / total
    return {
        "iwmv": 3 * share - 1,
        "wawa": share,
        "zbs": share,
        "catd": chi2.ppf(0.025, total) / np.maximum(total - right, 0.5),
        "la": 3 * (right + 1) / (total + 2) - 1,
    }[model]


@pytest.mark.parametrize("model", WEIGHTED)
def test_a_merge_weighs_by_the_votes_of_both(model, tmp_path):
    parts = [(adj.aggregate(votes, model), votes) for votes in (FIRST, SECOND)]
    merged = adj.merge(*(result for result, _ in parts))
    right, total = np.sum([agreed(*part) for part in parts], axis=0)
    assert merged.learned().skill == pytest.approx(weights(right, total, model), rel=1e-9)
    merged.save(tmp_path / "m")
    assert adj.load(tmp_path / "m").predict(FIRST).labels.equals(merged.predict(FIRST).labels)
    accuracy = adj.evaluate(merged.predict(CROWD.votes), CROWD.truth).accuracy
    assert accuracy > adj.evaluate(adj.aggregate(CROWD.votes, "mv"), CROWD.truth).accuracy


@pytest.mark.parametrize("model", ["kos", "mmsr", "mace", "ebcc"])
def test_a_model_whose_parameters_do_not_follow_from_counts_is_not_merged(model):
    crowd = adj.simulate(tasks=60, workers=8, labels=2, votes_per_task=4, seed=1)
    parts = [adj.aggregate(half, model) for half in (crowd.votes[:120], crowd.votes[120:])]
    with pytest.raises(adj.InputError, match=f"models of '{model}' know workers .*: fit all votes"):
        adj.merge(*parts)


def agreed(result, votes):
    """Votes of each worker that agree with the labels, and all of them, by worker, [2, workers]."""
    both = votes.join(result.labels.select("task", right="label"), on="task").with_columns(pl.col("label") == pl.col("right"))
    found = both.group_by("worker").agg(right=pl.col("label").sum(), total=pl.len()).sort("worker")
    return found.select("right", "total").to_numpy().T


@pytest.mark.parametrize("model", [*WEIGHTED, "goldmv", "zc"])
@pytest.mark.parametrize("history", [None, SECOND])
def test_predicting_the_same_votes_gives_the_same_labels(model, history):
    known = {} if history is None else {"history": adj.aggregate(history, "fds")}
    gold = CROWD.truth if model == "goldmv" else None
    result = adj.aggregate(FIRST, model, confidence="posterior", gold=gold, **known)
    again = result.predict(FIRST)
    if model == "goldmv":  # a prediction knows the weights, not the gold
        assert set(result.workers["worker"]) == set(again.workers["worker"])
    else:
        assert again.labels.select("task", "label", "tie").equals(result.labels.select("task", "label", "tie"))
        assert again.labels["confidence"].to_list() == pytest.approx(result.labels["confidence"].to_list(), abs=1e-9)
    assert again.unknown_workers == []


def test_workers_of_a_history_alone_have_the_weight_of_their_history():
    """One whom only the history knows votes in a prediction with the weight that these votes give."""
    past = pl.DataFrame({"worker": ["old"] * 2, "true": ["l0"] * 2, "given": ["l0", "l1"], "count": [30.0, 10.0]})
    for model in ("wawa", "zbs", "catd", "la", "goldmv"):
        gold = CROWD.truth.head(40) if MODELS[model].needs_gold else None
        learned = adj.aggregate(FIRST, model, history=past, gold=gold).learned()
        at = int(learned.knowledge.workers.codes(["old"])[0])
        formula = "wawa" if model == "goldmv" else model
        assert learned.skill[at] == pytest.approx(weights(np.array([30.0]), np.array([40.0]), formula)[0])


def test_merged_zencrowd_keeps_equal_priors():
    merged = adj.merge(*(adj.aggregate(votes, "zc") for votes in (FIRST, SECOND)))
    assert merged.learned().priors == pytest.approx([1 / 3] * 3)


def test_what_cannot_be_merged():
    wawa, iwmv = (adj.aggregate(FIRST, model) for model in ("wawa", "iwmv"))
    with pytest.raises(adj.InputError, match="a model of 'wawa' and one of 'iwmv' cannot be merged: use two of the same model"):
        adj.merge(wawa, iwmv)
    gold = adj.aggregate(FIRST, "goldmv", gold=CROWD.truth.head(40))
    with pytest.raises(adj.InputError, match="'goldmv' do not keep their votes on gold apart"):
        adj.merge(gold, gold)


@pytest.mark.parametrize("model", ["wawa", "zbs", "catd", "la", "zc", "goldmv"])
def test_reports_and_explanations(model, tmp_path):
    result = adj.aggregate(FIRST, model, gold=CROWD.truth.head(40))
    why = result.explain(FIRST["task"][300])
    assert len(why.evidence) == 4
    column = "skill" if model == "zc" else "weight"
    assert result.workers[column].is_finite().all()
    result.report(tmp_path / "report.html")
    assert MODELS[model].title in (tmp_path / "report.html").read_text() or model in (tmp_path / "report.html").read_text()
