"""The Bradley-Terry model, with judges: strengths of items, the position's advantage, and how far each judge tells items apart.

A judge k who sees item i on the left and j on the right prefers i with probability

    sigma(a_k (s_i - s_j) + b_k),    b_k = b + c_k

- s are the strengths, in nats, with the mean 0 in every component of items that were compared;
- a_k is the judge's reliability: 1 for the mean judge, 0 for one who guesses, below 0 for one who prefers the worse;
- b is the advantage of the left side, c_k what the judge adds to it.

Ties count half a win for each side. Without judges all a are 1 and all c are 0, and the estimates are those of maximum
likelihood. Reliabilities (mean 1, weighted by comparisons) and c (mean 0) have normal laws whose spread is estimated too, so
that a judge with few comparisons is taken for the mean one. The objective integrates reliabilities out by Laplace's
approximation: -log(1 + spread² q_k)/2 per judge, where q_k is the information about a_k. Without this term strengths grow
until chance differences between judges explain them, and equal items seem to differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from adjudge.errors import NotConverged, warn
from adjudge.evaluation.intervals import Floats, Integers, sum_by
from adjudge.evaluation.ranking.comparisons import Tournament, components

POSITION_SPREAD: Final = 2.0  # nats: the weak normal law of the common advantage, finite where the left side always wins
START_SPREAD: Final = 0.3  # of judges, before they are known; it counts as one judge more
MAX_SPREAD: Final = 2.0  # of judges: more is noise that a few judges share
MAX_SPREAD_ROUNDS: Final = 15  # estimates of these spreads
SPREAD_TOLERANCE: Final = 0.01  # relative change of the spreads at which they stay
HALVINGS: Final = 30  # of a step that would lower the likelihood
ON_A_LINE: Final = 0.9  # squared cosine of two steps that are taken for parallel
MAX_STRETCH: Final = 10.0  # times that a step is lengthened, or shortened
MAX_STEP_NATS: Final = 4.0  # nats that an estimate moves in one step
MAX_EXACT: Final = 2000  # parameters whose matrix is inverted as a whole: a second, and 100 MB
MAX_DENSE_STEP: Final = 300  # parameters of a step that is solved as a whole: conjugate gradients are faster beyond
NEWTON_RESIDUAL: Final = 1e-9  # residual of a Newton step by conjugate gradients, relative
MAX_SOLVER_STEPS: Final = 5000  # of conjugate gradients


class RankingStep(NamedTuple):
    """One iteration."""

    phase: int  # the spreads of judges are fixed within a phase
    objective: float  # the penalised log-likelihood, which never falls within a phase
    change: float  # the largest change of an estimate


@dataclass(frozen=True, eq=False)
class Estimates:
    """Everything that is estimated."""

    strength: Floats  # [items]
    position: float  # the common advantage of the left side
    judge_position: Floats  # [judges] with the common one
    reliability: Floats  # [judges]


@dataclass(frozen=True, eq=False)
class FittedRanking:
    """Estimates at the maximum, and the information about them."""

    estimates: Estimates
    log_likelihood: float  # not penalised
    trace: tuple[RankingStep, ...]
    converged: bool
    problem: RankingProblem
    parameters: Floats  # the estimates as one vector
    information: Information


@dataclass(frozen=True, eq=False)
class RankingProblem:
    """A tournament and what is to be estimated; the parameters are one vector of strengths, b, b_k and a_k - 1."""

    tournament: Tournament
    component: Integers  # [items]
    prior: Floats  # [items] comparisons with an item of strength 0, half of them won
    has_position: bool
    has_judges: bool
    pattern: Pattern
    gauge: Gauge
    reliability_spread: float = START_SPREAD  # standard deviation over judges
    position_spread: float = START_SPREAD

    @property
    def at_position(self) -> int:
        """The index of b."""
        return self.tournament.items

    @property
    def judge_positions(self) -> slice:
        """Where b_k are."""
        return _slices(self.tournament, self.has_position, self.has_judges)[0]

    @property
    def scales(self) -> slice:
        """Where a_k - 1 are."""
        return _slices(self.tournament, self.has_position, self.has_judges)[1]

    def estimates(self, x: Floats) -> Estimates:
        """Return parameters, [parameters], by their names."""
        t = self.tournament
        common = float(x[self.at_position]) if self.has_position else 0.0
        both = self.has_position and self.has_judges
        return Estimates(
            x[: t.items],
            common,
            x[self.judge_positions] if both else np.full(t.judges, common),
            1 + x[self.scales] if self.has_judges else np.ones(t.judges),
        )

    def log_odds(self, e: Estimates) -> Floats:
        """Return the log-odds that the left item wins, [rows]."""
        t = self.tournament
        return e.reliability[t.judge] * (e.strength[t.left] - e.strength[t.right]) + e.judge_position[t.judge]

    def chances(self, e: Estimates) -> Floats:
        """Return the probability that the left item wins, [rows]."""
        return _sigma(self.log_odds(e))

    def log_likelihood(self, e: Estimates) -> float:
        """Return the log-likelihood of the comparisons."""
        odds = self.log_odds(e)
        return float((self.tournament.points * odds - self.tournament.count * np.logaddexp(0.0, odds)).sum())

    def objective(self, x: Floats) -> float:
        """Return the log-likelihood with what the priors add."""
        e = self.estimates(x)
        out = self.log_likelihood(e) + float((self.prior * (0.5 * e.strength - np.logaddexp(0.0, e.strength))).sum())
        if self.has_position:
            out -= 0.5 * (e.position / POSITION_SPREAD) ** 2
        if self.has_judges:
            out -= 0.5 * float(np.square(x[self.scales] / self.reliability_spread).sum())
            out -= 0.5 * float(np.log1p(self.reliability_spread**2 * self.judge_information(e)).sum())
        if self.has_position and self.has_judges:
            out -= 0.5 * float(np.square((e.judge_position - e.position) / self.position_spread).sum())
        return out

    def gradient(self, x: Floats) -> Floats:
        """Return the derivative of the objective, [parameters]."""
        t, e = self.tournament, self.estimates(x)
        chance = self.chances(e)
        residual = t.points - t.count * chance
        out = np.zeros_like(x)
        if self.has_judges:
            gap = e.strength[t.left] - e.strength[t.right]
            weight = t.count * chance * (1 - chance)
            variance = (1 / (1 / self.reliability_spread**2 + self.judge_information(e)))[t.judge]
            residual -= 0.5 * variance * weight * (1 - 2 * chance) * gap**2
            pull = -variance * weight * gap
            out[: t.items] = t.per_item(pull, -pull)
            out[self.scales] = -x[self.scales] / self.reliability_spread**2
        for parameter, slope in self.design(e):
            out += sum_by(parameter, slope * residual, len(x))
        out[: t.items] += self.prior * (0.5 - _sigma(e.strength))
        if self.has_position:
            out[self.at_position] -= e.position / POSITION_SPREAD**2
        if self.has_position and self.has_judges:
            apart = (e.judge_position - e.position) / self.position_spread**2
            out[self.judge_positions] -= apart
            out[self.at_position] += apart.sum()
        return out

    def design(self, e: Estimates) -> list[tuple[Integers, Floats]]:
        """Return the derivatives of every row's log-odds: parameters, [rows], with the slope in each, [rows]."""
        t = self.tournament
        scale = e.reliability[t.judge]
        out = [(t.left, scale), (t.right, -scale)]
        if self.has_position:
            at = self.judge_positions.start + t.judge if self.has_judges else np.full(len(t), self.at_position)
            out.append((at, np.ones(len(t))))
        if self.has_judges:
            out.append((self.scales.start + t.judge, e.strength[t.left] - e.strength[t.right]))
        return out

    def judge_information(self, e: Estimates) -> Floats:
        """Return the information about the reliability of every judge if all else were known, [judges]."""
        t, chance = self.tournament, self.chances(e)
        return t.per_judge(t.count * chance * (1 - chance) * np.square(e.strength[t.left] - e.strength[t.right]))

    def information(self, x: Floats) -> Information:
        """Return the expected information with that of the priors, [parameters, parameters].

        Without judges it is the observed one, too: the log-odds are linear in the parameters.
        """
        chance = self.chances(self.estimates(x))
        return self.information_from(x, self.tournament.count * chance * (1 - chance))

    def information_from(self, x: Floats, weight: Floats) -> Information:
        """Return the information of rows that know their log-odds by `weight`, [rows], with that of the priors."""
        t, e = self.tournament, self.estimates(x)
        scale, gap = e.reliability[t.judge], e.strength[t.left] - e.strength[t.right]
        diagonal = np.zeros_like(x)
        own = _sigma(e.strength)
        diagonal[: t.items] = t.per_item(weight * scale**2) + self.prior * own * (1 - own)
        values = [-weight * scale**2]
        if self.has_position:
            diagonal[self.at_position] = 1 / POSITION_SPREAD**2
            if self.has_judges:
                values += [weight * scale, -weight * scale]
                diagonal[self.judge_positions] = t.per_judge(weight) + 1 / self.position_spread**2
                diagonal[self.at_position] += t.judges / self.position_spread**2
            else:
                values += [t.per_item(weight, -weight)]
                diagonal[self.at_position] += weight.sum()
        if self.has_judges:
            diagonal[self.scales] = t.per_judge(weight * gap**2) + 1 / self.reliability_spread**2
            values += [weight * scale * gap, -weight * scale * gap]
        if self.has_position and self.has_judges:
            values += [weight * gap, np.full(t.judges, -1 / self.position_spread**2)]
        return self.pattern.matrix(diagonal, np.concatenate(values))

    def scores(
        self, x: Floats, noise: Callable[[np.random.Generator], Floats] | None = None
    ) -> Callable[[np.random.Generator], Floats]:
        """Return a function that draws a score with the priors' share, [parameters].

        `noise` draws the residuals of the rows, [rows]. By default they are independent, and the covariance of the draws is
        `information`.
        """
        t, e = self.tournament, self.estimates(x)
        chance, own = self.chances(e), _sigma(e.strength)
        deviation = np.sqrt(t.count * chance * (1 - chance))
        of_prior = np.sqrt(self.prior * own * (1 - own))
        design = self.design(e)

        def draw(rng: np.random.Generator) -> Floats:
            residual = deviation * rng.standard_normal(len(t)) if noise is None else noise(rng)
            out = np.zeros_like(x)
            for parameter, slope in design:
                out += sum_by(parameter, slope * residual, len(x))
            out[: t.items] += of_prior * rng.standard_normal(t.items)
            if self.has_position:
                out[self.at_position] += rng.standard_normal() / POSITION_SPREAD
            if self.has_position and self.has_judges:
                apart = rng.standard_normal(t.judges) / self.position_spread
                out[self.judge_positions] += apart
                out[self.at_position] -= apart.sum()
            if self.has_judges:
                out[self.scales] += rng.standard_normal(t.judges) / self.reliability_spread
            return out

        return draw


