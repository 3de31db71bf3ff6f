"""The information matrix of a fit: assembled sparse, solved by Newton steps, inverted for the errors of estimates.

Parameters are known up to a few directions that no comparison tells: a constant added to all strengths of a component, and
the scale that strengths and judges share. A `Gauge` takes them out, and all inverses are those within its subspace.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.ranking.tournament import Floats, Integers, sums

MAX_EXACT: Final = 2000  # parameters whose matrix is inverted as a whole: a second, and 100 MB
SOLVE: Final = 1e-9  # residual of a Newton step by conjugate gradients, relative
SAMPLE: Final = 1e-4  # the same of a draw, whose own error is far larger
MAX_STEPS: Final = 5000  # of conjugate gradients
THREADS: Final = 2  # that draw and solve at once: each takes some arrays as large as the matrix


@dataclass(frozen=True, eq=False)
class Gauge:
    """The directions that estimates do not move in."""

    component: Integers  # [items] strengths of a component have the mean 0
    scale: slice | None = None  # where the scales of judges are among the parameters
    weight: Floats | None = None  # [judges] scales have the mean 1, weighted so

    def within(self, x: Floats) -> Floats:
        """Return a vector of parameters without its part in these directions, [parameters]."""
        out = x.copy()
        items = len(self.component)
        size = np.bincount(self.component)
        out[:items] -= (np.bincount(self.component, x[:items]) / size)[self.component]
        if self.scale is not None and self.weight is not None:
            out[self.scale] -= self.weight * (self.weight @ x[self.scale] / (self.weight @ self.weight))
        return out


class Pattern:
    """Where a symmetric sparse matrix has entries beside its diagonal; entries at one place are added up."""

    def __init__(self, size: int, row: Integers, column: Integers) -> None:
        """Take the place of each entry, [entries]: one of the two triangles is enough."""
        self.size = size
        self._key, self._entry = np.unique(np.minimum(row, column) * size + np.maximum(row, column), return_inverse=True)
        low, high = self._key // size, self._key % size
        order = np.argsort(np.concatenate([low, high]), kind="stable")
        self._order = order % max(len(self._key), 1)
        self.column = np.concatenate([high, low])[order]
        self.ptr = np.searchsorted(np.concatenate([low, high])[order], np.arange(size + 1))

    def matrix(self, diagonal: Floats, values: Floats) -> Information:
        """Return the matrix with this diagonal, [parameters], and these entries, [entries]."""
        return Information(self, diagonal, sums(self._entry, values, len(self._key))[self._order])

    def entries(self, values: Floats, row: Integers, column: Integers) -> Floats:
        """Return what a matrix has at some places beside its diagonal, [places]; `values` are those of both triangles."""
        of_key = np.zeros(len(self._key) + 1)  # the last one is of no key
        of_key[self._order] = values
        wanted = np.minimum(row, column) * self.size + np.maximum(row, column)
        at = np.searchsorted(self._key, wanted)
        there = np.append(self._key, -1)[at] == wanted
        return np.asarray(of_key[np.where(there, at, len(self._key))])


@dataclass(frozen=True, eq=False)
class Information:
    """A symmetric matrix, [parameters, parameters]."""

    pattern: Pattern
    diagonal: Floats  # [parameters]
    value: Floats  # [both triangles] in the order of `pattern.column`

    @property
    def is_small(self) -> bool:
        """Whether the matrix is inverted as a whole."""
        return self.pattern.size <= MAX_EXACT

    def product(self, x: Floats) -> Floats:
        """Return the matrix times a vector, [parameters]."""
        p = self.pattern
        out = self.diagonal * x
        filled = np.flatnonzero(np.diff(p.ptr))
        if len(filled):
            out[filled] += np.add.reduceat(self.value * x[p.column], p.ptr[filled])
        return out

    def dense(self) -> Floats:
        """Return the whole matrix."""
        p = self.pattern
        out = np.diag(self.diagonal)
        out[np.repeat(np.arange(p.size), np.diff(p.ptr)), p.column] += self.value
        return out

    def inverse(self, gauge: Gauge) -> Floats:
        """Return the inverse within the gauge, [parameters, parameters]: for small matrices."""
        scale = float(self.diagonal.mean())
        fixed = _fixed(gauge, self.pattern.size)
        out = np.linalg.inv(self._pinned(fixed, scale)) - fixed @ fixed.T / scale
        return np.asarray((out + out.T) / 2, np.float64)

    def solution(self, right: Floats, gauge: Gauge) -> Floats:
        """Return the solution within the gauge for one right side, [parameters]: exact for small matrices."""
        if not self.is_small:
            return self.solve(right, gauge)
        pinned = self._pinned(_fixed(gauge, self.pattern.size), float(self.diagonal.mean()))
        return gauge.within(np.asarray(np.linalg.solve(pinned, gauge.within(right)), np.float64))

    def _pinned(self, fixed: Floats, scale: float) -> Floats:
        """Return P H P + s (I - P), where P = I - F F' takes the gauge out: the inverse is that within it, and 1/s outside."""
        out = self.dense()
        across = out @ fixed
        inner = fixed @ (fixed.T @ across + scale * np.eye(fixed.shape[1]))
        return np.asarray(out + (inner - across) @ fixed.T - fixed @ across.T, np.float64)

    def solve(self, right: Floats, gauge: Gauge, tol: float = SOLVE) -> Floats:
        """Return the solution within the gauge for one right side, [parameters], by conjugate gradients."""
        x = np.zeros_like(right)
        rest = gauge.within(right)
        enough = tol * np.sqrt(_dot(rest, rest))
        direction = near = gauge.within(rest / self.diagonal)
        gain = _dot(rest, near)
        for _ in range(MAX_STEPS):
            if np.sqrt(_dot(rest, rest)) <= enough or gain <= 0:
                break
            along = gauge.within(self.product(direction))
            step = gain / _dot(direction, along)
            x += step * direction
            rest = rest - step * along
            near = gauge.within(rest / self.diagonal)
            gain, before = _dot(rest, near), gain
            direction = near + gain / before * direction
        return x


