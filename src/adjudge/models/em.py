"""THE loop: expectation-maximisation on any engine, for every model of the family.

An iteration is an M-step, then an E-step. The priors (or the shares of the labels, if priors are fixed; or the objective) are
compared with the previous iteration's. Labels, probabilities and likelihood come from the last E-step, and no M-step follows
it. Priors are known before the E-step: if they decide, the session learns which pass is the last, and decides in it.

The state of the fit (labels, counts, table) is the session's; the loop sees things of the size of K. Methods that are not EM
have a loop of their own, `repeat`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sum_of
from adjudge.data.fit import Parameters, TraceRow
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import AlternatingSteps, Checkpoint, ClassEstimate, PassSums, Recipe, Session, Steps
from adjudge.errors import AdjudgeError, NotConverged, warn

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Progress = Callable[[TraceRow], None]


class WarmStart(NamedTuple):
    """Parameters of an earlier fit, carried over to the workers of any panel."""

    parameters: Callable[[WorkerRows], Parameters]
    priors: Floats  # [K]
    shares: Floats  # [K] what the stopping rule follows
    iterations: int  # that led there


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit: its start, its observer, and whether every pass computes its likelihood."""

    progress: Progress | None = None
    likelihood: bool = True  # without it hard passes may omit it from the trace if that is faster
    start: NDArray[np.int32] | None = None  # labels to begin with, [tasks], instead of majority vote
    warm: WarmStart | None = None  # parameters to begin with, instead of both


class Run(NamedTuple):
    """Record of a finished loop; the parameters are in the session's state."""

    trace: tuple[TraceRow, ...]
    converged: bool
    classes: ClassEstimate  # of the last M-step


def run(session: Session, recipe: Recipe, options: FitOptions) -> Run:
    """Fit a recipe to the votes of a session from the given start; warn `NotConverged` if iterations run out."""
    return iterate(session, recipe, first_pass(session, recipe, options), options)


def first_pass(session: Session, recipe: Recipe, options: FitOptions) -> Callable[[], PassSums]:
    """Return the function that makes the state that feeds the first M-step, and returns its sums."""
    if options.warm is not None:
        return partial(_resume, session, options.warm, hard=recipe.starts_hard or recipe.switch >= 0.0)
    return partial(session.start, hard=recipe.starts_hard) if options.start is None else partial(session.recount, options.start)


def _resume(session: Session, warm: WarmStart, *, hard: bool) -> PassSums:
    """Return the sums of an E-step under earlier parameters; votes that are impossible under these may be there."""
    session.adopt(warm.parameters, warm.priors)
    return session.e_step(hard=hard)


def iterate(steps: Steps, recipe: Recipe, first: Callable[[], PassSums], options: FitOptions) -> Run:
    """Run expectation-maximisation to its end; warn `NotConverged` when iterations ran out.

    `first` makes the state that feeds the first M-step. A fit that continues another continues its iteration count. If the
    session stores checkpoints, it stores one per iteration, and an interrupted fit continues after the last of them.
    """
    point, warm = steps.restore(), options.warm
    previous, already = (None, 0) if warm is None else (warm.shares, warm.iterations)
    if point is None:
        sums, trace, seen = first(), list[TraceRow](), tuple[bytes, ...]()
        # A fit that continues one that ended continues one that has settled.
        hard = recipe.starts_hard or (warm is not None and recipe.switch >= 0.0)
    else:
        sums, trace, seen = PassSums(point.class_counts), list(point.trace), point.seen
        hard, previous = point.hard, point.shares
    classes: ClassEstimate | None = None
    converged = repeats = False  # equal counts give equal tables: a fit whose counts come again repeats itself
    while not (converged or repeats) and len(trace) < recipe.max_iter:
        began = time.perf_counter()
        classes = recipe.class_priors(sums.class_counts)
        steps.m_step(recipe, classes.priors)
        change = share_change(classes, previous)
        last = len(trace) + 1 == recipe.max_iter or (recipe.stop == "priors" and change < recipe.tol)
        sums = steps.e_step(hard=hard, likelihood=options.likelihood, last=last and recipe.is_likelihood)
        objective = objective_of(recipe, sums, classes, hard=hard)
        if sums.step is not None:
            change = float("nan")  # an extrapolated change says nothing of how far EM would go
        elif recipe.stop == "objective":
            change = objective - trace[-1].objective if trace else float("nan")
        trace.append(record(recipe, options, already + len(trace) + 1, sums, change, objective, hard=hard, began=began))
        converged = sums.changed == 0 and sums.step is None if recipe.stop == "labels" else change < recipe.tol
        hard = hard or change <= recipe.switch
        previous = previous if sums.step == "rejected" and previous is not None else classes.shares
        if recipe.may_cycle:
            counted = steps.fingerprint()
            repeats, seen = counted in seen, (*seen, counted)
        if not (converged or repeats) and len(trace) < recipe.max_iter:
            steps.checkpoint(Checkpoint(sums.class_counts, previous, tuple(trace), hard, seen))
    assert classes is not None  # max_iter is at least 1
    if not converged:
        why = "its labels repeat in a cycle" if repeats else "raise max_iter or tol"
        warn_not_converged(recipe, trace, "objective" if recipe.stop == "objective" else "priors", why)
    return Run(tuple(trace), converged, classes)


