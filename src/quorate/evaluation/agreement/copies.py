"""Workers who copy each other: pairs that give the same wrong answers far more often than chance.

For a pair of workers and a task of label z, two who judge for themselves both say k with probability p_a(k|z) p_b(k|z);
one who copies says what the other says. If a share c of the answers is copied, the votes of the pair are

    product over shared tasks of  (1 - c) + c / p(k|z)  where they agree on k,  1 - c  where they disagree

times as probable, 1 / p the mean of 1 / p_a and 1 / p_b (either may be the copier). A right answer both would have
given anyway says little; a rare wrong one says much. If nobody copies, these odds have mean 1 whatever the skills, so
any of m pairs exceeds m / q with probability q at most, and e-BH (Wang and Ramdas, 2022) keeps the expected share of
false finds below q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.votes import Votes
from quorate.evaluation.agreement.coefficients import ratio
from quorate.evaluation.agreement.pairs import Tally, VotePairs
from quorate.evaluation.agreement.reference import Reference
from quorate.evaluation.agreement.resample import Drawing, Estimate, estimates
from quorate.evaluation.agreement.sums import Floats, Sums, by_task, sum_by

FALSE: Final = 0.02  # the share of false finds that is let pass
COPIED: Final = 0.6  # far beyond chance: at least this share of answers looks copied
TRIED: Final = (0.6, 0.7, 0.8, 0.9, 0.97)  # shares c whose odds are averaged
FINE: Final = np.append(np.arange(0.05, 0.96, 0.05), 0.97)  # shares among which the likeliest is reported
ONE: Final = 1.0  # vote of the mean worker lent to each worker and label, so that no probability is 0
Ints = NDArray[np.int64]
CHUNK: Final = 1 << 18  # tasks looked at at once, so that copies stay small


@dataclass(frozen=True, eq=False)
class Seen:
    """What pairs of workers said on tasks of known label, and where they agree: cells of (pair, label of the task, answer)."""

    pairs: Ints  # [pairs] a * workers + b, in order
    shared: Ints  # [pairs] tasks
    pair: Ints  # [cells] place in `pairs`
    label: Ints  # [cells] of the task
    said: Ints  # [cells] by both
    counts: Ints  # [cells]

    def same_wrong(self) -> Ints:
        """Return how often both gave the same wrong answer, [pairs]."""
        return sum_by(self.pair, self.counts * (self.label != self.said), len(self.pairs)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Copies:
    """Pairs of workers, one of whom seems to copy the other, the surest first."""

    a: Ints  # [found]
    b: Ints  # [found]
    shared: Ints  # [found] tasks of known label
    same_wrong: Ints  # [found] of them with the same wrong answer
    copied: Floats  # [found] likeliest share of copied answers
    log_odds: Floats  # [found] how much likelier copying makes their votes

    def __len__(self) -> int:
        return len(self.a)


def nothing() -> Copies:
    """Return what is found where nobody copies."""
    none, nil = np.zeros(0, np.int64), np.zeros(0)
    return Copies(none, none, none, none, nil, nil)


def gather(vote_pairs: VotePairs, reference: Reference) -> Seen:
    """Return what the votes say about every pair; no worker may have two votes on a task."""
    votes = vote_pairs.votes
    w, k = votes.n_workers, votes.n_labels
    worker, label = votes.row_worker(), votes.row_label.astype(np.int64)
    all_known = bool((reference.labels >= 0).all())
    by_pair, by_cell = Tally(w * w), Tally(w * w * k * (k + 1))
    for block in vote_pairs:
        pair, z = worker[block.left] * w + worker[block.right], reference.labels[block.task]
        by_pair.add(pair if all_known else pair[z >= 0])
        said = label[block.left]
        same = (said == label[block.right]) & (z >= 0)
        by_cell.add(((pair * (k + 1) + z) * k + said)[same])
    pairs, shared = by_pair.counts()
    keys, counts = by_cell.counts()
    pair, cell = np.divmod(keys, k * (k + 1))
    return Seen(pairs, shared, np.searchsorted(pairs, pair), *np.divmod(cell, k), counts)


def find(votes: Votes, reference: Reference, seen: Seen) -> Copies:
    """Return the pairs of workers, one of whom seems to copy the other."""
    n = len(seen.pairs)
    surprise = _surprise(votes, reference, seen)
    differ = seen.shared - sum_by(seen.pair, seen.counts, n)

    def log_odds(c: float, cells: slice | NDArray[np.bool_], pair: Ints, differ: Floats) -> Floats:
        alike = sum_by(pair, seen.counts[cells] * np.log1p(c * (surprise[cells] - 1)), len(differ))
        out: Floats = alike + differ * np.log1p(-c)
        return out

    # The log odds rise from 0 to one peak, so a peak at COPIED or above makes them positive at COPIED.
    at_least = log_odds(COPIED, slice(None), seen.pair, differ)
    likely = np.flatnonzero(at_least > 0)
    cells = at_least[seen.pair] > 0
    pair = np.searchsorted(likely, seen.pair[cells])
    by_share = np.stack([log_odds(c, cells, pair, differ[likely]) for c in (*TRIED, *FINE)])
    odds = np.logaddexp.reduce(by_share[: len(TRIED)], axis=0) - np.log(len(TRIED))
    copied = FINE[by_share[len(TRIED) :].argmax(axis=0)]
    odds = np.where(copied >= COPIED - 1e-9, odds, -np.inf)
    found = _significant(odds, n)
    at = likely[found]
    a, b = np.divmod(seen.pairs[at], votes.n_workers)
    return Copies(a, b, seen.shared[at], seen.same_wrong()[at], copied[found], odds[found])


def rings(n_workers: int, a: Ints, b: Ints) -> Ints:
    """Return the ring of each worker, [workers]: the lowest code that pairs lead to, one's own without any.

    >>> rings(5, np.array([1, 3]), np.array([3, 4])).tolist()
    [0, 1, 2, 1, 1]
    """
    ring = np.arange(n_workers)
    while True:
        lower = ring.copy()
        np.minimum.at(lower, a, ring[b])
        np.minimum.at(lower, b, ring[a])
        lower = lower[lower]
        if (lower == ring).all():
            return ring
        ring = lower


def _surprise(votes: Votes, reference: Reference, seen: Seen) -> Floats:
    """Return the mean of 1 / p_a(k|z) and 1 / p_b(k|z) for every cell."""
    k = votes.n_labels
    counts = np.zeros(votes.n_rows * (k + 1))
    for start in range(0, votes.n_tasks, step := 1 << 18):
        ptr = votes.task_ptr[start : start + step + 1]
        z = np.repeat(reference.labels[start : start + step], np.diff(ptr))
        key = votes.row[ptr[0] : ptr[-1]].astype(np.int64) * (k + 1) + z
        counts += np.bincount(key[z >= 0], minlength=len(counts))
    by_row = counts.reshape(-1, k + 1)  # [rows, label of the task]
    tasks = np.add.reduceat(by_row, votes.worker_ptr[:-1])  # [workers, label of the task]
    crowd = np.zeros((k, k + 1))
    np.add.at(crowd, votes.row_label, by_row)
    crowd /= np.maximum(crowd.sum(axis=0), 1)
    probability = (by_row + ONE * crowd[votes.row_label]) / (tasks[votes.row_worker()] + ONE)
    row_key = votes.row_worker() * k + votes.row_label  # increasing: rows are sorted by worker, then label
    out = np.zeros(len(seen.counts))
    for worker in np.divmod(seen.pairs, votes.n_workers):
        out += 0.5 / probability[np.searchsorted(row_key, worker[seen.pair] * k + seen.said), seen.label]
    return out


def _significant(log_odds: Floats, tests: int) -> Ints:
    """Return the places of the odds that stand out of so many tests (e-BH): the i-th largest exceeds tests / (q i)."""
    order = np.argsort(-log_odds, kind="stable")
    passes = np.flatnonzero(log_odds[order] >= np.log(max(tests, 1) / FALSE) - np.log(np.arange(1, len(order) + 1)))
    return order[: passes[-1] + 1] if len(passes) else order[:0]


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors against a reference."""

    votes_per_task: float  # mean, over tasks whose label is known
    correlation: Estimate  # of the errors of two votes on the same task
    effective_votes: Estimate  # independent votes that the votes of a task amount to


