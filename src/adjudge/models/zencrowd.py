"""ZenCrowd: one reliability per worker, learned from where all are thought equally good (Demartini et al. 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters
from adjudge.data.fit import Fit
from adjudge.data.options import DEFAULTS, Number, Rules
from adjudge.data.votes import Panel
from adjudge.engines.base import PassSums, Session
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import Beliefs
from adjudge.models.one_coin import CoinRecipe, coin_fit, equal_priors
from adjudge.results.knowledge import coin_table, other_labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ZenCrowd(Model):
    """Demartini et al. 2012, as benchmarks run it: soft EM with one reliability per worker and equal class priors.

    The model is that of `OneCoin`; the start is another. Here the first E-step takes every worker to be right with probability
    `reliability`, whereas there the first M-step takes vote shares for probabilities. The fit stops when the shares of the
    labels change by less than `tol` in sum, after `max_iter` iterations at the latest. Priors that the caller gives replace the
    equal ones. `seed` and `ties` decide between labels that score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.ZenCrowd().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "zc"
    title: ClassVar[str] = "ZenCrowd"
    scoring: ClassVar[str] = "coin"
    rules: ClassVar[Rules] = {
        **COMMON,
        "reliability": Number(least=0.01, most=0.99),
        "tol": Number(least=0),
        "max_iter": Number(least=1, whole=True),
    }

    reliability: float = 0.8
    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible, given, options = known.possible(session), known.classes, known.options
        classes = equal_priors(possible) if given is None else given
        recipe = CoinRecipe(self, Beliefs(classes=classes), other_labels(possible))
        if options.start is not None or options.warm is not None:
            ended = em.run(session, recipe, options)
        else:
            ended = em.iterate(session, recipe, partial(self._first, session, recipe.others, classes.priors), options)
        return coin_fit(session, recipe, ended, given)

    def _first(self, session: Session, others: int, priors: Floats) -> PassSums:
        """Return the sums of an E-step in which all workers are equally good."""
        session.adopt(partial(_alike, self.reliability, others, priors), priors)
        return session.e_step(hard=False)


def _alike(reliability: float, others: int, priors: Floats, panel: Panel) -> Parameters:
    """Return parameters with one reliability for all workers of a panel."""
    right = np.full(panel.n_workers, reliability)
    totals = np.zeros((panel.n_workers, panel.n_labels))
    return Parameters(priors, coin_table(panel, right, 1.0 - right, others), totals)
