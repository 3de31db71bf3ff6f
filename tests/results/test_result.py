import dataclasses

import numpy as np
import polars as pl
import pytest

import adjudge as adj

CROWD = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=4, seed=6)
RESULT = adj.aggregate(CROWD.votes, model="ds", confidence="posterior")


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RESULT.model = "mv"


def test_workers_are_measured_by_their_own_votes():
    labels = dict(RESULT.labels.select("task", "label").iter_rows())
    frame = CROWD.votes.with_columns(
        agrees=pl.Series([labels[t] == c for t, c in CROWD.votes.select("task", "label").iter_rows()])
    )
    expected = frame.group_by("worker").agg(pl.len().alias("votes"), pl.col("agrees").mean()).sort("worker")
    workers = RESULT.workers.sort("worker")
    assert workers["votes"].to_list() == expected["votes"].to_list()
    assert workers["agreement"].to_list() == pytest.approx(expected["agrees"].to_list())
    probability = {row["task"]: row for row in RESULT.probabilities.to_dicts()}
    right = frame.with_columns(p=pl.Series([probability[t][c] for t, c in frame.select("task", "label").iter_rows()]))
    accuracy = right.group_by("worker").agg(pl.col("p").mean()).sort("worker")["p"].to_list()
    assert workers["accuracy"].to_list() == pytest.approx(accuracy)


def test_confusions_come_near_those_the_votes_were_drawn_from():
    crowd = adj.simulate(tasks=3000, workers=10, labels=3, votes_per_task=5, skill=0.8, seed=1)
    result = adj.aggregate(crowd.votes, model="ds")
    for n, worker in enumerate(crowd.worker_names):
        assert np.abs(result.confusion_matrix(worker) - crowd.confusions[n]).max() < 0.1


def test_confusion_rows_sum_to_one_and_unknown_workers_are_named():
    frame = RESULT.confusion("w3")
    assert frame.columns == ["true", "l0", "l1", "l2"]
    assert frame.drop("true").sum_horizontal().to_list() == pytest.approx([1, 1, 1])
    with pytest.raises(adj.InputError, match="worker 'nobody' has no votes here"):
        RESULT.confusion("nobody")


def test_smoothing_fills_the_cells_of_labels_never_given():
    result = adj.aggregate([("t", "w", "x"), ("u", "v", "y")], model=adj.FastDawidSkene(smoothing=1.0))
    assert (result.confusion_matrix("w") > 0).all()
    assert result.confusion_matrix("w").sum(axis=1) == pytest.approx([1, 1])


def test_a_label_may_be_called_task():
    assert adj.aggregate([("t", "w", "task")], model="mv").probabilities.columns == ["task", "label task"]


def test_trace_tells_every_iteration():
    trace = RESULT.trace
    assert trace.columns == [
        "iteration", "phase", "change", "log_likelihood", "classification", "objective", "labels_changed", "seconds",
    ]  # fmt: skip
    assert trace["iteration"].to_list() == list(range(1, RESULT.iterations + 1))
    assert trace["log_likelihood"][-1] == pytest.approx(RESULT.log_likelihood)
    assert adj.aggregate(CROWD.votes, model="mv").trace.is_empty()


SHOWN = [
    ("t1", "ann", "cat"), ("t1", "bob", "skip"), ("t1", "eve", "cat"), ("t2", "ann", "dog"), ("t2", "bob", "cat"),
    ("t2", "eve", "dog"), ("t3", "zed", "skip"), ("t3", "ann", "skip"), ("t3", "ann", "cat"), ("t2", "bob", "skip"),
]  # fmt: skip
RATES = {"ann": 1 / 4, "bob": 2 / 3, "eve": 0.0}


def rates(result):
    frame = pl.DataFrame(result.workers)
    return dict(frame.select(pl.col("worker").cast(pl.String), "abstained").iter_rows())


