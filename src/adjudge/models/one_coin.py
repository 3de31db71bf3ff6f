"""One probability per worker to be right, for every label: one-coin Dawid-Skene and ZenCrowd."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import round_to_unit, unit_below
from adjudge.data.fit import ClassPrior, Fit, Parameters, Prior, TableLines
from adjudge.data.options import DEFAULTS, Choice, ClassPriors, Number, Rules, Stop, Strength
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import PassSums, Session, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import (
    SOFT_EM_RULES,
    ConfusionPrior,
    ConfusionRecipe,
    EMRecipe,
    beliefs_of,
    fit_recipe,
)
from adjudge.models.knowledge import coin_table, other_labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneCoin(Model):
    """Soft EM with a single accuracy per worker, for votes that are too few for a whole confusion.

    A label that nobody gave, and that neither gold nor priors nor a history name, does not count. Priors that you give replace
    either choice of `class_priors`.

    Parameters
    ----------
    class_priors : str, default "uniform"
        "uniform" takes labels as equally likely; "estimated" learns their shares.
    tol, max_iter, stop, smoothing, strength, accelerate : optional
        As for `DawidSkene`.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.OneCoin().fit(votes)
    >>> result.labels["label"].to_list()
    ['cat', 'dog']

    """

    name: ClassVar[str] = "one-coin"
    title: ClassVar[str] = "one-coin Dawid-Skene"
    rules: ClassVar[Rules] = {**SOFT_EM_RULES, "class_priors": Choice(get_args(ClassPriors))}
    scoring: ClassVar[str] = "coin"

    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter
    smoothing: float = DEFAULTS.smoothing
    strength: Strength = DEFAULTS.strength
    stop: Stop = DEFAULTS.stop
    class_priors: ClassPriors = "uniform"
    accelerate: bool = DEFAULTS.accelerate

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible, given = known.possible(session), known.classes
        beliefs, strength = beliefs_of(self, session, replace(known, classes=self._classes(given, possible)))
        recipe = CoinRecipe(self, beliefs, other_labels(possible))
        ended = fit_recipe(self, session, recipe, known.options)
        return coin_fit(session, recipe, ended, given, strength)

    def _classes(self, given: ClassPrior | None, possible: NDArray[np.bool_]) -> ClassPrior | None:
        """Return the class priors in force, [K]: the caller's, or equal ones for existing labels; None if estimated."""
        if given is not None or self.class_priors == "estimated":
            return given
        return equal_priors(possible)


def equal_priors(possible: NDArray[np.bool_]) -> ClassPrior:
    """Return equal priors for existing labels, [K]."""
    return ClassPrior(possible / max(int(possible.sum()), 1))


def coin_fit(session: Session, recipe: CoinRecipe, ended: em.Run, given: ClassPrior | None, strength: float = 0.0) -> Fit:
    """Return what the votes say under the coins of a finished loop; `given` are the class priors of the caller."""
    outcome = session.finish()
    shown = ConfusionRecipe(recipe.model, recipe.beliefs)  # to be looked at: labels come from the coins
    params, statistics, columns = session.estimate(shown)
    return Fit(
        outcome,
        replace(params, priors=ended.classes.shares if given is None else ended.classes.priors),
        statistics,
        ended.trace,
        ended.converged,
        worker_columns=columns,
        skill=columns.get("skill"),
        scored_by=ended.classes.priors,
        strength=strength,
    )


@dataclass(frozen=True, eq=False)
class CoinRecipe(EMRecipe):
    """One accuracy per worker; all wrong labels are equally likely."""

    others: int = 1  # labels that an error can fall on

    def on(self, block: WorkerBlock) -> CoinStep:
        """Return the M-step of these workers."""
        return CoinStep(block, self.beliefs.of(block), self.others)


