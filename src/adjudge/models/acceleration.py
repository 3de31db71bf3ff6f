"""Fewer passes to the same end: soft EM extrapolated from its last steps (Anderson acceleration), with a safeguard.

EM is a map of expected counts to expected counts: M-step, then E-step. Where the map moves slowly, its last steps tell where
they lead. An extrapolated step takes the combination of the last points at which the gradient of a quadratic model of the
likelihood is 0 (type I of Fang and Saad 2009). Points are square roots of the probabilities pi and p: there the information
of votes is the same everywhere, so that lengths mean what they do to the likelihood.

The safeguard: a pass whose objective is below the last one is rejected, and a plain step from the last good point follows.
So the objective of accepted passes never falls, and as a point that EM leaves alone is left alone here, fixed points are the
same. Zeros stay zeros, and nothing else becomes one. Only a plain step can end a fit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sum_of, sums_of
from adjudge.data.fit import TableLines
from adjudge.engines.base import Checkpoint, Engine, Gather, MStep, PassSums, Recipe, Session, WorkerBlock
from adjudge.engines.memory import Room
from adjudge.errors import OptionError
from adjudge.models import em

Floats = NDArray[np.float64]
POINTS_KEPT: Final = 3  # earlier points that are combined
STEP_LENGTH: Final = 1.8  # how far a step goes along what the combination leaves: 1 is EM, 2 would be as likely as none at all
MIN_KEPT_SHARE: Final = 0.7  # the part of a probability that one step leaves at least: those that hurry to 0 end in worse optima
OBJECTIVE_ROUNDING: Final = 1e-12  # the part of an objective that is rounding
RIDGE: Final = 1e-8  # relative weight of the identity in the equations of a combination
# Arrays [rows, K] in addition to those of a plain fit: points and images, differences of both, counts, totals and products.
EXTRA_TABLES: Final = 2 * (POINTS_KEPT + 1) + 2 * POINTS_KEPT + 6


class Counts(NamedTuple):
    """Expected votes by row and true label, and expected tasks by label: what an M-step is made of."""

    cells: Floats  # [rows, K]
    classes: Floats  # [K]


class RootPoint(NamedTuple):
    """The place of counts: square roots of the probabilities that they say."""

    cells: Floats  # [rows, K]
    classes: Floats  # [K]

    def minus(self, other: RootPoint) -> RootPoint:
        """Return the way from another point to this one."""
        return RootPoint(self.cells - other.cells, self.classes - other.classes)

    def plus(self, other: RootPoint, times: float) -> RootPoint:
        """Return this point moved along a way."""
        return RootPoint(self.cells + times * other.cells, self.classes + times * other.classes)


class Visit(NamedTuple):
    """A point that a pass was made at, and the one that EM goes to from there."""

    at: RootPoint
    image: RootPoint

    @property
    def step(self) -> RootPoint:
        """The step of EM."""
        return self.image.minus(self.at)


class FedRecipe:
    """A recipe whose M-steps see the counts they are fed with, instead of those of the last pass."""

    def __init__(self, recipe: Recipe) -> None:
        self.counts: Floats | None = None
        self._recipe = recipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recipe, name)

    def shared(self, priors: Floats, gather: Gather) -> Any:
        """Return what the recipe needs besides a worker's own counts."""
        return self._recipe.shared(priors, gather)

    def on(self, block: WorkerBlock) -> MStep:
        """Return the M-step of these workers."""
        step = self._recipe.on(block)

        def fed(counts: Any, shared: Any) -> TableLines:
            return step(counts if self.counts is None else self.counts, shared)

        return fed


