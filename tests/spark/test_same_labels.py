"""Labels from Spark are those of the engine of this process: on real votes, on every model, on awkward shapes."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import contract
from adjudge.spark.votes import read
from same_fit import assert_same, fit

MAX_ITERATIONS = 4  # iterations: enough to see every phase, and soon over


@pytest.mark.parametrize("real_votes", ["labelme", "trec2010"], indirect=True)  # many labels, most votes
def test_real_votes(spark, engine, real_votes):
    near, far = adj.read(pl.read_csv(real_votes, infer_schema=False)), read(spark.read.csv(str(real_votes), header=True))
    for model in ("fds", "ds"):
        result = fit(far, model, engine=engine, max_iter=MAX_ITERATIONS)
        assert_same(result, fit(near, model, max_iter=MAX_ITERATIONS))
        result.release()


@pytest.mark.parametrize(
    ("name", "model"),
    [("anesthesia", "mv"), ("labelme", "hybrid"), ("anesthesia", "iwmv"), ("labelme", "one-coin"), ("anesthesia", "hybrid")],
)
def test_every_model(spark, engine, data_dir, name, model):
    limit = {} if model == "mv" else {"max_iter": MAX_ITERATIONS}
    path = data_dir / name / "votes.csv"
    far = fit(str(path), model, engine=engine, **limit)  # read by Spark, which must see numbers in text as we do
    near = fit(path, model, **limit)
    assert far.labels.schema["task"].dataType.typeName() == ("long" if near.votes.tasks.kind == "integer" else "string")
    assert_same(far, near)
    far.release()


CONTRACT = [
    ("every_task_gets_a_label", "ds"),
    ("every_task_gets_a_label", "iwmv"),
    ("the_smallest_inputs_work", "mv"),
    ("the_smallest_inputs_work", "fds"),
    ("the_smallest_inputs_work", "ds"),
    ("the_smallest_inputs_work", "auto"),
    ("abstentions_are_no_label", "fds"),
    ("ids_are_their_text", "fds"),
    ("many_labels_work", "fds"),
    ("long_tasks_do_not_underflow", "fds"),
]


@pytest.mark.parametrize(("check", "model"), CONTRACT)
def test_contract(spark, engine, check, model):
    contract.CHECKS[check](model, engine)


@pytest.mark.parametrize("model", ["ds"])
def test_a_worker_with_a_third_of_the_votes_and_a_task_with_a_million(spark, model, tmp_path):
    rng = np.random.default_rng(1)
    small, big = 60_000, 1_000_000
    task = np.concatenate([np.zeros(big, np.int64), rng.integers(1, 20_000, size=small)])
    worker = np.where(rng.random(big + small) < 1 / 3, 0, rng.integers(1, 300, size=big + small))
    label = np.where(rng.random(big + small) < 0.7, task % 3, rng.integers(3, size=big + small))
    pl.DataFrame({"task": task, "worker": worker, "label": label}).write_parquet(tmp_path / "votes.parquet")
    near = fit(tmp_path / "votes.parquet", model, max_iter=3)
    far = fit(spark.read.parquet(str(tmp_path / "votes.parquet")), model, max_iter=3)
    assert_same(far, near)
    assert far.labels.where("task = 0").first()["votes"] == big
    far.release()


@pytest.mark.parametrize("ties", ["hash", "prior"])
def test_ties_fall_alike(spark, engine, frame_of, ties):
    votes = [(f"t{n}", f"w{n % 5}", "ab"[n % 2]) for n in range(60)] + [(f"t{n}", f"w{n % 7}", "ba"[n % 2]) for n in range(60)]
    far = fit(frame_of(votes), "mv", engine=engine, ties=ties, seed=3)
    near = fit(votes, "mv", ties=ties, seed=3)
    assert near.ties > 20
    assert_same(far, near)


def test_stop_by_labels(spark, engine, frame_of):
    votes = adj.simulate(tasks=300, workers=20, labels=4, votes_per_task=3, skill=0.5, seed=2).votes
    assert_same(fit(frame_of(votes), "fds", engine=engine, stop="labels"), fit(votes, "fds", stop="labels"))
