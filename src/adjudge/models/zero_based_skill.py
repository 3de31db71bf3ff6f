"""Zero-based skill: skills move step by step towards how often their worker agrees with the votes weighted by them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from adjudge.data.counts import Lines
from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, Number, Place, Rules
from adjudge.engines import memory
from adjudge.engines.base import Session, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import EMRecipe
from adjudge.models.weighted import Agreement, weighted_fit


@dataclass(frozen=True, kw_only=True)
class ZeroBasedSkill(Model):
    """Weighted majority vote whose weights, the skills, are learned by small steps, as crowd-kit's method of this name does.

    All skills start at 1 / K, so that the first labels are those of majority vote. A round adds `rate` * (agreement - skill) to
    the skill of each worker, where agreement is the share of its votes that agree with the current labels; then votes are
    weighted by the new skills. The rate is multiplied by `rate_factor` in every round whose number divides by `rate_steps`. The
    fit stops when no skill moves by `tol` or more, after `max_iter` rounds at the latest. The posterior of a label is its share
    of the weights of its task. `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.ZeroBasedSkill().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', 0.0)]
    """

    name: ClassVar[str] = "zbs"
    title: ClassVar[str] = "zero-based skill"
    scoring: ClassVar[str] = "weight"
    place: ClassVar[Place] = "process"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {
        **COMMON,
        "max_iter": Number(least=1, whole=True),
        "rate": Number(least=0, most=1),
        "rate_steps": Number(least=1, whole=True),
        "rate_factor": Number(least=0, most=1),
        "tol": Number(least=0),
    }
    stop: ClassVar[str] = "moved"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter
    rate: float = 1.0
    rate_steps: int = 20
    rate_factor: float = 0.5
    tol: float = 1e-5

    def _fit(self, session: Session, known: Knowns) -> Fit:
        recipe = SkillRecipe(self, labels=int(known.votes.given_labels().sum()))
        ended = em.run(session, recipe, replace(known.options, likelihood=False))
        return weighted_fit(self, session, ended.trace, converged=ended.converged)


@dataclass(frozen=True, eq=False)
class SkillRecipe(EMRecipe):
    """Skills that go on from those of the round before."""

    labels: int = 1  # that somebody gave

    @property
    def remembers(self) -> bool:
        """Return True: a skill moves from where it was."""
        return True

    def on(self, block: WorkerBlock) -> SkillStep:
        """Return the M-step of these workers."""
        assert isinstance(self.model, ZeroBasedSkill)
        return SkillStep(block, self.model, self.labels)


class SkillStep:
    """The M-step of all workers, with their skills and the number of rounds so far."""

    def __init__(self, block: WorkerBlock, settings: ZeroBasedSkill, labels: int) -> None:
        self._agreement = Agreement(block)
        self._settings = settings
        self._skill = np.full(block.panel.n_workers, 1.0 / max(labels, 1))
        self._rounds, self._rate = 0, settings.rate

    def __call__(self, counts: Any, shared: Any = None) -> Lines:
        """Return the table of the moved skills, [rows, K]."""
        self._rounds += 1
        if self._rounds % self._settings.rate_steps == 0:
            self._rate *= self._settings.rate_factor
        step = self._rate * (self._agreement.right(counts) / self._agreement.total - self._skill)
        self._skill = self._skill + step
        return self._agreement.lines(self._skill, float(np.abs(step).max(initial=0.0)))
