"""Workers with prior distributions: learning from crowds (LFC), and Bayesian classifier combination (IBCC, EBCC)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit, sum_of, sums_of
from adjudge.data.fit import Fit, TableLines, TraceRow
from adjudge.data.memory import free_memory, gib
from adjudge.data.options import DEFAULTS, MOST_VOTES, Number, Place, Rules
from adjudge.data.votes import RowWeights, Votes
from adjudge.engines import memory
from adjudge.engines.base import ClassEstimate, OffersWhole, Session, WholeVotes, WorkerBlock
from adjudge.errors import AdjudgeError, NotConverged, warn
from adjudge.kernels import reference
from adjudge.kernels.methods_reference import Priors
from adjudge.kernels.special import digamma, dirichlet_log_norm, log_gamma
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionPrior, ConfusionRecipe, EMRecipe

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LFC(Model):
    """Raykar et al. 2010: soft EM of Dawid-Skene in which every worker starts with pseudo-votes that are mostly right.

    A worker with few votes counts as fairly good, and no answer is impossible. A cell of a confusion is (votes + pseudo-votes) /
    (all votes + all pseudo-votes), the mean of a Dirichlet posterior. The objective that never falls is the likelihood plus
    pseudo-votes x log pi of every cell. Class priors are estimated, without pseudo-tasks. A label that nobody gave, and that
    neither gold nor priors nor a history name, gets no pseudo-votes.

    Parameters
    ----------
    diagonal, other : optional
        Pseudo-votes of every worker for the true label, and for each other label.
    tol, max_iter : optional
        Stop when the class priors change by less than `tol` in total; at most `max_iter` iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
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
        ended = em.run(session, ConfusionRecipe(self, ConfusionPrior(0.0, believed, known.classes)), known.options)
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


MIN_PSEUDO_VOTES = 1e-6  # pseudo-votes: without any, a distribution is none


@dataclass(frozen=True, kw_only=True)
class IBCC(Model):
    """Kim and Ghahramani 2012, by the variational Bayes of Simpson et al. 2013: allows for uncertainty about workers.

    A worker's answers under each true label have a Dirichlet distribution, and so have the shares of the labels. Votes are scored
    by the expected logarithms, so a worker with few votes counts less than one with the same record and many. The lower bound of
    the log-evidence never falls; it is `objective` in the trace, and `result.log_likelihood`. It starts from vote shares. A label
    that nobody gave, and that neither gold nor priors nor a history name, does not exist. `result.confusion` and `result.predict`
    use the means of the distributions.

    Parameters
    ----------
    diagonal, other : optional
        Pseudo-votes of every worker for the true label, and for each other label.
    class_weight : float, default 1.0
        Pseudo-tasks of each label.
    tol, max_iter : optional
        Stop when the bound gains less than `tol`; at most `max_iter` iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
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
        "diagonal": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "other": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "class_weight": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
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
        beliefs = ConfusionPrior(0.0, diagonal_votes(self.diagonal, self.other, possible), known.classes)
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
        if not np.isfinite(best):  # without labels
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

    def __init__(self, block: WorkerBlock, beliefs: ConfusionPrior, possible: NDArray[np.bool_]) -> None:
        self._panel = block.panel
        self._prior = beliefs.of(block)
        self._possible = possible
        assert self._prior.workers is not None  # every worker has pseudo-votes
        self._cells, self._totals = self._prior.workers.cells[:, possible], self._prior.workers.totals[:, possible]
        # Cells of labels that a worker never gave keep their pseudo-votes: they count in totals, and cancel in the divergence.
        self._log_norm = float(log_gamma(self._totals).sum() - log_gamma(self._cells).sum())

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the expected log pi, [rows, K], with the divergence of all posteriors from their priors as penalty."""
        panel, here = self._panel, self._possible
        met = sums_of(np.asarray(counts, np.float64), panel.worker_ptr[:-1])
        votes = np.asarray(counts, np.float64)[:, here]
        cells, totals = self._cells + votes, self._totals + met[:, here]
        lines = digamma(cells) - np.repeat(digamma(totals), np.diff(panel.worker_ptr), axis=0)
        table = np.zeros((panel.n_rows, panel.n_labels))  # of a label that does not exist, the prior decides
        table[:, here] = round_to_unit(lines, LOG_UNIT)
        log_norm = float(log_gamma(totals).sum() - log_gamma(cells).sum())
        penalty = self._log_norm - log_norm - float(np.vdot(votes, lines))
        return TableLines(table, met, self._prior, penalty)


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


ClassWeight = float | Literal["votes"]
WEIGHT_BY_VOTES: Final = "votes"
PAIRS_ARGUMENT: Final = 4  # where the labels of pairs stand among the arguments of the kernels
SHARES_ARGUMENT: Final = 6  # and the shares
BETTER = 1e-9  # relative gain from which a bound counts as higher, beyond rounding


