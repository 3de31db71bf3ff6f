"""M-MSR: skills from a robust rank-one factor of how far workers agree (Ma and Olshevsky 2020).

If workers are right with one probability p_i for every label, two of them agree beyond chance by

    X_ij = K / (K - 1) * (share of agreeing votes) - 1 / (K - 1),    with expectation s_i * s_j,

where s_i = (K p_i - 1) / (K - 1) is a worker's skill: 1 if always right, 0 if guessing. So |s| is the rank-one factor of |X|
over pairs of workers who share tasks, and the signs of s are those that fit the signs of X.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.fit import Fit, Parameters, TraceRow
from adjudge.data.memory import free_memory, gib
from adjudge.data.options import Number, Place, Rules
from adjudge.data.votes import Votes
from adjudge.engines import memory
from adjudge.engines.base import OffersWhole, Session, WholeVotes
from adjudge.errors import AdjudgeError, NotConverged, warn
from adjudge.kernels.methods_reference import Casts, WorkerPairs, group_sums
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.em import Progress
from adjudge.models.knowledge import other_labels
from adjudge.models.majority import weight_table, weighted_fit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BYTES_OF_PAIR: Final = 56  # other, common, agreed, agreement, and what sign rounds make of them
ROUNDS: Final = 1000  # of the search for signs, at most
SIGN_TOLERANCE: Final = 1e-9  # relative: a smaller entry of the signs' vector is none, a smaller change the end


class Factor(NamedTuple):
    """The two factors of |X| that alternate, [workers] each, and how far their product moved in each iteration."""

    left: Floats
    right: Floats
    changes: tuple[float, ...]  # Frobenius norm


def casts_of(votes: Votes) -> Casts:
    """Return distinct (task, worker, label) with how often each was voted."""
    n = len(votes)
    first = np.ones(n, np.bool_)
    first[1:] = votes.row[1:] != votes.row[:-1]
    first[votes.task_ptr[:-1]] = True
    at = np.flatnonzero(first)
    row, task = votes.row[at], np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))[at]
    worker = votes.row_worker()[row]
    order = np.argsort(worker, kind="stable").astype(np.int64)
    return Casts(
        np.searchsorted(at, votes.task_ptr).astype(np.int64),
        task.astype(np.int64),
        worker.astype(np.int32),
        np.ascontiguousarray(votes.row_label[row]),
        np.diff(np.append(at, n)),
        np.searchsorted(worker[order], np.arange(votes.n_workers + 1)).astype(np.int64),
        order,
    )


def require_room(casts: Casts) -> None:
    """Raise if the pairs of workers may not fit in memory, naming the estimate and the remedy."""
    workers = len(casts.worker_ptr) - 1
    most = min(workers * (workers - 1), int((np.diff(casts.task_ptr) ** 2).sum()))
    need, have = most * BYTES_OF_PAIR, free_memory()
    if need > have:
        raise AdjudgeError(
            f"model 'mmsr' needs about {gib(need)} for up to {most} pairs of {workers} workers who share tasks, but {gib(have)} "
            "are free: drop workers with few votes, choose another model, or use a machine with more memory"
        )


def beyond_chance(pairs: WorkerPairs, labels: int) -> Floats:
    """Return X, [pairs]: by how much two workers agree beyond chance, from -1 / (K - 1) to 1.

    >>> pairs = WorkerPairs(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([4, 4]), np.array([3, 3]))
    >>> beyond_chance(pairs, 2).tolist()
    [0.5, 0.5]
    """
    out: Floats = labels / (labels - 1) * (pairs.agreed / np.maximum(pairs.common, 1)) - 1 / (labels - 1)
    return out


def factor(
    pairs: WorkerPairs,
    agreement: Floats,  # [pairs] X
    *,
    trim: Ints,  # [workers] how many colleagues are left out at most on each side
    start: Floats,  # [workers] above 0
    max_iter: int,
    tol: float,
    kernels: ModuleType,
    threads: int = 1,
    patience: int | None = None,  # iterations in which the change must fall; None: it need not
    progress: Callable[[int, float], None] | None = None,
) -> Factor:
    """Return the factors of |X| by alternating means of ratios without the extreme ones, until their product settles.

    If no skills explain the agreement, as in crowds of a few votes, the factors may run away or come back forever; that is
    what `patience` is for.
    """
    size = np.abs(agreement)
    left, right = np.array(start, np.float64), np.array(start, np.float64)
    changes: list[float] = []
    while len(changes) < max_iter and not (changes and changes[-1] < tol) and not _stalls(changes, patience):
        next_left, next_right = np.empty_like(left), np.empty_like(right)
        kernels.trimmed_ratios(pairs, size, trim, right, left, out=next_left, threads=threads)
        kernels.trimmed_ratios(pairs, size, trim, next_left, right, out=next_right, threads=threads)
        changes.append(_measure_change(left, right, next_left, next_right))
        left, right = next_left, next_right
        if progress is not None:
            progress(len(changes), changes[-1])
    return Factor(left, right, tuple(changes))


def _stalls(changes: list[float], patience: int | None) -> bool:
    """Return whether the change has not fallen by a hundredth in the last iterations."""
    if patience is None or len(changes) % patience or len(changes) < 2 * patience:
        return False
    return min(changes[-patience:]) > 0.99 * min(changes[-2 * patience : -patience])


def _measure_change(left: Floats, right: Floats, next_left: Floats, next_right: Floats) -> float:
    """Return the Frobenius norm of the difference of two rank-one matrices, without taking one from the other."""
    by_left, by_right = next_left - left, next_right - right
    square = (by_left @ by_left) * (next_right @ next_right) + (left @ left) * (by_right @ by_right)
    return math.sqrt(max(float(square + 2.0 * (by_left @ left) * (by_right @ next_right)), 0.0))


def signs(pairs: WorkerPairs, labels: int) -> Floats:
    """Return the signs of skills, [workers]: 1, -1, or 0 if nothing tells; of the two ways, the one near all 1.

    They are those of the vector that a lazy walk along agreements beyond chance leads to. Each pair counts as many votes as it
    shares, so that two workers with one task in common say little. The walk starts with all workers alike.
    """
    evidence = (labels * pairs.agreed - pairs.common).astype(np.float64)  # (K - 1) * common * X, in whole numbers
    total = group_sums(np.abs(evidence), pairs.ptr)
    now = np.where(total > 0, 1.0, 0.0)
    total = np.where(total > 0, total, 1.0)
    for _ in range(ROUNDS):
        after = now + group_sums(evidence * now[pairs.other], pairs.ptr) / total
        largest = float(np.abs(after).max(initial=0.0))
        if largest == 0.0:
            break
        after /= largest
        moved, now = float(np.abs(after - now).max()), after
        if moved < SIGN_TOLERANCE:
            break
    out: Floats = np.sign(np.where(np.abs(now) > SIGN_TOLERANCE, now, 0.0))
    return out


def log_odds(skill: Floats, labels: int) -> Floats:
    """Return what a vote of a worker of this skill counts, [workers]: log((K - 1) p / (1 - p)), with p its probability.

    >>> log_odds(np.array([0.0, 0.6]), 2).round(3).tolist()
    [0.0, 1.386]
    """
    right = (1.0 + (labels - 1) * skill) / labels
    out: Floats = np.log((labels - 1) * right / (1.0 - right))
    return out


TRIM_DIVISOR: Final = 4  # a quarter of the colleagues is left out on each side
PATIENCE_ITERATIONS: Final = 100  # iterations: public sets need 13 to 61 in total
ALIKE: Final = 0.5  # the skill of all workers where nothing tells them apart
LITTLE: Final = 1e-6  # the skill of one without any: a task that nobody else voted on has one of the labels given there


@dataclass(frozen=True, kw_only=True)
class MMSR(Model):
    """Ma and Olshevsky 2020: skills that explain how often each pair of workers agrees, robust to a quarter of them.

    A worker's skill is the mean of its colleagues' estimates, from their skills and their agreement with it, without the highest
    and the lowest quarter. Votes count log((K - 1) p / (1 - p)), where p is the probability to be right that follows from the
    skill, kept from the extremes by 1 / sqrt(votes + 1). Votes on gold tasks measure the skill directly. A worker who shares no
    task with others has the mean skill. Confidence is the label's share of the positive weights.

    Parameters
    ----------
    tol : float, default 1e-10
        Stop when the skills move less than this.
    max_iter : int, default 10000
        Maximum number of iterations.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=200, workers=12, labels=3, votes_per_task=6, adversaries=0.25, seed=1)
    >>> result = adj.MMSR().fit(crowd.votes)
    >>> adj.evaluate(result, crowd.truth).accuracy > adj.evaluate(adj.aggregate(crowd.votes, "mv"), crowd.truth).accuracy
    True

    """

    name: ClassVar[str] = "mmsr"
    title: ClassVar[str] = "rank-one agreement (M-MSR)"
    scoring: ClassVar[str] = "weight"
    place: ClassVar[Place] = "memory"
    takes: ClassVar[frozenset[str]] = frozenset()
    takes_weights: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    room: ClassVar[memory.Room] = memory.WEIGHTED
    rules: ClassVar[Rules] = {**COMMON, "tol": Number(least=0), "max_iter": Number(least=1, whole=True)}

    tol: float = 1e-10
    max_iter: int = 10_000

    def _fit(self, session: Session, known: Knowns) -> Fit:
        here, votes = cast(OffersWhole, session), known.votes  # as its place says
        labels = other_labels(known.possible(session)) + 1
        found = _Skills(self, here.whole(), labels, known.options.progress)
        weights = round_to_unit(log_odds(found.skill, labels), LOG_UNIT)
        shares, totals = np.full(votes.n_labels, 1.0 / max(votes.n_labels, 1)), np.zeros((votes.n_workers, votes.n_labels))
        by_weight = Parameters(shares, weight_table(votes, weights), totals, uses_prior=False)
        session.adopt(lambda _: by_weight, shares)
        columns = {"skill": found.skill, "weight": weights}
        return weighted_fit(self, session, tuple(found.trace), converged=found.converged, columns=columns)


class _Skills:
    """Skills of all workers, [workers]; and the trace of what found them."""

    def __init__(self, model: MMSR, whole_votes: WholeVotes, labels: int, progress: Progress | None) -> None:
        votes = whole_votes.votes
        casts = casts_of(votes)
        require_room(casts)
        kernels = whole_votes.methods
        pairs = kernels.worker_pairs(casts, whole_votes.threads)
        degree = np.diff(pairs.ptr)
        self.trace: list[TraceRow] = []
        self._progress, self._began = progress, time.perf_counter()
        found = factor(
            pairs,
            beyond_chance(pairs, labels),
            trim=degree // TRIM_DIVISOR,
            start=np.ones(votes.n_workers),
            max_iter=model.max_iter,
            tol=model.tol,
            kernels=kernels,
            patience=PATIENCE_ITERATIONS,
            threads=whole_votes.threads,
            progress=self._note,
        )
        self.converged = found.changes[-1] < model.tol
        if not self.converged:
            why = "raise max_iter or tol" if len(self.trace) == model.max_iter else "they do not settle"
            warn(
                f"{model.name} did not converge in {len(self.trace)} iterations (last change of the skills "
                f"{found.changes[-1]:.2g}); {why}",
                NotConverged,
            )
        # Both factors are the skills up to a scale of each connected crowd, which their product does not have.
        skill = np.sqrt(found.left * found.right) * signs(pairs, labels)
        cast_by = votes.by_worker(votes.votes_per_row()).astype(np.float64)
        on_gold, right = _gold_votes(votes, whole_votes.gold)
        self.skill = _combine(skill, degree > 0, cast_by, labels, on_gold, right)

    def _note(self, iteration: int, change: float) -> None:
        nothing, now = float("nan"), time.perf_counter()
        row = TraceRow(iteration, "factor", change, nothing, nothing, nothing, 0, now - self._began)
        self._began = now
        self.trace.append(row)
        if self._progress is not None:
            self._progress(row)


def _gold_votes(votes: Votes, gold: NDArray[np.int32] | None) -> tuple[Floats, Floats]:
    """Return how many votes of each worker are on gold tasks, and how many of those are right, [workers] each."""
    if gold is None:
        return np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    true = np.repeat(gold, np.diff(votes.task_ptr))
    worker, given = votes.row_worker()[votes.row], votes.row_label[votes.row]
    on = np.bincount(worker[true >= 0], minlength=votes.n_workers)
    right = np.bincount(worker[(true >= 0) & (true == given)], minlength=votes.n_workers)
    return on.astype(np.float64), right.astype(np.float64)


def _combine(skill: Floats, shares: NDArray[np.bool_], cast_by: Floats, labels: int, on_gold: Floats, right: Floats) -> Floats:
    """Return skills, [workers], of what colleagues and gold say, by numbers of votes, and within what votes can show."""
    seen = (labels * right - on_gold) / (labels - 1)  # votes on gold times the skill that they show
    agrees = float((skill * seen).sum()) if on_gold.any() else 0.0
    if (agrees or float((skill * cast_by).sum())) < 0:
        skill = -skill
    skill = np.where(on_gold > 0, (seen + (cast_by - on_gold) * np.where(shares, skill, 0.0)) / np.maximum(cast_by, 1.0), skill)
    bound = 1.0 - 1.0 / np.sqrt(cast_by + 1.0)
    skill = np.clip(skill, -bound / (labels - 1), bound)
    known = shares | (on_gold > 0)
    if not skill[known].any():  # nothing is known of anybody: majority vote
        return np.full(len(skill), ALIKE)
    mean = float((skill * cast_by)[known].sum()) / float(cast_by[known].sum())
    skill = np.where(known, skill, max(mean, 0.0))
    return np.where(skill == 0, LITTLE, skill)
