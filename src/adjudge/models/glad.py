"""GLAD: workers differ in ability, tasks in difficulty (Whitehill et al. 2009).

Its M-step maximises a smooth function by L-BFGS, with a line search that accepts only improvements. Vectors may be files: each
is read as rarely as possible, and freed as soon as it is no longer needed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import ClassPrior, Fit
from adjudge.data.options import DEFAULTS, Choice, ClassPriors, Number, Place, Rules
from adjudge.data.vectors import Vector, compute_into, dot, empty_like, max_abs, pieces, sum_of_chunks
from adjudge.engines import memory
from adjudge.engines.base import (
    Checkpoint,
    ClassEstimate,
    Gather,
    GladModel,
    GladPasses,
    MStep,
    OffersGlad,
    PassSums,
    Recipe,
    Session,
    WorkerBlock,
)
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionRecipe
from adjudge.models.knowledge import other_labels

REMEMBERED_STEPS = 8  # steps remembered
SUFFICIENT = 1e-4  # a step must bring this share of what its slope promises
HALVINGS = 30  # after this many the slope is lost in rounding
MAX_COORDINATE_STEP = 8.0  # no coordinate moves farther in one step


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the function, with its value and slope."""

    x: Vector  # [n]
    value: float
    slope: Vector  # [n] the gradient
    curvature: Vector  # [n] positive: about how fast the slope falls along each coordinate


class StepPair(NamedTuple):
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
    past: deque[StepPair] = deque()
    for _ in range(most_steps):
        way, rise = _direction(here, past)
        if not rise > 0.0:
            past.clear()
            rise = _plain(here, way)
        if not rise / 2 > max(least, share * (here.value - low)):
            break
        shrink = min(1.0, MAX_COORDINATE_STEP / max_abs(way))
        if shrink < 1.0:
            compute_into(way, lambda w, by=shrink: w * by, way)
        found = _search(at, here, way, rise * shrink)
        if found is None:
            break
        del way
        if len(past) == REMEMBERED_STEPS:
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
        x = empty_like(here.x)
        compute_into(x, lambda x, w, length=length: x + length * w, here.x, way)
        found = at(x)
        gained = found.value - here.value
        if gained >= SUFFICIENT * length * rise and gained > 0.0:
            return found
        del x, found
        bend = length * rise - gained  # the top of the parabola through what is known
        best = 0.5 * length * length * rise / bend if np.isfinite(bend) and bend > 0.0 else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


def _pair(here: Point, found: Point) -> StepPair:
    step, bend = empty_like(here.x), empty_like(here.x)
    compute_into(step, np.subtract, found.x, here.x)
    return StepPair(step, bend, compute_into(bend, np.subtract, here.slope, found.slope, times=step))


def _plain(here: Point, way: Vector) -> float:
    """Write the slope divided by the curvatures to OUT `way`, and return the rise along it."""
    return compute_into(way, np.divide, here.slope, here.curvature, times=here.slope)


def _direction(here: Point, past: deque[StepPair]) -> tuple[Vector, float]:
    """Return the quasi-Newton direction, and the rise along it.

    The two loops of L-BFGS (Nocedal 1980) start from the curvatures. Each update of the direction also computes the inner
    product that is needed next.
    """
    way = empty_like(here.x)
    if not past:
        return way, _plain(here, way)
    so_far, weights = here.slope, list[float]()
    weight = dot(past[-1].step, so_far) / past[-1].product
    for pair, older in zip(reversed(past), list(reversed(past))[1:], strict=False):
        weights.append(weight)
        along = compute_into(way, lambda w, b, by=weight: w - by * b, so_far, pair.bend, times=older.step)
        so_far, weight = way, along / older.product
    weights.append(weight)
    first = past[0]
    along = compute_into(way, lambda w, b, c, by=weight: (w - by * b) / c, so_far, first.bend, here.curvature, times=first.bend)
    following = [*(pair.bend for pair in past), here.slope][1:]
    for pair, beside in zip(past, following, strict=True):
        by = weights.pop() - along / pair.product
        along = compute_into(way, lambda w, s, by=by: w + by * s, way, pair.step, times=beside)
    return way, along