def repeat(
    steps: AlternatingSteps,
    recipe: Recipe,
    first: Callable[[], PassSums],
    options: FitOptions,
    *,
    movement: Callable[[], float] | None = None,
) -> Run:
    """Repeat an M-step and an E-step at most `max_iter` times, for methods that are not EM.

    Either the method has few rounds, or its M-step continues the previous one. Nothing rises from round to round, so there is
    no cycle to detect and no checkpoint, and running out of rounds is normal: a method for which it is a failure warns itself.

    They end when no label changes (`stop` is "labels"), or when the change falls below `tol`: that of the objective, or of
    the shares of labels. The first round compares with nothing. A method may measure the change of its own parameters by
    `movement`, which the first round has, too.
    """
    sums, warm = first(), options.warm
    previous, already = (None, 0) if warm is None else (warm.shares, warm.iterations)
    hard, trace, settled = recipe.starts_hard, list[TraceRow](), False
    classes: ClassEstimate | None = None
    while not settled and len(trace) < recipe.max_iter:
        began = time.perf_counter()
        classes = recipe.class_priors(sums.class_counts)
        steps.m_step(recipe, classes.priors)
        sums = steps.e_step(hard=hard, likelihood=options.likelihood)
        objective = objective_of(recipe, sums, classes, hard=hard)
        change = share_change(classes, previous)
        if movement is not None:
            change = movement()
        elif recipe.stop == "objective":
            change = objective - trace[-1].objective if trace else float("nan")
        trace.append(record(recipe, options, already + len(trace) + 1, sums, change, objective, hard=hard, began=began))
        if movement is not None or len(trace) > 1:
            settled = sums.changed == 0 if recipe.stop == "labels" else change < recipe.tol
        hard, previous = hard or change <= recipe.switch, classes.shares
    assert classes is not None  # max_iter is at least 1
    return Run(tuple(trace), settled, classes)


def share_change(classes: ClassEstimate, previous: Floats | None) -> float:
    """Return the sum of |p_c - previous p_c|; NaN in the first iteration."""
    return float("nan") if previous is None else sum_of(np.abs(classes.shares - previous))


def objective_of(recipe: Recipe, sums: PassSums, classes: ClassEstimate, *, hard: bool) -> float:
    """Return the likelihood (soft) or C2 (hard) of a pass, with its penalties; raise if a task became impossible."""
    if sums.impossible:  # a task's own label is in the counts, so some label has a positive probability
        raise AdjudgeError(f"{recipe.name}: {sums.impossible} tasks became impossible in a fit; please report this")
    return (sums.classification if hard else sums.log_likelihood) + sums.penalty + classes.penalty


def record(
    recipe: Recipe,
    options: FitOptions,
    iteration: int,
    sums: PassSums,
    change: float,
    objective: float,
    *,
    hard: bool,
    began: float,
) -> TraceRow:
    """Return the line of an iteration in the trace, and show it to the observer; `began` is a time of `perf_counter`."""
    nothing = float("nan")
    has_likelihood = recipe.is_likelihood and (options.likelihood or not hard)  # the same on engines that know it anyway
    row = TraceRow(
        iteration=iteration,
        phase=sums.step or recipe.phase or ("hard" if hard else "soft"),
        change=change,
        log_likelihood=sums.log_likelihood if has_likelihood else nothing,
        classification=sums.classification if hard and recipe.is_likelihood else nothing,
        objective=objective if recipe.is_likelihood else nothing,
        labels_changed=sums.changed,
        seconds=time.perf_counter() - began,
    )
    log.debug("%s", row)
    if options.progress is not None:
        options.progress(row)
    return row


def warn_not_converged(recipe: Recipe, trace: Sequence[TraceRow], what: str, why: str) -> None:
    """Warn that iterations ran out; `what` changed in them."""
    last = f"last change of the {what} {trace[-1].change:.2g}"
    warn(f"{recipe.name} did not converge in {len(trace)} iterations ({last}); {why}", NotConverged)
