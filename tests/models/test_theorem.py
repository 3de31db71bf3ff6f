"""The paper's theorem and Dawid-Skene's: what a phase maximises never falls, one iteration at a time."""

import itertools
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from fitting import aggregate
from strategies import crowds


def assert_never_falls(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        trace = aggregate(votes, model=model, **options).fit.trace
    for before, after in itertools.pairwise(trace):
        if before.phase == after.phase:
            assert after.objective >= before.objective - 1e-9 * max(1.0, abs(before.objective))
    return trace


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
@given(votes=crowds(max_tasks=12, max_workers=6, max_votes=60), smoothing=st.sampled_from([0.0, 0.01, 1.0]))
def test_generated(model, votes, smoothing):
    assert_never_falls(votes, model, smoothing=smoothing, tol=0.0, max_iter=30)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
def test_real(real_votes, model, smoothing):
    trace = assert_never_falls(real_votes, model, smoothing=smoothing)
    phases = [row.phase for row in trace]
    assert phases == sorted(phases, reverse=True), "once hard, always hard"
    if model == "hybrid":
        assert phases[0] == "soft"
