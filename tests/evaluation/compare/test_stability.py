"""Votes without some workers or tasks are those that reading the others would give; labels that stay are counted."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.compare.fits import leave_out
from adjudge.evaluation.inputs import subset


@pytest.fixture(scope="module")
def crowd():
    return adj.simulate(tasks=80, workers=12, labels=3, votes_per_task=3, seed=2)


@pytest.mark.parametrize("what", ["workers", "tasks"])
def test_votes_left_are_those_of_the_others(crowd, what):
    votes, column = adj.read(crowd.votes), what.removesuffix("s")
    parts = [part for part in leave_out(votes, 5, seed=1) if part.left_out == what]
    gone = []
    for part in parts:
        kept = crowd.votes.filter(pl.col(column).is_in(list(getattr(part.votes, what).ids())))
        again = adj.read(kept, labels=list(votes.labels.ids()))
        same = adj.aggregate(again, "fds").labels.sort("task")
        assert adj.aggregate(part.votes, "fds").labels.sort("task").equals(same)
        assert list(part.votes.tasks.ids()) == [votes.tasks[int(t)] for t in part.tasks]
        gone.append(set(crowd.votes[column]) - set(kept[column]))
    assert set.union(*gone) == set(crowd.votes[column]), "each is left out once"
    assert sum(map(len, gone)) == len(set(crowd.votes[column]))


def test_weights_are_kept():
    votes = adj.read([(1, "a", "x", 0.5), (1, "b", "y", 2.0), (2, "a", "y", 1.0)], weight="w")
    left, tasks = subset(votes, np.array([False, True, True]))
    assert tasks.tolist() == [0, 1]
    assert left.row_weight.tolist() == [1.0, 2.0]


def test_majority_vote_does_not_depend_on_other_tasks(crowd):
    found = adj.compare(crowd.votes, refits=3)
    figures = {row["model"]: row for row in found.models.iter_rows(named=True)}
    assert figures["mv"]["stable_tasks"] == 1.0
    assert 0.5 < figures["mv"]["stable_workers"] < 1.0
    assert all(0.5 < row["stable_tasks"] <= 1.0 for row in figures.values())


def test_by_hand(crowd):
    found = adj.compare(crowd.votes, models=["mv"], refits=2, seed=4)
    whole = dict(adj.aggregate(crowd.votes, "mv", seed=4).labels.select("task", "label").iter_rows())
    shares = []
    for part in leave_out(adj.read(crowd.votes), 2, seed=4):
        if part.left_out == "workers":
            again = adj.aggregate(part.votes, "mv", seed=4).labels
            shares.append(np.mean([whole[task] == label for task, label in again.select("task", "label").iter_rows()]))
    assert found.models["stable_workers"].item() == pytest.approx(np.mean(shares))


def test_single_workers_and_tasks_cannot_be_left_out():
    assert leave_out(adj.read([(1, "a", "x")]), 5, seed=0) == []
    found = adj.compare([(1, "a", "x"), (2, "a", "y")])
    assert found.models["stable_workers"].null_count() == len(found.models)
    assert found.models["stable_tasks"].null_count() == 0


def test_with_truth_nothing_is_refitted_unless_asked_for(crowd):
    assert adj.compare(crowd.votes, truth=crowd.truth, models=["mv"]).models["stable_tasks"].item() is None
    assert adj.compare(crowd.votes, truth=crowd.truth, models=["mv"], refits=1).models["stable_tasks"].item() == 1.0
