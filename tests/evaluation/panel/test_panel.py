"""How many judges are enough, what each adds, and which to take: on judges whose worth is known."""

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation.intervals import Estimate
from adjudge.evaluation.panel import panel as call
from adjudge.evaluation.panel import study as sentences


def words(study):
    return dict(study.judges_frame().select("worker", "word").iter_rows())


@pytest.mark.parametrize("which", ["study", "blind"])
def test_an_expert_adds_and_a_copy_or_a_guess_adds_nothing(which, request):
    found = words(request.getfixturevalue(which))
    assert found["expert"] == "adds"
    assert found["guess"] == found["copy"] == found["o0"] == "adds nothing"
    assert sum(found[f"o{n}"] == "adds" for n in range(1, 6)) >= (4 if which == "study" else 1)
    assert "adds nothing" not in [found[f"o{n}"] for n in range(1, 6)]


def test_a_copy_is_measured_with_its_original(study):
    rows = {row["worker"]: row for row in study.judges_frame().to_dicts()}
    assert (rows["copy"]["beside"], rows["o0"]["beside"]) == ("o0", "copy")
    assert rows["copy"]["why"] == "gives the answers of o0 on 100% of 300 tasks: keep one of them"
    assert rows["copy"]["effective_votes"] < 0 < rows["expert"]["effective_votes"]
    assert rows["expert"]["adds_low"] > rows["o1"]["adds"], "the expert adds most"
    assert study.judges_frame()["worker"][0] == "expert"


def test_a_copy_of_an_expert_repeats(judges):
    votes, truth = judges
    again = votes.filter(pl.col("worker") == "expert").with_columns(worker=pl.lit("twin"))
    found = adj.panel(pl.concat([votes, again]), truth=truth, subsets=3, sizes=[1])
    assert words(found)["expert"] == words(found)["twin"] == "repeats"
    assert "repeat another" in str(found)


def test_the_curve_is_that_of_its_panels(judges):
    votes, truth = judges
    found = adj.panel(votes, truth=truth, model="mv", sizes=[1, 8], subsets=20)
    points = {point.size: point for point in found.points}
    alone = [
        adj.evaluate(adj.aggregate(votes.filter(pl.col("worker") == w), "mv"), truth).accuracy for w in votes["worker"].unique()
    ]
    assert points[1].panels == len(alone) == 9, "every panel there is"
    assert points[1].accuracy == pytest.approx(np.mean(alone))
    assert points[9].accuracy == adj.evaluate(adj.aggregate(votes, "mv"), truth).accuracy
    assert points[1].shortfall == pytest.approx(points[9].accuracy - points[1].accuracy)
    assert points[9].shortfall == 0
    assert points[9].agreement == 1 > points[8].agreement > points[1].agreement
    for point in found.points:
        assert point.low <= point.accuracy <= point.high
        assert point.shortfall.low <= point.shortfall <= point.shortfall.high


