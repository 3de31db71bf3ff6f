"""Dawid-Skene, its hard version Fast Dawid-Skene, and the Hybrid that begins as one and ends as the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, get_args

from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, MOST_VOTES, Choice, Flag, Number, Rules, Stop, Strength
from adjudge.engines import memory
from adjudge.engines.base import Engine, Recipe, Session
from adjudge.errors import OptionError
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import Beliefs, ConfusionRecipe
from adjudge.models.population import AUTO, population

FAMILY: Rules = {
    **COMMON,
    "tol": Number(least=0),
    "max_iter": Number(least=1, whole=True),
    "smoothing": Number(least=0, most=MOST_VOTES),
    "strength": Number(least=0, most=MOST_VOTES, words=(AUTO,)),
    "stop": Choice(get_args(Stop)),
}
SOFT: Rules = {**FAMILY, "accelerate": Flag()}


@dataclass(frozen=True, kw_only=True)
class DawidSkene(Model):
    """Dawid and Skene 1979: soft EM (the paper's equations 9 to 11), started from vote shares.

    - `tol`, `max_iter`, `stop`: stop when the priors change by less than `tol` in sum, or with stop="labels" when no label
      changed; after `max_iter` iterations at the latest, with a warning.
    - `smoothing`: added to every cell of every confusion. 0 is the paper.
    - `strength`: votes of the mean worker lent to every worker; "auto" finds how many. 0 is the paper.
    - `accelerate`: True extrapolates from the last steps, for fewer passes to a fixed point of the same EM; the likelihood
      never falls. Not on Spark. False is the paper.
    - `seed`, `ties`: decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.DawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "ds"
    title: ClassVar[str] = "Dawid-Skene"
    rules: ClassVar[Rules] = SOFT
    starts_hard: ClassVar[bool] = False

    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter
    smoothing: float = DEFAULTS.smoothing
    strength: Strength = DEFAULTS.strength
    stop: Stop = DEFAULTS.stop
    accelerate: bool = DEFAULTS.accelerate

    def __post_init__(self) -> None:
        super().__post_init__()
        take_room(self)

    def require_engine(self, engine: Engine) -> None:
        """Raise if an engine cannot run this model: before votes are read, and before a cluster is asked for."""
        super().require_engine(engine)
        require_accelerating(self, engine)

    def _fit(self, session: Session, known: Knowns) -> Fit:
        beliefs, strength = beliefs_of(self, session, known)
        ended = fitted(self, session, ConfusionRecipe(self, beliefs), known.options)
        outcome = session.finish()
        params, statistics, _ = session.estimate()
        return Fit(outcome, params, statistics, ended.trace, ended.converged, strength=strength)


@dataclass(frozen=True, kw_only=True)
class FastDawidSkene(DawidSkene):
    """The paper's Algorithm 1: hard EM (equations 2 to 4), started from majority vote.

    Settings are those of `DawidSkene`, but for `accelerate`: its few passes are hard, and there is nothing to extrapolate.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.FastDawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "fds"
    title: ClassVar[str] = "Fast Dawid-Skene"
    room: ClassVar[memory.Room] = memory.STARTS_HARD
    starts_hard: ClassVar[bool] = True
    lacks: ClassVar[Mapping[str, str]] = {"accelerate": "all of its passes are hard"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accelerate:
            raise OptionError(f"accelerate is True, but {self.name} has no accelerate: {self.lacks['accelerate']}")


@dataclass(frozen=True, kw_only=True)
class Hybrid(DawidSkene):
    """The paper's Algorithm 3: soft until the priors move by at most `switch`, hard from then on.

    The other settings are those of `DawidSkene`.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.Hybrid().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Hybrid"
    room: ClassVar[memory.Room] = memory.TURNS_HARD
    rules: ClassVar[Rules] = {**SOFT, "switch": Number(least=0)}

    switch: float = DEFAULTS.switch

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Return whether the next E-step is hard: always, once the priors have settled."""
        return was_hard or change <= self.switch


def take_room(model: Model) -> None:
    """Let an accelerated model ask for the memory that it takes: it keeps the last points."""
    if getattr(model, "accelerate", False):
        from adjudge.models.acceleration import room_of

        object.__setattr__(model, "room", room_of(type(model).room))


def require_accelerating(model: Model, engine: Engine) -> None:
    """Raise if a model is accelerated, and an engine cannot do so."""
    if getattr(model, "accelerate", False):
        from adjudge.models.acceleration import require_engine

        require_engine(engine)


def fitted(model: Model, session: Session, recipe: Recipe, options: em.FitOptions) -> em.Run:
    """Fit the recipe of a soft model, accelerated if it is asked for."""
    if not getattr(model, "accelerate", False):
        return em.run(session, recipe, options)
    from adjudge.models import acceleration

    # Extrapolated steps come further than plain ones at the same change of the priors, so they end at a smaller one.
    return acceleration.run(session, recipe, options, max(recipe.tol / 10.0, float(getattr(model, "switch", 0.0))))


class Pulled(Protocol):
    """Settings of a model with pseudo-votes for its workers."""

    @property
    def smoothing(self) -> float:
        """Pseudo-votes in every cell."""
        ...

    @property
    def strength(self) -> float | str:
        """Pseudo-votes of the mean worker, or "auto"."""
        ...


def beliefs_of(model: Pulled, session: Session, known: Knowns) -> tuple[Beliefs, float]:
    """Return the prior in force in every M-step, and the strength of its population part."""
    if model.strength == 0:
        return Beliefs(model.smoothing, None, known.classes), 0.0
    session.start(hard=True)
    lent = population(session.gather, model.strength)
    return Beliefs(model.smoothing, lent.votes, known.classes), lent.strength
