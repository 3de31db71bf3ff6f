"""Results of groups: the fit knows groups, members are judged one by one, what was learned knows who votes in which group."""

import pickle
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import adjudge as adj
from adjudge.io import container
from adjudge.io.frames import frame_of
from adjudge.io.workers import require_in_memory
from adjudge.results import saved
from oracle_auto import honest

COPIES = {"m1": "model", "m2": "model", "m3": "model"}


@pytest.fixture(scope="module")
def panel():
    """(votes, truth): three copies of a weak judge, which outvote three good ones."""
    rng = np.random.default_rng(0)
    tasks = 300
    truth = rng.integers(0, 3, tasks)

    def judge(accuracy):
        return np.where(rng.random(tasks) < accuracy, truth, (truth + rng.integers(1, 3, tasks)) % 3)

    weak, again = judge(0.6), judge(0.6)
    judges = {"m1": weak, "m2": np.where(rng.random(tasks) < 0.04, again, weak), "m3": weak}
    judges |= {name: judge(0.75) for name in ("x", "y", "z")}
    votes = [(f"t{t}", name, f"l{given[t]}") for name, given in judges.items() for t in range(tasks)]
    return votes, {f"t{t}": f"l{truth[t]}" for t in range(tasks)}


def accuracy(result, truth):
    return adj.evaluate(result, truth).accuracy


@pytest.mark.parametrize("model", ["mv", "fds", "auto"])
def test_copies_that_vote_once_do_not_outvote_the_others(panel, model):
    votes, truth = panel
    alone = adj.aggregate(votes, model=model, confidence="honest")
    grouped = adj.aggregate(votes, model=model, confidence="honest", groups=COPIES)
    assert accuracy(grouped, truth) > accuracy(alone, truth) + 0.1
    found = adj.aggregate(votes, model=model, confidence="honest", groups="answers_like")
    assert_frame_equal(found.labels, grouped.labels)  # the same groups, by another name
    assert found.groups["group"].to_list() == ["m1"]
    assert found.workers["group"].to_list() == ["m1", "m1", "m1", None, None, None]
    assert (grouped.facts["groups"], found.facts["ties_within"]) == (1, int(grouped.groups["ties_within"].sum()))


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["auto", "mv", "fds", "ds", "hybrid", "one-coin", "iwmv", "glad"])
def test_the_fit_is_that_of_the_grouped_votes(panel, model, confidence):
    votes, _ = panel
    result = adj.aggregate(votes, model=model, confidence=confidence, groups=COPIES)
    by_hand = adj.aggregate(frame_of(result.votes), model=model, confidence=confidence)
    assert_frame_equal(result.labels.drop_nulls("label"), by_hand.labels, check_row_order=False)
    assert_frame_equal(result.probabilities, by_hand.probabilities, check_row_order=False)
    assert result.confusion("model").equals(by_hand.confusion("model"))
    expected = by_hand.workers.filter(pl.col("worker") == "model")
    assert_frame_equal(
        result.groups.drop("group", "members", "ties_within"),
        expected.select("votes", "accuracy", "accuracy_low", "accuracy_high", "agreement"),
        abs_tol=1e-6,
    )
    assert result.labels.filter(pl.col("votes") == 4).height + result.facts["ties_within"] == 300


@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["auto", "mv", "fds", "ds", "iwmv", "glad"])
def test_groups_of_one_are_the_fit_without_groups(panel, model, confidence):
    votes, _ = panel
    alone = adj.aggregate(votes, model=model, confidence=confidence)
    single = adj.aggregate(votes, model=model, confidence=confidence, groups={w: w for w in ("m1", "m2", "m3", "x", "y", "z")})
    assert single.labels.equals(alone.labels)
    assert single.probabilities.equals(alone.probabilities)
    shown = single.workers.drop("group")
    assert_frame_equal(shown, alone.workers.select(shown.columns), abs_tol=1e-9)


