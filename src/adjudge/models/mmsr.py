"""M-MSR: skills from a robust rank-one factor of how far workers agree (Ma and Olshevsky 2020)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters
from adjudge.data.exact import LOG_UNIT, whole
from adjudge.data.fit import Fit, TraceRow
from adjudge.data.options import Number, Place, Rules
from adjudge.data.votes import Votes
from adjudge.engines import memory
from adjudge.engines.base import OffersWhole, Session
from adjudge.engines.whole import WholeVotes
from adjudge.errors import NotConverged, warn
from adjudge.kernels import messages_cpu, messages_reference
from adjudge.models import rank_one
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.em import Progress
from adjudge.models.weighted import weight_table, weighted_fit
from adjudge.results.knowledge import other_labels

Floats = NDArray[np.float64]
LEFT_OUT: Final = 4  # one in so many colleagues is left out on each side
PATIENCE: Final = 100  # iterations: public sets need 13 to 61 in all
ALIKE: Final = 0.5  # the skill of all workers where nothing tells them apart
LITTLE: Final = 1e-6  # the skill of one without any: a task that nobody else voted on has one of the labels given there


@dataclass(frozen=True, kw_only=True)
class MMSR(Model):
    """Ma and Olshevsky 2020: skills that explain how often each two workers agree, whatever a quarter of them says.

    A worker's skill is the mean of what each colleague's skill and their agreement say of it, without the highest and the lowest
    quarter of colleagues; this is repeated until the skills move less than `tol`, at most `max_iter` times. Votes count
    log((K - 1) p / (1 - p)), with p the probability to be right that follows from the skill, kept from the extremes by
    1 / sqrt(votes + 1). Votes on gold tasks tell the skill directly. All skills start alike; a worker who shares no task with
    others has the mean skill. Confidence is the label's share of the positive weights. `seed` and `ties` decide between labels
    that score the same.

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
        weights = whole(rank_one.log_odds(found.skill, labels), LOG_UNIT)
        shares, totals = np.full(votes.n_labels, 1.0 / max(votes.n_labels, 1)), np.zeros((votes.n_workers, votes.n_labels))
        by_weight = Parameters(shares, weight_table(votes, weights), totals, uses_prior=False)
        session.adopt(lambda _: by_weight, shares)
        columns = {"skill": found.skill, "weight": weights}
        return weighted_fit(self, session, tuple(found.trace), converged=found.converged, columns=columns)


class _Skills:
    """Skills of all workers, [workers]; and the trace of what found them."""

    def __init__(self, model: MMSR, whole_votes: WholeVotes, labels: int, progress: Progress | None) -> None:
        votes = whole_votes.votes
        casts = rank_one.casts_of(votes)
        rank_one.require_room(casts)
        kernels = messages_cpu if whole_votes.is_compiled else messages_reference
        pairs = kernels.worker_pairs(casts, whole_votes.threads)
        degree = np.diff(pairs.ptr)
        self.trace: list[TraceRow] = []
        self._progress, self._began = progress, time.perf_counter()
        found = rank_one.factor(
            pairs,
            rank_one.beyond_chance(pairs, labels),
            trim=degree // LEFT_OUT,
            start=np.ones(votes.n_workers),
            max_iter=model.max_iter,
            tol=model.tol,
            kernels=kernels,
            patience=PATIENCE,
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
        skill = np.sqrt(found.left * found.right) * rank_one.signs(pairs, labels)
        cast_by = votes.by_worker(votes.votes_per_row()).astype(np.float64)
        on_gold, right = _gold_votes(votes, whole_votes.gold)
        self.skill = _combined(skill, degree > 0, cast_by, labels, on_gold, right)

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


def _combined(skill: Floats, shares: NDArray[np.bool_], cast_by: Floats, labels: int, on_gold: Floats, right: Floats) -> Floats:
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
