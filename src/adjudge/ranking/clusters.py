"""Cluster-robust errors: comparisons of one prompt, document or conversation depend on each other.

The covariance of the estimates is the sandwich H⁻¹ M H⁻¹ (Liang and Zeger 1986). H is the information, M = Σ_c u_c u_c' + P
sums the scores u_c of the clusters, and P is the information in the priors. A fit follows its own data, so residuals are too
small by the leverage of their cluster; M makes up for it (after Bell and McCaffrey 2002), and intervals use t quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.ranking.fit import Estimates, Fitted, Problem, parameters_of
from adjudge.ranking.information import Draws, Errors, solve_draws
from adjudge.ranking.tournament import Floats, Integers, Tournament, sums

MAX_LEVERAGE: Final = 0.5  # beyond it the residuals of a cluster say too little, and the model fills in
MIN_FREEDOM: Final = 2.0  # degrees of freedom; fewer have no variance to speak of
MAX_CELLS: Final = 1 << 22  # products of scores, or scores, that are in memory at once: 32 MB per array
DENSE_GAIN: Final = 300  # products that a dense block adds up in the time of one sparse product


@dataclass(frozen=True, eq=False)
class Clusters:
    """Comparisons that depend on each other: an entry per cluster and row of the tournament, sorted by cluster."""

    count: int  # clusters
    cluster: Integers  # [entries]
    row: Integers  # [entries] of the tournament
    comparisons: Floats  # [entries]
    points: Floats  # [entries] of the left item

    @classmethod
    def of(cls, tournament: Tournament, row: Integers, outcome: Floats, cluster: Integers) -> Clusters:
        """Return the clusters of single comparisons.

        Parameters
        ----------
        tournament : Tournament
            The comparisons added up.
        row : int array, [comparisons]
            Row of the tournament of each comparison (`Tournament.rows_of`).
        outcome : float array, [comparisons]
            Points of the left item: 1, 0 or 0.5.
        cluster : int array, [comparisons]
            Code of the cluster of each comparison.

        """
        rows = max(len(tournament), 1)
        key, entry = np.unique(cluster * rows + row, return_inverse=True)
        count = int(cluster.max(initial=-1)) + 1
        return cls(count, key // rows, key % rows, sums(entry, np.ones(len(row)), len(key)), sums(entry, outcome, len(key)))


def clustered_errors(fitted: Fitted, clusters: Clusters, draws: int, seed: int) -> Errors:
    """Return cluster-robust errors of the estimates.

    Beyond 2000 parameters the errors come from draws in which the residuals of a cluster share one random factor.

    Parameters
    ----------
    fitted : Fitted
        Estimates, with their information.
    clusters : Clusters
        Which comparisons depend on each other.
    draws, seed : int
        As in `adjudge.rank`.

    """
    problem, matrix, gauge = fitted.problem, fitted.information, fitted.problem.gauge
    if not matrix.is_small:
        alone = 1 / matrix.diagonal[: problem.tournament.items]
        scores = _Scores.of(fitted, clusters, alone[problem.tournament.left], alone[problem.tournament.right])
        sample = Draws(matrix, solve_draws(matrix, gauge, scores.draw(), draws, seed)[0], None)
        return Errors(sample.variances(), None, sample, 1 / (1 / scores.freedom + 1 / draws))
    bread = matrix.inverse(gauge)
    variance, across = np.diag(bread), bread[problem.tournament.left, problem.tournament.right]
    scores = _Scores.of(fitted, clusters, variance[problem.tournament.left] - across, variance[problem.tournament.right] - across)
    covariance = bread @ scores.meat() @ bread
    return Errors(np.maximum(np.diag(covariance), 0.0), covariance, None, scores.freedom)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Residuals of clusters, corrected for leverage."""

    problem: Problem
    parameters: Floats
    clusters: Clusters
    residual: Floats  # [entries]
    modelled: Floats  # [rows] variance of the residuals that the model fills in
    freedom: Floats  # [parameters] degrees of freedom of the variance

    @classmethod
    def of(cls, fitted: Fitted, clusters: Clusters, left_reach: Floats, right_reach: Floats) -> _Scores:
        """Return the scores; `left_reach` is Var(s_i) - Cov(s_i, s_j) of the left item of every row, [rows]."""
        problem, e, c = fitted.problem, fitted.estimates, clusters
        t = problem.tournament
        chance = problem.chances(e)[c.row]
        weight = c.comparisons * chance * (1 - chance)
        information = weight * np.square(e.reliability[t.judge[c.row]])
        # Leverage is the diagonal of I_c H⁻¹. Its n items span n - 1 directions, so the diagonal falls short by (n - 1)/n.
        item = np.concatenate([t.left[c.row], t.right[c.row]])
        key, at = np.unique(np.tile(c.cluster, 2) * t.items + item, return_inverse=True)
        share = sums(at, np.concatenate([information * left_reach[c.row], information * right_reach[c.row]]), len(key))
        size = np.bincount(key // t.items, minlength=c.count)[key // t.items]
        share *= size / (size - 1)
        leverage = np.minimum(share[at].reshape(2, -1).max(axis=0), 1.0)
        left_over = 1 - np.minimum(leverage, MAX_LEVERAGE)
        robust = (1 - leverage) / left_over  # 1 up to MAX_LEVERAGE, then falling to 0
        residual = (c.points - c.comparisons * chance) / np.sqrt(left_over)
        modelled = sums(c.row, weight * (1 - robust), len(t))
        return cls(problem, parameters_of(fitted), c, residual, modelled, _freedom(problem, e, c, weight, robust))

    def meat(self) -> Floats:
        """Return the covariance of the score, with the information in the priors, [parameters, parameters]."""
        problem = self.problem
        cluster, parameter, value = _sum_by_cluster(
            problem.design(problem.estimates(self.parameters)), self.clusters, self.residual, problem.pattern.size
        )
        filled = problem.information_from(self.parameters, self.modelled).dense()
        return _sum_outer_products(cluster, parameter, value, problem.pattern.size) + filled

    def draw(self) -> Callable[[np.random.Generator], Floats]:
        """Return a function that draws vectors with the covariance `meat`, [parameters]."""
        c, rows, deviation = self.clusters, len(self.problem.tournament), np.sqrt(self.modelled)

        def noise(rng: np.random.Generator) -> Floats:
            together = rng.standard_normal(c.count)[c.cluster] * self.residual
            return sums(c.row, together, rows) + deviation * rng.standard_normal(rows)

        return self.problem.scores(self.parameters, noise)


def _freedom(problem: Problem, e: Estimates, c: Clusters, weight: Floats, robust: Floats) -> Floats:
    """Return the degrees of freedom of each parameter's variance, [parameters]: its effective number of clusters, less one.

    Clusters are weighted by their information, without the share that the model fills in.
    """
    size = problem.pattern.size
    squares = [(parameter, np.square(slope)) for parameter, slope in problem.design(e)]
    whole = np.zeros(size)
    for parameter, square in squares:
        whole += sums(parameter[c.row], square[c.row] * weight, size)
    _, parameter, of_cluster = _sum_by_cluster(squares, c, weight * robust, size)
    alike = sums(parameter, np.square(of_cluster), size)
    return np.asarray(np.maximum(np.divide(whole**2, alike, out=np.full(size, np.inf), where=alike > 0) - 1, MIN_FREEDOM))


def _sum_by_cluster(
    design: list[tuple[Integers, Floats]], c: Clusters, values: Floats, size: int
) -> tuple[Integers, Integers, Floats]:
    """Return sums of slope x value over the entries of a cluster: clusters, parameters and sums, sorted by cluster."""
    key, at = np.unique(np.concatenate([c.cluster * size + parameter[c.row] for parameter, _ in design]), return_inverse=True)
    total = sums(at, np.concatenate([slope[c.row] * values for _, slope in design]), len(key))
    return key // size, key % size, total


def _sum_outer_products(cluster: Integers, parameter: Integers, value: Floats, size: int) -> Floats:
    """Return Σ_c v_c v_c', [size, size], of sparse vectors, one per cluster, sorted by cluster."""
    out = np.zeros((size, size))
    ptr = np.flatnonzero(np.diff(cluster, prepend=-1, append=-1))
    length = np.diff(ptr)
    sparse = DENSE_GAIN * float(np.square(length, dtype=np.float64).sum()) < len(length) * size**2
    work = np.cumsum(length**2 if sparse else np.full(len(length), size))
    begin = 0
    while begin < len(length):
        done = work[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(work, done + MAX_CELLS, side="right")))
        some = slice(ptr[begin], ptr[end])
        if sparse:
            each = np.repeat(length[begin:end], length[begin:end])  # how many partners every entry has
            one = np.repeat(np.arange(some.start, some.stop), each)
            first = np.repeat(np.repeat(ptr[begin:end], length[begin:end]), each)
            other = first + np.arange(len(one)) - np.repeat(np.cumsum(each) - each, each)
            out += sums(parameter[one] * size + parameter[other], value[one] * value[other], size**2).reshape(size, size)
        else:
            block = np.zeros((end - begin, size))
            block[np.repeat(np.arange(end - begin), length[begin:end]), parameter[some]] = value[some]
            out += block.T @ block
        begin = end
    return out
