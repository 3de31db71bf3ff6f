"""What the votes say: the posterior of every task, and the kind of every worker, vote by vote.

EM counts the votes of a task into the confusions that then judge these very votes. With few votes per worker it
overrates itself. Here every confusion gets pseudo-votes of the mean worker, and a task is judged by confusions that are
counted without that task: the collapsed posterior of a Dirichlet population (the zero-order approximation known from
topic models). The posterior without a vote then shows whether its worker looks at the truth, guesses, or evades it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes, WorkerRows

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Positions = Integers | slice  # of votes

CHUNK_VOTES: Final = 1 << 17  # votes per chunk, so that copies stay small and in cache
CHUNK_WORKERS: Final = 1 << 16  # workers per chunk
POSTERIOR_BLOCK_CELLS: Final = 1 << 24  # rows x labels, or tasks x labels, held at once; more labels are taken in blocks
MEAN_WORKER_VOTES: Final = 10.0  # pseudo-votes of the mean worker in every confusion, for each true label
EQUAL_ACCURACY_VOTES: Final = 300.0  # pseudo-votes by which the mean worker is right equally often under every true label
MIN_PASSES: Final = 3
MAX_POSTERIOR_PASSES: Final = 30
MIN_CHANGE: Final = 2e-3  # change of the class shares below which passes end
MIN_PROBABILITY_F32: Final = np.float32(1e-6)
CROWD_VOTES: Final = 1.0  # pseudo-votes of the crowd's answers in how each worker guesses
LOOK_SHARES: Final = np.linspace(0.05, 0.95, 10)  # hypotheses: the share of votes that look at the truth
EVADE_SHARES: Final = np.array([0.35, 0.65, 0.95])  # hypotheses: the share of votes that evade it
GUESSING: Final = len(EVADE_SHARES)  # index of guessing among the hypotheses: evading, guessing, looking
PRIOR_WORKERS: Final = np.array([0.1, 0.3, 9.6])  # pseudo-workers who evade, guess, look: most people look
UNIFORM_ODDS: Final = float(np.log(10.0))  # from ten to one on, guessing means all labels alike, not the worker's own mix
MIXTURE_ROUNDS: Final = 50
MAX_SAMPLED_WORKERS: Final = 5_000  # workers who say enough about all
WorkerLikelihoods = tuple[slice, Floats, Floats, Floats]  # some workers, and of them the likelihoods, their scale, `alike`


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes by task, with the worker of each row (see `adjudge.data.votes`). Votes may be left out, tasks may not."""

    panel: WorkerRows
    task_ptr: Integers  # [tasks + 1] where each task's votes begin
    row: NDArray[np.uint32]  # [votes] the (worker, given label) pair of each

    @classmethod
    def of(cls, votes: Votes) -> Ballots:
        """Return all votes."""
        return cls(votes, votes.task_ptr, votes.row)

    def informative(self, known: Flags | None = None) -> Flags:
        """Return which tasks say something about workers, [tasks]: those of two workers or more, and `known` ones, [tasks]."""
        if not self.n_tasks:
            return np.zeros(0, np.bool_)
        worker = self.worker()
        two = np.maximum.reduceat(worker, self.task_ptr[:-1]) > np.minimum.reduceat(worker, self.task_ptr[:-1])
        return two if known is None else two | known

    def first_votes(self) -> Ballots:
        """Return the first vote of each worker on each task."""
        task, worker = self.task(), self.worker()
        again = np.zeros(len(task), np.bool_)
        again[1:] = (task[1:] == task[:-1]) & (worker[1:] == worker[:-1])
        return self.kept(~again) if again.any() else self

    def of_tasks(self, chosen: Flags) -> Ballots:
        """Return the votes of the chosen tasks, [tasks]."""
        if chosen.all():
            return self
        ptr = np.concatenate([[0], np.cumsum(self.per_task[chosen])])
        return Ballots(self.panel, ptr, self.row[self.per_vote(chosen)])

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.task_ptr) - 1

    @cached_property
    def n_labels(self) -> int:
        """The number of labels that somebody gave, or 1."""
        return max(len(np.unique(self.panel.row_label)), 1)

    @cached_property
    def per_task(self) -> Integers:
        """The number of votes of each task, [tasks]."""
        return np.diff(self.task_ptr)

    @cached_property
    def row_worker(self) -> Integers:
        """The worker of each row, [rows]."""
        return self.panel.row_worker()

    @cached_property
    def rows_by_label(self) -> tuple[Integers, Integers]:
        """The rows in the order of the labels given, [rows], and where each label's begin, [K + 1]."""
        labels = self.panel.row_label
        return np.argsort(labels, kind="stable"), np.searchsorted(np.sort(labels), np.arange(self.panel.n_labels + 1))

    def rows_of(self, label: int) -> Integers:
        """Return the rows of a label that was given, in order."""
        order, ptr = self.rows_by_label
        return order[ptr[label] : ptr[label + 1]]

    @cached_property
    def per_row(self) -> Integers:
        """The number of votes of each row, [rows]."""
        return np.bincount(self.row, minlength=self.panel.n_rows)

    @cached_property
    def per_worker(self) -> Integers:
        """The number of votes of each worker, [workers]."""
        out: Integers = self.panel.by_worker(self.per_row)
        return out

    @cached_property
    def divisor(self) -> Integers:
        """The number of votes of each worker, or 1 for those without, [workers]."""
        return np.maximum(self.per_worker, 1)

    def task(self) -> Integers:
        """Return the task of each vote, [votes]."""
        return np.repeat(np.arange(self.n_tasks), self.per_task)

    def worker(self) -> Integers:
        """Return the worker of each vote, [votes]."""
        return self.row_worker[self.row]

    def label(self) -> NDArray[np.int32]:
        """Return the label that each vote gives, [votes]."""
        return self.panel.row_label[self.row]

    def per_vote(self, by_task: NDArray[Any]) -> NDArray[Any]:
        """Repeat values of tasks, [tasks, …], for each of their votes, [votes, …]."""
        return np.repeat(by_task, self.per_task, axis=0)

    def kept(self, chosen: Flags) -> Ballots:
        """Return the chosen votes, [votes]; every task must keep one."""
        ptr = np.zeros_like(self.task_ptr)
        np.cumsum(np.add.reduceat(chosen, self.task_ptr[:-1], dtype=np.int64), out=ptr[1:])
        return Ballots(self.panel, ptr, self.row[chosen])

    def by_workers(self) -> Iterator[tuple[slice, Positions, Integers]]:
        """Yield (some workers, the positions of their votes in order, the worker of each vote counted from the first of them)."""
        n = self.panel.n_workers
        if n <= CHUNK_WORKERS:
            yield slice(0, n), slice(None), self.worker()
            return
        order = np.argsort(self.row, kind="stable")  # by row is by worker, too
        worker = self.row_worker[self.row[order]]
        for start in range(0, n, CHUNK_WORKERS):
            first, last = np.searchsorted(worker, [start, start + CHUNK_WORKERS])
            # A worker's votes in the order of the tasks, as sums over all votes meet them.
            positions = np.sort(order[first:last])
            yield slice(start, min(start + CHUNK_WORKERS, n)), positions, self.row_worker[self.row[positions]] - start

    def chunks(self) -> Iterator[Chunk]:
        """Yield consecutive tasks with their votes, about `CHUNK_VOTES` votes per chunk; a task is never split."""
        start = 0
        while start < self.n_tasks:
            end = int(np.searchsorted(self.task_ptr, self.task_ptr[start] + CHUNK_VOTES, side="right")) - 1
            end = max(end, start + 1)
            votes = slice(int(self.task_ptr[start]), int(self.task_ptr[end]))
            row = self.row[votes].astype(np.intp)
            yield Chunk(
                tasks=slice(start, end),
                votes=votes,
                starts=self.task_ptr[start:end] - votes.start,
                per_task=self.per_task[start:end],
                row=row,
                worker=self.row_worker[row],
                label=self.panel.row_label[row],
            )
            start = end


