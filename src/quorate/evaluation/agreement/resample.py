"""Intervals of figures: resamples of tasks, drawn as weights of atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.agreeing.atoms import Atoms
from quorate.agreeing.estimate import Estimate
from quorate.agreeing.summing import Floats
from quorate.agreeing.task_sums import Sums

CELLS: Final = 1 << 22  # numbers of drawn sums held at once


@dataclass(frozen=True)
class Drawing:
    """How intervals are drawn."""

    resamples: int
    confidence: float
    seed: int

    def rng(self, stream: int) -> np.random.Generator:
        """Returns the random numbers of one part of the work, the same whatever other parts draw."""
        return np.random.default_rng([self.seed, stream])


def estimates(
    figures: Mapping[str, Callable[[Sums], Floats]],
    sums: Sums,
    atoms: Atoms,
    drawing: Drawing,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Returns each figure of all tasks, with the interval that holds the middle of its resamples.

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
    """Returns the ends of the middle share of all values that are there; NaN where none is.

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
    """Returns the sums of each resample, [resamples, …]."""
    return {name: np.tensordot(weights, array, axes=1) for name, array in sums.items()}