def measure(votes: Votes, reference: Reference | None, drawing: Drawing) -> Errors:
    """Return the mean correlation of errors and the effective votes.

    With x = 1 for a wrong vote and 0 for a right one, less its mean over the worker's votes, the correlation is the mean of
    x x' over that of (x^2 + x'^2) / 2, over all pairs of votes on the same task: pairs of workers weigh as their shared
    tasks do, and none needs many of them. The mean error of n votes so correlated by r varies as that of
    n / (1 + (n - 1) r) independent ones (Kish). The workers' means are held fixed in the resamples.
    """
    if reference is None:
        return Errors(float(np.diff(votes.task_ptr).mean()), Estimate(np.nan), Estimate(np.nan))
    known, rng = reference.labels >= 0, drawing.rng(3)
    n = float(np.diff(votes.task_ptr)[known].mean())
    rate = _error_rates(votes, reference)
    atoms = by_task(votes.n_tasks, 2, rng)
    sums = {"products": np.zeros(len(atoms)), "squares": np.zeros(len(atoms))}
    row_worker = votes.row_worker()
    for start in range(0, votes.n_tasks, CHUNK):
        task, row, wrong = _chunk(votes, reference, start)
        x, atom = wrong - rate[row_worker[row]], atoms.atom[start : start + CHUNK]
        votes_in, squares = sum_by(task, np.ones(len(x)), len(atom)), sum_by(task, x**2, len(atom))
        sums["products"] += sum_by(atom, sum_by(task, x, len(atom)) ** 2 - squares, len(atoms))
        sums["squares"] += sum_by(atom, np.maximum(votes_in - 1, 0) * squares, len(atoms))
    figures = {"correlation": _correlation, "effective": lambda sums: effective(n, _correlation(sums))}
    found = estimates(figures, sums, atoms, drawing, rng)
    return Errors(n, found["correlation"], found["effective"])


