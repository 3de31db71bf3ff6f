"""THE loop: expectation-maximisation over any engine, for every model of the family.

An iteration is M, then E. After E this M-step's priors (where these are fixed: the shares of the labels; or the
objective) are compared with the previous iteration's;
labels, probabilities and likelihood come from the last E-step, and no M-step follows it.

`iterate` is the loop, over whatever a model calls parameters and statistics; `run` is the loop for models whose
parameters are a table of log-probabilities, and whose passes are the session's own.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Notes, Point, Session
from quorate.errors import NotConverged, QuorateError
from quorate.exact import sum_of
from quorate.fit import Fit, TraceRow
from quorate.params import Parameters
from quorate.statistics import Statistics

log = logging.getLogger(__name__)

Progress = Callable[[TraceRow], None]


class Estimate(Protocol):
    """What the loop asks of a model's parameters."""

    @property
    def priors(self) -> NDArray[np.float64]:
        """The class priors p_c, [K]."""
        ...

    @property
    def label_shares(self) -> NDArray[np.float64]:
        """The shares of the labels among the tasks, [K]: the priors, unless these are fixed."""
        ...

    @property
    def penalty(self) -> float:
        """What smoothing or priors on the parameters add to the likelihood."""
        ...


class Expectation(Protocol):
    """What the loop asks of the statistics of a pass."""

    @property
    def log_likelihood(self) -> float:
        """The marginal log-likelihood."""
        ...

    @property
    def classification(self) -> float:
        """C2 of the paper; only looked at after hard passes."""
        ...

    @property
    def changed(self) -> int:
        """Tasks whose label is another than before the pass."""
        ...

    @property
    def impossible(self) -> int:
        """Tasks whose votes have probability 0 under every label."""
        ...


P = TypeVar("P", bound=Estimate)
S = TypeVar("S", bound=Expectation)
P_contra = TypeVar("P_contra", bound=Estimate, contravariant=True)
S_co = TypeVar("S_co", bound=Expectation, covariant=True)
P_co = TypeVar("P_co", bound=Estimate, covariant=True)
S_contra = TypeVar("S_contra", bound=Expectation, contravariant=True)


class Passes(Protocol[P_contra, S_co]):
    """Where E-steps run: a session, or a part of one that knows another kind of model."""

    def start(self, *, hard: bool) -> S_co:
        """Returns the statistics that feed the first M-step."""
        ...

    def step(self, params: P_contra, *, hard: bool, likelihood: bool = True) -> S_co:
        """Returns the statistics of an E-step under `params`."""
        ...


