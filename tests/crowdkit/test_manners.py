"""Conventions of crowd-kit's classes: names, settings, copies, bad input, what an import costs."""

import copy
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import adjudge as adj
import adjudge.crowdkit as ck
from adjudge.crowdkit.aggregation import base
from adjudge.errors import MissingLabels

VOTES = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2, 3], "worker": [*"abcabca"], "label": ["x", "x", "y", "y", "y", "x", "y"]})
OF_LABELS = [ck.MajorityVote, ck.Wawa, ck.ZeroBasedSkill, ck.DawidSkene, ck.OneCoinDawidSkene, ck.GLAD, ck.MACE, ck.KOS, ck.MMSR]
SIGNATURES = {
    "MajorityVote": {"default_skill": None, "on_missing_skill": "error"},
    "Wawa": {},
    "ZeroBasedSkill": {"n_iter": 100, "lr_init": 1.0, "lr_steps_to_reduce": 20, "lr_reduce_factor": 0.5, "eps": 1e-5},
    "GoldMajorityVote": {},
    "DawidSkene": {"n_iter": 100, "tol": 1e-5, "initial_error_strategy": None},
    "OneCoinDawidSkene": {"n_iter": 100, "tol": 1e-5, "initial_error_strategy": None},
    "KOS": {"n_iter": 100, "random_state": 0},
    "MMSR": {"n_iter": 10000, "tol": 1e-10, "random_state": 0},
    "BradleyTerry": {"n_iter": inspect.Parameter.empty, "tol": 1e-5},
    "NoisyBradleyTerry": {"n_iter": 100, "tol": 1e-5, "regularization_ratio": 1e-5, "random_state": 0},
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_constructors_are_theirs(name):
    parameters = inspect.signature(getattr(ck, name)).parameters
    assert {key: one.default for key, one in parameters.items()} == SIGNATURES[name]


@pytest.mark.parametrize("kind", OF_LABELS)
def test_fits_return_what_theirs_do(kind):
    model = kind()
    assert isinstance(model, base.BaseClassificationAggregator)
    assert model.fit(VOTES) is model
    found = model.fit_predict(VOTES)
    assert found is model.labels_
    assert (found.name, found.index.name, found.dtype) == ("agg_label", "task", VOTES["label"].dtype)
    assert found.sort_index().to_dict() == {1: "x", 2: "y", 3: "y"}
    if hasattr(model, "fit_predict_proba"):
        assert model.fit_predict_proba(VOTES) is model.probas_
    for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.labels_.equals(model.labels_)


@pytest.mark.parametrize("kind", OF_LABELS)
def test_bad_input_is_reported(kind):
    with pytest.raises(KeyError):
        kind().fit(VOTES[["task", "label"]])
    with pytest.raises(TypeError, match="give a pandas DataFrame"):
        kind().fit([("t", "w", "x")])
    with pytest.raises(adj.InputError, match="worker is missing at index 1"):
        kind().fit(VOTES.assign(worker=["a", None, *"cabca"]))
    assert len(kind().fit_predict(VOTES.iloc[:0])) == 0
    missing = pd.concat([VOTES, pd.DataFrame({"task": [3, 4], "worker": ["b", "d"], "label": [None, None]})])
    with pytest.warns(MissingLabels, match="2 of 9 votes have no label"):
        found = kind().fit_predict(missing)
    assert found.sort_index().to_dict() == {1: "x", 2: "y", 3: "y"}
    one = kind()
    if kind is not ck.KOS:
        assert one.fit_predict(VOTES[VOTES["label"] == "y"]).sort_index().to_dict() == {1: "y", 2: "y", 3: "y"}
        assert one.fit_predict(VOTES[VOTES["worker"] == "a"]).sort_index().to_dict() == {1: "x", 2: "y", 3: "y"}


@pytest.mark.parametrize("kind", [ck.MajorityVote, ck.Wawa, ck.ZeroBasedSkill, ck.DawidSkene, ck.OneCoinDawidSkene, ck.GLAD])
def test_answers_do_not_depend_on_the_order_of_rows(kind):
    votes = adj.simulate(tasks=30, workers=6, labels=3, votes_per_task=2, seed=2).votes.to_pandas()
    found = kind().fit_predict(votes).sort_index()
    for seed in range(3):
        assert kind().fit_predict(votes.sample(frac=1, random_state=seed)).sort_index().equals(found)
    tied = pd.DataFrame({"task": [1, 1], "worker": ["a", "b"], "label": ["y", "x"]})
    assert kind().fit_predict(tied).to_dict() == {1: "x"}


def test_labels_of_several_types_have_an_order():
    votes = pd.DataFrame({"task": [1, 1, 2], "worker": [*"aba"], "label": [1, "x", "x"]})
    assert ck.DawidSkene(2).fit_predict(votes).to_dict() == {1: "x", 2: "x"} or ck.MajorityVote().fit_predict(votes)[1] == 1


def test_settings_by_name():
    model = ck.BinaryRelevance(ck.DawidSkene(n_iter=3))
    assert model.get_params(deep=False) == {"base_aggregator": model.base_aggregator}
    assert model.get_params()["base_aggregator__n_iter"] == 3
    assert model.set_params(base_aggregator__tol=0.1) is model
    assert model.base_aggregator.tol == 0.1
    with pytest.raises(ValueError, match=r"Invalid parameter 'nope' for estimator DawidSkene\(n_iter=100, tol=1e-05"):
        ck.DawidSkene().set_params(n_iter=3, nope=1)
    assert repr(ck.KOS()) == "KOS(n_iter=100, random_state=0)"


@pytest.mark.parametrize(
    "model", [ck.DawidSkene(3, tol=0.1), ck.BinaryRelevance(ck.MajorityVote(0.5, "value")), ck.BradleyTerry(7)]
)
def test_scikit_learn_clones_them(model):
    fitted = copy.copy(model)
    fitted.labels_ = pd.Series([1])
    again = clone(fitted)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert not hasattr(again, "labels_")


def test_predictions_need_a_fit(monkeypatch):
    for model in (ck.Wawa(), ck.ZeroBasedSkill(), ck.GoldMajorityVote(), ck.MMSR()):
        with pytest.raises(NotFittedError, match="is not fitted"):
            model.predict(VOTES)
    monkeypatch.delitem(sys.modules, "sklearn.exceptions")
    with pytest.raises(ValueError, match="is not fitted"):
        ck.Wawa().predict(VOTES)


def test_deep_modules_of_crowd_kit_import():
    for path, name in {"classification.dawid_skene": "DawidSkene", "pairwise.noisy_bt": "NoisyBradleyTerry"}.items():
        assert getattr(import_module(f"adjudge.crowdkit.aggregation.{path}"), name) is getattr(ck, name)


def test_series_have_the_names_of_their_attributes():
    model = ck.MajorityVote()
    model.skills_ = pd.Series([0.5], name="other")
    assert model.skills_.name == "skill"


def test_bases_do_nothing():
    for name in base.__all__:
        for act in ("fit", "fit_predict"):
            with pytest.raises(NotImplementedError):
                getattr(getattr(base, name)(), act)(VOTES)


def test_models_of_the_library_have_the_same_manners():
    votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog")]
    model = adj.DawidSkene()
    assert model.fit_predict(votes).equals(model.fit(votes).labels)
    assert model.predict_proba(votes, confidence="posterior").columns == ["task", "cat", "dog"]


def test_import_costs_pandas_and_numpy():
    code = (
        "import sys, json, pandas\nbefore = set(sys.modules)\nimport adjudge.crowdkit, adjudge.crowdkit.metrics.data\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before} | {m for m in sys.modules if m == 'adjudge._core'})))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    loaded = set(json.loads(found))
    assert not {name for name in loaded if name not in sys.stdlib_module_names} - {"adjudge"}


def test_thirty_thousand_votes_on_one_task():
    n = 30_000
    votes = pd.DataFrame({"task": 1, "worker": np.arange(n) % 40, "label": np.where(np.arange(n) % 3 != 2, "x", "y")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (ck.DawidSkene, ck.OneCoinDawidSkene, ck.MACE):
            assert kind(n_iter=3).fit_predict(votes).to_dict() == {1: "x"}
