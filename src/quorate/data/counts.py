"""The model's parameters: class priors and every worker's confusion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.exact import LOG_UNIT, whole
from quorate.prior import Prior
from quorate.votes import Panel


class Lines(NamedTuple):
    """What an M-step makes of the counts of some workers: their lines of the table."""

    table: NDArray[np.float64]  # [rows, K] log pi: the line of a (worker, given label), by true label
    worker_totals: NDArray[np.float64]  # [workers, K] votes of the worker on tasks of this true label
    prior: Prior = Prior()  # what was believed beforehand
    penalty: float = 0.0  # what beliefs about these workers add to the likelihood, less constants
    uses_prior: bool = True  # whether scores start at the log prior, or at 0
    columns: Mapping[str, NDArray[Any]] = {}  # [workers] each: what else the recipe knows of a worker


@dataclass(frozen=True, eq=False)
class Parameters:
    """What an M-step estimates: p_c as `priors`, log pi_cl^(a) as a table with one line per row."""

    priors: NDArray[np.float64]  # [K] p_c
    table: NDArray[np.float64]  # [rows, K] log pi: the line of a (worker, given label), by true label
    worker_totals: NDArray[np.float64]  # [workers, K] votes of the worker on tasks of this true label
    prior: Prior = field(default_factory=Prior)  # what was believed beforehand
    penalty: float = 0.0  # what the prior adds to the likelihood, less constants
    uses_prior: bool = True  # whether scores start at the log prior, or at 0

    @classmethod
    def of(cls, priors: NDArray[np.float64], lines: Lines) -> Parameters:
        """Return the parameters of these class priors and lines."""
        return cls(priors, lines.table, lines.worker_totals, lines.prior, lines.penalty, lines.uses_prior)

    @property
    def log_prior(self) -> NDArray[np.float64]:
        """Where scores start, [K]: log p_c, minus infinity for a label that no task has; 0 for models without a prior."""
        if not self.uses_prior:
            return np.zeros(len(self.priors))
        with np.errstate(divide="ignore"):
            return whole(np.log(self.priors), LOG_UNIT)

    def denominators(self) -> NDArray[np.float64]:
        """Returns votes and pseudo-votes of each worker by true label, [workers, K]: what pi is a share of."""
        out = self.worker_totals + len(self.priors) * self.prior.smoothing
        return out if self.prior.workers is None else out + self.prior.workers.totals

    def confusion(self, panel: Panel, worker: int) -> NDArray[np.float64]:
        """Returns pi_cl of one worker, [K true, K given]; zeros where the worker never met the true label."""
        k, believed = panel.n_labels, self.prior.workers
        absent = np.zeros((k, k)) if believed is None else believed.matrix(panel, worker)
        total = self.worker_totals[worker] + k * self.prior.smoothing
        total = total if believed is None else total + believed.totals[worker]
        with np.errstate(divide="ignore", invalid="ignore"):
            matrix = np.nan_to_num((absent + self.prior.smoothing) / total).T
        rows = slice(panel.worker_ptr[worker], panel.worker_ptr[worker + 1])
        matrix[:, panel.row_label[rows]] = np.exp(self.table[rows]).T
        out: NDArray[np.float64] = matrix
        return out
