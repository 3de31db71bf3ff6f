"""Learning from crowds: Dawid-Skene with a diagonal Dirichlet prior on every worker's confusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, MOST_VOTES, Number, Rules
from adjudge.engines import memory
from adjudge.engines.base import Session
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import Beliefs, ConfusionRecipe

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LFC(Model):
    """Raykar et al. 2010: soft EM of Dawid-Skene in which every worker starts with pseudo-votes that are mostly right.

    Under each true label a worker gets `diagonal` pseudo-votes for that label and `other` for every other one. So a worker
    with few votes is taken for a decent one, and no answer is impossible. They count as votes do: a cell of a confusion is
    (votes + pseudo-votes) / (all votes + all pseudo-votes), the mean of a Dirichlet posterior. What rises from pass to pass is
    the likelihood with the term pseudo-votes x log pi of every cell. Class priors are estimated, without pseudo-tasks. A label
    that nobody gave, and neither gold nor priors nor a history name, gets no pseudo-votes.

    `tol` and `max_iter` are as for `DawidSkene`: the fit stops when the class priors change by less than `tol` in sum, after
    `max_iter` iterations at the latest. `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.LFC().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    >>> result.confusion_matrix("ann").round(2).tolist()  # two votes, and ten pseudo-votes
    [[0.82, 0.18], [0.19, 0.81]]
    """

    name: ClassVar[str] = "lfc"
    title: ClassVar[str] = "learning from crowds (LFC)"
    room: ClassVar[memory.Room] = memory.BELIEVED
    rules: ClassVar[Rules] = {
        **COMMON,
        "diagonal": Number(least=0, most=MOST_VOTES),
        "other": Number(least=0, most=MOST_VOTES),
        "tol": Number(least=0),
        "max_iter": Number(least=1, whole=True),
    }
    lacks: ClassVar[dict[str, str]] = {"smoothing": "its pseudo-votes are called diagonal and other"}

    diagonal: float = 4.0
    other: float = 1.0
    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter

    def _fit(self, session: Session, known: Knowns) -> Fit:
        believed = diagonal_votes(self.diagonal, self.other, known.possible(session))
        ended = em.run(session, ConfusionRecipe(self, Beliefs(0.0, believed, known.classes)), known.options)
        outcome = session.finish()
        params, statistics, _ = session.estimate()
        return Fit(outcome, params, statistics, ended.trace, ended.converged)


def diagonal_votes(diagonal: float, other: float, possible: NDArray[np.bool_]) -> Floats:
    """Return pseudo-votes by given and true label, [K given, K true]: none of labels that do not exist; `possible` is [K].

    >>> diagonal_votes(4.0, 1.0, np.array([True, False, True])).tolist()
    [[4.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 4.0]]
    """
    votes = np.full((len(possible), len(possible)), other)
    np.fill_diagonal(votes, diagonal)
    out: Floats = np.where(possible[:, None] & possible, votes, 0.0)
    return out