def test_effective_votes_are_those_of_agreement(judges):
    votes, truth = judges
    for known in (truth, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", adj.CopiedVotes)
            wanted = adj.agreement(votes, truth=known, resamples=0)
        found = adj.panel(votes, truth=known, sizes=[1], subsets=1)
        assert found.effective_votes == pytest.approx(float(wanted.effective_votes))
        assert found.ceiling == pytest.approx(1 / float(wanted.error_correlation))
        assert found.points[0].effective_votes == 1


def test_lost_without_is_the_fit_without_the_judge(judges, study):
    votes, truth = judges
    whole = adj.evaluate(adj.aggregate(votes), truth).accuracy
    rows = {row["worker"]: row for row in study.judges_frame().to_dicts()}
    for worker in ("expert", "guess"):
        without = adj.evaluate(adj.aggregate(votes, exclude=[worker]), truth).accuracy
        assert rows[worker]["lost_without"] == pytest.approx(whole - without, abs=1e-9)
        assert rows[worker]["lost_without_low"] < rows[worker]["lost_without"] < rows[worker]["lost_without_high"]


def test_enough_is_the_first_size_from_which_on_nothing_is_lost(study):
    short = {point.size: point.shortfall for point in study.points}
    assert all(lost <= study.within for size, lost in short.items() if size >= study.enough)
    smaller = [size for size in short if size < study.enough]
    assert short[max(smaller)] > study.within
    loose = replace(study, within=0.2)
    assert loose.enough < study.enough
    assert str(loose).startswith(f"{loose.enough} judges are enough: random panels of {loose.enough} are right on ")
    assert str(replace(study, within=0.0)).startswith("Taken at random, all 9 judges are needed: together they are right on ")


def test_without_truth_it_is_called_an_estimate(judges, blind, study):
    assert (blind.measured_by, study.measured_by) == ("all votes", "truth")
    assert "Accuracy is an estimate" in str(blind)
    assert "estimate" not in str(study)
    whole = blind.points[-1]
    fitted = adj.aggregate(judges[0])
    assert whole.accuracy == pytest.approx(1 - fitted.expected_errors / 300), "as confident as the labels are"


def test_chosen_panels_begin_with_the_expert_and_know_their_cost(study):
    frame = study.panels_frame()
    first = frame.filter(pl.col("size") == 1)
    assert ["expert"] in first["workers"].to_list()
    assert dict(zip(first["workers"].list.first(), first["cost"], strict=True))["expert"] == 9
    for row in frame.iter_rows(named=True):
        assert len(set(row["workers"])) == row["size"]
        assert row["cost"] == pytest.approx(sum(9 if w == "expert" else 1 for w in row["workers"]))
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert not {"copy", "o0"} <= set(row["workers"][:4]), "a copy is not among the first"


def test_best_keeps_to_the_budget(study):
    cheap, rich = study.best(budget=5), study.best()
    assert cheap.cost <= 5 < rich.cost
    assert "expert" in rich.workers
    assert "expert" not in cheap.workers
    affordable = [one.accuracy for one in study.chosen if one.cost <= 5]
    assert cheap.accuracy >= max(affordable) - study.within - 1e-9
    with pytest.raises(adj.InputError, match="the cheapest panel costs 1"):
        study.best(budget=0.5)


def test_a_crowd_is_looked_at_by_votes_per_task():
    crowd = adj.simulate(tasks=300, workers=40, votes_per_task=(3, 6), spammers=0.1, power=0.8, seed=5)
    found = adj.panel(crowd.votes, truth=crowd.truth, cost=0.5, budget=1.6, subsets=4)
    assert found.by == "votes"
    assert [point.size for point in found.points] == [1, 2, 3, 4, 5, 6]
    assert found.points[0].votes_per_task == 1
    assert found.points[0].cost == 0.5
    assert found.points[0].accuracy < found.points[-1].accuracy
    assert found.panels_frame().is_empty()
    assert found.best().size <= 3
    assert found.best().workers == ()
    spam = set(crowd.workers.filter(pl.col("kind") == "spammer")["worker"])
    said = found.judges_frame().filter(pl.col("adds").is_not_null())
    assert set(said.filter(pl.col("word") == "adds")["worker"]).isdisjoint(spam)
    assert set(said.filter(pl.col("adds") < 0)["worker"]) & spam
    assert len(found.judges_frame()) == 40
    few = found.judges_frame().filter(pl.col("word") == "too few votes")
    assert (few["votes"] < 20).all()
    assert few["adds"].is_null().all()
    assert "votes are needed" in str(found) or "votes per task are enough" in str(found)


def test_judges_and_votes_can_be_asked_for():
    votes = adj.simulate(tasks=50, workers=6, votes_per_task=6, seed=1).votes
    assert adj.panel(votes, sizes=[1], subsets=2).by == "judges"
    assert adj.panel(votes, by="votes", sizes=[1], subsets=2).by == "votes"
    sparse = adj.simulate(tasks=50, workers=20, votes_per_task=3, seed=1).votes
    assert adj.panel(sparse, sizes=[1], subsets=2).by == "votes"
    assert adj.panel(sparse, by="judges", sizes=[1], subsets=2).by == "judges"


def test_of_many_votes_some_tasks_are_looked_at(monkeypatch):
    monkeypatch.setattr(call, "MAX_STUDY_VOTES", 500)
    crowd = adj.simulate(tasks=400, workers=8, votes_per_task=8, seed=1)
    known = crowd.truth.head(30)
    found = adj.panel(crowd.votes, truth=known, sizes=[1], subsets=2)
    assert found.sampled_from == 400
    assert found.votes <= 500
    assert found.tasks == found.votes // 8
    assert found.judged_tasks == 30, "tasks with truth come first"
    assert f"votes of {found.tasks} of 400 tasks" in str(found)


def test_the_same_seed_gives_the_same_study(judges):
    votes, truth = judges
    once, again = (adj.panel(votes, truth=truth, sizes=[2, 4], subsets=4, seed=7).to_dict() for _ in range(2))
    other = adj.panel(votes, truth=truth, sizes=[2, 4], subsets=4, seed=8).to_dict()
    assert once == again
    assert once["sizes"] != other["sizes"]


def test_truth_of_some_tasks_counts_alone(judges):
    votes, truth = judges
    some = truth.sample(80, seed=1)
    found = adj.panel(votes, truth=some, model="mv", sizes=[1], subsets=2)
    assert found.judged_tasks == 80
    assert found.points[-1].accuracy == adj.evaluate(adj.aggregate(votes, "mv"), some).accuracy


def test_a_task_without_label_is_wrong():
    votes = [("a", "x", "1"), ("b", "x", "1"), ("c", "x", "1"), ("a", "y", "1"), ("b", "y", "1")]
    found = adj.panel(votes, truth={"a": "1", "b": "1", "c": "1"}, by="judges", model="mv", sizes=[1], subsets=9)
    assert found.points[0].accuracy == pytest.approx((1 + 2 / 3) / 2)


def test_frames_come_in_the_kind_of_the_votes(judges):
    found = adj.panel(judges[0].to_pandas(), sizes=[1], subsets=1, model="mv")
    assert {type(frame).__module__.split(".")[0] for frame in (found.sizes, found.judges, found.panels)} == {"pandas"}


def test_everything_goes_into_json(study, blind):
    document = json.loads(json.dumps(study.to_dict()))
    assert document["enough"] == study.enough
    assert document["best"]["cost"] == study.best().cost
    assert document["words"]["adds nothing"] == 3
    assert len(document["judges"]) == 9
    assert json.loads(json.dumps(blind.to_dict()))["sizes"][0]["cost"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subsets": 0}, "subsets is 0: give a whole number of at least 1"),
        ({"within": 2}, "within is 2: give a number of at least 0 and at most 0.5"),
        ({"by": "judge"}, "unknown by 'judge': did you mean 'judges'"),
        ({"sizes": [0]}, "sizes is 0: give a whole number of at least 1 and at most 6"),
        ({"sizes": [7]}, "sizes is 7"),
        ({"budget": 1}, "no cost is known: say what a vote costs"),
        ({"budget": 0, "cost": 1}, "budget is 0: give the money for one task"),
        ({"cost": -1}, "cost is -1: give a number of at least 0"),
        ({"cost": {"w0": 1}}, "cost has no price for 5 of 6 workers: w1, w2, w3"),
        ({"model": "best"}, "unknown model 'best'"),
        ({"truth": {"nobody": "l0"}}, "the truth has none of the 20 tasks"),
    ],
)
def test_bad_options_say_what_is_accepted(options, message):
    votes = adj.simulate(tasks=20, workers=6, votes_per_task=6, seed=1).votes
    with pytest.raises((adj.OptionError, adj.InputError), match=message):
        adj.panel(votes, **options)