def _dot(one: Floats, other: Floats) -> float:
    """Return the inner product, in this thread: for vectors as short as these, threads of BLAS wait for each other."""
    return float(np.einsum("i,i", one, other))


def _fixed(gauge: Gauge, size: int) -> Floats:
    """Return unit vectors, at right angles, of what a gauge takes out, [parameters, directions]."""
    items, count = len(gauge.component), int(gauge.component.max()) + 1
    out = np.zeros((size, count + (gauge.scale is not None)))
    out[np.arange(items), gauge.component] = 1.0
    if gauge.scale is not None and gauge.weight is not None:
        out[gauge.scale, count] = gauge.weight
    return np.asarray(out / np.sqrt(np.square(out).sum(axis=0)))


@dataclass(frozen=True, eq=False)
class Errors:
    """What is known of the errors of estimates: the whole covariance, or that of many draws where it is too large."""

    variance: Floats  # [parameters]
    covariance: Floats | None = None  # [parameters, parameters]
    draws: Draws | None = None
    freedom: Floats | None = None  # [parameters] degrees of freedom; None where the errors are those of the model

    def degrees(self, count: int) -> Floats:
        """Return the degrees of freedom of the first parameters, [count]; infinite where the errors are those of the model."""
        return np.full(count, np.inf) if self.freedom is None else self.freedom[:count]

    def of_differences(self, one: Integers, other: Integers) -> Floats:
        """Return the variance of the difference of every two parameters, [pairs]."""
        both = self.variance[one] + self.variance[other]
        if self.draws is not None:
            return np.maximum(both - 2 * self.draws.pairs(one, other), self.draws.least[one] + self.draws.least[other])
        assert self.covariance is not None
        return np.maximum(both - 2 * self.covariance[one, other], 0.0)

    def block(self, one: Integers, other: Integers) -> Floats:
        """Return the variance of the difference of each of some parameters and each of others, [one, other]."""
        across = self.draws.covariances(one, other) if self.draws is not None else self._covariances(one, other)
        across *= -2  # in place: these are the largest arrays of all
        across += self.variance[one][:, None]
        across += self.variance[other][None, :]
        least = self.draws.least[one].min(initial=np.inf) if self.draws is not None else 0.0
        return np.maximum(across, least, out=across)

    def _covariances(self, one: Integers, other: Integers) -> Floats:
        assert self.covariance is not None
        return self.covariance[np.ix_(one, other)]


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from the normal law of the errors, and beside each what it were if its parameters were independent.

    A mean of k squares is wrong by sqrt(2/k) of itself, in any graph. It is taken of the difference to the independent ones,
    whose covariance is known; where items have met many others the two are nearly the same, and so little is left to err.
    """

    matrix: Information
    found: Floats  # [parameters, draws] divided by the root of their number
    alone: Floats | None  # [parameters, draws] likewise: scores over the diagonal of the information; None with clusters

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.found.shape[1])

    @property
    def least(self) -> Floats:
        """Half of the variance of every parameter if all others were known, [parameters]: a difference has no less of both."""
        return np.zeros(len(self.found)) if self.alone is None else np.asarray(0.5 / self.matrix.diagonal)

    def pairs(self, one: Integers, other: Integers) -> Floats:
        """Return the covariance of every two parameters, [pairs]."""
        found = np.einsum("pd,pd->p", self.found[one], self.found[other])
        if self.alone is None:
            return np.asarray(found)
        alone = np.einsum("pd,pd->p", self.alone[one], self.alone[other])
        met = self.matrix.pattern.entries(self.matrix.value, one, other)
        return np.asarray(found - alone + met / (self.matrix.diagonal[one] * self.matrix.diagonal[other]))

    def variances(self) -> Floats:
        """Return the variance of every parameter, [parameters]."""
        found = np.square(self.found).sum(axis=1)
        if self.alone is None:
            return np.asarray(found)
        apart = 1 / self.matrix.diagonal
        drawn = found - np.square(self.alone).sum(axis=1) + apart
        return np.asarray(np.maximum(drawn, apart * (1 - 1 / len(apart)) ** 2))  # an inverse has no less on its diagonal

    def covariances(self, one: Integers, other: Integers) -> Floats:
        """Return the covariance of each of some parameters and each of others that are not among them, [one, other]."""
        if self.alone is None:
            return np.asarray(self.found[one] @ self.found[other].T)
        out = np.hstack([self.found[one], -self.alone[one]]) @ np.hstack([self.found[other], self.alone[other]]).T
        p = self.matrix.pattern
        place = np.full(p.size, -1)
        place[other] = np.arange(len(other))
        length = p.ptr[one + 1] - p.ptr[one]
        entry = np.repeat(p.ptr[one] - np.cumsum(length) + length, length) + np.arange(int(length.sum()))
        row, column = np.repeat(np.arange(len(one)), length), place[p.column[entry]]
        there = column >= 0
        row, column, entry = row[there], column[there], entry[there]
        diagonal = self.matrix.diagonal
        out[row, column] += self.matrix.value[entry] / (diagonal[one[row]] * diagonal[p.column[entry]])
        return np.asarray(out)


def errors(matrix: Information, gauge: Gauge, score: Callable[[np.random.Generator], Floats], draws: int, seed: int) -> Errors:
    """Return the errors of estimates with this information.

    `score` draws a vector whose covariance is the information matrix; its solutions then have the inverse as covariance.
    """
    if matrix.is_small:
        covariance = matrix.inverse(gauge)
        return Errors(np.maximum(np.diag(covariance), 0.0), covariance)

    found, scores = solve_draws(matrix, gauge, score, draws, seed)
    sample = Draws(matrix, found, scores / matrix.diagonal[:, None])
    return Errors(sample.variances(), None, sample)


def solve_draws(
    matrix: Information, gauge: Gauge, score: Callable[[np.random.Generator], Floats], draws: int, seed: int
) -> tuple[Floats, Floats]:
    """Return solutions for drawn scores, and these scores, divided by the root of their number, [parameters, draws] each."""

    def drawn(number: int) -> tuple[Floats, Floats]:
        one = gauge.within(score(np.random.default_rng((seed, number))))
        return matrix.solve(one, gauge, SAMPLE), one

    with ThreadPoolExecutor(THREADS) as pool:  # NumPy lets other threads run
        solved, scores = zip(*pool.map(drawn, range(draws)), strict=True)
    return np.stack(solved, axis=1) / np.sqrt(draws), np.stack(scores, axis=1) / np.sqrt(draws)
