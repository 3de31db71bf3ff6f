"""Tasks that are decided side by side: registers that are not full, and exponentials down to nothing."""

import numpy as np
import pytest

from adjudge.kernels import cpu
from adjudge.kernels import reference as ref
from adjudge.kernels.cpu import compiled

core = compiled()
pytestmark = pytest.mark.skipif(core is None, reason="no compiled core")
EDGE = 3  # tasks behind those of the pass, which it must leave alone


def one_vote_each(table):
    """Arguments of a pass over tasks of one vote, each on its own row."""
    tasks, k = table.shape
    keys = np.arange(max(tasks, k), dtype=np.uint64)
    return np.arange(tasks + 1), np.arange(tasks, dtype=np.uint32), table, np.zeros(k), keys[:tasks], keys[:k]


@pytest.mark.parametrize("k", [2, 3, 4, 7, 8, 13, 16, 20])
def test_registers_that_are_not_full(instructions, k):
    """For any number of tasks: each is decided, and nothing beyond the last one is touched or counted."""
    g = np.random.default_rng(k)
    for tasks in range(1, 20):
        given = one_vote_each(np.log(g.random((tasks, k))))
        out = {"counts": (tasks, k), "class_counts": (k,)}
        want, got = ({name: np.zeros(shape) for name, shape in out.items()} for _ in range(2))
        expected = ref.em_pass(*given, hard=False, by_prior=False, labels=np.full(tasks, -1, np.int32), **want)
        labels, tie = np.full(tasks + EDGE, -1, np.int32), np.ones(tasks + EDGE, bool)
        confidence = np.full(tasks + EDGE, 7.0)
        sums = cpu.em_pass(
            *given, hard=False, by_prior=False, labels=labels[:tasks], tie=tie[:tasks], confidence=confidence[:tasks], **got
        )
        assert sums.changed == tasks
        assert sums.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
        assert (labels[:tasks] == given[2].argmax(axis=1)).all()
        assert not tie[:tasks].any()
        assert (labels[tasks:] == -1).all()
        assert tie[tasks:].all()
        assert (confidence[tasks:] == 7.0).all()
        for name in out:
            assert got[name] == pytest.approx(want[name], rel=1e-11), name


@pytest.mark.parametrize("k", [2, 4, 16, 17])
def test_exponentials_down_to_nothing(instructions, k):
    """Shares fade gradually, as the C library's do, and are nothing from -746 down: neither sooner, nor not at all."""
    scores = np.concatenate([np.linspace(-745.0, -700.0, 500), np.linspace(-40.0, -1e-6, 500), [-746.0, -750.0, -1e6, -np.inf]])
    table = np.full((len(scores), k), -np.inf)
    table[:, 0], table[:, 1] = 0.0, scores
    posterior, exact = np.zeros(table.shape), np.zeros(table.shape)
    for kernels, out in ((cpu, posterior), (ref, exact)):  # whose totals are in whole units, too
        labels = np.zeros(len(scores), np.int32)
        kernels.em_pass(*one_vote_each(table), hard=False, by_prior=False, labels=labels, posterior=out)
    assert posterior[:, 1] == pytest.approx(exact[:, 1], rel=3e-15, abs=1e-323)
    assert (posterior[:500, 1] > 0.0).all()
    assert (posterior[-4:, 1] == 0.0).all()
    assert (posterior[:, 2:] == 0.0).all()
