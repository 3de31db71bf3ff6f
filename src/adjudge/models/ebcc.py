"""Enhanced Bayesian classifier combination: classes have subtypes, under which workers err alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sums_of
from adjudge.data.fit import Fit, TraceRow
from adjudge.data.memory import available, gib
from adjudge.data.options import MOST_VOTES, Number, Place, Rules
from adjudge.data.votes import Votes
from adjudge.data.weights import RowWeights
from adjudge.engines import memory
from adjudge.engines.base import OffersWhole, Session
from adjudge.engines.whole import WholeVotes
from adjudge.errors import NotConverged, AdjudgeError, warn
from adjudge.kernels.ebcc_reference import Priors
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.confusion import Beliefs, ConfusionRecipe
from adjudge.models.ibcc import pseudo_tasks
from adjudge.models.lfc import diagonal_votes

Floats = NDArray[np.float64]
ClassWeight = float | Literal["votes"]
VOTES: Final = "votes"
LEAST = 1e-6  # pseudo-votes: without any, a distribution is none
PAIRS: Final = 4  # where the labels of pairs stand among the arguments of the kernels
SHARES: Final = 6  # and the shares
BETTER = 1e-9  # by which part of itself a bound must be higher to be another one than rounding's


@dataclass(frozen=True, kw_only=True)
class EBCC(Model):
    """Li, Rubinstein and Cohn 2019: every label has hidden subtypes of tasks, and workers who err alike err on the same ones.

    Given the label and the subtype of a task, one of `subtypes`, workers answer independently. A worker's answers have a
    Dirichlet distribution for each: beforehand with `diagonal` pseudo-votes for the label and `other` for every other one.
    Subtypes share `subtype_weight` pseudo-tasks, so that few of them are used. Labels have `class_weight` pseudo-tasks each;
    "votes" gives them as many as there are tasks, divided by their shares of the votes.

    The fit is mean-field variational Bayes from `restarts` random divisions of the vote shares among subtypes, drawn by
    `seed`; the one with the highest bound of the log-evidence is the answer. Each stops when its bound gains less than `tol`,
    after `max_iter` iterations at the latest. `result.log_likelihood` is the bound. `ties` and `seed` decide between labels
    that score the same.

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
        "diagonal": Number(least=LEAST, most=MOST_VOTES),
        "other": Number(least=LEAST, most=MOST_VOTES),
        "subtype_weight": Number(least=LEAST, most=MOST_VOTES),
        "class_weight": Number(least=LEAST, most=MOST_VOTES, words=(VOTES,)),
        "tol": Number(least=0),
        "max_iter": Number(least=1, most=1e6, whole=True),  # the bound of every one of them is kept
    }
    lacks: ClassVar[dict[str, str]] = {"smoothing": "its pseudo-votes are called diagonal and other"}

    subtypes: int = 10
    restarts: int = 5
    diagonal: float = 4.0
    other: float = 1.0
    subtype_weight: float = 0.1
    class_weight: ClassWeight = VOTES
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
        beliefs = Beliefs(0.0, diagonal_votes(self.diagonal, self.other, possible), known.classes)
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
        priors = self._priors(known, possible, problem[SHARES])
        kernel = _kernel(whole)
        at_once = self._at_once(whole, len(problem[PAIRS]), labels)
        for first in range(0, self.restarts, at_once):
            n = min(at_once, self.restarts - first)
            posterior, bound = np.empty((n, n_tasks, labels)), np.empty((n, self.max_iter))
            changed, iterations = np.zeros((n, self.max_iter), np.int64), np.zeros(n, np.int64)
            kernel(
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
        """Return how many restarts run at once: as many as threads and memory allow; raise if there is no room for one."""
        cells, tasks = labels * self.subtypes, whole.votes.n_tasks
        if whole.is_compiled:
            threads, beside, each = max(whole.threads, 1), 16 * pairs * cells, 16 * pairs * cells + 8 * tasks * labels
        else:
            threads, beside, each = 1, 0, 32 * (pairs + tasks) * cells
        have = available()
        if beside + each > have:
            raise AdjudgeError(
                f"model 'ebcc' needs about {gib(beside + each)} for {self.subtypes} subtypes of {labels} labels, but {gib(have)} "
                "are free: give fewer subtypes, choose another model, or use a machine with more memory"
            )
        return min(threads, (have - beside) // max(each, 1))

    def _priors(self, known: Knowns, possible: NDArray[np.bool_], shares: Floats) -> Priors:
        weight: float | Floats
        if isinstance(self.class_weight, str):
            weight = np.zeros(len(possible))
            weight[possible] = np.maximum(sums_of(shares, np.zeros(1, np.int64))[0], LEAST)  # labels that nobody gave, too
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


def _kernel(whole: WholeVotes) -> Any:
    from adjudge.kernels import ebcc_cpu, ebcc_reference

    return ebcc_cpu.ebcc if whole.is_compiled else ebcc_reference.ebcc


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