def test_a_panel_needs_two_of_each():
    with pytest.raises(adj.InputError, match="1 worker on 2 tasks: a panel needs two of each"):
        adj.panel([(1, "ann", "x"), (2, "ann", "y")])
    with pytest.raises(adj.OptionError, match="weight"):
        adj.panel([(1, "a", "x", 0.5), (2, "b", "y", 1.0)], weight="sure")


def test_extreme_votes_have_a_study():
    same = [(task, worker, "x") for task in range(4) for worker in "abc"]
    found = adj.panel(same, subsets=3)
    assert found.enough == 1
    assert "adds" not in found.words()
    two = adj.panel([(1, "a", "x"), (1, "b", "y"), (2, "a", "y"), (2, "b", "x")], truth={"1": "z"}, subsets=3)
    assert two.points[-1].accuracy == 0
    assert str(two)


def test_control_characters_stay_data(judges):
    votes = judges[0].with_columns(pl.col("worker").replace("guess", "\x1b[31mred\n"))
    found = adj.panel(votes, sizes=[1], subsets=2, model="mv")
    assert "\x1b[31mred\n" in found.judges_frame()["worker"].to_list()
    assert "\x1b" not in str(found)
    assert not any("\x1b" in line or "\n" in line for line in found.sentences())


def test_invalid_options_are_refused():
    votes = adj.simulate(tasks=20, workers=3, votes_per_task=3, seed=1).votes
    for sizes in (5, "12"):
        with pytest.raises(adj.OptionError, match="give a list of whole numbers"):
            adj.panel(votes, sizes=sizes)
    with pytest.raises(adj.OptionError, match="budget is True"):
        adj.panel(votes, cost=1, budget=True)
    sets = adj.aggregate([("t", "ann", ["a"])], multi=True).votes
    with pytest.raises(adj.InputError, match="panel is for votes with one label"):
        adj.panel(sets)


