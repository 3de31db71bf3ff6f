"""Sums over tasks: all that the coefficients of whole tasks need. They add, so a resample is a weighted sum of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.agreeing.atoms import Atoms
from quorate.agreeing.scale import Scale
from quorate.agreeing.summing import Floats, sum_by
from quorate.votes import Votes

Sums = Mapping[str, Floats]  # of every kind of sum: [atoms, …], or [resamples, …] after drawing

CHUNK: Final = 1 << 22  # pairs of (vote, label of its task) looked at at once, so that copies stay small


def features(n_labels: int, scale: Scale) -> int:
    """Returns how many numbers an atom holds."""
    return 5 + 2 * n_labels + (n_labels**2 if scale.level == "ordinal" else 0)


def task_sums(votes: Votes, atoms: Atoms, scale: Scale) -> Sums:
    """Returns the sums of every atom.

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
    """Yields (label of each vote, grouped by task; votes per task; atom per task), some tasks at a time."""
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
    """Returns for each entry its distance to all votes of its task with a lower place: n_l sum of n_k (v_l - v_k)."""
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
    """Adds n_k n_l / (n - 1) to the table of each task's atom, the votes paired with themselves taken out."""
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
