"""The definition of EBCC's mean-field fit, in readable NumPy (Li, Rubinstein and Cohn 2019).

A task has a true label k and one of M subtypes of it: a *cell*. Given its cell, workers answer independently, by
distributions of their own for every cell. Each iteration makes the Dirichlet posteriors of answers, subtypes and labels
from the distributions q of tasks over cells, then q from their expected logarithms. The bound

    sum over tasks of log sum over cells of exp(expected log p(cell, votes)) - sum of KL(posterior || prior)

is a lower bound of the log-probability of the votes, with all constants, and never falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sum_of
from adjudge.kernels.reference import Floats, mix
from adjudge.kernels.special import digamma, log_gamma

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of this size visit all 64-bit numbers
MAX_NUMBERS = 1 << 22  # of votes x cells at once


class Priors(NamedTuple):
    """What is believed beforehand."""

    diagonal: float  # pseudo-votes of a worker for the true label, under each of its subtypes
    other: float  # and for each other label
    subtype_weight: float  # pseudo-tasks of a label, shared by its subtypes
    class_weight: Floats | None  # [K] pseudo-tasks of each label; None where the next are given
    log_classes: Floats | None = None  # [K] fixed log-probabilities of the labels


def ebcc(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [votes]
    row_pair: NDArray[np.int64],  # IN [rows] the (worker, given label) pair of a row
    row_weight: Floats,  # IN [rows] what its votes count
    pair_label: NDArray[np.int32],  # IN [pairs]
    worker_ptr: NDArray[np.int64],  # IN [workers + 1] where the pairs of a worker begin
    shares: Floats,  # IN [tasks, K] what the labels start with; gold is certain
    gold: NDArray[np.int32],  # IN [tasks] below 0 where there is none
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
    votes = _Votes(task_ptr, row_pair[row], row_weight[row], pair_label, worker_ptr, gold, subtypes, shares.shape[1])
    for i in range(len(iterations)):
        cells = started(shares, task_key, label_hash, subtypes, first + i)
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


def started(shares: Floats, task_key: NDArray[np.uint64], label_hash: NDArray[np.uint64], subtypes: int, restart: int) -> Floats:
    """Return random distributions of tasks over cells, [tasks, K * subtypes]: shares divided among subtypes evenly at random.

    A number is drawn by a hash of seed, task, label, restart and subtype, so that no order has a part in it.
    """
    number = np.uint64(restart * subtypes) + np.arange(1, subtypes + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = mix(mix(task_key[:, None] ^ label_hash)[:, :, None] + GOLDEN * number)
    draws = -np.log(((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    draws *= (shares / draws.sum(axis=2))[:, :, None]
    return draws.reshape(len(shares), -1)


class _Votes(NamedTuple):
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
        seen = self._counted(cells)
        met = np.add.reduceat(seen, self.worker_ptr[:-1], axis=0) if len(seen) else np.zeros((0, cells.shape[1]))
        totals = every + met
        lines = digamma(believed + seen) - np.repeat(digamma(totals), np.diff(self.worker_ptr), axis=0)
        minus = float((log_gamma(every) - log_gamma(totals)).sum())
        minus += float((log_gamma(believed + seen) - log_gamma(believed) - seen * lines).sum())
        by_label = cells.sum(axis=0).reshape(self.labels, self.subtypes)
        log_cells = np.empty_like(by_label)
        for k, tasks in enumerate(by_label):
            of_subtypes = np.full(self.subtypes, priors.subtype_weight / self.subtypes)
            log_cells[k], less = _expected(tasks, of_subtypes)
            minus += less
        if priors.class_weight is not None:
            log_classes, less = _expected(by_label.sum(axis=1), priors.class_weight)
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

    def _counted(self, cells: Floats) -> Floats:
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
        size = max(MAX_NUMBERS // max(len(self.pair), 1), 1)
        return [slice(start, min(start + size, cells)) for start in range(0, cells, size)]


def _expected(seen: Floats, believed: Floats) -> tuple[Floats, float]:
    """Return the expected logarithms of a Dirichlet's shares, [n], and minus its divergence from the prior."""
    logs, there = np.full(len(believed), -np.inf), believed > 0
    prior, seen = believed[there], seen[there]
    total, before = np.array([sum_of(prior + seen)]), np.array([sum_of(prior)])
    logs[there] = digamma(prior + seen) - digamma(total)
    minus = float(log_gamma(before)[0] - log_gamma(total)[0])
    return logs, minus + float((log_gamma(prior + seen) - log_gamma(prior) - seen * logs[there]).sum())
