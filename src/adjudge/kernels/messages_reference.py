"""The definition of messages along votes (KOS) and of the passes over pairs of workers (M-MSR), in readable NumPy.

Every sum here is exact: its terms are rounded to a grid that is as fine as their number and the largest of them allow. So
neither the names of workers nor the order of votes show in any bit of a result, and a symmetric crowd stays symmetric.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_SKILL = 1e-9  # a factor up to this tells nothing of the factors of others
CHUNK = 1 << 22  # pairs of votes listed at once


class Edges(NamedTuple):
    """Votes for one of two labels, sorted by task, and the positions of the votes of each worker."""

    task_ptr: Ints  # [tasks + 1] where each task's votes begin
    worker_ptr: Ints  # [workers + 1] places in `vote`
    vote: Ints  # [votes] positions of votes, by worker
    sign: Floats  # [votes] 1 for one label, -1 for the other


class Casts(NamedTuple):
    """Distinct (task, worker, label) with how often each was voted, sorted by task; and their positions by worker."""

    task_ptr: Ints  # [tasks + 1]
    task: Ints  # [casts]
    worker: NDArray[np.int32]  # [casts]
    label: NDArray[np.int32]  # [casts]
    times: Ints  # [casts]
    worker_ptr: Ints  # [workers + 1] places in `cast`
    cast: Ints  # [casts] positions of casts, by worker


class Pairs(NamedTuple):
    """Workers who share tasks: the others of each, ascending, with pairs of votes on one task and those that agree."""

    ptr: Ints  # [workers + 1] where each worker's pairs begin
    other: NDArray[np.int32]  # [pairs]
    common: Ints  # [pairs]
    agreed: Ints  # [pairs]


def kos_tasks(
    edges: Edges,
    to_task: Floats,  # IN [votes] y: how reliable the worker is, as its other votes have it
    *,
    to_worker: Floats,  # OUT [votes] x: what the other votes of the task say, above 0 for the label of sign 1
    score: Floats,  # OUT [tasks] the sum of sign * y
    weight: Floats,  # OUT [tasks] the sum of |y|
    threads: int = 1,  # for faster twins
) -> float:
    """Return the largest |x| of the messages from tasks to workers: x_i->j = sum of sign * y over the votes but j's own."""
    ptr = edges.task_ptr
    said = _on_grid(edges.sign * to_task, ptr)
    score[:], weight[:] = _sums(said, ptr), _sums(np.abs(said), ptr)
    to_worker[:] = np.repeat(score, np.diff(ptr)) - said
    return float(np.abs(to_worker).max(initial=0.0))


def kos_workers(
    edges: Edges,
    to_worker: Floats,  # IN [votes] x
    *,
    to_task: Floats,  # OUT [votes] y
    total: Floats,  # OUT [workers] the sum of sign * x
    threads: int = 1,  # for faster twins
) -> float:
    """Return the largest |y| of the messages from workers to tasks: y_j->i = sum of sign * x over the votes but i's own."""
    ptr = edges.worker_ptr
    agrees = _on_grid((edges.sign * to_worker)[edges.vote], ptr)
    total[:] = _sums(agrees, ptr)
    to_task[edges.vote] = np.repeat(total, np.diff(ptr)) - agrees
    return float(np.abs(to_task).max(initial=0.0))


def worker_pairs(casts: Casts, threads: int = 1) -> Pairs:
    """Return which workers share tasks, and how often they agree there."""
    workers, length = len(casts.worker_ptr) - 1, np.diff(casts.task_ptr)
    found = [np.zeros((0, 3), np.int64)]
    ends = np.cumsum(length**2)
    first = 0
    while first < len(length):  # some tasks at a time
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + CHUNK, side="right")), first + 1)
        found.append(_listed(casts, first, last, workers))
        first = last
    key, common, agreed = _pooled(np.concatenate(found)).T
    worker, other = np.divmod(key, max(workers, 1))
    ptr = np.searchsorted(worker, np.arange(workers + 1)).astype(np.int64)
    return Pairs(ptr, other.astype(np.int32), common.copy(), agreed.copy())


