"""Models are frozen settings; options are checked; stopping and ties follow their rules."""

import dataclasses
import re

import pytest

import adjudge as adj
from adjudge.data.options import resolve_model_name
from adjudge.models.base import MODELS, make

VOTES = adj.simulate(tasks=80, workers=8, labels=3, votes_per_task=2, skill=0.5, seed=2).votes


def test_models_are_frozen():
    model = adj.FastDawidSkene(tol=0.01)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.tol = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": True}, "seed is True"),
        ({"model": "fsd"}, "unknown model 'fsd': did you mean 'fds'"),
        ({"model": "zzz"}, "unknown model 'zzz': accepted: auto, mv"),
        ({"model": ""}, "unknown model '': accepted"),
        ({"tol": 0.1}, "tol is a setting of the model: model=adj.DawidSkene(tol=0.1)"),
        ({"switch": 0.1}, "switch is a setting of the model: model=adj.Hybrid(switch=0.1)"),
        ({"threads": 2}, "threads is a setting of the engine: engine=adj.Cpu(threads=2)"),
        ({"memory": "2GB"}, "memory is a setting of the engine: engine=adj.Disk(memory='2GB')"),
        ({"lables": ["a"]}, "unknown option 'lables': did you mean 'labels'?"),
        ({"model": adj.DawidSkene(seed=1), "seed": 2}, "seed is 2, but the model has its own, 1: give one of them"),
        ({"engine": "gpu9"}, "unknown engine 'gpu9'"),
        ({"duplicates": "some"}, "duplicates is 'some': choose one of all, last, first, error"),
        ({"labels": "ab"}, "labels is 'ab': give a list"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(adj.OptionError, match=re.escape(message)):
        adj.aggregate(VOTES, **options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smoothing": -1}, "smoothing is -1: give a number of at least 0"),
        ({"smoothing": float("nan")}, "smoothing is nan"),
        ({"tol": "x"}, "tol is 'x': give a number"),
        ({"max_iter": 0}, "max_iter is 0: give a whole number of at least 1"),
        ({"max_iter": 2.5}, "max_iter is 2.5"),
        ({"stop": "label"}, "unknown stop 'label': did you mean 'labels'"),
        ({"ties": "coin"}, "unknown ties 'coin'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(adj.OptionError, match=message):
        adj.FastDawidSkene(**settings)


def test_settings_that_a_model_lacks_are_named():
    with pytest.raises(adj.OptionError, match="model 'mv' takes only: seed, ties"):
        make("mv", {"smoothing": 1.0})
    with pytest.raises(adj.OptionError, match="strength is 3, but model 'glad' takes only: seed, ties, tol, max_iter$"):
        make("glad", {"strength": 3})
    assert make("mv", {"tol": 1e-4, "max_iter": 100}) == adj.MajorityVote()  # as they are anyway


@pytest.mark.parametrize("made", [adj.Cpu, adj.Disk, adj.Cuda, adj.Spark, adj.AutoEngine])
def test_engines_check_their_settings(made):
    assert made(threads=2).threads == 2
    for threads in (0, "2", 1.5, True):
        with pytest.raises(adj.OptionError, match="threads is .*: give a whole number of at least 1"):
            made(threads=threads)


def test_a_seed_goes_to_a_model_without_one():
    fits = [
        adj.aggregate(VOTES, model=m, seed=s) for m, s in (("fds", 7), (adj.FastDawidSkene(), 7), (adj.FastDawidSkene(seed=7), 0))
    ]
    assert [fit.settings["seed"] for fit in fits] == [7, 7, 7]


def test_options_of_reading_need_reading():
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.aggregate(adj.read(VOTES), labels=["a"])


def test_model_object_and_name_agree():
    by_name = adj.aggregate(VOTES, model=adj.Hybrid(switch=0.05)).labels
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
        assert resolve_model_name(model.__name__) == name


def test_streams_know_long_names_too():
    assert adj.Online(labels=["x"], model="Dawid-Skene").settings["model"] == "ds"
    with pytest.raises(adj.OptionError, match="unknown model 'mv'"):
        adj.Online(labels=["x"], model="majority")


def test_running_out_of_iterations_warns_and_is_reported():
    with pytest.warns(adj.NotConverged, match="did not converge in 2 iterations"):
        result = adj.aggregate(VOTES, model=adj.DawidSkene(max_iter=2))
    assert not result.converged
    assert result.iterations == 2


def test_stop_when_no_label_changes():
    result = adj.aggregate(VOTES, model=adj.FastDawidSkene(stop="labels"))
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
        result = adj.aggregate(votes, model=make(model, {"ties": "prior"}))
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
