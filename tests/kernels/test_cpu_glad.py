"""GLAD's compiled passes against the reference."""

import numpy as np
import pytest

from adjudge.kernels import methods_cpu as cpu
from adjudge.kernels import methods_reference as ref
from adjudge.kernels.cpu import compiled

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiled core")

LENGTHS = {
    "equal": lambda g, n: np.full(n, int(g.integers(1, 10))),
    "empty": lambda g, n: g.integers(0, 3, n),
    "long": lambda g, n: np.where(g.random(n) < 0.02, g.integers(30, 3000, n), g.integers(1, 9, n)),
}
SIZES = {"usual": (1.0, 1.0), "flat": (0.0, 1.0), "tiny": (1e-7, 1.0), "sure": (50.0, 1.5), "huge": (1e5, 4.0)}


class Case:
    def __init__(self, seed, tasks, workers, k, shape, size):
        g = np.random.default_rng(seed)
        spread, ease = SIZES[size]
        self.ptr = np.zeros(tasks + 1, np.int64)
        np.cumsum(LENGTHS[shape](g, tasks), out=self.ptr[1:])
        self.row = g.integers(0, workers * k, self.ptr[-1], dtype=np.uint32)
        self.row_worker = np.repeat(np.arange(workers, dtype=np.int32), k)
        self.row_label = np.tile(np.arange(k, dtype=np.int32), workers)
        self.ability, self.ease = g.normal(0, 1, workers) * spread, np.exp(g.normal(0, ease, tasks))
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(g.dirichlet(np.ones(k)) * (np.arange(k) != 1 if k > 2 else 1))
        self.others = np.log(max(k - 1, 1))
        self.key, self.names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (tasks, k))
        self.old, self.right = g.integers(0, k, tasks).astype(np.int32), g.random(self.ptr[-1])

    def expect(self, kernels, by_prior, threads):
        tasks, k = len(self.old), len(self.names)
        out = {
            "labels": self.old.copy(), "right": np.zeros(len(self.right)), "class_counts": np.ones(k),
            "confidence": np.zeros(tasks), "tie": np.zeros(tasks, bool), "posterior": np.zeros((tasks, k)),
        }  # fmt: skip
        given = self.ptr, self.row, self.row_worker, self.row_label, self.ability, self.ease
        sums = kernels.glad_expect(
            *given, self.log_prior, self.others, self.key, self.names, by_prior=by_prior, threads=threads, **out
        )
        return {**out, "log_likelihood": sums.log_likelihood, "changed": sums.changed}

    def gradient(self, kernels, threads):
        tasks, workers = len(self.ease), len(self.ability)
        out = {
            "by_worker": np.ones(workers), "by_task": np.zeros(tasks),
            "worker_curvature": np.ones(workers), "task_curvature": np.zeros(tasks),
        }  # fmt: skip
        value = kernels.glad_gradient(
            self.ptr, self.row, self.row_worker, self.ability, self.ease, self.right, self.others, threads=threads, **out
        )
        return {**out, "value": value}

    def compare(self, by_prior, threads):
        with np.errstate(over="raise", invalid="raise"):
            wanted = [self.expect(ref, by_prior, 1), self.gradient(ref, 1)]
        for want, got in zip(wanted, (self.expect(cpu, by_prior, threads), self.gradient(cpu, threads)), strict=True):
            for name, value in want.items():
                assert np.isfinite(got[name]).all(), name
                if name in ("labels", "tie", "changed"):
                    assert np.array_equal(got[name], value), name
                else:
                    # what is summed sets the scale of the rounding, not what is left of it
                    scale = np.maximum(1, np.abs(value)) * max(1.0, float(np.abs(self.ability).max(initial=0.0)))
                    assert (np.abs(got[name] - value) <= 1e-11 * scale * max(1.0, float(self.ease.max(initial=0.0)))).all(), name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", LENGTHS)
@pytest.mark.parametrize("k", [1, 2, 3, 8, 40])
def test_every_kind_of_votes(k, shape, size):
    Case([k, len(shape), len(size)], 300, 20, k, shape, size).compare(by_prior=k == 3, threads=3)


def test_many_pieces_and_no_bit_that_depends_on_threads():
    case = Case(1, 60_000, 200, 4, "equal", "usual")
    case.compare(by_prior=False, threads=4)
    one, four = ({**case.expect(cpu, False, n), **case.gradient(cpu, n)} for n in (1, 4))
    for name, value in one.items():
        assert np.array_equal(value, four[name]), name


def test_more_workers_than_votes_and_no_tasks_at_all():
    Case(2, 50, 5000, 3, "equal", "usual").compare(by_prior=False, threads=2)
    Case(3, 0, 4, 3, "equal", "usual").compare(by_prior=False, threads=2)


def test_part_of_the_votes():
    """A shard: positions are absolute, but figures of votes are local."""
    case = Case(4, 100, 10, 3, "long", "usual")
    cut = case.ptr[40]
    case.ptr, case.ease, case.key, case.old, case.right = (
        case.ptr[40:],
        case.ease[40:],
        case.key[40:],
        case.old[40:],
        case.right[cut:],
    )
    case.compare(by_prior=False, threads=2)


@pytest.mark.parametrize("name", ["ease", "right", "log_prior", "key", "row_worker"])
def test_wrong_shapes_are_refused(name):
    case = Case(5, 20, 4, 3, "equal", "usual")
    setattr(case, name, np.append(getattr(case, name), getattr(case, name)[:1]))
    with pytest.raises(ValueError, match="does not have the shape"):
        case.expect(cpu, False, 1)
