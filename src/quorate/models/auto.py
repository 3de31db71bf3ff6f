"""Auto: labels that do no harm. Careful hard EM where votes tell skill from luck, majority vote where they do not.

Two versions of a worker are fitted and averaged in score. Both take the confusion of the mean worker, symmetrised, and
shift it by the worker's accuracy, which is shrunk by empirical Bayes and damped by the errors that workers share. Version
A adds the worker's taste for labels, version B the worker's own rows up to a cap. Hard E-steps start from vote shares; six
of them are the most by design. Where shared error drowns the spread of skill, agreement with the majority says nothing
about skill, and majority vote is the answer. docs/can-you-trust-it.md has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.data.counts import Lines, Parameters, given_votes, lay_out
from quorate.data.exact import LOG_UNIT, whole
from quorate.data.fit import Fit
from quorate.data.options import Rules
from quorate.data.votes import Panel
from quorate.engines.base import ClassEstimate, Gather, Session, WorkerBlock
from quorate.models import em
from quorate.models.base import COMMON, Knowns, Model
from quorate.models.confusion import ConfusionRecipe, EMRecipe
from quorate.results.honest import PRIOR_WEIGHT, Dependence, population, spread, spread_moments

Floats = NDArray[np.float64]
Kind = Literal["A", "B"]
PASSES: Final = 6  # of each version
ANCHOR: Final[dict[Kind, float]] = {"A": 0.2, "B": 0.0}  # share of the vote shares in the counts of every M-step
GUARD: Final = 0.25  # trust in skill below which majority vote is the answer
KNOWN_SKILL: Final = 10  # gold tasks with two votes or more from which skill is known: the guard does not fire
TINY: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class AutoModel(Model):
    """The default: careful hard EM that falls back to majority vote where workers err together more than they differ.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.AutoModel().fit(votes).labels["label"].to_list()
    ['cat', 'dog']
    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "careful (auto)"
    rules: ClassVar[Rules] = COMMON
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False
    is_careful: ClassVar[bool] = True

    def _fit(self, session: Session, known: Knowns) -> Fit:
        found, exists = known.dependence, known.exists
        reason = _majority_because(session, found, exists)
        if reason is not None:
            return self._majority(session, found, reason)
        session.start(hard=False)
        session.remember()
        trace: tuple[Any, ...] = ()
        for kind in ANCHOR:
            recipe = CarefulRecipe(self, kind=kind, dependence=found, exists=exists, classes=known.classes)
            ended = em.iterate(session, recipe, session.recall, replace(known.options, likelihood=False, warm=None))
            trace += ended.trace
            if kind == "A":
                session.set_aside()
        session.blend()
        outcome = session.finish(hard=True)
        params, statistics, _ = session.estimate()
        chose = f"careful fit: workers differ in skill more than they err together ({_figures(found)})"
        return Fit(
            replace(outcome, log_likelihood=float("nan")),
            replace(params, priors=ended.classes.shares),
            statistics,
            trace,
            True,
            facts={**facts_of(found), "chose": "careful", "why": chose},
        )

    def _majority(self, session: Session, found: Dependence, reason: str) -> Fit:
        outcome = session.majority()
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        return Fit(outcome, params, statistics, facts={**facts_of(found), "chose": "majority", "why": reason})


def facts_of(found: Dependence) -> dict[str, object]:
    """Return what was measured, by name."""
    return {
        "shared_error": found.shared_error,
        "skill_spread": found.skill_spread,
        "effective_votes": found.effective_votes,
        "trust_in_skill": found.trust_in_skill,
    }


def _majority_because(session: Session, found: Dependence, exists: NDArray[np.bool_]) -> str | None:
    """Return why majority vote is the answer, in one sentence; None where it is not."""
    if exists.sum() < 2:
        return "majority vote: there are fewer than two labels"
    if found.trust_in_skill >= GUARD or session.gold_tasks(votes=2) >= KNOWN_SKILL:
        return None
    if found.agreement == 1.0:
        return "majority vote: workers agree throughout, so there is nothing to learn"
    return f"majority vote: workers err together more than they differ in skill ({_figures(found)})"