Floats = NDArray[np.float64]
MEAN = 1.0  # of the normal priors on ability and on log ease; their variance is 1
CLOSER = 1e-3  # an M-step leaves at most this share of `tol` to gain


@dataclass(frozen=True, kw_only=True)
class GLAD(Model):
    """Whitehill et al. 2009: a vote is right with probability 1 / (1 + exp(-ability / difficulty)), otherwise any other label.

    Each worker has an ability (negative if more often wrong than right), and each task a difficulty. Ability and -log difficulty
    have normal priors of mean 1 and variance 1. A label that nobody gave, and that neither gold nor priors name, does not count.

    Parameters
    ----------
    tol : float, default 0.0001
        EM stops when the penalised log-likelihood gains less than this.
    max_iter : int, default 100
        Maximum number of iterations of EM.
    m_steps : int, default 25
        Maximum number of L-BFGS steps per M-step.
    m_tol : float, default 0.01
        An M-step ends when the next step promises less than this share of its gain.
    class_priors : str, default "uniform"
        "uniform" takes labels as equally likely; "estimated" learns their shares.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.GLAD().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    >>> result.workers.sort("ability")["worker"].to_list()[0]
    'eve'

    """

    name: ClassVar[str] = "glad"
    takes_weights: ClassVar[bool] = False
    place: ClassVar[Place] = "process"
    title: ClassVar[str] = "GLAD"
    scoring: ClassVar[str] = "coin"
    room: ClassVar[memory.Room] = memory.GLAD
    takes: ClassVar[frozenset[str]] = frozenset({"priors"})
    rules: ClassVar[Rules] = {
        **COMMON,
        "tol": Number(least=0),
        "max_iter": Number(least=1, whole=True),
        "m_steps": Number(least=1, whole=True),
        "m_tol": Number(least=0),
        "class_priors": Choice(get_args(ClassPriors)),
    }

    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter
    m_steps: int = 25
    m_tol: float = 0.01
    class_priors: ClassPriors = "uniform"

    def _fit(self, session: Session, known: Knowns) -> Fit:
        votes, possible, here = known.votes, known.possible(session), cast(OffersGlad, session)  # as its place says
        steps = GladRecipe(self, here.glad(), possible, known.classes)
        ended = em.iterate(steps, steps, partial(steps.start, hard=False), replace(known.options, start=None, warm=None))
        model, passes = steps.model, steps.passes
        ability, difficulty = np.array(model.x[slice(0, votes.n_workers)]), session.keep(_difficulty(model.x, votes.n_workers))
        del steps  # and with it the vectors of the last M-step
        outcome, statistics = passes.finish(model)
        here.count(statistics)
        params = session.estimate(ConfusionRecipe(self)).params  # to be looked at; labels come from the abilities
        return Fit(
            outcome,
            params if known.classes is None else replace(params, priors=ended.classes.priors),
            statistics,
            ended.trace,
            ended.converged,
            worker_columns={"ability": ability},
            task_columns={"difficulty": difficulty},
            posterior=partial(passes.posterior, model),
            scored_by=ended.classes.priors,
            log_others=model.log_others,
            skill=1.0 / (1.0 + np.exp(-ability * math.exp(MEAN))),  # on a task of mean difficulty
        )


