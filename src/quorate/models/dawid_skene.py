"""Dawid-Skene, its hard version Fast Dawid-Skene, and the Hybrid that begins as one and ends as the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, get_args

from quorate.data.fit import Fit
from quorate.data.options import DEFAULTS, MOST_VOTES, Choice, Number, Rules, Stop, Strength
from quorate.engines import memory
from quorate.engines.base import Session
from quorate.models import em
from quorate.models.base import COMMON, Knowns, Model
from quorate.models.confusion import Beliefs, ConfusionRecipe
from quorate.models.population import AUTO, population

FAMILY: Rules = {
    **COMMON,
    "tol": Number(least=0),
    "max_iter": Number(least=1, whole=True),
    "smoothing": Number(least=0, most=MOST_VOTES),
    "strength": Number(least=0, most=MOST_VOTES, words=(AUTO,)),
    "stop": Choice(get_args(Stop)),
}


@dataclass(frozen=True, kw_only=True)
class DawidSkene(Model):
    """Dawid and Skene 1979: soft EM (the paper's equations 9 to 11), started from vote shares.

    - `tol`, `max_iter`, `stop`: stop when the priors change by less than `tol` in sum, or with stop="labels" when no label
      changed; after `max_iter` iterations at the latest, with a warning.
    - `smoothing`: added to every cell of every confusion. 0 is the paper.
    - `strength`: votes of the mean worker lent to every worker; "auto" finds how many. 0 is the paper.
    - `seed`, `ties`: decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.DawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "ds"
    title: ClassVar[str] = "Dawid-Skene"
    rules: ClassVar[Rules] = FAMILY
    starts_hard: ClassVar[bool] = False

    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter
    smoothing: float = DEFAULTS.smoothing
    strength: Strength = DEFAULTS.strength
    stop: Stop = DEFAULTS.stop

    def _fit(self, session: Session, known: Knowns) -> Fit:
        beliefs, strength = beliefs_of(self, session, known)
        ended = em.run(session, ConfusionRecipe(self, beliefs), known.options)
        outcome = session.finish()
        params, statistics, _ = session.estimate()
        return Fit(outcome, params, statistics, ended.trace, ended.converged, strength=strength)


@dataclass(frozen=True, kw_only=True)
class FastDawidSkene(DawidSkene):
    """The paper's Algorithm 1: hard EM (equations 2 to 4), started from majority vote. Settings are those of `DawidSkene`.

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

    The other settings are those of `DawidSkene`.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.Hybrid().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Hybrid"
    room: ClassVar[memory.Room] = memory.TURNS_HARD
    rules: ClassVar[Rules] = {**FAMILY, "switch": Number(least=0)}

    switch: float = DEFAULTS.switch

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Return whether the next E-step is hard: always, once the priors have settled."""
        return was_hard or change <= self.switch


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
