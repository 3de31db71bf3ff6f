"""What changes in a running stream besides votes: tasks are forgotten, gold comes and goes, labels are added."""

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from streams import LABELS, counts, during_fit, recount, saved, with_reference

CROWD = adj.simulate(tasks=300, workers=15, labels=3, votes_per_task=5, skill=0.85, seed=3)

VOTES_ON_MANY = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.sampled_from(["a", "b", "c", None])), max_size=60)


@pytest.mark.filterwarnings("ignore::adjudge.MissingLabels", "ignore::adjudge.NotConverged")
@given(votes=VOTES_ON_MANY, forgotten=st.sets(st.integers(0, 9)), model=st.sampled_from(["auto", "ds", "fds", "hybrid"]))
@settings(deadline=None)
def test_a_refit_after_forgetting_is_a_batch_fit_of_the_rest(votes, forgotten, model):
    online = adj.Online(labels=LABELS, model=model, duplicates="all")
    online.learn_many([(99, 9, "a"), *votes])
    for task in forgotten & {task for task, *_ in votes}:
        online.forget(task)
    rest = [(99, 9, "a"), *(vote for vote in votes if vote[0] not in forgotten)]
    batch = adj.aggregate(rest, model=model, labels=LABELS)
    refitted = online.refit()
    assert refitted.labels.select("task", "label", "votes").equals(batch.labels.select("task", "label", "votes"))
    assert refitted.labels["confidence"].to_list() == pytest.approx(batch.labels["confidence"].to_list(), abs=1e-9)


@pytest.mark.parametrize("model", ["ds", "fds"])
def test_a_window_of_tasks_answers_as_a_stream_of_its_own(model):
    """Many more tasks pass than are kept, so that codes of forgotten ones are used again and again."""
    online, alone = adj.Online(labels=LABELS, model=model, strength=0.0), adj.Online(labels=LABELS, model=model, strength=0.0)
    for n in range(1200):
        online.learn_many([(f"t{n}", f"w{n % 3}", LABELS[n % 2]), (f"t{n}", f"w{(n + 1) % 3}", "a")])
        if n >= 20:
            assert online.forget(f"t{n - 20}") == 2
    assert len(online) == 20
    assert online.labels()["task"].to_list() == [f"t{n}" for n in range(1180, 1200)]
    for n in range(1180, 1200):
        alone.learn_many([(f"t{n}", f"w{n % 3}", LABELS[n % 2]), (f"t{n}", f"w{(n + 1) % 3}", "a")])
    online.refit(engine=adj.AutoEngine(threads=1))
    alone.refit(engine=adj.AutoEngine(threads=1))
    assert online.labels().equals(alone.labels())
    assert counts(online) == recount(online)


def test_tasks_forgotten_during_a_refit_stay_forgotten():
    online = adj.Online(labels=LABELS)
    online.learn_many([(f"t{n % 6}", f"w{n % 5}", LABELS[n % 2]) for n in range(30)])

    def meanwhile():
        online.forget("t2")
        online.forget("t4")
        online.learn("t4", "late", "c")

    with during_fit(meanwhile):
        online.refit()
    assert online.labels().select("task", "votes").rows() == [("t0", 5), ("t1", 5), ("t3", 5), ("t5", 5), ("t4", 1)]
    assert online.predict("t4").label == "c"
    assert counts(online) == recount(online)


@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
@pytest.mark.parametrize("confidence", ["honest", "posterior"])
def test_from_result_keeps_gold(model, confidence, tmp_path):
    truth = dict(CROWD.truth.select("task", "label").head(60).iter_rows())
    gold = {**truth, "not seen yet": "l2"}
    result = adj.aggregate(CROWD.votes, model=model, gold=gold, confidence=confidence, engine="reference")
    online = adj.Online.from_result(pickle.loads(pickle.dumps(result)), strength=0.0)
    assert dict(online.gold_labels().iter_rows()) == gold
    now = online.labels()
    assert now["gold"].sum() == 60
    assert now.filter("gold").select("task", "label", "confidence", "tie").rows() == [
        (task, label, 1.0, False) for task, label in truth.items()
    ]
    same = now.join(result.labels, on="task", suffix="_fit").filter(pl.col("label") == pl.col("label_fit"))
    assert len(same) >= (300 if model == "auto" else 290)
    if confidence == "honest":
        assert np.abs(same["confidence"] - same["confidence_fit"]).max() < 1e-9
        workers = online.workers().join(result.workers, on="worker", suffix="_fit")
        assert np.abs(workers["accuracy"] - workers["accuracy_fit"]).max() < 1e-9
    again = online.refit(engine="reference")
    assert again.labels.equals(result.labels)
    assert again.gold_given == 61
    online.learn("not seen yet", "w1", "l0")
    assert online.predict("not seen yet").label == "l2"
    online.save(tmp_path / "stream")
    loaded = adj.Online.load(tmp_path / "stream")
    assert saved(loaded) == saved(online)
    assert loaded.labels().equals(online.labels()) or confidence == "honest"  # measured at another moment
    assert counts_of(loaded) == counts_of(online)


def counts_of(online):
    return [list(part) for part in online._state.counts()]


