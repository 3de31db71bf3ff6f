"""All votes of a fit at once, for methods whose passes are their own: messages along votes, sequences, restarts."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.kernels import reference

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WholeVotes:
    """Votes in memory, with what decides ties between labels, and the gold."""

    votes: Votes
    kernels: ModuleType  # of the engine: `reference`, or the compiled `cpu`
    threads: int
    task_key: NDArray[np.uint64]  # [tasks] hashes of seed and task id: see `reference.tie_keys`
    label_hash: NDArray[np.uint64]  # [K]
    row_weight: Floats | None = None  # [rows] what a vote of a row counts; None: 1
    gold: NDArray[np.int32] | None = None  # [tasks] given labels, below 0 where there is none

    @property
    def is_compiled(self) -> bool:
        """Whether compiled kernels are to be used, where a method has some."""
        return self.kernels is not reference

    def decided(
        self, scores: Floats, posterior: Floats, tie_weights: Floats | None = None
    ) -> tuple[NDArray[np.int32], Floats, NDArray[np.bool_]]:
        """Return label, confidence and tie of every task, [tasks] each, by its scores, [tasks, K]; gold has its own label."""
        labels, tie = reference.pick(scores, self.task_key, self.label_hash, tie_weights)
        confidence: Floats = posterior[np.arange(len(labels)), labels] if posterior.size else np.zeros(len(labels))
        if self.gold is not None:
            given = self.gold >= 0
            labels, tie = np.where(given, self.gold, labels), tie & ~given
            confidence = np.where(given, 1.0, confidence)
        return labels.astype(np.int32), confidence, tie
