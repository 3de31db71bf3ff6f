"""The definition of kernels that single methods have, in readable NumPy: GLAD, LA, KOS, M-MSR and EBCC.

GLAD (Whitehill et al. 2009, for K labels as in crowd-kit). With x = ability * ease of the vote's worker and task, a vote is
right with probability s = 1 / (1 + exp(-x)), and each of the K - 1 other labels has (1 - s) / (K - 1). Since
log s - log(1 - s) = x, a vote adds -softplus(x) - log(K - 1) to the score of every label, and x + log(K - 1) to that of the
label it gives. Nothing overflows: softplus(x) = max(x, 0) + log(1 + exp(-|x|)).

Messages along votes (KOS) and passes over pairs of workers (M-MSR). Every sum is exact: its terms are rounded to a grid that
is as fine as their number and the largest of them allow. So neither the names of workers nor the order of votes show in any
bit of a result, and a symmetric crowd stays symmetric.

EBCC (Li, Rubinstein and Cohn 2019). A task has a true label k and one of M subtypes of it: a *cell*. Given its cell, workers
answer independently, by distributions of their own for every cell. Each iteration makes the Dirichlet posteriors of answers,
subtypes and labels from the distributions q of tasks over cells, then q from their expected logarithms. The bound

    sum over tasks of log sum over cells of exp(expected log p(cell, votes)) - sum of KL(posterior || prior)

is a lower bound of the log-probability of the votes, with all constants, and never falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sum_of
from adjudge.kernels.reference import Floats, Sums, check_codes, check_votes, mix, pick
from adjudge.kernels.special import digamma, log_gamma

MAX_FLAT_CURVATURE_X = 1e-5  # below this |x| the bound's curvature is 1/4 to the last digit


def glad_expect(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1] absolute positions in `row`
    row: NDArray[np.uint32],  # IN [all votes]
    row_worker: NDArray[np.int32],  # IN [rows]
    row_label: NDArray[np.int32],  # IN [rows]
    ability: Floats,  # IN [workers] alpha
    ease: Floats,  # IN [tasks] beta, the inverse of the difficulty
    log_prior: Floats,  # IN [K]
    log_others: float,  # log(K - 1)
    task_key: NDArray[np.uint64],  # IN [tasks] see tie_keys
    label_hash: NDArray[np.uint64],  # IN [K]
    *,
    checked: bool = False,  # whether these votes are known to be sound, see reference.check_votes
    by_prior: bool,  # ties go to the larger prior first
    threads: int = 1,  # for faster twins
    labels: NDArray[np.int32],  # IN/OUT [tasks] previous label in, this pass's out
    right: Floats,  # OUT [votes of these tasks] the posterior probability of the label that the vote gives
    class_counts: Floats,  # OUT [K] added to
    confidence: Floats | None = None,  # OUT [tasks]
    tie: NDArray[np.bool_] | None = None,  # OUT [tasks]
    posterior: Floats | None = None,  # OUT [tasks, K]
) -> Sums:
    """Return the sums of one E-step. The M-step needs only the probability that each vote is right."""
    if not checked:
        check_votes(task_ptr, row, len(row_worker))
        check_codes("row_worker", row_worker, len(ability))
        check_codes("row_label", row_label, len(log_prior))
    some = row[task_ptr[0] : task_ptr[-1]]
    tasks, k = len(task_ptr) - 1, len(log_prior)
    task = np.repeat(np.arange(tasks), np.diff(task_ptr))
    given = row_label[some]
    x = ability[row_worker[some]] * ease[task]
    of_label = np.bincount(task * k + given, x + log_others, minlength=tasks * k).reshape(tasks, k)
    of_all = np.bincount(task, -_softplus(x) - log_others, minlength=tasks)
    scores: Floats = of_label + of_all[:, None] + log_prior
    winner, tied = pick(scores, task_key, label_hash, tie_weights=log_prior if by_prior else None)

    best = scores.max(axis=1, initial=-np.inf, keepdims=True)
    weight = np.exp(scores - best)
    total = weight.sum(axis=1, keepdims=True)
    probability = weight / total
    changed = int((winner != labels).sum())
    labels[:] = winner
    right[:] = probability[task, given]
    class_counts += probability.sum(axis=0)
    if confidence is not None:
        confidence[:] = probability[np.arange(tasks), winner]
    if tie is not None:
        tie[:] = tied
    if posterior is not None:
        posterior[:] = probability
    return Sums(float((best + np.log(total)).sum()), float("nan"), changed, 0)


def glad_gradient(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_worker: NDArray[np.int32],  # IN [rows]
    ability: Floats,  # IN [workers]
    ease: Floats,  # IN [tasks]
    right: Floats,  # IN [votes of these tasks] see expect
    log_others: float,
    *,
    checked: bool = False,  # whether these votes are known to be sound, see reference.check_votes
    threads: int = 1,  # for faster twins
    by_worker: Floats,  # OUT [workers] added to: d/d ability
    by_task: Floats,  # OUT [tasks] d/d log ease
    worker_curvature: Floats,  # OUT [workers] added to
    task_curvature: Floats,  # OUT [tasks]
) -> float:
    """Return the expected log-likelihood of the votes, the sum of right * log s + (1 - right) * log((1 - s) / (K - 1)).

    The curvatures are those of the quadratic that touches softplus at x and bounds it from above (Jaakkola and
    Jordan 2000), with w = (s - 1/2) / x. They limit the length of a step, and unlike s (1 - s) never vanish.
    """
    if not checked:
        check_votes(task_ptr, row, len(row_worker))
        check_codes("row_worker", row_worker, len(ability))
    some = row[task_ptr[0] : task_ptr[-1]]
    task = np.repeat(np.arange(len(task_ptr) - 1), np.diff(task_ptr))
    worker = row_worker[some]
    beta = ease[task]
    x = ability[worker] * beta
    sigma = np.exp(-_softplus(-x))
    flat = np.abs(x) < MAX_FLAT_CURVATURE_X
    w = np.where(flat, 0.25, (sigma - 0.5) / np.where(flat, 1.0, x))
    by_worker += np.bincount(worker, (right - sigma) * beta, minlength=len(ability))
    by_task[:] = np.bincount(task, (right - sigma) * x, minlength=len(ease))
    worker_curvature += np.bincount(worker, w * beta * beta, minlength=len(ability))
    task_curvature[:] = np.bincount(task, w * x * x, minlength=len(ease))
    return float((right * x - _softplus(x) - (1.0 - right) * log_others).sum())


def _softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def light_pass(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [votes]
    row_worker: NDArray[np.int64],  # IN [rows]
    row_label: NDArray[np.int32],  # IN [rows]
    order: NDArray[np.int64],  # IN [tasks] each task once
    task_key: NDArray[np.uint64],  # IN [tasks]
    label_hash: NDArray[np.uint64],  # IN [K]
    right: Floats,  # IN/OUT [workers] right votes of each so far
    total: Floats,  # IN/OUT [workers] all votes of each so far, above 0
    labels: NDArray[np.int32],  # OUT [tasks] of tasks that have votes
    *,
    gold: NDArray[np.int32] | None = None,  # IN [tasks] given labels, below 0 if there is none
    tie_weights: Floats | None = None,  # IN [K] the larger wins a tie; None: the hash alone decides
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts; None: 1
) -> None:
    """Decide task after task by votes weighted with right / total of their worker, and count each vote before the next task."""
    k = len(label_hash)
    for task in order.tolist():
        rows = row[task_ptr[task] : task_ptr[task + 1]]
        if not len(rows):
            continue
        workers, given = row_worker[rows], row_label[rows]
        times = np.ones(len(rows)) if row_weight is None else row_weight[rows]
        winner = -1 if gold is None else int(gold[task])
        if winner < 0:
            scores: Floats = np.bincount(given, weights=right[workers] / total[workers] * times, minlength=k).astype(np.float64)
            winner = int(pick(scores[None], task_key[task : task + 1], label_hash, tie_weights)[0][0])
        labels[task] = winner
        np.add.at(total, workers, times)
        np.add.at(right, workers, times * (given == winner))


Ints = NDArray[np.int64]
NO_SKILL = 1e-9  # a factor up to this tells nothing of the factors of others
CHUNK_VOTE_PAIRS = 1 << 22  # pairs of votes listed at once


class Edges(NamedTuple):
    """Votes for one of two labels, sorted by task, and the positions of the votes of each worker."""

    task_ptr: Ints  # [tasks + 1] where each task's votes begin
    worker_ptr: Ints  # [workers + 1] places in `vote`
    vote: Ints  # [votes] positions of votes, by worker
    sign: Floats  # [votes] 1 for one label, -1 for the other


class Casts(NamedTuple):
    """Distinct (task, worker, label) with how often each was voted, sorted by task; and their positions by worker."""

    task_ptr: Ints  # [tasks + 1]
    task: Ints  # [casts]
    worker: NDArray[np.int32]  # [casts]
    label: NDArray[np.int32]  # [casts]
    times: Ints  # [casts]
    worker_ptr: Ints  # [workers + 1] places in `cast`
    cast: Ints  # [casts] positions of casts, by worker


class WorkerPairs(NamedTuple):
    """Workers who share tasks: the others of each, ascending, with pairs of votes on one task and those that agree."""

    ptr: Ints  # [workers + 1] where each worker's pairs begin
    other: NDArray[np.int32]  # [pairs]
    common: Ints  # [pairs]
    agreed: Ints  # [pairs]


def kos_tasks(
    edges: Edges,
    to_task: Floats,  # IN [votes] y: how reliable the worker is, as its other votes have it
    *,
    to_worker: Floats,  # OUT [votes] x: what the other votes of the task say, above 0 for the label of sign 1
    score: Floats,  # OUT [tasks] the sum of sign * y
    weight: Floats,  # OUT [tasks] the sum of |y|
    threads: int = 1,  # for faster twins
) -> float:
    """Return the largest |x| of the messages from tasks to workers: x_i->j = sum of sign * y over the votes but j's own."""
    ptr = edges.task_ptr
    said = _on_grid(edges.sign * to_task, ptr)
    score[:], weight[:] = _sums(said, ptr), _sums(np.abs(said), ptr)
    to_worker[:] = np.repeat(score, np.diff(ptr)) - said
    return float(np.abs(to_worker).max(initial=0.0))


