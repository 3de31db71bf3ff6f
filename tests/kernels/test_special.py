"""Digamma and log-gamma against SciPy, and the compiled twin against both."""

import numpy as np
import pytest
from scipy.special import digamma as scipy_digamma
from scipy.special import gammaln

from adjudge.kernels.cpu import compiled
from adjudge.kernels.special import SPECIAL_CHUNK_NUMBERS, digamma, dirichlet_log_norm, log_gamma

X = np.concatenate([np.geomspace(1e-6, 1e12, 20_001), np.linspace(0.01, 20, 5001), np.nextafter(8.0, [0.0, 9.0])])


def near(found, expected):
    assert (np.abs(found - expected) <= 1e-12 * np.maximum(1.0, np.abs(expected))).all()


def test_they_are_those_of_scipy():
    near(digamma(X), scipy_digamma(X))
    near(log_gamma(X), gammaln(X))


def test_shapes_and_the_limits():
    long = np.full((3, SPECIAL_CHUNK_NUMBERS), 0.5)
    assert digamma(long).shape == long.shape
    near(digamma(long)[:, [0, -1]], scipy_digamma(long)[:, [0, -1]])
    assert digamma(np.zeros((0, 4))).shape == (0, 4)
    assert digamma(np.zeros(1))[0] == -np.inf
    assert log_gamma(np.zeros(1))[0] == np.inf
    a = np.array([0.3, 2.0, 7.5])
    assert dirichlet_log_norm(a) == pytest.approx(gammaln(a.sum()) - gammaln(a).sum(), rel=1e-12)


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
def test_the_compiled_twin_agrees():
    psi, gamma = np.empty_like(X), np.empty_like(X)
    compiled().gamma_logs(X, psi, gamma)
    near(psi, digamma(X))
    near(gamma, log_gamma(X))
