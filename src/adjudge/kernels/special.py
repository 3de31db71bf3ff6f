"""Digamma and log-gamma in NumPy: what Dirichlet posteriors are made of.

Both climb by the recurrence to arguments where Stirling's series has all digits: psi(x) = psi(x + 1) - 1 / x and
log Gamma(x) = log Gamma(x + 1) - log x. The compiled twins are in csrc/passes/special.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CLIMB: Final = 8  # steps of the recurrence below this argument
CHUNK: Final = 1 << 16  # numbers at once: their intermediates stay in the cache
HALF_LOG_TAU: Final = 0.5 * math.log(2.0 * math.pi)
# Coefficients of 1 / x^2, 1 / x^4 ...: Bernoulli's B_2n / 2n for digamma, and of 1 / x, 1 / x^3 ...: B_2n / (2n (2n - 1)).
DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
LOG_GAMMA: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def digamma(x: Floats) -> Floats:
    """Return psi(x), the derivative of log Gamma, of numbers above 0, in their shape; minus infinity at 0.

    >>> digamma(np.array([1.0, 2.0])).round(12).tolist()
    [-0.577215664902, 0.422784335098]
    """
    return _in_chunks(_digamma, x)


def log_gamma(x: Floats) -> Floats:
    """Return log Gamma(x) of numbers above 0, in their shape; infinity at 0.

    >>> log_gamma(np.array([1.0, 5.0])).round(12).tolist()
    [0.0, 3.178053830348]
    """
    return _in_chunks(_log_gamma, x)


def dirichlet_log_norm(concentration: Floats) -> float:
    """Return the log of the normaliser of a Dirichlet's density, log Gamma(sum a) - sum of log Gamma(a); `concentration` is [n].

    >>> round(dirichlet_log_norm(np.array([4.0, 1.0])), 12) == round(math.log(4.0), 12)
    True
    """
    return float(log_gamma(concentration.sum(keepdims=True))[0] - log_gamma(concentration).sum())


def _in_chunks(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    out = np.empty_like(flat)
    with np.errstate(divide="ignore"):
        for start in range(0, len(flat), CHUNK):
            out[start : start + CHUNK] = function(flat[start : start + CHUNK])
    return out.reshape(np.shape(x))


def _digamma(x: Floats) -> Floats:
    small = x < CLIMB
    out = np.zeros_like(x)
    low = x[small]
    if len(low):
        below = 1.0 / low
        for step in range(1, CLIMB):
            below += 1.0 / (low + step)
        out[small] = -below
    high = np.where(small, x + CLIMB, x)
    out += np.log(high) - 0.5 / high - _series(DIGAMMA, 1.0 / (high * high)) / (high * high)
    return out


def _log_gamma(x: Floats) -> Floats:
    small = x < CLIMB
    out = np.zeros_like(x)
    low = x[small]
    if len(low):
        product = low.copy()
        for step in range(1, CLIMB):
            product *= low + step
        out[small] = -np.log(product)
    high = np.where(small, x + CLIMB, x)
    out += (high - 0.5) * np.log(high) - high + HALF_LOG_TAU + _series(LOG_GAMMA, 1.0 / (high * high)) / high
    return out


def _series(coefficients: tuple[float, ...], y: Floats) -> Floats:
    """Return the sum of coefficient_n y^n, by Horner's rule."""
    out = np.full_like(y, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        out *= y
        out += one
    return out
