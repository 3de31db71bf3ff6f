"""Dawid-Skene, its hard version Fast Dawid-Skene, and the Hybrid that begins as one and ends as the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from quorate import em
from quorate.engines import memory
from quorate.engines.base import Session
from quorate.engines.spark_blocks import Block
from quorate.engines.spark_wide import WidePasses
from quorate.fit import Fit
from quorate.io.spark_votes import WideVotes
from quorate.models.base import COMMON, Model, Watch
from quorate.models.blocks import Beliefs, Confusions, FarFit, Spread, far_population
from quorate.models.confusion import Tables, estimate
from quorate.models.population import AUTO, population
from quorate.params import Parameters
from quorate.prior import ClassPrior, Prior, lay_out
from quorate.settings import MOST_VOTES, Choice, Number, Rules
from quorate.statistics import Statistics
from quorate.votes import Panel

FAMILY: Rules = {
    **COMMON,
    "tol": Number(least=0),
    "max_iter": Number(least=1, whole=True),
    "smoothing": Number(least=0, most=MOST_VOTES),
    "strength": Number(least=0, most=MOST_VOTES, words=(AUTO,)),
    "stop": Choice(("priors", "labels")),
}


@dataclass(frozen=True, kw_only=True)
class DawidSkene(Model):
    """Dawid and Skene 1979: soft EM (the paper's equations 9 to 11), started from vote shares.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.DawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "ds"
    title: ClassVar[str] = "Dawid-Skene"
    rules: ClassVar[Rules] = FAMILY
    starts_hard: ClassVar[bool] = False

    tol: float = 1e-4
    max_iter: int = 100
    smoothing: float = 0.0
    strength: float | str = 0.0
    stop: str = "priors"

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns whether the next E-step is hard: as the first one was."""
        return self.starts_hard

    def _fit(self, panel: Panel, session: Session, watch: Watch) -> Fit:
        prior, strength = prior_of(self, panel, session, watch)
        return replace(em.run(session, _Plugged(self, session, panel, prior), watch.how), strength=strength)

    def _fit_blocks(self, votes: WideVotes, session: WidePasses, watch: Watch) -> FarFit:
        lent = far_population(session, self.strength)
        beliefs = Beliefs(self.smoothing, None if lent is None else lent.votes)
        fit = em.run(session, Spread(session, _Blocks(self, beliefs), watch.classes), watch.how)
        return FarFit(replace(fit, strength=0.0 if lent is None else lent.strength), Confusions(beliefs), fit.params, {})


@dataclass(frozen=True, kw_only=True)
class FastDawidSkene(DawidSkene):
    """The paper's Algorithm 1: hard EM (equations 2 to 4), started from majority vote.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.FastDawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "fds"
    title: ClassVar[str] = "Fast Dawid-Skene"
    room: ClassVar[memory.Room] = memory.STARTS_HARD
    starts_hard: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Hybrid(DawidSkene):
    """The paper's Algorithm 3: soft until the priors move by at most `switch`, hard from then on.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.Hybrid().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Hybrid"
    room: ClassVar[memory.Room] = memory.TURNS_HARD
    rules: ClassVar[Rules] = {**FAMILY, "switch": Number(least=0)}

    switch: float = 0.005

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns whether the next E-step is hard: once the priors have settled, for good."""
        return was_hard or change <= self.switch


class _Plugged:
    """A model's settings together with the votes at hand: what the loop asks for."""

    def __init__(self, model: DawidSkene, session: Tables, panel: Panel, prior: Prior) -> None:
        self.name = model.name
        self.tol = model.tol
        self.max_iter = model.max_iter
        self.stop = model.stop
        self.starts_hard = model.starts_hard
        self.is_likelihood = True
        self.next_is_hard = model.next_is_hard
        self._prior = prior
        self._session = session
        self._panel = panel

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns p_c and log pi of these statistics."""
        return estimate(self._session, self._panel, statistics, self._prior)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Makes the recipe of a block."""

    model: DawidSkene
    beliefs: Beliefs

    def __call__(self, block: Block, classes: ClassPrior | None = None) -> _Plugged:
        return _Plugged(self.model, block, block, self.beliefs.on(block, classes))


class Pulled(Protocol):
    """Settings of a model whose workers can be pulled toward something."""

    @property
    def smoothing(self) -> float:
        """Pseudo-votes in every cell."""
        ...

    @property
    def strength(self) -> float | str:
        """Pseudo-votes of the mean worker, or "auto"."""
        ...


def prior_of(model: Pulled, panel: Panel, session: Session, watch: Watch) -> tuple[Prior, float]:
    """Returns what is believed beforehand, in force in every M-step, and the strength of the population's part."""
    shared, strength = None, 0.0
    if model.strength != 0:
        shared, strength = population(panel, session.start(hard=True), model.strength)
    return Prior(model.smoothing, lay_out(panel, shared, watch.history), watch.classes), strength
