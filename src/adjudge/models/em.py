"""THE loop: expectation-maximisation on any engine, for every model of the family.

An iteration is an M-step, then an E-step. The priors (or the shares of the labels, if priors are fixed; or the objective) are
compared with the previous iteration's. Labels, probabilities and likelihood come from the last E-step, and no M-step follows
it. Priors are known before the E-step: where they decide, the session is told which one is the last, and decides in it.

The state of the fit (labels, counts, table) is the session's; the loop sees things of the size of K.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters
from adjudge.data.exact import sum_of
from adjudge.data.fit import TraceRow
from adjudge.data.votes import Panel
from adjudge.engines.base import Checkpoint, ClassEstimate, PassSums, Recipe, Session, Steps
from adjudge.errors import NotConverged, AdjudgeError, warn

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Progress = Callable[[TraceRow], None]
CHANGED: Final = {"objective": "objective", "moved": "weights"}  # by stopping rule; the priors of others


class WarmStart(NamedTuple):
    """Parameters of an earlier fit, carried over to the workers of any panel."""

    parameters: Callable[[Panel], Parameters]
    priors: Floats  # [K]
    shares: Floats  # [K] what the stopping rule follows
    iterations: int  # that led there


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit: its start, its observer, and whether every pass computes its likelihood."""

    progress: Progress | None = None
    likelihood: bool = True  # without it hard passes may leave it out of the trace, where that is faster
    start: NDArray[np.int32] | None = None  # labels to begin with, [tasks], instead of majority vote
    warm: WarmStart | None = None  # parameters to begin with, instead of both


class Run(NamedTuple):
    """Record of a finished loop; the parameters are in the session's state."""

    trace: tuple[TraceRow, ...]
    converged: bool
    classes: ClassEstimate  # of the last M-step


def run(session: Session, recipe: Recipe, options: FitOptions) -> Run:
    """Fit a recipe to the votes of a session from the given start; warn `NotConverged` if iterations run out."""
    return iterate(session, recipe, lambda: started(session, recipe, options), options)


def started(session: Session, recipe: Recipe, options: FitOptions) -> PassSums:
    """Make the state that feeds the first M-step, and return its sums."""
    warm = options.warm
    if warm is not None:  # votes that are impossible under old parameters may be among these
        session.adopt(warm.parameters, warm.priors)
        return session.e_step(hard=recipe.next_is_hard(recipe.starts_hard, 0.0))
    return session.start(hard=recipe.starts_hard) if options.start is None else session.recount(options.start)


