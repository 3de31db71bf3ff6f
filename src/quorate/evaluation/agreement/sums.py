"""Sums over tasks: all that the coefficients of whole tasks need.

Sums add, so a resample is a weighted sum of them, and needs only how often each kind of task was drawn: tasks with the
same votes as one pattern, single tasks, or groups of tasks. With few distinct patterns of votes that is exact for any
number of tasks. Where there are too many, tasks are dealt at random into equal groups, and groups are drawn: the spread
of the figures is the same, to about 1 / sqrt(2 * groups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.votes import Votes
from quorate.evaluation.agreement.scale import Scale

MOST: Final = 2048  # atoms: a group bootstrap of this many knows the spread to 1.6 %
LEAST: Final = 64  # groups, however much memory each takes
CELLS: Final = 1 << 23  # numbers that all atoms may hold together
Floats = NDArray[np.float64]
Sums = Mapping[str, Floats]  # of every kind of sum: [atoms, …], or [resamples, …] after drawing
CHUNK: Final = 1 << 22  # pairs of (vote, label of its task) looked at at once, so that copies stay small


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
        """Return how often each atom was drawn in every resample, [resamples, atoms]."""
        return rng.multinomial(self.draws, self.sizes / self.draws, size=resamples).astype(np.float64)


def room(features: int) -> int:
    """Return how many atoms may be held with so many numbers each."""
    return int(np.clip(CELLS // max(features, 1), LEAST, MOST))


def by_pattern(votes: Votes, features: int, rng: np.random.Generator) -> Atoms:
    """Return atoms for figures that depend on how many votes each label got in a task, and on nothing else."""
    key = _patterns(votes)
    if key is not None:
        _, first, atom_sizes = np.unique(key, return_index=True, return_counts=True)
        if len(first) <= room(features):
            return Atoms(first, np.arange(len(first)), atom_sizes, votes.n_tasks)
    return by_task(votes.n_tasks, features, rng)


def by_task(n_tasks: int, features: int, rng: np.random.Generator) -> Atoms:
    """Return every task as an atom or, where they are too many, tasks dealt into groups of equal size."""
    n = min(n_tasks, room(features))
    atom = np.arange(n_tasks)
    if n < n_tasks:
        rng.shuffle(atom)
        atom %= n
    return Atoms(None, atom, np.ones(n, np.int64), n)


def _patterns(votes: Votes) -> NDArray[np.int64] | None:
    """Return a number for every task that tells its votes per label apart, [tasks]; None where 63 bits are too few.

    Its digits, to a base above the most votes of a task, are the votes of each label.
    """
    base = int(np.diff(votes.task_ptr).max(initial=0)) + 1
    if base**votes.n_labels >= 2**63 or not votes.n_tasks:
        return None
    worth = np.array([base**k for k in range(votes.n_labels)], np.int64)
    return np.add.reduceat(worth[votes.row_label][votes.row], votes.task_ptr[:-1])


def sum_by(index: NDArray[np.int64], values: NDArray[np.generic], n: int) -> Floats:
    """Return the sum of the values at each index, [n].

    >>> sum_by(np.array([2, 0, 2]), np.array([1.0, 5.0, 2.0]), 3).tolist()
    [5.0, 0.0, 3.0]
    """
    return np.bincount(index, values, minlength=n).astype(np.float64, copy=False)


def features(n_labels: int, scale: Scale) -> int:
    """Return how many numbers an atom holds."""
    return 5 + 2 * n_labels + (n_labels**2 if scale.level == "ordinal" else 0)


def task_sums(votes: Votes, atoms: Atoms, scale: Scale) -> Sums:
    """Return the sums of every atom.

    With n votes in a task, n_k of them for label k, a task adds

    - `tasks` 1, `shares` n_k / n;
    - and, if n >= 2, `paired` 1, `labels` n_k,
      `agree` the share of its ordered pairs of votes that agree: sum of n_k (n_k - 1) / (n (n - 1)),
      `linear` and `quadratic` the mean over those pairs of 1 - d and 1 - d^2, d the distance of the two labels,
      `observed` its disagreement: sum over pairs of the squared distance (1 for names) / (n - 1),
      or for an order `coincide` the table n_k n_l / (n - 1), the label with itself n_k (n_k - 1) / (n - 1).
    """
    k, n_atoms = votes.n_labels, len(atoms)
    out = {name: np.zeros(n_atoms) for name in ("tasks", "paired", "agree", "linear", "quadratic", "observed")}
    out |= {name: np.zeros(n_atoms * k) for name in ("shares", "labels")}
    if scale.level == "ordinal":
        out["coincide"] = np.zeros((n_atoms, k, k))
    for label, size, atom in _chunks(votes, atoms):
        _add(out, label, size, atom, scale, k)
    shares, labels = out["shares"].reshape(n_atoms, k), out["labels"].reshape(n_atoms, k)
    return out | {"shares": shares, "labels": labels}


def _chunks(votes: Votes, atoms: Atoms) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (label of each vote, grouped by task; votes per task; atom per task), some tasks at a time."""
    label_of = votes.row_label.astype(np.int64)
    if atoms.tasks is not None:  # the few tasks that stand for the others
        size = np.diff(votes.task_ptr)[atoms.tasks]
        before = np.cumsum(size) - size
        place = np.repeat(votes.task_ptr[:-1][atoms.tasks] - before, size) + np.arange(size.sum())
        yield label_of[votes.row[place]], size, atoms.atom
        return
    start = 0
    step = CHUNK // max(1, min(votes.n_labels, int(np.diff(votes.task_ptr).max(initial=1))))
    while start < votes.n_tasks:
        end = int(np.searchsorted(votes.task_ptr, votes.task_ptr[start] + step, side="right")) - 1
        end = min(max(end, start + 1), votes.n_tasks)
        ptr = votes.task_ptr[start : end + 1]
        yield label_of[votes.row[ptr[0] : ptr[-1]]], np.diff(ptr), atoms.atom[start:end]
        start = end


