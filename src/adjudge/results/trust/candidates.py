"""The passes of `posterior` for many labels: on each task only the labels that its votes give are distinguished.

A posterior over all labels costs labels x votes in every pass. With hundreds of labels, nobody gives most of them on a task,
and those can share one cell: "another label", whose votes are all errors. So a task has as many *cells* as labels were given
on it, plus one. Counts are kept for the pairs (row, label) that occur in some task. The formulas are those of `posterior`, and
so are the figures, except for the labels that share a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.results.trust.posterior import (
    EQUAL_ACCURACY_VOTES,
    MAX_POSTERIOR_PASSES,
    MEAN_WORKER_VOTES,
    MIN_CHANGE,
    MIN_PASSES,
    Ballots,
    Flags,
    Floats,
    Integers,
    VoteComparison,
    guesses,
)

MIN_CANDIDATE_LABELS: Final = 64  # from here on only the labels given on a task are distinguished
MIN_PROBABILITY: Final = 1e-6
LINK_BYTES: Final = 120  # per pair of a vote and a label of its task, during passes; building the links needs as much again


class CandidateLabels(NamedTuple):
    """The labels that a task may have: those given on it, the one it starts from, and K for any other, in that order."""

    ptr: Integers  # [tasks + 1] where each task's cells begin
    task: Integers  # [cells]
    label: Integers  # [cells] codes

    @classmethod
    def of(cls, ballots: Ballots, labels: NDArray[np.int32]) -> CandidateLabels:
        """Return the cells of all tasks; `labels` are those they start from, [tasks]."""
        width, tasks = ballots.panel.n_labels + 1, np.arange(ballots.n_tasks)
        given = ballots.task() * width + ballots.label()
        key = np.unique(np.concatenate([given, tasks * width + labels, tasks * width + width - 1]))
        return cls(np.searchsorted(key, np.arange(ballots.n_tasks + 1) * width), key // width, key % width)

    def position(self, width: int, task: Integers, label: Integers) -> Integers:
        """Return the cell of each (task, label) that has one, [n]; `width` is K + 1."""
        return np.searchsorted(self.task * width + self.label, task * width + label)


class VoteLinks(NamedTuple):
    """Every vote paired with the cells of its task except the last, [links] each, and properties of the pairs."""

    vote: Integers
    cell: Integers
    row_label: Integers  # number of the pair (row, label of the cell)
    rows: Integers  # [pairs (row, label)] their rows
    labels: Integers  # [pairs (row, label)] and labels
    worker_label: Integers  # [pairs (row, label)] number of the pair (worker, label)
    workers: Integers  # [pairs (worker, label)]
    of_workers: Integers  # [pairs (worker, label)] labels
    label_given: Integers  # [pairs (row, label)] number of the pair (label, given label)
    is_given: Flags  # [pairs (row, label)] whether the row gives the label

    @classmethod
    def of(cls, ballots: Ballots, cells: CandidateLabels) -> VoteLinks:
        """Return the links of all votes."""
        k, row = ballots.panel.n_labels, ballots.row.astype(np.int64)
        own = np.diff(cells.ptr)[ballots.task()] - 1
        vote = np.repeat(np.arange(len(row)), own)
        within = np.arange(len(vote)) - np.repeat(np.cumsum(own) - own, own)
        cell = cells.ptr[ballots.task()][vote] + within
        key, number = np.unique(row[vote] * k + cells.label[cell], return_inverse=True)
        rows, labels = key // k, key % k
        by_worker, of_worker = np.unique(ballots.row_worker[rows] * k + labels, return_inverse=True)
        given = ballots.panel.row_label[rows].astype(np.int64)
        _, of_given = np.unique(labels * k + given, return_inverse=True)
        pairs = by_worker // k, by_worker % k
        return cls(vote, cell, number, rows, labels, of_worker, *pairs, of_given, given == labels)


@dataclass(frozen=True, eq=False)
class CellBelief:
    """What a posterior says of workers and labels; see `posterior.Belief`."""

    ballots: Ballots
    cells: CandidateLabels
    links: VoteLinks
    posterior: Floats  # [cells]
    priors: Floats  # [K]
    counts: Floats  # [pairs (row, label)] expected votes
    totals: Floats  # [pairs (worker, label)]
    right: Floats  # [K] the mean worker's probability to be right
    mean: Floats  # [pairs (row, label)] the mean worker's probability to give the row's label
    error: Floats  # [rows] the probability of the row's label where the task has another label than those given

    def best(self) -> Integers:
        """Return the most probable label of each task, [tasks], of those told apart."""
        told = self.cells.label < self.ballots.panel.n_labels
        order = np.lexsort((-self.posterior, self.cells.task, ~told))
        first = np.searchsorted(self.cells.task[order][: told.sum()], np.arange(self.ballots.n_tasks))
        return self.cells.label[order][first]

    def votes_right(self) -> Floats:
        """Return each worker's expected number of right votes, [workers], under the worker's own confusion."""
        at, seen = self.links, self.links.is_given
        own = np.bincount(at.worker_label[seen], self.counts[seen], minlength=len(self.totals))
        right = (MEAN_WORKER_VOTES * self.right[at.of_workers] + own) / (self.totals + MEAN_WORKER_VOTES)
        workers = self.ballots.panel.n_workers
        return np.bincount(at.workers, self.totals * right, minlength=workers).astype(np.float64, copy=False)


def start(ballots: Ballots, labels: NDArray[np.int32]) -> tuple[CandidateLabels, Floats]:
    """Return the cells of all tasks, and the posterior that gives these labels, [tasks], probability 1, [cells]."""
    cells = CandidateLabels.of(ballots, labels)
    posterior = np.zeros(len(cells.task))
    posterior[cells.position(ballots.panel.n_labels + 1, np.arange(ballots.n_tasks), labels.astype(np.int64))] = 1.0
    return cells, posterior


def settle(ballots: Ballots, cells: CandidateLabels, now: Floats, known: Flags | None = None) -> Floats:
    """Return the posterior, [cells], to which passes from one, [cells], converge; `known` tasks, [tasks], keep theirs."""
    links, k = VoteLinks.of(ballots, cells), ballots.panel.n_labels
    given = None if known is None else known[cells.task]
    for n in range(MAX_POSTERIOR_PASSES):
        after = _update(tally(ballots, cells, now, links))
        if given is not None:
            after[given] = now[given]
        change = np.abs(np.bincount(cells.label, after - now, minlength=k + 1)).sum() / max(ballots.n_tasks, 1)
        now = after
        if change < MIN_CHANGE and n + 1 >= MIN_PASSES:
            break
    return now


def tally(ballots: Ballots, cells: CandidateLabels, posterior: Floats, links: VoteLinks | None = None) -> CellBelief:
    """Return what this posterior, [cells], says of workers and labels."""
    at = VoteLinks.of(ballots, cells) if links is None else links
    panel, k = ballots.panel, ballots.panel.n_labels
    counts = np.bincount(at.row_label, posterior[at.cell], minlength=len(at.rows)).astype(np.float64, copy=False)
    totals = np.bincount(at.worker_label, counts, minlength=len(at.workers)).astype(np.float64, copy=False)
    pool = np.bincount(at.label_given, counts)
    met = np.bincount(at.labels, counts, minlength=k)
    right = np.bincount(at.labels[at.is_given], counts[at.is_given], minlength=k)
    # The mean worker, as in `posterior.mean_worker`; votes on tasks of another label are wrong, too.
    overall = (right.sum() + 1.0) / (len(ballots.row) + 1.5)
    chance = (right + EQUAL_ACCURACY_VOTES * overall) / (met + EQUAL_ACCURACY_VOTES)
    scale = (1.0 - chance) / np.maximum(met - right + 0.3 * (k - 1) / k, 1e-12)  # [K] of the errors under each true label
    errors = (pool[at.label_given] + 0.3 / k) * scale[at.labels]
    # The same for any other label: the mean over all labels but the one given.
    label, first = panel.row_label, np.unique(at.label_given, return_index=True)[1]
    wrong = first[~at.is_given[first]]
    by_given = (scale.sum() - scale) * 0.3 / k
    by_given += np.bincount(label[at.rows[wrong]], pool[at.label_given[wrong]] * scale[at.labels[wrong]], minlength=k)
    own = np.zeros(panel.n_rows)
    own[at.rows[at.is_given]] = counts[at.is_given]
    met_own = np.zeros(panel.n_rows)
    met_own[at.rows[at.is_given]] = totals[at.worker_label[at.is_given]]
    top = ballots.per_row - own + MEAN_WORKER_VOTES * by_given[label]
    bottom = ballots.per_worker[ballots.row_worker] - met_own + MEAN_WORKER_VOTES * (k - 1)
    given = np.bincount(label, minlength=k) > 0
    tasks = (np.bincount(cells.label, posterior, minlength=k + 1)[:k] + 1.0) * given
    return CellBelief(
        ballots,
        cells,
        at,
        posterior,
        np.divide(tasks, max(float(tasks.sum()), 1.0), dtype=np.float64),
        counts,
        totals,
        chance,
        np.where(at.is_given, chance[at.labels], errors),
        np.maximum(top / bottom, MIN_PROBABILITY / k),
    )


def _chances(belief: CellBelief) -> Floats:
    """Return the probability of each vote under each label of its task, [links], judged by its worker's other votes."""
    at = belief.links
    own = belief.posterior[at.cell]
    top = (belief.counts + MEAN_WORKER_VOTES * belief.mean)[at.row_label] - own
    bottom = belief.totals[at.worker_label][at.row_label] + MEAN_WORKER_VOTES - own
    out: Floats = np.maximum(top, MIN_PROBABILITY) / np.maximum(bottom, MIN_PROBABILITY)
    return out


