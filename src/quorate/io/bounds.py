"""Checks of numbers that come from outside, made before any of them is used as an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.errors import InputError


def require_offsets(name: str, array: NDArray[Any], end: int) -> None:
    """Raise unless these positions, [n + 1], begin at 0, never fall and end at `end`.

    >>> require_offsets("task_ptr", np.array([0, 2, 1]), 1)
    Traceback (most recent call last):
    quorate.errors.InputError: task_ptr is not valid: item 2 is 1, below the item before it (2)
    """
    if not len(array) or array[0] != 0:
        raise InputError(f"{name} is not valid: it begins with {array[0] if len(array) else 'nothing'}, not 0")
    falls = array[1:] < array[:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        raise InputError(f"{name} is not valid: item {at} is {array[at]}, below the item before it ({array[at - 1]})")
    if array[-1] != end:
        raise InputError(f"{name} is not valid: it ends with {array[-1]}, not {end}")


def require_below(name: str, array: NDArray[Any], bound: int) -> None:
    """Raise unless every number lies in 0 … `bound` - 1.

    >>> require_below("row", np.array([0, 7]), 7)
    Traceback (most recent call last):
    quorate.errors.InputError: row is not valid: it holds 7, and only 0 to 6 are allowed
    """
    if not array.size:
        return
    low, high = (0 if array.dtype.kind == "u" else int(array.min())), int(array.max())
    if low < 0 or high >= bound:
        allowed = f"only 0 to {bound - 1} are allowed" if bound else "nothing is allowed"
        raise InputError(f"{name} is not valid: it holds {low if low < 0 else high}, and {allowed}")