def _add(
    out: dict[str, Floats],
    label: NDArray[np.int64],
    size: NDArray[np.int64],
    atom: NDArray[np.int64],
    scale: Scale,
    k: int,
) -> None:
    n_atoms, n_tasks = len(out["tasks"]), len(size)
    # One entry per task and label that occurs in it, in the order of the labels' places within a task.
    order = np.argsort(scale.values, kind="stable")
    rank = np.empty(k, np.int64)
    rank[order] = np.arange(k)
    entry, count = np.unique(np.repeat(np.arange(n_tasks), size) * k + rank[label], return_counts=True)
    task, label = entry // k, order[entry % k]
    n = size.astype(np.float64)
    pairs = n * (n - 1)
    paired = pairs > 0

    def to_task(values: Floats) -> Floats:
        return sum_by(task, values, n_tasks)

    def to_atom(values: Floats) -> Floats:
        return sum_by(atom, values, n_atoms)

    out["tasks"] += to_atom(np.ones(n_tasks))
    out["paired"] += to_atom(paired.astype(np.float64))
    cell = atom[task] * k + label
    out["shares"] += sum_by(cell, count / n[task], n_atoms * k)
    out["labels"] += sum_by(cell, count * paired[task], n_atoms * k)
    per_pair = np.divide(1.0, pairs, out=np.zeros(n_tasks), where=paired)
    agree = to_task(count * (count - 1.0))
    out["agree"] += to_atom(agree * per_pair)
    if scale.level == "nominal":
        out["observed"] += to_atom((pairs - agree) * per_pair * n)
        return
    place = scale.places[label]
    squares = 2 * (n * to_task(count * place**2) - to_task(count * place) ** 2)  # of (v_k - v_l), over ordered pairs of votes
    out["linear"] += to_atom(paired - 2 * to_task(_apart(task, count, place)) * per_pair)
    out["quadratic"] += to_atom(paired - squares * per_pair)
    if scale.level == "interval":
        out["observed"] += to_atom(squares * per_pair * n)
    else:
        _coincide(out["coincide"], atom[task], task, label, count, per_pair * n)


def _apart(task: NDArray[np.int64], count: NDArray[np.int64], place: Floats) -> Floats:
    """Return for each entry its distance to all votes of its task with a lower place: n_l sum of n_k (v_l - v_k)."""
    first = np.searchsorted(task, task)  # where each entry's task begins
    votes, weight = np.cumsum(count) - count, np.cumsum(count * place) - count * place
    apart: Floats = count * (place * (votes - votes[first]) - (weight - weight[first]))
    return apart


def _coincide(
    out: Floats,
    atom: NDArray[np.int64],
    task: NDArray[np.int64],
    label: NDArray[np.int64],
    count: NDArray[np.int64],
    per_task: Floats,
) -> None:
    """Add n_k n_l / (n - 1) to the table of each task's atom, the votes paired with themselves taken out."""
    k = out.shape[1]
    scaled = count * per_task[task]
    np.add.at(out, (atom, label, label), -scaled)
    # Every entry meets every entry of its task.
    first, last = np.searchsorted(task, task), np.searchsorted(task, task, side="right")
    width = last - first
    left = np.repeat(np.arange(len(task)), width)
    right = np.arange(len(left)) + np.repeat(first - (np.cumsum(width) - width), width)
    cell = (atom[left] * k + label[left]) * k + label[right]
    np.add.at(out.reshape(-1), cell, scaled[left] * count[right])
