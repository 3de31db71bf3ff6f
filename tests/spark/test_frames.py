"""Accepted Spark frames, the returned ones, and checks made beforehand."""

import itertools
import os
import shutil
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.errors import InputError, MissingLabels, OptionError
from adjudge.spark import votes as spark_votes
from adjudge.spark.engine import SparkEngine
from adjudge.spark.session import gather, to_spark
from same_fit import assert_same, fit

CROWD = adj.simulate(tasks=90, workers=12, labels=3, votes_per_task=4, seed=6)


def test_rows_are_numbered_as_in_memory(spark, frame_of):
    for votes in (CROWD.votes, CROWD.votes.with_columns(pl.all().str.slice(1).cast(pl.Int64))):
        far, near = spark_votes.read(frame_of(votes)), adj.read(votes)
        assert far.workers.ids() == near.workers.ids()
        assert far.labels.ids() == near.labels.ids()
        assert (far.worker_ptr == near.worker_ptr).all()
        assert (far.row_label == near.row_label).all()
        assert (far.votes_per_row() == near.votes_per_row()).all()


def test_frames_come_back_as_spark_frames(spark, engine, frame_of):
    result = adj.aggregate(frame_of(CROWD.votes), engine=engine)
    near = adj.aggregate(CROWD.votes)
    assert type(result).__name__ == "SparkResult"
    assert repr(result) == f"Spark{near!r}"
    assert f"Spark{near!r}" in result._repr_html_(), "a card needs no tasks on the driver"
    assert result.labels.columns == near.labels.columns
    assert {row["task"]: row["label"] for row in result.labels.collect()} == dict(near.labels.select("task", "label").iter_rows())
    assert result.probabilities.count() == 90
    assert result.workers.columns == [*near.workers_frame(trust=False).columns, "accuracy_low", "accuracy_high"]
    assert [tuple(row) for row in result.priors.collect()] == near.priors.select("label", "prior").rows()
    assert [tuple(row)[:2] for row in result.trace.collect()] == [row[:2] for row in near.trace.rows()]
    assert [tuple(row) for row in result.confusion("w3").collect()] == near.confusion("w3").rows()
    assert result.labels.rdd.getNumPartitions() == 3
    with pytest.raises(InputError, match="'nobody' has no votes here"):
        result.confusion("nobody")


def test_model_settings_and_saving(spark, engine, frame_of, tmp_path):
    result = adj.FastDawidSkene(smoothing=0.5).fit(frame_of(CROWD.votes), engine=engine)
    near = adj.FastDawidSkene(smoothing=0.5).fit(CROWD.votes)
    assert_same(result, near)
    result.save(tmp_path / "far.adjudge")
    near.save(tmp_path / "near.adjudge")
    assert repr(adj.load(tmp_path / "far.adjudge")) == repr(adj.load(tmp_path / "near.adjudge"))


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", "float", "double", "string", "varchar(5)"])
def test_ids_of_every_type(spark, kind):
    votes = [(t, w, (t + w) % 2) for t, w in itertools.product(range(9), range(3))]
    frame = spark.createDataFrame(votes, "task int, worker int, label int")
    far = spark_votes.read(frame.select([frame[name].cast(kind).alias(name) for name in frame.columns]))
    is_text = kind in ("string", "varchar(5)")
    near = adj.read([tuple(map(str, vote)) for vote in votes] if is_text else votes)
    assert far.task_kind == near.tasks.kind
    assert (far.workers.ids(), far.labels.ids()) == (near.workers.ids(), near.labels.ids())
    if kind == "double":
        assert_same(fit(far, "mv"), fit(near, "mv"))


def test_booleans_and_odd_names(spark, engine):
    votes = [(True, "a", False), (True, "b", True), (False, "a", True), (False, "b", True)]
    frame = spark.createDataFrame(votes, "`the.task` boolean, `Who``s` string, label boolean")
    far = adj.aggregate(frame.withColumnRenamed("label", "Label"), model="mv", engine=engine, task="the.task", worker="Who`s")
    assert_same(far, adj.aggregate(votes, model="mv"))


def test_missing_labels_are_abstentions(spark, engine, frame_of):
    votes = [("t", "a", "x"), ("t", "b", None), ("u", "a", None), ("v", "c", None), ("w", "a", "y")]
    with pytest.warns(MissingLabels, match="3 of 5 votes have no label: dropped as abstentions"):
        far = adj.aggregate(frame_of(votes), engine=engine)
    with pytest.warns(MissingLabels):
        near = adj.aggregate(votes)
    assert_same(far, near)
    assert far.votes.abstentions == 3
    assert dict(far.workers_frame().select("worker", "abstained").iter_rows()) == {"a": 1 / 3}
    assert {row["task"]: row["votes"] for row in far.labels.collect()} == {"t": 1, "w": 1, "u": 0, "v": 0}