def _figures(found: Dependence) -> str:
    return f"rho {found.shared_error:.2f}, spread {found.skill_spread:.2f}".replace("0.", ".")


class CarefulShared(NamedTuple):
    """What every worker's lines depend on: the mean worker, and how far a worker is believed to differ."""

    mean_worker: Floats  # [K true, K given]
    own: Floats  # [K] the mean worker's accuracy by true label
    kappa: float  # votes of the mean worker that an accuracy is shrunk by
    trust: float  # g: how far shared error leaves agreement informative


@dataclass(frozen=True, eq=False, kw_only=True)
class CarefulRecipe(EMRecipe):
    """One of the two careful versions of a worker."""

    kind: Kind
    dependence: Dependence
    exists: NDArray[np.bool_]  # [K]
    classes: Any = None

    @property
    def phase(self) -> str:
        """The version's name in the trace."""
        return self.kind

    @property
    def max_iter(self) -> int:
        """The most iterations."""
        return PASSES

    @property
    def stop(self) -> str:
        """The stopping rule."""
        return "labels"

    @property
    def is_bounded(self) -> bool:
        """Whether its few iterations are the most by design."""
        return True

    @property
    def anchor(self) -> float:
        """The share of the starting counts in those that an M-step sees."""
        return ANCHOR[self.kind]

    def class_priors(self, class_counts: Any) -> ClassEstimate:
        """Return the shares of the labels that are believed, [K]; in scores they have the weight 0.8."""
        shares: Floats = class_counts / max(float(np.sum(class_counts)), 1.0)
        believed = shares if self.classes is None else self.classes.estimate(class_counts)[0]
        with np.errstate(divide="ignore"):
            scored = np.where(self.exists, np.maximum(believed, TINY) ** PRIOR_WEIGHT, 0.0)
        return ClassEstimate(scored, 0.0, believed)

    def shared(self, priors: Floats, gather: Gather) -> CarefulShared:
        """Return the mean worker and the spread of skill, from two rounds of sums over all workers."""
        pooled = gather(_pooled)
        return _shared(pooled, gather, self.dependence, self.exists)

    def on(self, block: WorkerBlock) -> CarefulStep:
        """Return the M-step of these workers."""
        return CarefulStep(block, self)


@dataclass(frozen=True, eq=False)
class CarefulStep:
    """The M-step of some workers under a careful version."""

    block: WorkerBlock
    recipe: CarefulRecipe

    def __call__(self, counts: Any, shared: CarefulShared) -> Lines:
        """Return log-probabilities of votes by true label, [rows, K]."""
        seen, recipe, panel = Seen.of(self.block, counts), self.recipe, self.block.panel
        rows = panel.row_worker(), panel.row_label, seen.counts
        table = careful_table(recipe.kind, seen, shared, recipe.dependence, recipe.exists, *rows)
        return Lines(table, seen.met)


class Seen(NamedTuple):
    """Votes of some workers under the labels believed, those of their history included."""

    counts: Floats  # [rows, K]
    met: Floats  # [workers, K] votes by true label
    said: Floats  # [workers, K] votes by given label
    right: Floats  # [workers]

    @classmethod
    def of(cls, block: WorkerBlock, counts: Any) -> Seen:
        """Return what was seen of the workers of a block."""
        panel: Panel = block.panel
        counts = np.asarray(counts, np.float64)
        met = panel.by_worker(counts)
        past = lay_out(panel, None, block.history)
        said, right = np.zeros((panel.n_workers, panel.n_labels)), np.zeros(panel.n_workers)
        if past is not None:
            counts, met = counts + past.cells, met + past.totals
            others = past.others
            np.add.at(said, (others.worker, others.label), others.counts.sum(axis=1))
            np.add.at(right, others.worker, others.counts[np.arange(len(others.label)), others.label])
        said[panel.row_worker(), panel.row_label] += counts.sum(axis=1)
        right += panel.by_worker(counts[np.arange(panel.n_rows), panel.row_label])
        return cls(counts, met, said, right)


def _pooled(block: WorkerBlock, counts: Any) -> Floats:
    """Return the votes of all workers, [K true, K given], those of histories included."""
    pooled = given_votes(block.panel, np.asarray(counts, np.float64)).T
    if block.history is not None:
        np.add.at(pooled.T, block.history.label, block.history.counts)
    return pooled


