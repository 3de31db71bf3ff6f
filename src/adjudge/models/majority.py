"""Majority vote, and votes weighted by how often their workers are right: mv, wawa, iwmv, catd, goldmv, zbs, la."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit, Parameters, TableLines, TraceRow
from adjudge.data.options import DEFAULTS, Number, Place, Rules
from adjudge.data.votes import WorkerRows
from adjudge.engines import memory
from adjudge.engines.base import OffersWhole, Session, WholeVotes, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionRecipe, EMRecipe
from adjudge.models.knowledge import INITIAL_RIGHT_VOTES, INITIAL_VOTES, MIN_GOLD_WEIGHT, weight_function

Floats = NDArray[np.float64]


class WeightRecipe(EMRecipe):
    """Weights from agreement with the current labels, by the formula of the model."""

    def on(self, block: WorkerBlock) -> WeightStep:
        """Return the M-step of these workers."""
        return WeightStep(block, self.model)


class LabelAgreement:
    """How many votes of some workers agree with the labels, and how many there are, those of a history included."""

    def __init__(self, block: WorkerBlock) -> None:
        panel = self.panel = block.panel
        self._cells = np.arange(panel.n_rows), panel.row_label
        self._past, past = before(block)
        self.total = self._by_worker(block.row_votes()) + past  # [workers]

    def right(self, counts: Any) -> Floats:
        """Return how many votes of each worker agree, [workers], from the counts of a pass, [rows, K]."""
        out: Floats = self._by_worker(counts[self._cells]) + self._past
        return out

    def lines(self, weights: Floats) -> TableLines:
        """Return the table in which a vote has its worker's weight, [workers], for its own label."""
        k = self.panel.n_labels
        table = weight_table(self.panel, weights)
        return TableLines(table, np.zeros((0, k)), uses_prior=False, columns={"weight": weights})

    def _by_worker(self, by_row: Any) -> Floats:
        return self.panel.by_worker(by_row).astype(np.float64)


class WeightStep:
    """The M-step of some workers: a vote has the weight of its worker for its own label."""

    def __init__(self, block: WorkerBlock, model: Model) -> None:
        self._agreement = LabelAgreement(block)
        self._weigh = weight_function(model.name, asdict(model), self._agreement.total, block.panel.n_labels)

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the table of weights, [rows, K]."""
        return self._agreement.lines(self._weigh(self._agreement.right(counts)))


def before(block: WorkerBlock, _counts: Any = None) -> Floats:
    """Return the right votes and all votes of each worker in a history, [2, workers]; for `Session.gather`, too."""
    out = np.zeros((2, block.panel.n_workers))
    if block.history is not None:
        past = block.history
        np.add.at(out[0], past.worker, past.counts[np.arange(len(past.label)), past.label])
        np.add.at(out[1], past.worker, past.counts.sum(axis=1))
    return out


def weight_table(panel: WorkerRows, weights: Floats) -> Floats:
    """Return the table in which a vote has its worker's weight, [workers], for its own label, [rows, K]."""
    table = np.zeros((panel.n_rows, panel.n_labels))
    table[np.arange(panel.n_rows), panel.row_label] = np.repeat(weights, np.diff(panel.worker_ptr))
    return table


def weigh_by(session: Session, weights: Floats, possible: NDArray[np.bool_]) -> None:
    """Take weights, [workers], that no counts of a pass tell, as the table; only `possible` labels, [K], can win."""
    priors = possible / max(int(possible.sum()), 1)
    session.adopt(partial(_parameters, weights, priors), priors)


def _parameters(weights: Floats, priors: Floats, panel: WorkerRows) -> Parameters:
    return Parameters(priors, weight_table(panel, weights), np.zeros((panel.n_workers, panel.n_labels)))


def weighted_fit(
    model: Model,
    session: Session,
    trace: tuple[TraceRow, ...] = (),
    *,
    converged: bool = True,
    columns: dict[str, NDArray[Any]] | None = None,
) -> Fit:
    """Return the fit under the weights in force; `columns` are those of workers if no recipe has them, [workers] each."""
    outcome = session.weighted_majority()
    params, statistics, found = session.estimate(ConfusionRecipe(model))
    told = found if columns is None else columns
    return Fit(outcome, params, statistics, trace, converged, worker_columns=told, skill=told.get("weight"))