@pytest.mark.parametrize("model", ["auto", "fds"])
def test_members_are_judged_by_what_their_groups_decided(panel, model):
    votes, _ = panel
    result = adj.aggregate(votes, model=model, confidence="honest", groups=COPIES)
    codes = {"l0": 0, "l1": 1, "l2": 2}
    counted = [(task, voter, codes[given]) for task, voter, given in frame_of(result.votes).iter_rows()]
    label, majority = (
        {task: codes[given] for task, given in one.labels.select("task", "label").iter_rows() if given is not None}
        for one in (result, adj.aggregate(result.votes, model="mv"))
    )
    last, before = honest(counted, 3, label, majority)
    assert any(max(last[t]) > max(before[t]) + 1e-6 or last[t] != pytest.approx(before[t]) for t in label)  # some were raised
    for line in result.workers.to_dicts():
        own = [(t, codes[given]) for t, w, given in votes if w == line["worker"] and t in label]
        assert line["votes"] == 300
        assert line["agreement"] == pytest.approx(np.mean([label[t] == given for t, given in own]), abs=1e-12)
        assert line["accuracy"] == pytest.approx(np.mean([before[t][given] for t, given in own]), abs=1e-9)
        assert line["accuracy_low"] <= line["accuracy"] <= line["accuracy_high"]


def test_gold_is_certain_for_members_too(panel):
    votes, truth = panel
    gold = {task: truth[task] for task in list(truth)[:299]}
    result = adj.aggregate(votes, model="mv", confidence="honest", groups=COPIES, gold=gold)
    right = {w: np.mean([truth[t] == given for t, v, given in votes if v == w]) for w in ("m1", "x")}
    for worker, share in right.items():
        shown = result.workers.filter(pl.col("worker") == worker)["accuracy"][0]
        assert shown == pytest.approx(share, abs=1 / 300)


def test_figures_are_of_tasks_that_have_a_label():
    votes = [("t1", "a", "x"), ("t1", "b", "y"), ("t2", "a", "x"), ("t2", "c", "x"), ("t3", "d", "y"), ("t3", "c", "y")]
    result = adj.aggregate(votes, model="mv", confidence="honest", groups={"a": "g", "b": "g"})
    assert result.labels.select("task", "label", "votes").rows() == [("t2", "x", 2), ("t3", "y", 2), ("t1", None, 0)]
    assert result.unvoted == 1
    shown = result.workers.select("worker", "group", "votes", "agreement").rows()
    assert shown == [("a", "g", 2, 1.0), ("b", "g", 1, None), ("c", None, 2, 1.0), ("d", None, 1, 1.0)]
    assert result.groups.select("group", "members", "votes", "ties_within").rows() == [("g", 2, 1, 1)]
    assert repr(result) == "Result(mv: 2 tasks, 4 workers (2 of them in 1 group), 2 labels from 4 votes)"


def test_a_group_that_always_ties_has_no_figures():
    votes = [("t1", "a", "x"), ("t1", "b", "y"), ("t1", "c", "x")]
    result = adj.aggregate(votes, model="mv", confidence="honest", groups={"a": "g", "b": "g"})
    assert result.groups.rows()[0][:4] == ("g", 2, 0, 1)
    assert result.groups["accuracy"].to_list() == [None]


def test_without_groups_there_is_an_empty_frame(panel):
    frame = adj.aggregate(panel[0], model="mv").groups
    assert (len(frame), frame.columns[:4]) == (0, ["group", "members", "votes", "ties_within"])
    assert adj.aggregate(panel[0], model="mv", groups=COPIES).groups.columns == frame.columns


def test_votes_that_show_no_groups_are_fitted_alone():
    votes = adj.simulate(tasks=100, workers=8, seed=3).votes
    result = adj.aggregate(votes, model="fds", confidence="posterior", groups="answers_like")
    assert result.grouping is None
    assert (result.facts["groups"], len(result.groups)) == (0, 0)
    assert result.labels.equals(adj.aggregate(votes, model="fds", confidence="posterior").labels)


