"""Auto: labels that do no harm. Careful hard EM where votes tell skill from luck, majority vote where they do not.

Two versions of a worker are fitted and averaged in score. Both take the confusion of the mean worker, symmetrised, and
shift it by the worker's accuracy, which is shrunk by empirical Bayes and damped by the errors that workers share. Version
A adds the worker's taste for labels, version B the worker's own rows up to a cap. Hard E-steps start from vote shares; six
of them are the most by design. Where shared error drowns the spread of skill, agreement with the majority says nothing
about skill, and majority vote is the answer. If labels are grades, and workers who differ give neighbouring ones, the model of
ordinal grades is. docs/can-you-trust-it.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit, TableLines, TraceRow
from adjudge.data.options import Rules
from adjudge.engines import memory
from adjudge.engines.base import ClassEstimate, Gather, PassSums, Session, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.careful import CAREFUL_KINDS, CarefulShared, Kind, SeenOnce, careful_priors, shared_by_all, worker_table
from adjudge.models.dawid_skene import ConfusionRecipe, EMRecipe
from adjudge.models.honest import Dependence, facts_of

Floats = NDArray[np.float64]
PASSES_PER_VERSION: Final = 6  # of each version
ANCHOR_SHARE: Final[dict[Kind, float]] = {"A": 0.2, "B": 0.0}  # share of the vote shares in the counts of every M-step
MIN_TRUST_IN_SKILL: Final = 0.25  # trust in skill below which majority vote is the answer
MIN_GOLD_TASKS: Final = 10  # gold tasks with two votes or more from which skill is known: the guard does not fire


@dataclass(frozen=True, kw_only=True)
class AutoModel(Model):
    """The default: careful hard EM that falls back to majority vote if workers share more errors than they differ in skill.

    Parameters
    ----------
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.AutoModel().fit(votes).labels["label"].to_list()
    ['cat', 'dog']

    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "careful (auto)"
    rules: ClassVar[Rules] = COMMON
    scoring: ClassVar[str] = "careful"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False
    is_careful: ClassVar[bool] = True
    room: ClassVar[memory.Room] = memory.CAREFUL
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("tol", "max_iter", "stop"), "it makes at most six passes of each version by design"),
        **dict.fromkeys(("smoothing", "strength"), "it shrinks every worker to the mean one as far as the votes ask for"),
        "switch": "all of its passes are hard",
    }

    def _fit(self, session: Session, known: Knowns) -> Fit:
        found, exists = known.dependence, known.exists
        if session.gold_given:
            from adjudge.models import panel  # few fits have gold

            stacked = panel.stack_of_auto(self, session, known)
            if stacked is not None:
                return stacked
        if session.votes.n_labels > 2:
            from adjudge.models.grade_test import fit_if_grades  # loaded where labels may be a scale

            graded = fit_if_grades(self, session, known)
            if graded is not None:
                return replace(graded, facts={**facts_of(found), **graded.facts})
        reason = _reason_for_majority(session, found, exists)
        if reason is not None:
            return self._majority(session, found, reason)
        session.start(hard=False)
        session.remember()
        begin, options = partial(_begin, session, known.options), replace(known.options, likelihood=False, warm=None)
        trace: tuple[TraceRow, ...] = ()
        before = known.options.warm.iterations if known.options.warm else 0
        for kind in CAREFUL_KINDS:
            recipe = CarefulRecipe(self, kind=kind, dependence=found, exists=exists, classes=known.classes)
            ended = em.repeat(session, recipe, begin, options)
            trace += tuple(replace(row, iteration=before + len(trace) + row.iteration) for row in ended.trace)
            if kind == "A":
                session.set_aside()
        session.blend()
        outcome = session.finish(hard=True)
        params, statistics, _ = session.estimate()
        return Fit(
            replace(outcome, log_likelihood=float("nan")),
            replace(params, priors=ended.classes.shares),
            statistics,
            trace,
            True,
            facts={**facts_of(found), "chose": "careful", "why": _reason_for_careful(found)},
        )

    def _majority(self, session: Session, found: Dependence, reason: str) -> Fit:
        outcome = session.majority()
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        facts = {**facts_of(found), "chose": "majority", "why": reason}
        return Fit(outcome, params, statistics, facts=facts, scoring="heads")