def effective(n: float, correlation: Floats) -> Floats:
    """Return n / (1 + (n - 1) r), r taken as 0 where it is negative: a panel is never worth more than its votes.

    >>> effective(9.0, np.array([0.0, 0.5, 1.0])).tolist()
    [9.0, 1.8, 1.0]
    """
    out: Floats = n / (1 + (n - 1) * np.maximum(correlation, 0.0))
    return out


def _correlation(sums: Sums) -> Floats:
    return ratio(sums["products"], sums["squares"])


def _error_rates(votes: Votes, reference: Reference) -> Floats:
    """Return the share of wrong votes of each worker, [workers]; 0 without a vote on a task whose label is known."""
    wrong, seen = np.zeros(votes.n_rows), np.zeros(votes.n_rows)
    for start in range(0, votes.n_tasks, CHUNK):
        _, row, wrongs = _chunk(votes, reference, start)
        wrong += np.bincount(row, wrongs, minlength=votes.n_rows)
        seen += np.bincount(row, minlength=votes.n_rows)
    starts = votes.worker_ptr[:-1]
    totals = np.add.reduceat(seen, starts)
    return np.divide(np.add.reduceat(wrong, starts), totals, out=np.zeros(len(starts)), where=totals > 0)


def _chunk(votes: Votes, reference: Reference, start: int) -> tuple[NDArray[np.int64], NDArray[np.uint32], Floats]:
    """Return task (counted from `start`), row and wrongness of the votes of some tasks whose label is known."""
    ptr = votes.task_ptr[start : start + CHUNK + 1]
    task = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    label = reference.labels[start : start + CHUNK][task]
    row = votes.row[ptr[0] : ptr[-1]]
    if (label < 0).any():
        task, row, label = task[label >= 0], row[label >= 0], label[label >= 0]
    return task, row, (votes.row_label[row] != label).astype(np.float64)
