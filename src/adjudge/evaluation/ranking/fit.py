"""The Bradley-Terry model, with judges: strengths of items, the position's advantage, and how far each judge tells items apart.

A judge k who sees item i on the left and j on the right prefers i with probability

    sigma(a_k (s_i - s_j) + b_k + z'g),    b_k = b + c_k

- s are the strengths, in nats, with the mean 0 in every component of items that were compared;
- a_k is the judge's reliability: 1 for the mean judge, 0 for one who guesses, below 0 for one who prefers the worse;
- b is the advantage of the left side, c_k what the judge adds to it;
- z are covariates of the comparison, such as how much longer the left item is, and g their effects.

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
from adjudge.evaluation.ranking.information import DenseInformation, Gauge, Information, Pattern, is_exact
from adjudge.evaluation.ranking.tournament import Tournament, components
from adjudge.kernels.cpu import cores
from adjudge.kernels.ranking_reference import RankModel, ranking_kernels

POSITION_SPREAD: Final = 2.0  # nats: the weak normal law of the common advantage, finite where the left side always wins
EFFECT_SPREAD: Final = 2.0  # nats per standard deviation of a covariate: likewise of each effect
START_SPREAD: Final = 0.3  # of judges, before they are known; it counts as one judge more
MAX_SPREAD: Final = 2.0  # of judges: more is noise that a few judges share
MAX_SPREAD_ROUNDS: Final = 15  # estimates of these spreads
SPREAD_TOLERANCE: Final = 0.01  # relative change of the spreads at which they stay
HALVINGS: Final = 30  # of a step that would lower the likelihood
ON_A_LINE: Final = 0.9  # squared cosine of two steps that are taken for parallel
MAX_STRETCH: Final = 10.0  # times that a step is lengthened, or shortened
MAX_STEP_NATS: Final = 4.0  # nats that an estimate moves in one step


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
    effect: Floats  # [styles] of covariates


class RankingState(NamedTuple):
    """What a pass over the rows finds at some parameters."""

    x: Floats  # [parameters]
    estimates: Estimates
    chance: Floats  # [rows] that the left item wins
    told: Floats  # [judges] information about each reliability if everything else were known
    log_likelihood: float  # not penalised
    objective: float  # with what the priors add


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
    """A tournament and what is to be estimated; the parameters are one vector of strengths, b, b_k, a_k - 1 and g."""

    tournament: Tournament
    component: Integers  # [items]
    prior: Floats  # [items] comparisons with an item of strength 0, half of them won
    has_position: bool
    has_judges: bool
    pattern: Pattern | None  # None if there are so few parameters that the information is a whole matrix
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

    @property
    def styles(self) -> slice:
        """Where the effects of covariates are."""
        return _slices(self.tournament, self.has_position, self.has_judges)[2]

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return int(self.styles.stop)

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
            x[self.styles],
        )

    def chances(self, e: Estimates) -> Floats:
        """Return the probability that the left item wins, [rows]."""
        chance = np.empty(len(self.tournament))
        ranking_kernels().rank_chances(
            *self.tournament.rows, *_model(e), chance=chance, told=np.empty(self.tournament.judges), threads=cores()
        )
        return chance

    def evaluate(self, x: Floats) -> RankingState:
        """Return what the rows show at these parameters."""
        t, e = self.tournament, self.estimates(x)
        chance, told = np.empty(len(t)), np.empty(t.judges)
        likelihood = ranking_kernels().rank_chances(*t.rows, *_model(e), chance=chance, told=told, threads=cores())
        out = likelihood + float((self.prior * (0.5 * e.strength - np.logaddexp(0.0, e.strength))).sum())
        if self.has_position:
            out -= 0.5 * (e.position / POSITION_SPREAD) ** 2
        if self.has_judges:
            out -= 0.5 * float(np.square(x[self.scales] / self.reliability_spread).sum())
            out -= 0.5 * float(np.log1p(self.reliability_spread**2 * told).sum())
        if self.has_position and self.has_judges:
            out -= 0.5 * float(np.square((e.judge_position - e.position) / self.position_spread).sum())
        out -= 0.5 * float(np.square(e.effect / EFFECT_SPREAD).sum())
        return RankingState(x, e, chance, told, likelihood, out)

    def gradient(self, at: RankingState) -> Floats:
        """Return the derivative of the objective, [parameters]."""
        t, e = self.tournament, at.estimates
        out = np.zeros_like(at.x)
        by_judge = np.empty((t.judges, 2))
        variance = 1 / (1 / self.reliability_spread**2 + at.told) if self.has_judges else np.zeros(t.judges)
        ranking_kernels().rank_slopes(
            *t.rows,
            *_model(e),
            chance=at.chance,
            variance=variance,
            by_item=out[: t.items],
            by_judge=by_judge,
            by_style=out[self.styles],
            threads=cores(),
        )
        out[: t.items] += self.prior * (0.5 - _sigma(e.strength))
        out[self.styles] -= e.effect / EFFECT_SPREAD**2
        if self.has_position:
            out[self.at_position] = -e.position / POSITION_SPREAD**2
            if self.has_judges:
                apart = (e.judge_position - e.position) / self.position_spread**2
                out[self.judge_positions] = by_judge[:, 0] - apart
                out[self.at_position] += apart.sum()
            else:
                out[self.at_position] += by_judge[:, 0].sum()
        if self.has_judges:
            out[self.scales] = by_judge[:, 1] - at.x[self.scales] / self.reliability_spread**2
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
        return out + [(np.full(len(t), self.styles.start + n), style) for n, style in enumerate(t.style.T)]

    def information(self, at: RankingState) -> Information:
        """Return the expected information with that of the priors, [parameters, parameters].

        Without judges it is the observed one, too: the log-odds are linear in the parameters.
        """
        return self.information_from(at.estimates, self.tournament.count * at.chance * (1 - at.chance))

    def information_from(self, e: Estimates, weight: Floats) -> Information:
        """Return the information of rows that know their log-odds by `weight`, [rows], with that of the priors."""
        t, own, diagonal = self.tournament, _sigma(e.strength), np.zeros(self.size)
        diagonal[: t.items] = self.prior * own * (1 - own)
        diagonal[self.styles] = 1 / EFFECT_SPREAD**2
        if self.has_position:
            diagonal[self.at_position] = 1 / POSITION_SPREAD**2
        if self.has_judges:
            diagonal[self.scales] = 1 / self.reliability_spread**2
        tie = 1 / self.position_spread**2  # of every judge's position to the common one
        if self.has_position and self.has_judges:
            diagonal[self.judge_positions] = tie
            diagonal[self.at_position] += t.judges * tie
        if self.pattern is not None:
            return self._sparse_information(self.pattern, e, weight, diagonal, tie)
        matrix = np.empty((self.size, self.size))
        both = self.has_position and self.has_judges
        ranking_kernels().rank_information(
            *t.rows,
            *_model(e),
            weight=weight,
            at_position=self.judge_positions.start if both else self.at_position if self.has_position else -1,
            step=int(both),
            at_scale=self.scales.start if self.has_judges else -1,
            at_style=self.styles.start if t.styles else -1,
            matrix=matrix,
            threads=cores(),
        )
        if both:
            matrix[self.at_position, self.judge_positions] -= tie
            matrix[self.judge_positions, self.at_position] -= tie
        matrix[np.diag_indices(self.size)] += diagonal
        return DenseInformation(np.diag(matrix).copy(), matrix)

    def _sparse_information(self, pattern: Pattern, e: Estimates, weight: Floats, diagonal: Floats, tie: float) -> Information:
        """Return the same in the pattern; `diagonal` has what the priors add to it, [parameters]."""
        t = self.tournament
        scale, gap = e.reliability[t.judge], e.strength[t.left] - e.strength[t.right]
        diagonal[: t.items] += t.per_item(weight * scale**2)
        values = [-weight * scale**2]
        if self.has_position and self.has_judges:
            values += [weight * scale, -weight * scale]
            diagonal[self.judge_positions] += t.per_judge(weight)
        elif self.has_position:
            values += [t.per_item(weight, -weight)]
            diagonal[self.at_position] += weight.sum()
        if self.has_judges:
            diagonal[self.scales] += t.per_judge(weight * gap**2)
            values += [weight * scale * gap, -weight * scale * gap]
        if self.has_position and self.has_judges:
            values += [weight * gap, np.full(t.judges, -tie)]
        for n, style in enumerate(t.style.T):
            known = weight * style
            diagonal[self.styles.start + n] += known @ style
            values += [t.per_item(known * scale, -known * scale), *(np.array([known @ other]) for other in t.style.T[:n])]
            if self.has_position:
                values += [t.per_judge(known) if self.has_judges else np.array([known.sum()])]
            if self.has_judges:
                values += [t.per_judge(known * gap)]
        return pattern.matrix(diagonal, np.concatenate(values))

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
            out[self.styles] += rng.standard_normal(t.styles) / EFFECT_SPREAD
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
    scales = _slices(t, position, judges)[1]
    gauge = Gauge(component, scales, t.per_judge(t.count)) if judges else Gauge(component)
    pattern = _pattern(t, position, judges)
    return RankingProblem(t, component, np.broadcast_to(prior, (t.items,)), position, judges, pattern, gauge)


def _pattern(t: Tournament, position: bool, judges: bool) -> Pattern | None:
    """Return where the information has entries, in the order of `_sparse_information`; None if it is a whole matrix."""
    judge_positions, scales, styles = _slices(t, position, judges)
    if is_exact(styles.stop):
        return None
    at_judge, people, items = judge_positions.start + t.judge, np.arange(t.judges), np.arange(t.items)
    places = [(t.left, t.right)]
    if position and judges:
        places += [(t.left, at_judge), (t.right, at_judge)]
    elif position:
        places += [(items, np.full(t.items, t.items))]
    if judges:
        places += [(t.left, scales.start + t.judge), (t.right, scales.start + t.judge)]
    if position and judges:
        places += [(at_judge, scales.start + t.judge), (np.full(t.judges, t.items), judge_positions.start + people)]
    for n in range(t.styles):
        at = styles.start + n
        others = [(np.array([styles.start + other]), np.array([at])) for other in range(n)]
        places += [(items, np.full(t.items, at)), *others]
        if position:
            known = judge_positions.start + people if judges else np.array([t.items])
            places += [(known, np.full(len(known), at))]
        if judges:
            places += [(scales.start + people, np.full(t.judges, at))]
    return Pattern(styles.stop, *(np.concatenate([place[side] for place in places]) for side in (0, 1)))


def fit(problem: RankingProblem, *, tol: float = 1e-8, max_iter: int = 500) -> FittedRanking:
    """Return the estimates at the maximum of the penalised likelihood.

    - `problem`: what `problem_of` returns.
    - `tol`: the largest change of an estimate at which a fit stops.
    - `max_iter`: the most iterations; a fit that needs more warns `NotConverged`.

    >>> t = Tournament.of([0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 1])
    >>> fit(problem_of(t, position=False, judges=False)).estimates.strength.round(6).tolist()
    [0.0, 0.0]
    """
    x = np.zeros(problem.size)
    trace: list[RankingStep] = []
    rounds = MAX_SPREAD_ROUNDS if problem.has_judges else 0
    for phase in range(rounds):
        reached = _climb(problem, x, trace, phase, 1e-4, max_iter)
        spreads = _spreads(problem, reached)
        before = (problem.reliability_spread, problem.position_spread)
        moved = max(abs(new / old - 1) for new, old in zip(spreads, before, strict=True))
        problem = replace(problem, reliability_spread=spreads[0], position_spread=spreads[1])
        x = reached.x
        if moved < SPREAD_TOLERANCE:
            break
    reached = _climb(problem, x, trace, rounds, tol, max_iter)
    converged = not trace or trace[-1].change <= tol
    if not converged:
        warn(f"the strengths still moved by {trace[-1].change:.1g} after {len(trace)} iterations", NotConverged)
    information = problem.information(reached)
    return FittedRanking(reached.estimates, reached.log_likelihood, tuple(trace), converged, problem, reached.x, information)


def _climb(problem: RankingProblem, x: Floats, trace: list[RankingStep], phase: int, tol: float, max_iter: int) -> RankingState:
    """Return the maximum, by scoring steps; a step that lowers the objective is halved until it does not.

    With judges the expected information is not the curvature: steps keep to a line, too short or too far, and shrink by the
    same factor each time. They are stretched, or cut, to where their sum leads.
    """
    at = problem.evaluate(x)
    value, previous, stretch = at.objective, np.zeros_like(x), 1.0
    while len(trace) < max_iter:
        scoring = problem.information(at).solution(problem.gradient(at), problem.gauge)
        stretch = _stretch(scoring, previous, stretch)
        previous, step = scoring, stretch * scoring
        change = float(np.abs(step).max(initial=0.0))
        if change > MAX_STEP_NATS:
            step, change = step * (MAX_STEP_NATS / change), MAX_STEP_NATS
        for _ in range(HALVINGS):
            reached = problem.evaluate(at.x + step)
            if reached.objective >= value - 1e-13 * abs(value):
                break
            step = step / 2
        else:
            trace.append(RankingStep(phase, value, 0.0))  # no direction leads up: this is the maximum, to rounding
            return at
        at, value = reached, max(reached.objective, value)
        trace.append(RankingStep(phase, value, change))
        if change <= tol:
            break
    return at


def _stretch(step: Floats, previous: Floats, stretch: float) -> float:
    """Return how far to go along a step, given the one before and how far that went."""
    before, length = float(previous @ previous), float(step @ step)
    ratio = float(step @ previous) / before if before else 1.0
    if ratio >= 1 or ratio**2 * before < ON_A_LINE * length:
        return 1.0
    return min(max(stretch / (1 - ratio), 1 / MAX_STRETCH), MAX_STRETCH)


def _spreads(problem: RankingProblem, at: RankingState) -> tuple[float, float]:
    """Return the spread of reliability and of position over judges that estimates and their errors show (an EM step)."""
    matrix, people = problem.information(at), np.arange(problem.tournament.judges)
    t, e = problem.tournament, at.estimates
    scale = matrix.diagonal[problem.scales]
    squares = np.square(at.x[problem.scales])
    weight = t.per_judge(t.count)
    free = 1 - weight**2 / (weight @ weight)
    if not problem.has_position:
        return _spread(squares + free / scale), problem.position_spread
    both = matrix.entries(problem.judge_positions.start + people, problem.scales.start + people)
    side = matrix.diagonal[problem.judge_positions]
    known = scale * side - both**2
    return _spread(squares + free * side / known), _spread(np.square(e.judge_position - e.position) + scale / known)


def _spread(squares: Floats) -> float:
    """Return a spread from squares of deviations: one is used up by their mean, and one more is lent."""
    return min(float(np.sqrt((squares.sum() + START_SPREAD**2) / len(squares))), MAX_SPREAD)


def _slices(t: Tournament, position: bool, judges: bool) -> tuple[slice, slice, slice]:
    """Return where the judges' positions, their scales and the effects of covariates are among the parameters."""
    start = t.items + int(position)
    middle = start + (t.judges if position and judges else 0)
    end = middle + (t.judges if judges else 0)
    return slice(start, middle), slice(middle, end), slice(end, end + t.styles)


def _model(e: Estimates) -> RankModel:
    return RankModel(*(np.ascontiguousarray(part) for part in (e.strength, e.reliability, e.judge_position, e.effect)))


def _sigma(x: Floats) -> Floats:
    return 0.5 * (1 + np.tanh(0.5 * x))
