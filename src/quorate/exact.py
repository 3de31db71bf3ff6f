"""Sums that do not depend on the order of their terms.

Numbers that are multiples of a power of two, a *unit*, add without rounding while the sum has no more than 53 bits. So
log-probabilities are rounded to multiples of `LOG_UNIT`, and soft shares are counted in units of which all of them fit.
Where a crowd is symmetric nothing but rounding could break a tie, and expectation-maximisation would make a label of it
within some dozen passes: exact sums keep the symmetry, whatever the names and the order of rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOG_UNIT = 2.0**-40  # log-probabilities are multiples of this; no unit is smaller


def unit_below(most: int) -> float:
    """Returns the unit in which `most` numbers of at most 1 add up exactly.

    >>> unit_below(4) == 2.0**-49
    True
    """
    return math.ldexp(1.0, int(most).bit_length() - 52)


def whole(x: Floats, unit: float) -> Floats:
    """Returns x rounded to whole units.

    >>> whole(np.array([0.3, -np.inf]), 0.25).tolist()
    [0.25, -inf]
    """
    out: Floats = np.rint(x * (1.0 / unit)) * unit
    return out


def sums_of(values: Floats, starts: NDArray[np.int64]) -> Floats:
    """Returns the sum of the lines from each start to the next, [starts, …], of something given by line, [lines, …].

    Whole units and what they leave are added apart, so that the order of the lines does not show.

    >>> sums_of(np.array([0.1, 0.2, 0.3, 5.0]), np.array([0, 3])).tolist()
    [0.6, 5.0]
    >>> sums_of(np.array([0.3, 0.2, 0.1, 5.0]), np.array([0, 3])).tolist()
    [0.6, 5.0]
    """
    if not len(starts):
        return np.zeros((0, *values.shape[1:]))
    units = whole(values, _unit_of(values, len(values)))
    out: Floats = np.add.reduceat(units, starts, axis=0) + np.add.reduceat(values - units, starts, axis=0)
    return out


def sum_of(values: Floats) -> float:
    """Returns the sum of a few numbers, rounded once.

    >>> sum_of(np.array([0.1, 0.2, 0.3])), sum_of(np.array([0.3, 0.2, 0.1]))
    (0.6, 0.6)
    """
    return math.fsum(values.tolist())


def rounded(values: Floats) -> Floats:
    """Returns numbers rounded so that any of them add up exactly, in any order; at most to multiples of `LOG_UNIT`.

    >>> rounded(np.array([1.0, 0.1])).tolist()[0]
    1.0
    """
    total = float(np.abs(values).sum())
    return whole(values, max(LOG_UNIT, unit_below(int(total) + 1)))


def _unit_of(values: Floats, terms: int) -> float:
    largest = int(np.abs(values).max(initial=0.0)) + 1
    return math.ldexp(unit_below(largest), terms.bit_length())
