"""Skills from agreement: the robust rank-one factor of a worker-by-worker matrix (Ma and Olshevsky 2020), over arrays.

Where workers are right with one probability p_i, regardless of the label, two of them agree beyond chance by

    X_ij = K / (K - 1) * (share of agreeing votes) - 1 / (K - 1),    with expectation s_i * s_j,

where s_i = (K p_i - 1) / (K - 1) is a worker's skill: 1 if always right, 0 if guessing. So |s| is the rank-one factor of |X|
over pairs of workers who share tasks, and the signs of s are those that fit the signs of X.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import available, gib
from adjudge.data.votes import Votes
from adjudge.errors import AdjudgeError
from adjudge.kernels.messages_reference import Casts, Pairs, group_sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BYTES_OF_PAIR: Final = 56  # other, common, agreed, agreement, and what sign rounds make of them
ROUNDS: Final = 1000  # of the search for signs, at most
SETTLED: Final = 1e-9  # relative: a smaller entry of the signs' vector is none, a smaller change the end


class Factor(NamedTuple):
    """The two factors of |X| that alternate, [workers] each, and how far their product moved in each iteration."""

    left: Floats
    right: Floats
    changes: tuple[float, ...]  # Frobenius norm


def casts_of(votes: Votes) -> Casts:
    """Return distinct (task, worker, label) with how often each was voted."""
    n = len(votes)
    first = np.ones(n, np.bool_)
    first[1:] = votes.row[1:] != votes.row[:-1]
    first[votes.task_ptr[:-1]] = True
    at = np.flatnonzero(first)
    row, task = votes.row[at], np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))[at]
    worker = votes.row_worker()[row]
    order = np.argsort(worker, kind="stable").astype(np.int64)
    return Casts(
        np.searchsorted(at, votes.task_ptr).astype(np.int64),
        task.astype(np.int64),
        worker.astype(np.int32),
        np.ascontiguousarray(votes.row_label[row]),
        np.diff(np.append(at, n)),
        np.searchsorted(worker[order], np.arange(votes.n_workers + 1)).astype(np.int64),
        order,
    )


def require_room(casts: Casts) -> None:
    """Raise if the pairs of workers may not fit in memory, naming the estimate and the remedy."""
    workers = len(casts.worker_ptr) - 1
    most = min(workers * (workers - 1), int((np.diff(casts.task_ptr) ** 2).sum()))
    need, have = most * BYTES_OF_PAIR, available()
    if need > have:
        raise AdjudgeError(
            f"model 'mmsr' needs about {gib(need)} for up to {most} pairs of {workers} workers who share tasks, but {gib(have)} "
            "are free: drop workers with few votes, choose another model, or use a machine with more memory"
        )


def beyond_chance(pairs: Pairs, labels: int) -> Floats:
    """Return X, [pairs]: by how much two workers agree beyond chance, from -1 / (K - 1) to 1.

    >>> pairs = Pairs(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([4, 4]), np.array([3, 3]))
    >>> beyond_chance(pairs, 2).tolist()
    [0.5, 0.5]
    """
    out: Floats = labels / (labels - 1) * (pairs.agreed / np.maximum(pairs.common, 1)) - 1 / (labels - 1)
    return out


def factor(
    pairs: Pairs,
    agreement: Floats,  # [pairs] X
    *,
    trim: Ints,  # [workers] how many colleagues are left out at most on each side
    start: Floats,  # [workers] above 0
    max_iter: int,
    tol: float,
    kernels: ModuleType,
    threads: int = 1,
    patience: int | None = None,  # iterations in which the change must fall; None: it need not
    progress: Callable[[int, float], None] | None = None,
) -> Factor:
    """Return the factors of |X| by alternating means of ratios without the extreme ones, until their product settles.

    Where no skills explain the agreement, as in crowds of a few votes, the factors may run away or come back for ever; that is
    what `patience` is for.
    """
    size = np.abs(agreement)
    left, right = np.array(start, np.float64), np.array(start, np.float64)
    changes: list[float] = []
    while len(changes) < max_iter and not (changes and changes[-1] < tol) and not _stalls(changes, patience):
        next_left, next_right = np.empty_like(left), np.empty_like(right)
        kernels.trimmed_ratios(pairs, size, trim, right, left, out=next_left, threads=threads)
        kernels.trimmed_ratios(pairs, size, trim, next_left, right, out=next_right, threads=threads)
        changes.append(_moved(left, right, next_left, next_right))
        left, right = next_left, next_right
        if progress is not None:
            progress(len(changes), changes[-1])
    return Factor(left, right, tuple(changes))


def _stalls(changes: list[float], patience: int | None) -> bool:
    """Return whether the change has not fallen by a hundredth in the last iterations."""
    if patience is None or len(changes) % patience or len(changes) < 2 * patience:
        return False
    return min(changes[-patience:]) > 0.99 * min(changes[-2 * patience : -patience])


def _moved(left: Floats, right: Floats, next_left: Floats, next_right: Floats) -> float:
    """Return the Frobenius norm of the difference of two rank-one matrices, without taking one from the other."""
    by_left, by_right = next_left - left, next_right - right
    square = (by_left @ by_left) * (next_right @ next_right) + (left @ left) * (by_right @ by_right)
    return math.sqrt(max(float(square + 2.0 * (by_left @ left) * (by_right @ next_right)), 0.0))


def signs(pairs: Pairs, labels: int) -> Floats:
    """Return the signs of skills, [workers]: 1, -1, or 0 where nothing tells; of the two ways, the one near all 1.

    They are those of the vector that a lazy walk along agreements beyond chance leads to. Each pair counts as many votes as it
    shares, so that two workers with one task in common say little. The walk starts with all workers alike.
    """
    evidence = (labels * pairs.agreed - pairs.common).astype(np.float64)  # (K - 1) * common * X, in whole numbers
    total = group_sums(np.abs(evidence), pairs.ptr)
    now = np.where(total > 0, 1.0, 0.0)
    total = np.where(total > 0, total, 1.0)
    for _ in range(ROUNDS):
        after = now + group_sums(evidence * now[pairs.other], pairs.ptr) / total
        largest = float(np.abs(after).max(initial=0.0))
        if largest == 0.0:
            break
        after /= largest
        moved, now = float(np.abs(after - now).max()), after
        if moved < SETTLED:
            break
    out: Floats = np.sign(np.where(np.abs(now) > SETTLED, now, 0.0))
    return out


def log_odds(skill: Floats, labels: int) -> Floats:
    """Return what a vote of a worker of this skill counts, [workers]: log((K - 1) p / (1 - p)), with p its probability.

    >>> log_odds(np.array([0.0, 0.6]), 2).round(3).tolist()
    [0.0, 1.386]
    """
    right = (1.0 + (labels - 1) * skill) / labels
    out: Floats = np.log((labels - 1) * right / (1.0 - right))
    return out