def problem_of(tournament: Tournament, *, position: bool, judges: bool, prior: Floats | float = 0.0) -> RankingProblem:
    """Return what is to be estimated of a tournament.

    - `position`: whether the left side may have an advantage.
    - `judges`: whether judges differ in reliability, and in that advantage.
    - `prior`: comparisons of every item with one of strength 0, half of them won, [items] or one number.
    """
    t = tournament
    component = components(t.items, t.left, t.right)
    judge_positions, scales = _slices(t, position, judges)
    at_judge = judge_positions.start + t.judge
    places = [(t.left, t.right)]
    if position and judges:
        places += [(t.left, at_judge), (t.right, at_judge)]
    elif position:
        places += [(np.arange(t.items), np.full(t.items, t.items))]
    if judges:
        places += [(t.left, scales.start + t.judge), (t.right, scales.start + t.judge)]
    if position and judges:
        people = np.arange(t.judges)
        places += [(at_judge, scales.start + t.judge), (np.full(t.judges, t.items), judge_positions.start + people)]
    size = scales.stop
    pattern = Pattern(size, *(np.concatenate([place[side] for place in places]) for side in (0, 1)))
    gauge = Gauge(component, scales, t.per_judge(t.count)) if judges else Gauge(component)
    return RankingProblem(t, component, np.broadcast_to(prior, (t.items,)), position, judges, pattern, gauge)


