"""Where models differ from majority vote, and who voted for what there."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.compare.judging import find_overruled

# t1: two weak workers against one good one; t2: all agree; t3: the good one alone against two.
VOTES = [
    ("t1", "ann", "x"),
    ("t1", "bob", "x"),
    ("t1", "eve", "y"),
    ("t2", "ann", "y"),
    ("t2", "eve", "y"),
    ("t3", "ann", "x"),
    ("t3", "bob", "x"),
    ("t3", "eve", "y"),
]


@pytest.fixture
def votes():
    return adj.read(VOTES)


def labels(**by_model):
    return {name: np.array(codes, np.int32) for name, codes in by_model.items()}


def test_evidence_for_both_sides(votes):
    chosen = labels(mv=[0, 1, 0], ds=[1, 1, 0], fds=[1, 1, 1])
    found = find_overruled(votes, chosen, np.array([0.6, 0.5, 0.9]))  # of ann, bob, eve
    assert found.tasks == 2
    frame = found.frame(votes, chosen["mv"], np.array([0.9, 0.8, 0.7]), np.array([1, -1, 2]))
    assert frame.rows(named=True) == [
        {
            "task": "t1",
            "votes": 3,
            "majority": "x",
            "majority_votes": 2,
            "majority_accuracy": pytest.approx(0.55),
            "label": "y",
            "label_votes": 1,
            "label_accuracy": pytest.approx(0.9),
            "models": "ds, fds",
            "confidence": 0.9,
            "known": "y",
        },
        {
            "task": "t3",
            "votes": 3,
            "majority": "x",
            "majority_votes": 2,
            "majority_accuracy": pytest.approx(0.55),
            "label": "y",
            "label_votes": 1,
            "label_accuracy": pytest.approx(0.9),
            "models": "fds",
            "confidence": 0.7,
            "known": None,  # a true label that nobody gave
        },
    ]


def test_several_labels_of_one_task_and_one_that_nobody_gave():
    votes = adj.read([("t", "a", "x"), ("t", "b", "y"), ("s", "a", "z")])
    chosen = labels(mv=[0, 2], ds=[1, 2], glad=[2, 2])
    frame = find_overruled(votes, chosen, np.array([0.5, 0.7])).frame(votes, chosen["mv"], np.ones(2), np.full(2, -1))
    assert frame.select("label", "label_votes", "label_accuracy", "models").rows() == [
        ("y", 1, pytest.approx(0.7), "ds"),
        ("z", 0, None, "glad"),
    ]


def test_no_disagreement_is_an_empty_frame_with_all_columns(votes):
    chosen = labels(mv=[0, 1, 0], ds=[0, 1, 0])
    found = find_overruled(votes, chosen, np.ones(3))
    assert (len(found), found.tasks) == (0, 0)
    frame = found.frame(votes, chosen["mv"], np.ones(3), np.full(3, -1))
    assert frame.columns[0] == "task"
    assert frame.columns[-1] == "known"
    assert frame.schema["known"] == pl.String


def test_of_a_whole_comparison():
    crowd = adj.simulate(tasks=200, workers=8, seed=3)
    found = adj.compare(crowd.votes)
    frame = found.disagreements
    assert found.disputed == frame["task"].n_unique()
    seen = found.labels.filter(pl.any_horizontal(pl.exclude("task") != pl.col("mv")))
    assert set(frame["task"]) == set(seen["task"])
    for row in frame.iter_rows(named=True):
        said = found.labels.filter(task=row["task"]).row(0, named=True)
        assert row["majority"] == said["mv"]
        assert row["models"].split(", ") == [name for name in found.models["model"] if said[name] == row["label"]]
    counted = crowd.votes.group_by("task", "label").len()
    both = frame.join(counted, on=["task", "label"], how="left")
    assert both["label_votes"].to_list() == both["len"].fill_null(0).to_list()