@pytest.mark.parametrize("engine", ["cpu", "reference", "disk"])
def test_the_rate_of_abstentions_of_every_worker(engine):
    """A worker who only abstains has no votes, and so no line; the total knows."""
    result = adj.aggregate(SHOWN, abstain="skip", engine=engine)
    assert rates(result) == pytest.approx(RATES)
    assert result.votes.abstentions == 4
    with pytest.warns(adj.MissingLabels):
        missing = adj.aggregate([(t, w, None if label == "skip" else label) for t, w, label in SHOWN], engine=engine)
    assert rates(missing) == pytest.approx(RATES)
    assert set(rates(adj.aggregate(CROWD.votes, engine=engine)).values()) == {0.0}


def test_rates_of_abstentions_through_what_changes_votes():
    given = {"abstain": "skip"}
    assert rates(adj.aggregate(SHOWN, duplicates="last", **given)) == pytest.approx(RATES)
    assert rates(adj.aggregate(SHOWN, labels=["cow", "dog", "cat"], **given)) == pytest.approx(RATES)
    left = adj.aggregate(SHOWN, exclude=["ann"], **given)
    assert rates(left) == pytest.approx({w: RATES[w] for w in ("bob", "eve")})
    assert left.votes.abstentions == 3
    grouped = adj.aggregate(SHOWN, groups={"bob": "team", "eve": "team"}, **given)
    assert rates(grouped) == pytest.approx(RATES)
    history = adj.aggregate([("t", "ann", "cow"), ("u", "ann", "cat"), ("v", "ann", "dog")], model="ds")  # over one more label
    assert rates(adj.aggregate(SHOWN, "ds", history=history, **given)) == pytest.approx(RATES)
    assert rates(adj.aggregate(SHOWN, **given).predict(adj.read(SHOWN, **given))) == pytest.approx(RATES)
    numbers = [(t, {"ann": 10, "bob": 9, "eve": 11, "zed": 2}[w], label) for t, w, label in SHOWN]  # sorted otherwise
    assert rates(adj.aggregate(numbers, **given)) == pytest.approx({"10": 1 / 4, "9": 2 / 3, "11": 0.0})


@pytest.mark.parametrize("engine", ["cpu", "disk"])
def test_an_empty_line_of_a_wide_table_is_nobodys_abstention(engine):
    table = pl.DataFrame({"task": ["a", "b", "c"], "j1": ["x", None, "skip"], "-1": ["y", None, "x"]})
    result = adj.aggregate(table, wide=True, abstain="skip", engine=engine)
    assert rates(result) == {"j1": 0.5, "-1": 0.0}
    assert (result.votes.abstentions, result.unvoted) == (2, 1)


def test_votes_are_immutable_and_say_what_they_are():
    with pytest.raises(ValueError, match="read-only"):
        RESULT.votes.row[0] = 1
    assert repr(RESULT.votes) == "Votes(600 votes, 150 tasks, 12 workers, 3 labels, 36 rows)"
    assert repr(RESULT).startswith("Result(ds: 150 tasks, 12 workers, 3 labels from 600 votes, ")
    assert RESULT.votes.row_worker().tolist() == sorted(RESULT.votes.row_worker().tolist())


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_how_often_workers_repeat_their_own_answer(engine):
    votes = [("t1", "ann", "x"), ("t1", "ann", "x"), ("t1", "ann", "y"), ("t2", "ann", "y"), ("t2", "ann", "y"), ("t1", "bob", "x"),
             ("t2", "bob", "y"), ("t3", "bob", "y"), ("t3", "eve", "y"), ("t3", "eve", "x")]  # fmt: skip
    again = adj.aggregate(votes, engine=engine).workers
    assert dict(again.select("worker", "self_consistency").iter_rows()) == {"ann": 0.5, "bob": None, "eve": 0.0}
    assert again.columns.index("self_consistency") == again.columns.index("abstained") + 1
    assert "self_consistency" not in adj.aggregate(votes, engine=engine, duplicates="last").workers.columns
    assert "self_consistency" not in adj.aggregate(CROWD.votes, engine=engine).workers.columns