def test_declared_labels(spark, engine, frame_of):
    declared = ["never", "l2", "l0", "l1"]
    assert_same(
        adj.aggregate(frame_of(CROWD.votes), engine=engine, labels=declared),
        adj.aggregate(adj.read(CROWD.votes, labels=declared)),
    )
    with pytest.raises(InputError, match="label 'l2' is not among the declared labels: l0, l1"):
        adj.aggregate(frame_of(CROWD.votes), labels=["l0", "l1"])


def test_repeated_votes(spark, engine, frame_of):
    votes = [("t", "a", "x"), ("t", "a", "y"), ("t", "a", "y"), ("t", "b", "x"), ("u", "b", "x")]
    assert_same(fit(frame_of(votes), "fds", engine=engine), fit(votes, "fds"))
    with pytest.raises(InputError, match="worker 'a' voted more than once on task 't'"):
        adj.aggregate(frame_of(votes), engine=engine, duplicates="error")
    with pytest.raises(OptionError, match="rows of a Spark frame have no order"):
        adj.aggregate(frame_of(votes), duplicates="last")


def test_gold(spark, engine, frame_of):
    tasks = sorted(set(CROWD.votes["task"]))
    gold = {tasks[0]: "l0", tasks[1]: "l1", tasks[2]: "l1", "unknown": "l2"}
    near = fit(CROWD.votes, "ds", gold=gold, max_iter=3)
    table = pl.DataFrame({"task": list(gold), "gold": list(gold.values())})
    for given in (gold, to_spark(pl.concat([table, table]), spark)):
        assert_same(fit(frame_of(CROWD.votes), "ds", gold=given, max_iter=3, engine=engine), near)
    for model in ("mv", "iwmv"):
        assert_same(fit(frame_of(CROWD.votes), model, gold=gold, engine=engine), fit(CROWD.votes, model, gold=gold))


def test_gold_is_matched_by_text(spark, engine, frame_of):
    numbers = CROWD.votes.with_columns(pl.col("task").str.slice(1).cast(pl.Int64))
    gold = pl.DataFrame({"task": ["3", "7", "007", "x"], "label": ["l0", "l1", "l2", "l2"]})
    far = fit(frame_of(numbers), "fds", gold=to_spark(gold, spark), engine=engine)
    assert_same(far, fit(numbers, "fds", gold=gold))
    assert far.gold_without_votes == 2


def test_bad_gold(spark, engine, frame_of):
    votes, task = frame_of(CROWD.votes), CROWD.votes["task"][0]
    with pytest.raises(InputError, match=f"gold gives task '{task}' the label 'no', which is not among the labels"):
        adj.aggregate(votes, gold=to_spark(pl.DataFrame({"task": [task], "label": ["no"]}), spark))
    twice = to_spark(pl.DataFrame({"task": [task, task], "label": ["l0", "l1"]}), spark)
    with pytest.raises(InputError, match=r"more than one label \(l0, l1\): keep one per task|\(l1, l0\)"):
        adj.aggregate(votes, gold=twice, engine=engine)


def test_what_is_known_beforehand(spark, engine, frame_of):
    history = adj.aggregate(adj.simulate(tasks=60, workers=12, labels=4, seed=9).votes)  # over one more label
    known = {"history": history, "priors": "uniform", "max_iter": 5, "strength": "auto"}
    assert_same(fit(frame_of(CROWD.votes), "fds", engine=engine, **known), fit(CROWD.votes, "fds", **known))
    before = fit(CROWD.votes, "ds", max_iter=3)
    far, near = (fit(v, "ds", warm_start=before, max_iter=4) for v in (frame_of(CROWD.votes), CROWD.votes))
    assert_same(far, near)
    assert far.iterations_before == near.iterations_before == 3


def test_bad_input(spark, frame_of):
    votes = frame_of(CROWD.votes)
    cases = {
        "no column looks like the worker": votes.drop("worker"),
        "worker is missing in 1 of 2 votes": frame_of([("t", None, "x"), ("t", "a", "x")]),
        "task is missing in 1 of 2 votes": frame_of([("t", "b", "x"), (None, "a", "x")]),
        "a worker is 1.5: give text or whole numbers": spark.createDataFrame([("t", 1.5, "x")], ["task", "worker", "label"]),
        "the label column holds date": votes.selectExpr("task", "worker", "current_date() as label"),
        "this frame is a stream": spark.readStream.format("rate").load(),
        "cannot read the Spark frame": votes.selectExpr("task", "worker", "raise_error('torn') as label"),
    }
    for message, frame in cases.items():
        with pytest.raises(InputError if "Spark frame" not in message else adj.AdjudgeError, match=message) as caught:
            adj.aggregate(frame)
        assert "\n" not in str(caught.value)