class GladRecipe:
    """GLAD's settings together with its votes: both recipe and steps of the loop, over GLAD's own passes."""

    starts_hard = False
    switch = -math.inf
    is_likelihood = True
    stop = "objective"
    anchor = 0.0
    phase = None
    may_cycle = False

    def __init__(
        self,
        model: GLAD,
        passes: GladPasses,
        possible: NDArray[np.bool_],  # [K]
        classes: ClassPrior | None = None,
    ) -> None:
        self.name = model.name
        self.tol = model.tol
        self.max_iter = model.max_iter
        self.passes = passes
        self._settings = model
        self._classes = classes
        self._log_others = math.log(other_labels(possible))  # with one label no vote can be wrong
        uniform = possible / max(int(possible.sum()), 1)
        self._start = uniform if classes is None else classes.priors
        x = passes.vector()
        for cut in pieces(len(x)):
            x[cut] = np.full(cut.stop - cut.start, MEAN)
        self.model = self._model(self._start, x)

    def restore(self) -> Checkpoint | None:
        """Return where this very fit was interrupted, after the E-step it ended with; None if it was not."""
        found = self.passes.restore()
        if found is None:
            return None
        point, x = found
        self.model = self._model(point.shares, x)
        return replace(point, class_counts=self.start(hard=False).class_counts)

    def checkpoint(self, point: Checkpoint) -> None:
        """Store a point to resume from: abilities and difficulties, from which an E-step follows."""
        self.passes.checkpoint(point, self.model.x)

    def fingerprint(self) -> bytes:
        """Return nothing: the likelihood rises, so cycles are impossible."""
        return b""

    def start(self, *, hard: bool) -> PassSums:
        """Return the sums of the E-step under the current abilities: at first, every worker able, every task easy."""
        return self.e_step(hard=hard)

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of the E-step under the current abilities."""
        sums = self.passes.expect(self.model)
        return PassSums(self.passes.class_counts(), sums.log_likelihood, changed=sums.changed, penalty=_log_prior(self.model.x))

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return p_c, [K]: given, estimated, or the same for every existing label."""
        priors, penalty = self._start, 0.0
        if self._classes is not None:
            priors, penalty = self._classes.estimate(class_counts)
        elif self._settings.class_priors == "estimated":
            priors = class_counts / max(float(class_counts.sum()), 1.0)
        return ClassEstimate(priors, penalty, priors)

    def shared(self, priors: Floats, gather: Gather) -> None:
        """Return nothing: this M-step reads the votes itself."""

    def on(self, block: WorkerBlock) -> MStep:
        """Raise: abilities and difficulties do not follow from the counts of workers."""
        raise TypeError("GLAD has no lines per worker")

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Move abilities and difficulties so that the expected log-likelihood rises."""
        top = climb(
            self._point,
            self._point(self.model.x),
            most_steps=self._settings.m_steps,
            share=self._settings.m_tol,
            least=CLOSER * self._settings.tol,
        )
        self.model = self._model(priors, top.x)

    def _point(self, x: Vector) -> Point:
        """Return the penalised expected log-likelihood at x."""
        slope, curvature = empty_like(x), empty_like(x)
        with np.errstate(over="ignore"):
            value = self.passes.gradient(replace(self.model, x=x), slope, curvature, _believe)
        return Point(x, value, slope, curvature)

    def _model(self, priors: Floats, x: Vector) -> GladModel:
        with np.errstate(divide="ignore"):
            return GladModel(x, np.log(priors), self._log_others)


def _believe(x: Floats, slope: Floats, curvature: Floats, *, of_tasks: bool) -> float:
    """Return the log of the normal priors at x, [some]; add its slope and curvature to OUT."""
    if of_tasks:
        curvature += np.abs(slope)  # the bend of exp, which ease is of x; abilities are x itself
    away = x - MEAN
    slope -= away
    curvature += 1.0
    return -0.5 * float((away**2).sum())


def _log_prior(x: Vector) -> float:
    """Return the log of the normal priors at x, without their constant."""
    return -0.5 * sum_of_chunks(lambda some: (some - MEAN) ** 2, x)


def _difficulty(x: Vector, workers: int) -> Iterator[Floats]:
    """Yield 1 / ease of the tasks, in chunks."""
    for cut in pieces(len(x) - workers):
        yield 1.0 / np.exp(x[slice(workers + cut.start, workers + cut.stop)])