def test_frames_come_back_in_the_callers_kind(panel):
    frame = pl.DataFrame(panel[0], schema=["task", "worker", "label"], orient="row").to_pandas()
    result = adj.aggregate(frame, model="mv", groups=COPIES)
    assert type(result.groups) is type(result.workers) is type(frame)


@pytest.mark.parametrize("model", ["auto", "mv", "fds", "ds", "iwmv", "one-coin"])
def test_saved_models_keep_their_groups(panel, model, tmp_path):
    votes, _ = panel
    result = adj.aggregate(votes, model=model, confidence="honest", groups=COPIES)
    result.save(tmp_path / "m.adjudge")
    loaded = adj.load(tmp_path / "m.adjudge")
    assert dict(loaded.groups.rows()) == COPIES
    grouped = frame_of(result.votes)
    by_hand = adj.aggregate(grouped, model=model, confidence="honest").predict(grouped)
    for found in (loaded.predict(votes), result.predict(votes)):
        assert_frame_equal(found.labels.drop_nulls("label"), by_hand.labels, check_row_order=False)
        assert found.workers.select("worker", "group", "known").rows() == [
            *((name, "model", True) for name in COPIES),
            *((name, None, True) for name in "xyz"),
        ]
    new = [("n", "m1", "l0"), ("n", "m2", "l0"), ("n", "m3", "l1"), ("n", "zoe", "l1")]
    found = loaded.predict(new)
    assert found.unknown_workers == ["zoe"]
    assert found.labels["votes"].to_list() == [2]
    assert found.groups.select("group", "members", "votes").rows() == [("model", 3, 1)]
    assert loaded.predict([("n", "x", "l2")]).labels["label"].to_list() == ["l2"]  # no member votes here


@pytest.mark.parametrize("groups", [["a"], {"m1": 7}])
def test_bad_groups_in_a_file_are_refused(panel, tmp_path, groups):
    meta, arrays = saved.model_contents(adj.aggregate(panel[0], model="mv", groups=COPIES).learned())
    container.save(tmp_path / "bad.adjudge", saved.KIND, saved.VERSION, {**meta, "groups": groups}, arrays)
    with pytest.raises(adj.InputError, match="is not valid: .*groups"):
        adj.load(tmp_path / "bad.adjudge")


def test_merging_needs_the_same_groups(panel):
    votes, _ = panel
    grouped = adj.aggregate(votes, model="fds", groups=COPIES)
    both = adj.merge(grouped, grouped)
    assert dict(both.groups.rows()) == COPIES
    assert both.confusion_matrix("model") == pytest.approx(grouped.confusion_matrix("model"))
    for one, other in ((grouped, adj.aggregate(votes, model="fds")), (adj.aggregate(votes, model="fds"), grouped)):
        with pytest.raises(adj.InputError, match="'m1' votes in group 'model' of one model, but not of the other"):
            adj.merge(one, other)


@pytest.mark.parametrize("what", ["history", "warm_start"])
def test_what_is_known_must_be_of_the_same_voters(panel, what, tmp_path):
    votes, _ = panel
    grouped = adj.aggregate(votes, model="fds", confidence="posterior", groups=COPIES)
    alone = adj.aggregate(votes, model="fds", confidence="posterior")
    grouped.save(tmp_path / "grouped.adjudge")
    again = adj.aggregate(votes, model="fds", confidence="posterior", groups=COPIES, **{what: grouped})
    assert again.labels["label"].equals(grouped.labels["label"])
    with pytest.raises(adj.OptionError, match=f"the {what} knows worker 'm1', who votes in group 'model'"):
        adj.aggregate(votes, model="fds", groups=COPIES, **{what: alone})
    for known in (grouped, tmp_path / "grouped.adjudge"):
        with pytest.raises(adj.OptionError, match=f"the {what} was fitted with worker 'm1' in group 'model'"):
            adj.aggregate(votes, model="fds", **{what: known})


