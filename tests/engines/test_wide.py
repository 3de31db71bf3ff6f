"""Many labels: counts by cells and tables in parts give what whole arrays give."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.data.wide import Cells
from adjudge.engines import local
from adjudge.kernels import cpu, reference

pytestmark = pytest.mark.skipif(cpu.compiled() is None, reason="the compiled core was not built")
SIZES = [  # tasks, votes per task, workers, labels, tasks with gold
    (300, 3, 40, 70, 0),
    (300, 4, 30, 120, 40),
    (250, 1, 60, 90, 0),
]


def crowd(tasks, per_task, workers, labels, seed=0):
    """Votes whose errors go to labels nearby, and the true labels."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, labels, tasks)
    task, worker = np.repeat(np.arange(tasks), per_task), draw.integers(0, workers, tasks * per_task)
    right = draw.random(len(task)) < draw.uniform(0.2, 0.9, workers)[worker]
    label = np.where(right, truth[task], (truth[task] + draw.integers(0, labels // 8, len(task))) % labels)
    return {"task": task, "worker": worker, "label": label}, truth


def numbers(frame):
    return frame.select(pl.selectors.numeric()).to_numpy().astype(np.float64)


@pytest.mark.parametrize("model", ["auto", "mv", "fds", "ds"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_answers_are_those_of_whole_arrays(size, model, monkeypatch):
    *crowd_of, gold_tasks = size
    columns, truth = crowd(*crowd_of)
    votes = adj.read(columns)
    gold = {str(t): int(truth[t]) for t in range(gold_tasks)} or None
    others = pl.DataFrame(crowd(*crowd_of, seed=1)[0]).filter(pl.col("label").is_in(votes.labels.ids()))
    results, predictions = [], []
    for is_wide in (True, False):
        if not is_wide:
            monkeypatch.setattr(local, "is_wide", lambda *_: False)
        results.append(adj.aggregate(votes, model=model, gold=gold))
        assert results[-1].session.is_wide == is_wide
        predictions.append(results[-1].predict(others))
    for one, other in (results, predictions):
        np.testing.assert_array_equal(one.fit.outcome.labels, other.fit.outcome.labels)
        np.testing.assert_array_equal(one.fit.outcome.tie, other.fit.outcome.tie)
        np.testing.assert_allclose(one.fit.outcome.confidence, other.fit.outcome.confidence, atol=1e-10)
        np.testing.assert_allclose(numbers(one.probabilities), numbers(other.probabilities), atol=1e-10)
        np.testing.assert_allclose(numbers(one.posterior), numbers(other.posterior), atol=1e-9)
        np.testing.assert_allclose(numbers(one.workers), numbers(other.workers), atol=1e-9)
    worker = votes.workers.ids()[0]
    np.testing.assert_allclose(*(numbers(result.confusion(worker)) for result in results), atol=1e-9)
    task = votes.tasks.ids()[0]
    first, second = (result.explain(task) for result in results)
    assert str(first) == str(second)


def test_the_answers_are_those_of_the_reference():
    votes = adj.read(crowd(200, 4, 30, 80)[0])
    fast, slow = (adj.aggregate(votes, engine=engine) for engine in ("cpu", "reference"))
    np.testing.assert_array_equal(fast.fit.outcome.labels, slow.fit.outcome.labels)
    np.testing.assert_array_equal(fast.fit.outcome.tie, slow.fit.outcome.tie)
    np.testing.assert_allclose(fast.fit.outcome.confidence, slow.fit.outcome.confidence, atol=1e-9)


def test_a_model_is_saved_and_loaded(tmp_path):
    votes = adj.read(crowd(200, 4, 30, 80)[0])
    fit = adj.aggregate(votes)
    fit.save(tmp_path / "fit.adjudge")
    loaded = adj.load(tmp_path / "fit.adjudge")
    for engine in ("cpu", "reference"):
        one, other = fit.predict(votes, engine=engine), loaded.predict(votes, engine=engine)
        np.testing.assert_array_equal(one.fit.outcome.labels, other.fit.outcome.labels)
        np.testing.assert_allclose(one.fit.outcome.confidence, other.fit.outcome.confidence, atol=1e-10)


def test_a_fit_continues_one_that_was_saved(tmp_path):
    votes = adj.read(crowd(200, 4, 30, 80)[0])
    fit = adj.aggregate(votes)
    for engine in ("cpu", "reference"):
        again = adj.aggregate(votes, warm_start=fit, engine=engine)
        assert (again.fit.outcome.labels == fit.fit.outcome.labels).mean() > 0.99


def test_ties_are_ties_between_twins():
    """Two votes for two labels that nobody else gave say the same of both."""
    pairs = [(f"t{i}", worker, label) for i in range(40) for worker, label in (("a", 2 * i), ("b", 2 * i + 1))]
    result = adj.aggregate(pairs)
    assert result.session.is_wide
    whole = adj.aggregate(pairs, engine="reference")
    np.testing.assert_array_equal(result.fit.outcome.labels, whole.fit.outcome.labels)
    np.testing.assert_array_equal(result.fit.outcome.tie, whole.fit.outcome.tie)


def test_cells_are_read_like_the_array_they_stand_for():
    draw = np.random.default_rng(2)
    array = draw.poisson(0.2, (50, 9)).astype(np.float64)
    cells = Cells.of(array)
    np.testing.assert_array_equal(cells, array)
    np.testing.assert_array_equal(cells[3:20], array[3:20])
    np.testing.assert_array_equal(cells[7], array[7])
    rows, labels = draw.integers(0, 50, 30), draw.integers(0, 9, 30)
    np.testing.assert_array_equal(cells[rows], array[rows])
    np.testing.assert_array_equal(cells[rows, labels], array[rows, labels])
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(cells.sum(axis), array.sum(axis))
    np.testing.assert_array_equal(cells.take(np.array([4, -1, 9])), np.stack([array[4], np.zeros(9), array[9]]))
    np.testing.assert_array_equal(cpu.merge_cells(cells, Cells.of(array[::-1]), 0.25, 2.0), 0.25 * array + 2.0 * array[::-1])


@pytest.mark.parametrize("threads", [1, 3])
def test_cells_are_counted_as_labels_are(threads):
    draw = np.random.default_rng(3)
    length = draw.integers(1, 5, 400)
    task_ptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    row, labels = draw.integers(0, 90, task_ptr[-1]).astype(np.uint32), draw.integers(0, 20, 400).astype(np.int32)
    counts, classes = np.zeros((90, 20), np.int64), np.zeros(20, np.int64)
    reference.recount_hard(task_ptr, row, labels, counts, classes)
    ptr, task = cpu.tasks_by_row(task_ptr, row, 90)
    cells = cpu.count_cells(ptr, task, labels, 20, threads)
    np.testing.assert_array_equal(cells, counts)
    shares = Cells.of(np.eye(20)[labels])
    np.testing.assert_array_equal(cpu.sum_cells(ptr, task, shares, threads), counts)


def test_codes_that_do_not_fit_are_refused():
    ptr, item = np.array([0, 2], np.int64), np.array([0, 5], np.int32)
    with pytest.raises(ValueError, match="label that does not exist"):
        cpu.count_cells(ptr, item, np.zeros(3, np.int32), 4)
    with pytest.raises(ValueError, match="do not divide"):
        cpu.count_cells(ptr + 1, item, np.zeros(9, np.int32), 4)
    with pytest.raises(ValueError, match="a row that does not exist"):
        cpu.tasks_by_row(np.array([0, 1], np.int64), np.array([9], np.uint32), 3)
