"""Votes of a crowd, drawn block by block: any block can be drawn alone, and memory is that of one block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.simulation.crowd import Crowd, Spec

BLOCK = 1 << 16  # tasks; part of what a seed means: another size draws other votes
TRIES = 8  # times a panel is drawn again when a worker sits in it twice


class Block(NamedTuple):
    """Codes of consecutive tasks, their truth and their votes."""

    truth: NDArray[np.int64]  # [tasks of the block]
    task: NDArray[np.int64]  # [votes] counted from the first task of all
    worker: NDArray[np.int64]  # [votes]
    label: NDArray[np.int64]  # [votes]


def blocks(spec: Spec) -> int:
    """Returns the number of blocks of a simulation."""
    return -(-spec.tasks // BLOCK)


def truth(spec: Spec, block: int) -> NDArray[np.int64]:
    """Returns the true labels of a block's tasks."""
    rng = np.random.default_rng([spec.seed, 1, block])
    weights = np.ones(spec.labels) if spec.label_weights is None else np.asarray(spec.label_weights, float)
    return rng.choice(spec.labels, size=min(BLOCK, spec.tasks - block * BLOCK), p=weights / weights.sum())


def draw(spec: Spec, crowd: Crowd, block: int) -> Block:
    """Returns a block's tasks with their votes, grouped by task."""
    true = truth(spec, block)
    rng = np.random.default_rng([spec.seed, 2, block])
    least, most = spec.panel_sizes()
    most = min(most, spec.workers)
    size = rng.integers(min(least, most), most, size=len(true), endpoint=True)
    seats = _panels(rng, crowd.busyness, len(true), most)
    taken = np.arange(most) < size[:, None]
    place, worker = np.nonzero(taken)[0], seats[taken]
    if spec.repeats > 0:
        again = 1 + (rng.random(len(place)) < spec.repeats)
        place, worker = np.repeat(place, again), np.repeat(worker, again)
    leader = crowd.leaders[worker]
    luck = rng.random(len(place))
    copied = crowd.kinds[worker] == "colluder"
    if copied.any():  # a ring gives one answer per task: the luck of (task, leader), whoever of the ring is asked
        luck[copied] = _shared_luck(rng, place[copied], leader[copied])
    label = (luck[:, None] >= crowd.ladder[leader, true[place]]).sum(axis=1)
    return Block(true, place + block * BLOCK, worker, label)


def _panels(rng: np.random.Generator, busyness: NDArray[np.float64], tasks: int, seats: int) -> NDArray[np.int64]:
    """Returns distinct workers for every task, [tasks, seats], busy ones more often."""
    workers = len(busyness)
    panel = np.minimum(np.searchsorted(busyness, rng.random((tasks, seats)), side="right"), workers - 1)
    open_ = np.arange(tasks)
    for _ in range(TRIES):
        ordered = np.sort(panel[open_], axis=1)
        open_ = open_[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        if not len(open_):
            return panel
        fresh = np.searchsorted(busyness, rng.random((len(open_), seats)), side="right")
        panel[open_] = np.minimum(fresh, workers - 1)
    # Crowded panels: the largest of weighted random numbers are a weighted draw without replacement.
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.diff(busyness, prepend=0.0))
    for start in range(0, len(open_), step := max(1, (1 << 22) // workers)):
        some = open_[start : start + step]
        keys = log_weight + rng.gumbel(size=(len(some), workers))
        panel[some] = np.argpartition(-keys, seats - 1, axis=1)[:, :seats]
    return panel


def _shared_luck(rng: np.random.Generator, task: NDArray[np.int64], leader: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns one random number per distinct (task, leader), for each of its votes."""
    _, pair = np.unique(np.stack([task, leader]), axis=1, return_inverse=True)
    luck: NDArray[np.float64] = rng.random(pair.max() + 1)[pair]
    return luck
