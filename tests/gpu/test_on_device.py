"""What is promised of a CUDA device, on one: the contract, the same labels on real votes, and on large simulated crowds."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.gpu.device import device_at, device_count
from adjudge.gpu.engine import CudaEngine
from adjudge.gpu.passes import DeviceKernels
from adjudge.io.sources import is_device_source
from adjudge.models.base import MODELS
from conftest import SETS
from contract import CHECKS
from gpu.large import large_votes
from same_fit import assert_same, fit

pytestmark = pytest.mark.skipif(not device_count(), reason="no CUDA device")
THERE = tuple(name for name in MODELS if MODELS[name].place != "memory")  # others ask for all votes in memory


@pytest.mark.parametrize("model", THERE)
@pytest.mark.parametrize("check", CHECKS)
def test_cuda_contract(check, model):
    CHECKS[check](model, "cuda")


@pytest.mark.parametrize("model", ["mv", "fds", "ds", "hybrid", "one-coin", "iwmv", "auto"])
@pytest.mark.parametrize("name", SETS)
def test_cuda_on_real_votes(data_dir, name, model):
    votes = adj.read(pl.read_csv(data_dir / name / "votes.csv", infer_schema=False))
    for confidence in ("posterior", "honest"):
        far, near = (fit(votes, model, engine=engine, confidence=confidence) for engine in ("cuda", "cpu"))
        assert_same(far, near)


CROWDS = {
    "2 labels": {"labels": 2},
    "4 labels": {"labels": 4, "each": 5},
    "32 labels": {"labels": 32},
    "skewed workers": {"labels": 4, "skew": True},
    "long tasks": {"labels": 4, "longest": 100_000},
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_cuda_on_twenty_million_votes(crowd):
    votes = large_votes(20_000_000, **CROWDS[crowd])
    for model in ("mv", "fds", "auto", "ds"):
        far, near = (
            MODELS[model]().fit(votes, engine=engine, trace="light", confidence="posterior")
            if model != "ds"
            else adj.DawidSkene(max_iter=8).fit(votes, engine=engine, confidence="posterior")
            for engine in ("cuda", "cpu")
        )
        if model == "ds":
            assert np.abs(far.fit.outcome.confidence - near.fit.outcome.confidence).max() < 1e-6
        assert np.array_equal(far.fit.outcome.labels, near.fit.outcome.labels), model


@pytest.fixture(scope="module")
def two_million():
    return large_votes(2_000_000, labels=4)


@pytest.mark.parametrize("model", ["mv", "fds", "auto"])
def test_cuda_streams_votes_that_do_not_fit(two_million, model):
    engine = CudaEngine((device_at(0),), memory=40_000_000)  # tables, labels, and a part of the votes
    far, near = (MODELS[model]().fit(two_million, engine=place, confidence="honest") for place in (engine, "cpu"))
    assert far.session._store.is_streamed
    assert np.array_equal(far.fit.outcome.labels, near.fit.outcome.labels)
    assert np.allclose(far.fit.outcome.confidence, near.fit.outcome.confidence, atol=1e-9)


class NarrowKernels(DeviceKernels):
    """Costs of one byte, for fewer votes as well."""

    min_narrow_votes = 0


@pytest.mark.parametrize("each", [5, 7, 8])
@pytest.mark.parametrize("labels", [2, 4, 16])
def test_cuda_costs_of_one_byte(labels, each):
    votes = large_votes(1_000_000, labels=labels, each=each)
    engine = CudaEngine((device_at(0),), kernels=NarrowKernels)
    far, near = (adj.FastDawidSkene().fit(votes, engine=place, trace="light") for place in (engine, "cpu"))
    assert np.array_equal(far.fit.outcome.labels, near.fit.outcome.labels)


@pytest.mark.parametrize("model", ["mv", "fds", "ds"])
def test_cuda_in_two_places(two_million, model):
    engine = CudaEngine((device_at(0), device_at(0)))
    far, near = (MODELS[model]().fit(two_million, engine=place, confidence="posterior") for place in (engine, "cpu"))
    assert np.array_equal(far.fit.outcome.labels, near.fit.outcome.labels)


@pytest.mark.parametrize("library", ["torch", "cupy", "jax.numpy"])
def test_cuda_takes_tensors_and_gives_them_back(library):
    arrays = pytest.importorskip(library)
    crowd = adj.simulate(tasks=3000, workers=40, labels=4, votes_per_task=5, seed=1)
    columns = {name: crowd.votes[name].str.slice(1).cast(pl.Int64).to_numpy() for name in ("task", "worker", "label")}
    if library == "torch":
        there = {name: arrays.tensor(one, device="cuda") for name, one in columns.items()}
    else:
        there = {name: arrays.asarray(one) for name, one in columns.items()}
    if not is_device_source(there):
        pytest.skip(f"{library} has no CUDA device")
    for model in ("mv", "fds", "auto"):
        far, near = adj.aggregate(there, model=model), adj.aggregate(columns, model=model)
        assert far.votes.engine == "cuda"
        codes = far.labels_array
        assert np.array_equal(codes.get(), near.fit.outcome.labels)
        if library == "torch":
            assert arrays.from_dlpack(codes).device.type == "cuda"
        assert far.labels.equals(near.labels) or np.allclose(far.labels["confidence"], near.labels["confidence"])
        assert far.labels.drop("confidence").equals(near.labels.drop("confidence"))
