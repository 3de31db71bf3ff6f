"""GLAD: workers differ in ability, tasks in difficulty (Whitehill et al. 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines import base, memory
from quorate.engines.base import GladModel, GladPasses, OffersGlad, Session, kept
from quorate.errors import OptionError
from quorate.fit import Fit
from quorate.kernels.reference import Sums
from quorate.models.ascent import Point, climb
from quorate.models.base import COMMON, NOT_HERE, Model, Watch
from quorate.models.confusion import estimate
from quorate.prior import ClassPrior
from quorate.settings import Choice, Number, Rules
from quorate.transfer import other_labels
from quorate.vectors import Vector, alike, pieces, summed
from quorate.votes import Votes

Floats = NDArray[np.float64]

MEAN = 1.0  # of the normal priors on ability and on log ease; their variance is 1
CLOSER = 1e-3  # an M-step leaves at most this share of `tol` to gain


@dataclass(frozen=True, kw_only=True)
class GLAD(Model):
    """Whitehill et al. 2009: a vote is right with probability 1 / (1 + exp(-ability / difficulty)), else any other label.

    Ability is a worker's own (below 0: more often wrong than right), difficulty a task's own. Ability and -log difficulty
    have normal priors of mean 1 and variance 1. EM stops when the penalised log-likelihood gains less than `tol`.
    An M-step takes at most `m_steps` steps of L-BFGS, and ends when the next promises less than `m_tol` of what
    it gained. Labels are equally likely beforehand, unless `class_priors="estimated"`; one that nobody gave, and neither
    gold nor priors name, is none.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = qr.GLAD().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    >>> result.workers.sort("ability")["worker"].to_list()[0]
    'eve'
    """

    name: ClassVar[str] = "glad"
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
        "class_priors": Choice(("uniform", "estimated")),
    }

    tol: float = 1e-4
    max_iter: int = 100
    m_steps: int = 25
    m_tol: float = 0.01
    class_priors: str = "uniform"

    def _fit(self, votes: Votes, session: Session, watch: Watch) -> Fit:
        if not isinstance(session, OffersGlad):
            raise OptionError(NOT_HERE.format(self.name))
        possible = watch.possible(votes, session)
        plugged = _Plugged(self, votes, session.glad(), possible, watch.classes)
        ended = em.iterate(plugged, plugged, watch.how.progress)
        model, passes = ended.params.model, plugged.passes
        ability, difficulty = np.array(model.x[slice(0, votes.n_workers)]), kept(session, _difficulty(model.x, votes.n_workers))
        del plugged  # and with it the vectors of the last M-step
        outcome, statistics = passes.finish(model)
        confusions = estimate(session, votes, statistics)  # to be looked at; labels come from the abilities
        return Fit(
            outcome,
            confusions if watch.classes is None else replace(confusions, priors=ended.params.priors),
            statistics,
            ended.trace,
            ended.converged,
            worker_columns={"ability": ability},
            task_columns={"difficulty": difficulty},
            posterior=lambda: passes.posterior(model),
            scored_by=ended.params.priors,
            skill=1.0 / (1.0 + np.exp(-ability * math.exp(MEAN))),  # on a task of mean difficulty
        )


@dataclass(frozen=True, eq=False)
class Abilities:
    """What GLAD's M-step estimates."""

    priors: Floats  # [K]
    model: GladModel  # whose x the M-step moves
    penalty: float  # the logarithm of the normal priors at x, less their constant

    @property
    def label_shares(self) -> Floats:
        """The priors: GLAD stops by its objective."""
        return self.priors


class _Plugged:
    """GLAD's settings together with the votes at hand: what the loop asks for."""

    def __init__(
        self,
        model: GLAD,
        votes: Votes,
        passes: GladPasses,
        possible: NDArray[np.bool_],  # [K]
        classes: ClassPrior | None = None,
    ) -> None:
        self.name = model.name
        self.tol = model.tol
        self.max_iter = model.max_iter
        self.stop = "objective"
        self.starts_hard = False
        self.is_likelihood = True
        self.passes = passes
        self._settings = model
        self._classes = classes
        self._log_others = math.log(other_labels(possible))  # with one label no vote can be wrong
        uniform = possible / max(int(possible.sum()), 1)
        start = uniform if classes is None else classes.priors
        x = passes.vector()
        for cut in pieces(len(x)):
            x[cut] = np.full(cut.stop - cut.start, MEAN)
        self._now = self._abilities(start, x)

    def resume(self) -> base.Point | None:
        """Returns where this very fit was broken off, after the E-step it ended with; None where it was not."""
        found = self.passes.resume()
        if found is None:
            return None
        point, x = found
        self._now = self._abilities(point.priors, x)
        return replace(point, statistics=self.passes.expect(self._now.model))

    def note(self, point: base.Point) -> None:
        """Keeps a point to go on from: abilities and difficulties, from which an E-step follows."""
        self.passes.note(point, self._now.model.x)

    def start(self, *, hard: bool) -> Sums:
        """Returns the sums of the E-step under the means of the priors: every worker able, every task easy."""
        return self.passes.expect(self._now.model)

    def step(self, params: Abilities, *, hard: bool, likelihood: bool = True) -> Sums:
        """Returns the sums of the E-step under these abilities."""
        return self.passes.expect(params.model)

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns that no E-step is hard."""
        return False

    def m_step(self, statistics: Sums) -> Abilities:
        """Returns abilities and difficulties under which the expected log-likelihood is higher."""
        priors, penalty = self._now.priors, 0.0
        if self._classes is not None:
            priors, penalty = self._classes.estimate(self.passes.class_counts())
        elif self._settings.class_priors == "estimated":
            counts = self.passes.class_counts()
            priors = counts / max(float(counts.sum()), 1.0)
        top = climb(
            self._point,
            self._point(self._now.model.x),
            most_steps=self._settings.m_steps,
            share=self._settings.m_tol,
            least=CLOSER * self._settings.tol,
        )
        self._now = self._abilities(priors, top.x, penalty)
        return self._now

    def _point(self, x: Vector) -> Point:
        """Returns the penalised expected log-likelihood at x."""
        slope, curvature = alike(x), alike(x)
        with np.errstate(over="ignore"):
            value = self.passes.gradient(replace(self._now.model, x=x), slope, curvature, _believe)
        return Point(x, value, slope, curvature)

    def _abilities(self, priors: Floats, x: Vector, penalty: float = 0.0) -> Abilities:
        with np.errstate(divide="ignore"):
            log_prior = np.log(priors)
        return Abilities(priors, GladModel(x, log_prior, self._log_others), _log_prior(x) + penalty)


def _believe(x: Floats, slope: Floats, curvature: Floats, *, of_tasks: bool) -> float:
    """Returns what the normal priors add at x, [some]; slope and curvature are added to."""
    if of_tasks:
        curvature += np.abs(slope)  # the bend of exp, which ease is of x; abilities are x itself
    away = x - MEAN
    slope -= away
    curvature += 1.0
    return -0.5 * float((away**2).sum())


def _log_prior(x: Vector) -> float:
    """Returns the logarithm of the normal priors at x, less their constant."""
    return -0.5 * summed(lambda some: (some - MEAN) ** 2, x)


def _difficulty(x: Vector, workers: int) -> Iterator[Floats]:
    """Yields 1 / ease of the tasks, some after the other."""
    for cut in pieces(len(x) - workers):
        yield 1.0 / np.exp(x[slice(workers + cut.start, workers + cut.stop)])
