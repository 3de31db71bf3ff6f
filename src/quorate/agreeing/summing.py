"""Sums of values by where they belong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def sum_by(index: NDArray[np.int64], values: NDArray[np.generic], n: int) -> Floats:
    """Returns the sum of the values at each index, [n].

    >>> sum_by(np.array([2, 0, 2]), np.array([1.0, 5.0, 2.0]), 3).tolist()
    [5.0, 0.0, 3.0]
    """
    return np.bincount(index, values, minlength=n).astype(np.float64, copy=False)
