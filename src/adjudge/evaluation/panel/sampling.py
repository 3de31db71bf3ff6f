"""Random parts of votes: of some workers, of some votes per task, of some tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
USUAL_SIZES: Final = (1, 2, 3, 4, 5, 7, 9, 12, 16, 24, 32, 48, 64, 96, 128, 192)


class Part(NamedTuple):
    """Some of the votes, and the tasks that have some of them."""

    votes: Votes
    tasks: Integers  # [tasks left] codes among all tasks


def kept(votes: Votes, mask: Flags) -> Part:
    """Return the votes that a mask keeps, [votes]; workers and tasks without votes go, labels stay.

    >>> import adjudge as adj
    >>> part = kept(adj.read([(1, "ann", "x"), (1, "bob", "y"), (2, "bob", "x")]), np.array([False, True, True]))
    >>> part.votes.workers.ids(), part.tasks.tolist()
    (['bob'], [0, 1])
    """
    rows = np.zeros(votes.n_rows, np.bool_)
    rows[votes.row[mask]] = True
    length = votes.by_worker(rows.astype(np.int64))
    size = np.add.reduceat(mask, votes.task_ptr[:-1], dtype=np.int64)
    tasks = np.flatnonzero(size)
    left = Votes(
        task_ptr=np.concatenate([[0], np.cumsum(size[tasks])]),
        row=(np.cumsum(rows) - 1)[votes.row[mask]].astype(np.uint32),
        worker_ptr=np.concatenate([[0], np.cumsum(length[length > 0])]),
        row_label=votes.row_label[rows],
        workers=votes.workers.take(np.flatnonzero(length)),
        labels=votes.labels,
        tasks=votes.tasks.take(tasks),
        unvoted=votes.tasks.take(np.zeros(0, np.int64)),
        frame_kind=votes.frame_kind,
    )
    return Part(left, tasks)


def vote_tasks(votes: Votes) -> Integers:
    """Return the task of each vote, [votes] codes."""
    return np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))


def some_tasks(votes: Votes, first: Flags, limit: int, rng: np.random.Generator) -> Part:
    """Return the votes of random tasks, about `limit` votes in all; tasks that are `first`, [tasks], come before others."""
    order = np.lexsort((rng.random(votes.n_tasks), ~first))
    size = np.diff(votes.task_ptr)
    taken = order[: max(int(np.searchsorted(np.cumsum(size[order]), limit, side="right")), 1)]
    chosen = np.zeros(votes.n_tasks, np.bool_)
    chosen[taken] = True
    return kept(votes, np.repeat(chosen, size))


def drawn_panels(workers: int, size: int, number: int, rng: np.random.Generator) -> Flags:
    """Return random panels of `size` workers, [panels, workers]; every one there is, where these are no more than `number`.

    >>> drawn_panels(3, 2, 9, np.random.default_rng(0)).astype(int).tolist()
    [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    if math.comb(workers, size) <= number:
        members = np.array(list(combinations(range(workers), size)))
    else:
        members = rng.permuted(np.tile(np.arange(workers), (number, 1)), axis=1)[:, :size]
    out = np.zeros((len(members), workers), np.bool_)
    np.put_along_axis(out, members, True, axis=1)
    return out


def thinned(votes: Votes, size: int, rng: np.random.Generator) -> Flags:
    """Return which votes stay, [votes], where each task keeps at most `size` of its own at random."""
    order = np.lexsort((rng.random(len(votes)), vote_tasks(votes)))
    out = np.empty(len(votes), np.bool_)
    out[order] = np.arange(len(votes)) - np.repeat(votes.task_ptr[:-1], np.diff(votes.task_ptr)) < size
    return out


def usual_sizes(most: int) -> tuple[int, ...]:
    """Return sizes from 1 to `most`: all small ones, and fewer of the large.

    >>> usual_sizes(10)
    (1, 2, 3, 4, 5, 7, 9, 10)
    """
    return (*(size for size in USUAL_SIZES if size < most), most)


def chunks(total: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size`, one behind the other."""
    for start in range(0, total, max(size, 1)):
        yield slice(start, min(start + max(size, 1), total))
