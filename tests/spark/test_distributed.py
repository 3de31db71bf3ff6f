"""Fits whose rows stay on the executors: the labels and workers of one process, and a driver that does not grow."""

import itertools
import tracemalloc

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.errors import InputError, OptionError
from adjudge.spark.engine import SparkEngine
from adjudge.spark.session import to_spark
from adjudge.spark.votes import DistributedVotes, read
from same_fit import assert_same, fit

CROWD = adj.simulate(tasks=120, workers=14, labels=4, votes_per_task=4, skill=0.5, seed=6)
GOLD = dict.fromkeys(sorted(set(CROWD.votes["task"]))[:4], "l0") | {"unknown": "l1"}
WIDE = SparkEngine(partitions=2, rows="executors", blocks=3)

KNOWN = [
    ("mv", {"gold": GOLD, "ties": "prior"}),
    ("fds", {"gold": GOLD, "smoothing": 0.5, "max_iter": 3}),
    ("ds", {"strength": "auto", "priors": "uniform", "priors_weight": 10, "max_iter": 2}),
    ("hybrid", {"switch": 0.5, "priors": [0.1, 0.2, 0.3, 0.4], "max_iter": 3}),
    ("iwmv", {"max_iter": 2}),
    ("one-coin", {"strength": 2.0, "smoothing": 0.1, "gold": GOLD, "max_iter": 2}),
]


@pytest.mark.parametrize(("model", "known"), KNOWN, ids=[model for model, _ in KNOWN])
def test_every_model(spark, frame_of, model, known):
    far, near = fit(frame_of(CROWD.votes), model, engine=WIDE, **known), fit(CROWD.votes, model, **known)
    assert isinstance(far.votes, DistributedVotes)
    assert repr(far) == f"Spark{near!r}"
    assert_same(far, near)
    assert np.isclose(far.strength, near.strength)
    for name in ("objective", "classification", "log_likelihood", "change"):
        ours, theirs = ([getattr(row, name) for row in r.fit.trace] for r in (far, near))
        assert np.allclose(ours, theirs, rtol=1e-9, equal_nan=True)
    assert np.allclose(far.confusion_matrix("w3"), near.confusion_matrix("w3"), atol=1e-9)
    assert set(far.workers.columns) == {*near.workers_frame(trust=False).columns, "accuracy_low", "accuracy_high"}
    far.release()


def test_histories_and_warm_starts_go_to_where_the_workers_are(spark, frame_of):
    history = adj.aggregate(adj.simulate(tasks=60, workers=9, labels=5, seed=9).votes)  # over one more label, not of all workers
    before = fit(CROWD.votes.head(300), "fds", max_iter=3)
    for model, known in (("fds", {"warm_start": before, "strength": 1.0}), ("iwmv", {"history": history})):
        near = fit(CROWD.votes, model, max_iter=1, **known)
        far = fit(frame_of(CROWD.votes), model, engine=WIDE, max_iter=1, **known)
        assert_same(far, near)
        assert far.iterations_before == near.iterations_before
        far.release()


def test_ids_of_every_kind_and_abstentions(spark, frame_of):
    odd = [f"ß`{n}. é" for n in range(6)]
    for tasks, workers, labels in ((range(-3, 3), odd, (False, True)), (odd, (True, False), (-1, 0, 7))):
        votes = [
            (t, w, labels[m * n % len(labels)]) for (m, t), (n, w) in itertools.product(enumerate(tasks), enumerate(workers))
        ]
        votes.append((tasks[0], workers[1], None))
        with pytest.warns(adj.MissingLabels):
            far = adj.aggregate(frame_of(votes), model="mv", engine=WIDE)
        with pytest.warns(adj.MissingLabels):
            near = adj.aggregate(votes, model="mv")
        assert_same(far, near)
        assert np.allclose(far.confusion_matrix(workers[1]), near.confusion_matrix(workers[1]))
        far.release()


def test_text_that_is_numbers_is_read_as_such(spark, tmp_path):
    (tmp_path / "votes.csv").write_text("task,worker,label\n" + "".join(f"{n % 7},{n % 3},{n % 2}\n" for n in range(30)))
    far = fit(str(tmp_path / "votes.csv"), "mv", engine=WIDE)
    assert_same(far, fit(tmp_path / "votes.csv", "mv"))
    assert far.workers.schema["worker"].dataType.typeName() == "long"


