"""A fit never takes more device memory than its estimate."""

import pytest

import adjudge as adj
from adjudge.gpu import glad, plan
from adjudge.gpu.engine import CudaEngine
from adjudge.gpu.plan import FitSize
from gpu.strict import Allocations, StrictDevice

CROWDS = {
    "many rows": {"tasks": 100, "workers": 200, "labels": 4, "votes_per_task": 20},
    "many labels": {"tasks": 150, "workers": 30, "labels": 20, "votes_per_task": 6},
    "many tasks": {"tasks": 2000, "workers": 10, "labels": 3, "votes_per_task": 4},
}


def estimate(votes):
    """Return the bytes that a plan has for the votes, as few as it can have: in one shard."""
    size = FitSize(len(votes), votes.n_tasks, votes.n_rows, votes.n_labels, votes.n_workers)
    per_task = size.per_label() + size.per_work() + plan.DEVICE_BYTES_PER_TASK + size.per_out()
    return size.tables() + plan.DEVICE_BYTES_PER_VOTE * len(votes) + per_task * votes.n_tasks + plan.DEVICE_BYTES_PER_TASK


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("model", ["mv", "fds", "ds", "auto", "iwmv"])
def test_fits(model, crowd):
    votes, engine = adj.read(adj.simulate(**CROWDS[crowd], seed=1).votes), CudaEngine((StrictDevice(),), threads=1)
    with Allocations() as taken:
        result = adj.aggregate(votes, model=model, engine=engine)
        assert len(result.workers)
        assert len(result.probabilities)
    assert 4 * len(votes) < taken.peak <= estimate(votes)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
def test_glad(crowd, monkeypatch):
    monkeypatch.setattr(glad, "WIDE_CELLS", 1 << 12)  # room for warps, which would be more than all of these votes take
    votes, engine = adj.read(adj.simulate(**CROWDS[crowd], seed=1).votes), CudaEngine((StrictDevice(),), threads=1)
    with Allocations() as taken:
        adj.GLAD(max_iter=3).fit(votes, engine=engine)
    sizes = len(votes), votes.n_tasks, votes.n_workers, votes.n_rows, votes.n_labels
    assert taken.peak <= estimate(votes) + glad.glad_bytes(*sizes) < 10 * taken.peak
