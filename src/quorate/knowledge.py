"""What is known of workers: their votes by given and true label, as fits count them and histories tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.bounds import require_array, require_finite
from quorate.votes import Panel, require_panel

EXACT: Final = 2.0**53  # above it, float64 no longer tells whole numbers apart


@dataclass(frozen=True, eq=False, kw_only=True)
class Knowledge(Panel):
    """Expected votes of every worker by given label (rows) and true label, and expected tasks by label.

    Knowledge adds: that of two sets of votes over the same labels is the sum of theirs.
    """

    counts: NDArray[np.float64]  # [rows, K] votes of a row on tasks of this true label
    class_counts: NDArray[np.float64]  # [K] tasks of this true label

    def __post_init__(self) -> None:
        require_panel(self)
        for name, ids in (("workers", self.workers), ("labels", self.labels)):
            ids.require_distinct(name)
        for name, shape in (("counts", (self.n_rows, self.n_labels)), ("class_counts", (self.n_labels,))):
            require_finite(name, require_array(name, getattr(self, name), np.float64, shape), least=0, most=EXACT)

    def mean_worker(self) -> NDArray[np.float64]:
        """Returns all workers' votes as shares of those on tasks of the same true label, [K given, K true].

        A true label that nobody has met gets zeros.
        """
        return mean_worker(self, self.counts)


def mean_worker(panel: Panel, counts: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the confusion of all workers together, [K given, K true], from their votes by row, [rows, K]."""
    votes = given_votes(panel, counts)
    total = votes.sum(axis=0)
    out: NDArray[np.float64] = votes / np.where(total > 0, total, 1.0)
    return out


def given_votes(panel: Panel, counts: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the votes of all workers together, [K given, K true], from their votes by row, [rows, K]."""
    k = panel.n_labels
    by_true = [np.bincount(panel.row_label, counts[:, c], minlength=k) for c in range(k)]
    return np.stack(by_true, axis=1).astype(np.float64) if k else np.zeros((0, 0))
