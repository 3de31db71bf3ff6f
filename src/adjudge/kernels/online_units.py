"""The numbers of a stream: shares in whole units, scores in logarithms."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

ONE: Final = 1 << 32  # units
NEVER: Final = -math.inf
NONE: Final = 0xFFFFFFFF  # the code of a label that is not there
Units = tuple[int, ...]  # [K]


def to_units(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return probabilities, [n, K], as units that sum to one exactly; the largest absorbs the rounding error."""
    units = np.rint(probabilities * ONE).astype(np.int64)
    largest = probabilities.argmax(axis=1)
    units[np.arange(len(units)), largest] += ONE - units.sum(axis=1)
    return units


def share_of(probabilities: list[float]) -> Units:
    """Return what `to_units` does, for one task."""
    units = [round(p * float(ONE)) for p in probabilities]
    units[probabilities.index(max(probabilities))] += ONE - sum(units)
    return tuple(units)


def limit(prior: list[float], lines: list[list[float]]) -> list[float]:
    """Return the scores of a task that every label excludes, in the limit of smoothing to 0, [K].

    The labels with the fewest impossible votes keep the finite part of their score; a prior of 0 excludes a label.
    """
    misses, finite = [], []
    for c, start in enumerate(prior):
        score, impossible = start, 0
        for line in lines:
            impossible += line[c] == NEVER
            score += 0.0 if line[c] == NEVER else line[c]
        misses.append(math.inf if start == NEVER else impossible)
        finite.append(score)
    fewest = min(misses)
    return [score if missed == fewest else NEVER for score, missed in zip(finite, misses, strict=True)]


def log(x: float) -> float:
    """Return the logarithm, minus infinity for 0."""
    return math.log(x) if x > 0.0 else NEVER


def shifted(line: Units, share: Units, sign: int) -> Units:
    """Return a line of counts after a share was put in (1) or taken out (-1)."""
    return tuple(a + sign * b for a, b in zip(line, share, strict=True))