def kos_workers(
    edges: Edges,
    to_worker: Floats,  # IN [votes] x
    *,
    to_task: Floats,  # OUT [votes] y
    total: Floats,  # OUT [workers] the sum of sign * x
    threads: int = 1,  # for faster twins
) -> float:
    """Return the largest |y| of the messages from workers to tasks: y_j->i = sum of sign * x over the votes but i's own."""
    ptr = edges.worker_ptr
    agrees = _on_grid((edges.sign * to_worker)[edges.vote], ptr)
    total[:] = _sums(agrees, ptr)
    to_task[edges.vote] = np.repeat(total, np.diff(ptr)) - agrees
    return float(np.abs(to_task).max(initial=0.0))


def worker_pairs(casts: Casts, threads: int = 1) -> WorkerPairs:
    """Return which workers share tasks, and how often they agree there."""
    workers, length = len(casts.worker_ptr) - 1, np.diff(casts.task_ptr)
    found = [np.zeros((0, 3), np.int64)]
    ends = np.cumsum(length**2)
    first = 0
    while first < len(length):  # some tasks at a time
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + CHUNK_VOTE_PAIRS, side="right")), first + 1)
        found.append(_list_pairs(casts, first, last, workers))
        first = last
    key, common, agreed = _pool(np.concatenate(found)).T
    worker, other = np.divmod(key, max(workers, 1))
    ptr = np.searchsorted(worker, np.arange(workers + 1)).astype(np.int64)
    return WorkerPairs(ptr, other.astype(np.int32), common.copy(), agreed.copy())