@dataclass(frozen=True, kw_only=True)
class MajorityVote(Model):
    """The most frequent label of each task; its posterior is its share of the votes.

    Workers' confusions are counted against the winners, so that you can still inspect them.

    Parameters
    ----------
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> result = adj.MajorityVote().fit([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog")])
    >>> result.posterior.rows()
    [('t1', 0.6666666666666666, 0.3333333333333333)]
    >>> result.labels.row(0)  # three votes on one task say little about their workers
    ('t1', 'cat', 0.525, 3, False)

    """

    name: ClassVar[str] = "mv"
    title: ClassVar[str] = "majority vote"
    learns: ClassVar[bool] = False
    room: ClassVar[memory.Room] = memory.MAJORITY_ROOM
    scoring: ClassVar[str] = "heads"
    takes: ClassVar[frozenset[str]] = frozenset()

    def _fit(self, session: Session, known: Knowns) -> Fit:
        outcome = session.majority()
        params, statistics, _ = session.estimate(ConfusionRecipe(self))
        return Fit(outcome, params, statistics)


@dataclass(frozen=True, kw_only=True)
class Wawa(Model):
    """Worker agreement with aggregate: majority vote, then a second one weighted by each worker's agreement with the first.

    A worker's weight is the share of votes that agree with majority vote. The posterior of a label is its share of the weights of
    its task.

    Parameters
    ----------
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.Wawa().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', 0.0)]

    """

    name: ClassVar[str] = "wawa"
    title: ClassVar[str] = "Wawa"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    def _fit(self, session: Session, known: Knowns) -> Fit:
        recipe, options = OnceRecipe(self), replace(known.options, likelihood=False)
        ended = em.repeat(session, recipe, em.first_pass(session, recipe, options), options)
        return weighted_fit(self, session, ended.trace)


class OnceRecipe(WeightRecipe):
    """Weights from agreement, once."""

    @property
    def may_cycle(self) -> bool:
        """Return False: one iteration is the method."""
        return False


@dataclass(frozen=True, kw_only=True)
class IWMV(Model):
    """Li and Yu 2014 (arXiv 1411.4086): weights K * accuracy - 1, until the labels stop changing.

    A worker's accuracy is the share of votes that agree with the current labels, which start from majority vote. A worker below
    chance has a negative weight. Confidence is the label's share of the positive weights.

    Parameters
    ----------
    max_iter : int, default 100
        Maximum number of iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.IWMV().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', -1.0)]

    """

    name: ClassVar[str] = "iwmv"
    title: ClassVar[str] = "weighted majority (IWMV)"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True)}
    stop: ClassVar[str] = "labels"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter

    def _fit(self, session: Session, known: Knowns) -> Fit:
        ended = em.run(session, WeightRecipe(self), replace(known.options, likelihood=False))
        return weighted_fit(self, session, ended.trace, converged=ended.converged)


@dataclass(frozen=True, kw_only=True)
class CATD(Model):
    """Li et al. 2014, confidence-aware truth discovery: a worker's weight is 1 / an upper bound of its error.

    If e of n votes disagree with the current labels, the weight is chi2(alpha / 2, n) / e, where chi2 is the quantile of the
    chi-square distribution: few votes count little, however good they are. A worker whose votes all agree counts as having half a
    wrong vote. Labels start from majority vote, and the steps repeat until no label changes. The posterior of a label is its
    share of the weights of its task.

    Parameters
    ----------
    max_iter : int, default 100
        Maximum number of iterations.
    alpha : float, default 0.05
        One minus the level of the interval.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.CATD().fit(votes)
    >>> result.workers["weight"].round(4).to_list()  # of ann and bob, who always agree, and eve, who never does
    [0.1013, 0.1013, 0.001]

    """

    name: ClassVar[str] = "catd"
    title: ClassVar[str] = "CATD"
    scoring: ClassVar[str] = "weight"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {**COMMON, "max_iter": Number(least=1, whole=True), "alpha": Number(least=1e-6, most=1)}
    stop: ClassVar[str] = "labels"
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter
    alpha: float = 0.05

    def _fit(self, session: Session, known: Knowns) -> Fit:
        ended = em.run(session, WeightRecipe(self), replace(known.options, likelihood=False))
        return weighted_fit(self, session, ended.trace, converged=ended.converged)