def test_rows_that_do_not_fit_stay_by_themselves(spark, frame_of, monkeypatch, tmp_path):
    frame, near = frame_of(CROWD.votes), fit(CROWD.votes, "mv")
    assert not isinstance(SparkEngine().read(frame), DistributedVotes)
    with monkeypatch.context() as patch:
        patch.setattr("adjudge.engines.memory.free_memory", lambda: 1000)
        patch.setattr("adjudge.spark.survey.MIN_PAIRS", 2)  # so that no pair comes along
        far = adj.aggregate(frame, model="mv")
    assert isinstance(far.votes, DistributedVotes)
    assert_same(far, near)
    monkeypatch.setattr("adjudge.engines.memory.free_memory", lambda: 1000)
    with pytest.raises(adj.AdjudgeError, match="the driver needs about .* for its tables .56 rows x 4 labels.*rows='auto'"):
        adj.aggregate(frame, engine=SparkEngine(rows="driver"))
    for ask in (lambda: far.save(tmp_path / "far.adjudge"), lambda: far.predict(CROWD.votes), lambda: adj.merge(far, far)):
        with pytest.raises(adj.AdjudgeError, match="on the executors, and a saved model is one file") as caught:
            ask()
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="'nobody' has no votes here; there are 14 workers"):
        far.confusion("nobody")
    monkeypatch.setattr("adjudge.engines.memory.free_memory", lambda: 1 << 30)
    assert len(SparkEngine().read(frame).per_row) == 56  # too many for a partition, but few in total


def test_bad_input(spark, frame_of):
    votes = frame_of(CROWD.votes)
    with pytest.raises(OptionError, match="unknown rows 'here'.*auto, driver, executors"):
        adj.Spark(rows="here")
    with pytest.raises(OptionError, match="the votes are in memory: leave rows out"):
        adj.aggregate(CROWD.votes, engine=WIDE)
    with pytest.raises(OptionError, match="cannot run model 'glad': choose engine"):
        adj.aggregate(votes, model="glad", engine=WIDE)
    twice = to_spark(pl.DataFrame({"task": ["t1", "t1"], "label": ["l0", "l1"]}), spark)
    with pytest.raises(InputError, match="more than one label"):
        adj.aggregate(votes, gold=twice, engine=WIDE)
    with pytest.raises(InputError, match="worker is missing in 1 of 2 votes"):
        adj.aggregate(frame_of([("t", None, "x"), ("t", "a", "x")]), engine=WIDE)
    known = read(votes)
    assert isinstance(WIDE.read(known), DistributedVotes)
    with pytest.raises(InputError, match="looks at tasks one by one"):
        _ = WIDE.read(known).tasks


@pytest.mark.parametrize(("confidence", "most"), [("posterior", 3), ("honest", 5)])
def test_a_checkpoint_directory_is_used_and_left_clean(spark, frame_of, tmp_path, confidence, most):
    context = spark.sparkContext
    context.setCheckpointDir(str(tmp_path))
    try:
        far = fit(frame_of(CROWD.votes), "fds", engine=WIDE, max_iter=2, confidence=confidence)
        # Those of the last two passes and of the end; then of the labels counted again, and of what judges them.
        assert len(list(tmp_path.glob("*/rdd-*"))) <= most
        assert list(tmp_path.glob("*/rdd-*"))
        assert far.labels_frame()["label"].value_counts().height == 4
        far.release()
        assert not list(tmp_path.glob("*/rdd-*"))
    finally:
        context._jsc.sc().setCheckpointDir(None)


def test_the_driver_grows_neither_with_tasks_nor_with_workers(spark, tmp_path):
    peaks = []
    for size in (4_000, 40_000):
        path = str(tmp_path / f"{size}.parquet")
        adj.simulate(tasks=size, workers=size, labels=3, votes_per_task=3, seed=4).votes.write_parquet(path)
        tracemalloc.start()
        result = fit(spark.read.parquet(path), "fds", max_iter=2, engine=WIDE)
        result.labels.write.format("noop").mode("overwrite").save()
        result.workers.write.format("noop").mode("overwrite").save()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert result.votes.n_workers > size * 0.9
        result.release()
    assert peaks[1] < peaks[0] + 150_000  # a number per worker would be 320,000 bytes and more
