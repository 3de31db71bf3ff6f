"""Messages and pairs of workers: the compiled passes against the reference, bit by bit."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.kernels import methods_cpu as cpu
from adjudge.kernels import methods_reference as ref
from adjudge.kernels.cpu import compiled
from adjudge.models.kos import edges_of
from adjudge.models.mmsr import beyond_chance, casts_of

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiled core")


def crowd(seed, labels=2, tasks=300, workers=40, **more):
    return adj.read(adj.simulate(tasks=tasks, workers=workers, labels=labels, votes_per_task=4, seed=seed, **more).votes)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("threads", [1, 3])
def test_messages(size, threads):
    votes = crowd(1, workers=100)
    edges, g = edges_of(votes), np.random.default_rng(0)
    start = g.normal(0, size, len(votes)) * np.exp(g.normal(0, 9, len(votes)))
    found = []
    for kernels in (ref, cpu):
        x, y = np.zeros(len(votes)), np.zeros(len(votes))
        score, weight, total = np.zeros(votes.n_tasks), np.zeros(votes.n_tasks), np.zeros(votes.n_workers)
        most = kernels.kos_tasks(edges, start, to_worker=x, score=score, weight=weight, threads=threads)
        found.append((most, kernels.kos_workers(edges, x, to_task=y, total=total, threads=threads), x, y, score, weight, total))
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
    assert found[0][0] == np.abs(found[0][2]).max() > 0


@pytest.mark.parametrize("repeated", [False, True])
def test_pairs_and_ratios(repeated):
    votes = crowd(2, labels=3, workers=90, tasks=60)
    if repeated:
        votes = adj.read([(t, w % 7, (t * w) % 3) for t in range(40) for w in range(30)] + [(99, 8, 0)])
    casts, g = casts_of(votes), np.random.default_rng(1)
    one, two = ref.worker_pairs(casts), cpu.worker_pairs(casts, 3)
    for left, right in zip(one, two, strict=True):
        assert np.array_equal(left, right)
        assert left.dtype == right.dtype
    assert one.common.sum() > len(one.common) // 2
    size, workers = np.abs(beyond_chance(one, 3)), votes.n_workers
    for trim in (np.full(workers, -1), np.zeros(workers, np.int64), np.diff(one.ptr) // 4, np.diff(one.ptr)):
        of, own = np.where(g.random(workers) < 0.2, 0.0, g.random(workers)), g.random(workers)
        wanted, out = np.zeros(workers), np.zeros(workers)
        ref.trimmed_ratios(one, size, trim, of, own, out=wanted)
        cpu.trimmed_ratios(one, size, trim, of, own, out=out, threads=2)
        assert np.array_equal(wanted, out)


def test_names_of_workers_do_not_change_a_bit():
    votes = adj.simulate(tasks=100, workers=12, labels=2, votes_per_task=5, seed=3).votes
    renamed = votes.with_columns(worker=votes["worker"].str.reverse() + "!")
    for model, column in (("kos", "weight"), ("mmsr", "weight")):
        one = dict(adj.aggregate(votes, model, confidence="posterior").workers.select("worker", column).iter_rows())
        two = dict(adj.aggregate(renamed, model, confidence="posterior").workers.select("worker", column).iter_rows())
        assert one == {worker: two[worker[::-1] + "!"] for worker in one}


@pytest.mark.parametrize("broken", ["vote", "worker_ptr", "task_ptr"])
def test_indices_from_outside_are_checked(broken):
    edges = edges_of(crowd(4))
    wrong = getattr(edges, broken).copy()
    wrong[-1] += 1
    out = np.zeros(len(edges.sign))
    with pytest.raises(ValueError, match=broken):
        cpu.kos_workers(edges._replace(**{broken: wrong}), out.copy(), to_task=out, total=np.zeros(len(edges.worker_ptr) - 1))
