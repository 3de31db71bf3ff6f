"""Climbing a smooth function: L-BFGS with a line search that accepts nothing but improvements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MEMORY = 8  # steps remembered
SUFFICIENT = 1e-4  # a step must bring this share of what its slope promises
HALVINGS = 30  # after so many the slope is lost in rounding
REACH = 8.0  # no coordinate moves farther in one step


@dataclass(frozen=True, eq=False)
class Point:
    """A place on the hill."""

    x: Floats  # [n]
    value: float
    slope: Floats  # [n] the gradient
    curvature: Floats  # [n] positive: about how fast the slope falls along each coordinate


def climb(at: Callable[[Floats], Point], start: Point, *, most_steps: int, share: float, least: float) -> Point:
    """Returns a point at least as high as `start`, after `most_steps` steps or when there is little left to gain.

    Little is what is expected of the next step: at most `least`, or `share` of what all steps gained so far.
    The curvatures make steps of the right length from the first one on; L-BFGS adds how coordinates depend on each other.

    >>> hill = lambda x: Point(x, -float(x @ x), -2 * x, np.full(len(x), 2.0))
    >>> climb(hill, hill(np.array([3.0, -1.0])), most_steps=10, share=0.0, least=1e-12).x.tolist()
    [0.0, 0.0]
    """
    here = start
    past: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
    for _ in range(most_steps):
        way = _direction(here, past)
        rise = _dot(here.slope, way)
        if not rise > 0.0:
            past.clear()
            way = here.slope / here.curvature
            rise = _dot(here.slope, way)
        if not rise / 2 > max(least, share * (here.value - start.value)):
            break
        shrink = min(1.0, REACH / float(np.abs(way).max()))
        found = _search(at, here, way * shrink, rise * shrink)
        if found is None:
            break
        step, bend = found.x - here.x, here.slope - found.slope
        if _dot(step, bend) > 1e-12 * _dot(bend, bend):
            past.append((step, bend))
        here = found
    return here


def _search(at: Callable[[Floats], Point], here: Point, way: Floats, rise: float) -> Point | None:
    """Returns the first point along the way that is high enough, each try nearer than the one before."""
    length = 1.0
    for _ in range(HALVINGS):
        found = at(here.x + length * way)
        gained = found.value - here.value
        if gained >= SUFFICIENT * length * rise and gained > 0.0:
            return found
        bend = length * rise - gained  # the top of the parabola through what is known
        best = 0.5 * length * length * rise / bend if np.isfinite(bend) and bend > 0.0 else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


def _direction(here: Point, past: deque[tuple[Floats, Floats]]) -> Floats:
    """Returns the quasi-Newton direction by the two loops of L-BFGS (Nocedal 1980), the curvatures as its start."""
    way = here.slope.copy()
    weights = []
    for step, bend in reversed(past):
        weight = _dot(step, way) / _dot(step, bend)
        way -= weight * bend
        weights.append(weight)
    way /= here.curvature
    for (step, bend), weight in zip(past, reversed(weights), strict=True):
        way += (weight - _dot(bend, way) / _dot(step, bend)) * step
    return way


def _dot(a: Floats, b: Floats) -> float:
    """Returns the inner product, summed alike on every machine (a BLAS would split it over threads of its own)."""
    return float((a * b).sum())