def trimmed_ratios(
    pairs: WorkerPairs,
    size: Floats,  # IN [pairs] at least 0
    trim: Ints,  # IN [workers] how many are left out at most on each side; below 0: all but the largest
    of: Floats,  # IN [workers] factors of the others
    own: Floats,  # IN [workers] the worker's factor before
    *,
    out: Floats,  # OUT [workers]
    threads: int = 1,  # for faster twins
) -> None:
    """Write the mean of size / of[other] for each worker, without some of those above and of those below its own factor."""
    for worker in range(len(own)):
        cut = slice(pairs.ptr[worker], pairs.ptr[worker + 1])
        divisor = of[pairs.other[cut]]
        tells = divisor > NO_SKILL
        ratios = np.sort(size[cut][tells] / divisor[tells])
        out[worker] = own[worker]
        if len(ratios) and trim[worker] < 0:
            out[worker] = ratios[-1]
        elif len(ratios):
            low = min(int(trim[worker]), int((ratios < own[worker]).sum()))
            high = min(int(trim[worker]), int((ratios > own[worker]).sum()))
            kept = ratios[low : len(ratios) - high]
            if len(kept):
                out[worker] = _on_grid(kept, np.array([0, len(kept)])).sum() / len(kept)


def group_sums(values: Floats, ptr: Ints) -> Floats:
    """Return the sum of each group of values, [groups], rounded to the grid of its group; `ptr` is [groups + 1].

    >>> group_sums(np.array([0.25, 0.5, 1.0]), np.array([0, 0, 3])).tolist()
    [0.0, 1.75]
    >>> here, there = (group_sums(np.array(values), np.array([0, 3])) for values in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]))
    >>> bool(here == there)  # in any order, to the last bit
    True
    """
    return _sums(_on_grid(values, ptr), ptr)


