"""The compiled kernel of EBCC against its reference: weights, gold, fixed priors, and arrays that do not fit."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.kernels import methods_cpu, methods_reference
from adjudge.kernels.cpu import compiled
from adjudge.kernels.methods_reference import Priors, draw_start

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiled core")


def problem(k=3, seed=1):
    """Arguments of a kernel: votes with weights, some gold."""
    rng = np.random.default_rng(seed)
    votes = adj.read(adj.simulate(tasks=60, workers=9, labels=k, votes_per_task=4, seed=seed).votes)
    weight = rng.uniform(0.5, 2.0, votes.n_rows)
    shares = rng.dirichlet(np.ones(k), votes.n_tasks)
    gold = np.where(rng.random(votes.n_tasks) < 0.2, rng.integers(k, size=votes.n_tasks), -1).astype(np.int32)
    keys = rng.integers(2**63, size=votes.n_tasks).astype(np.uint64), rng.integers(2**63, size=k).astype(np.uint64)
    pair = np.arange(votes.n_rows)
    return [votes.task_ptr, votes.row, pair, weight, votes.row_label.copy(), votes.worker_ptr, shares, gold, *keys]


def run(kernel, given, priors, *, restarts=3, subtypes=4, max_iter=12, threads=2, first=0, tol=0.0):
    tasks, k = given[6].shape
    out = {
        "posterior": np.empty((restarts, tasks, k)),
        "bound": np.zeros((restarts, max_iter)),
        "changed": np.zeros((restarts, max_iter), np.int64),
        "iterations": np.zeros(restarts, np.int64),
    }
    kernel.ebcc(*given, subtypes=subtypes, first=first, priors=priors, tol=tol, threads=threads, **out)
    return out


FREE = Priors(4.0, 1.0, 0.1, np.array([3.0, 0.5, 1.0]))
FIXED = Priors(2.0, 0.5, 1.0, None, np.log([0.2, 0.3, 0.5]))
ONE_IS_NONE = Priors(4.0, 1.0, 0.1, None, np.array([-np.inf, np.log(0.4), np.log(0.6)]))  # yet gold has it


@pytest.mark.parametrize("priors", [FREE, FIXED, ONE_IS_NONE])
def test_compiled_and_reference_agree(priors):
    given = problem()
    ours, theirs = run(methods_cpu, given, priors), run(methods_reference, given, priors)
    assert ours["bound"] == pytest.approx(theirs["bound"], rel=1e-10)
    assert ours["posterior"] == pytest.approx(theirs["posterior"], abs=1e-8)
    assert (ours["changed"] == theirs["changed"]).all()
    assert (ours["iterations"] == theirs["iterations"]).all()
    gains = np.diff(ours["bound"], axis=1)
    assert (gains >= -1e-9 * np.abs(ours["bound"][:, 1:])).all()
    where = np.flatnonzero(given[7] >= 0)
    assert np.allclose(ours["posterior"][:, where, given[7][where]], 1.0)


def test_a_restart_is_the_same_alone_and_among_others():
    given = problem()
    every = run(methods_cpu, given, FREE, restarts=4, threads=3)
    alone = run(methods_cpu, given, FREE, restarts=1, threads=1, first=2)
    assert (every["posterior"][2] == alone["posterior"][0]).all()
    assert (every["bound"][2] == alone["bound"][0]).all()
    assert not np.allclose(every["bound"][0], every["bound"][1])


def test_it_stops_when_the_bound_settles():
    found = run(methods_cpu, problem(), FREE, max_iter=400, tol=1e-3)
    assert (found["iterations"] < 400).all()
    for bound, n in zip(found["bound"], found["iterations"], strict=True):
        assert bound[n - 1] - bound[n - 2] < 1e-3 <= bound[n - 2] - bound[n - 3]


def test_starts_divide_the_shares_evenly_at_random():
    given = problem()
    cells = draw_start(given[6], *given[8:], 5, 0).reshape(*given[6].shape, 5)
    assert cells.sum(axis=2) == pytest.approx(given[6])
    divided = cells / given[6][:, :, None]
    assert divided.mean(axis=(0, 1)) == pytest.approx(np.full(5, 0.2), abs=0.05)
    assert (divided**2).mean() == pytest.approx(2 / 30, abs=0.01)  # of a Dirichlet of five ones: 2 / (5 * 6)


@pytest.mark.parametrize("at", range(10))
def test_arrays_that_do_not_fit_are_refused(at):
    given = problem()
    wrong = given[at][:-1].copy() if at != 6 else given[at][:, :-1].copy()
    with pytest.raises(ValueError, match="does not have the shape"):
        run(methods_cpu, [*given[:at], wrong, *given[at + 1 :]], FREE)


def test_codes_out_of_range_are_refused():
    for at, value in ((1, 10**6), (2, 10**6), (4, 3), (7, 3)):
        given = problem()
        given[at] = given[at].copy()
        given[at][0] = value
        with pytest.raises(ValueError, match="does not have the shape"):
            run(methods_cpu, given, FREE)
