"""The lower half of the chi-square distribution's quantiles, for any number of degrees of freedom."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MANY = 2000.0  # degrees of freedom from which on the expansion is correct to 1e-10, for p of at least 1e-7
CLOSE = 1e-15  # of the sum of a series, below which its terms are left out
MAX_STEPS = 100


def chi_square_quantile(p: float, freedom: Floats) -> Floats:
    """Return the value below which a chi-square variable falls with probability `p`, of at most 1/2.

    - `p`: a probability above 0 and at most 1/2.
    - `freedom`: degrees of freedom, [n] numbers above 0, whole or not; each distinct one is computed once.

    >>> chi_square_quantile(0.025, np.array([1.0, 10.0, 1.0])).round(6).tolist()
    [0.000982, 3.246973, 0.000982]
    """
    distinct, where = np.unique(freedom, return_inverse=True)
    out = np.empty(len(distinct))
    many = distinct >= MANY
    out[many] = _expanded(p, distinct[many])
    out[~many] = 2.0 * _gamma_quantile(p, distinct[~many] / 2.0)
    found: Floats = out[where]
    return found


def _expanded(p: float, freedom: Floats) -> Floats:
    """Return the quantiles by the expansion in powers of 1 / sqrt(freedom) (Goldberg and Levine 1946), [n]."""
    z, root = NormalDist().inv_cdf(p), np.sqrt(freedom)
    r2 = math.sqrt(2.0)
    out: Floats = (
        freedom
        + root * (z * r2)
        + 2.0 / 3.0 * (z**2 - 1.0)
        + (z**3 - 7.0 * z) / (9.0 * r2 * root)
        - (6.0 * z**4 + 14.0 * z**2 - 32.0) / (405.0 * freedom)
        + (9.0 * z**5 + 256.0 * z**3 - 433.0 * z) / (4860.0 * r2 * freedom * root)
        + (12.0 * z**6 - 243.0 * z**4 - 923.0 * z**2 + 1472.0) / (25515.0 * freedom**2)
    )
    return out


def _gamma_quantile(p: float, a: Floats) -> Floats:
    """Return x with P(a, x) = p, [n], where P is the lower incomplete gamma function as a share of the whole.

    Newton's method on log P as a function of log x, which rises and bends down. So a step from anywhere ends to the left of the
    root, and the next ones come closer without passing it.
    """
    log_gamma = np.array([math.lgamma(one + 1.0) for one in a.tolist()])
    log_x: Floats = (math.log(p) + log_gamma) / a  # P(a, x) is at most x^a / Gamma(a + 1): to the left of the root
    for _ in range(MAX_STEPS):
        x = np.exp(log_x)
        series = _series(a, x)
        # P(a, x) is x^a e^-x / Gamma(a + 1) times the series, and the slope of its logarithm a / series.
        step = (math.log(p) - (a * log_x - x - log_gamma) - np.log(series)) * series / a
        log_x = log_x + step
        if np.abs(step).max(initial=0.0) < CLOSE * 4.0:
            break
    found: Floats = np.exp(log_x)
    return found


def _series(a: Floats, x: Floats) -> Floats:
    """Return the sum of x^n / ((a + 1) ... (a + n)) over n from 0 on, [n]; its terms fall fast where x is below a."""
    term, total, n = np.ones_like(x), np.ones_like(x), 0
    while len(x) and (term > CLOSE * total).any():
        n += 1
        term = term * (x / (a + n))
        total = total + term
    return total