class AcceleratedSteps:
    """The steps of a session, for the loop of EM: soft passes are made where the last ones lead to; hard ones are plain.

    `settled` is the change of the priors at which plain steps follow.
    """

    def __init__(self, session: Session, recipe: Recipe, settled: float) -> None:
        self._session, self._recipe, self._settled = session, recipe, settled
        self._fed: Any = FedRecipe(recipe)
        self._next: Counts | None = None  # of the next M-step; None: those of the last pass
        self._given = Counts(np.zeros((0, 0)), np.zeros(0))  # of the M-step before the current pass
        self._plain = self._given  # of the last accepted pass
        self._visits: deque[Visit] = deque(maxlen=POINTS_KEPT + 1)
        self._objective = -float("inf")  # of the last accepted pass
        self._passes = 0
        self._is_plain = True  # whether the next M-step is one of EM
        self._ends = False  # whether the last pass was the first of a settled fit

    def begin(self, sums: PassSums) -> PassSums:
        """Take the counts that the session begins with, and return their sums."""
        self._next = self._counted(sums)
        return sums

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Make the table from the counts that the last pass was answered with."""
        if self._next is not None:
            self._given = self._next
        self._fed.counts = None if self._next is None else self._next.cells
        self._session.m_step(self._fed, priors)

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of a pass, with the class counts of the next M-step; it says if it was extrapolated or rejected."""
        sums = self._session.e_step(hard=hard, likelihood=likelihood)
        self._passes += 1
        if hard:
            self._next = None
            return sums
        before = self._recipe.class_priors(self._given.classes)
        objective = sums.log_likelihood + sums.penalty + before.penalty
        if not self._is_plain and not objective >= self._objective - OBJECTIVE_ROUNDING * abs(self._objective):
            self._next, self._is_plain = self._plain, True
            newest = self._visits[-1]
            self._visits.clear()  # they led astray
            self._visits.append(newest)
            return replace(sums, class_counts=self._plain.classes, step="rejected")
        step = "extrapolated" if not self._is_plain else None if self._ends else "soft"
        self._objective, self._plain = objective, self._counted(sums)
        self._visits.append(Visit(self._point(self._given), self._point(self._plain)))
        change = sum_of(np.abs(self._recipe.class_priors(self._plain.classes).shares - before.shares))
        ended, self._ends = self._ends, change <= self._settled or (self._recipe.stop == "labels" and sums.changed == 0)
        # The last pass that is allowed is a plain one, which cannot be rejected.
        self._is_plain = ended or self._ends or len(self._visits) < 2 or self._passes + 1 >= self._recipe.max_iter
        self._next = self._plain if self._is_plain else self._extrapolate()
        return replace(sums, class_counts=self._next.classes, step=step)

    def fingerprint(self) -> bytes:
        """Return a fingerprint of the counts."""
        return self._session.fingerprint()

    def restore(self) -> Checkpoint | None:
        """Return nothing: the points before are not stored."""
        return None

    def checkpoint(self, point: Checkpoint) -> None:
        """Store nothing."""

    def _counted(self, sums: PassSums) -> Counts:
        """Return the counts of the last pass."""
        cells = self._session.gather(lambda _, counts: np.array(counts, np.float64))
        return Counts(cells, np.array(sums.class_counts, np.float64))

    def _totals(self, cells: Floats) -> Floats:
        """Return the votes of each row's worker by true label, [rows, K]."""
        worker_ptr = self._session.gather(lambda block, _: block.panel.worker_ptr)
        totals: Floats = np.repeat(sums_of(cells, worker_ptr[:-1]), np.diff(worker_ptr), axis=0)
        return totals

    def _point(self, counts: Counts) -> RootPoint:
        """Return the place of counts."""
        totals = self._totals(counts.cells)
        cells = np.divide(counts.cells, totals, out=np.zeros_like(totals), where=totals > 0)
        return RootPoint(np.sqrt(cells, out=cells), np.sqrt(counts.classes / max(sum_of(counts.classes), 1.0)))

    def _extrapolate(self) -> Counts:
        """Return the counts at the point that the last steps lead to."""
        visits, (at, image) = list(self._visits), self._visits[-1]
        weights = Counts(self._totals(self._plain.cells), np.full(len(at.classes), sum_of(self._plain.classes)))
        ways = [after.at.minus(before.at) for before, after in pairwise(visits)]
        turns = [after.step.minus(before.step) for before, after in pairwise(visits)]
        step = image.minus(at)
        equations = np.array([[_inner(weights, way, turn) for turn in turns] for way in ways])
        equations += RIDGE * np.trace(equations) * np.eye(len(ways))
        try:
            shares = np.linalg.solve(equations, np.array([_inner(weights, way, step) for way in ways]))
        except np.linalg.LinAlgError:  # the last steps were all the same
            return self._plain
        if not np.isfinite(shares).all():
            return self._plain
        point = at.plus(step, STEP_LENGTH)
        for share, way, turn in zip(shares, ways, turns, strict=True):
            point = point.plus(way, -share).plus(turn, -share * STEP_LENGTH)
        return Counts(_within(point.cells, image.cells, weights.cells), _within(point.classes, image.classes, weights.classes))


def _inner(weights: Counts, one: RootPoint, two: RootPoint) -> float:
    """Return the inner product of two ways, in any order of the rows the same."""
    cells = sums_of((weights.cells * one.cells * two.cells).ravel(), np.zeros(1, np.int64))
    return float(cells[0]) + sum_of(weights.classes * one.classes * two.classes)


def _within(point: Floats, image: Floats, weights: Floats) -> Floats:
    """Return the counts at a point, but nowhere less than a part of those that EM goes to, and 0 if these are."""
    out: Floats = np.where(image > 0, np.maximum(point, np.sqrt(MIN_KEPT_SHARE) * image), 0.0) ** 2 * weights
    return out


def run(session: Session, recipe: Recipe, options: em.FitOptions, settled: float) -> em.Run:
    """Fit a recipe to the votes of a session in fewer passes; plain steps follow once the priors change by at most `settled`."""
    steps = AcceleratedSteps(session, recipe, settled)
    begin = em.first_pass(session, recipe, options)
    return em.iterate(steps, recipe, lambda: steps.begin(begin()), options)


def require_engine(engine: Engine) -> None:
    """Raise unless an engine has the counts of a fit in this process, which extrapolation needs."""
    if getattr(engine, "place", "anywhere") == "anywhere":
        raise OptionError(
            f"engine {engine.name!r} cannot accelerate a fit, as its counts are elsewhere: leave accelerate out, or choose "
            "engine='cpu', 'disk' or 'reference'"
        )


def room_of(room: Room) -> Room:
    """Return the memory of an accelerated fit, of that of a plain one."""
    return room._replace(tables=room.tables + EXTRA_TABLES)