def _on_grid(values: Floats, ptr: Ints) -> Floats:
    """Return values rounded so that those of each group, from `ptr` to `ptr`, add up exactly in any order."""
    length = np.diff(ptr)
    full = length > 0
    most = np.zeros(len(length))
    most[full] = np.maximum.reduceat(np.abs(values), ptr[:-1][full]) if len(values) else 0.0
    bits = np.frexp(length.astype(np.float64))[1]
    on = np.repeat(np.ldexp(1.5, np.frexp(most)[1] + bits), length)
    out: Floats = (values + on) - on  # the last bits fall off
    return out


def _sums(values: Floats, ptr: Ints) -> Floats:
    out, full = np.zeros(len(ptr) - 1), np.diff(ptr) > 0
    out[full] = np.add.reduceat(values, ptr[:-1][full]) if len(values) else 0.0
    return out


def _list_pairs(casts: Casts, first: int, last: int, workers: int) -> Ints:
    """Return (worker * workers + other, common, agreed) of the pairs on some tasks, pooled, [pairs, 3]."""
    length = np.diff(casts.task_ptr)[first:last]
    begin, end = casts.task_ptr[first], casts.task_ptr[last]
    own = np.arange(begin, end)
    partners = np.repeat(length, length)  # casts on the task of each cast
    mine = np.repeat(own, partners)
    starts = np.cumsum(partners) - partners
    theirs = np.arange(len(mine)) - np.repeat(starts, partners) + casts.task_ptr[casts.task[mine]]
    different = casts.worker[mine] != casts.worker[theirs]
    mine, theirs = mine[different], theirs[different]
    times = casts.times[mine] * casts.times[theirs]
    key = casts.worker[mine].astype(np.int64) * workers + casts.worker[theirs]
    return _pool(np.stack([key, times, times * (casts.label[mine] == casts.label[theirs])], axis=1))


def _pool(pairs: Ints) -> Ints:
    """Return the sums over lines of one key, sorted by key, [distinct keys, 3]."""
    key, where = np.unique(pairs[:, 0], return_inverse=True)
    out = np.zeros((len(key), 3), np.int64)
    out[:, 0] = key
    np.add.at(out[:, 1:], where, pairs[:, 1:])
    return out


GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of this size visit all 64-bit numbers
EBCC_CHUNK_NUMBERS = 1 << 22  # of votes x cells at once


class Priors(NamedTuple):
    """What is believed beforehand."""

    diagonal: float  # pseudo-votes of a worker for the true label, under each of its subtypes
    other: float  # and for each other label
    subtype_weight: float  # pseudo-tasks of a label, shared by its subtypes
    class_weight: Floats | None  # [K] pseudo-tasks of each label; None if the next are given
    log_classes: Floats | None = None  # [K] fixed log-probabilities of the labels


def ebcc(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [votes]
    row_pair: NDArray[np.int64],  # IN [rows] the (worker, given label) pair of a row
    row_weight: Floats,  # IN [rows] what its votes count
    pair_label: NDArray[np.int32],  # IN [pairs]
    worker_ptr: NDArray[np.int64],  # IN [workers + 1] where the pairs of a worker begin
    shares: Floats,  # IN [tasks, K] what the labels start with; gold is certain
    gold: NDArray[np.int32],  # IN [tasks] below 0 if there is none
    task_key: NDArray[np.uint64],  # IN [tasks] see reference.tie_keys
    label_hash: NDArray[np.uint64],  # IN [K]
    *,
    subtypes: int,
    first: int,  # number of the first restart: starts are drawn by it
    priors: Priors,
    tol: float,
    posterior: Floats,  # OUT [restarts, tasks, K]
    bound: Floats,  # OUT [restarts, max_iter] after each iteration
    changed: NDArray[np.int64],  # OUT [restarts, max_iter] labels that changed in it
    iterations: NDArray[np.int64],  # OUT [restarts]
    threads: int = 1,  # for the compiled twin
) -> None:
    """Run fits from some random starts, until the bound gains less than `tol`."""
    votes = _EbccVotes(task_ptr, row_pair[row], row_weight[row], pair_label, worker_ptr, gold, subtypes, shares.shape[1])
    for i in range(len(iterations)):
        cells = draw_start(shares, task_key, label_hash, subtypes, first + i)
        labels = np.full(len(shares), -1)
        for n in range(bound.shape[1]):
            lines, log_cells, minus = votes.m_step(cells, priors)
            cells, likelihood = votes.e_step(lines, log_cells)
            posterior[i] = cells.reshape(*shares.shape, subtypes).sum(axis=2)
            now = posterior[i].argmax(axis=1)
            changed[i, n], labels = int((now != labels).sum()), now
            bound[i, n], iterations[i] = likelihood + minus, n + 1
            if n and bound[i, n] - bound[i, n - 1] < tol:
                break