def _update(belief: CellBelief) -> Floats:
    """Return the posterior under a belief, [cells]."""
    ballots, cells, at, k = belief.ballots, belief.cells, belief.links, belief.ballots.panel.n_labels
    prior = np.append(belief.priors, 0.0)[cells.label]
    other = cells.ptr[1:] - 1
    prior[other] = np.maximum(1.0 - np.add.reduceat(prior, cells.ptr[:-1]), MIN_PROBABILITY / k)
    with np.errstate(divide="ignore"):
        scores = np.log(prior)
    scores += np.bincount(at.cell, np.log(_chances(belief)), minlength=len(prior))
    scores[other] += np.add.reduceat(np.log(belief.error)[ballots.row], ballots.task_ptr[:-1])
    scores -= np.maximum.reduceat(scores, cells.ptr[:-1])[cells.task]
    out: Floats = np.exp(scores, out=scores)
    out /= np.add.reduceat(out, cells.ptr[:-1])[cells.task]
    return out


def compare(ballots: Ballots, belief: CellBelief, repeated: Flags | None = None) -> VoteComparison:
    """Compare every vote with the other votes of its task; see `posterior.compare`."""
    cells, at, k = belief.cells, belief.links, ballots.panel.n_labels
    chance, error = _chances(belief), belief.error[ballots.row]
    if repeated is not None:
        chance[repeated[at.vote]] = 1.0
        error[repeated] = 1.0
    without = belief.posterior[at.cell] / chance
    task = ballots.task()
    total = np.bincount(at.vote, without, minlength=len(ballots.row)) + belief.posterior[cells.ptr[task + 1] - 1] / error
    own = cells.label[at.cell] == ballots.label()[at.vote]
    others = np.bincount(at.vote[own], without[own], minlength=len(ballots.row)) / total
    right = belief.posterior[cells.position(k + 1, task, ballots.label().astype(np.int64))]
    return VoteComparison(right.astype(np.float32), np.minimum(others, 1.0).astype(np.float32), guesses(ballots))


