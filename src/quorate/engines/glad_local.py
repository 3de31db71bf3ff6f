"""GLAD in memory: all that is as long as votes or tasks is an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import Checkpoint
from quorate.engines.glad_parts import Floats, Part, Use
from quorate.vectors import Vector
from quorate.votes import Votes


class MemoryShelf:
    """Votes in memory with, for each, the probability that it is right."""

    def __init__(self, votes: Votes, task_key: NDArray[np.uint64], cuts: Sequence[slice]) -> None:
        self._votes = votes
        self._task_key = task_key
        self._cuts = cuts  # of tasks
        self._labels = np.zeros(votes.n_tasks, np.int32)
        self._right = np.empty(len(votes))

    def vector(self) -> Vector:
        """Returns a vector, [workers + tasks], whose numbers are yet to be written."""
        return np.empty(self._votes.n_workers + self._votes.n_tasks)

    def parts(self, what: str, use: Use) -> Iterator[Part]:
        """Yields all votes in order of their tasks."""
        for cut in self._cuts:
            ptr = self._votes.task_ptr[cut.start : cut.stop + 1]
            right = self._right[ptr[0] : ptr[-1]]
            yield Part(cut, ptr, self._votes.row, self._task_key[cut], self._labels[cut], right)

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Returns labels, confidence and tie, [tasks] each, of what is found of some tasks after the other."""
        n, at = self._votes.n_tasks, 0
        whole: tuple[NDArray[Any], ...] = (np.empty(n, np.int32), np.empty(n), np.empty(n, np.bool_))
        for some in found:
            for out, items in zip(whole, some, strict=True):
                out[at : at + len(items)] = items
            at += len(some[0])
        return whole

    def figures(self, found: Iterator[Floats]) -> Floats:
        """Returns figures of all tasks, [tasks, K]."""
        out, at = np.empty((self._votes.n_tasks, self._votes.n_labels)), 0
        for some in found:
            out[at : at + len(some)] = some
            at += len(some)
        return out

    def resume(self) -> None:
        """Returns that no fit was broken off."""

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keeps nothing: what is in memory ends with the process."""

    def clear(self) -> None:
        """Lets go of nothing: a look needs room, too."""
