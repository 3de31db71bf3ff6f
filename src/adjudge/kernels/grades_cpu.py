"""The compiled twin of the fit of judges: the same arguments, the same results to rounding, over threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import required
from adjudge.kernels.grades_reference import log_prior
from adjudge.kernels.reference import Floats, check_codes


def fit_judges(
    given: NDArray[np.integer], counts: Floats, worker_ptr: NDArray[np.int64], threads: int = 1
) -> tuple[Floats, Floats]:
    """Return what `grades_reference.fit_judges` does."""
    places = given.astype(np.int32, copy=False)
    check_codes("given", places, counts.shape[1])
    judges = np.empty((len(worker_ptr) - 1, 3))
    required().fit_judges(places, counts, worker_ptr, judges, threads=threads)
    return judges, log_prior(judges)
