"""LA: task after task, workers are known better; a second pass decides with all that was learned (Yang et al. 2022)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Fit, TraceRow
from adjudge.data.options import Place
from adjudge.engines import memory
from adjudge.engines.base import OffersWhole, Session
from adjudge.engines.whole import WholeVotes
from adjudge.models.base import Knowns, Model
from adjudge.models.weighted import before, weigh_by, weighted_fit
from adjudge.results.worker_weights import LENT, LENT_RIGHT

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class LightAggregation(Model):
    """Yang et al. 2022 (arXiv 2212.00007), the version of two passes over the votes.

    The first pass decides task after task, by votes weighted with the accuracy of their worker so far, (right + 1) / (votes + 2),
    and counts the votes on each as right or wrong before the next. The second decides all tasks by the weights
    K * accuracy - 1. Gold tasks come first, then the others by a hash of `seed` and task, so that the order of rows does not
    matter. `seed` and `ties` also decide between labels that score the same.

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
        right, total = session.gather(before) + np.array([[LENT_RIGHT], [LENT]])
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
    from adjudge.kernels import light_cpu, light_reference

    votes, gold = whole.votes, whole.gold
    order = np.argsort(whole.task_key, kind="stable")
    if gold is not None:  # what is certain comes first
        order = order[np.argsort(gold[order] < 0, kind="stable")]
    weights = None
    if by_prior:
        times = votes.votes_per_row() * (1.0 if whole.row_weight is None else whole.row_weight)
        weights = np.bincount(votes.row_label, times, minlength=votes.n_labels)
    labels = np.zeros(votes.n_tasks, np.int32)
    (light_cpu if whole.is_compiled else light_reference).light_pass(
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
