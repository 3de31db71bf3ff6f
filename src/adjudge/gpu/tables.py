"""The M-step of Dawid-Skene on a device, and what becomes of counts there."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.gpu.device import Device

THREADS: Final = 256
MAX_BLOCKS: Final = 4096


class TableKernels:
    """Kernels over counts and tables."""

    device: Device

    def confusion_table(self, counts: Any, worker_ptr: Any, smoothing: float) -> tuple[Any, Any]:
        """Return log pi, device [rows, K], and the votes of each worker by true label, device [workers, K]."""
        xp, (_, k), workers = self.device.xp, counts.shape, len(worker_ptr) - 1
        table, totals = xp.empty(counts.shape), xp.zeros((workers, k))
        if workers and k:
            kernel = "confusion_table_hard" if counts.dtype == np.int64 else "confusion_table_soft"
            given = counts, worker_ptr, workers, k, float(smoothing), table, totals
            self.device.program("tables").launch(kernel, _blocks(workers * k), THREADS, *given)
        return table, totals

    def restore_counts(self, counts: Any, rest: Any = None, unit: float = LOG_UNIT) -> None:
        """Bring sums of shares back to scale: coarse ones, or fine ones with their second sums. OUT device [...]."""
        if counts.size:
            given = counts, rest, counts.size, unit_bits(unit)
            self.device.program("tables").launch("restore_counts", _blocks(counts.size), THREADS, *given)

    def classification(self, counts: Any, class_counts: NDArray[np.int64], table: Any, log_prior: NDArray[np.float64]) -> float:
        """Return C2 of the paper, the sum of log p(votes, chosen label), from the counts of the chosen labels alone."""
        of_classes = float((class_counts * np.where(class_counts > 0, log_prior, 0.0)).sum())
        if not counts.size:
            return of_classes
        blocks = _blocks(counts.size)
        sums = self.device.xp.empty(blocks)
        self.device.program("tables").launch("classification", blocks, THREADS, counts, table, counts.size, sums)
        return float(self.device.download(sums.sum())) + of_classes


def unit_bits(unit: float) -> int:
    """Return b of a unit of 2 to the power -b, as kernels take it.

    >>> unit_bits(LOG_UNIT)
    40
    """
    return 1 - math.frexp(unit)[1]


def _blocks(threads: int) -> int:
    return min(-(-threads // THREADS), MAX_BLOCKS)
