"""THE loop: expectation-maximisation over any engine, for every model of the family.

An iteration is M, then E. After E this M-step's priors are compared with the previous M-step's; labels,
probabilities and likelihood come from the last E-step, and no M-step follows it.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Session
from quorate.errors import NotConverged, QuorateError
from quorate.fit import Fit, TraceRow
from quorate.params import Parameters
from quorate.statistics import Statistics

log = logging.getLogger(__name__)

Progress = Callable[[TraceRow], None]


class Recipe(Protocol):
    """What a model plugs into the loop."""

    @property
    def name(self) -> str:
        """The model's name in messages."""
        ...

    @property
    def tol(self) -> float:
        """The change of the priors below which the loop stops."""
        ...

    @property
    def max_iter(self) -> int:
        """The most iterations."""
        ...

    @property
    def stop(self) -> str:
        """The stopping rule: "priors" (their change falls below tol) or "labels" (none changed)."""
        ...

    @property
    def starts_hard(self) -> bool:
        """Whether majority's winners (or its vote shares) feed the first M-step."""
        ...

    @property
    def is_likelihood(self) -> bool:
        """Whether scores are log-probabilities, so that a likelihood can be told of."""
        ...

    def m_step(self, statistics: Statistics) -> Parameters:
        """Returns the parameters that maximise the likelihood of these statistics."""
        ...

    def next_is_hard(self, was_hard: bool, change: float) -> bool:
        """Returns whether the next E-step is hard, after one that was or was not and moved the priors by `change`."""
        ...


def run(
    session: Session,
    recipe: Recipe,
    progress: Progress | None = None,
    *,
    likelihood: bool = True,
    start: NDArray[np.int32] | None = None,
) -> Fit:
    """Returns the fit of a recipe on the votes of a session; warns `NotConverged` when iterations ran out.

    Without `likelihood` hard passes may leave it out of the trace, where that is faster; the final one is exact.
    `start` gives the labels to begin with, [tasks], in the place of majority vote.
    """
    statistics = session.start(hard=recipe.starts_hard) if start is None else session.recount(start)
    hard = recipe.starts_hard
    params: Parameters | None = None
    trace: list[TraceRow] = []
    converged, cycle = False, Cycle()
    while not converged and not cycle.closed and len(trace) < recipe.max_iter:
        began = time.perf_counter()
        previous, params = params, recipe.m_step(statistics)
        statistics = session.step(params, hard=hard, likelihood=likelihood)
        if statistics.impossible:  # a task's own label is in the counts, so some label has a positive probability
            raise QuorateError(f"{recipe.name}: {statistics.impossible} tasks became impossible in a fit; please report this")
        change = float("nan") if previous is None else float(np.abs(params.priors - previous.priors).sum())
        row = _trace_row(len(trace) + 1, hard, change, statistics, params, time.perf_counter() - began)
        trace.append(row if recipe.is_likelihood else _without_likelihood(row))
        log.debug("%s", trace[-1])
        if progress is not None:
            progress(trace[-1])
        converged = statistics.changed == 0 if recipe.stop == "labels" else change < recipe.tol
        hard = recipe.next_is_hard(hard, change)
        if not recipe.is_likelihood:  # nothing rises from pass to pass, so labels may come back
            cycle.see(statistics)
    assert params is not None  # max_iter is at least 1
    if not converged:
        why = "it goes round in a cycle of labels" if cycle.closed else "raise max_iter or tol"
        warnings.warn(
            f"{recipe.name} did not converge in {len(trace)} iterations "
            f"(last change of the priors {trace[-1].change:.2g}); {why}",
            NotConverged,
            stacklevel=2,
        )
    return Fit(session.finish(params), params, tuple(trace), converged)


class Cycle:
    """Tells when hard labels come back: counts decide the next table, so equal counts mean an equal future."""

    def __init__(self) -> None:
        self.closed = False
        self._seen: set[bytes] = set()

    def see(self, statistics: Statistics) -> None:
        """Takes the counts after a pass."""
        digest = blake2b(statistics.counts.tobytes(), digest_size=16).digest()
        self.closed = digest in self._seen
        self._seen.add(digest)


def _without_likelihood(row: TraceRow) -> TraceRow:
    nothing = float("nan")
    return replace(row, log_likelihood=nothing, classification=nothing, objective=nothing)


def _trace_row(iteration: int, hard: bool, change: float, statistics: Statistics, params: Parameters, seconds: float) -> TraceRow:
    classification = statistics.classification if hard else float("nan")
    objective = (classification if hard else statistics.log_likelihood) + params.penalty
    return TraceRow(
        iteration=iteration,
        phase="hard" if hard else "soft",
        change=change,
        log_likelihood=statistics.log_likelihood,
        classification=classification,
        objective=objective,
        labels_changed=statistics.changed,
        seconds=seconds,
    )
