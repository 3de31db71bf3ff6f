from functools import partial

import pandas as pd
import polars as pl
import pytest

import adjudge as adj

LABELS = {"a": "x", "b": "y", "c": "x", "d": "y"}
TRUTH = {"d": "y", "b": "x", "a": "x", "e": "x"}


def test_figures_by_hand():
    e = adj.evaluate(LABELS, TRUTH)
    assert (e.tasks, e.correct, e.without_truth, e.without_label) == (3, 2, 1, 1)
    assert e.accuracy == pytest.approx(2 / 3)
    assert e.per_label.to_dicts() == [
        {"label": "x", "precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2},
        {"label": "y", "precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1},
    ]
    assert e.confusion.rows() == [("x", 1, 1), ("y", 0, 1)]
    assert e.macro_f1 == pytest.approx(2 / 3)
    assert repr(e) == "Evaluation(accuracy 0.6667 on 3 tasks)"


def test_tasks_meet_by_id_whatever_their_order_type_and_source(tmp_path):
    labels = pl.DataFrame({"task": [1, 2, 10], "label": [0, 1, 1]})
    (tmp_path / "truth.csv").write_text("question,gold\n10,1\n2,0\n1,0\n")
    assert adj.evaluate(labels, tmp_path / "truth.csv").accuracy == pytest.approx(2 / 3)
    e = adj.evaluate(labels.to_pandas(), {"task": ["10", "1"], "truth": ["1", "1"]})
    assert e.accuracy == 0.5
    assert isinstance(e.per_label, pd.DataFrame)
    assert e.label_names == ("0", "1")


def test_nothing_in_common():
    with pytest.raises(adj.InputError, match="none of the 1 tasks of the truth has labels: the truth has tasks like 'b'"):
        adj.evaluate({"a": 1}, {"b": 1})
    e = adj.evaluate({"a": 1}, {})
    assert e.tasks == 0
    assert e.summary()["accuracy"] is None


def test_labels_without_value_are_left_out_and_double_ones_refused():
    assert adj.evaluate(pl.DataFrame({"task": ["a", "b"], "label": ["x", None]}), {"a": "x", "b": "x"}).without_label == 1
    with pytest.raises(adj.InputError, match="the truth gives task 'a' more than one label"):
        adj.evaluate({"a": 1}, [("a", 1), ("a", 2)])


def test_a_label_named_true():
    assert adj.evaluate({"a": True}, {"a": True}).confusion.columns == ["true", "label true"]


def test_a_stream_is_evaluated_as_its_labels_are():
    crowd = adj.simulate(tasks=60, workers=6, seed=1)
    online = adj.Online(labels=["l0", "l1", "l2"])
    online.learn_many(crowd.votes)
    found = adj.evaluate(online, crowd.truth)
    assert found.summary() == adj.evaluate(online.labels(), crowd.truth).summary()
    assert found.calibration.tasks == 60


def test_a_table_of_gold_without_answers_is_warned_about(tmp_path):
    votes = [(task, worker, "yes" if (task + len(worker)) % 2 else "no") for task in range(9) for worker in ("a", "bb", "c")]
    path = tmp_path / "gold.csv"
    path.write_text("task,label\n3,\n")
    for study in (adj.aggregate, adj.rates, partial(adj.compare, models=["mv"], refits=0)):
        with pytest.warns(adj.SuspiciousVotes, match="the gold has no task with a label: nothing is learned from it"):
            study(votes, gold=path)
        with pytest.raises(adj.InputError, match="no task with a label"):
            study(votes, gold=path, strict=True)
    assert adj.aggregate(votes, gold={}).labels["label"].to_list() == adj.aggregate(votes).labels["label"].to_list()
