"""Independent Bayesian classifier combination: Dawid-Skene with distributions for parameters, by variational Bayes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Lines
from adjudge.data.exact import LOG_UNIT, sum_of, sums_of, whole
from adjudge.data.fit import Fit
from adjudge.data.options import MOST_VOTES, Number, Rules
from adjudge.engines import memory
from adjudge.engines.base import ClassEstimate, Session, WorkerBlock
from adjudge.kernels.special import digamma, dirichlet_log_norm, log_gamma
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import Beliefs, ConfusionRecipe, EMRecipe
from adjudge.models.lfc import diagonal_votes

Floats = NDArray[np.float64]
LEAST = 1e-6  # pseudo-votes: without any, a distribution is none


@dataclass(frozen=True, kw_only=True)
class IBCC(Model):
    """Kim and Ghahramani 2012, by the variational Bayes of Simpson et al. 2013: how little is known of a worker counts, too.

    A worker's answers under each true label have a Dirichlet distribution: beforehand with `diagonal` pseudo-votes for that
    label and `other` for every other one. The shares of the labels have one with `class_weight` pseudo-tasks for each. Votes
    are scored by the expected logarithms under these distributions, so that a worker of few votes weighs less than one
    of the same record and many. What rises is the lower bound of the log-evidence, `objective` in the trace; the fit stops
    when it gains less than `tol`, after `max_iter` iterations at the latest. It starts from vote shares. A label that nobody
    gave, and neither gold nor priors nor a history name, does not exist. `result.log_likelihood` is the bound;
    `result.confusion` and `result.predict` use the means of the distributions. `seed` and `ties` decide between labels that
    score the same.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.IBCC().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "ibcc"
    title: ClassVar[str] = "Bayesian combination (IBCC)"
    room: ClassVar[memory.Room] = memory.BELIEVED
    stop: ClassVar[str] = "objective"
    rules: ClassVar[Rules] = {
        **COMMON,
        "diagonal": Number(least=LEAST, most=MOST_VOTES),
        "other": Number(least=LEAST, most=MOST_VOTES),
        "class_weight": Number(least=LEAST, most=MOST_VOTES),
        "tol": Number(least=0),
        "max_iter": Number(least=1, whole=True),
    }
    lacks: ClassVar[dict[str, str]] = {"smoothing": "its pseudo-votes are called diagonal and other"}

    diagonal: float = 4.0
    other: float = 1.0
    class_weight: float = 1.0
    tol: float = 1e-3
    max_iter: int = 500

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible = known.possible(session)
        beliefs = Beliefs(0.0, diagonal_votes(self.diagonal, self.other, possible), known.classes)
        recipe = DirichletRecipe(self, beliefs, possible=possible, pseudo_tasks=pseudo_tasks(self.class_weight, known, possible))
        ended = em.run(session, recipe, known.options)
        outcome = session.finish()
        params, statistics, _ = session.estimate(ConfusionRecipe(self, beliefs))  # means: what is expected of the next vote
        return Fit(
            replace(outcome, log_likelihood=ended.trace[-1].objective),
            params,
            statistics,
            ended.trace,
            ended.converged,
            scored_by=ended.classes.priors,
        )


def pseudo_tasks(class_weight: float | Floats, known: Knowns, possible: NDArray[np.bool_]) -> Floats | None:
    """Return the Dirichlet of the labels beforehand, [K]: pseudo-tasks of each that exists; None where priors are fixed.

    Priors that are worth some tasks add these to the model's own, `class_weight`: of every label, or [K].
    """
    given = known.classes
    if given is not None and given.weight is None:
        return None
    more = 0.0 if given is None or given.weight is None else given.weight * given.priors
    return np.where(possible, class_weight + more, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class DirichletRecipe(EMRecipe):
    """Dirichlet posteriors of every worker's answers and of the labels: tables of expected logarithms."""

    possible: NDArray[np.bool_]  # [K] labels that there are
    pseudo_tasks: Floats | None  # [K] see the function

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return exp of the expected log shares of the labels, [K], scaled to sum 1; the bound has the scale instead."""
        if self.pseudo_tasks is None:
            return super().class_priors(class_counts)
        counts = np.asarray(class_counts, np.float64)
        tasks = sum_of(counts)
        believed = self.pseudo_tasks
        log_shares = expected_log(counts + believed, believed > 0)
        best = float(log_shares.max(initial=-np.inf))
        if not np.isfinite(best):  # there are no labels
            return ClassEstimate(np.zeros_like(believed), 0.0, np.zeros_like(believed))
        scaled = np.exp(log_shares - best)
        total = sum_of(scaled)
        penalty = tasks * (best + float(np.log(total))) - divergence(counts, believed)
        return ClassEstimate(scaled / total, penalty, counts / max(tasks, 1.0))

    def on(self, block: WorkerBlock) -> DirichletStep:
        """Return the M-step of these workers."""
        return DirichletStep(block, self.beliefs, self.possible)


class DirichletStep:
    """The M-step of some workers: their Dirichlet posteriors, as the expected logarithms of their answers."""

    def __init__(self, block: WorkerBlock, beliefs: Beliefs, possible: NDArray[np.bool_]) -> None:
        self._panel = block.panel
        self._prior = beliefs.of(block)
        self._possible = possible
        assert self._prior.workers is not None  # every worker has pseudo-votes
        self._cells, self._totals = self._prior.workers.cells[:, possible], self._prior.workers.totals[:, possible]
        # Cells of labels that a worker never gave keep their pseudo-votes: they count in totals, and cancel in the divergence.
        self._log_norm = float(log_gamma(self._totals).sum() - log_gamma(self._cells).sum())

    def __call__(self, counts: Any, shared: Any = None) -> Lines:
        """Return the expected log pi, [rows, K], with the divergence of all posteriors from their priors as penalty."""
        panel, here = self._panel, self._possible
        met = sums_of(np.asarray(counts, np.float64), panel.worker_ptr[:-1])
        votes = np.asarray(counts, np.float64)[:, here]
        cells, totals = self._cells + votes, self._totals + met[:, here]
        lines = digamma(cells) - np.repeat(digamma(totals), np.diff(panel.worker_ptr), axis=0)
        table = np.zeros((panel.n_rows, panel.n_labels))  # of a label that does not exist, the prior decides
        table[:, here] = whole(lines, LOG_UNIT)
        log_norm = float(log_gamma(totals).sum() - log_gamma(cells).sum())
        penalty = self._log_norm - log_norm - float(np.vdot(votes, lines))
        return Lines(table, met, self._prior, penalty)


def expected_log(concentration: Floats, support: NDArray[np.bool_]) -> Floats:
    """Return the expected logarithms of shares with a Dirichlet distribution, [n]; minus infinity outside its support."""
    out = np.full(len(concentration), -np.inf)
    inside = concentration[support]
    out[support] = digamma(inside) - digamma(np.array([sum_of(inside)]))
    return out


def divergence(counts: Floats, believed: Floats) -> float:
    """Return KL(posterior || prior) of a Dirichlet with pseudo-counts `believed`, [n], that has seen `counts`, [n]."""
    support = believed > 0
    prior, seen = believed[support], counts[support]
    after = prior + seen
    lines = expected_log(after, np.ones(len(after), np.bool_))
    return dirichlet_log_norm(after) - dirichlet_log_norm(prior) + float(np.vdot(seen, lines))
