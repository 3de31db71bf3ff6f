"""The compiled twins of kernels that single methods have: GLAD, LA, EBCC, grades, KOS and M-MSR.

They take the arguments of their references, which describe the arrays, and divide the work among threads. Those of LA, KOS
and M-MSR return the same as the reference to the last bit, those of GLAD the same for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import check_votes, required
from adjudge.kernels.grades_reference import log_prior
from adjudge.kernels.methods_reference import Casts, Edges, Ints, Priors, WorkerPairs
from adjudge.kernels.reference import Floats, Sums, check_codes


def glad_expect(*votes_and_model: Any, checked: bool = False, **out: Any) -> Sums:
    """Return what `methods_reference.glad_expect` does."""
    if not checked:
        task_ptr, row, row_worker, row_label, ability, _, log_prior, *_ = votes_and_model
        check_votes(task_ptr, row, len(row_worker), out.get("threads", 1))
        check_codes("row_worker", row_worker, len(ability))
        check_codes("row_label", row_label, len(log_prior))
    log_likelihood, changed = required().glad_expect(*votes_and_model, **out)
    return Sums(log_likelihood, float("nan"), changed, 0)


def glad_gradient(*votes_and_model: Any, checked: bool = False, **out: Any) -> float:
    """Return what `methods_reference.glad_gradient` does."""
    if not checked:
        task_ptr, row, row_worker, ability, *_ = votes_and_model
        check_votes(task_ptr, row, len(row_worker), out.get("threads", 1))
        check_codes("row_worker", row_worker, len(ability))
    return float(required().glad_gradient(*votes_and_model, **out))


def light_pass(*votes: Any, **known: Any) -> None:
    """Do what `methods_reference.light_pass` does."""
    required().light_pass(*votes, **known)


def ebcc(*votes: Any, priors: Priors, **rest: Any) -> None:
    """Do what `methods_reference.ebcc` does."""
    required().ebcc(*votes, **priors._asdict(), **rest)


def fit_judges(
    given: NDArray[np.integer], counts: Floats, worker_ptr: NDArray[np.int64], threads: int = 1
) -> tuple[Floats, Floats]:
    """Return what `grades_reference.fit_judges` does."""
    places = given.astype(np.int32, copy=False)
    check_codes("given", places, counts.shape[1])
    judges = np.empty((len(worker_ptr) - 1, 3))
    required().fit_judges(places, counts, worker_ptr, judges, threads=threads)
    return judges, log_prior(judges)


def kos_tasks(edges: Edges, to_task: Floats, *, to_worker: Floats, score: Floats, weight: Floats, threads: int = 1) -> float:
    """Return what `methods_reference.kos_tasks` does."""
    return float(required().kos_tasks(*edges, to_task, to_worker, score, weight, threads))


def kos_workers(edges: Edges, to_worker: Floats, *, to_task: Floats, total: Floats, threads: int = 1) -> float:
    """Return what `methods_reference.kos_workers` does."""
    return float(required().kos_workers(*edges, to_worker, to_task, total, threads))


def worker_pairs(casts: Casts, threads: int = 1) -> WorkerPairs:
    """Return what `methods_reference.worker_pairs` does."""
    degree = np.zeros(len(casts.worker_ptr) - 1, np.int64)
    required().count_pairs(*casts, degree, threads)
    ptr = np.concatenate([[0], np.cumsum(degree)])
    other: NDArray[np.int32] = np.empty(ptr[-1], np.int32)
    common, agreed = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], np.int64)
    required().fill_pairs(*casts, ptr, other, common, agreed, threads)
    return WorkerPairs(ptr, other, common, agreed)


def trimmed_ratios(
    pairs: WorkerPairs, size: Floats, trim: Ints, of: Floats, own: Floats, *, out: Floats, threads: int = 1
) -> None:
    """Do what `methods_reference.trimmed_ratios` does."""
    required().trimmed_ratios(pairs.ptr, pairs.other, size, trim, of, own, out, threads)
