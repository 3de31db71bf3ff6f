"""Minimise a smooth function by conjugate gradients, as crowd-kit's GLAD does: its M-steps stop early, so the path matters.

The directions are Polak and Ribière's, restarted where they would turn back (Nocedal and Wright 2006, section 5.2). A step is
found by the search of Moré and Thuente (1994), which meets the strong Wolfe conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]  # value and gradient at a point
DESCENT = 0.01  # the next direction must fall at least this share as fast as the steepest
SHRINK = 0.66  # a bracket that two tries do not bring below this share of its width is halved
REACH = 1.1, 4.0  # how far a try may go beyond the last one, in widths of it, while nothing is bracketed


class Search(NamedTuple):
    """What a search along a direction asks for, and when it gives up."""

    decrease: float = 1e-4  # of the Wolfe conditions
    curvature: float = 0.4
    narrow: float = 1e-14  # a bracket this narrow, relative to its end, holds no better step
    least: float = 1e-100  # lengths of a step
    most: float = 1e100
    tries: int = 100
    settles: bool = False  # whether the best step of a bracket that is too narrow will do


WOLFE = Search()


@dataclass
class Try:
    """A length along a direction, with the value and slope of the function there."""

    at: float
    value: float
    slope: float


def minimise(function: Function, x: Floats, *, most_steps: int, tol: float) -> Floats:
    """Return a point after at most `most_steps` steps from x, or where no part of the gradient is larger than `tol`.

    >>> minimise(lambda x: (float(x @ x), 2 * x), np.array([3.0, -1.0]), most_steps=10, tol=1e-9).tolist()
    [0.0, 0.0]
    """
    value, gradient = function(x)
    before = value + float(np.linalg.norm(gradient)) / 2  # a guess of the value one step ago
    way = -gradient
    for _ in range(most_steps):
        if not np.abs(gradient).max(initial=0.0) > tol:
            break
        line = Line(function, x, way, gradient, tol)
        found = line.search(value, float(gradient @ way), before)
        if found is None:
            break
        before, value = value, found
        x, gradient, way = line.x, line.gradient, line.next_way
    return x


class Line:
    """A search along a direction, which keeps the last point it looked at and the direction to go from there."""

    def __init__(self, function: Function, x: Floats, way: Floats, gradient: Floats, tol: float) -> None:
        self._function, self._x, self._way, self._gradient, self._tol = function, x, way, gradient, tol

    def search(self, value: float, slope: float, before: float) -> float | None:
        """Return the value at the point found; None where there is none. `before` is the value one step ago."""
        guess = 1.0 if slope == 0.0 else min(1.0, 1.01 * 2 * (value - before) / slope)
        first = more_thuente(self._at, Try(0.0, value, slope), guess if guess >= 0 else 1.0)
        if first is not None and self._goes_down():
            return first.value
        second = zoom_in(self._at, self._goes_down, Try(0.0, value, slope), guess if guess >= 0 else 1.0)
        return None if second is None else second.value

    def _at(self, length: float) -> Try:
        self.x = self._x + length * self._way
        value, self.gradient = self._function(self.x)
        return Try(length, value, float(self.gradient @ self._way))

    def _goes_down(self) -> bool:
        """Return whether the next direction leads down from the last point; set it."""
        old, new = self._gradient, self.gradient
        turn = max(0.0, float((new - old) @ new) / float(old @ old))
        self.next_way = turn * self._way - new
        if np.abs(new).max() <= self._tol:
            return True
        return float(self.next_way @ new) <= -DESCENT * float(new @ new)


def more_thuente(at: Callable[[float], Try], start: Try, length: float, search: Search = WOLFE) -> Try | None:
    """Return a try that meets the strong Wolfe conditions; None where none of the tries does."""
    if not start.slope < 0:
        return None
    needed = search.decrease * start.slope
    low, high = start, start  # the best try, and the other end of the bracket
    bracketed, below = False, False  # whether a minimum is between them; whether a try has met the decrease
    width = search.most - search.least
    width_before = 2 * width
    smallest, largest = 0.0, length + REACH[1] * length
    for _ in range(search.tries):
        now = at(length)
        if not np.isfinite(now.value) and not search.settles:
            return None
        limit = start.value + now.at * needed
        below = below or (now.value <= limit and now.slope >= 0)
        if now.value <= limit and abs(now.slope) <= search.curvature * -start.slope:
            return now
        stuck = bracketed and (now.at <= smallest or now.at >= largest or largest - smallest <= search.narrow * largest)
        if stuck or (now.at >= search.most and now.value <= limit and now.slope <= needed) or now.at <= search.least:
            return now if search.settles else None
        if not below and now.value <= low.value and now.value > limit:
            # Far from the minimum: search the function less the decrease that is asked for.
            one, two, three = (Try(t.at, t.value - t.at * needed, t.slope - needed) for t in (low, high, now))
            ends, length, bracketed = next_try(one, two, three, bracketed, smallest, largest)
            low, high = (Try(t.at, t.value + t.at * needed, t.slope + needed) for t in ends)
        else:
            (low, high), length, bracketed = next_try(low, high, now, bracketed, smallest, largest)
        if bracketed:
            if abs(high.at - low.at) >= SHRINK * width_before:
                length = low.at + 0.5 * (high.at - low.at)
            width_before, width = width, abs(high.at - low.at)
            smallest, largest = min(low.at, high.at), max(low.at, high.at)
        else:
            smallest, largest = length + REACH[0] * (length - low.at), length + REACH[1] * (length - low.at)
        length = min(search.most, max(search.least, length))  # the least, where there is no number
        if bracketed and (length <= smallest or length >= largest or largest - smallest <= search.narrow * largest):
            length = low.at
    return None


def next_try(
    low: Try, high: Try, now: Try, bracketed: bool, smallest: float, largest: float
) -> tuple[tuple[Try, Try], float, bool]:
    """Return the new ends of the bracket, the next length to try, and whether a minimum is bracketed (section 4 of the paper)."""
    turned = now.slope * np.sign(low.slope) < 0
    if now.value > low.value:  # case 1: higher, so a minimum lies between
        cubic, square = _cubic(low, now), _by_values(low, now)
        length = cubic if abs(cubic - low.at) < abs(square - low.at) else cubic + (square - cubic) / 2
        bracketed = True
    elif turned:  # case 2: lower, and the slope has turned
        cubic, secant = _cubic(now, low), _by_slopes(now, low)
        length = cubic if abs(cubic - now.at) > abs(secant - now.at) else secant
        bracketed = True
    elif abs(now.slope) < abs(low.slope):  # case 3: lower, and flatter
        length = _beyond(low, high, now, bracketed, smallest, largest)
    else:  # case 4: lower, and no flatter
        length = _cubic(now, high) if bracketed else (largest if now.at > low.at else smallest)
    if now.value > low.value:
        return (low, now), length, bracketed
    return (now, low if turned else high), length, bracketed


def _beyond(low: Try, high: Try, now: Try, bracketed: bool, smallest: float, largest: float) -> float:
    """Return the next length where the function falls, ever more slowly: the cubic may have no minimum there."""
    theta, s, gamma = _parts(low, now)
    gamma = s * float(np.sqrt(max(0.0, (theta / s) ** 2 - (low.slope / s) * (now.slope / s))))
    if now.at > low.at:
        gamma = -gamma
    turn = gamma + (low.slope - now.slope) + gamma
    share = (gamma - now.slope + theta) / turn if turn else 0.0
    edge = largest if now.at > low.at else smallest
    cubic = now.at + share * (low.at - now.at) if share < 0 and gamma != 0 else edge
    secant = _by_slopes(now, low)
    if bracketed:
        length = cubic if abs(cubic - now.at) < abs(secant - now.at) else secant
        bound = now.at + SHRINK * (high.at - now.at)
        return min(bound, length) if now.at > low.at else max(bound, length)
    length = cubic if abs(cubic - now.at) > abs(secant - now.at) else secant
    return max(smallest, min(largest, length))


def _parts(one: Try, two: Try) -> tuple[float, float, float]:
    """Return theta, the scale and gamma of the cubic through two tries."""
    theta = 3 * (one.value - two.value) / (two.at - one.at) + one.slope + two.slope
    s = max(abs(theta), abs(one.slope), abs(two.slope))
    return theta, s, s * float(np.sqrt(max(0.0, (theta / s) ** 2 - (one.slope / s) * (two.slope / s))))


def _cubic(one: Try, two: Try) -> float:
    """Return the minimum of the cubic that has the values and slopes of two tries."""
    theta, _, gamma = _parts(one, two)
    if two.at < one.at:
        gamma = -gamma
    share = ((gamma - one.slope) + theta) / (((gamma - one.slope) + gamma) + two.slope)
    return one.at + share * (two.at - one.at)


def _by_values(one: Try, two: Try) -> float:
    """Return the minimum of the parabola through two values, with the slope of the first."""
    return one.at + (one.slope / ((one.value - two.value) / (two.at - one.at) + one.slope)) / 2 * (two.at - one.at)


def _by_slopes(one: Try, two: Try) -> float:
    """Return where the line through two slopes is zero."""
    return one.at + one.slope / (one.slope - two.slope) * (two.at - one.at)


def zoom_in(at: Callable[[float], Try], accepted: Callable[[], bool], start: Try, length: float) -> Try | None:
    """Return a try that meets the strong Wolfe conditions and is accepted: longer steps, then a bracket halved.

    This follows algorithms 3.5 and 3.6 of Nocedal and Wright, and is used where the first search fails.
    """
    before = start
    for i in range(10):
        now = at(length)
        if now.value > start.value + WOLFE.decrease * length * start.slope or (now.value >= before.value and i > 0):
            return _zoom(at, accepted, start, before, now)
        if abs(now.slope) <= -WOLFE.curvature * start.slope and accepted():
            return now
        if now.slope >= 0:
            return _zoom(at, accepted, start, now, before)
        before, length = now, 2 * length
    return None


def _zoom(at: Callable[[float], Try], accepted: Callable[[], bool], start: Try, low: Try, high: Try) -> Try | None:
    for _ in range(30):
        inside = _cubic(low, high) if np.isfinite(high.slope) else (low.at + high.at) / 2
        left, right, wide = min(low.at, high.at), max(low.at, high.at), abs(high.at - low.at)
        if not left + 0.1 * wide <= inside <= right - 0.1 * wide:
            inside = (low.at + high.at) / 2
        now = at(inside)
        if now.value > start.value + WOLFE.decrease * now.at * start.slope or now.value >= low.value:
            high = now
            continue
        if abs(now.slope) <= -WOLFE.curvature * start.slope and accepted():
            return now
        if now.slope * (high.at - low.at) >= 0:
            high = low
        low = now
    return None
