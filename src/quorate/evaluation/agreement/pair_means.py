"""Cohen's kappa and Scott's pi as means over pairs of workers, with their intervals over tasks.

A small panel is resampled like every other figure. In a large crowd a resample would mean the tables of all pairs
anew, a thousand times; there the interval comes from how much each task moves the mean (its influence, the
derivative by the task's weight), which is what the bootstrap tends to as tasks grow many.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.evaluation.agreement import pairs as pair_tables
from quorate.evaluation.agreement.coefficients import beyond_chance, ratio
from quorate.evaluation.agreement.pairs import Cells, PairFigures, Tally, VotePairs, cohen_chance, parts, scott_chance
from quorate.evaluation.agreement.resample import Drawing, Estimate, estimates
from quorate.evaluation.agreement.sums import Atoms, Floats, Sums, by_task, sum_by

SMALL: Final = 2048  # numbers per task that a resample may sum: pairs of workers x (2 K + 1)
CHANCE: Final = {"cohen": cohen_chance, "scott": scott_chance}


def pair_means(vote_pairs: VotePairs, cells: Cells, pairs: PairFigures, drawing: Drawing) -> dict[str, Estimate]:
    """Return the means of Cohen's kappa and of Scott's pi over pairs, weighted by shared tasks."""
    votes = vote_pairs.votes
    values = {"cohen": pairs.mean(pairs.kappa), "scott": pairs.mean(pairs.pi)}
    if not drawing.resamples or not len(pairs):
        return {name: Estimate(value) for name, value in values.items()}
    rng = drawing.rng(2)
    features = len(pairs) * (2 * votes.n_labels + 1)
    atoms = by_task(votes.n_tasks, features, rng)
    if features <= SMALL and cells.size * len(atoms) <= pair_tables.DENSE:
        sums = _pair_sums(vote_pairs, cells, len(pairs), atoms)
        drawn = {name: _mean_of(chance) for name, chance in CHANCE.items()}
        return estimates(drawn, sums, atoms, drawing, rng)
    half = NormalDist().inv_cdf((1 + drawing.confidence) / 2) * np.sqrt((influence(vote_pairs, cells, pairs) ** 2).sum(axis=0))
    return {
        name: Estimate(value, max(value - wide, -1.0), min(value + wide, 1.0))
        for (name, value), wide in zip(values.items(), half.tolist(), strict=True)
    }


def influence(vote_pairs: VotePairs, cells: Cells, pairs: PairFigures) -> Floats:
    """Return what each task adds to the two means, [tasks, 2]: their derivatives by its weight, which sum to 0."""
    at_cell = _cell_influence(cells, pairs)
    table = None
    if cells.size <= pair_tables.DENSE:
        table = np.zeros((cells.size, 2), np.float32)
        table[cells.keys] = at_cell
    out = np.zeros((vote_pairs.votes.n_tasks, 2))
    for block in vote_pairs:
        key = cells.key_of(block)
        moved = at_cell[np.searchsorted(cells.keys, key)] if table is None else table.take(key, axis=0)
        first = int(block.task[0]) if len(key) else 0
        for column in range(2):
            added = np.bincount(block.task - first, moved[:, column])
            out[first : first + len(added), column] += added
    return out


def _pair_sums(vote_pairs: VotePairs, cells: Cells, n_pairs: int, atoms: Atoms) -> Sums:
    """Return of every atom and pair: the votes that agree, and the labels of each worker on shared tasks."""
    votes = vote_pairs.votes
    counting = Tally(cells.size * len(atoms))
    for block in vote_pairs:
        counting.add(atoms.atom[block.task] * cells.size + cells.key_of(block))
    keys, counts = counting.counts()
    atom, key = np.divmod(keys, cells.size)
    pair = np.searchsorted(cells.keys[cells.starts()] // votes.n_labels**2, key // votes.n_labels**2)
    said_a, said_b = np.divmod(key % votes.n_labels**2, votes.n_labels)
    at = atom * n_pairs + pair
    shape, k = (len(atoms), n_pairs), votes.n_labels
    return {
        "agree": sum_by(at, counts * (said_a == said_b), shape[0] * shape[1]).reshape(shape),
        "labels_a": sum_by(at * k + said_a, counts, shape[0] * shape[1] * k).reshape(*shape, k),
        "labels_b": sum_by(at * k + said_b, counts, shape[0] * shape[1] * k).reshape(*shape, k),
    }


def _mean_of(chance: Callable[[Floats, Floats], Floats]) -> Callable[[Sums], Floats]:
    """Return the function from sums to the mean over pairs of (agreement - chance) / (1 - chance)."""

    def mean(sums: Sums) -> Floats:
        shared = sums["labels_a"].sum(axis=-1)
        figure = beyond_chance(ratio(sums["agree"], shared), chance(sums["labels_a"], sums["labels_b"]))
        weight = np.where(np.isnan(figure), 0.0, shared)
        return ratio((np.nan_to_num(figure) * weight).sum(axis=-1), weight.sum(axis=-1))

    return mean


def _cell_influence(cells: Cells, pairs: PairFigures) -> NDArray[np.float32]:
    """Return what one more vote pair in each cell adds to the two means, [cells, 2].

    With o the agreement, e the chance, c the figure and n the shared tasks of a pair, the mean is sum(n c) / sum(n),
    and n dc = (dn_o - o) / (1 - e) - (dn_e - 2 e) (1 - o) / (1 - e)^2.
    """
    figures = {"cohen": pairs.kappa, "scott": pairs.pi}
    means = {name: pairs.mean(figure) for name, figure in figures.items()}
    weights = {name: max(float(pairs.shared[~np.isnan(figure)].sum()), 1.0) for name, figure in figures.items()}
    out = np.zeros((len(cells.keys), 2), np.float32)  # single precision is plenty for the width of an interval
    for part in parts(cells, cells.starts()):
        n, o = pairs.shared[part.pairs], pairs.agreement[part.pairs]
        hit = part.said_a == part.said_b
        at_a, at_b = part.pair * cells.n_labels + part.said_a, part.pair * cells.n_labels + part.said_b
        labels_a, labels_b = (labels.ravel().astype(np.float32) for labels in (part.labels_a, part.labels_b))
        moved = {"cohen": labels_b[at_a] + labels_a[at_b]}
        moved["scott"] = (moved["cohen"] + labels_a[at_a] + labels_b[at_b]) / 2
        for column, name in enumerate(figures):
            e, c = CHANCE[name](part.labels_a, part.labels_b), figures[name][part.pairs]
            defined = ~np.isnan(c)
            gain = np.divide(1.0, 1 - e, out=np.zeros(len(e)), where=defined) / weights[name]
            slope = (1 - o) * gain**2 * weights[name]
            level = np.where(defined, 2 * e * slope - o * gain + (c - means[name]) / weights[name], 0.0)
            by_pair = (np.asarray(each, np.float32)[part.pair] for each in (level, gain, slope / n))
            out[part.cells, column] = next(by_pair) + hit * next(by_pair) - moved[name] * next(by_pair)
    return out
