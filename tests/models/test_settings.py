"""Models are frozen settings; options are checked; stopping and ties follow their rules."""

import dataclasses

import pytest

import adjudge as adj
from adjudge.data.options import model_name
from adjudge.models.base import MODELS

VOTES = adj.simulate(tasks=80, workers=8, labels=3, votes_per_task=2, skill=0.5, seed=2).votes


def test_models_are_frozen():
    model = adj.FastDawidSkene(tol=0.01)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.tol = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "fds", "smoothing": -1}, "smoothing is -1: give a number of at least 0"),
        ({"model": "fds", "smoothing": float("nan")}, "smoothing is nan"),
        ({"model": "fds", "tol": "x"}, "tol is 'x': give a number"),
        ({"model": "fds", "max_iter": 0}, "max_iter is 0: give a whole number of at least 1"),
        ({"model": "fds", "max_iter": 2.5}, "max_iter is 2.5"),
        ({"seed": True}, "seed is True"),
        ({"model": "fds", "stop": "label"}, "unknown stop 'label': did you mean 'labels'"),
        ({"ties": "coin"}, "unknown ties 'coin'"),
        ({"model": "fsd"}, "unknown model 'fsd': did you mean 'fds'"),
        ({"model": "mv", "smoothing": 1.0}, "model 'mv' takes only: seed, ties"),
        ({"model": "glad", "strength": 3}, "strength is 3, but model 'glad' takes only: seed, ties, tol, max_iter$"),
        ({"model": "zzz"}, "unknown model 'zzz': accepted: auto, mv"),
        ({"model": ""}, "unknown model '': accepted"),
        ({"model": adj.DawidSkene(), "tol": 0.1}, "give tol to DawidSkene"),
        ({"engine": "gpu9"}, "unknown engine 'gpu9'"),
        ({"threads": 0}, "threads is 0: give a whole number of at least 1"),
        ({"duplicates": "some"}, "duplicates is 'some': choose one of all, last, first, error"),
        ({"labels": "ab"}, "labels is 'ab': give a list"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(adj.OptionError, match=message.replace("(", r"\(")):
        adj.aggregate(VOTES, **options)


def test_options_of_reading_need_reading():
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.aggregate(adj.read(VOTES), labels=["a"])


def test_model_object_and_name_agree():
    by_name = adj.aggregate(VOTES, model="hybrid", switch=0.05).labels
    assert by_name.equals(adj.Hybrid(switch=0.05).fit(VOTES).labels)
    assert by_name.equals(adj.aggregate(VOTES, model=adj.Hybrid(switch=0.05)).labels)


@pytest.mark.parametrize(("given", "name"), [
    ("DS", "ds"), ("dawid-skene", "ds"), ("Dawid Skene", "ds"), ("majority", "mv"), ("MajorityVote", "mv"), ("MV", "mv"),
    ("fast-dawid-skene", "fds"), ("FastDawidSkene", "fds"), ("Hybrid", "hybrid"), ("onecoin", "one-coin"), ("GLAD", "glad"),
    ("weighted majority", "iwmv"), ("AUTO", "auto"),
])  # fmt: skip
def test_models_have_long_names_too(given, name):
    assert adj.aggregate([("t", "ann", "x"), ("t", "bob", "x")], given).model == name


def test_every_class_of_models_names_its_model():
    for name, model in MODELS.items():
        assert model_name(model.__name__) == name


def test_streams_know_long_names_too():
    assert adj.Online(labels=["x"], model="Dawid-Skene").settings["model"] == "ds"
    with pytest.raises(adj.OptionError, match="unknown model 'mv'"):
        adj.Online(labels=["x"], model="majority")


def test_running_out_of_iterations_warns_and_is_told():
    with pytest.warns(adj.NotConverged, match="did not converge in 2 iterations"):
        result = adj.aggregate(VOTES, model="ds", max_iter=2)
    assert not result.converged
    assert result.iterations == 2


def test_stop_when_no_label_changes():
    result = adj.aggregate(VOTES, model="fds", stop="labels")
    assert result.trace["labels_changed"].to_list()[-1] == 0
    assert (result.trace["labels_changed"].to_list()[:-1] or [1])[-1] > 0


def test_seed_decides_ties_and_nothing_else():
    votes = [(t, w, label) for t in range(60) for w, label in (("a", "x"), ("b", "y"))]
    one, two = (adj.aggregate(votes, model="mv", seed=s).labels for s in (0, 1))
    assert one["tie"].all()
    assert one["label"].to_list() != two["label"].to_list()
    assert 10 < (one["label"] == "x").sum() < 50, "the hash is fair"


def test_ties_by_prior_go_to_the_more_frequent_label():
    votes = [("t", "a", "x"), ("t", "b", "y"), ("u", "a", "y"), ("v", "c", "y")]
    for model in ("mv", "fds"):
        result = adj.aggregate(votes, model=model, ties="prior")
        assert dict(result.labels.select("task", "label").iter_rows())["t"] == "y"


def test_a_light_trace_leaves_the_likelihood_out_and_changes_nothing_else():
    full, light = (adj.aggregate(VOTES, model="hybrid", trace=t) for t in ("full", "light"))
    assert light.labels.equals(full.labels)
    assert light.log_likelihood == full.log_likelihood
    hard = light.trace.filter(phase="hard")
    assert hard["objective"].to_list() == pytest.approx(full.trace.filter(phase="hard")["objective"].to_list(), rel=1e-9)
    with pytest.raises(adj.OptionError, match="unknown trace 'none'"):
        adj.aggregate(VOTES, trace="none")


def test_progress_is_called_after_every_iteration():
    seen = []
    result = adj.aggregate(VOTES, model="hybrid", progress=seen.append)
    assert [row.iteration for row in seen] == list(range(1, result.iterations + 1))


def test_none_is_the_default_of_the_model_itself():
    options = dict.fromkeys(("seed", "smoothing", "strength", "tol", "max_iter", "switch", "stop", "ties"))
    for model in ("mv", "hybrid", "glad"):
        assert adj.aggregate(VOTES, model, **options).settings == adj.aggregate(VOTES, model).settings
    assert adj.aggregate(VOTES, "mv", tol=1e-4, max_iter=100).settings == {"seed": 0, "ties": "hash"}  # as they are anyway
