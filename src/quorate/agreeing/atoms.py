"""What a resample draws: tasks with the same votes as one pattern, single tasks, or groups of tasks.

A figure is a function of sums over tasks, so a resample needs only how often each kind of task was drawn. With few
distinct patterns of votes that is exact for any number of tasks. Where there are too many, tasks are dealt at
random into equal groups, and groups are drawn: the spread of the figures is the same, to about 1 / sqrt(2 * groups).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.votes import Votes

MOST: Final = 2048  # atoms: a group bootstrap of this many knows the spread to 1.6 %
LEAST: Final = 64  # groups, however much memory each takes
CELLS: Final = 1 << 23  # numbers that all atoms may hold together


@dataclass(frozen=True, eq=False)
class Atoms:
    """The atoms, the tasks that stand for them, and how often each is drawn."""

    tasks: NDArray[np.int64] | None  # [n] tasks to count; None: all of them
    atom: NDArray[np.int64]  # [n] the atom of each of those tasks
    sizes: NDArray[np.int64]  # [atoms] how often the atom's sums occur in the data
    draws: int  # how many atoms a resample draws: as many as there are

    def __len__(self) -> int:
        return len(self.sizes)

    def weights(self, rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
        """Returns how often each atom was drawn in every resample, [resamples, atoms]."""
        return rng.multinomial(self.draws, self.sizes / self.draws, size=resamples).astype(np.float64)


def room(features: int) -> int:
    """Returns how many atoms may be held with so many numbers each."""
    return int(np.clip(CELLS // max(features, 1), LEAST, MOST))


def by_pattern(votes: Votes, features: int, rng: np.random.Generator) -> Atoms:
    """Returns atoms for figures that depend on how many votes each label got in a task, and on nothing else."""
    key = _patterns(votes)
    if key is not None:
        _, first, atom_sizes = np.unique(key, return_index=True, return_counts=True)
        if len(first) <= room(features):
            return Atoms(first, np.arange(len(first)), atom_sizes, votes.n_tasks)
    return by_task(votes.n_tasks, features, rng)


def by_task(n_tasks: int, features: int, rng: np.random.Generator) -> Atoms:
    """Returns every task as an atom or, where they are too many, tasks dealt into groups of equal size."""
    n = min(n_tasks, room(features))
    atom = np.arange(n_tasks)
    if n < n_tasks:
        rng.shuffle(atom)
        atom %= n
    return Atoms(None, atom, np.ones(n, np.int64), n)


def _patterns(votes: Votes) -> NDArray[np.int64] | None:
    """Returns a number for every task that tells its votes per label apart, [tasks]; None where 63 bits are too few.

    Its digits, to a base above the most votes of a task, are the votes of each label.
    """
    base = int(np.diff(votes.task_ptr).max(initial=0)) + 1
    if base**votes.n_labels >= 2**63 or not votes.n_tasks:
        return None
    worth = np.array([base**k for k in range(votes.n_labels)], np.int64)
    return np.add.reduceat(worth[votes.row_label][votes.row], votes.task_ptr[:-1])
