"""The compiled twins of the reference kernels of messages and pairs: the same arguments, the same bits, over threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import required
from adjudge.kernels.messages_reference import Casts, Edges, Floats, Ints, Pairs


def kos_tasks(edges: Edges, to_task: Floats, *, to_worker: Floats, score: Floats, weight: Floats, threads: int = 1) -> float:
    """Return what `messages_reference.kos_tasks` does."""
    most: float = required().kos_tasks(*edges, to_task, to_worker, score, weight, threads)
    return most


def kos_workers(edges: Edges, to_worker: Floats, *, to_task: Floats, total: Floats, threads: int = 1) -> float:
    """Return what `messages_reference.kos_workers` does."""
    most: float = required().kos_workers(*edges, to_worker, to_task, total, threads)
    return most


def worker_pairs(casts: Casts, threads: int = 1) -> Pairs:
    """Return what `messages_reference.worker_pairs` does."""
    degree = np.zeros(len(casts.worker_ptr) - 1, np.int64)
    required().count_pairs(*casts, degree, threads)
    ptr = np.concatenate([[0], np.cumsum(degree)])
    other: NDArray[np.int32] = np.empty(ptr[-1], np.int32)
    common, agreed = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], np.int64)
    required().fill_pairs(*casts, ptr, other, common, agreed, threads)
    return Pairs(ptr, other, common, agreed)


def trimmed_ratios(pairs: Pairs, size: Floats, trim: Ints, of: Floats, own: Floats, *, out: Floats, threads: int = 1) -> None:
    """Do what `messages_reference.trimmed_ratios` does."""
    required().trimmed_ratios(pairs.ptr, pairs.other, size, trim, of, own, out, threads)
