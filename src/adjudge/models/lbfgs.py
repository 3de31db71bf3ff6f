"""Maximise a smooth function: L-BFGS with a line search that accepts only improvements.

Vectors may be files: each is read as rarely as possible, and freed as soon as it is no longer needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adjudge.data.vectors import Vector, alike, dot, largest, put

MEMORY = 8  # steps remembered
SUFFICIENT = 1e-4  # a step must bring this share of what its slope promises
HALVINGS = 30  # after so many the slope is lost in rounding
REACH = 8.0  # no coordinate moves farther in one step


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the function, with its value and slope."""

    x: Vector  # [n]
    value: float
    slope: Vector  # [n] the gradient
    curvature: Vector  # [n] positive: about how fast the slope falls along each coordinate


class Pair(NamedTuple):
    """A step and the change of the slope along it."""

    step: Vector  # [n]
    bend: Vector  # [n]
    product: float  # of the two


def climb(at: Callable[[Vector], Point], start: Point, *, most_steps: int, share: float, least: float) -> Point:
    """Return a point at least as high as `start`, after `most_steps` steps or when there is little left to gain.

    "Little" means that the expected gain of the next step is at most `least`, or `share` of the gain so far.
    The curvatures give steps of the right length from the start; L-BFGS adds the dependence between coordinates.

    >>> hill = lambda x: Point(x, -float(x @ x), -2 * x, np.full(len(x), 2.0))
    >>> climb(hill, hill(np.array([3.0, -1.0])), most_steps=10, share=0.0, least=1e-12).x.tolist()
    [0.0, 0.0]
    """
    here, low = start, start.value
    del start  # or its vectors would be held to the end
    past: deque[Pair] = deque()
    for _ in range(most_steps):
        way, rise = _direction(here, past)
        if not rise > 0.0:
            past.clear()
            rise = _plain(here, way)
        if not rise / 2 > max(least, share * (here.value - low)):
            break
        shrink = min(1.0, REACH / largest(way))
        if shrink < 1.0:
            put(way, lambda w, by=shrink: w * by, way)
        found = _search(at, here, way, rise * shrink)
        if found is None:
            break
        del way
        if len(past) == MEMORY:
            past.popleft()
        pair = _pair(here, found)
        if pair.product > 1e-12 * dot(pair.bend, pair.bend):
            past.append(pair)
        here = found
        del pair, found
    return here


def _search(at: Callable[[Vector], Point], here: Point, way: Vector, rise: float) -> Point | None:
    """Return the first point along the direction that is high enough; each try is nearer than the one before."""
    length = 1.0
    for _ in range(HALVINGS):
        x = alike(here.x)
        put(x, lambda x, w, length=length: x + length * w, here.x, way)
        found = at(x)
        gained = found.value - here.value
        if gained >= SUFFICIENT * length * rise and gained > 0.0:
            return found
        del x, found
        bend = length * rise - gained  # the top of the parabola through what is known
        best = 0.5 * length * length * rise / bend if np.isfinite(bend) and bend > 0.0 else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


def _pair(here: Point, found: Point) -> Pair:
    step, bend = alike(here.x), alike(here.x)
    put(step, np.subtract, found.x, here.x)
    return Pair(step, bend, put(bend, np.subtract, here.slope, found.slope, times=step))


def _plain(here: Point, way: Vector) -> float:
    """Write the slope divided by the curvatures to OUT `way`, and return the rise along it."""
    return put(way, np.divide, here.slope, here.curvature, times=here.slope)


def _direction(here: Point, past: deque[Pair]) -> tuple[Vector, float]:
    """Return the quasi-Newton direction, and the rise along it.

    The two loops of L-BFGS (Nocedal 1980) start from the curvatures. Each update of the direction also computes the inner
    product that is needed next.
    """
    way = alike(here.x)
    if not past:
        return way, _plain(here, way)
    so_far, weights = here.slope, list[float]()
    weight = dot(past[-1].step, so_far) / past[-1].product
    for pair, older in zip(reversed(past), list(reversed(past))[1:], strict=False):
        weights.append(weight)
        along = put(way, lambda w, b, by=weight: w - by * b, so_far, pair.bend, times=older.step)
        so_far, weight = way, along / older.product
    weights.append(weight)
    first = past[0]
    along = put(way, lambda w, b, c, by=weight: (w - by * b) / c, so_far, first.bend, here.curvature, times=first.bend)
    following = [*(pair.bend for pair in past), here.slope][1:]
    for pair, beside in zip(past, following, strict=True):
        by = weights.pop() - along / pair.product
        along = put(way, lambda w, s, by=by: w + by * s, way, pair.step, times=beside)
    return way, along