@dataclass(frozen=True, kw_only=True)
class GoldMajorityVote(Model):
    """Majority vote weighted by each worker's share of right votes on gold tasks; nothing else is learned.

    A worker without votes on gold tasks (or in a history) gets the average weight: the share of right votes among all votes on
    gold. One who was never right gets a millionth, so that such votes decide only alone. The posterior of a label is its share of
    the weights of its task.

    Parameters
    ----------
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "eve", "cat"), ("t2", "new", "cat")]
    >>> result = adj.GoldMajorityVote().fit(votes, gold={"t1": "cat"})
    >>> result.workers.select("worker", "weight", "gold_votes").rows()
    [('ann', 1.0, 1.0), ('eve', 1e-06, 1.0), ('new', 0.5, 0.0)]

    """

    name: ClassVar[str] = "goldmv"
    title: ClassVar[str] = "gold majority vote"
    scoring: ClassVar[str] = "weight"
    needs_gold: ClassVar[bool] = True
    place: ClassVar[Place] = "process"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history"})
    is_likelihood: ClassVar[bool] = False

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible = known.possible(session)
        session.start(hard=True)
        right, total = session.gather(_count_agreeing) - session.gather(_count_agreeing, gold=False) + session.gather(before)
        mean = right.sum() / total.sum() if total.sum() > 0 else 1.0
        weights = np.maximum(np.where(total > 0, right / np.where(total > 0, total, 1.0), mean), MIN_GOLD_WEIGHT)
        weigh_by(session, weights, possible)
        return weighted_fit(self, session, columns={"weight": weights, "gold_votes": total})


def _count_agreeing(block: WorkerBlock, counts: Any) -> Floats:
    """Return how many votes of each worker agree with the labels, and how many there are, [2, workers]."""
    panel = block.panel
    by_row = np.stack([counts[np.arange(panel.n_rows), panel.row_label], counts.sum(axis=1)], axis=1)
    return np.asarray(panel.by_worker(by_row).T, np.float64)


@dataclass(frozen=True, kw_only=True)
class ZeroBasedSkill(Model):
    """Weighted majority vote whose weights, the skills, are learned in small steps, as in crowd-kit's method of this name.

    All skills start at 1 / K, so the first labels are those of majority vote. A round adds `rate` * (agreement - skill) to the
    skill of each worker, where agreement is the share of votes that agree with the current labels; then votes are weighted by the
    new skills. The posterior of a label is its share of the weights of its task.

    Parameters
    ----------
    rate : float, default 1.0
        Step of the skills.
    rate_steps, rate_factor : optional
        The rate is multiplied by `rate_factor` every `rate_steps` rounds.
    tol : float, default 1e-05
        Stop when no skill moves by this much.
    max_iter : int, default 100
        Maximum number of rounds.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.ZeroBasedSkill().fit(votes)
    >>> result.workers.select("worker", "weight").rows()
    [('ann', 1.0), ('bob', 1.0), ('eve', 0.0)]

    """

    name: ClassVar[str] = "zbs"
    title: ClassVar[str] = "zero-based skill"
    scoring: ClassVar[str] = "weight"
    place: ClassVar[Place] = "process"
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history", "warm_start"})
    rules: ClassVar[Rules] = {
        **COMMON,
        "max_iter": Number(least=1, whole=True),
        "rate": Number(least=0, most=1),
        "rate_steps": Number(least=1, whole=True),
        "rate_factor": Number(least=0, most=1),
        "tol": Number(least=0),
    }
    starts_hard: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = False

    max_iter: int = DEFAULTS.max_iter
    rate: float = 1.0
    rate_steps: int = 20
    rate_factor: float = 0.5
    tol: float = 1e-5

    def _fit(self, session: Session, known: Knowns) -> Fit:
        recipe = SkillRecipe(self, labels=int(known.votes.given_labels().sum()))
        options = replace(known.options, likelihood=False)
        ended = em.repeat(session, recipe, em.first_pass(session, recipe, options), options, movement=recipe.movement)
        if not ended.converged:
            em.warn_not_converged(recipe, ended.trace, "weights", "raise max_iter or tol")
        return weighted_fit(self, session, ended.trace, converged=ended.converged)


@dataclass(frozen=True, eq=False)
class SkillRecipe(EMRecipe):
    """Skills that continue from those of the previous round."""

    labels: int = 1  # that somebody gave
    steps: list[SkillStep] = field(default_factory=list)  # the M-step of this fit, once it has begun

    def on(self, block: WorkerBlock) -> SkillStep:
        """Return the M-step of these workers."""
        assert isinstance(self.model, ZeroBasedSkill)
        self.steps.append(SkillStep(block, self.model, self.labels))
        return self.steps[-1]

    def movement(self) -> float:
        """Return the largest step of a skill in the last round."""
        return self.steps[-1].movement


