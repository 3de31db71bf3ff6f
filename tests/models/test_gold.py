"""Gold: labels of some tasks, fixed in every pass, by every model, in every form a caller may have them."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.models.base import MODELS, make
from fitting import aggregate

CROWD = adj.simulate(tasks=400, workers=20, labels=3, votes_per_task=3, skill=0.6, seed=1)
GOLD, REST = CROWD.truth.head(120), CROWD.truth.tail(280)
ORDER = ["l0", "l1", "l2"]  # of the labels, for models of grades
EACH = [name for name, m in MODELS.items() if m.most_labels is None]  # for these three labels


@pytest.mark.parametrize("model", EACH)
def test_gold_labels_are_kept_and_marked(model):
    result = adj.aggregate(CROWD.votes, model=model, gold=GOLD, labels=ORDER)
    marked = result.labels.filter("gold")
    assert dict(marked.select("task", "label").iter_rows()) == dict(GOLD.iter_rows())
    assert (marked["confidence"] == 1.0).all()
    assert not marked["tie"].any()
    chances = result.probabilities.join(marked, on="task", how="semi").drop("task").to_numpy()
    assert (np.sort(chances, axis=1) == [0.0, 0.0, 1.0]).all()
    assert adj.evaluate(result, CROWD.truth).gold == 120


@pytest.mark.parametrize(
    "model", [m for m in EACH if MODELS[m].learns and not MODELS[m].needs_gold and MODELS[m].scoring != "weight" and m != "glad"]
)
def test_the_other_labels_get_better(model):
    options = {"max_iter": 300} if "max_iter" in MODELS[model].options() else {}
    plain, taught = (
        adj.evaluate(aggregate(CROWD.votes, model, gold=g, labels=ORDER, **options), REST).accuracy for g in (None, GOLD)
    )
    assert taught > plain


@pytest.mark.parametrize("model", EACH)
def test_all_tasks_gold_makes_workers_exact(model):
    """Then nothing is inferred, and the confusions are plain counts against the truth."""
    result = adj.aggregate(CROWD.votes, model=model, gold=CROWD.truth, labels=ORDER)
    both = CROWD.votes.join(CROWD.truth, on="task", suffix="_true")
    for worker in ("w0", "w7"):
        mine = both.filter(pl.col("worker") == worker)
        share = (mine["label"] == mine["label_true"]).mean()
        row = result.workers.filter(pl.col("worker") == worker)
        assert row["accuracy"].item() == pytest.approx(share)
        if MODELS[model].scoring == "confusion" and model not in ("lfc", "ibcc", "ebcc", "mace"):  # which add pseudo-votes
            counted = np.array(
                [
                    [((mine["label"] == g) & (mine["label_true"] == t)).sum() for g in ("l0", "l1", "l2")]
                    for t in ("l0", "l1", "l2")
                ]
            )
            assert result.confusion_matrix(worker) == pytest.approx(counted / counted.sum(axis=1, keepdims=True))


def test_every_form_of_gold_is_the_same(tmp_path):
    GOLD.write_csv(tmp_path / "gold.csv")
    forms = [
        GOLD,
        pd.DataFrame(GOLD.to_dict(as_series=False)),
        GOLD.to_arrow(),
        dict(GOLD.iter_rows()),
        tmp_path / "gold.csv",
        str(tmp_path / "gold.csv"),
        GOLD.rename({"label": "truth"}),
        GOLD.to_dict(as_series=False),
    ]
    expected = adj.aggregate(CROWD.votes, gold=GOLD).labels
    for form in forms:
        assert adj.aggregate(CROWD.votes, gold=form).labels.equals(expected)


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "iwmv", "glad"])
def test_engines_agree(model):
    here, there = (adj.aggregate(CROWD.votes, model=model, gold=GOLD, engine=e) for e in ("cpu", "reference"))
    assert here.labels["label"].equals(there.labels["label"])
    assert np.abs(here.probabilities.drop("task").to_numpy() - there.probabilities.drop("task").to_numpy()).max() < 1e-6
    assert here.log_likelihood == pytest.approx(there.log_likelihood, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "glad"])
@given(seed=st.integers(0, 30), share=st.sampled_from([0.05, 0.5, 1.0]))
def test_the_likelihood_never_falls(model, seed, share):
    crowd = adj.simulate(tasks=40, workers=6, labels=3, votes_per_task=3, seed=seed)
    gold = crowd.truth.head(max(1, int(40 * share)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        trace = adj.aggregate(crowd.votes, model=make(model, {"tol": 1e-9, "max_iter": 15}), gold=gold).fit.trace
    for before, after in zip(trace, trace[1:], strict=False):
        if before.phase == after.phase:
            assert after.objective >= before.objective - 1e-9 * max(1.0, abs(before.objective))


def test_tasks_without_votes_are_ignored_and_counted():
    more = pl.concat([GOLD, pl.DataFrame({"task": ["nobody saw", "nor this"], "label": ["l0", "l1"]})])
    result = adj.aggregate(CROWD.votes, gold=more)
    assert result.gold_without_votes == 2
    assert result.labels.equals(adj.aggregate(CROWD.votes, gold=GOLD).labels)
    assert adj.aggregate(CROWD.votes).gold_without_votes == 0


def test_ids_are_compared_as_text():
    votes = [(1, "a", 0), (1, "b", 1), (2, "a", 1), (2, "b", 1), (3, "b", 0)]
    assert adj.aggregate(votes, gold={"1": "1"}).labels["label"][0] == 1
    assert adj.aggregate(votes, gold={1: 1}).labels["gold"].to_list() == [True, False, False]


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        ({"t1": "purple"}, "'purple', which is not among the labels: l0, l1, l2"),
        ([("t1", "l0"), ("t1", "l1")], "gold gives task 't1' more than one label (l0, l1)"),
        ("nowhere.csv", "nowhere.csv"),
        (pl.DataFrame({"task": ["t1"], "colour": ["l1"]}), "no column looks like the gold label"),
        (pl.DataFrame({"task": ["t1"], "label": ["l1"], "gold": [True]}), "could be any of label, gold; leave the others out"),
        (pl.DataFrame({"name": ["t1"], "label": ["l1"]}), "no column looks like the task; call its column 'task'"),
        (7, "cannot read from 7"),
        (pl.Series(["l0", "l1"]), "no column looks like the gold label"),
    ],
)
def test_bad_gold(gold, words):
    with pytest.raises(adj.InputError) as caught:
        adj.aggregate(
            CROWD.votes, gold=gold if not isinstance(gold, list) else pl.DataFrame(gold, schema=["task", "label"], orient="row")
        )
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_gold_at_all_and_an_empty_set_are_the_same():
    empty = GOLD.clear()
    result = adj.aggregate(CROWD.votes, gold=empty)
    assert result.labels.drop("gold").equals(adj.aggregate(CROWD.votes).labels)


@pytest.mark.parametrize("per_option", [False, True])
def test_gold_sets(per_option):
    votes = [
        ("t1", "ann", "fear|joy"),
        ("t1", "bob", "joy"),
        ("t1", "eve", "joy"),
        ("t2", "ann", "fear"),
        ("t2", "bob", "joy"),
        ("t3", "eve", "joy"),
    ]
    result = adj.aggregate(votes, multi=True, per_option=per_option, gold={"t1": ["fear"], "t2": ["fear", "joy"]})
    assert result.labels.select("task", "label", "gold").rows()[:2] == [("t1", ["fear"], True), ("t2", ["fear", "joy"], True)]
    assert not result.labels["gold"][2]
    with pytest.raises(adj.InputError, match="option 'anger'"):
        adj.aggregate(votes, multi=True, gold={"t1": ["anger"]})


@pytest.mark.parametrize("gold", [{"task": ["fear"]}, {"question": ["task"], "truth": [["fear"]]}])
def test_gold_sets_by_task_and_by_column(gold):
    """A task may be called task; columns may have their usual names."""
    votes = [("task", "ann", ["joy"]), ("t2", "ann", ["fear"])]
    assert adj.aggregate(votes, multi=True, gold=gold).labels.select("label", "gold").row(0) == (["fear"], True)


@pytest.mark.parametrize("model", ["one-coin", "glad"])
def test_a_label_that_only_gold_has_is_a_label_like_others(model):
    """Then errors fall on K - 1 labels, and the likelihood of the gold task is finite."""
    labels = ["l0", "l1", "l2", "never given"]
    result = adj.aggregate(CROWD.votes, model=model, labels=labels, gold={"t3": "never given"})
    assert result.converged
    assert np.isfinite(result.log_likelihood)
    assert result.labels.filter(task="t3")["label"].item() == "never given"


def test_one_coin_errors_fall_on_a_label_that_only_gold_has():
    votes = [("t", "a", "x"), ("t", "b", "y"), ("u", "a", "x")]
    options = {"votes": adj.read(votes, labels=["x", "y", "z"]), "gold": {"t": "z", "u": "y"}}
    wrong = 3 * np.log(0.5)  # three votes, in one of two ways each
    assert adj.OneCoin(class_priors="estimated").fit(**options).log_likelihood == pytest.approx(2 * np.log(0.5) + wrong)
    assert adj.OneCoin().fit(**options).log_likelihood == pytest.approx(2 * np.log(1 / 3) + wrong)