def _shared(pooled: Floats, gather: Any, found: Dependence, exists: NDArray[np.bool_]) -> CarefulShared:
    k, n_labels = len(exists), int(exists.sum())
    inner = np.ix_(exists, exists)
    total = pooled.sum()
    accuracy = float(np.clip(np.trace(pooled) / total, 1.0 / n_labels + 0.02, 0.995))
    mean_worker = np.zeros((k, k))
    mean_worker[inner] = population(pooled[inner], accuracy)
    own = np.clip(np.diag(mean_worker), 0.01, 0.99)

    def moments(block: WorkerBlock, counts: Any) -> Floats:
        seen = Seen.of(block, counts)
        votes = seen.met.sum(axis=1)
        return spread_moments(seen.right, votes, _expected_accuracy(seen.met, own))

    kappa = 1.0 / spread(gather(moments)) - 1.0
    return CarefulShared(mean_worker, own, kappa, 1.0 / (1.0 + found.shared_error * (kappa + 1.0)))


def _expected_accuracy(met: Floats, own: Floats) -> Floats:
    """Return what the mean worker would reach on the labels that each worker met, [workers]."""
    out: Floats = np.clip(met @ own / np.maximum(met.sum(axis=1), TINY), 0.02, 0.98)
    return out


def careful_table(
    kind: Kind,
    seen: Seen,  # of workers
    shared: CarefulShared,
    found: Dependence,
    exists: NDArray[np.bool_],  # [K]
    worker: NDArray[np.int64],  # [rows] whose line is wanted
    label: NDArray[np.int32],  # [rows] for which given label
    counts: Floats,  # [rows, K] the worker's votes for it, by true label
) -> Floats:
    """Return log W of one of the two versions, [rows, K true]."""
    met, total, phi = seen.met, seen.met.sum(axis=1), found.inflation
    expected_rate = _expected_accuracy(met, shared.own)
    rate = np.clip((seen.right + shared.kappa * expected_rate) / (total + shared.kappa), 0.01, 0.995)
    weight = phi**-0.5 if kind == "A" else shared.trust
    shift = weight * (_logit(rate) - _logit(expected_rate))
    right = _sigmoid(_logit(shared.own) + shift[:, None])  # [workers, K] probability to be right, by true label
    errors = shared.mean_worker.copy()
    np.fill_diagonal(errors, 0.0)
    of_label = errors.sum(axis=1, keepdims=True)
    errors /= np.where(of_label > 0, of_label, 1.0)
    wrong = np.where(exists, 1.0 - right, 0.0)
    cells = wrong[worker] * errors[:, label].T  # [rows, K true]
    own = np.arange(len(label)), label
    cells[own] = right[worker, label]
    if kind == "A":
        expected = (met * wrong) @ errors + met * np.where(exists, right, 0.0)
        lent = 10.0 * expected / np.maximum(expected.sum(axis=1, keepdims=True), TINY)
        taste = ((seen.said + lent + 1e-3) / (expected + lent + 1e-3)) ** (0.6 * phi**-0.25)
        cells *= taste[worker, label][:, None]
        norm = wrong * (taste @ errors.T) + np.where(exists, right, 0.0) * taste  # sums over given labels
        cells /= np.where(norm > 0, norm, 1.0)[worker]
    else:
        effective = found.effective_votes
        mine = np.minimum(met / (met + 10.0), shared.trust * effective / (effective + 5.0))[worker]
        cells = (1.0 - mine) * cells + mine * counts / np.maximum(met, TINY)[worker]
    table = np.log(np.maximum(cells, 1e-6))
    table[:, ~exists] = -np.inf
    return whole(table, LOG_UNIT)


def _logit(p: Floats) -> Floats:
    out: Floats = np.log(p / (1.0 - p))
    return out


def _sigmoid(x: Floats) -> Floats:
    out: Floats = 1.0 / (1.0 + np.exp(-x))
    return out


def parameters(priors: Floats, table: Floats, met: Floats) -> Parameters:
    """Return parameters of these priors and lines."""
    return Parameters(priors, table, met)
