"""The model's parameters: class priors and every worker's confusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Parameters:
    """What an M-step estimates: p_c as `priors`, log pi_cl^(a) as a table with one line per row."""

    priors: NDArray[np.float64]  # [K] p_c
    table: NDArray[np.float64]  # [rows, K] log pi: the line of a (worker, given label), by true label
    worker_totals: NDArray[np.float64]  # [workers, K] votes of the worker on tasks of this true label
    smoothing: float = 0.0  # what was added to every cell of every confusion
    penalty: float = 0.0  # smoothing * sum of log pi over all cells: what smoothing adds to the likelihood
    uses_prior: bool = True  # whether scores start at the log prior, or at 0

    @property
    def log_prior(self) -> NDArray[np.float64]:
        """Where scores start, [K]: log p_c, minus infinity for a label that no task has; 0 for models without a prior."""
        if not self.uses_prior:
            return np.zeros(len(self.priors))
        with np.errstate(divide="ignore"):
            return np.log(self.priors)

    def absent_cell(self, worker: int) -> NDArray[np.float64]:
        """Returns pi for a label this worker never gave, by true label, [K]: the smoothing alone."""
        k = len(self.priors)
        if self.smoothing == 0.0:
            return np.zeros(k)
        out: NDArray[np.float64] = self.smoothing / (self.worker_totals[worker] + k * self.smoothing)
        return out