def iterate(steps: Steps, recipe: Recipe, first: Callable[[], PassSums], options: FitOptions) -> Run:
    """Run expectation-maximisation to its end; warn `NotConverged` when iterations ran out.

    `first` makes the state that feeds the first M-step. A fit that continues another continues its iteration count. If the
    session stores checkpoints, it stores one per iteration, and an interrupted fit continues after the last of them.
    """
    resumes = not (recipe.is_bounded or recipe.remembers)
    point, warm = steps.restore() if resumes else None, options.warm
    if point is None:
        sums = first()
        # A fit that continues one that ended continues one that has settled.
        hard = recipe.starts_hard if warm is None else recipe.next_is_hard(recipe.starts_hard, 0.0)
        previous = None if warm is None else warm.shares
        trace, cycle = list[TraceRow](), Cycle()
    else:
        sums, hard, previous = PassSums(point.class_counts), point.hard, point.shares
        trace, cycle = list(point.trace), Cycle(point.seen)
    already = 0 if warm is None else warm.iterations
    classes: ClassEstimate | None = None
    converged = False
    while not converged and not cycle.closed and len(trace) < recipe.max_iter:
        began = time.perf_counter()
        classes = recipe.class_priors(sums.class_counts)
        steps.m_step(recipe, classes.priors)
        change = float("nan") if previous is None else sum_of(np.abs(classes.shares - previous))
        settles = len(trace) > 0 or not recipe.is_bounded  # a bounded fit starts from shares: one pass settles nothing
        last = len(trace) + 1 == recipe.max_iter or (recipe.stop == "priors" and change < recipe.tol and settles)
        sums = steps.e_step(hard=hard, likelihood=options.likelihood, last=last and _finishes(recipe))
        if sums.impossible:  # a task's own label is in the counts, so some label has a positive probability
            raise AdjudgeError(f"{recipe.name}: {sums.impossible} tasks became impossible in a fit; please report this")
        objective = (sums.classification if hard else sums.log_likelihood) + sums.penalty + classes.penalty
        if previous is not None or recipe.stop == "moved":
            change = _followed(recipe, sums, change, objective - trace[-1].objective if trace else float("nan"))
        previous = previous if sums.step == "rejected" and previous is not None else classes.shares
        phase = sums.step or recipe.phase or ("hard" if hard else "soft")
        if hard and not options.likelihood:  # known of some passes on some engines; the trace is the same on all
            sums = replace(sums, log_likelihood=float("nan"))
        row = _trace_row(already + len(trace) + 1, hard, phase, change, objective, sums, time.perf_counter() - began)
        trace.append(row if recipe.is_likelihood else _without_likelihood(row))
        log.debug("%s", trace[-1])
        if options.progress is not None:
            options.progress(trace[-1])
        converged = settles and (sums.changed == 0 and sums.step is None if recipe.stop == "labels" else change < recipe.tol)
        hard = recipe.next_is_hard(hard, change)
        if recipe.is_bounded:
            continue
        if not (recipe.is_likelihood or recipe.remembers):  # nothing rises from pass to pass, so labels may come back
            cycle.see(steps.fingerprint())
        if resumes and not converged and not cycle.closed and len(trace) < recipe.max_iter:
            steps.checkpoint(Checkpoint(sums.class_counts, previous, tuple(trace), hard, cycle.seen))
    assert classes is not None  # max_iter is at least 1
    if not converged and not recipe.is_bounded:
        why = "its labels repeat in a cycle" if cycle.closed else "raise max_iter or tol"
        warn(
            f"{recipe.name} did not converge in {len(trace)} iterations "
            f"(last change of the {CHANGED.get(recipe.stop, 'priors')} {trace[-1].change:.2g}); {why}",
            NotConverged,
        )
    return Run(tuple(trace), converged, classes)


class Cycle:
    """Detects a cycle of hard labels: counts decide the next table, so equal counts mean equal later iterations."""

    def __init__(self, seen: tuple[bytes, ...] = ()) -> None:
        self.closed = False
        self.seen = seen  # digests of the counts after each pass

    def see(self, digest: bytes) -> None:
        """Take the digest of the counts after a pass."""
        self.closed = digest in self.seen
        self.seen += (digest,)


def _followed(recipe: Recipe, sums: PassSums, of_priors: float, of_objective: float) -> float:
    """Return the change that the stopping rule of a recipe follows; NaN where it says nothing of how far EM would go."""
    if recipe.stop == "moved":
        return sums.moved
    if sums.step is not None:  # an extrapolated change
        return float("nan")
    return of_objective if recipe.stop == "objective" else of_priors


def _finishes(recipe: Recipe) -> bool:
    """Return whether the last E-step of a recipe decides: others are decided in another way, or by the best of several fits."""
    return recipe.is_likelihood and not recipe.remembers


def _without_likelihood(row: TraceRow) -> TraceRow:
    nothing = float("nan")
    return replace(row, log_likelihood=nothing, classification=nothing, objective=nothing)


def _trace_row(
    iteration: int, hard: bool, phase: str, change: float, objective: float, sums: PassSums, seconds: float
) -> TraceRow:
    return TraceRow(
        iteration=iteration,
        phase=phase,
        change=change,
        log_likelihood=sums.log_likelihood,
        classification=sums.classification if hard else float("nan"),
        objective=objective,
        labels_changed=sums.changed,
        seconds=seconds,
    )