def trimmed_ratios(
    pairs: Pairs,
    size: Floats,  # IN [pairs] at least 0
    trim: Ints,  # IN [workers] how many are left out at most on each side; below 0: all but the largest
    of: Floats,  # IN [workers] factors of the others
    own: Floats,  # IN [workers] the worker's factor before
    *,
    out: Floats,  # OUT [workers]
    threads: int = 1,  # for faster twins
) -> None:
    """Write the mean of size / of[other] for each worker, without some of those above and of those below its own factor."""
    for worker in range(len(own)):
        cut = slice(pairs.ptr[worker], pairs.ptr[worker + 1])
        divisor = of[pairs.other[cut]]
        tells = divisor > NO_SKILL
        ratios = np.sort(size[cut][tells] / divisor[tells])
        out[worker] = own[worker]
        if len(ratios) and trim[worker] < 0:
            out[worker] = ratios[-1]
        elif len(ratios):
            low = min(int(trim[worker]), int((ratios < own[worker]).sum()))
            high = min(int(trim[worker]), int((ratios > own[worker]).sum()))
            kept = ratios[low : len(ratios) - high]
            if len(kept):
                out[worker] = _on_grid(kept, np.array([0, len(kept)])).sum() / len(kept)


def group_sums(values: Floats, ptr: Ints) -> Floats:
    """Return the sum of each group of values, [groups], rounded to the grid of its group; `ptr` is [groups + 1].

    >>> group_sums(np.array([0.25, 0.5, 1.0]), np.array([0, 0, 3])).tolist()
    [0.0, 1.75]
    >>> here, there = (group_sums(np.array(values), np.array([0, 3])) for values in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]))
    >>> bool(here == there)  # in any order, to the last bit
    True
    """
    return _sums(_on_grid(values, ptr), ptr)


def _on_grid(values: Floats, ptr: Ints) -> Floats:
    """Return values rounded so that those of each group, from `ptr` to `ptr`, add up exactly in any order."""
    length = np.diff(ptr)
    full = length > 0
    most = np.zeros(len(length))
    most[full] = np.maximum.reduceat(np.abs(values), ptr[:-1][full]) if len(values) else 0.0
    bits = np.frexp(length.astype(np.float64))[1]
    on = np.repeat(np.ldexp(1.5, np.frexp(most)[1] + bits), length)
    out: Floats = (values + on) - on  # the last bits fall off
    return out


def _sums(values: Floats, ptr: Ints) -> Floats:
    out, full = np.zeros(len(ptr) - 1), np.diff(ptr) > 0
    out[full] = np.add.reduceat(values, ptr[:-1][full]) if len(values) else 0.0
    return out


def _listed(casts: Casts, first: int, last: int, workers: int) -> Ints:
    """Return (worker * workers + other, common, agreed) of the pairs on some tasks, pooled, [pairs, 3]."""
    length = np.diff(casts.task_ptr)[first:last]
    begin, end = casts.task_ptr[first], casts.task_ptr[last]
    own = np.arange(begin, end)
    partners = np.repeat(length, length)  # casts on the task of each cast
    mine = np.repeat(own, partners)
    starts = np.cumsum(partners) - partners
    theirs = np.arange(len(mine)) - np.repeat(starts, partners) + casts.task_ptr[casts.task[mine]]
    different = casts.worker[mine] != casts.worker[theirs]
    mine, theirs = mine[different], theirs[different]
    times = casts.times[mine] * casts.times[theirs]
    key = casts.worker[mine].astype(np.int64) * workers + casts.worker[theirs]
    return _pooled(np.stack([key, times, times * (casts.label[mine] == casts.label[theirs])], axis=1))


def _pooled(pairs: Ints) -> Ints:
    """Return the sums over lines of one key, sorted by key, [distinct keys, 3]."""
    key, where = np.unique(pairs[:, 0], return_inverse=True)
    out = np.zeros((len(key), 3), np.int64)
    out[:, 0] = key
    np.add.at(out[:, 1:], where, pairs[:, 1:])
    return out
