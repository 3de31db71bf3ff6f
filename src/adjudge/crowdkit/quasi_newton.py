"""Minimise a function by L-BFGS, along the path of the field's L-BFGS-B without bounds (Byrd, Lu, Nocedal and Zhu 1995).

crowd-kit's NoisyBradleyTerry gives its optimiser a gradient that is not its function's. Where such a search ends depends on
every rule of it: the length of the first step, when a search along a direction gives up, and what happens then.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from adjudge.crowdkit.conjugate import Floats, Function, Search, Try, more_thuente

MEMORY = 10  # steps remembered
SEARCH = Search(decrease=1e-3, curvature=0.9, narrow=0.1, least=0.0, most=1e10, tries=20, settles=True)
ROUNDING = float(np.finfo(np.float64).eps)


class Pair(NamedTuple):
    """A step and the change of the gradient along it."""

    step: Floats  # [n]
    bend: Floats  # [n]
    product: float  # of the two


def descend(function: Function, x: Floats, *, most_steps: int, tol: float, flat: float = 1e-5) -> Floats:
    """Return a point after at most `most_steps` steps from x (but at least one).

    It ends earlier where no part of the gradient is larger than `flat`, where a step gains at most `tol` of the value (of 1,
    if that is larger), or where no step down the gradient is found.

    >>> found = descend(lambda x: (float(x @ x), 2 * x), np.array([3.0, -1.0]), most_steps=10, tol=1e-9)
    >>> bool(np.abs(found).max() < 1e-9)
    True
    """
    value, gradient = function(x)
    past: deque[Pair] = deque(maxlen=MEMORY)
    steps = 0
    while np.abs(gradient).max(initial=0.0) > flat:
        way = -_times_inverse(gradient, past)
        line = _Line(function, x, way)
        first = 1.0 if steps else min(1.0 / float(np.linalg.norm(way)), SEARCH.most)
        slope = float(gradient @ way)
        found = more_thuente(line, Try(0.0, value, slope), first, SEARCH)
        if found is None and past:
            past.clear()  # again, down the gradient
            continue
        if found is None:
            break
        gained, largest = value - found.value, max(abs(value), abs(found.value), 1.0)
        bend, step = line.gradient - gradient, found.at * way
        x, value, gradient = line.x, found.value, line.gradient
        steps += 1
        if steps >= most_steps or gained <= tol * largest:
            break
        product = (found.slope - slope) * found.at
        if product > ROUNDING * -slope * found.at:
            past.append(Pair(step, bend, product))
    return x


class _Line:
    """The function along a direction; keeps the last point looked at, and the gradient there."""

    x: Floats
    gradient: Floats

    def __init__(self, function: Function, x: Floats, way: Floats) -> None:
        self._function, self._from, self._way = function, x, way

    def __call__(self, length: float) -> Try:
        """Return the function at a length."""
        self.x = self._from + length * self._way
        value, self.gradient = self._function(self.x)
        return Try(length, value, float(self.gradient @ self._way))


def _times_inverse(gradient: Floats, past: deque[Pair]) -> Floats:
    """Return the gradient times the inverse Hessian that the steps so far suggest: the two loops of Nocedal (1980)."""
    out, weights = gradient.copy(), list[float]()
    for pair in reversed(past):
        weights.append(float(pair.step @ out) / pair.product)
        out -= weights[-1] * pair.bend
    if past:
        last = past[-1]
        out *= last.product / float(last.bend @ last.bend)
    for pair in past:
        out += (weights.pop() - float(pair.bend @ out) / pair.product) * pair.step
    return out