def test_where_every_label_is_wrong_no_share_is_below_nothing():
    crowd = adj.simulate(tasks=20, workers=5, votes_per_task=5, seed=1)
    study = adj.panel(crowd.votes, truth=crowd.truth.with_columns(label=pl.lit("another")), subsets=3)
    assert all(one.accuracy.low >= 0 for one in study.chosen)
    assert not any("-0.0%" in line for line in study.sentences())


def test_panels_above_all_are_said_to_be_above():
    gap = Estimate(-0.02, -0.065, 0.025)
    assert sentences._short(SimpleNamespace(shortfall=gap)) == "2.0 points above all, 90% interval -2.5 to 6.5"


def test_each_judge_has_the_accuracy_of_its_own_votes_on_known_tasks():
    crowd = adj.simulate(tasks=120, workers=5, votes_per_task=4, labels=3, skill=0.7, repeats=0.1, seed=6)
    truth = crowd.truth.head(60)
    known = adj.panel(crowd.votes, truth=truth, model="mv", subsets=3).judges_frame()
    right = crowd.votes.join(truth.rename({"label": "true"}), on="task").with_columns(right=pl.col("label") == pl.col("true"))
    by_task = right.group_by("worker", "task").agg(pl.col("right").mean())
    wanted = dict(by_task.group_by("worker").agg(pl.col("right").mean()).iter_rows())
    for worker, accuracy, low, high in known.select("worker", "accuracy", "accuracy_low", "accuracy_high").rows():
        assert accuracy == pytest.approx(wanted[worker], abs=1e-9)
        assert low < accuracy < high
    assert adj.panel(crowd.votes, model="mv", subsets=3).judges_frame()["accuracy"].null_count() == 5


def test_confusions_are_those_of_the_known_tasks():
    crowd = adj.simulate(tasks=90, workers=4, votes_per_task=3, labels=3, skill=0.6, seed=8)
    truth = crowd.truth.head(50)
    study = adj.panel(crowd.votes, truth=truth, model="mv", subsets=3)
    right = crowd.votes.join(truth.rename({"label": "true"}), on="task")
    for worker, true, given, tasks, share, low, high in study.confusions.rows():
        met = right.filter(worker=worker, true=true)
        assert (tasks, share) == (len(met), pytest.approx((met["label"] == given).mean(), abs=1e-9))
        assert 0 <= low <= share <= high <= 1
    assert len(study.confusions) == 3 * len(right.select("worker", "true").unique())
    with pytest.raises(adj.OptionError, match="give truth="):
        _ = adj.panel(crowd.votes, model="mv", subsets=3).confusions
