"""The first pass of LA: the compiled kernel equals the reference to the last bit."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.kernels import methods_cpu, methods_reference
from adjudge.kernels.cpu import compiled


def arguments(votes, rng):
    tasks, k = votes.n_tasks, votes.n_labels
    return [
        votes.task_ptr,
        votes.row,
        votes.row_worker(),
        votes.row_label,
        rng.permutation(tasks),
        rng.integers(2**63, size=tasks).astype(np.uint64),
        rng.integers(2**63, size=k).astype(np.uint64),
    ]


@pytest.mark.skipif(compiled() is None, reason="the core was not built")
@pytest.mark.parametrize("known", ["nothing", "gold", "weights", "tie_weights"])
def test_equal(known):
    rng = np.random.default_rng(3)
    votes = adj.read(adj.simulate(tasks=200, workers=12, labels=4, votes_per_task=3, skill=0.5, seed=6).votes)
    given = arguments(votes, rng)
    more = {
        "nothing": {},
        "gold": {"gold": rng.integers(-3, 4, votes.n_tasks).astype(np.int32)},
        "weights": {"row_weight": rng.choice([0.5, 1.0, 2.0], votes.n_rows)},
        "tie_weights": {"tie_weights": rng.integers(2, size=4).astype(np.float64)},
    }[known]
    out = []
    for kernels in (methods_reference, methods_cpu):
        right, total, labels = np.ones(votes.n_workers), np.full(votes.n_workers, 2.0), np.zeros(votes.n_tasks, np.int32)
        kernels.light_pass(*given, right, total, labels, **more)
        out.append((right.tolist(), total.tolist(), labels.tolist()))
    assert out[0] == out[1]
    assert sum(out[0][1]) > 600


@pytest.mark.skipif(compiled() is None, reason="the core was not built")
def test_wrong_codes_are_refused():
    votes = adj.read([("t", "a", "x"), ("u", "b", "y")])
    given = arguments(votes, np.random.default_rng(1))
    out = np.ones(2), np.full(2, 2.0), np.zeros(2, np.int32)
    for at, wrong in (
        (1, np.array([0, 9], np.uint32)),
        (2, np.array([0, 5])),
        (3, np.array([0, 7], np.int32)),
        (4, np.array([0, 2])),
    ):
        bad = [*given[:at], wrong, *given[at + 1 :]]
        with pytest.raises(ValueError, match="row|order"):
            methods_cpu.light_pass(*bad, *out)
