"""Pairs of workers: what both said on the tasks they share, how far they agree beyond chance, and what copying explains.

The means of Cohen's kappa and Scott's pi over pairs are resampled like every other figure where the panel is small. In a
large crowd a resample would count the tables of all pairs again, a thousand times. There the interval comes from the
influence of each task on the mean (the derivative by the task's weight), to which the bootstrap tends as tasks grow many.

Who copies whom is decided elsewhere (`adjudge.results.trust.copies`). Here the pairs of a ring are described: two workers
who judge for themselves both say k on a task of label z with probability p_a(k|z) p_b(k|z); a worker who copies says what
the other says. If a share c of the answers is copied, the votes of the pair are

    product over shared tasks of  (1 - c) + c / p(k|z)  where they agree on k,  1 - c  where they disagree

times as probable, with 1 / p the mean of 1 / p_a and 1 / p_b (either may be the one who copies). A right answer that both
would have given anyway says little; a rare wrong one says much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import freeze
from adjudge.data.votes import Votes
from adjudge.errors import AdjudgeError
from adjudge.evaluation import intervals
from adjudge.evaluation.intervals import (
    Bootstrap,
    Estimate,
    Floats,
    Integers,
    ResamplingUnits,
    Sums,
    beyond_chance,
    ratio,
    sum_by,
)
from adjudge.results.trust.posterior import Ballots

MAX_DENSE_KEYS: Final = 1 << 25  # keys counted in one array, of 32 bits each
MAX_PENDING_KEYS: Final = 1 << 22  # sorted keys held before they are merged
MAX_PAIR_TABLE_CELLS: Final = 1 << 23  # maximum number of distinct keys, if they are sorted
BLOCK_PAIRS: Final = 1 << 19  # pairs of votes per block, so that copies stay small
MAX_LABEL_COUNTS: Final = 1 << 19  # numbers of labels per pair held at once
MAX_COUNTED_VOTE_PAIRS: Final = 1 << 26  # pairs of votes that are counted; a task of n votes has n (n - 1) / 2
CHUNK_TASKS: Final = 1 << 18  # per block
MAX_RESAMPLED: Final = 2048  # numbers per task that a resample may sum: pairs of workers x (2 K + 1)
COPY_SHARES: Final = (0.6, 0.7, 0.8, 0.9, 0.97)  # shares c whose odds are averaged
FINE_SHARES: Final = np.append(np.arange(0.05, 0.96, 0.05), 0.97)  # shares among which the likeliest is reported
CROWD_VOTES: Final = 1.0  # pseudo-votes of the mean worker for each worker and label, so that no probability is 0


class TooManyError(AdjudgeError):
    """There are more distinct keys than fit into memory."""


class KeyCounts:
    """Counts of keys 0 … size - 1, added block by block.

    >>> t = KeyCounts(10)
    >>> t.add(np.array([3, 1, 3]))
    >>> [part.tolist() for part in t.counts()]
    [[1, 3], [1, 2]]
    """

    def __init__(self, size: int) -> None:
        self._dense = np.zeros(size, np.int32) if size <= MAX_DENSE_KEYS else None
        self._keys = self._counts = np.zeros(0, np.int64)
        self._pending: list[Integers] = []

    def add(self, keys: Integers) -> None:
        """Count these keys."""
        if self._dense is not None:
            np.add.at(self._dense, keys, np.int32(1))
            return
        self._pending.append(keys)
        if sum(map(len, self._pending)) > MAX_PENDING_KEYS:
            self._merge()

    def counts(self) -> tuple[Integers, Integers]:
        """Return the keys that occur, in order, and how often each occurs."""
        if self._dense is not None:
            keys = np.flatnonzero(self._dense)
            return keys, self._dense[keys].astype(np.int64)
        self._merge()
        return self._keys, self._counts

    def _merge(self) -> None:
        found, times = np.unique(np.concatenate([np.zeros(0, np.int64), *self._pending]), return_counts=True)
        self._pending = []
        if len(self._keys):
            keys, counts = np.concatenate([self._keys, found]), np.concatenate([self._counts, times])
            order = np.argsort(keys, kind="stable")  # of two sorted runs: a merge
            keys, counts = keys[order], counts[order]
            first = np.flatnonzero(np.diff(keys, prepend=-1))
            found, times = keys[first], np.add.reduceat(counts, first)
        self._keys, self._counts = found, times
        if len(found) > MAX_PAIR_TABLE_CELLS:
            raise TooManyError(f"more than {MAX_PAIR_TABLE_CELLS} cells")


class PairBlock(NamedTuple):
    """Pairs of votes; the first is that of the worker with the lower code."""

    task: Integers  # [pairs]
    left: NDArray[np.uint32]  # [pairs] rows of the first votes
    right: NDArray[np.uint32]  # [pairs] rows of the second votes


class VotePairs:
    """All pairs of votes on the same task by different workers; iterates over blocks, any number of times.

    >>> import adjudge as adj
    >>> pairs = VotePairs(adj.read([("t", "ann", "x"), ("t", "bob", "y"), ("t", "bob", "x")]))
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
        self._first = Ballots.of(votes).first_votes()
        self.repeats = len(votes) - len(self._first.row)

    def once(self) -> VotePairs:
        """Return the pairs of votes without repeats: of a worker's votes on a task the first in order of labels stays."""
        if not self.repeats:
            return self
        first = self._first
        return VotePairs(replace(self.votes, task_ptr=freeze(first.task_ptr), row=freeze(first.row)))

    def __iter__(self) -> Iterator[PairBlock]:
        votes, row_worker = self.votes, self.votes.row_worker()
        for first, last in _spans(votes.task_ptr):
            task = _tasks(votes.task_ptr, first, last)
            position = np.arange(first, last)
            rest = votes.task_ptr[1:][task] - position - 1  # the votes of the same task that follow
            right = np.repeat(position + 1 - (np.cumsum(rest) - rest), rest)
            right += np.arange(len(right))
            block = PairBlock(np.repeat(task, rest), np.repeat(votes.row[first:last], rest), votes.row[right])
            if self.repeats:
                apart = row_worker[block.left] != row_worker[block.right]
                block = PairBlock(*(part[apart] for part in block))
            yield block