class Chunk(NamedTuple):
    """The votes of consecutive tasks."""

    tasks: slice
    votes: slice
    starts: Integers  # [tasks] where each task's votes begin, counted from the first vote of the piece
    per_task: Integers  # [tasks]
    row: NDArray[np.intp]  # [votes]
    worker: Integers  # [votes]
    label: NDArray[np.int32]  # [votes]


@dataclass(frozen=True, eq=False)
class Belief:
    """What a posterior says of workers and labels. Labels are the first axis: passes go over the votes label by label."""

    posterior: Singles  # [K, tasks]
    priors: Floats  # [K] share of the tasks, with one pseudo-task for every label that was given; 0 for the others
    counts: Floats | None  # [K, rows] expected votes of a row on tasks of this true label; None if these are too many
    own: Floats  # [rows] the same for the label that the row gives
    totals: Floats  # [K, workers]
    mean: Floats  # [K true, K given] the mean worker's confusion

    def row_counts(self, ballots: Ballots, c: int) -> Floats:
        """Return the expected votes of each row on tasks of true label c, [rows]; counted again where they are not kept."""
        return counted(ballots, self.posterior[c]) if self.counts is None else self.counts[c]

    def best(self) -> Integers:
        """Return the most probable label of each task, [tasks]."""
        out: Integers = self.posterior.argmax(axis=0)
        return out

    def right(self, ballots: Ballots, c: int) -> Floats:
        """Return each worker's probability of a right answer under true label c, [workers], with the pseudo-votes."""
        rows = ballots.rows_of(c)
        out = np.full(self.totals.shape[1], MEAN_WORKER_VOTES * self.mean[c, c])
        out[ballots.row_worker[rows]] += self.own[rows]
        out /= self.totals[c] + MEAN_WORKER_VOTES
        return out


