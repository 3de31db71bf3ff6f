"""Digamma and log-gamma in NumPy, which Dirichlet posteriors are made of, and the chi-square and beta distributions.

The first two climb by the recurrence to arguments where Stirling's series has all digits: psi(x) = psi(x + 1) - 1 / x and
log Gamma(x) = log Gamma(x + 1) - log x. The compiled twins are in csrc/passes/special.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CLIMB: Final = 8  # steps of the recurrence below this argument
SPECIAL_CHUNK_NUMBERS: Final = 1 << 16  # numbers at once: their intermediates stay in the cache
HALF_LOG_TAU: Final = 0.5 * math.log(2.0 * math.pi)
# Coefficients of 1 / x^2, 1 / x^4 ...: Bernoulli's B_2n / 2n for digamma, and of 1 / x, 1 / x^3 ...: B_2n / (2n (2n - 1)).
DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
LOG_GAMMA: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
EXPANDED_FREEDOM: Final = 2000.0  # degrees of freedom from which on the expansion is correct to 1e-10, for p of at least 1e-7
SERIES_TOLERANCE: Final = 1e-15  # of the sum of a series, below which its terms are left out
MAX_NEWTON_STEPS: Final = 100
MAX_FRACTION_TERMS: Final = 500


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
        for start in range(0, len(flat), SPECIAL_CHUNK_NUMBERS):
            out[start : start + SPECIAL_CHUNK_NUMBERS] = function(flat[start : start + SPECIAL_CHUNK_NUMBERS])
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


def chi_square_quantile(p: float, freedom: Floats) -> Floats:
    """Return the value below which a chi-square variable falls with probability `p`, of at most 1/2.

    - `p`: a probability above 0 and at most 1/2.
    - `freedom`: degrees of freedom, [n] numbers above 0, whole or not; each distinct one is computed once.

    >>> chi_square_quantile(0.025, np.array([1.0, 10.0, 1.0])).round(6).tolist()
    [0.000982, 3.246973, 0.000982]
    """
    distinct, where = np.unique(freedom, return_inverse=True)
    out = np.empty(len(distinct))
    many = distinct >= EXPANDED_FREEDOM
    out[many] = _expand(p, distinct[many])
    out[~many] = 2.0 * _gamma_quantile(p, distinct[~many] / 2.0)
    return out[where]


def _expand(p: float, freedom: Floats) -> Floats:
    """Return the quantiles by the expansion in powers of 1 / sqrt(freedom) (Goldberg and Levine 1946), [n]."""
    z, root = NormalDist().inv_cdf(p), np.sqrt(freedom)
    r2 = math.sqrt(2.0)
    return (
        freedom
        + root * (z * r2)
        + 2.0 / 3.0 * (z**2 - 1.0)
        + (z**3 - 7.0 * z) / (9.0 * r2 * root)
        - (6.0 * z**4 + 14.0 * z**2 - 32.0) / (405.0 * freedom)
        + (9.0 * z**5 + 256.0 * z**3 - 433.0 * z) / (4860.0 * r2 * freedom * root)
        + (12.0 * z**6 - 243.0 * z**4 - 923.0 * z**2 + 1472.0) / (25515.0 * freedom**2)
    )


def _gamma_quantile(p: float, a: Floats) -> Floats:
    """Return x with P(a, x) = p, [n], where P is the lower incomplete gamma function as a share of the whole.

    Newton's method on log P as a function of log x, which rises and bends down. So a step from anywhere ends to the left of the
    root, and the next ones come closer without passing it.
    """
    log_norm = np.array([math.lgamma(one + 1.0) for one in a.tolist()])
    log_x: Floats = (math.log(p) + log_norm) / a  # P(a, x) is at most x^a / Gamma(a + 1): to the left of the root
    for _ in range(MAX_NEWTON_STEPS):
        x = np.exp(log_x)
        series = _gamma_series(a, x)
        # P(a, x) is x^a e^-x / Gamma(a + 1) times the series, and the slope of its logarithm a / series.
        step = (math.log(p) - (a * log_x - x - log_norm) - np.log(series)) * series / a
        log_x = log_x + step
        if np.abs(step).max(initial=0.0) < SERIES_TOLERANCE * 4.0:
            break
    return np.exp(log_x)


def _gamma_series(a: Floats, x: Floats) -> Floats:
    """Return the sum of x^n / ((a + 1) ... (a + n)) over n from 0 on, [n]; its terms fall fast where x is below a."""
    term, total, n = np.ones_like(x), np.ones_like(x), 0
    while len(x) and (term > SERIES_TOLERANCE * total).any():
        n += 1
        term = term * (x / (a + n))
        total = total + term
    return total


def beta_above(x: float, a: Floats, b: Floats) -> Floats:
    """Return the probability that a beta variable is above `x`, of parameters above 0, [n].

    By the continued fraction of the incomplete beta function, on the side where it converges fast.

    >>> beta_above(0.5, np.array([1.0, 2.0, 8.0]), np.array([1.0, 1.0, 2.0])).round(6).tolist()
    [0.5, 0.75, 0.980469]
    """
    flipped = x < (a + 1.0) / (a + b + 2.0)  # the tail below is the small one
    first, second = np.where(flipped, a, b), np.where(flipped, b, a)
    at = np.where(flipped, x, 1.0 - x)
    log_front = log_gamma(a + b) - log_gamma(a) - log_gamma(b) + first * np.log(at) + second * np.log1p(-at)
    tail = np.exp(log_front) * _beta_fraction(first, second, at) / first
    return np.asarray(np.clip(np.where(flipped, 1.0 - tail, tail), 0.0, 1.0))


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return the continued fraction of the incomplete beta function by Lentz's method, [n]."""
    tiny = 1e-300
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
    c, out = np.ones_like(x), d.copy()
    for m in range(1, MAX_FRACTION_TERMS):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1.0 + top * d, 1.0 + top / c
            d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
            c = np.where(np.abs(c) < tiny, tiny, c)
            out = out * d * c
        if np.abs(d * c - 1.0).max(initial=0.0) < SERIES_TOLERANCE * 4.0:
            break
    return out