def fit(problem: RankingProblem, *, tol: float = 1e-8, max_iter: int = 500) -> FittedRanking:
    """Return the estimates at the maximum of the penalised likelihood.

    - `problem`: what `problem_of` returns.
    - `tol`: the largest change of an estimate at which a fit stops.
    - `max_iter`: the most iterations; a fit that needs more warns `NotConverged`.

    >>> t = Tournament.of([0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 1])
    >>> fit(problem_of(t, position=False, judges=False)).estimates.strength.round(6).tolist()
    [0.0, 0.0]
    """
    x = np.zeros(problem.pattern.size)
    trace: list[RankingStep] = []
    rounds = MAX_SPREAD_ROUNDS if problem.has_judges else 0
    for phase in range(rounds):
        x = _climb(problem, x, trace, phase, 1e-4, max_iter)
        spreads = _spreads(problem, x)
        before = (problem.reliability_spread, problem.position_spread)
        moved = max(abs(new / old - 1) for new, old in zip(spreads, before, strict=True))
        problem = replace(problem, reliability_spread=spreads[0], position_spread=spreads[1])
        if moved < SPREAD_TOLERANCE:
            break
    x = _climb(problem, x, trace, rounds, tol, max_iter)
    converged = not trace or trace[-1].change <= tol
    if not converged:
        warn(f"the strengths still moved by {trace[-1].change:.1g} after {len(trace)} iterations", NotConverged)
    e = problem.estimates(x)
    return FittedRanking(e, problem.log_likelihood(e), tuple(trace), converged, problem, x, problem.information(x))


