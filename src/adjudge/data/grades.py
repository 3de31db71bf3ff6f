"""Labels with an order: which of two is the higher grade, and what number each stands for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import text_of
from adjudge.errors import OptionError, itemize, quote

GRADE_PATTERN: Final = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


class Grades(NamedTuple):
    """The order of some labels."""

    codes: NDArray[np.int64]  # [K] labels from the lowest to the highest grade
    values: NDArray[np.float64]  # [K] the number of each label: its own where all are numbers that rise or fall in this order,
    # else its place from 1 on

    def rank(self) -> NDArray[np.int64]:
        """Return the place of each label among the grades, [K], from 0 on."""
        out = np.empty(len(self.codes), np.int64)
        out[self.codes] = np.arange(len(self.codes))
        return out


def check_order(order: object, name: str = "order") -> tuple[str, ...]:
    """Return the texts of an order of grades, low to high, after it was checked.

    >>> check_order(["low", "mid", "high"])
    ('low', 'mid', 'high')
    """
    right = "give all labels from the lowest to the highest grade, each once, as ['low', 'mid', 'high']"
    if isinstance(order, str | bytes | AbstractSet) or not isinstance(order, Iterable):  # a set has no order of its own
        raise OptionError(f"{name} is {quote(order)}: {right}")
    given = list(order)
    if not given or not all(isinstance(one, str | int | float | np.generic) and one == one for one in given):
        raise OptionError(f"{name} is {quote(given)}: {right}")
    texts = tuple(text_of(one) for one in given)
    if len(set(texts)) < len(texts):
        twice = next(text for n, text in enumerate(texts) if text in texts[:n])
        raise OptionError(f"{name} has {quote(twice)} twice: {right}")
    return texts


def numbers_of(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """Return labels that are all numbers as such, [K]; None if one of them is not.

    >>> numbers_of(["1", "-2", "2.5"]).tolist(), numbers_of(["1", "NA"])
    ([1.0, -2.0, 2.5], None)
    """
    if not all(GRADE_PATTERN.fullmatch(text) for text in texts):
        return None
    out = np.array([float(text) for text in texts])
    return out if np.isfinite(out).all() else None


def grades_of(
    texts: Sequence[str],  # [K] labels, by code
    order: Sequence[str] | None = None,  # as `check_order` returns it
    *,
    is_declared: bool = False,  # whether the labels come in an order that somebody gave
    how: str = "give labels=… (--labels) from the lowest to the highest grade, or adj.Ordinal(order=['low', …, 'high'])",
) -> Grades:
    """Return the order of labels: the given one; else that of numbers; else that in which they were declared.

    Numbers that neither rise nor fall in a given order are names, and count by their places in it.

    >>> grades_of(["10", "9"]).codes.tolist(), grades_of(["high", "low"], ["low", "mid", "high"]).values.tolist()
    ([1, 0], [3.0, 1.0])
    >>> grades_of(["high", "low"])
    Traceback (most recent call last):
    adjudge.errors.OptionError: the labels high, low have no order that shows: give labels=… (--labels) from the lowest to ...
    """
    values = numbers_of(texts)
    if order is not None:
        place = {text: n for n, text in enumerate(order)}
        strange = next((text for text in texts if text not in place), None)
        if strange is not None:
            raise OptionError(
                f"label {quote(strange)} is not in the order, which is {itemize(order)}: add it, or leave such labels out"
            )
        at = np.array([place[text] + 1.0 for text in texts])
        return Grades(np.argsort(at), values if values is not None and _is_monotone(numbers_of(order)) else at)
    if values is not None:
        return Grades(np.lexsort((np.array(texts, dtype=np.str_), values)), values)
    if is_declared or len(texts) < 2:
        return Grades(np.arange(len(texts)), np.arange(1.0, len(texts) + 1.0))
    raise OptionError(f"the labels {itemize(texts)} have no order that shows: {how}")


def _is_monotone(values: NDArray[np.float64] | None) -> bool:
    """Return whether numbers rise throughout, or fall; None means that labels are not numbers."""
    steps = np.zeros(0) if values is None else np.diff(values)
    return values is not None and bool((steps >= 0).all() or (steps <= 0).all())


def moments_of(posterior: NDArray[np.float64], grades: Grades) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the median grade of each task, [tasks], of probabilities, [tasks, K] by code.

    The median is the lowest grade up to which at least half of the probability lies: a grade, never between two.

    >>> [part.tolist() for part in moments_of(np.array([[0.5, 0.0, 0.5], [0.1, 0.2, 0.7]]), grades_of(["1", "2", "5"]))]
    [[3.0, 4.0], [1.0, 5.0]]
    """
    if not posterior.shape[1]:
        return np.full(len(posterior), math.nan), np.full(len(posterior), math.nan)
    lowest_first = posterior[:, grades.codes]
    half = np.cumsum(lowest_first, axis=1) >= 0.5 - 1e-9
    half[:, -1] = True  # rounding may have left it below half
    return posterior @ grades.values, grades.values[grades.codes][half.argmax(axis=1)]