def test_what_spark_cannot_do(spark, frame_of):
    votes = frame_of(CROWD.votes)
    for ask in (lambda: adj.aggregate(votes, model="glad"), lambda: adj.GLAD().fit(votes)):
        with pytest.raises(
            OptionError,
            match=r"model 'glad': choose .*; for a Spark frame call adj.aggregate\(frame.toArrow\(\), model='glad'\)$",
        ):
            ask()
    for source, engine in ((votes, "auto"), (votes, "spark"), (CROWD.votes, "spark")):
        with pytest.raises(
            OptionError, match=r"^several options per task \(multi=True\) are not run on Spark: call adj.aggregate\(frame"
        ):
            adj.aggregate(source, multi=True, engine=engine)
    with pytest.raises(InputError, match=r"^agreement is not run on Spark: call adj.agreement\(frame.toArrow\(\)\)"):
        adj.agreement(votes)
    with pytest.raises(OptionError, match="engine is 'cpu', but the votes are on Spark"):
        adj.aggregate(votes, engine="cpu")
    with pytest.raises(OptionError, match="calibrate looks at tasks one by one"):
        adj.aggregate(votes, gold={"t1": "l0"}, calibrate=True)
    with pytest.raises(OptionError, match="calibrate looks at tasks one by one"):
        adj.aggregate(CROWD.votes, gold=CROWD.truth, calibrate=True, engine="spark")
    for given in (votes, adj.read(CROWD.votes)):
        with pytest.raises(OptionError, match="takes no labels to start with"):
            adj.FastDawidSkene().fit(given, engine=SparkEngine(), start=np.zeros(90, np.int32))
    with pytest.raises(InputError, match="a Spark frame is not read into memory"):
        adj.read(votes)


def test_the_driver_does_not_grow_with_the_tasks(spark, tmp_path):
    """Ten times the tasks, the same workers: what Python takes on the driver stays the same."""
    peaks = []
    for tasks in (20_000, 200_000):
        path = str(tmp_path / f"{tasks}.parquet")
        adj.simulate(tasks=tasks, workers=50, labels=3, votes_per_task=3, seed=4).votes.write_parquet(path)
        tracemalloc.start()
        result = fit(spark.read.parquet(path), "fds", max_iter=3)
        result.labels.write.format("noop").mode("overwrite").save()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert result.votes.n_tasks == tasks
        result.release()
    assert peaks[1] < peaks[0] + 300_000  # an array of a number per task would be 800,000 bytes and more


def local_folder(spark):
    """The folder of the one executor, where votes are in files."""
    (folder,) = set(spark.sparkContext.parallelize([0]).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).collect())
    return Path(folder.split(",")[0])


@pytest.mark.parametrize("model", ["fds", "ds"])
def test_a_pass_is_one_job_and_lost_files_are_written_again(spark, engine, frame_of, model):
    folder, jobs, near = local_folder(spark), [], fit(CROWD.votes, model)
    before = set(folder.glob("adjudge-*"))

    def lose(row):
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)))
        if row.iteration == 2:
            (own,) = set(folder.glob("adjudge-*")) - before
            shutil.rmtree(own / "1")

    far = fit(frame_of(CROWD.votes), model, engine=engine, progress=lose)
    assert_same(far, near)
    assert np.diff(jobs).tolist() == [1, 2, *[1] * (len(jobs) - 3)]  # the second one wrote the files again
    far.release()
    assert set(folder.glob("adjudge-*")) <= before


def test_released_votes_are_gone(spark, engine, frame_of):
    result = adj.aggregate(frame_of(CROWD.votes), engine=engine)
    context = spark.sparkContext._jsc.getPersistentRDDs()
    before = context.size()
    result.release()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() < before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result.labels.count() == 90  # made again from the source


@pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
def test_partitions_of_nothing_but_abstentions_and_frames_of_nothing(spark):
    rows = [("t", 1, 7), ("t", 2, 7), ("u0", 1, None), ("u1", 1, None)]
    frame = spark.createDataFrame(rows, "task string, worker int, label bigint")
    result = adj.aggregate(frame, engine=SparkEngine(partitions=8))
    assert sorted(result.labels_frame().select("task", "label").rows()) == [("t", 7), ("u0", None), ("u1", None)]
    result.release()
    assert gather(frame.limit(0)).schema == {"task": pl.String, "worker": pl.Int64, "label": pl.Int64}
