"""The kernels that read the weight of a row: compiled against the definition, and weights of 1 against none."""

import numpy as np
import pytest

from adjudge.data.exact import LOG_UNIT, unit_below
from adjudge.kernels import cpu, reference

pytestmark = pytest.mark.skipif(cpu.compiled() is None, reason="the compiled core was not built")


def votes(seed, tasks=400, workers=40, k=3, per_task=5, low=1e-6, high=1e6):
    """Random votes whose rows are (worker, label, weight), and the kernels' other inputs."""
    draw = np.random.default_rng(seed)
    rows = workers * k * 4
    row_label = draw.integers(0, k, rows).astype(np.int32)
    row_weight = np.exp(draw.uniform(np.log(low), np.log(high), rows))
    row_weight = np.rint(row_weight * 2**40) / 2**40
    task_ptr = np.concatenate([[0], np.cumsum(draw.integers(1, 2 * per_task, tasks))]).astype(np.int64)
    row = draw.integers(0, rows, task_ptr[-1]).astype(np.uint32)
    keys = draw.integers(0, 2**63, tasks).astype(np.uint64), draw.integers(0, 2**63, k).astype(np.uint64)
    return task_ptr, row, row_label, row_weight, keys


def majority(kernels, given, *, soft, fine, weights, threads=1):
    task_ptr, row, row_label, _, keys = given
    tasks, k, rows = len(task_ptr) - 1, len(keys[1]), len(row_label)
    out = {
        "labels": np.zeros(tasks, np.int32),
        "confidence": np.zeros(tasks),
        "tie": np.zeros(tasks, np.bool_),
        "posterior": np.zeros((tasks, k)),
        "counts": np.zeros((rows, k), np.float64 if soft else np.int64),
        "class_counts": np.zeros(k, np.float64 if soft else np.int64),
    }
    unit = max(LOG_UNIT, unit_below(len(row)))
    if soft:
        out |= {"class_rest": np.zeros(k), "unit": unit} | ({"rest": np.zeros((rows, k))} if fine else {})
    kernels.majority(task_ptr, row, row_label, *keys, tie_weights=None, soft=soft, row_weight=weights, threads=threads, **out)
    if soft:
        kernels.restore_counts(out["counts"], out.pop("rest", None), out.pop("unit"))
        out.pop("class_counts"), out.pop("class_rest")
    return out


@pytest.mark.parametrize("k", [2, 5, 30])
@pytest.mark.parametrize(("soft", "fine"), [(False, False), (True, False), (True, True)])
def test_majority(soft, fine, k):
    for seed, bounds in ((1, (0.1, 2.0)), (2, (1e-6, 1e6)), (3, (0.5, 0.5))):
        given = votes(seed, k=k, low=bounds[0], high=bounds[1])
        want = majority(reference, given, soft=soft, fine=fine, weights=given[3])
        for threads in (1, 3):
            got = majority(cpu, given, soft=soft, fine=fine, weights=given[3], threads=threads)
            for name, array in want.items():
                assert np.array_equal(got[name], array), name


@pytest.mark.parametrize("kernels", [cpu, reference])
@pytest.mark.parametrize("soft", [False, True])
def test_weights_of_one_are_not_weights(kernels, soft):
    given = votes(4)
    plain, ones = (majority(kernels, given, soft=soft, fine=soft, weights=w) for w in (None, np.ones(len(given[2]))))
    for name, array in plain.items():
        assert np.array_equal(ones[name], array), name


def test_labels_of_equal_weight_tie_in_any_order():
    weight = np.rint(np.array([0.1, 0.2, 0.3, 0.6]) * 2**40) / 2**40
    weight[3] = weight[:3].sum()
    row_label = np.array([0, 0, 0, 1], np.int32)
    keys = np.arange(6, dtype=np.uint64), np.arange(2, dtype=np.uint64)
    orders = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2], [3, 0, 1, 2], [2, 1, 0, 3]], np.uint32)
    given = np.arange(0, 25, 4), orders.ravel(), row_label, weight, keys
    for kernels in (cpu, reference):
        found = majority(kernels, given, soft=False, fine=False, weights=weight)
        assert found["tie"].all()
        assert (found["posterior"] == 0.5).all()


