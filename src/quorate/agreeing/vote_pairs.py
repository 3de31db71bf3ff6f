"""Every two votes on the same task, by different workers, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.bounds import freeze
from quorate.votes import Votes

BLOCK: Final = 1 << 21  # pairs of votes looked at at once, so that copies stay small

Ints = NDArray[np.int64]


class Block(NamedTuple):
    """Pairs of votes; the first is that of the worker with the lower code."""

    task: Ints  # [pairs]
    left: NDArray[np.uint32]  # [pairs] rows of the first votes
    right: NDArray[np.uint32]  # [pairs] rows of the second votes


class VotePairs:
    """All pairs of votes on the same task by different workers, to go through any number of times.

    >>> import quorate as qr
    >>> pairs = VotePairs(qr.read([("t", "ann", "x"), ("t", "bob", "y"), ("t", "bob", "x")]))
    >>> pairs.number, pairs.repeats, [(block.left.tolist(), block.right.tolist()) for block in pairs]
    (3, 1, [([0, 0], [1, 2])])
    """

    votes: Votes
    number: int  # pairs of votes on the same task, two of one worker included
    repeats: int  # votes that are not the first of their worker on their task

    def __init__(self, votes: Votes) -> None:
        size = np.diff(votes.task_ptr)
        self.votes = votes
        self.number = int((size * (size - 1) // 2).sum())
        self.repeats = int(np.count_nonzero(_again(votes)))

    def once(self) -> VotePairs:
        """Returns the pairs of votes without repeats: of a worker's votes on a task the first in order of labels stays."""
        return VotePairs(_first_votes(self.votes)) if self.repeats else self

    def __iter__(self) -> Iterator[Block]:
        votes, row_worker = self.votes, self.votes.row_worker()
        for first, last in _spans(votes.task_ptr):
            task = _tasks(votes.task_ptr, first, last)
            place = np.arange(first, last)
            rest = votes.task_ptr[1:][task] - place - 1  # the votes of the same task that follow
            right = np.repeat(place + 1 - (np.cumsum(rest) - rest), rest)
            right += np.arange(len(right))
            block = Block(np.repeat(task, rest), np.repeat(votes.row[first:last], rest), votes.row[right])
            if self.repeats:
                apart = row_worker[block.left] != row_worker[block.right]
                block = Block(*(part[apart] for part in block))
            yield block


def _again(votes: Votes) -> NDArray[np.bool_]:
    """Returns which votes are not the first of their worker on their task, [votes]."""
    worker = votes.row_worker().astype(np.int32)[votes.row]
    same = np.zeros(len(worker), np.bool_)
    np.equal(worker[1:], worker[:-1], out=same[1:])  # votes of a task are in the order of their workers
    same[votes.task_ptr[:-1]] = False
    return same


def _first_votes(votes: Votes) -> Votes:
    keep = ~_again(votes)
    before = np.concatenate([[0], np.cumsum(keep)])
    return replace(votes, task_ptr=freeze(before[votes.task_ptr]), row=freeze(votes.row[keep]))


def _tasks(task_ptr: Ints, first: int, last: int) -> Ints:
    """Returns the task of each of these votes."""
    start = int(np.searchsorted(task_ptr, first, side="right")) - 1
    end = int(np.searchsorted(task_ptr, last, side="left"))
    ptr = np.clip(task_ptr[start : end + 1], first, last)
    return np.repeat(np.arange(start, end), np.diff(ptr))


def _spans(task_ptr: Ints) -> Iterator[tuple[int, int]]:
    """Yields ranges of votes that begin about `BLOCK` pairs with the later votes of their tasks."""
    size = np.diff(task_ptr)
    done = np.concatenate([[0], np.cumsum(size * (size - 1) // 2)])
    start = 0
    while start < len(size):
        end = max(int(np.searchsorted(done, done[start] + BLOCK, side="right")) - 1, start + 1)
        first, last = int(task_ptr[start]), int(task_ptr[end])
        step = last - first if end > start + 1 else max(1, BLOCK // int(size[start]))  # one large task goes in pieces
        for piece in range(first, last, max(step, 1)):
            yield piece, min(piece + step, last)
        start = end
