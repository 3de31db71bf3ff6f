"""Sufficient statistics: what one pass over the votes leaves for the next M-step."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts of votes by true label, as soft (posterior) or hard (one label) weights.

    They add: the statistics of two shards of votes are the sum of theirs. The arrays belong to the session that
    counted, which may go on counting in them: they are good until its next step.
    """

    counts: NDArray[np.float64] | NDArray[np.int64]  # [rows, K] votes of a row whose task has this true label
    class_counts: NDArray[np.float64] | NDArray[np.int64]  # [K] tasks with this true label
    log_likelihood: float = float("nan")  # sum of log p(votes of a task), marginal over the true label
    classification: float = float("nan")  # C2 of the paper: sum of log p(votes, chosen label)
    changed: int = 0  # tasks whose label is another than before the pass
    impossible: int = 0  # tasks whose votes have probability 0 under every label

    def fingerprint(self) -> bytes:
        """Returns bytes that are equal where the counts are."""
        return blake2b(self.counts.tobytes(), digest_size=16).digest()
