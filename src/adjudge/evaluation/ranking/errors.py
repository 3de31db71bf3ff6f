"""Errors of the estimates, and what follows: who is better than whom beyond doubt.

Comparisons of one prompt, document or conversation depend on each other. Given clusters, the covariance of the estimates is the
sandwich H⁻¹ M H⁻¹ (Liang and Zeger 1986). H is the information, M = Σ_c u_c u_c' + P sums the scores u_c of the clusters, and P
is the information in the priors. A fit follows its own data, so residuals are too small by the leverage of their cluster; M makes
up for it (after Bell and McCaffrey 2002), and intervals use t quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from adjudge.evaluation.intervals import Floats, Integers, normal_scores, quantiles, sum_by
from adjudge.evaluation.ranking.fit import Estimates, FittedRanking, RankingProblem
from adjudge.evaluation.ranking.information import Gauge, Information, SparseInformation
from adjudge.evaluation.ranking.tournament import Tournament

DRAW_RESIDUAL: Final = 1e-4  # the same of a draw, whose own error is far larger
SOLVER_THREADS: Final = 2  # that draw and solve at once: each takes some arrays as large as the matrix
MAX_LEVERAGE: Final = 0.5  # beyond it the residuals of a cluster say too little, and the model fills in
MIN_FREEDOM: Final = 2.0  # degrees of freedom; fewer have no variance to speak of
MAX_SCORES_IN_MEMORY: Final = 1 << 22  # products of scores, or scores, that are in memory at once: 32 MB per array
DENSE_GAIN: Final = 300  # products that a dense block adds up in the time of one sparse product
ITEMS_PER_BLOCK: Final = 512  # items compared with all others at once
EQUAL: Final = 1e-9  # nats within which two strengths are one
MAX_FURTHER: Final = 10**9  # comparisons beyond which nobody will compare


@dataclass(frozen=True, eq=False)
class EstimateErrors:
    """What is known of the errors of estimates: the whole covariance, or that of many draws where it is too large."""

    variance: Floats  # [parameters]
    covariance: Floats | None = None  # [parameters, parameters]
    draws: ErrorDraws | None = None
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
        if self.draws is None:
            assert self.covariance is not None
            across = self.covariance[np.ix_(one, other)]
        else:
            across = self.draws.covariances(one, other)
        across *= -2  # in place: these are the largest arrays of all
        across += self.variance[one][:, None]
        across += self.variance[other][None, :]
        least = self.draws.least[one].min(initial=np.inf) if self.draws is not None else 0.0
        return np.maximum(across, least, out=across)


@dataclass(frozen=True, eq=False)
class ErrorDraws:
    """Draws from the normal law of the errors, and beside each what it were if its parameters were independent.

    A mean of k squares is wrong by sqrt(2/k) of itself, in any graph. It is taken of the difference to the independent ones,
    whose covariance is known; where items have met many others the two are nearly the same, and so little is left to err.
    """

    matrix: SparseInformation
    found: Floats  # [parameters, draws] divided by the root of their number
    alone: Floats | None  # [parameters, draws] likewise: scores over the diagonal of the information; None with clusters
    dispersion: float = 1.0  # that multiplies all variances

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.found.shape[1])

    @property
    def least(self) -> Floats:
        """Half of the variance of every parameter if all others were known, [parameters]: a difference has no less of both."""
        return np.zeros(len(self.found)) if self.alone is None else np.asarray(0.5 * self._apart)

    def pairs(self, one: Integers, other: Integers) -> Floats:
        """Return the covariance of every two parameters, [pairs]."""
        found = np.einsum("pd,pd->p", self.found[one], self.found[other])
        if self.alone is None:
            return np.asarray(found)
        alone = np.einsum("pd,pd->p", self.alone[one], self.alone[other])
        met = self.matrix.entries(one, other)
        return np.asarray(found - alone + met * self._apart[one] * self._apart[other] / self.dispersion)

    def variances(self) -> Floats:
        """Return the variance of every parameter, [parameters]."""
        found = np.square(self.found).sum(axis=1)
        if self.alone is None:
            return np.asarray(found)
        apart = self._apart
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
        apart = self._apart
        out[row, column] += self.matrix.value[entry] * apart[one[row]] * apart[p.column[entry]] / self.dispersion
        return np.asarray(out)

    @property
    def _apart(self) -> Floats:
        """Variances if all other parameters were known, [parameters]."""
        return np.asarray(self.dispersion / self.matrix.diagonal)


def errors(
    matrix: Information,
    gauge: Gauge,
    score: Callable[[np.random.Generator], Floats] | None,
    draws: int,
    seed: int,
    *,
    dispersion: float = 1.0,
) -> EstimateErrors:
    """Return the errors of estimates with this information.

    `score` draws a vector whose covariance is the information matrix; its solutions then have the inverse as covariance. It is
    needed beyond 2000 parameters alone. `dispersion` multiplies all variances.
    """
    if matrix.is_small:
        covariance = dispersion * matrix.inverse(gauge)
        return EstimateErrors(np.maximum(np.diag(covariance), 0.0), covariance)

    assert isinstance(matrix, SparseInformation)
    assert score is not None
    found, scores = solve_draws(matrix, gauge, score, draws, seed)
    root = np.sqrt(dispersion)
    sample = ErrorDraws(matrix, root * found, root * scores / matrix.diagonal[:, None], dispersion)
    return EstimateErrors(sample.variances(), None, sample)


def solve_draws(
    matrix: Information, gauge: Gauge, score: Callable[[np.random.Generator], Floats], draws: int, seed: int
) -> tuple[Floats, Floats]:
    """Return solutions for drawn scores, and these scores, divided by the root of their number, [parameters, draws] each."""

    def drawn(number: int) -> tuple[Floats, Floats]:
        one = gauge.within(score(np.random.default_rng((seed, number))))
        return matrix.solve(one, gauge, DRAW_RESIDUAL), one

    with ThreadPoolExecutor(SOLVER_THREADS) as pool:  # NumPy lets other threads run
        solved, scores = zip(*pool.map(drawn, range(draws)), strict=True)
    return np.stack(solved, axis=1) / np.sqrt(draws), np.stack(scores, axis=1) / np.sqrt(draws)


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
        return cls(count, key // rows, key % rows, sum_by(entry, np.ones(len(row)), len(key)), sum_by(entry, outcome, len(key)))


def estimate_clustered_errors(fitted: FittedRanking, clusters: Clusters, draws: int, seed: int) -> EstimateErrors:
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
        assert isinstance(matrix, SparseInformation)
        alone = 1 / matrix.diagonal[: problem.tournament.items]
        scores = _ClusterScores.of(fitted, clusters, alone[problem.tournament.left], alone[problem.tournament.right])
        sample = ErrorDraws(matrix, solve_draws(matrix, gauge, scores.draw(), draws, seed)[0], None)
        return EstimateErrors(sample.variances(), None, sample, 1 / (1 / scores.freedom + 1 / draws))
    bread = matrix.inverse(gauge)
    variance, across = np.diag(bread), bread[problem.tournament.left, problem.tournament.right]
    scores = _ClusterScores.of(
        fitted, clusters, variance[problem.tournament.left] - across, variance[problem.tournament.right] - across
    )
    covariance = bread @ scores.meat() @ bread
    return EstimateErrors(np.maximum(np.diag(covariance), 0.0), covariance, None, scores.freedom)


@dataclass(frozen=True, eq=False)
class _ClusterScores:
    """Residuals of clusters, corrected for leverage."""

    problem: RankingProblem
    parameters: Floats
    clusters: Clusters
    residual: Floats  # [entries]
    modelled: Floats  # [rows] variance of the residuals that the model fills in
    freedom: Floats  # [parameters] degrees of freedom of the variance

    @classmethod
    def of(cls, fitted: FittedRanking, clusters: Clusters, left_reach: Floats, right_reach: Floats) -> _ClusterScores:
        """Return the scores; `left_reach` is Var(s_i) - Cov(s_i, s_j) of the left item of every row, [rows]."""
        problem, e, c = fitted.problem, fitted.estimates, clusters
        t = problem.tournament
        chance = problem.chances(e)[c.row]
        weight = c.comparisons * chance * (1 - chance)
        information = weight * np.square(e.reliability[t.judge[c.row]])
        # Leverage is the diagonal of I_c H⁻¹. Its n items span n - 1 directions, so the diagonal falls short by (n - 1)/n.
        item = np.concatenate([t.left[c.row], t.right[c.row]])
        key, at = np.unique(np.tile(c.cluster, 2) * t.items + item, return_inverse=True)
        share = sum_by(at, np.concatenate([information * left_reach[c.row], information * right_reach[c.row]]), len(key))
        size = np.bincount(key // t.items, minlength=c.count)[key // t.items]
        share *= size / (size - 1)
        leverage = np.minimum(share[at].reshape(2, -1).max(axis=0), 1.0)
        left_over = 1 - np.minimum(leverage, MAX_LEVERAGE)
        robust = (1 - leverage) / left_over  # 1 up to MAX_LEVERAGE, then falling to 0
        residual = (c.points - c.comparisons * chance) / np.sqrt(left_over)
        modelled = sum_by(c.row, weight * (1 - robust), len(t))
        return cls(problem, fitted.parameters, c, residual, modelled, _freedom(problem, e, c, weight, robust))

    def meat(self) -> Floats:
        """Return the covariance of the score, with the information in the priors, [parameters, parameters]."""
        problem = self.problem
        cluster, parameter, value = _sum_by_cluster(
            problem.design(problem.estimates(self.parameters)), self.clusters, self.residual, problem.size
        )
        filled = problem.information_from(problem.estimates(self.parameters), self.modelled).dense()
        return _sum_outer_products(cluster, parameter, value, problem.size) + filled

    def draw(self) -> Callable[[np.random.Generator], Floats]:
        """Return a function that draws vectors with the covariance `meat`, [parameters]."""
        c, rows, deviation = self.clusters, len(self.problem.tournament), np.sqrt(self.modelled)

        def noise(rng: np.random.Generator) -> Floats:
            together = rng.standard_normal(c.count)[c.cluster] * self.residual
            return sum_by(c.row, together, rows) + deviation * rng.standard_normal(rows)

        return self.problem.scores(self.parameters, noise)


def _freedom(problem: RankingProblem, e: Estimates, c: Clusters, weight: Floats, robust: Floats) -> Floats:
    """Return the degrees of freedom of each parameter's variance, [parameters]: its effective number of clusters, less one.

    Clusters are weighted by their information, without the share that the model fills in.
    """
    size = problem.size
    squares = [(parameter, np.square(slope)) for parameter, slope in problem.design(e)]
    whole = np.zeros(size)
    for parameter, square in squares:
        whole += sum_by(parameter[c.row], square[c.row] * weight, size)
    _, parameter, of_cluster = _sum_by_cluster(squares, c, weight * robust, size)
    alike = sum_by(parameter, np.square(of_cluster), size)
    return np.asarray(np.maximum(np.divide(whole**2, alike, out=np.full(size, np.inf), where=alike > 0) - 1, MIN_FREEDOM))


def _sum_by_cluster(
    design: list[tuple[Integers, Floats]], c: Clusters, values: Floats, size: int
) -> tuple[Integers, Integers, Floats]:
    """Return sums of slope x value over the entries of a cluster: clusters, parameters and sums, sorted by cluster."""
    key, at = np.unique(np.concatenate([c.cluster * size + parameter[c.row] for parameter, _ in design]), return_inverse=True)
    total = sum_by(at, np.concatenate([slope[c.row] * values for _, slope in design]), len(key))
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
        end = max(begin + 1, int(np.searchsorted(work, done + MAX_SCORES_IN_MEMORY, side="right")))
        some = slice(ptr[begin], ptr[end])
        if sparse:
            each = np.repeat(length[begin:end], length[begin:end])  # how many partners every entry has
            one = np.repeat(np.arange(some.start, some.stop), each)
            first = np.repeat(np.repeat(ptr[begin:end], length[begin:end]), each)
            other = first + np.arange(len(one)) - np.repeat(np.cumsum(each) - each, each)
            out += sum_by(parameter[one] * size + parameter[other], value[one] * value[other], size**2).reshape(size, size)
        else:
            block = np.zeros((end - begin, size))
            block[np.repeat(np.arange(end - begin), length[begin:end]), parameter[some]] = value[some]
            out += block.T @ block
        begin = end
    return out


def order_of(strength: Floats, component: Integers) -> Integers:
    """Return the items by component, the strongest first, [items]; equal ones in the order of their codes."""
    return np.lexsort((-np.round(strength / EQUAL), component))


def ranks(strength: Floats, component: Integers) -> Integers:
    """Return the rank of every item within its component, from 1 on, [items]; equal strengths have one rank.

    >>> ranks(np.array([0.5, -1.0, 0.5, 3.0]), np.array([0, 0, 0, 1])).tolist()
    [1, 3, 1, 1]
    """
    order = order_of(strength, component)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (component[order[1:]] != component[order[:-1]]) | (strength[order[:-1]] - strength[order[1:]] > EQUAL)
    place = np.arange(len(order))
    of_component = np.searchsorted(component[order], component[order])
    out = np.empty(len(order), np.int64)
    out[order] = np.maximum.accumulate(np.where(begins, place, 0)) - of_component + 1
    return out


def rank_intervals(strength: Floats, component: Integers, errors: EstimateErrors, level: float) -> tuple[Integers, Integers]:
    """Return the best and the worst rank of every item that the comparisons allow, [items] each.

    The best rank is one more than the number of items of the component that are better beyond doubt, the worst one is left by
    those that are worse beyond doubt. "Beyond doubt" is a difference whose interval of this level does not hold 0.
    """
    z = quantiles(level, errors.degrees(len(strength)))
    is_same = bool((z == z[0]).all())
    low, high = np.empty(len(strength), np.int64), np.empty(len(strength), np.int64)
    order = order_of(strength, component)
    cuts = np.flatnonzero(np.diff(component[order], prepend=-1, append=-1))
    for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
        members = order[begin:end]
        own, spread = strength[members], errors.variance[members]
        largest = float(spread.max())
        for start in range(0, len(members), ITEMS_PER_BLOCK):
            some = np.arange(start, min(start + ITEMS_PER_BLOCK, len(members)))
            # The variance of a difference is at most twice the sum of the two: who is farther is beyond doubt.
            reach = z[members].max() * np.sqrt(2 * (float(spread[some].max()) + largest)) + EQUAL
            first = int(np.searchsorted(-own, -(own[some[0]] + reach)))
            last = int(np.searchsorted(-own, -(own[some[-1]] - reach), side="right"))
            near = np.arange(first, last)
            gap = own[near][None, :] - own[some][:, None]
            sure = np.sqrt(errors.block(members[some], members[near]))
            sure *= z[0] if is_same else np.maximum(z[members[some]][:, None], z[members[near]][None, :])
            sure += EQUAL
            low[members[some]] = 1 + first + (gap > sure).sum(axis=1)
            high[members[some]] = last - (gap < -sure).sum(axis=1)
    return low, high


def find_rivals(strength: Floats, component: Integers, errors: EstimateErrors, level: float) -> Integers:
    """Return the items of the largest component that are not separated from its strongest one, strongest first, [rivals].

    If there are none, the strongest item is the winner. Each difference is tested alone. A winner has to pass every test, so
    among equal items a winner is found with probability 1 - level at most.
    """
    order = order_of(strength, component)
    order = order[component[order] == 0]
    leader, others = order[:1], order[1:]
    degrees = errors.degrees(len(strength))
    reach = quantiles(level, np.minimum(degrees[leader], degrees[others]))
    gap = strength[leader] - strength[others]
    return np.asarray(others[gap <= reach * np.sqrt(errors.block(leader, others)[0]) + EQUAL])


def neighbours(strength: Floats, component: Integers, errors: EstimateErrors, level: float) -> dict[str, Any]:
    """Return what is known of every two items that follow each other in a component, the strongest first, [pairs] each.

    `upper` and `lower` are codes of items; `difference` (in nats), its standard `error` and the ends `low` and `high` of its
    interval; `probability` that the upper one is the better; `further` comparisons of the two that would separate them, -1 where
    no number would.

    A comparison of the two adds p (1 - p) to the information about their difference, where p is the probability that the upper
    one wins it. They are separated where the interval of the difference does not hold 0. So as many comparisons are needed as
    make the standard error small enough, if the difference stays what it is: an estimate.
    """
    order = order_of(strength, component)
    same = component[order[1:]] == component[order[:-1]]
    upper, lower = order[:-1][same], order[1:][same]
    gap = np.maximum(strength[upper] - strength[lower], 0.0)
    variance = np.maximum(errors.of_differences(upper, lower), 1e-300)
    chance = 0.5 * (1 + np.tanh(0.5 * gap))
    degrees = errors.degrees(len(strength))
    freedom = np.minimum(degrees[upper], degrees[lower])
    reach, law = quantiles(level, freedom), NormalDist()
    probability = np.array([law.cdf(d) for d in normal_scores(gap / np.sqrt(variance), freedom).tolist()])
    equal = gap <= EQUAL
    wanted = np.square(reach / np.where(equal, 1.0, gap)) - 1 / variance
    more = np.ceil(np.maximum(wanted, 0.0) / (chance * (1 - chance)))
    further = np.where(equal | (more > MAX_FURTHER), -1, np.minimum(more, MAX_FURTHER)).astype(np.int64)
    error = np.sqrt(variance)
    return {
        "upper": upper,
        "lower": lower,
        "difference": gap,
        "error": error,
        "low": gap - reach * error,
        "high": gap + reach * error,
        "probability": probability,
        "further": further,
    }