def _climb(problem: RankingProblem, x: Floats, trace: list[RankingStep], phase: int, tol: float, max_iter: int) -> Floats:
    """Return the maximum, by scoring steps; a step that lowers the objective is halved until it does not.

    With judges the expected information is not the curvature: steps keep to a line, too short or too far, and shrink by the
    same factor each time. They are stretched, or cut, to where their sum leads.
    """
    value = problem.objective(x)
    previous, stretch = np.zeros_like(x), 1.0
    while len(trace) < max_iter:
        matrix, slope = problem.information(x), problem.gradient(x)
        scoring = matrix.solution(slope, problem.gauge)
        stretch = _stretch(scoring, previous, stretch)
        previous, step = scoring, stretch * scoring
        change = float(np.abs(step).max(initial=0.0))
        if change > MAX_STEP_NATS:
            step, change = step * (MAX_STEP_NATS / change), MAX_STEP_NATS
        for _ in range(HALVINGS):
            reached = problem.objective(x + step)
            if reached >= value - 1e-13 * abs(value):
                break
            step = step / 2
        else:
            trace.append(RankingStep(phase, value, 0.0))  # no direction leads up: this is the maximum, to rounding
            return x
        x, value = x + step, max(reached, value)
        trace.append(RankingStep(phase, value, change))
        if change <= tol:
            break
    return x


def _stretch(step: Floats, previous: Floats, stretch: float) -> float:
    """Return how far to go along a step, given the one before and how far that went."""
    before, length = float(previous @ previous), float(step @ step)
    ratio = float(step @ previous) / before if before else 1.0
    if ratio >= 1 or ratio**2 * before < ON_A_LINE * length:
        return 1.0
    return min(max(stretch / (1 - ratio), 1 / MAX_STRETCH), MAX_STRETCH)


def _spreads(problem: RankingProblem, x: Floats) -> tuple[float, float]:
    """Return the spread of reliability and of position over judges that estimates and their errors show (an EM step)."""
    matrix = problem.information(x)
    t, e = problem.tournament, problem.estimates(x)
    scale = matrix.diagonal[problem.scales]
    squares = np.square(x[problem.scales])
    weight = t.per_judge(t.count)
    free = 1 - weight**2 / (weight @ weight)
    if not problem.has_position:
        return _spread(squares + free / scale), problem.position_spread
    chance = problem.chances(e)
    both = t.per_judge(t.count * chance * (1 - chance) * (e.strength[t.left] - e.strength[t.right]))
    side = matrix.diagonal[problem.judge_positions]
    known = scale * side - both**2
    return _spread(squares + free * side / known), _spread(np.square(e.judge_position - e.position) + scale / known)


def _spread(squares: Floats) -> float:
    """Return a spread from squares of deviations: one is used up by their mean, and one more is lent."""
    return min(float(np.sqrt((squares.sum() + START_SPREAD**2) / len(squares))), MAX_SPREAD)


def _slices(t: Tournament, position: bool, judges: bool) -> tuple[slice, slice]:
    start = t.items + int(position)
    middle = start + (t.judges if position and judges else 0)
    return slice(start, middle), slice(middle, middle + (t.judges if judges else 0))


def _sigma(x: Floats) -> Floats:
    return 0.5 * (1 + np.tanh(0.5 * x))


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
        return Information(self, diagonal, sum_by(self._entry, values, len(self._key))[self._order])

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
        fixed = _directions_of(gauge, self.pattern.size)
        out = np.linalg.inv(self._pin(fixed, scale)) - fixed @ fixed.T / scale
        return np.asarray((out + out.T) / 2, np.float64)

    def solution(self, right: Floats, gauge: Gauge) -> Floats:
        """Return the solution within the gauge for one right side, [parameters]: exact for small matrices."""
        if self.pattern.size > MAX_DENSE_STEP:
            return self.solve(right, gauge)
        pinned = self._pin(_directions_of(gauge, self.pattern.size), float(self.diagonal.mean()))
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
            rest = rest - step * along
            near = gauge.within(rest / self.diagonal)
            gain, before = _dot(rest, near), gain
            direction = near + gain / before * direction
        return x


def _dot(one: Floats, other: Floats) -> float:
    """Return the inner product, in this thread: for vectors as short as these, threads of BLAS wait for each other."""
    return float(np.einsum("i,i", one, other))


def _directions_of(gauge: Gauge, size: int) -> Floats:
    """Return unit vectors, at right angles, of what a gauge takes out, [parameters, directions]."""
    items, count = len(gauge.component), int(gauge.component.max()) + 1
    out = np.zeros((size, count + (gauge.scale is not None)))
    out[np.arange(items), gauge.component] = 1.0
    if gauge.scale is not None and gauge.weight is not None:
        out[gauge.scale, count] = gauge.weight
    return np.asarray(out / np.sqrt(np.square(out).sum(axis=0)))