@dataclass(frozen=True, kw_only=True)
class EBCC(Model):
    """Li, Rubinstein and Cohn 2019: every label has hidden subtypes of tasks, on which workers make the same errors.

    Given the label and the subtype of a task, workers answer independently, with a Dirichlet distribution for each. The fit is
    mean-field variational Bayes from several random divisions of the vote shares among subtypes, drawn by `seed`; the one with
    the highest bound of the log-evidence, which is `result.log_likelihood`, is the answer.

    Parameters
    ----------
    subtypes : int, default 10
        Number of subtypes per label.
    restarts : int, default 5
        Number of random starts.
    diagonal, other : optional
        Pseudo-votes of every worker for the true label, and for each other label.
    subtype_weight : float, default 0.1
        Pseudo-tasks that the subtypes of a label share; a small number leaves most of them empty.
    class_weight : str, default "votes"
        Pseudo-tasks of each label; "votes" uses the number of tasks, divided by the shares of the votes.
    tol, max_iter : optional
        A start stops when its bound gains less than `tol`; at most `max_iter` iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=200, workers=15, votes_per_task=5, seed=2)
    >>> result = adj.EBCC(restarts=2).fit(crowd.votes)
    >>> adj.evaluate(result, crowd.truth).accuracy > 0.9
    True

    """

    name: ClassVar[str] = "ebcc"
    title: ClassVar[str] = "Bayesian combination with subtypes (EBCC)"
    place: ClassVar[Place] = "memory"
    takes: ClassVar[frozenset[str]] = frozenset({"priors"})
    room: ClassVar[memory.Room] = memory.BELIEVED
    rules: ClassVar[Rules] = {
        **COMMON,
        "subtypes": Number(least=1, most=1e4, whole=True),
        "restarts": Number(least=1, whole=True),
        "diagonal": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "other": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "subtype_weight": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES),
        "class_weight": Number(least=MIN_PSEUDO_VOTES, most=MOST_VOTES, words=(WEIGHT_BY_VOTES,)),
        "tol": Number(least=0),
        "max_iter": Number(least=1, most=1e6, whole=True),  # the bound of every one of them is kept
    }
    lacks: ClassVar[dict[str, str]] = {"smoothing": "its pseudo-votes are called diagonal and other"}

    subtypes: int = 10
    restarts: int = 5
    diagonal: float = 4.0
    other: float = 1.0
    subtype_weight: float = 0.1
    class_weight: ClassWeight = WEIGHT_BY_VOTES
    tol: float = 1e-3
    max_iter: int = 500

    def _fit(self, session: Session, known: Knowns) -> Fit:
        here = cast(OffersWhole, session)  # as its place says
        possible = known.possible(session)
        best, began = None, time.perf_counter()
        for found in self._restarts(here.whole(), known, possible):
            if best is None or found.bound > best.bound + BETTER * abs(best.bound):
                best = found
        assert best is not None  # there is at least one restart
        if not best.converged:
            warn(
                f"ebcc did not converge in {self.max_iter} iterations (last gain of the bound {best.gain:.2g}); "
                "raise max_iter or tol",
                NotConverged,
            )
        trace = best.trace((time.perf_counter() - began) / max(self.restarts * len(best.bounds), 1))
        if known.options.progress is not None:
            for row in trace:
                known.options.progress(row)
        posterior = np.zeros((known.votes.n_tasks, known.votes.n_labels))
        posterior[:, possible] = best.posterior
        with np.errstate(divide="ignore"):
            outcome = here.decided(np.log(posterior), posterior)
        beliefs = ConfusionPrior(0.0, diagonal_votes(self.diagonal, self.other, possible), known.classes)
        params, statistics, _ = session.estimate(ConfusionRecipe(self, beliefs))  # labels come from the cells
        return Fit(
            replace(outcome, log_likelihood=best.bound if known.votes.n_tasks else float("nan")),
            params,
            statistics,
            trace,
            best.converged,
            posterior=partial(np.asarray, posterior),  # a lambda would not be pickled
        )

    def _restarts(self, whole: WholeVotes, known: Knowns, possible: NDArray[np.bool_]) -> Iterator[Mean]:
        """Yield the fit of every restart: as many at once as there are threads."""
        n_tasks, labels = whole.votes.n_tasks, int(possible.sum())
        if not n_tasks:
            yield Mean(np.zeros((0, labels)), np.zeros(1), np.zeros(1, np.int64), True)
            return
        problem = _problem(whole, possible)
        priors = self._priors(known, possible, problem[SHARES_ARGUMENT])
        at_once = self._at_once(whole, len(problem[PAIRS_ARGUMENT]), labels)
        for first in range(0, self.restarts, at_once):
            n = min(at_once, self.restarts - first)
            posterior, bound = np.empty((n, n_tasks, labels)), np.empty((n, self.max_iter))
            changed, iterations = np.zeros((n, self.max_iter), np.int64), np.zeros(n, np.int64)
            whole.methods.ebcc(
                *problem,
                subtypes=self.subtypes,
                first=first,
                priors=priors,
                tol=self.tol,
                posterior=posterior,
                bound=bound,
                changed=changed,
                iterations=iterations,
                threads=at_once,
            )
            for i, ran in enumerate(iterations):
                done = bool(ran > 1 and bound[i, ran - 1] - bound[i, ran - 2] < self.tol)
                yield Mean(posterior[i], bound[i, :ran], changed[i, :ran], done)

    def _at_once(self, whole: WholeVotes, pairs: int, labels: int) -> int:
        """Return how many restarts run at once: as many as threads and memory allow; raise if memory is too small for one."""
        cells, tasks = labels * self.subtypes, whole.votes.n_tasks
        if whole.kernels is not reference:
            threads, beside, each = max(whole.threads, 1), 16 * pairs * cells, 16 * pairs * cells + 8 * tasks * labels
        else:
            threads, beside, each = 1, 0, 32 * (pairs + tasks) * cells
        have = free_memory()
        need = beside + each
        if need > have:
            raise AdjudgeError(
                f"model 'ebcc' needs about {gib(need)} for {self.subtypes} subtypes of {labels} labels, but {gib(have)} "
                "are free: give fewer subtypes, choose another model, or use a machine with more memory"
            )
        return min(threads, (have - beside) // max(each, 1))

    def _priors(self, known: Knowns, possible: NDArray[np.bool_], shares: Floats) -> Priors:
        weight: float | Floats
        if isinstance(self.class_weight, str):
            weight = np.zeros(len(possible))
            weight[possible] = np.maximum(
                sums_of(shares, np.zeros(1, np.int64))[0], MIN_PSEUDO_VOTES
            )  # labels that nobody gave, too
        else:
            weight = self.class_weight
        tasks = pseudo_tasks(weight, known, possible)
        fixed = None
        if tasks is None and known.classes is not None:
            fixed = np.log(known.classes.priors[possible])  # above 0, each
        return Priors(self.diagonal, self.other, self.subtype_weight, None if tasks is None else tasks[possible], fixed)


class Mean(NamedTuple):
    """The mean-field fit of one restart."""

    posterior: Floats  # [tasks, labels that exist]
    bounds: Floats  # [iterations]
    changed: NDArray[np.int64]  # [iterations]
    converged: bool

    @property
    def bound(self) -> float:
        """The bound that it reached."""
        return float(self.bounds[-1])

    @property
    def gain(self) -> float:
        """What its last iteration gained."""
        return float(self.bounds[-1] - self.bounds[-2]) if len(self.bounds) > 1 else float("nan")

    def trace(self, seconds: float) -> tuple[TraceRow, ...]:
        """Return its iterations; each took about so many seconds."""
        nothing = float("nan")
        gains = np.diff(self.bounds, prepend=nothing)
        return tuple(
            TraceRow(n + 1, "vb", float(gain), nothing, nothing, float(bound), int(changed), seconds)
            for n, (bound, gain, changed) in enumerate(zip(self.bounds, gains, self.changed, strict=True))
        )


def _problem(whole: WholeVotes, possible: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return votes, start and keys over the labels that exist, as the kernels take them."""
    votes = whole.votes
    weights = RowWeights.of(votes)
    panel = votes if weights is None else weights.panel
    code = (np.cumsum(possible) - 1).astype(np.int32)  # of a label among those that exist
    pair = np.arange(votes.n_rows) if weights is None else weights.pair
    weight = np.ones(votes.n_rows) if weights is None else weights.weight
    gold = np.full(votes.n_tasks, -1, np.int32)
    if whole.gold is not None:
        given = whole.gold >= 0
        gold[given] = code[whole.gold[given]]
    shares = _shares(votes, weight, possible)
    shares[gold >= 0] = np.eye(shares.shape[1])[gold[gold >= 0]]
    ptr, label = votes.task_ptr, code[panel.row_label]
    keys = whole.task_key, whole.label_hash[possible]
    return ptr, votes.row, pair.astype(np.int64), weight.astype(np.float64), label, panel.worker_ptr, shares, gold, *keys


def _shares(votes: Votes, weight: Floats, possible: NDArray[np.bool_]) -> Floats:
    """Return the share of each label that exists in the votes of each task, [tasks, labels]."""
    k, task = votes.n_labels, np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    cell = task * k + votes.row_label[votes.row]
    shares = np.bincount(cell, weight[votes.row], minlength=votes.n_tasks * k).reshape(-1, k)[:, possible]
    total = shares.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(shares / np.where(total > 0, total, 1.0))
