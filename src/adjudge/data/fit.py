"""A finished fit, still in codes: `result.py` decodes it for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters, Statistics

# Figures of all tasks, [tasks, …]: at once, or piece by piece in task order, where they need not fit in memory.
Pieces = NDArray[np.float64] | Iterable[NDArray[np.float64]]


@dataclass(frozen=True)
class TraceRow:
    """One iteration: an M-step and the E-step that follows it."""

    iteration: int
    phase: str  # "soft" or "hard"; "A" or "B" of auto
    change: float  # sum of |p_c - previous p_c|, or what the objective gained (see `stop`); NaN in the first iteration
    log_likelihood: float  # marginal
    classification: float  # C2 of the paper; NaN in a soft pass
    objective: float  # what this phase never lets fall: likelihood (soft) or C2 (hard), plus smoothing's or priors' penalty
    labels_changed: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Decisions of the last E-step on every task."""

    labels: NDArray[np.int32]  # [tasks] the winner's code
    confidence: NDArray[np.float64]  # [tasks] its posterior probability
    tie: NDArray[np.bool_]  # [tasks] whether another label scored as well
    # [rows] expected number of right votes in the row: counted, or a function that counts them when workers are asked for
    right_votes: NDArray[np.float64] | Callable[[], NDArray[np.float64]]
    log_likelihood: float

    @cached_property
    def right(self) -> NDArray[np.float64]:
        """The expected number of right votes in the row, [rows]."""
        return self.right_votes() if callable(self.right_votes) else self.right_votes


@dataclass(frozen=True, eq=False)
class Fit:
    """Labels, parameters and trace of a fit, and a model's further figures of workers and tasks."""

    outcome: Outcome
    params: Parameters
    statistics: Statistics  # of the last E-step
    trace: tuple[TraceRow, ...] = ()
    converged: bool = True
    worker_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # [workers] each, beside votes and accuracy
    task_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # [tasks] each, beside label and confidence
    honest: Any = None  # the honest probabilities of its labels (`adjudge.results.honest.HonestProbabilities`), where asked for
    shown: Callable[[], Pieces] | None = None  # probabilities for people, [tasks, K]; None: the posterior
    posterior: Callable[[], Pieces] | None = None  # T_qc, [tasks, K], where `params` alone do not give it
    skill: NDArray[np.float64] | None = None  # [workers] the weight or accuracy that votes are scored by, where one is
    scored_by: NDArray[np.float64] | None = None  # [K] the priors of scores, where `params` tell the shares of labels instead
    temperature: float = 1.0  # posteriors are raised to 1 / temperature
    scoring: str | None = None  # how votes are scored, where it is another way than the model's own
    facts: Mapping[str, object] = field(default_factory=dict)  # what was measured of the votes, and what was chosen
    log_others: float | None = None  # glad: the logarithm of how many labels an error can fall on
    strength: float = 0.0  # pseudo-votes of the mean worker that every worker was lent

    @property
    def iterations(self) -> int:
        """The number of M-steps taken."""
        return len(self.trace)
