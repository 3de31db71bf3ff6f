"""Figures with their intervals: resamples of tasks, drawn as weights of patterns of votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.evaluation.agreement.sums import Atoms, Floats, Sums

CELLS: Final = 1 << 22  # numbers of drawn sums held at once


class Estimate(float):
    """A number that knows the interval it lies in; elsewhere it is a plain float.

    >>> e = Estimate(0.75, 0.46, 0.93)
    >>> e + 1, e.low, e.high
    (1.75, 0.46, 0.93)
    >>> e
    0.75 [0.46, 0.93]
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> Estimate:
        """Return the number; NaN stands for what is not known."""
        made = super().__new__(cls, value)
        made.low, made.high = float(low), float(high)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high

    def __repr__(self) -> str:
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}]"

    def summary(self) -> dict[str, float | None]:
        """Return value, low and high as plain numbers, None for what is not known.

        >>> Estimate(0.5).summary()
        {'value': 0.5, 'low': None, 'high': None}
        """
        return {"value": known(float(self)), "low": known(self.low), "high": known(self.high)}


def known(value: float) -> float | None:
    """Return a number as JSON knows it: None in the place of NaN."""
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Drawing:
    """How intervals are drawn."""

    resamples: int
    confidence: float
    seed: int

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of one part of the work, the same whatever other parts draw."""
        return np.random.default_rng([self.seed, stream])


def estimates(
    figures: Mapping[str, Callable[[Sums], Floats]],
    sums: Sums,
    atoms: Atoms,
    drawing: Drawing,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Return each figure of all tasks, with the interval that holds the middle of its resamples.

    `sums` has the sums of every atom, [atoms, …]; resamples in which a figure has no value are left out.
    """
    values = {name: float(figure(_drawn(sums, atoms.sizes[None].astype(np.float64)))[0]) for name, figure in figures.items()}
    drawn: dict[str, list[Floats]] = {name: [] for name in figures}
    width = max(len(atoms), sum(int(np.prod(array.shape[1:])) for array in sums.values()))
    for start in range(0, drawing.resamples, step := max(1, CELLS // width)):
        some = _drawn(sums, atoms.weights(rng, min(step, drawing.resamples - start)))
        for name, figure in figures.items():
            drawn[name].append(figure(some))
    return {name: Estimate(value, *middle(drawn[name], drawing.confidence)) for name, value in values.items()}


def middle(drawn: list[Floats], confidence: float) -> tuple[float, float]:
    """Return the ends of the middle share of all values that are there; NaN where none is.

    >>> middle([np.arange(101.0), np.array([np.nan])], 0.5)
    (25.0, 75.0)
    """
    values = np.concatenate(drawn) if drawn else np.zeros(0)
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _drawn(sums: Sums, weights: Floats) -> Sums:
    """Return the sums of each resample, [resamples, …]."""
    return {name: np.tensordot(weights, array, axes=1) for name, array in sums.items()}