class SkillStep:
    """The M-step of all workers, with their skills and the number of rounds so far."""

    def __init__(self, block: WorkerBlock, settings: ZeroBasedSkill, labels: int) -> None:
        self._agreement = LabelAgreement(block)
        self._settings = settings
        self._skill = np.full(block.panel.n_workers, 1.0 / max(labels, 1))
        self._rounds, self._rate = 0, settings.rate
        self.movement = float("nan")  # the largest step of a skill in the last round

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the table of the moved skills, [rows, K]."""
        self._rounds += 1
        if self._rounds % self._settings.rate_steps == 0:
            self._rate *= self._settings.rate_factor
        step = self._rate * (self._agreement.right(counts) / self._agreement.total - self._skill)
        self._skill = self._skill + step
        self.movement = float(np.abs(step).max(initial=0.0))
        return self._agreement.lines(self._skill)


Labels = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class LightAggregation(Model):
    """Yang et al. 2022 (arXiv 2212.00007), the version with two passes over the votes.

    The first pass decides task after task, weighting votes by the accuracy of their worker so far, (right + 1) / (votes + 2), and
    counts the votes on each task as right or wrong before the next. The second pass decides all tasks with the weights K *
    accuracy - 1. Gold tasks come first, then the others by a hash of `seed` and task, so the order of rows does not matter.

    Parameters
    ----------
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> result = adj.LightAggregation().fit(votes)
    >>> result.workers["weight"].round(4).to_list()  # of ann and bob, who are right twice, and eve, who is wrong once
    [0.5, 0.5, -0.3333]

    """

    name: ClassVar[str] = "la"
    title: ClassVar[str] = "light-weight aggregation (LA)"
    scoring: ClassVar[str] = "weight"
    place: ClassVar[Place] = "memory"  # its first pass goes from task to task, in an order of its own
    room: ClassVar[memory.Room] = memory.WEIGHTED
    takes: ClassVar[frozenset[str]] = frozenset({"history"})
    is_likelihood: ClassVar[bool] = False

    def _fit(self, session: Session, known: Knowns) -> Fit:
        possible, whole = known.possible(session), cast(OffersWhole, session).whole()  # as its place says
        began = time.perf_counter()
        right, total = session.gather(before) + np.array([[INITIAL_RIGHT_VOTES], [INITIAL_VOTES]])
        labels = first_pass(whole, right, total, by_prior=self.ties == "prior")
        between = time.perf_counter()
        weights = int(possible.sum()) * right / total - 1.0
        weigh_by(session, weights, possible)
        fit = weighted_fit(self, session, columns={"weight": weights})
        changed = int((labels != fit.outcome.labels).sum())
        trace = _row(1, "first", len(labels), between - began), _row(2, "second", changed, time.perf_counter() - between)
        if known.options.progress is not None:
            for row in trace:
                known.options.progress(row)
        return replace(fit, trace=trace)


def first_pass(whole: WholeVotes, right: Floats, total: Floats, *, by_prior: bool) -> Labels:
    """Return the labels of the first pass, [tasks]; right and all votes of each worker, [workers] each, are IN/OUT."""
    votes, gold = whole.votes, whole.gold
    order = np.argsort(whole.task_key, kind="stable")
    if gold is not None:  # what is certain comes first
        order = order[np.argsort(gold[order] < 0, kind="stable")]
    weights = None
    if by_prior:
        times = votes.votes_per_row() * (1.0 if whole.row_weight is None else whole.row_weight)
        weights = np.bincount(votes.row_label, times, minlength=votes.n_labels)
    labels = np.zeros(votes.n_tasks, np.int32)
    whole.methods.light_pass(
        votes.task_ptr,
        votes.row,
        votes.row_worker(),
        votes.row_label,
        order,
        whole.task_key,
        whole.label_hash,
        right,
        total,
        labels,
        gold=gold,
        tie_weights=weights,
        row_weight=whole.row_weight,
    )
    return labels


def _row(iteration: int, phase: str, changed: int, seconds: float) -> TraceRow:
    nothing = float("nan")
    return TraceRow(iteration, phase, nothing, nothing, nothing, nothing, changed, seconds)
