"""GLAD: workers differ in ability, tasks in difficulty (Whitehill et al. 2009)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from quorate import em
from quorate.engines.base import GladModel, GladPasses, OffersGlad, Session
from quorate.errors import OptionError
from quorate.fit import Fit
from quorate.kernels.reference import Sums
from quorate.models.ascent import Point, climb
from quorate.models.base import COMMON, Model, Watch
from quorate.models.confusion import estimate
from quorate.prior import ClassPrior
from quorate.settings import Choice, Number, Rules
from quorate.transfer import other_labels
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
            raise OptionError("this engine cannot run model 'glad': choose engine='cpu' or engine='reference'")
        plugged = _Plugged(self, votes, session.glad(), watch.possible(votes, session), watch.classes)
        ended = em.iterate(plugged, plugged, watch.how.progress)
        model = ended.params.model
        outcome, statistics = plugged.passes.finish(model)
        confusions = estimate(session, votes, statistics)  # to be looked at; labels come from the abilities
        return Fit(
            outcome,
            confusions if watch.classes is None else replace(confusions, priors=ended.params.priors),
            statistics,
            ended.trace,
            ended.converged,
            worker_columns={"ability": model.ability},
            task_columns={"difficulty": 1.0 / model.ease},
            posterior=lambda: plugged.passes.posterior(model),
            scored_by=ended.params.priors,
            skill=1.0 / (1.0 + np.exp(-model.ability * math.exp(MEAN))),  # on a task of mean difficulty
        )


@dataclass(frozen=True, eq=False)
class Abilities:
    """What GLAD's M-step estimates."""

    priors: Floats  # [K]
    model: GladModel
    x: Floats  # [workers + tasks] ability, then log ease: what the M-step moves
    penalty: float  # the logarithm of the normal priors at x, less their constant


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
        self._workers = votes.n_workers
        self._log_others = math.log(other_labels(possible))  # with one label no vote can be wrong
        uniform = possible / max(int(possible.sum()), 1)
        start = uniform if classes is None else classes.priors
        self._now = self._abilities(start, np.full(votes.n_workers + votes.n_tasks, MEAN))

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
            self._point(self._now.x),
            most_steps=self._settings.m_steps,
            share=self._settings.m_tol,
            least=CLOSER * self._settings.tol,
        )
        self._now = self._abilities(priors, top.x, penalty)
        return self._now

    def _point(self, x: Floats) -> Point:
        """Returns the penalised expected log-likelihood at x; one less the prior's curvature is the votes'."""
        with np.errstate(over="ignore"):
            slope = self.passes.gradient(self._abilities(self._now.priors, x).model)
        by_votes = np.concatenate([slope.by_worker, slope.by_task])
        curvature = np.concatenate([slope.worker_curvature, slope.task_curvature + np.abs(slope.by_task)]) + 1.0
        return Point(x, slope.value + _log_prior(x), by_votes - (x - MEAN), curvature)

    def _abilities(self, priors: Floats, x: Floats, penalty: float = 0.0) -> Abilities:
        with np.errstate(divide="ignore"):
            log_prior = np.log(priors)
        model = GladModel(x[: self._workers], np.exp(x[self._workers :]), log_prior, self._log_others)
        return Abilities(priors, model, x, _log_prior(x) + penalty)


def _log_prior(x: Floats) -> float:
    """Returns the logarithm of the normal priors at x, less their constant."""
    return -0.5 * float(((x - MEAN) ** 2).sum())