class CoinStep:
    """The M-step of some workers: the share of right votes of each."""

    def __init__(self, block: WorkerBlock, prior: Prior, others: int) -> None:
        panel = self._panel = block.panel
        self._prior = prior
        self._others = others
        self._own = np.arange(panel.n_rows), panel.row_label
        s, believed = float(prior.smoothing), prior.workers
        k = others + 1
        # Pseudo-votes that are right, and wrong ones: smoothing fills K x K cells of which K are right.
        self._right, self._wrong = np.full(panel.n_workers, k * s), np.full(panel.n_workers, k * (k - 1) * s)
        if believed is not None:  # in units that add up exactly, see `prior.lay_out`
            absent = believed.others
            right = np.full(panel.n_workers, np.trace(believed.shared))
            right += panel.by_worker(believed.cells[self._own] - np.diag(believed.shared)[panel.row_label])
            np.add.at(right, absent.worker, absent.counts[np.arange(len(absent.label)), absent.label])
            self._right += right
            self._wrong += believed.totals.sum(axis=1) - right

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the table of the share of right votes of each worker, [rows, K]."""
        panel = self._panel
        right, wrong = self._counted(counts)
        right, wrong = right + self._right, wrong + self._wrong
        total = right + wrong
        total = np.where(total > 0, total, 1.0)
        coin = right / total
        table = coin_table(panel, coin, wrong / total, self._others)
        penalty = _sum_beliefs(self._right, coin) + _sum_beliefs(self._wrong, wrong / total / self._others)
        return TableLines(table, np.zeros((panel.n_workers, panel.n_labels)), self._prior, penalty, columns={"skill": coin})

    def _counted(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the expected numbers of right and of wrong votes of each worker, [workers] each, of votes by row, [rows, K]."""
        units = round_to_unit(counts, unit_below(int(counts.sum()) + 1))  # whole units and remainders are summed apart
        rest = counts - units
        own, own_rest = units[self._own], rest[self._own]
        rest[self._own] = 0.0
        by_row = np.stack([own, own_rest, units.sum(axis=1) - own, rest.sum(axis=1)], axis=1)
        right, right_rest, wrong, wrong_rest = self._panel.by_worker(by_row).T
        return right + right_rest, wrong + wrong_rest


def _sum_beliefs(votes: Floats, probability: Floats) -> float:
    """Return the sum of pseudo-votes * log probability; a cell without pseudo-votes adds nothing."""
    with np.errstate(divide="ignore"):
        return float(np.where(votes > 0, votes * np.log(np.where(votes > 0, probability, 1.0)), 0.0).sum())


@dataclass(frozen=True, kw_only=True)
class ZenCrowd(Model):
    """Demartini et al. 2012, as benchmarks run it: soft EM with one reliability per worker and equal class priors.

    The model is that of `OneCoin` with another start: the first E-step takes every worker to be right with probability
    `reliability`, whereas the first M-step of `OneCoin` uses vote shares as probabilities. Priors that you give replace the equal
    ones.

    Parameters
    ----------
    reliability : float, default 0.8
        Reliability of every worker in the first E-step.
    tol, max_iter : optional
        Stop when the shares of the labels change by less than `tol` in total; at most `max_iter` iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
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
        recipe = CoinRecipe(self, ConfusionPrior(classes=classes), other_labels(possible))
        if options.start is not None or options.warm is not None:
            ended = em.run(session, recipe, options)
        else:
            ended = em.iterate(session, recipe, partial(self._first, session, recipe.others, classes.priors), options)
        return coin_fit(session, recipe, ended, given)

    def _first(self, session: Session, others: int, priors: Floats) -> PassSums:
        """Return the sums of an E-step in which all workers are equally good."""
        session.adopt(partial(_alike, self.reliability, others, priors), priors)
        return session.e_step(hard=False)


def _alike(reliability: float, others: int, priors: Floats, panel: WorkerRows) -> Parameters:
    """Return parameters with one reliability for all workers of a panel."""
    right = np.full(panel.n_workers, reliability)
    totals = np.zeros((panel.n_workers, panel.n_labels))
    return Parameters(priors, coin_table(panel, right, 1.0 - right, others), totals)