def of_labels(labels: NDArray[np.int32], k: int) -> Singles:
    """Return the posterior that gives these labels probability 1, [K, tasks].

    >>> of_labels(np.array([1, 0, 1], np.int32), 2).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    out = np.zeros((k, len(labels)), np.float32)
    out[labels, np.arange(len(labels))] = 1.0
    return out


def settle(ballots: Ballots, start: Singles, known: Flags | None = None, *, in_place: bool = False) -> Singles:
    """Return the posterior, [K, tasks], to which passes from `start`, [K, tasks], converge; `known` tasks, [tasks], keep theirs.

    `in_place` overwrites `start`: posteriors of many labels are large.
    """
    now = start if in_place else start.copy()
    given = None if known is None else start[:, known]
    for n in range(MAX_POSTERIOR_PASSES):
        shares = now.sum(axis=1, dtype=np.float64)
        update_posterior(ballots, tally(ballots, now), now)
        if known is not None:
            now[:, known] = given
        change = np.abs(now.sum(axis=1, dtype=np.float64) - shares).sum() / max(ballots.n_tasks, 1)
        if change < MIN_CHANGE and n + 1 >= MIN_PASSES:
            break
    return now


def tally(ballots: Ballots, posterior: Singles) -> Belief:
    """Return what this posterior, [K, tasks], says of workers and labels."""
    panel, k = ballots.panel, ballots.panel.n_labels
    counts = np.empty((k, panel.n_rows)) if k * panel.n_rows <= POSTERIOR_BLOCK_CELLS else None
    pool, totals, own = np.empty((k, k)), np.empty((k, panel.n_workers)), np.empty(panel.n_rows)
    for c in range(k):
        of_rows = counted(ballots, posterior[c])
        pool[c] = np.bincount(panel.row_label, of_rows, minlength=k)
        totals[c] = np.add.reduceat(of_rows, panel.worker_ptr[:-1])
        rows = ballots.rows_of(c)
        own[rows] = of_rows[rows]
        if counts is not None:
            counts[c] = of_rows
    given = np.bincount(panel.row_label, minlength=k) > 0
    tasks = (posterior.sum(axis=1, dtype=np.float64) + 1.0) * given
    return Belief(posterior, tasks / max(float(tasks.sum()), 1.0), counts, own, totals, mean_worker(pool))


def counted(ballots: Ballots, of_label: Singles) -> Floats:
    """Return the expected votes of each row on tasks of one true label, [rows], from its probabilities, [tasks]."""
    return np.bincount(ballots.row, ballots.per_vote(of_label), minlength=ballots.panel.n_rows).astype(np.float64, copy=False)


def mean_worker(pool: Floats) -> Floats:
    """Return the confusion of the mean worker, [K true, K given], from all votes by true and given label, [K, K].

    With few votes per task, a rare label and a hard one look the same. So `EQUAL_ACCURACY_VOTES` pseudo-votes make the
    chance to be right equal under all true labels.
    """
    k, right = len(pool), np.diagonal(pool)
    errors = (pool + 0.3 / k) * (1.0 - np.eye(k))
    errors /= np.maximum(errors.sum(axis=1, keepdims=True), 1e-12)
    overall = (right.sum() + 1.0) / (pool.sum() + 1.5)
    chance = (right + EQUAL_ACCURACY_VOTES * overall) / (pool.sum(axis=1) + EQUAL_ACCURACY_VOTES) if k > 1 else np.ones(1)
    mean: Floats = errors * (1.0 - chance)[:, None] + np.diag(chance)
    return mean


class LeaveOneOut:
    """The probability of votes under one true label, each judged by its worker's other votes."""

    def __init__(self, ballots: Ballots, belief: Belief) -> None:
        self._ballots = ballots
        self._belief = belief
        self._lines: dict[int, tuple[Singles, Singles]] = {}  # of a label: [rows] and [workers]

    def blocks(self, labels: Iterable[int]) -> Iterator[list[int]]:
        """Yield the labels in blocks that fit into memory; `chance` takes the labels of the current block."""
        every, panel = list(labels), self._ballots.panel
        size = max(POSTERIOR_BLOCK_CELLS // max(panel.n_rows + panel.n_workers, 1), 1)
        for start in range(0, len(every), size):
            block = every[start : start + size]
            self._lines = {c: self._smooth(c) for c in block}
            yield block

    def _smooth(self, c: int) -> tuple[Singles, Singles]:
        """Return the votes under true label c with the pseudo-votes of the mean worker, by row and by worker."""
        belief, row_label = self._belief, self._ballots.panel.row_label
        by_row = belief.row_counts(self._ballots, c) + MEAN_WORKER_VOTES * belief.mean[c][row_label]
        return by_row.astype(np.float32), (belief.totals[c] + MEAN_WORKER_VOTES).astype(np.float32)

    def chance(self, c: int, chunk: Chunk) -> tuple[Singles, Singles]:
        """Return (posterior of c; probability of the vote under c, without its task) of the votes of a chunk, [votes] each."""
        top, bottom = self._lines[c]
        own = np.repeat(self._belief.posterior[c, chunk.tasks], chunk.per_task)
        return own, _ratio(top.take(chunk.row), bottom.take(chunk.worker), own)

    def chance_given(self, chunk: Chunk) -> tuple[Singles, Singles]:
        """Return the same for the label that each vote gives."""
        belief = self._belief
        task = np.repeat(np.arange(chunk.tasks.start, chunk.tasks.stop), chunk.per_task)
        own = belief.posterior[chunk.label, task]
        top = belief.own[chunk.row] + MEAN_WORKER_VOTES * np.diagonal(belief.mean)[chunk.label]
        bottom = belief.totals[chunk.label, chunk.worker] + MEAN_WORKER_VOTES
        return own, _ratio(top.astype(np.float32), bottom.astype(np.float32), own)


def _ratio(top: Singles, bottom: Singles, own: Singles) -> Singles:
    """Return (top - own) / (bottom - own), [votes], written to `top`."""
    top -= own
    bottom -= own
    np.maximum(top, MIN_PROBABILITY_F32, out=top)
    np.maximum(bottom, MIN_PROBABILITY_F32, out=bottom)
    top /= bottom
    return top


def update_posterior(ballots: Ballots, belief: Belief, out: Singles) -> None:
    """Write the posterior under a belief to OUT [K, tasks], which may be the belief's own posterior."""
    judge, given = LeaveOneOut(ballots, belief), belief.priors > 0
    out[~given] = -np.inf
    for block in judge.blocks(np.flatnonzero(given).tolist()):
        for chunk in ballots.chunks():
            for c in block:  # of the posterior, only that of c is read here, and only that of c is written
                _, chance = judge.chance(c, chunk)
                scores = np.add.reduceat(np.log(chance, out=chance), chunk.starts)
                out[c, chunk.tasks] = scores + np.float32(np.log(belief.priors[c]))
    size = max(POSTERIOR_BLOCK_CELLS // max(len(given), 1), 1)
    for start in range(0, ballots.n_tasks, size):
        some = out[:, start : start + size].copy()
        some -= some.max(axis=0)
        np.exp(some, out=some)
        some /= some.sum(axis=0)
        out[:, start : start + size] = some


class VoteComparison(NamedTuple):
    """Every vote compared with the other votes of its task, [votes] each."""

    right: Singles  # the posterior of the label it gives
    others: Singles  # the same without the vote: what a worker who looks would answer by
    guess: Singles  # the probability of this label, if the worker guesses


def mutual_information(ballots: Ballots, belief: Belief) -> Floats:
    """Return the bits per vote that each worker's answers say about the truth, [workers]; at least 0.

    This is the mutual information of true and given label in the worker's expected counts, less its mean under chance:
    (rows - 1) (columns - 1) / (2 n ln 2), where rows are the true labels met and columns the labels given.
    """
    panel, votes = ballots.panel, ballots.divisor
    bits = np.zeros(panel.n_rows)
    scale = votes[ballots.row_worker] / np.maximum(ballots.per_row, 1)
    for c, totals in enumerate(belief.totals):
        counts = belief.row_counts(ballots, c)
        seen = counts > 1e-9
        bits[seen] += counts[seen] * np.log2(counts[seen] * scale[seen] / totals[ballots.row_worker[seen]])
    met = np.minimum((belief.totals > 0.5).sum(axis=0), votes)
    by_chance = np.maximum(met - 1, 0) * np.maximum(np.diff(panel.worker_ptr) - 1, 0) / (2.0 * votes * np.log(2.0))
    out: Floats = np.maximum(panel.by_worker(bits) / votes - by_chance, 0.0)
    return out


def compare(ballots: Ballots, belief: Belief, repeated: Flags | None = None) -> VoteComparison:
    """Compare every vote with the others on its task.

    Votes that are `repeated` by another of the ring, [votes], stay in the posterior: the other's vote would be there without
    them.
    """
    k, n = ballots.panel.n_labels, len(ballots.row)
    right, others = np.empty(n, np.float32), np.empty(n, np.float32)
    judge, total = LeaveOneOut(ballots, belief), np.zeros(n, np.float32)
    for block in judge.blocks(range(k)):
        for chunk in ballots.chunks():
            for c in block:
                total[chunk.votes] += _without(*judge.chance(c, chunk), None if repeated is None else repeated[chunk.votes])
    for chunk in ballots.chunks():
        here = chunk.votes
        right[here], chance = judge.chance_given(chunk)
        others[here] = _without(right[here].copy(), chance, None if repeated is None else repeated[here]) / total[here]
    return VoteComparison(right, np.minimum(others, 1.0), guesses(ballots))


def guesses(ballots: Ballots) -> Singles:
    """Return the probability of each vote, [votes], if its worker guesses.

    How a worker guesses is estimated from the worker's other votes and `CROWD_VOTES` pseudo-votes of the crowd.
    """
    panel = ballots.panel
    usual = np.bincount(panel.row_label, ballots.per_row, minlength=panel.n_labels) / max(len(ballots.row), 1)
    votes = ballots.per_worker[ballots.row_worker]
    leant = np.maximum(ballots.per_row - 1, 0) + CROWD_VOTES * usual[panel.row_label]
    by_row: Singles = (leant / (np.maximum(votes - 1, 0) + CROWD_VOTES)).astype(np.float32)
    return by_row[ballots.row]


def _without(own: Singles, chance: Singles, repeated: Flags | None) -> Singles:
    """Return the posterior without the vote, except for a factor, [votes], written to `own`; repeated votes stay in it."""
    if repeated is not None:
        chance[repeated] = 1.0
    own /= chance
    return own


class Kinds(NamedTuple):
    """The kind of each worker: who looks at the truth, who guesses, who evades it."""

    evader: Floats  # [workers] probability
    guesser: Floats  # [workers]
    looks: Floats  # [workers] expected share of votes that look at the truth
    evades: Floats  # [workers] and of those that evade it
    bits: Floats  # [workers] evidence that answers say anything, against guessing
    alike: Floats  # [workers] evidence that all labels are given alike, in bits, against evading


def kinds(ballots: Ballots, seen: VoteComparison) -> Kinds:
    """Return the kind of every worker, with the mixture of kinds estimated from all workers."""
    n = ballots.panel.n_workers
    every = max(n // MAX_SAMPLED_WORKERS, 1)
    parts = ((cut, *_likelihoods(ballots, seen, positions, worker, cut)) for cut, positions, worker in ballots.by_workers())
    if n <= CHUNK_WORKERS:
        at_once = [next(parts)]
        return _kinds_given(n, at_once, _mixture(at_once[0][1][::every]))
    # More workers than are processed at a time: first those who say enough about all, then all of them.
    sample = [likelihood[-cut.start % every :: every] for cut, likelihood, *_ in parts]
    weights = _mixture(np.concatenate(sample))
    del sample
    again = ((cut, *_likelihoods(ballots, seen, positions, worker, cut)) for cut, positions, worker in ballots.by_workers())
    return _kinds_given(n, again, weights)


def _likelihoods(
    ballots: Ballots, seen: VoteComparison, positions: Positions, worker: Integers, cut: slice
) -> tuple[Floats, Floats, Floats]:
    """Return of some workers, relative to guessing: likelihoods, [workers, hypotheses], their scale, and `alike`.

    Likelihoods are divided by exp(scale), [workers, 1]. The last, [workers], is a logarithm.
    """
    n, labels = cut.stop - cut.start, ballots.n_labels
    guess, others = seen.guess[positions], seen.others[positions]
    log_likelihood = _log_likelihoods(guess, others, worker, n, labels)
    alike: Floats = np.bincount(worker, -np.log(labels * guess), minlength=n).astype(np.float64, copy=False)
    scale = log_likelihood.max(axis=1, initial=0.0, keepdims=True)
    log_likelihood -= scale
    return np.exp(log_likelihood, out=log_likelihood), scale, alike


def _kinds_given(n: int, parts: Iterable[WorkerLikelihoods], weights: Floats) -> Kinds:
    """Return the kind of every worker, [n] each, given how frequent each hypothesis is."""
    out = Kinds(*(np.empty(n) for _ in Kinds._fields))
    evading, looking = weights[:GUESSING], weights[GUESSING + 1 :]
    for cut, likelihood, scale, alike in parts:
        evaded = likelihood[:, :GUESSING] @ (evading / evading.sum())
        won = 0.5 * (evaded + likelihood[:, GUESSING + 1 :] @ (looking / looking.sum()))
        joint = np.multiply(likelihood, weights, out=likelihood)
        joint /= joint.sum(axis=1, keepdims=True)
        out.evader[cut] = joint[:, :GUESSING].sum(axis=1)
        out.guesser[cut] = joint[:, GUESSING]
        out.looks[cut] = joint[:, GUESSING + 1 :] @ LOOK_SHARES
        out.evades[cut] = joint[:, :GUESSING] @ EVADE_SHARES
        out.bits[cut] = (_log(won) + scale[:, 0] - np.maximum(alike - UNIFORM_ODDS, 0.0)) / np.log(2.0)
        out.alike[cut] = (alike - _log(evaded) - scale[:, 0]) / np.log(2.0)
    return out


def _log(likelihood: Floats) -> Floats:
    out: Floats = np.log(np.maximum(likelihood, 1e-300))
    return out


def expected(ballots: Ballots, seen: VoteComparison, found: Kinds) -> Singles:
    """Return the probability of each vote, [votes], given the other votes of its task and the kind of its worker."""
    worker, labels = ballots.worker(), ballots.n_labels
    looks, evades, evader = (part.astype(np.float32)[worker] for part in (found.looks, found.evades, found.evader))
    guessing = seen.guess * (1.0 - looks - evader)
    chance = guessing + looks * seen.others + (evader - evades) / labels + evades * _evade(seen.others, labels)
    out: Singles = np.clip(chance, 0.005, 0.995)
    return out


def _log_likelihoods(guess: Singles, others: Singles, worker: Integers, workers: int, labels: int) -> Floats:
    """Return the log-likelihood of each worker's votes under each hypothesis, less that of guessing, [workers, hypotheses].

    `guess`, `others` and `worker` are those of the votes, [votes] each.
    """
    out = np.zeros((workers, GUESSING + 1 + len(LOOK_SHARES)))
    evaded, lift = _evade(others, labels), others / guess - 1.0
    for n, share in enumerate(EVADE_SHARES.astype(np.float32)):
        ratio = ((1.0 - share) / labels + share * evaded) / guess
        out[:, n] = np.bincount(worker, np.log(ratio), minlength=len(out))
    for n, share in enumerate(LOOK_SHARES.astype(np.float32)):
        out[:, GUESSING + 1 + n] = np.bincount(worker, np.log1p(share * lift), minlength=len(out))
    return out


def _evade(others: Singles, labels: int) -> Singles:
    """Return the probability of each vote, [votes], if its worker gives any label but the true one."""
    return (1.0 - others) / np.float32(max(labels - 1, 1))


def _mixture(likelihood: Floats) -> Floats:
    """Return how frequent each hypothesis is, [hypotheses], by EM over workers, from likelihoods [workers, hypotheses].

    The share of votes that look is beta distributed over workers, which keeps those who look apart from guessers.
    """
    share, mean, strength = PRIOR_WORKERS / PRIOR_WORKERS.sum(), 0.5, 6.0
    evading = EVADE_SHARES / EVADE_SHARES.sum()
    weights = np.zeros(likelihood.shape[1])
    for _ in range(MIXTURE_ROUNDS):
        height = (mean * strength - 1.0) * np.log(LOOK_SHARES) + ((1.0 - mean) * strength - 1.0) * np.log(1.0 - LOOK_SHARES)
        looking = np.exp(height - height.max())
        weights = np.concatenate([share[0] * evading, share[1:2], share[2] * looking / looking.sum()])
        joint = likelihood * weights
        joint /= joint.sum(axis=1, keepdims=True)
        each = joint.sum(axis=0)
        share = PRIOR_WORKERS + np.array([each[:GUESSING].sum(), each[GUESSING], each[GUESSING + 1 :].sum()])
        share = share / share.sum()
        of_lookers = each[GUESSING + 1 :]
        number = of_lookers.sum() + 2.0  # two pseudo-workers: half of their votes look, give or take 0.2
        mean = float((of_lookers @ LOOK_SHARES + 1.0) / number)
        variance = float((of_lookers @ (LOOK_SHARES - mean) ** 2 + 0.08) / number)
        strength = float(np.clip(mean * (1.0 - mean) / variance - 1.0, 2.0, 100.0))
    return weights
