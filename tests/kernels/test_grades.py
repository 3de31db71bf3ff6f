"""The fit of judges of grades: its one maximum, the compiled twin, and judges whose votes say little."""

import numpy as np
import pytest

import oracle_ordinal as oracle
from adjudge.kernels import grades_reference, methods_cpu
from adjudge.kernels.cpu import compiled


def some_judges(k, seed, workers=12):
    """Return given grades, counts and pointers of judges who gave some of the grades, a few votes or many."""
    rng = np.random.default_rng(seed)
    given = [np.sort(rng.choice(k, rng.integers(1, k + 1), replace=False)) for _ in range(workers)]
    ptr = np.concatenate([[0], np.cumsum([len(one) for one in given])])
    counts = rng.gamma(0.4, rng.choice([0.1, 5.0, 500.0], (ptr[-1], 1)), (ptr[-1], k)) * (rng.random((ptr[-1], k)) < 0.7)
    return np.concatenate(given), counts, ptr


@pytest.mark.parametrize("k", [1, 2, 3, 5, 17])
def test_the_compiled_twin_finds_the_same_judges(k):
    if compiled() is None:
        pytest.skip("no compiled core")
    votes = some_judges(k, seed=k, workers=60)
    for ours, theirs in zip(methods_cpu.fit_judges(*votes, threads=2), grades_reference.fit_judges(*votes), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-7)


def test_judges_are_those_of_a_naive_fit():
    k = 4
    given, counts, ptr = some_judges(k, seed=1, workers=6)
    judges, log_prior = grades_reference.fit_judges(given, counts, ptr)
    for worker, rows in enumerate(zip(ptr[:-1], ptr[1:], strict=True)):
        cells = {(given[r] + 1, c + 1): counts[r, c] for r in range(*rows) for c in range(k)}
        naive = oracle.fitted(cells, k)
        assert judges[worker] == pytest.approx(naive, abs=2e-5)  # which is as near as SciPy comes
        assert log_prior[worker] == pytest.approx(oracle.log_prior(judges[worker]))


def test_lines_are_probabilities():
    k, judges = 5, np.array([[2.0, 2.0, 0.0], [0.3, -1.0, 2.0], [9.0, 8.0, -30.0]])
    for judge in judges:
        lines = np.exp(grades_reference.judge_lines(np.tile(judge, (k, 1)), np.arange(k), k))
        assert lines.sum(axis=0) == pytest.approx(np.ones(k))
        naive = [[oracle.chance(judge, given + 1, true + 1, k) for true in range(k)] for given in range(k)]
        assert lines == pytest.approx(np.array(naive), rel=1e-6, abs=1e-12)


def test_judges_do_not_depend_on_who_is_fitted_beside_them(monkeypatch):
    given, counts, ptr = some_judges(3, seed=4, workers=30)
    whole, _ = grades_reference.fit_judges(given, counts, ptr)
    monkeypatch.setattr(grades_reference, "GRADE_CHUNK_CELLS", 1)  # one judge at a time
    alone, _ = grades_reference.fit_judges(given, counts, ptr)
    assert np.abs(whole - alone).max() < 1e-9


@pytest.mark.parametrize(("given", "votes"), [(0, 1e6), (2, 1e6), (1, 1e6), (1, 1e-9), (1, 0.0)])
def test_a_judge_who_always_says_the_same_is_a_judge(given, votes):
    judges, _ = grades_reference.fit_judges(np.array([given]), np.full((1, 3), votes), np.array([0, 1]))
    assert np.isfinite(judges).all()
    assert judges[0, 0] > 0
    lines = np.exp(grades_reference.judge_lines(judges, np.array([given]), 3))[0]
    assert np.ptp(lines) < 1e-3 or votes < 1  # nothing is learned from such a vote