Keys = Callable[[PairBlock], Integers]  # from pairs of votes to the cell of each


@dataclass(frozen=True, eq=False)
class PairTables:
    """The tables of all pairs of workers: the cells that are not empty, in the order of (a, b, label, label)."""

    keys: Integers  # [cells] ((a * workers + b) * K + what a said) * K + what b said
    counts: Integers  # [cells] tasks
    key_of: Keys
    size: int  # one above the largest possible key
    n_workers: int
    n_labels: int

    def starts(self) -> Integers:
        """Return where the cells of each pair of workers begin, [pairs]."""
        return np.flatnonzero(np.diff(self.keys // self.n_labels**2, prepend=-1))


@dataclass(frozen=True, eq=False)
class PairFigures:
    """Every pair of workers that shares a task."""

    a: Integers  # [pairs] code of the worker that comes first
    b: Integers  # [pairs]
    shared: Integers  # [pairs] pairs of their votes on the same task: the shared tasks, if nobody votes twice
    agreement: Floats  # [pairs] the share of them that agree
    kappa: Floats  # [pairs] Cohen's kappa; NaN where chance explains all
    pi: Floats  # [pairs] Scott's pi

    def __len__(self) -> int:
        return len(self.a)

    def mean(self, figure: Floats) -> float:
        """Return the mean of a figure over pairs, weighted by the tasks they share, without NaN."""
        there = ~np.isnan(figure)
        weight = self.shared[there].sum()
        return float((figure[there] * self.shared[there]).sum() / weight) if weight else float("nan")


class PairTablePart(NamedTuple):
    """Some pairs of workers with the cells of their tables."""

    pairs: slice
    cells: slice
    pair: Integers  # [cells] counted from the first pair of the part
    said_a: Integers  # [cells]
    said_b: Integers  # [cells]
    labels_a: Floats  # [pairs, K] what a said on the shared tasks; label by label in memory, as there are few of them
    labels_b: Floats  # [pairs, K]


def pair_tables(vote_pairs: VotePairs) -> PairTables:
    """Return the tables of all pairs of workers that share a task."""
    votes = vote_pairs.votes
    w, k, worker, label = votes.n_workers, votes.n_labels, votes.row_worker(), votes.row_label.astype(np.int64)
    left, right = worker * (w * k * k) + label * k, worker * (k * k) + label

    def key_of(block: PairBlock) -> Integers:
        return left[block.left] + right[block.right]

    counts = KeyCounts(w * w * k * k)
    for block in vote_pairs:
        counts.add(key_of(block))
    return PairTables(*counts.counts(), key_of, w * w * k * k, w, k)


def figures(tables: PairTables) -> PairFigures:
    """Return agreement, Cohen's kappa and Scott's pi of every pair."""
    k, starts = tables.n_labels, tables.starts()
    a, b = np.divmod(tables.keys[starts] // k**2, tables.n_workers)
    shared = np.add.reduceat(tables.counts, starts) if len(starts) else starts
    agreement, kappa, pi = np.zeros(len(a)), np.zeros(len(a)), np.zeros(len(a))
    for part in _table_parts(tables, starts):
        n = shared[part.pairs]
        same = part.said_a == part.said_b
        agreement[part.pairs] = sum_by(part.pair, tables.counts[part.cells] * same, len(n)) / n
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


CHANCE: Final = {"cohen": cohen_chance, "scott": scott_chance}


def pair_means(vote_pairs: VotePairs, tables: PairTables, pairs: PairFigures, bootstrap: Bootstrap) -> dict[str, Estimate]:
    """Return the means of Cohen's kappa and of Scott's pi over pairs, weighted by shared tasks."""
    votes = vote_pairs.votes
    values = {"cohen": pairs.mean(pairs.kappa), "scott": pairs.mean(pairs.pi)}
    if not bootstrap.resamples or not len(pairs):
        return {name: Estimate(value) for name, value in values.items()}
    rng = bootstrap.rng(2)
    numbers = len(pairs) * (2 * votes.n_labels + 1)
    units = intervals.by_task(votes.n_tasks, numbers, rng)
    if numbers <= MAX_RESAMPLED and tables.size * len(units) <= MAX_DENSE_KEYS:
        sums = _pair_sums(vote_pairs, tables, len(pairs), units)
        drawn = {name: _mean_of(chance) for name, chance in CHANCE.items()}
        return intervals.estimates(drawn, sums, units, bootstrap, rng)
    half = NormalDist().inv_cdf((1 + bootstrap.level) / 2) * np.sqrt((influence(vote_pairs, tables, pairs) ** 2).sum(axis=0))
    return {
        name: Estimate(value, max(value - wide, -1.0), min(value + wide, 1.0))
        for (name, value), wide in zip(values.items(), half.tolist(), strict=True)
    }


def influence(vote_pairs: VotePairs, tables: PairTables, pairs: PairFigures) -> Floats:
    """Return the influence of each task on the two means, [tasks, 2]: their derivatives by its weight, which sum to 0."""
    at_cell = _cell_influence(tables, pairs)
    table = None
    if tables.size <= MAX_DENSE_KEYS:
        table = np.zeros((tables.size, 2), np.float32)
        table[tables.keys] = at_cell
    out = np.zeros((vote_pairs.votes.n_tasks, 2))
    for block in vote_pairs:
        key = tables.key_of(block)
        moved = at_cell[_find(tables.keys, key)] if table is None else table.take(key, axis=0)
        first = int(block.task[0]) if len(key) else 0
        for column in range(2):
            added = np.bincount(block.task - first, moved[:, column])
            out[first : first + len(added), column] += added
    return out


def _find(keys: Integers, wanted: Integers) -> Integers:
    """Return the places of the wanted among sorted keys, [wanted]: sorted first, so that neighbours share cache lines."""
    order, place = np.argsort(wanted), np.empty(len(wanted), np.int64)
    place[order] = np.searchsorted(keys, wanted[order])
    return place


def _pair_sums(vote_pairs: VotePairs, tables: PairTables, n_pairs: int, units: ResamplingUnits) -> Sums:
    """Return for every unit and pair the votes that agree, and the labels of each worker on shared tasks."""
    votes = vote_pairs.votes
    counting = KeyCounts(tables.size * len(units))
    for block in vote_pairs:
        counting.add(units.unit[block.task] * tables.size + tables.key_of(block))
    keys, counts = counting.counts()
    unit, key = np.divmod(keys, tables.size)
    pair = np.searchsorted(tables.keys[tables.starts()] // votes.n_labels**2, key // votes.n_labels**2)
    said_a, said_b = np.divmod(key % votes.n_labels**2, votes.n_labels)
    at = unit * n_pairs + pair
    shape, k = (len(units), n_pairs), votes.n_labels
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


def _cell_influence(tables: PairTables, pairs: PairFigures) -> NDArray[np.float32]:
    """Return the influence of one more pair of votes in each cell on the two means, [cells, 2].

    With o the agreement, e the chance, c the figure and n the shared tasks of a pair, the mean is sum(n c) / sum(n),
    and n dc = (dn_o - o) / (1 - e) - (dn_e - 2 e) (1 - o) / (1 - e)^2.
    """
    figures = {"cohen": pairs.kappa, "scott": pairs.pi}
    means = {name: pairs.mean(figure) for name, figure in figures.items()}
    weights = {name: max(float(pairs.shared[~np.isnan(figure)].sum()), 1.0) for name, figure in figures.items()}
    out = np.zeros((len(tables.keys), 2), np.float32)  # single precision suffices for the width of an interval
    for part in _table_parts(tables, tables.starts()):
        n, o = pairs.shared[part.pairs], pairs.agreement[part.pairs]
        hit = part.said_a == part.said_b
        at_a, at_b = part.said_a * len(n) + part.pair, part.said_b * len(n) + part.pair
        labels_a, labels_b = (labels.T.ravel().astype(np.float32) for labels in (part.labels_a, part.labels_b))
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


@dataclass(frozen=True, eq=False)
class CommonAnswers:
    """What both workers of a pair said alike on tasks of known label: cells of (pair, label of the task, answer)."""

    shared: Integers  # [pairs] tasks of known label
    same_wrong: Integers  # [pairs] of them with the same wrong answer
    pair: Integers  # [cells] index of the pair
    label: Integers  # [cells] of the task
    said: Integers  # [cells] by both
    counts: Integers  # [cells]


def common_answers(once: VotePairs, labels: Integers, pairs: PairFigures) -> CommonAnswers:
    """Return what the pairs said alike, from votes without repeats and the label of each task, [tasks].

    A label is K if nobody gave it, and -1 if it is not known.
    """
    votes = once.votes
    w, k = votes.n_workers, votes.n_labels
    worker, label = votes.row_worker(), votes.row_label.astype(np.int64)
    is_counted = bool((labels >= 0).all()) and int(pairs.shared.sum()) == once.number  # all tasks, and no repeats
    by_pair, by_cell = KeyCounts(w * w), KeyCounts(w * w * k * (k + 1))
    for block in once:
        pair, z = worker[block.left] * w + worker[block.right], labels[block.task]
        by_pair.add(pair[:0] if is_counted else pair[z >= 0])
        said = label[block.left]
        same = (said == label[block.right]) & (z >= 0)
        by_cell.add(((pair * (k + 1) + z) * k + said)[same])
    every = pairs.a * w + pairs.b
    shared = pairs.shared if is_counted else np.zeros(len(pairs), np.int64)
    keys, counts = by_pair.counts()
    shared[np.searchsorted(every, keys)] = counts
    keys, counts = by_cell.counts()
    key, cell = np.divmod(keys, k * (k + 1))
    pair, (z, said) = np.searchsorted(every, key), np.divmod(cell, k)
    same_wrong = sum_by(pair, counts * (z != said), len(pairs)).astype(np.int64)
    return CommonAnswers(shared, same_wrong, pair, z, said, counts)


@dataclass(frozen=True, eq=False)
class CopyingPairs:
    """Pairs of workers in the same ring, the surest first."""

    a: Integers  # [found]
    b: Integers  # [found]
    shared: Integers  # [found] tasks of known label
    same_wrong: Integers  # [found] of them with the same wrong answer
    copied: Floats  # [found] likeliest share of copied answers; NaN if no shared task is known
    log_odds: Floats  # [found] how much likelier copying makes their votes

    def __len__(self) -> int:
        return len(self.a)


def no_copying() -> CopyingPairs:
    """Return the pairs of a crowd in which nobody copies."""
    none, nothing = np.zeros(0, np.int64), np.zeros(0)
    return CopyingPairs(none, none, none, none, nothing, nothing)


def copying_pairs(votes: Votes, labels: Integers, pairs: PairFigures, common: CommonAnswers, ring: Integers) -> CopyingPairs:
    """Return the pairs in the same ring, [workers], with the odds of copying; labels of tasks as in `common_answers`."""
    is_copying = (ring[pairs.a] >= 0) & (ring[pairs.a] == ring[pairs.b])
    found = np.flatnonzero(is_copying)
    cells = np.flatnonzero(is_copying[common.pair])
    pair, counts, n = np.searchsorted(found, common.pair[cells]), common.counts[cells], len(found)
    surprise = _surprise(votes, labels, pairs, common, cells)
    shared = common.shared[found]
    differ = shared - sum_by(pair, counts, n)
    log_odds = np.stack(
        [sum_by(pair, counts * np.log1p(c * (surprise - 1)), n) + differ * np.log1p(-c) for c in (*COPY_SHARES, *FINE_SHARES)]
    )
    mean = np.logaddexp.reduce(log_odds[: len(COPY_SHARES)], axis=0) - np.log(len(COPY_SHARES))
    copied = np.where(shared > 0, FINE_SHARES[log_odds[len(COPY_SHARES) :].argmax(axis=0)], np.nan)
    order = np.argsort(-mean, kind="stable")
    at = found[order]
    return CopyingPairs(pairs.a[at], pairs.b[at], shared[order], common.same_wrong[at], copied[order], mean[order])


def _surprise(votes: Votes, labels: Integers, pairs: PairFigures, common: CommonAnswers, cells: Integers) -> Floats:
    """Return the mean of 1 / p_a(k|z) and 1 / p_b(k|z) for some cells, [cells]."""
    k = votes.n_labels
    counts = np.zeros(votes.n_rows * (k + 1))
    for start in range(0, votes.n_tasks, CHUNK_TASKS):
        ptr = votes.task_ptr[start : start + CHUNK_TASKS + 1]
        z = np.repeat(labels[start : start + CHUNK_TASKS], np.diff(ptr))
        key = votes.row[ptr[0] : ptr[-1]].astype(np.int64) * (k + 1) + z
        counts += np.bincount(key[z >= 0], minlength=len(counts))
    by_row = counts.reshape(-1, k + 1)  # [rows, label of the task]
    tasks = np.add.reduceat(by_row, votes.worker_ptr[:-1])  # [workers, label of the task]
    crowd = np.zeros((k, k + 1))
    np.add.at(crowd, votes.row_label, by_row)
    crowd /= np.maximum(crowd.sum(axis=0), 1)
    probability = (by_row + CROWD_VOTES * crowd[votes.row_label]) / (tasks[votes.row_worker()] + CROWD_VOTES)
    row_key = votes.row_worker() * k + votes.row_label  # increasing: rows are sorted by worker, then label
    pair, label, said = common.pair[cells], common.label[cells], common.said[cells]
    out = np.zeros(len(cells))
    for worker in (pairs.a, pairs.b):
        out += 0.5 / probability[np.searchsorted(row_key, worker[pair] * k + said), label]
    return out


def _tasks(task_ptr: Integers, first: int, last: int) -> Integers:
    """Return the task of each of these votes."""
    start = int(np.searchsorted(task_ptr, first, side="right")) - 1
    end = int(np.searchsorted(task_ptr, last, side="left"))
    ptr = np.clip(task_ptr[start : end + 1], first, last)
    return np.repeat(np.arange(start, end), np.diff(ptr))


def _spans(task_ptr: Integers) -> Iterator[tuple[int, int]]:
    """Yield ranges of votes that form about `BLOCK_PAIRS` pairs with the later votes of their tasks."""
    size = np.diff(task_ptr)
    done = np.concatenate([[0], np.cumsum(size * (size - 1) // 2)])
    start = 0
    while start < len(size):
        end = max(int(np.searchsorted(done, done[start] + BLOCK_PAIRS, side="right")) - 1, start + 1)
        first, last = int(task_ptr[start]), int(task_ptr[end])
        step = last - first if end > start + 1 else max(1, BLOCK_PAIRS // int(size[start]))  # one large task is split
        for begin in range(first, last, max(step, 1)):
            yield begin, min(begin + step, last)
        start = end


def _table_parts(tables: PairTables, starts: Integers) -> Iterator[PairTablePart]:
    """Yield some pairs at a time, with the margins of their tables."""
    k = tables.n_labels
    ends = np.append(starts[1:], len(tables.keys))
    for first in range(0, len(starts), step := max(1, MAX_LABEL_COUNTS // k)):
        last = min(first + step, len(starts))
        some = slice(int(starts[first]), int(ends[last - 1]))
        pair = np.repeat(np.arange(last - first), (ends - starts)[first:last])
        said_a, said_b = np.divmod(tables.keys[some] % k**2, k)
        counts, n = tables.counts[some], (last - first) * k
        labels_a = sum_by(said_a * (last - first) + pair, counts, n).reshape(k, -1).T
        labels_b = sum_by(said_b * (last - first) + pair, counts, n).reshape(k, -1).T
        yield PairTablePart(slice(first, last), some, pair, said_a, said_b, labels_a, labels_b)
