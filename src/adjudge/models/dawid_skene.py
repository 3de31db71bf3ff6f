"""Dawid-Skene, its hard version Fast Dawid-Skene, and the Hybrid that starts as one and ends as the other.

The M-step estimates one confusion matrix per worker (equations 3, 4, 9, 10). With `strength`, every worker gets pseudo-votes of
the mean worker, more of them the less workers differ: confusions are measured against majority vote, and the pseudo-votes are
distributed over the true labels by their frequency. A rare label gets few, so that majority vote, which is least reliable
there, cannot outweigh the votes; docs/decisions/012-priors.md shows how other ways affected rare labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit, sum_of
from adjudge.data.fit import ClassPrior, Fit, Prior, TableLines, WorkerPrior, given_votes, lay_out
from adjudge.data.options import DEFAULTS, MOST_VOTES, Choice, Flag, Number, Rules, Stop, Strength
from adjudge.data.votes import WorkerRows
from adjudge.data.wide import Cells, WidePart, WideTable
from adjudge.engines import memory
from adjudge.engines.base import ClassEstimate, Gather, Recipe, Session, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConfusionPrior:
    """Common prior of all workers, and prior of the labels; histories come with the workers."""

    smoothing: float = 0.0
    shared: Floats | None = None  # [K given, K true] pseudo-votes that every worker gets
    classes: ClassPrior | None = None

    def of(self, block: WorkerBlock) -> Prior:
        """Return the prior over the rows of some workers."""
        has_beliefs = self.shared is not None or block.history is not None
        return Prior(self.smoothing, lay_out(block.panel, self.shared, block.history) if has_beliefs else None, self.classes)


@dataclass(frozen=True, eq=False)
class EMRecipe:
    """The recipe of a model whose parameters are class priors and a table; subclasses define `on`."""

    model: Model
    beliefs: ConfusionPrior = ConfusionPrior()
    # Settings of the model, which the loop reads; `Recipe` describes them.
    name: str = field(init=False)
    tol: float = field(init=False)
    max_iter: int = field(init=False)
    stop: str = field(init=False)
    starts_hard: bool = field(init=False)
    switch: float = field(init=False)
    is_likelihood: bool = field(init=False)
    anchor: float = field(init=False)
    phase: str | None = field(init=False)
    may_cycle: bool = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        vars(self).update(
            name=model.name,
            tol=float(getattr(model, "tol", 0.0)),
            max_iter=int(getattr(model, "max_iter", 1)),
            stop=str(getattr(model, "stop", "priors")),
            starts_hard=model.starts_hard,
            switch=float(getattr(model, "switch", -np.inf)),
            is_likelihood=model.is_likelihood,
            anchor=0.0,
            phase=None,
            may_cycle=not model.is_likelihood,  # no likelihood rises from pass to pass
        )

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return p_c from the class counts of a pass, [K]; with fixed priors, the shares of labels stop the fit."""
        shares: Floats = class_counts / max(sum_of(np.asarray(class_counts, np.float64)), 1.0)
        given = self.beliefs.classes
        if given is None:
            return ClassEstimate(shares, 0.0, shares)
        priors, penalty = given.estimate(class_counts)
        return ClassEstimate(priors, penalty, shares if given.weight is None else priors)

    def shared(self, priors: Floats, gather: Gather) -> Any:
        """Return nothing: a worker's lines follow from its own counts."""


class ConfusionRecipe(EMRecipe):
    """One confusion matrix per worker: the paper's equations 3 and 10."""

    shows_cells: ClassVar[bool] = True  # lines for people may be in parts; lines for passes are not

    def on(self, block: WorkerBlock) -> ConfusionStep:
        """Return the M-step of these workers."""
        return ConfusionStep(block, self.beliefs.of(block))


