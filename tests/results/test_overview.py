"""A result at a glance agrees with its frames, on every engine in this process."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.data.vocabulary import text_of
from adjudge.results import overview
from adjudge.results.overview import label_shares, least_certain, workers_in_brief

CROWD = adj.simulate(tasks=300, workers=12, labels=4, votes_per_task=(1, 6), spammers=0.2, seed=8)


@pytest.fixture(params=["cpu", "disk", "encoded"])
def result(request, tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "OVERVIEW_CHUNK_TASKS", 64)  # several looks at the tasks
    if request.param == "encoded":
        return adj.aggregate(adj.encode(CROWD.votes, tmp_path / "votes"), engine="cpu")
    return adj.aggregate(CROWD.votes, engine=request.param)


def test_shares_are_those_of_votes_and_labels(result):
    shares = label_shares(result)
    given = dict(CROWD.votes["label"].value_counts(normalize=True).iter_rows())
    chosen = dict(result.labels["label"].value_counts(normalize=True).iter_rows())
    assert {share.label: share.of_votes for share in shares} == pytest.approx(given)
    assert {share.label: share.of_labels for share in shares} == pytest.approx(chosen)
    assert [share.of_labels for share in shares] == sorted(chosen.values(), reverse=True)


def test_labels_that_nobody_gave_have_no_share():
    shares = label_shares(adj.aggregate([(1, "a", "x"), (1, "b", "x")], labels=["z", "x"], model="mv"))
    assert [tuple(share) for share in shares] == [("x", 1.0, 1.0), ("z", 0.0, 0.0)]
    assert label_shares(adj.aggregate({"task": [], "worker": [], "label": []}, labels=["z"], model="mv")) == [("z", 0.0, 0.0)]


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_least_certain_tasks_are_those_of_the_frame(result, limit):
    found = least_certain(result, limit)
    frame = result.labels_frame().filter(pl.col("confidence") < 1).sort("confidence", maintain_order=True).head(limit)
    assert [one.confidence for one in found] == frame["confidence"].to_list()
    by_task = {text_of(row[0]): row for row in frame.select("task", "label", "confidence", "votes").iter_rows()}
    if limit == 500:  # all of them, so ties at the end are included
        assert {text_of(one.task): tuple(one) for one in found} == by_task
    else:
        every = {row[0]: row[1:] for row in result.labels_frame().select("task", "label", "confidence", "votes").iter_rows()}
        assert all(every[one.task] == tuple(one)[1:] for one in found)


def test_tasks_that_are_certain_are_not_listed():
    gold = CROWD.truth.head(299)
    assert [one.task for one in least_certain(adj.aggregate(CROWD.votes, gold=gold))] == [CROWD.truth["task"][299]]
    assert least_certain(adj.aggregate(CROWD.votes, gold=CROWD.truth)) == []


def test_of_equal_tasks_the_first_are_listed():
    votes = [(t, w, "x") for t in range(9) for w in "ab"] + [(99, "a", "x"), (99, "b", "y")]
    assert [one.task for one in least_certain(adj.aggregate(votes, model="mv", confidence="posterior", labels=["x", "y"]))] == [
        99
    ]
    honest = least_certain(adj.aggregate(votes, model="mv"), 4)
    assert [one.task for one in honest] == [99, 0, 1, 2]


@pytest.mark.parametrize("per_option", [False, True])
def test_options_have_shares_of_the_sets(per_option):
    rng = np.random.default_rng(3)
    votes = [(t, w, [o for o in "abc" if rng.random() < 0.4]) for t in range(30) for w in range(3)]
    result = adj.aggregate(votes, multi=True, per_option=per_option)
    sets = result.labels["label"]
    for share in label_shares(result):
        assert share.of_votes == pytest.approx(np.mean([share.label in chosen for _, _, chosen in votes]))
        assert share.of_labels == pytest.approx(np.mean([share.label in chosen for chosen in sets]))


def test_workers_are_counted_by_verdict_and_the_gravest_come_first():
    rows = [
        ("a", 50, "informative", "fine"), ("b", 9, "spammer", "guesses"), ("c", 70, "spammer", "more guesses"),
        ("d", 5, "copy", "copies"), ("e", 2, "unclear", "few"), ("f", 3, "unclear", "few"), ("g", 9, None, None),
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["worker", "votes", "verdict", "why"], orient="row")
    brief = workers_in_brief(frame, 2)
    assert brief.workers == 7
    assert brief.verdicts == {"copy": 1, "spammer": 2, "unclear": 2}
    assert [tuple(one) for one in brief.flagged] == [("d", "copy", "copies"), ("c", "spammer", "more guesses")]
    assert workers_in_brief(frame.drop("verdict")) is None
    assert workers_in_brief(frame.filter(pl.col("verdict").is_null())) is None


def test_workers_of_a_result_are_those_of_its_frame():
    frame = adj.aggregate(CROWD.votes).workers_frame()
    brief = workers_in_brief(frame)
    counted = dict(frame["verdict"].value_counts().iter_rows())
    assert brief.verdicts == {verdict: number for verdict, number in counted.items() if verdict != "informative"}
    assert brief.verdicts["spammer"] >= 1
