"""Honest confidence on a device is that of the reference kernels."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import WorkerBlock
from adjudge.gpu.engine import CudaEngine
from adjudge.gpu.passes import DeviceKernels
from adjudge.gpu.votes import LONG_TASK, label_type
from adjudge.kernels import reference as ref
from adjudge.models.honest import PSEUDO_VOTES_PER_WORKER, UNMEASURED_DEPENDENCE, Honest
from same_fit import assert_same, fit

CROWDS = {  # what random votes are made of
    "one label": {"labels": 1},
    "two labels": {"labels": 2, "tasks": 300},
    "four labels": {"labels": 4, "tasks": 200, "long_tasks": (LONG_TASK, 300)},
    "weights": {"labels": 4, "tasks": 140, "weights": True, "long_tasks": (LONG_TASK, 131)},
    "no votes on some": {"labels": 3, "votes": (0, 5)},
    "nearly long tasks": {"labels": 4, "tasks": 20, "votes": (LONG_TASK - 2, LONG_TASK)},
    "33 labels": {"labels": 33, "tasks": 30, "weights": True, "long_tasks": (200,)},
    "3000 labels": {"labels": 3000, "tasks": 5, "votes": (1, 3), "long_tasks": (129,)},
    "long tasks alone": {"labels": 4, "tasks": 3, "votes": (LONG_TASK, 2 * LONG_TASK + 5)},
    "no tasks": {"labels": 4, "tasks": 0},
    "no votes": {"labels": 4, "tasks": 3, "votes": (0, 0)},
}


@pytest.fixture(params=CROWDS)
def crowd(request, random_votes):
    return random_votes(seed=len(request.param), **CROWDS[request.param])


class Judged:
    """A crowd, lines of its votes and a rule: what honest kernels are handed, on the host and on a device."""

    def __init__(self, crowd, device, shared_error=0.2, holds=0.4):
        rng, k, rows = np.random.default_rng(7), crowd.n_labels, crowd.n_rows
        exists = np.ones(k, bool)
        exists[np.setdiff1d(np.arange(k), np.concatenate([crowd.row_label, crowd.labels]))[:1]] = False
        lines, without = (np.where(exists, np.log(rng.uniform(0.05, 1.0, (rows, k))), -np.inf) for _ in range(2))
        if crowd.row_weight is not None:
            with np.errstate(invalid="ignore"):
                lines, without = (one * crowd.row_weight[:, None] for one in (lines, without))
        with np.errstate(divide="ignore"):
            log_prior = np.where(exists, np.log(rng.uniform(0.1, 1.0, k)), -np.inf)
        self.crowd, self.kernels = crowd, DeviceKernels(device)
        self.rule = ref.HonestRule(log_prior, exists / exists.sum(), shared_error, holds)
        self.host = crowd.task_ptr, crowd.row, crowd.row_label, crowd.labels, lines, without, self.rule
        self.labels = device.upload(crowd.labels.astype(label_type(k)))
        there = crowd.layout(device), device.upload(crowd.row_label), self.labels
        self.there = *there, device.upload(lines), device.upload(without), self.rule
        self.weight = None if crowd.row_weight is None else device.upload(crowd.row_weight)


@pytest.mark.parametrize(("shared_error", "holds"), [(0.2, 0.4), (0.0, 1.0), (0.3, 0.0)])
def test_probabilities_are_those_of_the_reference(device, crowd, shared_error, holds):
    judged, rng = Judged(crowd, device, shared_error, holds), np.random.default_rng(3)
    tasks, k, rows = crowd.n_tasks, crowd.n_labels, crowd.n_rows
    wanted = rng.integers(0, k, tasks).astype(np.int32)
    start = {
        "confidence": np.full(tasks, np.nan),
        "tie": rng.random(tasks) < 0.2,
        "probabilities": np.full((tasks, k), np.nan),
        "answers": rng.integers(0, 99, rows),
        "doubts": rng.integers(0, 99, rows),
        "chance": np.full(tasks, np.nan),
    }
    right = {name: one.copy() for name, one in start.items()}
    ref.honest_pass(*judged.host, row_weight=crowd.row_weight, wanted=wanted, **right)
    out = {name: device.upload(one) for name, one in start.items()}
    asked = device.upload(wanted.astype(label_type(k)))
    judged.kernels.honest_pass(*judged.there, row_weight=judged.weight, wanted=asked, **out)
    found = {name: device.download(one) for name, one in out.items()}
    for name in ("confidence", "probabilities", "chance"):
        np.testing.assert_allclose(found[name], right[name], rtol=0, atol=1e-12, err_msg=name)
    for name in ("tie", "answers", "doubts"):
        assert np.array_equal(found[name], right[name]), name


def test_what_is_not_asked_for_is_not_needed(device, random_votes):
    for labels in (4, 33):
        judged = Judged(random_votes(labels=labels, long_tasks=(140,)), device)
        confidence = device.upload(np.zeros(judged.crowd.n_tasks))
        right = np.zeros(judged.crowd.n_tasks)
        judged.kernels.honest_pass(*judged.there)
        judged.kernels.honest_pass(*judged.there, confidence=confidence)
        ref.honest_pass(*judged.host, confidence=right)
        np.testing.assert_allclose(device.download(confidence), right, rtol=0, atol=1e-12)


def test_labels_that_are_as_likely_are_tied(device, random_votes):
    for labels in (2, 33):
        crowd = random_votes(tasks=6, labels=labels, votes=(2, 4))
        judged = Judged(crowd, device, holds=1.0)
        crowd.row_label[:] = np.arange(crowd.n_rows) % 2  # rows say the same of both labels, and votes may be as many for each
        flat, even = np.zeros((crowd.n_rows, labels)), ref.HonestRule(np.zeros(labels), np.full(labels, 1 / labels), 0.1, 1.0)
        there = *judged.there[:1], device.upload(crowd.row_label), judged.labels, device.upload(flat), device.upload(flat), even
        right, tie = np.zeros(6, bool), device.upload(np.zeros(6, bool))
        ref.honest_pass(*judged.host[:2], crowd.row_label, crowd.labels, flat, flat, even, tie=right)
        judged.kernels.honest_pass(*there, tie=tie)
        assert np.array_equal(device.download(tie), right)
        assert right.any()


@pytest.mark.parametrize("bits", [30, 50])
def test_what_the_others_say_of_answers(device, crowd, bits):
    judged, unit = Judged(crowd, device), 2.0**-bits
    right = np.random.default_rng(0).integers(0, 9, (4, crowd.n_rows))
    sums = device.upload(right)
    ids = device.upload(crowd.row_worker), device.upload(crowd.worker_ptr)
    ref.below_chance(*judged.host, crowd.row_worker, crowd.worker_ptr, unit, right, row_weight=crowd.row_weight)
    judged.kernels.below_chance(*judged.there, *ids, unit, sums, row_weight=judged.weight)
    found = device.download(sums)
    assert np.array_equal(found[0], right[0])
    if bits == 30:  # larger than what exponentials of two libraries differ by
        assert np.array_equal(found, right)
    np.testing.assert_allclose(found[1:] * unit, right[1:] * unit, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("quantities", [0, 1, 2])
def test_sums_over_pairs_of_votes(device, crowd, quantities):
    judged, k = Judged(crowd, device), crowd.n_labels
    values = np.random.default_rng(1).normal(size=(quantities, 2, crowd.n_rows))
    args = crowd.task_ptr, crowd.row, crowd.row_label, crowd.labels
    right = ref.pair_sums(*args, values, k, row_weight=crowd.row_weight)
    size = ref.pair_sums(*args, np.abs(values), k, row_weight=crowd.row_weight)  # sum of magnitudes: signs may cancel
    there = *judged.there[:3], device.upload(values), k
    found = judged.kernels.pair_sums(*there, row_weight=judged.weight)
    np.testing.assert_array_less(np.abs(found - right), 1e-12 * size + 1e-12)
    assert np.array_equal(found, judged.kernels.pair_sums(*there, row_weight=judged.weight))  # to the last bit


def test_a_vote_is_not_a_pair_with_itself(device, random_votes):
    for labels in (4, 33):
        crowd = random_votes(labels=labels, votes=(1, 1))
        judged = Judged(crowd, device)
        values = device.upload(np.ones((1, 2, crowd.n_rows)))
        assert not judged.kernels.pair_sums(*judged.there[:3], values, labels).any()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 99),
    labels=st.sampled_from([2, 4, 33]),
    tasks=st.integers(1, 140),
    votes=st.tuples(st.integers(0, 2), st.integers(3, 12)),
    weights=st.booleans(),
    shared_error=st.floats(0, 1),
    holds=st.floats(0, 1),
)
def test_probabilities_of_any_crowd(emulated, random_votes, seed, labels, tasks, votes, weights, shared_error, holds):
    crowd = random_votes(seed, tasks, labels=labels, votes=votes, weights=weights)
    judged = Judged(crowd, emulated, shared_error, holds)
    found, right = np.zeros((tasks, labels)), np.zeros((tasks, labels))
    ref.honest_pass(*judged.host, row_weight=crowd.row_weight, probabilities=right)
    judged.kernels.honest_pass(*judged.there, row_weight=judged.weight, probabilities=found)
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("labels", [1, 4, 33])
def test_lines_are_those_of_honest_confidence(device, random_votes, labels, kind):
    crowd, rng = random_votes(tasks=40, labels=labels), np.random.default_rng(2)
    counts = rng.integers(0, 5, (crowd.n_rows, labels)).astype(kind)
    if kind is np.float64:
        counts += np.where(counts > 0, rng.random(counts.shape) - 0.9, 0.0)  # some cells have less than one vote
    exists = np.ones(labels, bool)
    exists[1:2] = labels < 4
    population = rng.dirichlet(np.ones(labels), labels).T + 1e-4
    rule = ref.HonestRule(np.zeros(labels), exists / exists.sum(), 0.0, 1.0)
    workers, names = (Vocabulary.of(list(range(n))) for n in (len(crowd.worker_ptr) - 1, labels))
    panel = WorkerRows(worker_ptr=crowd.worker_ptr, row_label=crowd.row_label, workers=workers, labels=names)
    right = Honest(rule, population, UNMEASURED_DEPENDENCE).lines(WorkerBlock(panel, lambda: None, None, None), counts)
    there = (device.upload(one) for one in (counts, crowd.worker_ptr, crowd.row_worker, crowd.row_label))
    found = DeviceKernels(device).honest_lines(*there, population, exists, PSEUDO_VOTES_PER_WORKER)
    for one, wanted in zip(found, right, strict=True):
        np.testing.assert_allclose(device.download(one), wanted, rtol=1e-13, atol=1e-13)


def test_no_rows_have_no_lines(device):
    empty = [
        device.upload(one)
        for one in (np.zeros((0, 3), np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))
    ]
    lines, without = DeviceKernels(device).honest_lines(*empty, np.ones((3, 3)), np.ones(3, bool), PSEUDO_VOTES_PER_WORKER)
    assert lines.shape == without.shape == (0, 3)


@pytest.mark.parametrize("model", ["mv", "fds", "ds"])
@pytest.mark.parametrize("what", ["long task", "weights", "gold", "many labels"])
def test_confidence_and_verdicts_of_fits_are_those_of_the_processor(device, what, model):
    labels = 34 if what == "many labels" else 3
    some = adj.simulate(tasks=40, workers=10, labels=labels, votes_per_task=5, seed=5, skill=0.6, adversaries=0.3)
    frame, how = some.votes, {"gold": dict(some.truth.head(9).iter_rows())} if what == "gold" else {}
    if what == "long task":
        tall = {"task": "tall", "worker": [f"x{i % 70}" for i in range(200)], "label": [f"l{i % 3}" for i in range(200)]}
        frame = pl.concat([frame.select(pl.all().cast(pl.String)), pl.DataFrame(tall)])
    weight = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(frame))
    frame = frame.with_columns(weight=weight) if what == "weights" else frame
    votes = adj.read(frame, weight="weight") if what == "weights" else adj.read(frame)
    engine = CudaEngine((device,), kernels=DeviceKernels, threads=1)
    far, near = (fit(votes, model, engine=one, **how) for one in (engine, "cpu"))
    assert_same(far, near)
    ours, theirs = (one.workers_frame(trust=True) for one in (far, near))
    assert ours.columns == theirs.columns
    for name in theirs.columns:
        if theirs[name].dtype.is_float():
            np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy(), atol=1e-6, err_msg=name)
        else:
            assert ours[name].equals(theirs[name]), name
