"""Pairs of workers: what both said on the tasks they share, and how far they agree beyond chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.agreeing.coefficients import beyond_chance
from quorate.agreeing.summing import Floats, sum_by
from quorate.agreeing.tally import Tally
from quorate.agreeing.vote_pairs import Block, VotePairs
from quorate.votes import Votes

CELLS: Final = 1 << 22  # numbers of labels per pair held at once

Ints = NDArray[np.int64]
Keys = Callable[[Block], Ints]  # from pairs of votes to the cell of each


@dataclass(frozen=True, eq=False)
class Cells:
    """The tables of all pairs of workers, as the cells that are not empty, in the order of (a, b, label, label)."""

    keys: Ints  # [cells] ((a * workers + b) * K + what a said) * K + what b said
    counts: Ints  # [cells] tasks
    key_of: Keys
    size: int  # one above the largest possible key
    n_workers: int
    n_labels: int

    def starts(self) -> Ints:
        """Returns where the cells of each pair of workers begin, [pairs]."""
        return np.flatnonzero(np.diff(self.keys // self.n_labels**2, prepend=-1))


@dataclass(frozen=True, eq=False)
class PairFigures:
    """Every pair of workers that shares a task."""

    a: Ints  # [pairs] code of the worker that comes first
    b: Ints  # [pairs]
    shared: Ints  # [pairs] pairs of their votes on the same task: the shared tasks, where nobody votes twice
    agreement: Floats  # [pairs] the share of them that agree
    kappa: Floats  # [pairs] Cohen's kappa; NaN where chance explains all
    pi: Floats  # [pairs] Scott's pi

    def __len__(self) -> int:
        return len(self.a)

    def mean(self, figure: Floats) -> float:
        """Returns the mean of a figure over pairs, weighted by the tasks they share; NaN counts for nothing."""
        there = ~np.isnan(figure)
        weight = self.shared[there].sum()
        return float((figure[there] * self.shared[there]).sum() / weight) if weight else float("nan")


class Part(NamedTuple):
    """Some pairs of workers with the cells of their tables."""

    pairs: slice
    cells: slice
    pair: Ints  # [cells] counted from the first pair of the part
    said_a: Ints  # [cells]
    said_b: Ints  # [cells]
    labels_a: Floats  # [pairs, K] what a said on the shared tasks
    labels_b: Floats  # [pairs, K]


def table_keys(votes: Votes) -> tuple[Keys, int]:
    """Returns the function from pairs of votes to cells, and the number of cells there could be."""
    w, k = votes.n_workers, votes.n_labels
    worker, label = votes.row_worker(), votes.row_label.astype(np.int64)
    left, right = worker * (w * k * k) + label * k, worker * (k * k) + label
    return lambda block: left[block.left] + right[block.right], w * w * k * k


def tables(vote_pairs: VotePairs) -> Cells:
    """Returns the tables of all pairs of workers that share a task."""
    votes = vote_pairs.votes
    key_of, size = table_keys(votes)
    tally = Tally(size)
    for block in vote_pairs:
        tally.add(key_of(block))
    return Cells(*tally.counts(), key_of, size, votes.n_workers, votes.n_labels)


def figures(cells: Cells) -> PairFigures:
    """Returns agreement, Cohen's kappa and Scott's pi of every pair."""
    k, starts = cells.n_labels, cells.starts()
    a, b = np.divmod(cells.keys[starts] // k**2, cells.n_workers)
    shared = np.add.reduceat(cells.counts, starts) if len(starts) else starts
    agreement, kappa, pi = np.zeros(len(a)), np.zeros(len(a)), np.zeros(len(a))
    for part in parts(cells, starts):
        n = shared[part.pairs]
        same = part.said_a == part.said_b
        agreement[part.pairs] = sum_by(part.pair, cells.counts[part.cells] * same, len(n)) / n
        kappa[part.pairs] = beyond_chance(agreement[part.pairs], cohen_chance(part.labels_a, part.labels_b))
        pi[part.pairs] = beyond_chance(agreement[part.pairs], scott_chance(part.labels_a, part.labels_b))
    return PairFigures(a, b, shared, agreement, kappa, pi)


def cohen_chance(labels_a: Floats, labels_b: Floats) -> Floats:
    """Returns sum of p_ak p_bk, from the labels each gave on the shared tasks, [..., K]."""
    out: Floats = (labels_a * labels_b).sum(axis=-1) / np.maximum(labels_a.sum(axis=-1) ** 2, 1)
    return out


def scott_chance(labels_a: Floats, labels_b: Floats) -> Floats:
    """Returns sum of ((p_ak + p_bk) / 2)^2, from the labels each gave on the shared tasks, [..., K]."""
    both = labels_a + labels_b
    out: Floats = (both**2).sum(axis=-1) / np.maximum(both.sum(axis=-1) ** 2, 1)
    return out


def parts(cells: Cells, starts: Ints) -> Iterator[Part]:
    """Yields all pairs with their tables' margins, some at a time."""
    k = cells.n_labels
    ends = np.append(starts[1:], len(cells.keys))
    for first in range(0, len(starts), step := max(1, CELLS // k)):
        last = min(first + step, len(starts))
        some = slice(int(starts[first]), int(ends[last - 1]))
        pair = np.repeat(np.arange(last - first), (ends - starts)[first:last])
        said_a, said_b = np.divmod(cells.keys[some] % k**2, k)
        counts, n = cells.counts[some], (last - first) * k
        labels_a = sum_by(pair * k + said_a, counts, n).reshape(-1, k)
        labels_b = sum_by(pair * k + said_b, counts, n).reshape(-1, k)
        yield Part(slice(first, last), some, pair, said_a, said_b, labels_a, labels_b)