def test_pair_sums():
    for seed, threads in ((1, 1), (2, 3)):
        task_ptr, row, row_label, weight, keys = votes(seed, tasks=30_000, low=0.1, high=4.0)
        draw = np.random.default_rng(seed)
        labels = draw.integers(0, len(keys[1]), len(task_ptr) - 1).astype(np.int32)
        values = draw.normal(size=(2, 2, len(row_label)))
        args = task_ptr, row, row_label, labels, values, len(keys[1])
        got, want = (kernels.pair_sums(*args, row_weight=weight, threads=threads) for kernels in (cpu, reference))
        assert got == pytest.approx(want, rel=1e-9)
        plain, ones = (cpu.pair_sums(*args, row_weight=w, threads=threads) for w in (None, np.ones(len(weight))))
        assert np.array_equal(plain, ones)
        sizes = np.diff(task_ptr)
        assert plain[-1] == (sizes * (sizes - 1)).sum()


def test_honest_pass():
    task_ptr, row, row_label, weight, keys = votes(5, low=0.01, high=4.0)
    draw = np.random.default_rng(5)
    tasks, k, rows = len(task_ptr) - 1, len(keys[1]), len(row_label)
    labels = draw.integers(0, k, tasks).astype(np.int32)
    lines, without = (np.log(draw.uniform(0.05, 1.0, (rows, k))) * weight[:, None] for _ in range(2))
    rule = reference.HonestRule(np.log(np.full(k, 1 / k)), np.full(k, 1 / k), 0.2, 0.7)
    found = []
    for kernels, given in ((cpu, weight), (reference, weight), (cpu, None), (cpu, np.ones(rows))):
        out = {
            "confidence": np.zeros(tasks),
            "tie": np.zeros(tasks, np.bool_),
            "probabilities": np.zeros((tasks, k)),
            "answers": np.zeros(rows, np.int64),
            "doubts": np.zeros(rows, np.int64),
            "wanted": (labels + 1) % k,
            "chance": np.zeros(tasks),
        }
        kernels.honest_pass(task_ptr, row, row_label, labels, lines, without, rule, row_weight=given, **out)
        found.append(out)
    assert found[0]["probabilities"] == pytest.approx(found[1]["probabilities"], abs=1e-12)
    assert found[0]["chance"] == pytest.approx(found[1]["chance"], abs=1e-12)
    assert not np.allclose(found[0]["chance"], found[2]["chance"])
    assert np.abs(found[0]["answers"] - found[1]["answers"]).max() <= len(row)
    assert not np.allclose(found[0]["probabilities"], found[2]["probabilities"])
    for name in found[2]:
        assert np.array_equal(found[2][name], found[3][name]), name


def test_below_chance():
    task_ptr, row, row_label, weight, keys = votes(6, low=0.01, high=4.0)
    draw = np.random.default_rng(6)
    k, rows, unit = len(keys[1]), len(row_label), 2.0**-40
    labels = draw.integers(0, k, len(task_ptr) - 1).astype(np.int32)
    lines, without = (np.log(draw.uniform(0.05, 1.0, (rows, k))) * weight[:, None] for _ in range(2))
    rule = reference.HonestRule(np.log(np.full(k, 1 / k)), np.full(k, 1 / k), 0.2, 0.7)
    worker_ptr = np.arange(0, rows + 1, 12)
    row_worker = np.repeat(np.arange(len(worker_ptr) - 1), 12)
    found = []
    for kernels, given, threads in (
        (cpu, weight, 1),
        (reference, weight, 1),
        (cpu, weight, 3),
        (cpu, None, 1),
        (cpu, np.ones(rows), 1),
    ):
        sums = np.zeros((4, rows), np.int64)
        args = task_ptr, row, row_label, labels, lines, without, rule, row_worker, worker_ptr, unit, sums
        kernels.below_chance(*args, row_weight=given, threads=threads)
        found.append(sums)
    several = np.repeat(np.diff(task_ptr) > 1, np.diff(task_ptr))
    assert np.array_equal(found[0][0], np.bincount(row[several], minlength=rows))  # answers count once, with any weight
    assert np.abs(found[0] - found[1]).max() * unit < 1e-9
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[3], found[4])
    assert np.abs(found[0] - found[3]).max() * unit > 0.01
