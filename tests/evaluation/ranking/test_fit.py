"""Strengths are those of maximum likelihood, with judges those of the penalised one, and both engines agree."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

import adjudge as adj
import oracle_ranking as oracle
from adjudge.errors import InputError
from adjudge.evaluation.ranking import information as of_information
from adjudge.evaluation.ranking.errors import errors
from adjudge.evaluation.ranking.fit import fit, problem_of
from adjudge.evaluation.ranking.tournament import Tournament, components, has_maximum


def drawn(seed, items=7, games=150, judges=1, ties=0.2):
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=items)
    left = rng.integers(0, items, games)
    right = (left + rng.integers(1, items, games)) % items
    outcome = (rng.random(games) < 1 / (1 + np.exp(strength[right] - strength[left]))).astype(float)
    outcome[rng.random(games) < ties] = 0.5
    return left, right, outcome, rng.integers(0, judges, games)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ties", [0.0, 0.3])
def test_strengths_are_those_of_a_naive_maximum_likelihood_fit(seed, ties):
    left, right, outcome, _ = drawn(seed, ties=ties)
    expected = oracle.strengths(list(zip(left.tolist(), right.tolist(), outcome.tolist(), strict=True)))
    found = fit(problem_of(Tournament.of(left, right, outcome), position=False, judges=False))
    assert found.converged
    np.testing.assert_allclose(found.estimates.strength, [expected[i] for i in range(7)], atol=1e-6)


def test_conjugate_gradients_give_the_same_strengths(monkeypatch):
    left, right, outcome, judge = drawn(3, items=30, games=900, judges=4)
    t = Tournament.of(left, right, outcome, judge)
    exact = [fit(problem_of(t, position=True, judges=judges, prior=1.0)) for judges in (False, True)]
    monkeypatch.setattr(of_information, "MAX_EXACT", 5)
    for one, judges in zip(exact, (False, True), strict=True):
        other = fit(problem_of(t, position=True, judges=judges, prior=1.0))
        np.testing.assert_allclose(other.parameters, one.parameters, atol=1e-7)


def test_the_joint_maximum_is_that_of_a_naive_penalised_fit():
    left, right, outcome, judge = drawn(5, items=4, games=160, judges=3)
    t = Tournament.of(left, right, outcome, judge)
    found = fit(problem_of(t, position=True, judges=True, prior=1.0))
    games = list(zip(left.tolist(), right.tolist(), outcome.tolist(), judge.tolist(), strict=True))
    weight = np.bincount(judge)
    spreads = (found.problem.reliability_spread, found.problem.position_spread)

    def parts(x):
        """Free parameters: what the mean strength and the mean reliability leave."""
        strength = np.append(x[:3], -x[:3].sum())
        reliability = np.append(1 + x[3:5], 1 - (weight[:2] @ x[3:5]) / weight[2])
        return strength, reliability, x[5:8], x[8]

    best = minimize(
        lambda x: -oracle.penalised(games, *parts(x), 1.0, spreads), np.zeros(9), method="BFGS", options={"gtol": 1e-7}
    )
    strength, reliability, position, common = parts(best.x)
    e = found.estimates
    np.testing.assert_allclose(e.strength, strength, atol=2e-6)
    np.testing.assert_allclose(e.reliability, reliability, atol=2e-6)
    np.testing.assert_allclose(np.append(e.judge_position, e.position), np.append(position, common), atol=2e-6)
    assert found.trace[-1].objective == pytest.approx(-best.fun, abs=1e-9)


def test_the_penalised_likelihood_never_falls_within_a_phase():
    for seed in range(5):
        left, right, outcome, judge = drawn(seed, items=6, games=80, judges=4)
        trace = fit(problem_of(Tournament.of(left, right, outcome, judge), position=True, judges=True, prior=1.0)).trace
        assert len({step.phase for step in trace}) > 1
        for before, after in zip(trace, trace[1:], strict=False):
            assert after.phase != before.phase or after.objective >= before.objective - 1e-9 * abs(before.objective)


def test_the_derivatives_are_those_of_the_objective():
    left, right, outcome, judge = drawn(2, items=5, games=60, judges=3)
    problem = problem_of(Tournament.of(left, right, outcome, judge), position=True, judges=True, prior=0.7)
    x = np.random.default_rng(0).normal(0, 0.3, problem.size)
    unit = np.eye(len(x)) * 1e-6
    slope = [(problem.evaluate(x + one).objective - problem.evaluate(x - one).objective) / 2e-6 for one in unit]
    np.testing.assert_allclose(problem.gradient(problem.evaluate(x)), slope, atol=1e-6)
    # Scores have the information as their covariance.
    rng, draw = np.random.default_rng(1), problem.scores(x)
    scores = np.stack([draw(rng) for _ in range(4000)])
    dense = problem.information(problem.evaluate(x)).dense()
    assert np.abs(scores.T @ scores / 4000 - dense).max() < 0.06 * np.diag(dense).max()


def test_without_judges_the_information_is_the_observed_one():
    left, right, outcome, _ = drawn(1, items=5)
    problem = problem_of(Tournament.of(left, right, outcome), position=True, judges=False, prior=0.5)
    x = np.random.default_rng(0).normal(0, 0.5, problem.size)
    unit = np.eye(len(x)) * 1e-5
    observed = [
        -(problem.gradient(problem.evaluate(x + one)) - problem.gradient(problem.evaluate(x - one))) / 2e-5 for one in unit
    ]
    np.testing.assert_allclose(problem.information(problem.evaluate(x)).dense(), observed, atol=1e-6)


def test_errors_are_the_pseudo_inverse_and_draws_come_near(monkeypatch):
    left, right, outcome, _ = drawn(4, items=40, games=2000)
    tournament = Tournament.of(left, right, outcome)
    found = fit(problem_of(tournament, position=False, judges=False))
    problem = found.problem
    draw = problem.scores(found.parameters)
    exact = errors(found.information, problem.gauge, draw, 64, 0)
    np.testing.assert_allclose(exact.covariance, np.linalg.pinv(found.information.dense(), hermitian=True), atol=1e-9)
    monkeypatch.setattr(of_information, "MAX_EXACT", 5)
    sparse = fit(problem_of(tournament, position=False, judges=False))
    np.testing.assert_allclose(sparse.information.dense(), found.information.dense(), atol=1e-6)
    sampled = errors(sparse.information, problem.gauge, draw, 64, 0)
    assert sampled.covariance is None
    np.testing.assert_allclose(sampled.variance, exact.variance, rtol=0.15)
    one, other = np.arange(20), np.arange(20, 40)
    np.testing.assert_allclose(sampled.of_differences(one, other), exact.of_differences(one, other), rtol=0.2)
    np.testing.assert_allclose(sampled.block(one, other), exact.block(one, other), rtol=0.25)
    np.testing.assert_allclose(np.diag(sampled.block(one, other)), sampled.of_differences(one, other), rtol=1e-6)


def test_draws_hold_in_a_chain_too(monkeypatch):
    left = np.repeat(np.arange(29), 8)
    tournament = Tournament.of(left, left + 1, np.tile([0.0, 1.0], 116))
    found = fit(problem_of(tournament, position=False, judges=False))
    draw = found.problem.scores(found.parameters)
    exact = errors(found.information, found.problem.gauge, draw, 400, 0)
    monkeypatch.setattr(of_information, "MAX_EXACT", 5)
    sparse = fit(problem_of(tournament, position=False, judges=False))
    sampled = errors(sparse.information, found.problem.gauge, draw, 400, 0)
    ends = np.array([0, 0, 10]), np.array([29, 1, 12])
    np.testing.assert_allclose(sampled.variance, exact.variance, rtol=0.2)
    np.testing.assert_allclose(sampled.of_differences(*ends), exact.of_differences(*ends), rtol=0.3)


def test_components_and_maxima_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(60):
        items = int(rng.integers(2, 9))
        left = rng.integers(0, items, int(rng.integers(1, 12)))
        right = (left + rng.integers(1, items, len(left))) % items
        t = Tournament.of(left, right, rng.choice([0.0, 0.5, 1.0], len(left)), items=items)
        own = components(items, t.left, t.right)
        wins = [(i, j) for i, j, w in zip(t.left, t.right, t.left_wins + t.ties, strict=True) if w]
        wins += [(j, i) for i, j, w in zip(t.left, t.right, t.right_wins + t.ties, strict=True) if w]
        graph = coo_matrix((np.ones(len(wins)), np.array(wins).T), (items, items))
        _, weak = connected_components(graph, connection="weak")
        _, strong = connected_components(graph, connection="strong")
        assert len(set(zip(own.tolist(), weak.tolist(), strict=True))) == len(set(own.tolist())) == len(set(weak.tolist()))
        sizes = np.bincount(own)
        assert (np.diff(sizes) <= 0).all()
        for number, exists in enumerate(has_maximum(t, own)):
            assert exists == (len(set(strong[own == number].tolist())) == 1)


def test_arrays_that_are_no_comparisons():
    with pytest.raises(InputError, match="another number than 1"):
        Tournament.of([0], [1], [2])
    with pytest.raises(InputError, match="comparison 2 is of an item with itself"):
        Tournament.of([0, 1], [1, 1], [1, 1])
    with pytest.raises(InputError, match="left holds a code below 0"):
        Tournament.of([-1], [1], [1])
    with pytest.raises(InputError, match="give one length"):
        Tournament.of([0], [1], [1, 0])


def test_a_fit_that_is_cut_short_says_so():
    left, right, outcome, _ = drawn(0)
    problem = problem_of(Tournament.of(left, right, outcome), position=False, judges=False)
    with pytest.warns(adj.NotConverged, match="still moved by"):
        assert not fit(problem, max_iter=2).converged


def test_millions_of_items_and_judges_have_their_own_rows():
    last = 5_000_000
    t = Tournament.of([0, last - 1, 0], [1, last - 2, 1], [1, 0, 0], [0, last - 1, 0], items=last, judges=last)
    assert (t.left.tolist(), t.right.tolist(), t.judge.tolist()) == ([0, last - 1], [1, last - 2], [0, last - 1])
    assert t.count.tolist() == [2, 1]