def test_a_table_of_history_may_know_groups(panel):
    table = {"worker": ["model"] * 3, "true": ["l0", "l1", "l2"], "given": ["l0", "l3", "l2"], "count": [900] * 3}
    history = pl.DataFrame(table)
    result = adj.aggregate(panel[0], model="ds", confidence="honest", groups=COPIES, history=history)
    assert result.votes.labels.ids() == ["l0", "l1", "l2", "l3"]
    assert result.workers["agreement"].null_count() == 0  # members' votes are read over the history's labels, too


def test_what_can_be_read_once_is_read_once(panel):
    votes, truth = panel
    gold = pl.DataFrame({"task": list(truth)[:60], "label": list(truth.values())[:60]})
    lines = iter(gold.iter_slices(20))
    result = adj.aggregate(votes, model="fds", gold=lines, groups="answers_like", calibrate=True)
    assert result.gold_given == 60
    assert result.groups["members"].to_list() == [3]
    assert result.temperature == adj.aggregate(votes, model="fds", gold=gold, groups=COPIES, calibrate=True).temperature


def test_members_have_no_confusion_of_their_own(panel, tmp_path):
    result = adj.aggregate(panel[0], model="ds", groups=COPIES)
    result.save(tmp_path / "m.adjudge")
    for one in (result, adj.load(tmp_path / "m.adjudge")):
        with pytest.raises(adj.InputError, match="'m2' votes in group 'model': ask for the confusion of the group"):
            one.confusion("m2")


def test_grouped_results_can_be_pickled(panel):
    result = adj.aggregate(panel[0], model="auto", confidence="honest", groups=COPIES)
    again = pickle.loads(pickle.dumps(result))
    assert again.labels.equals(result.labels)
    assert again.workers.equals(result.workers)
    assert again.groups.equals(result.groups)


@pytest.mark.parametrize("option", ["groups", "exclude"])
def test_where_it_cannot_work_one_line_says_so(panel, option, tmp_path):
    votes, given = panel[0], {option: COPIES if option == "groups" else ["m1"]}
    with pytest.raises(adj.OptionError, match=f"{option} needs the votes in memory, not on engine 'disk': use engine='cpu'"):
        adj.aggregate(votes, model="fds", engine="disk", **given)
    with pytest.raises(adj.OptionError, match=f"{option} works only for tasks with one label"):
        adj.aggregate([("t", "a", ["x"])], model="fds", multi=True, **given)


def test_predictions_of_groups_need_votes_in_memory(panel):
    result = adj.aggregate(panel[0], model="fds", groups=COPIES)
    with pytest.raises(adj.OptionError, match="a model with groups needs the votes in memory, not on engine 'disk'"):
        result.predict(panel[0], engine="disk")


@pytest.mark.parametrize("engine", ["disk", "spark"])
def test_engines_that_hold_no_votes_in_memory_are_refused(engine):
    with pytest.raises(
        adj.OptionError, match=f"groups needs the votes in memory, not on engine '{engine}': use engine='cpu', or wait"
    ):
        require_in_memory("groups", SimpleNamespace(name=engine), "wait")


def test_a_stream_does_not_continue_from_groups(panel):
    result = adj.aggregate(panel[0], model="fds", groups=COPIES)
    with pytest.raises(adj.InputError, match="a fit with groups cannot continue as a stream"):
        adj.Online.from_result(result)


def test_encoded_folders_are_read_into_memory(panel, tmp_path):
    frame = pl.DataFrame(panel[0], schema=["task", "worker", "label"], orient="row")
    adj.encode(frame, tmp_path / "encoded")
    options = {"model": "fds", "confidence": "honest", "groups": COPIES, "exclude": ["z"]}
    found = adj.aggregate(tmp_path / "encoded", engine="cpu", **options)
    assert_frame_equal(found.labels, adj.aggregate(frame, **options).labels, check_row_order=False)