def test_gold_from_any_source(tmp_path):
    (tmp_path / "gold.csv").write_text("task,gold\n1,x\n2,y\n")
    for gold in ({1: "x", 2: "y"}, tmp_path / "gold.csv", pl.DataFrame({"task": [1, 2], "gold": ["x", "y"]})):
        online = adj.Online(labels=["x", "y"], gold=gold)
        online.learn(2, "ann", "x")
        assert online.predict(2).label == "y"
        assert online.predict(1) == adj.Online(labels=["x", "y"], gold=gold).predict(1)
        assert online.predict(1).votes == 0
        assert len(online) == 1
        assert online.gold_labels().rows() == [(1, "x"), (2, "y")]
    with pytest.raises(adj.InputError, match="gold gives task '1' the label 'z', which is not among the labels"):
        adj.Online(labels=["x", "y"], gold={1: "z"})
    with pytest.raises(adj.InputError, match="label 'z' is not among the declared labels"):
        online.gold(1, "z")
    with pytest.raises(adj.InputError, match="task is None"):
        online.gold(None, "x")


def test_votes_on_gold_count_under_it():
    online = adj.Online(labels=["x", "y"], strength=0.0, gold=dict.fromkeys(range(10), "y"))
    for n in range(10):
        online.learn(n, "wrong", "x")
        online.learn(n, "right", "y")
    assert online.confusion("wrong").row(1) == ("y", 1.0, 0.0)
    assert online.confusion("right").row(1) == ("y", 0.0, 1.0)
    online.learn("new", "wrong", "x")
    online.learn("new", "right", "y")
    assert online.predict("new").label == "y"
    accuracy = dict(online.workers().select("worker", "accuracy").iter_rows())
    assert accuracy["wrong"] < 0.2 < 0.8 < accuracy["right"]


@pytest.mark.parametrize("compiled", [True, False])
def test_gold_that_changes_during_a_refit_holds(compiled):
    make = adj.Online if compiled else with_reference
    online = make(labels=LABELS, gold={"t1": "c", "t2": "c"})
    online.learn_many([(f"t{n % 6}", f"w{n % 5}", LABELS[n % 6 % 2]) for n in range(30)])

    def meanwhile():
        online.gold("t1", None)
        online.gold("t3", "c")

    with during_fit(meanwhile):
        online.refit()
    assert dict(online.labels().select("task", "label").iter_rows()) == {
        **{"t0": "a", "t1": "b", "t2": "c"},
        **{"t3": "c", "t4": "a", "t5": "b"},
    }
    assert counts(online) == recount(online)


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@given(
    before=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.sampled_from(["a", "b"])), min_size=1, max_size=30),
    after=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.sampled_from(LABELS)), max_size=30),
    model=st.sampled_from(["auto", "ds", "fds", "hybrid"]),
    strength=st.sampled_from([0.0, 1.0]),
    reads=st.booleans(),
    refits=st.booleans(),
    compiled=st.booleans(),
)
@settings(deadline=None)
def test_an_added_label_is_as_one_that_was_there_from_the_start(before, after, model, strength, reads, refits, compiled):
    make = adj.Online if compiled else with_reference
    late, early = (make(labels=labels, model=model, strength=strength) for labels in (["a", "b"], LABELS))
    for online in (late, early):
        online.learn_many(before)
        if refits:
            online.refit(engine="reference")
        if reads:
            online.labels()
    late.add_label("c")
    for online in (late, early):
        online.learn_many(after)
    assert late.labels().equals(early.labels())
    assert saved(late) == saved(early)
    again = [online.refit(engine="reference") for online in (late, early)]
    assert again[0].labels.equals(again[1].labels)
    assert saved(late) == saved(early)
    assert late.labels().equals(early.labels())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["ds", "fds", "auto"])
def test_a_label_added_during_a_refit_is_there_after_it(model, compiled):
    make = adj.Online if compiled else with_reference
    online = make(labels=["a", "b"], model=model)
    online.learn_many([(f"t{n % 6}", f"w{n % 5}", "ab"[n % 6 % 2]) for n in range(30)])

    def meanwhile():
        online.add_label("c")
        online.learn("t1", "another", "c")
        online.learn("new", "late", "c")

    with during_fit(meanwhile):
        online.refit()
    assert online.predict("new").label == "c"
    assert online.predict("t1").votes == 6
    assert counts(online) == recount(online)


def test_labels_that_cannot_be_added():
    online = adj.Online(labels=[1, 2])
    for label, message in ((2, "is listed twice"), ("x", "of type str"), (None, "NoneType")):
        with pytest.raises(adj.InputError, match=message):
            online.add_label(label)
    assert online.settings["labels"] == [1, 2]
    online.add_label(3)
    online.learn("t", "w", 3)
    assert online.predict("t").label == 3
    assert online.confusion("w").columns == ["true", "1", "2", "3"]


def test_a_label_that_is_named_but_not_there_yet_is_not_accepted(monkeypatch):
    """As when an exception comes at the worst moment: the name is known, the state does not have the label."""
    for make in (adj.Online, with_reference):
        online = make(labels=["a", "b"])
        online._names = type(online._names)(LABELS)
        before = saved(online)
        for action in (
            lambda online=online: online.learn("t", "w", "c"),
            lambda online=online: online.learn_many([("t", "w", "c")]),
            lambda online=online: online.gold("t", "c"),
        ):
            with pytest.raises(adj.InputError, match="label 'c' is not among the declared labels: a, b"):
                action()
        assert saved(online) == before
        online.learn("t", "w", "b")
        assert list(online.predict("t").probabilities) == ["a", "b"]
        assert online.settings["labels"] == ["a", "b"]
        assert online.confusion("w").columns == ["true", "a", "b"]
        online.add_label("d")
        assert online.settings["labels"] == ["a", "b", "d"]