class Recipe(Protocol[P_co, S_contra]):
    """What a model plugs into the loop."""

    @property
    def name(self) -> str:
        """The model's name in messages."""
        ...

    @property
    def tol(self) -> float:
        """The change below which the loop stops: see `stop`."""
        ...

    @property
    def max_iter(self) -> int:
        """The most iterations."""
        ...

    @property
    def stop(self) -> str:
        """The rule: "priors" (they, or label shares, move less than tol), "objective" (gains less), "labels" (none changed)."""
        ...

    @property
    def starts_hard(self) -> bool:
        """Whether the first M-step is fed with hard labels (or with shares), and the first E-step is hard."""
        ...

    @property
    def is_likelihood(self) -> bool:
        """Whether scores are log-probabilities, so that a likelihood can be told of."""
        ...

    def m_step(self, statistics: S_contra) -> P_co:
        """Returns the parameters that maximise (or at least raise) the likelihood of these statistics."""
        ...

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns whether the next E-step is hard, after one that was or was not and moved by `change`."""
        ...


class Warm(NamedTuple):
    """Where an earlier fit ended: its parameters, carried over to the votes at hand."""

    params: Parameters
    iterations: int  # that led there


@dataclass(frozen=True)
class How:
    """How a fit is begun and watched: from where, by whom, and whether every pass tells its likelihood."""

    progress: Progress | None = None
    likelihood: bool = True  # without it hard passes may leave it out of the trace, where that is faster
    start: NDArray[np.int32] | None = None  # labels to begin with, [tasks], in the place of majority vote
    warm: Warm | None = None  # parameters to begin with, in the place of both


@dataclass(frozen=True, eq=False)
class Run(Generic[P, S]):
    """Where the loop ended, and how it got there."""

    params: P
    statistics: S  # of the last E-step
    trace: tuple[TraceRow, ...]
    converged: bool


def run(session: Session, recipe: Recipe[Parameters, Statistics], how: How) -> Fit:
    """Returns the fit of a recipe on the votes of a session; warns `NotConverged` when iterations ran out."""
    ended = begin(session, recipe, how)
    return Fit(session.finish(ended.params), ended.params, ended.statistics, ended.trace, ended.converged)


def begin(session: Session, recipe: Recipe[Parameters, Statistics], how: How) -> Run[Parameters, Statistics]:
    """Returns where the loop ends that begins as the caller says: cold, from labels, or from an earlier fit."""
    before, already = (None, 0) if how.warm is None else how.warm

    def first() -> Statistics:
        if before is not None:  # votes that are impossible under old parameters may be among these
            return session.step(before, hard=recipe.next_is_hard(recipe.starts_hard, 0.0))
        return session.start(hard=recipe.starts_hard) if how.start is None else session.recount(how.start)

    return iterate(session, recipe, how.progress, likelihood=how.likelihood, first=first, before=before, already=already)


def iterate(
    passes: Passes[P, S],
    recipe: Recipe[P, S],
    progress: Progress | None = None,
    *,
    likelihood: bool = True,
    first: Callable[[], S] | None = None,
    before: P | None = None,
    already: int = 0,
) -> Run[P, S]:
    """Returns the end of expectation-maximisation; warns `NotConverged` when iterations ran out.

    `first` feeds the first M-step, in the place of what majority vote says. A fit that goes on from another gives that
    one's last parameters as `before`, and counts its iterations on from `already`. Where the passes can be broken off,
    every iteration is noted, and a fit that was broken off goes on after the last one.
    """
    keeper = passes if isinstance(passes, Notes) else None
    point = None if keeper is None else keeper.resume()
    statistics: S
    if point is None:
        statistics = passes.start(hard=recipe.starts_hard) if first is None else first()
        # A fit that goes on from one that ended goes on from one that has settled.
        hard = recipe.starts_hard if before is None else recipe.next_is_hard(recipe.starts_hard, 0.0)
        previous = None if before is None else before.label_shares
        trace, cycle = list[TraceRow](), Cycle()
    else:
        statistics, hard, previous = point.statistics, point.hard, point.priors
        trace, cycle = list(point.trace), Cycle(point.seen)
    params: P | None = None
    converged = False
    while not converged and not cycle.closed and len(trace) < recipe.max_iter:
        began = time.perf_counter()
        params = recipe.m_step(statistics)
        statistics = passes.step(params, hard=hard, likelihood=likelihood)
        if statistics.impossible:  # a task's own label is in the counts, so some label has a positive probability
            raise QuorateError(f"{recipe.name}: {statistics.impossible} tasks became impossible in a fit; please report this")
        objective = (statistics.classification if hard else statistics.log_likelihood) + params.penalty
        if previous is None:
            change = float("nan")
        elif recipe.stop == "objective":
            change = objective - trace[-1].objective if trace else float("nan")
        else:
            change = sum_of(np.abs(params.label_shares - previous))
        previous = params.label_shares
        row = _trace_row(already + len(trace) + 1, hard, change, objective, statistics, time.perf_counter() - began)
        trace.append(row if recipe.is_likelihood else _without_likelihood(row))
        log.debug("%s", trace[-1])
        if progress is not None:
            progress(trace[-1])
        converged = statistics.changed == 0 if recipe.stop == "labels" else change < recipe.tol
        hard = recipe.next_is_hard(hard, change)
        if not recipe.is_likelihood:  # nothing rises from pass to pass, so labels may come back
            cycle.see(statistics)
        if keeper is not None and not converged and not cycle.closed and len(trace) < recipe.max_iter:
            keeper.note(Point(statistics, previous, tuple(trace), hard, cycle.seen))
    assert params is not None  # max_iter is at least 1
    if not converged:
        why = "it goes round in a cycle of labels" if cycle.closed else "raise max_iter or tol"
        warnings.warn(
            f"{recipe.name} did not converge in {len(trace)} iterations "
            f"(last change of the {'objective' if recipe.stop == 'objective' else 'priors'} {trace[-1].change:.2g}); {why}",
            NotConverged,
            stacklevel=2,
        )
    return Run(params, statistics, tuple(trace), converged)


class Cycle:
    """Tells when hard labels come back: counts decide the next table, so equal counts mean an equal future."""

    def __init__(self, seen: tuple[bytes, ...] = ()) -> None:
        self.closed = False
        self.seen = seen  # digests of the counts after each pass

    def see(self, statistics: Any) -> None:
        """Takes the counts after a pass."""
        digest = statistics.fingerprint()
        self.closed = digest in self.seen
        self.seen += (digest,)


def _without_likelihood(row: TraceRow) -> TraceRow:
    nothing = float("nan")
    return replace(row, log_likelihood=nothing, classification=nothing, objective=nothing)


def _trace_row(iteration: int, hard: bool, change: float, objective: float, statistics: Expectation, seconds: float) -> TraceRow:
    return TraceRow(
        iteration=iteration,
        phase="hard" if hard else "soft",
        change=change,
        log_likelihood=statistics.log_likelihood,
        classification=statistics.classification if hard else float("nan"),
        objective=objective,
        labels_changed=statistics.changed,
        seconds=seconds,
    )