def mutual_information(ballots: Ballots, belief: CellBelief) -> Floats:
    """Return the bits per vote that each worker's answers say about the truth, [workers]; see `posterior`."""
    panel, votes, at = ballots.panel, ballots.divisor, belief.links
    cell = belief.cells.ptr[1:][ballots.task()] - 1  # of another label
    rest = np.bincount(ballots.row, belief.posterior[cell], minlength=panel.n_rows)
    counts = np.concatenate([belief.counts, rest])
    totals = np.concatenate([belief.totals[at.worker_label], panel.by_worker(rest)[ballots.row_worker]])
    row = np.concatenate([at.rows, np.arange(panel.n_rows)])
    scale = votes[ballots.row_worker] / np.maximum(ballots.per_row, 1)
    seen = counts > 1e-9
    bits = np.bincount(row[seen], counts[seen] * np.log2(counts[seen] * scale[row[seen]] / totals[seen]), minlength=panel.n_rows)
    met = np.minimum(np.bincount(at.workers, belief.totals > 0.5, minlength=panel.n_workers), votes)
    by_chance = np.maximum(met - 1, 0) * np.maximum(np.diff(panel.worker_ptr) - 1, 0) / (2.0 * votes * np.log(2.0))
    out: Floats = np.maximum(panel.by_worker(bits) / votes - by_chance, 0.0)
    return out


def prior_variance(belief: CellBelief) -> Floats:
    """Return the variance of the share of each label, [K], from the information that tasks give on it alone."""
    k, p = belief.ballots.panel.n_labels, belief.priors
    cells = np.append(p, 0.0)[belief.cells.label]
    gained = np.bincount(belief.cells.label, (belief.posterior - cells) ** 2 - cells**2, minlength=k + 1)[:k]
    information = np.maximum(gained + belief.ballots.n_tasks * p**2, 1e-12)
    out: Floats = (p * (1.0 - p)) ** 2 / information
    return out
