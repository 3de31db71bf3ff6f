"""What a process can hand to another, or copy: results, models, streams and votes answer the same after the round trip."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.engines.registry import engine_with
from adjudge.kernels.cpu import compiled
from adjudge.models.base import MODELS
from adjudge.online import stream as online_module
from adjudge.spark.result import SparkResult
from fitting import aggregate

CROWD = adj.simulate(tasks=60, workers=8, labels=3, votes_per_task=4, adversaries=0.2, seed=1)
TRIPS = {"pickle": lambda thing: pickle.loads(pickle.dumps(thing)), "deepcopy": copy.deepcopy, "copy": copy.copy}
ENGINES = ["reference", "cpu"] if compiled() else ["reference"]
SETS = [
    ("t1", "ann", ["joy"]),
    ("t1", "bob", ["joy", "fear"]),
    ("t2", "ann", []),
    ("t2", "bob", ["fear"]),
    ("t3", "eve", ["joy"]),
]


@pytest.fixture(params=TRIPS)
def trip(request):
    return TRIPS[request.param]


def saved(thing, folder):
    thing.save(folder / "saved.adjudge")
    return (folder / "saved.adjudge").read_bytes()


def assert_same(one, other, folder):
    """Two results give the same answers, to the bit."""
    assert repr(one) == repr(other)
    for frame in ("labels_frame", "probabilities_frame", "workers_frame"):
        assert getattr(one, frame)().equals(getattr(other, frame)())
    assert one.trace.equals(other.trace)
    assert one.priors.equals(other.priors)
    assert (one.iterations, one.converged, one.expected_errors, one.ties) == (
        other.iterations,
        other.converged,
        other.expected_errors,
        other.ties,
    )
    assert one.confusion("w1").equals(other.confusion("w1"))
    assert saved(one, folder) == saved(other, folder)
    assert one.predict(CROWD.votes.head(40)).labels.equals(other.predict(CROWD.votes.head(40)).labels)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.most_labels is None])
def test_results(model, engine, trip, tmp_path):
    gold = CROWD.truth.head(10) if MODELS[model].needs_gold else None
    labels = sorted(set(CROWD.votes["label"]))  # grades need an order
    result = adj.aggregate(CROWD.votes, model, engine=engine_with(engine, threads=1), labels=labels, gold=gold)
    assert_same(result, trip(result), tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"gold": CROWD.truth.head(10), "strength": "auto"},
        {"gold": CROWD.truth.head(40), "calibrate": True},
        {"ties": "prior", "smoothing": 0.5, "priors": [0.2, 0.3, 0.5]},
        {"history": adj.aggregate(CROWD.votes, "ds")},
        {"warm_start": adj.aggregate(CROWD.votes, "ds")},
    ],
)
def test_results_of_what_was_known(options, trip, tmp_path):
    result = aggregate(CROWD.votes, "ds", engine=adj.AutoEngine(threads=1), **options)
    assert_same(result, trip(result), tmp_path)


def test_predictions_and_frames_in_hand(trip):
    found = adj.aggregate(CROWD.votes).predict([*CROWD.votes.head(20).rows(), ("new", "zoe", "l0")])
    assert found.labels is found.labels  # made, and kept
    other = trip(found)
    assert other.labels.equals(found.labels)
    assert other.unknown_workers == ["zoe"]
    assert saved_learned(found) == saved_learned(other)


def saved_learned(result):
    return result.learned().priors.tolist(), result.learned().knowledge.counts.tolist()


def test_frames_stay_of_the_callers_kind(trip):
    pytest.importorskip("pandas")
    result = adj.aggregate(CROWD.votes.to_pandas(), "mv")
    assert trip(result).labels.equals(result.labels)


@pytest.mark.parametrize("per_option", [False, True])
def test_sets(per_option, trip):
    result = adj.aggregate(SETS, adj.DawidSkene(smoothing=0.1), multi=True, per_option=per_option)
    other = trip(result)
    assert repr(result) == repr(other)
    for frame in ("labels", "probabilities", "workers"):
        assert getattr(result, frame).equals(getattr(other, frame))


def test_saved_models_votes_ids_evaluations_and_settings(trip, tmp_path):
    result = adj.aggregate(CROWD.votes, "ds")
    result.save(tmp_path / "model.adjudge")
    model = adj.load(tmp_path / "model.adjudge")
    other = trip(model)
    assert saved(model, tmp_path) == saved(other, tmp_path)
    assert model.confusion().equals(other.confusion())
    assert model.predict(CROWD.votes).labels.equals(other.predict(CROWD.votes).labels)
    votes = trip(result.votes)
    assert np.array_equal(votes.row, result.votes.row)
    assert votes.tasks.ids() == result.votes.tasks.ids()
    assert not votes.row.flags.writeable
    assert trip(result.votes.workers).codes(["w3"]).tolist() == result.votes.workers.codes(["w3"]).tolist()
    evaluation = adj.evaluate(result, CROWD.truth)
    assert trip(evaluation).summary() == evaluation.summary()
    sets = adj.evaluate(adj.aggregate(SETS, multi=True), [("t1", ["joy"]), ("t2", [])])
    assert trip(sets).summary() == sets.summary()
    assert trip(CROWD).votes.equals(CROWD.votes)
    agreement = adj.agreement(CROWD.votes)
    assert repr(trip(agreement)) == repr(agreement)
    assert trip(agreement).pairs.equals(agreement.pairs)


@pytest.mark.parametrize("model", MODELS)
def test_settings(model, trip):
    settings = MODELS[model](seed=3, ties="prior")
    assert trip(settings) == settings


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_a_stream_continues_as_the_original_does(model, how, core, monkeypatch, tmp_path):
    if not core:
        monkeypatch.setattr(online_module, "compiled", lambda: None)
    online = adj.Online(labels=["l0", "l1", "l2"], model=model, seed=4)
    online.learn_many(CROWD.votes.head(120))
    online.retract(*CROWD.votes.row(3)[:2])
    other = TRIPS[how](online)
    assert saved(online, tmp_path) == saved(other, tmp_path)
    for row in CROWD.votes.slice(120, 60).iter_rows():
        online.learn(*row)
        other.learn(*row)
    assert saved(online, tmp_path) == saved(other, tmp_path)
    assert online.labels().equals(other.labels())
    assert online.workers().equals(other.workers())
    online.learn("alone", "ann", "l1")  # neither changes with the other
    assert len(online) == len(other) + 1


def test_a_forged_stream_is_refused():
    make, (meta, arrays) = adj.Online.from_result(adj.aggregate(CROWD.votes)).__reduce__()
    with pytest.raises(adj.InputError, match="a pickled stream is not valid"):
        make(meta, {**arrays, "row": arrays["row"] + 1_000_000})


def test_another_process_gets_the_same_answers(tmp_path):
    result = adj.aggregate(CROWD.votes, "glad")
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(result))
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb')).probabilities_frame().write_parquet(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, tmp_path / "result.pickle", tmp_path / "found.parquet"], check=True)
    assert pl.read_parquet(tmp_path / "found.parquet").equals(result.probabilities_frame())


def test_a_result_of_the_compiled_core_is_read_where_there_is_none(monkeypatch):
    result = adj.aggregate(CROWD.votes, "ds")
    kept, wanted = pickle.dumps(result), result.probabilities_frame()["l0"]
    monkeypatch.setattr("adjudge.kernels.cpu.compiled", lambda: None)
    assert np.allclose(pickle.loads(kept).probabilities_frame()["l0"], wanted, atol=1e-9)


@pytest.mark.parametrize("model", ["mv", "ds", "glad"])
@pytest.mark.parametrize("trip", [pickle.dumps, copy.deepcopy])
def test_a_result_on_disk_says_what_to_do_instead(model, trip, tmp_path):
    result = adj.aggregate(CROWD.votes, model, engine="disk")
    with pytest.raises(adj.AdjudgeError, match=r"cannot be pickled or deep-copied.*result\.save\(path\).*engine='cpu'"):
        trip(result)
    assert copy.copy(result).labels.equals(result.labels)


def test_a_result_on_disk_without_tasks_is_refused_too():
    result = adj.aggregate({"task": [], "worker": [], "label": []}, engine="disk", labels=["a", "b"])
    with pytest.raises(adj.AdjudgeError, match="cannot be pickled"):
        pickle.dumps(result)


def test_a_result_of_a_folder_that_was_replaced_is_refused(tmp_path):
    adj.encode(CROWD.votes, tmp_path / "votes")
    result = adj.aggregate(tmp_path / "votes", "ds", engine=ENGINES[-1])
    kept = pickle.dumps(result)
    assert pickle.loads(kept).labels.equals(result.labels)
    adj.encode(CROWD.votes.head(50), tmp_path / "votes")
    with pytest.raises(adj.InputError, match="was encoded again"):
        pickle.loads(kept)


def test_a_result_on_spark_says_what_to_do_instead():
    with pytest.raises(adj.AdjudgeError, match=r"on Spark cannot be pickled or deep-copied.*result\.save\(path\)"):
        pickle.dumps(object.__new__(SparkResult))
