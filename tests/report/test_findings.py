"""What a report says is true: of labels that were given, of the least certain task, of intervals and of tiny sets of votes."""

import re

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.report.findings import MAX_UNCERTAIN, Findings, wilson_95
from adjudge.report.page import page
from adjudge.report.sections import against_truth, doubts
from adjudge.report.views.labels import headline
from adjudge.report.views.votes import agreement

CROWD = adj.simulate(tasks=60, workers=6, labels=3, skill=0.55, seed=3)
NOTHING = pl.DataFrame(schema=dict.fromkeys(("task", "worker", "label"), pl.String))


def test_labels_that_were_given_do_not_count_as_right():
    gold = CROWD.truth.head(40)
    found = Findings(adj.aggregate(CROWD.votes, gold=gold), CROWD.truth)
    rest = CROWD.truth.tail(20)
    assert found.evaluation.tasks == 20
    assert found.evaluation.accuracy == adj.evaluate(found.result, rest).accuracy < 1
    by_model = dict(found.scores.select("model", "accuracy").rows())
    assert by_model["fds"] == adj.evaluate(adj.aggregate(CROWD.votes, model="fds", gold=gold), rest).accuracy
    assert "40 tasks with truth whose label was given as gold are left out." in str(against_truth(found)[0])
    assert len(found.real) == 6  # how often workers are right is known of gold tasks, too
    every = Findings(adj.aggregate(CROWD.votes, gold=CROWD.truth), CROWD.truth)
    assert every.evaluation is None
    assert "none of the tasks whose label was not given" in str(against_truth(every)[0])


def test_sets_that_were_given_do_not_count_as_right():
    votes = [(f"t{t}", f"w{w}", [o for o in "abc" if (t + w * ord(o)) % 3]) for t in range(9) for w in range(3)]
    truth = pl.DataFrame({"task": [f"t{t}" for t in range(9)], "label": [["a", "c"]] * 9})
    result = adj.aggregate(votes, multi=True, gold=truth.head(4))
    assert result.gold_tasks().to_list() == ["t0", "t1", "t2", "t3"]
    text = page(result, truth=truth)
    right = adj.evaluate(result, truth.tail(5)).exact_accuracy
    assert re.search(rf"{right:.0%} of 5 sets with truth are right", text)
    assert "right as a whole" not in page(adj.aggregate(votes, multi=True, gold=truth), truth=truth)


def test_the_task_that_is_called_least_certain_is_and_is_listed():
    crowd = adj.simulate(tasks=300, workers=20, labels=4, skill=0.6, votes_per_task=5, seed=1)
    names = crowd.votes["label"].unique().sort()
    split = pl.DataFrame([("split", f"w{n}", names[n % 4]) for n in range(20)], crowd.votes.schema, orient="row")
    found = Findings(adj.aggregate(pl.concat([crowd.votes, split]), model="mv"))
    assert found.tasks.uncertain[0] == found.result.votes.n_tasks - 1  # many votes, so one more is worth little
    assert len(found.doubtful) == MAX_UNCERTAIN
    assert list(found.doubtful)[-1] == found.tasks.uncertain[0]
    assert "Task ‘split’ is the least certain one" in str(doubts(found))


@pytest.mark.parametrize("tasks", [1, 5, 10, 12, 20, 23])
def test_an_interval_holds_its_share(tasks):
    assert wilson_95(0, tasks)[0] == 0.0
    assert wilson_95(tasks, tasks)[1] == 1.0
    for right in range(tasks + 1):
        low, high = wilson_95(right, tasks)
        assert 0 <= low <= right / tasks <= high <= 1


def test_a_comparison_without_intervals_is_made_up_for():
    result, models = adj.aggregate(CROWD.votes), ["mv", "ds"]
    for compared in (
        adj.compare(CROWD.votes, models=models, refits=0),
        adj.compare(CROWD.votes, models=models, truth=CROWD.truth, resamples=0),
    ):
        assert set(Findings(result, CROWD.truth, compared).scores["model"]) == {"mv", "fds", "auto"}
    whole = adj.compare(CROWD.votes, models=models, truth=CROWD.truth, resamples=10)
    assert set(Findings(result, CROWD.truth, whole).scores["model"]) == {"mv", "ds"}


def test_few_labels_in_doubt_are_not_called_certain():
    one = headline(adj.aggregate([("t", "ann", "cat"), ("t", "bob", "cat"), ("t", "eve", "dog")], model="mv"))
    assert 0.2 < one.expected_wrong < 0.5
    assert one.sentence == f"There is one label, which is wrong with a probability of {one.wrong_share:.0%}: handle with care."
    sure = headline(adj.aggregate([(t, w, "cat" if t % 2 else "dog") for t in range(6) for w in range(20)]))
    assert sure.expected_wrong < 0.3
    assert sure.sentence == "Hardly any label is expected to be wrong."


def test_options_are_marked_as_chosen_whatever_their_names():
    names = ["x" * 70, "bell\x07", "z"]
    result = adj.aggregate([(t, w, names) for t in range(4) for w in range(3)], multi=True)
    assert page(result).count("<td>chosen</td>") == 4 * 3


def test_nothing_at_all_is_shown_as_nothing():
    assert agreement(adj.aggregate(NOTHING)).kappa.shape == (0, 0)
    empty = adj.aggregate([("t", "ann", [])], multi=True)
    assert "There are no options." in page(empty)
    assert empty.ask_next(3)["expected_gain"].to_list() == [0.0]
    assert np.isfinite(empty.expected_errors)
