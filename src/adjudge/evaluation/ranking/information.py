"""The information matrix of a ranking: whole up to 2000 parameters, sparse beyond, and solved within a gauge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.intervals import Floats, Integers, sum_by

MAX_EXACT: Final = 2000  # parameters whose matrix is inverted as a whole: a second, and 100 MB
MAX_DENSE_STEP: Final = 300  # parameters of a step that is solved as a whole: conjugate gradients are faster beyond
NEWTON_RESIDUAL: Final = 1e-9  # residual of a Newton step by conjugate gradients, relative
MAX_SOLVER_STEPS: Final = 5000  # of conjugate gradients
MIN_SOLVER_MOVE: Final = 1e-12  # nats that a step has to move a solution: less is rounding
MAX_INVERTED_BLOCK: Final = 256  # lines of a block that LAPACK inverts; larger ones are halved, as products are faster


def is_exact(size: int) -> bool:
    """Return whether so many parameters have a whole matrix, which is inverted."""
    return size <= MAX_EXACT


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

    def directions(self, size: int) -> Floats:
        """Return unit vectors, at right angles, of what is taken out, [parameters, directions]."""
        items, count = len(self.component), int(self.component.max()) + 1
        out = np.zeros((size, count + (self.scale is not None)))
        out[np.arange(items), self.component] = 1.0
        if self.scale is not None and self.weight is not None:
            out[self.scale, count] = self.weight
        return np.asarray(out / np.sqrt(np.square(out).sum(axis=0)))


class Pattern:
    """Where a symmetric sparse matrix has entries off its diagonal; entries at one place are added up."""

    def __init__(self, size: int, row: Integers, column: Integers) -> None:
        """Take the place of each entry, [entries]: one of the two triangles is enough."""
        self.size = size
        self._key, self._entry = np.unique(np.minimum(row, column) * size + np.maximum(row, column), return_inverse=True)
        low, high = self._key // size, self._key % size
        order = np.argsort(np.concatenate([low, high]), kind="stable")
        self._order = order % max(len(self._key), 1)
        self.column = np.concatenate([high, low])[order]
        self.ptr = np.searchsorted(np.concatenate([low, high])[order], np.arange(size + 1))

    def matrix(self, diagonal: Floats, values: Floats) -> SparseInformation:
        """Return the matrix with this diagonal, [parameters], and these entries, [entries]."""
        return SparseInformation(diagonal, self, sum_by(self._entry, values, len(self._key))[self._order])

    def entries(self, values: Floats, row: Integers, column: Integers) -> Floats:
        """Return what a matrix has at some places off its diagonal, [places]; `values` are those of both triangles."""
        of_key = np.zeros(len(self._key) + 1)  # the last one is of no key
        of_key[self._order] = values
        wanted = np.minimum(row, column) * self.size + np.maximum(row, column)
        at = np.searchsorted(self._key, wanted)
        there = np.append(self._key, -1)[at] == wanted
        return np.asarray(of_key[np.where(there, at, len(self._key))])


@dataclass(frozen=True, eq=False)
class Information:
    """A symmetric matrix, [parameters, parameters], with its diagonal, [parameters]."""

    diagonal: Floats

    @property
    def is_small(self) -> bool:
        """Whether the matrix is inverted as a whole."""
        return is_exact(len(self.diagonal))

    def product(self, x: Floats) -> Floats:
        """Return the matrix times a vector, [parameters]."""
        raise NotImplementedError

    def dense(self) -> Floats:
        """Return the whole matrix."""
        raise NotImplementedError

    def entries(self, row: Integers, column: Integers) -> Floats:
        """Return what the matrix has at some places off its diagonal, [places]."""
        raise NotImplementedError

    def inverse(self, gauge: Gauge) -> Floats:
        """Return the inverse within the gauge, [parameters, parameters]: for small matrices."""
        scale = float(self.diagonal.mean())
        fixed = gauge.directions(len(self.diagonal))
        out = _invert(self._pin(fixed, scale)) - fixed @ fixed.T / scale
        return np.asarray((out + out.T) / 2, np.float64)

    def solution(self, right: Floats, gauge: Gauge) -> Floats:
        """Return the solution within the gauge for one right side, [parameters]: exact for small matrices."""
        size = len(self.diagonal)
        if size > MAX_DENSE_STEP:
            return self.solve(right, gauge)
        pinned = self._pin(gauge.directions(size), float(self.diagonal.mean()))
        return gauge.within(np.asarray(np.linalg.solve(pinned, gauge.within(right)), np.float64))

    def _pin(self, fixed: Floats, scale: float) -> Floats:
        """Return P H P + s (I - P), where P = I - F F' takes the gauge out: the inverse is that within it, and 1/s outside."""
        out = self.dense()
        across = out @ fixed
        inner = fixed @ (fixed.T @ across + scale * np.eye(fixed.shape[1]))
        return np.asarray(out + (inner - across) @ fixed.T - fixed @ across.T, np.float64)

    def solve(self, right: Floats, gauge: Gauge, tol: float = NEWTON_RESIDUAL) -> Floats:
        """Return the solution within the gauge for one right side, [parameters], by conjugate gradients."""
        x = np.zeros_like(right)
        rest = gauge.within(right)
        enough = tol * np.sqrt(_dot(rest, rest))
        direction = near = gauge.within(rest / self.diagonal)
        gain = _dot(rest, near)
        for _ in range(MAX_SOLVER_STEPS):
            if np.sqrt(_dot(rest, rest)) <= enough or gain <= 0:
                break
            along = gauge.within(self.product(direction))
            step = gain / _dot(direction, along)
            x += step * direction
            if step * float(np.abs(direction).max()) < MIN_SOLVER_MOVE:
                break
            rest = rest - step * along
            near = gauge.within(rest / self.diagonal)
            gain, before = _dot(rest, near), gain
            direction = near + gain / before * direction
        return x


@dataclass(frozen=True, eq=False)
class DenseInformation(Information):
    """The matrix as a whole."""

    matrix: Floats  # [parameters, parameters]

    def product(self, x: Floats) -> Floats:
        """Return the matrix times a vector, [parameters]."""
        return np.asarray(np.einsum("ij,j->i", self.matrix, x))  # in this thread, as `_dot`

    def dense(self) -> Floats:
        """Return the whole matrix."""
        return self.matrix

    def entries(self, row: Integers, column: Integers) -> Floats:
        """Return what the matrix has at some places off its diagonal, [places]."""
        return np.asarray(self.matrix[row, column])


@dataclass(frozen=True, eq=False)
class SparseInformation(Information):
    """The diagonal, and the entries off it."""

    pattern: Pattern
    value: Floats  # [both triangles] in the order of `pattern.column`

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

    def entries(self, row: Integers, column: Integers) -> Floats:
        """Return what the matrix has at some places off its diagonal, [places]."""
        return self.pattern.entries(self.value, row, column)


def _dot(one: Floats, other: Floats) -> float:
    """Return the inner product, in this thread: for vectors as short as these, threads of BLAS wait for each other."""
    return float(np.einsum("i,i", one, other))


def _invert(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, [n, n], by halves (Schur complements)."""
    if len(matrix) <= MAX_INVERTED_BLOCK:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    half = len(matrix) // 2
    across = matrix[:half, half:]
    first = _invert(matrix[:half, :half])
    led = first @ across
    second = _invert(matrix[half:, half:] - across.T @ led)
    out = np.empty_like(matrix)
    mixed = led @ second
    out[:half, :half] = first + mixed @ led.T
    out[:half, half:], out[half:, :half] = -mixed, -mixed.T
    out[half:, half:] = second
    return out