@dataclass(frozen=True, eq=False)
class ConfusionStep:
    """The M-step of some workers: counts normalised per worker and true label."""

    block: WorkerBlock
    prior: Prior

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return log pi that maximises the (penalised) likelihood of these counts, [rows, K]."""
        believed, smoothing, panel = self.prior.workers, self.prior.smoothing, self.block.panel
        if isinstance(counts, Cells):
            if believed is None and smoothing == 0.0:
                return _confusion_lines(panel, counts, self.prior)
            counts = np.asarray(counts)
        counts = counts if believed is None else counts + believed.cells
        table, totals = self.block.tables(counts, panel.worker_ptr, smoothing)
        if believed is not None:
            totals = _add_absent(panel, table, totals, believed, smoothing)
        has_beliefs = believed is not None or smoothing != 0.0
        return TableLines(table, totals, self.prior, _penalty(panel, table, totals, self.prior) if has_beliefs else 0.0)


def _confusion_lines(panel: WorkerRows, counts: Cells, prior: Prior) -> TableLines:
    """Return log pi in parts, without pseudo-votes: minus infinity except for cells with votes."""
    totals, k = panel.by_worker(counts), panel.n_labels
    total = totals[panel.row_worker()[counts.row], counts.label]
    own = round_to_unit(np.log(counts.count) - np.log(total), LOG_UNIT)
    part = WidePart(np.zeros(totals.shape), np.full((k, k), -np.inf), replace(counts, count=own))
    return TableLines(WideTable(panel, (part,)), totals, prior)


def _add_absent(panel: WorkerRows, table: Floats, totals: Floats, believed: WorkerPrior, smoothing: float) -> Floats:
    """Add pseudo-votes of labels without a row to the table (in place), and return the votes alone, [workers, K]."""
    before = totals + panel.n_labels * smoothing
    absent = believed.totals - believed.on_rows
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(absent > 0, np.log(before) - np.log(before + absent), 0.0)
    shift[np.isneginf(shift)] = 0.0  # nothing on the rows: the table is minus infinity there already
    table += np.repeat(round_to_unit(shift, LOG_UNIT), np.diff(panel.worker_ptr), axis=0)
    votes: Floats = totals - believed.on_rows
    return votes


def _penalty(panel: WorkerRows, table: Floats, totals: Floats, prior: Prior) -> float:
    """Return the sum of pseudo-votes * log pi over all cells of all workers, without terms that no fit can change."""
    believed, smoothing = prior.workers, prior.smoothing
    k = panel.n_labels
    every = totals + k * smoothing
    absent = (k - np.diff(panel.worker_ptr))[:, None] * smoothing + np.zeros_like(totals)
    if believed is None:
        on_rows = smoothing * float(table.sum())
    else:
        every = every + believed.totals
        absent += believed.totals - believed.on_rows
        on_rows = _expected_log(believed.cells, table) + (smoothing * float(table.sum()) if smoothing else 0.0)
    return on_rows - float((absent * np.log(np.where(absent > 0, every, 1.0))).sum())


def _expected_log(votes: Floats, table: Floats) -> float:
    """Return the sum of pseudo-votes * log pi, if there are any."""
    with np.errstate(invalid="ignore"):
        plain = float(np.vdot(votes, table))
    # Where nothing is believed pi may be 0: 0 * -inf is not a number, and no part of the sum.
    return plain if np.isfinite(plain) else float((votes * np.where(votes > 0, table, 0.0)).sum())


AUTO = "auto"
MAX_PSEUDO_VOTES = 1e4  # votes lent where workers do not differ at all


class Moments(NamedTuple):
    """Sums over workers, from their votes by given and true label; those of two groups of workers add."""

    votes: Floats  # [K given, K true]
    squares: Floats  # [K true] of N x_l^2 over workers and given labels: x_l is the share of N votes on such tasks
    met: Floats  # [K true] workers that voted on such tasks
    beyond_first: Floats  # [K true] N - 1 of those

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """Return the sums over both groups."""
        return Moments(*(a + b for a, b in zip(self, other, strict=True)))

    def mean(self) -> Floats:
        """Return the confusion of all workers together, [K given, K true]."""
        total = self.votes.sum(axis=0)
        out: Floats = self.votes / np.where(total > 0, total, 1.0)
        return out


def moments(panel: WorkerRows, counts: NDArray[np.int64] | Floats) -> Moments:
    """Return the sums over the workers of a panel, from their votes by row, [rows, K]."""
    k = panel.n_labels
    totals = np.asarray(panel.by_worker(counts), np.float64).reshape(panel.n_workers, k)
    of_row = np.repeat(totals, np.diff(panel.worker_ptr), axis=0)
    squares = (counts * (counts / np.where(of_row > 0, of_row, 1.0))).sum(axis=0)
    return Moments(
        given_votes(panel, counts),
        squares,
        (totals > 0).sum(axis=0).astype(np.float64),
        np.maximum(totals - 1.0, 0.0).sum(axis=0),
    )


class PopulationPrior(NamedTuple):
    """Pseudo-votes that every worker gets."""

    votes: Floats  # [K given, K true]
    strength: float  # their number


def population(gather: Gather, strength: float | str) -> PopulationPrior:
    """Return the pseudo-votes for each worker, from the (hard) counts of majority vote; "auto" estimates their number."""
    return lent(gather(_moments), strength)


def _moments(block: WorkerBlock, counts: Any) -> Moments:
    return moments(block.panel, counts)


def lent(sums: Moments, strength: float | str) -> PopulationPrior:
    """Return the pseudo-votes for each worker, from sums over all workers.

    A label that was voted for but never won a majority has no measured confusion. It gets pseudo-votes in proportion to its
    votes, of a worker with the mean accuracy: without any, the shrunken labels would lose tasks to it, unanimous ones too.
    """
    won, given = sums.votes.sum(axis=0), sums.votes.sum(axis=1)
    never_won = (won == 0) & (given > 0)
    frequency = np.where(never_won, given, won)
    number = strength_of(sums) if isinstance(strength, str) else float(strength)
    mean = np.where(never_won, _equal_errors(sums.votes), sums.mean())
    return PopulationPrior(number * mean * (frequency / max(float(frequency.sum()), 1.0)), number)


def _equal_errors(votes: Floats) -> Floats:
    """Return the confusion of a worker with the mean accuracy and equally likely errors, [K given, K true]."""
    k = len(votes)
    accuracy = float(np.trace(votes)) / max(float(votes.sum()), 1.0)
    out: Floats = np.full((k, k), (1.0 - accuracy) / max(k - 1, 1))
    np.fill_diagonal(out, accuracy)
    return out


def strength_of(sums: Moments) -> float:
    """Return the strength of a Dirichlet population of workers, by moments, from sums over all of them.

    Of N votes on tasks of one true label, with shares x_l about a mean m_l, the sum over l of (x_l - m_l)^2 is
    expected to be V (1/N + (1 - 1/N) rho), where V is the sum of m_l (1 - m_l) and rho = 1 / (strength + 1). Summed
    over workers and true labels, weighted by N, this is solved for rho.
    """
    mean = sums.mean()
    # The sum of N (x_l - m_l)^2: as m is the mean weighted by N, that of N x_l^2 less that of N m_l^2.
    spread = sums.squares - sums.votes.sum(axis=0) * (mean**2).sum(axis=0)
    by_chance = (mean * (1.0 - mean)).sum(axis=0)
    beyond = (spread - by_chance * sums.met).sum()
    possible = (by_chance * sums.beyond_first).sum()
    if possible <= 0 or beyond <= 0:
        return MAX_PSEUDO_VOTES if possible > 0 else 0.0
    rho = min(beyond / possible, 1.0)
    return float(min(1.0 / rho - 1.0, MAX_PSEUDO_VOTES))


EM_RULES: Rules = {
    **COMMON,
    "tol": Number(least=0),
    "max_iter": Number(least=1, whole=True),
    "smoothing": Number(least=0, most=MOST_VOTES),
    "strength": Number(least=0, most=MOST_VOTES, words=(AUTO,)),
    "stop": Choice(get_args(Stop)),
}
SOFT_EM_RULES: Rules = {**EM_RULES, "accelerate": Flag()}


@dataclass(frozen=True, kw_only=True)
class DawidSkene(Model):
    """Dawid and Skene 1979: soft EM (the paper's equations 9 to 11), started from vote shares.

    Parameters
    ----------
    tol, max_iter, stop
        Stop when the priors change by less than `tol` in sum, or with stop="labels" when no label changed; after `max_iter`
        iterations at the latest, with a warning.
    smoothing : float, default 0.0
        Added to every cell of every confusion. 0 is the paper.
    strength : Strength, default 0.0
        Pseudo-votes of the average worker for every worker; "auto" estimates their number. 0 is the paper.
    accelerate : bool, default False
        True extrapolates from the last steps, for fewer passes to a fixed point of the same EM; the likelihood never falls. Not
        on Spark. False is the paper.
    seed, ties : optional
        Decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.DawidSkene().fit(votes).labels["label"].to_list()
    ['cat', 'dog']

    """

    name: ClassVar[str] = "ds"
    title: ClassVar[str] = "Dawid-Skene"
    rules: ClassVar[Rules] = SOFT_EM_RULES
    starts_hard: ClassVar[bool] = False

    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter
    smoothing: float = DEFAULTS.smoothing
    strength: Strength = DEFAULTS.strength
    stop: Stop = DEFAULTS.stop
    accelerate: bool = DEFAULTS.accelerate

    def _fit(self, session: Session, known: Knowns) -> Fit:
        beliefs, strength = beliefs_of(self, session, known)
        ended = fit_recipe(self, session, ConfusionRecipe(self, beliefs), known.options)
        outcome = session.finish()
        params, statistics, _ = session.estimate()
        return Fit(outcome, params, statistics, ended.trace, ended.converged, strength=strength)


@dataclass(frozen=True, kw_only=True)
class FastDawidSkene(DawidSkene):
    """The paper's Algorithm 1: hard EM (equations 2 to 4), started from majority vote.

    Settings are those of `DawidSkene`, except for `accelerate`: hard passes are few, and there is nothing to extrapolate.

    Parameters
    ----------
    tol, max_iter, stop : optional
        Stop when the priors change by less than `tol` in total, or with stop="labels" when no label changes; at most `max_iter`
        iterations.
    smoothing, strength : optional
        As for `DawidSkene`.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
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


@dataclass(frozen=True, kw_only=True)
class Hybrid(DawidSkene):
    """The paper's Algorithm 3: soft until the priors move by at most `switch`, hard from then on.

    Parameters
    ----------
    switch : float, default 0.005
        Change of the priors at which passes become hard.
    tol, max_iter, stop, smoothing, strength, accelerate : optional
        As for `DawidSkene`.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.Hybrid().fit(votes).labels["label"].to_list()
    ['cat', 'dog']

    """

    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Hybrid"
    room: ClassVar[memory.Room] = memory.TURNS_HARD
    rules: ClassVar[Rules] = {**SOFT_EM_RULES, "switch": Number(least=0)}

    switch: float = DEFAULTS.switch


def fit_recipe(model: Model, session: Session, recipe: Recipe, options: em.FitOptions) -> em.Run:
    """Fit the recipe of a soft model, accelerated on request."""
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


def beliefs_of(model: Pulled, session: Session, known: Knowns) -> tuple[ConfusionPrior, float]:
    """Return the prior in force in every M-step, and the strength of its population part."""
    if model.strength == 0:
        return ConfusionPrior(model.smoothing, None, known.classes), 0.0
    session.start(hard=True)
    lent = population(session.gather, model.strength)
    return ConfusionPrior(model.smoothing, lent.votes, known.classes), lent.strength