def _begin(session: Session, options: em.FitOptions) -> PassSums:
    """Return the sums of the state that a version starts from: vote shares, given labels, or the labels of an earlier fit."""
    if options.warm is not None:
        session.adopt(options.warm.parameters, options.warm.priors)
        return session.e_step(hard=True)
    return session.recall() if options.start is None else session.recount(options.start)


def _reason_for_majority(session: Session, found: Dependence, exists: NDArray[np.bool_]) -> str | None:
    """Return why majority vote is the answer, in one sentence; None if it is not."""
    if exists.sum() < 2:
        return "majority vote: there are fewer than two labels"
    if not session.votes.n_tasks:  # labels may be known from histories
        return "majority vote: there are no votes"
    if found.trust_in_skill >= MIN_TRUST_IN_SKILL or session.gold_tasks(votes=2) >= MIN_GOLD_TASKS:
        return None
    if found.agreement == 1.0:
        return "majority vote: workers agree throughout, so there is nothing to learn"
    return f"majority vote: workers err together more than they differ in skill ({_figures(found)})"


def _reason_for_careful(found: Dependence) -> str:
    """Return why the careful fit is the answer, in one sentence."""
    more = found.skill_spread >= found.shared_error
    what = "workers differ in skill more than they err together" if more else "workers err together, but differ in skill as well"
    return f"careful fit: {what} ({_figures(found)})"


def _figures(found: Dependence) -> str:
    return f"rho {found.shared_error:.2f}, spread {found.skill_spread:.2f}".replace("0.", ".")


@dataclass(frozen=True, eq=False, kw_only=True)
class CarefulRecipe(EMRecipe):
    """One of the two careful versions of a worker."""

    takes_cells: ClassVar[bool] = True  # of counts, where only those with votes are stored

    kind: Kind
    dependence: Dependence
    exists: NDArray[np.bool_]  # [K]
    classes: Any = None
    seen: SeenOnce = field(default_factory=SeenOnce)

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {"phase": self.kind, "max_iter": PASSES_PER_VERSION, "stop": "labels", "anchor": ANCHOR_SHARE[self.kind]}
        vars(self).update(rules, may_cycle=False)  # it makes few passes by design

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return the shares of the labels that are believed, [K]; in scores they have the weight 0.8."""
        shares: Floats = class_counts / max(float(np.sum(class_counts)), 1.0)
        believed = shares if self.classes is None else self.classes.estimate(class_counts)[0]
        return ClassEstimate(careful_priors(believed, self.exists), 0.0, believed)

    def shared(self, priors: Floats, gather: Gather) -> CarefulShared:
        """Return the mean worker and the spread of skill, from two rounds of sums over all workers."""
        look, pool = partial(self.seen.look, self.kind), partial(self.seen.pool, self.kind)
        return shared_by_all(gather, self.dependence, self.exists, look, pool)

    def on(self, block: WorkerBlock) -> CarefulStep:
        """Return the M-step of these workers."""
        return CarefulStep(block, self)


@dataclass(frozen=True, eq=False)
class CarefulStep:
    """The M-step of some workers under a careful version."""

    block: WorkerBlock
    recipe: CarefulRecipe

    def __call__(self, counts: Any, shared: CarefulShared) -> TableLines:
        """Return log-probabilities of votes by true label, [rows, K]."""
        recipe = self.recipe
        seen = recipe.seen.take(self.block, counts)
        table = worker_table(recipe.kind, self.block, seen, shared, recipe.dependence, recipe.exists)
        return TableLines(table, seen.met)