def draw_start(
    shares: Floats, task_key: NDArray[np.uint64], label_hash: NDArray[np.uint64], subtypes: int, restart: int
) -> Floats:
    """Return random distributions of tasks over cells, [tasks, K * subtypes]: shares divided among subtypes evenly at random.

    A number is drawn by a hash of seed, task, label, restart and subtype, so that no order has a part in it.
    """
    number = np.uint64(restart * subtypes) + np.arange(1, subtypes + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = mix(mix(task_key[:, None] ^ label_hash)[:, :, None] + GOLDEN * number)
    draws = -np.log(((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    draws *= (shares / draws.sum(axis=2))[:, :, None]
    return draws.reshape(len(shares), -1)


class _EbccVotes(NamedTuple):
    task_ptr: NDArray[np.int64]
    pair: NDArray[np.int64]  # [votes]
    weight: Floats  # [votes]
    pair_label: NDArray[np.int32]
    worker_ptr: NDArray[np.int64]
    gold: NDArray[np.int32]
    subtypes: int
    labels: int

    def m_step(self, cells: Floats, priors: Priors) -> tuple[Floats, Floats, float]:
        """Return the expected log-probabilities of answers, [pairs, cells], and of cells, [cells]; and minus all divergences."""
        own = self.pair_label[:, None] == np.arange(cells.shape[1]) // self.subtypes
        believed = np.where(own, priors.diagonal, priors.other)
        every = np.full((1, 1), priors.diagonal + (self.labels - 1) * priors.other)
        seen = self._count(cells)
        met = np.add.reduceat(seen, self.worker_ptr[:-1], axis=0) if len(seen) else np.zeros((0, cells.shape[1]))
        totals = every + met
        lines = digamma(believed + seen) - np.repeat(digamma(totals), np.diff(self.worker_ptr), axis=0)
        minus = float((log_gamma(every) - log_gamma(totals)).sum())
        minus += float((log_gamma(believed + seen) - log_gamma(believed) - seen * lines).sum())
        by_label = cells.sum(axis=0).reshape(self.labels, self.subtypes)
        log_cells = np.empty_like(by_label)
        for k, tasks in enumerate(by_label):
            of_subtypes = np.full(self.subtypes, priors.subtype_weight / self.subtypes)
            log_cells[k], less = _expect_logs(tasks, of_subtypes)
            minus += less
        if priors.class_weight is not None:
            log_classes, less = _expect_logs(by_label.sum(axis=1), priors.class_weight)
            minus += less
        else:
            assert priors.log_classes is not None
            log_classes = priors.log_classes
        return lines, (log_cells + log_classes[:, None]).reshape(-1), minus

    def e_step(self, lines: Floats, log_cells: Floats) -> tuple[Floats, float]:
        """Return the distributions of tasks over cells, [tasks, cells], and the sum of the logs of their normalisers."""
        scores = np.repeat(log_cells[None, :], len(self.gold), axis=0)
        for some in self._columns(len(log_cells)):
            if len(self.pair):
                scores[:, some] += np.add.reduceat(self.weight[:, None] * lines[self.pair, some], self.task_ptr[:-1], axis=0)
        label = np.arange(len(log_cells)) // self.subtypes
        allowed = (self.gold < 0)[:, None] | (self.gold[:, None] == label)
        stuck = np.isneginf(np.where(allowed, scores, -np.inf)).all(axis=1)  # gold of a label whose prior is 0
        scores[stuck] = 0.0
        scores[~allowed] = -np.inf
        best = scores.max(axis=1, keepdims=True)
        weight = np.exp(scores - best)
        total = weight.sum(axis=1, keepdims=True)
        return weight / total, float((best + np.log(total)).sum())

    def _count(self, cells: Floats) -> Floats:
        """Return the weighted votes of each pair by cell, [pairs, cells]."""
        task = np.repeat(np.arange(len(cells)), np.diff(self.task_ptr))
        order = np.argsort(self.pair, kind="stable")
        starts = np.searchsorted(self.pair[order], np.arange(len(self.pair_label)))
        out = np.zeros((len(self.pair_label), cells.shape[1]))
        for some in self._columns(cells.shape[1]):
            if len(self.pair):  # every pair has votes
                out[:, some] = np.add.reduceat((self.weight[:, None] * cells[task, some])[order], starts, axis=0)
        return out

    def _columns(self, cells: int) -> list[slice]:
        """Return ranges of cells, few enough that votes x cells fit in the memory of a chunk."""
        size = max(EBCC_CHUNK_NUMBERS // max(len(self.pair), 1), 1)
        return [slice(start, min(start + size, cells)) for start in range(0, cells, size)]


def _expect_logs(seen: Floats, believed: Floats) -> tuple[Floats, float]:
    """Return the expected logarithms of a Dirichlet's shares, [n], and minus its divergence from the prior."""
    logs, there = np.full(len(believed), -np.inf), believed > 0
    prior, seen = believed[there], seen[there]
    total, before = np.array([sum_of(prior + seen)]), np.array([sum_of(prior)])
    logs[there] = digamma(prior + seen) - digamma(total)
    minus = float(log_gamma(before)[0] - log_gamma(total)[0])
    return logs, minus + float((log_gamma(prior + seen) - log_gamma(prior) - seen * logs[there]).sum())
