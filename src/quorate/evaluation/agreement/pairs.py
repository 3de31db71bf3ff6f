"""Pairs of workers: what both said on the tasks they share, and how far they agree beyond chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.data.bounds import freeze
from quorate.data.votes import Votes
from quorate.errors import QuorateError
from quorate.evaluation.agreement.coefficients import beyond_chance
from quorate.evaluation.agreement.sums import Floats, sum_by

DENSE: Final = 1 << 25  # keys counted in one array, of 32 bits each
PENDING: Final = 1 << 22  # sorted keys held before they are merged
MOST: Final = 1 << 23  # distinct keys held at all, where they are sorted
Ints = NDArray[np.int64]
BLOCK: Final = 1 << 21  # pairs of votes looked at at once, so that copies stay small
CELLS: Final = 1 << 22  # numbers of labels per pair held at once


class TooManyError(QuorateError):
    """There are more distinct keys than can be held."""


class Tally:
    """Counts of keys 0 … size - 1, added block by block.

    >>> t = Tally(10)
    >>> t.add(np.array([3, 1, 3]))
    >>> [part.tolist() for part in t.counts()]
    [[1, 3], [1, 2]]
    """

    def __init__(self, size: int) -> None:
        self._dense = np.zeros(size, np.int32) if size <= DENSE else None
        self._keys: list[Ints] = []
        self._counts: list[Ints] = []
        self._pending = 0

    def add(self, keys: Ints) -> None:
        """Count these keys."""
        if self._dense is not None:
            np.add.at(self._dense, keys, np.int32(1))
            return
        found, times = np.unique(keys, return_counts=True)
        self._keys.append(found)
        self._counts.append(times)
        self._pending += len(found)
        if self._pending > PENDING:
            self._merge()

    def counts(self) -> tuple[Ints, Ints]:
        """Return the keys that occur, in order, and how often each does."""
        if self._dense is not None:
            keys = np.flatnonzero(self._dense)
            return keys, self._dense[keys].astype(np.int64)
        self._merge()
        return self._keys[0], self._counts[0]

    def _merge(self) -> None:
        keys = np.concatenate([np.zeros(0, np.int64), *self._keys])
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])
        order = np.argsort(keys, kind="stable")  # of sorted runs: a merge
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys, self._counts = [keys[first]], [np.add.reduceat(counts, first) if len(first) else counts]
        self._pending = 0
        if len(first) > MOST:
            raise TooManyError(f"more than {MOST} cells")


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
        """Return the pairs of votes without repeats: of a worker's votes on a task the first in order of labels stays."""
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
    """Return which votes are not the first of their worker on their task, [votes]."""
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
    """Return the task of each of these votes."""
    start = int(np.searchsorted(task_ptr, first, side="right")) - 1
    end = int(np.searchsorted(task_ptr, last, side="left"))
    ptr = np.clip(task_ptr[start : end + 1], first, last)
    return np.repeat(np.arange(start, end), np.diff(ptr))


def _spans(task_ptr: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of votes that begin about `BLOCK` pairs with the later votes of their tasks."""
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
        """Return where the cells of each pair of workers begin, [pairs]."""
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
        """Return the mean of a figure over pairs, weighted by the tasks they share; NaN counts for nothing."""
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
    """Return the function from pairs of votes to cells, and the number of cells there could be."""
    w, k = votes.n_workers, votes.n_labels
    worker, label = votes.row_worker(), votes.row_label.astype(np.int64)
    left, right = worker * (w * k * k) + label * k, worker * (k * k) + label
    return lambda block: left[block.left] + right[block.right], w * w * k * k


def tables(vote_pairs: VotePairs) -> Cells:
    """Return the tables of all pairs of workers that share a task."""
    votes = vote_pairs.votes
    key_of, size = table_keys(votes)
    tally = Tally(size)
    for block in vote_pairs:
        tally.add(key_of(block))
    return Cells(*tally.counts(), key_of, size, votes.n_workers, votes.n_labels)


def figures(cells: Cells) -> PairFigures:
    """Return agreement, Cohen's kappa and Scott's pi of every pair."""
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
    """Return sum of p_ak p_bk, from the labels each gave on the shared tasks, [..., K]."""
    out: Floats = (labels_a * labels_b).sum(axis=-1) / np.maximum(labels_a.sum(axis=-1) ** 2, 1)
    return out


def scott_chance(labels_a: Floats, labels_b: Floats) -> Floats:
    """Return sum of ((p_ak + p_bk) / 2)^2, from the labels each gave on the shared tasks, [..., K]."""
    both = labels_a + labels_b
    out: Floats = (both**2).sum(axis=-1) / np.maximum(both.sum(axis=-1) ** 2, 1)
    return out


def parts(cells: Cells, starts: Ints) -> Iterator[Part]:
    """Yield all pairs with their tables' margins, some at a time."""
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
