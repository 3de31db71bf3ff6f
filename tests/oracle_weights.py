"""Weighted votes, naively: the paper's models in dictionaries and loops, shared error, auto and honest confidence in NumPy.

Votes are (task, worker, label, weight), weights above 0. Nothing here is shared with adjudge.
"""

import math
from collections import defaultdict

import numpy as np

from oracle import log, posterior, winner


def shares(votes):
    """{task: {label: share of the weights of its votes}}"""
    sums = defaultdict(lambda: defaultdict(float))
    for task, _, label, weight in votes:
        sums[task][label] += weight
    return {t: {c: x / math.fsum(line.values()) for c, x in line.items()} for t, line in sums.items()}


def majority(votes, seed=0):
    return {t: winner(line, t, seed)[0] for t, line in shares(votes).items()}


def m_step(votes, T, labels, smoothing=0.0):
    p = {c: sum(T[t].get(c, 0.0) for t in T) / len(T) for c in labels}
    top, bottom = defaultdict(float), defaultdict(float)
    for task, worker, given, weight in votes:
        for c in labels:
            top[worker, c, given] += weight * T[task].get(c, 0.0)
            bottom[worker, c] += weight * T[task].get(c, 0.0)
    pi = {}
    for worker, c in bottom:
        for given in labels:
            below = bottom[worker, c] + len(labels) * smoothing
            pi[worker, c, given] = (top[worker, c, given] + smoothing) / below if below > 0 else 0.0
    return p, pi


def e_step(votes, p, pi, labels):
    scores = {}
    for task, worker, given, weight in votes:
        line = scores.setdefault(task, {c: log(p[c]) for c in labels})
        for c in labels:
            line[c] += weight * log(pi[worker, c, given])
    return scores


def fit(votes, model, *, seed=0, tol=1e-4, max_iter=100, switch=0.005, smoothing=0.0):
    labels = sorted({v[2] for v in votes}, key=str)
    T = {t: {c: 1.0} for t, c in majority(votes, seed).items()} if model == "fds" else shares(votes)
    hard, before = model == "fds", None
    for iteration in range(1, max_iter + 1):
        p, pi = m_step(votes, T, labels, smoothing)
        scores = e_step(votes, p, pi, labels)
        picks = {t: winner(line, t, seed)[0] for t, line in scores.items()}
        soft = {t: posterior(line) for t, line in scores.items()}
        T = {t: {c: 1.0} for t, c in picks.items()} if hard else soft
        change = None if before is None else sum(abs(p[c] - before[c]) for c in labels)
        if change is not None and change < tol:
            break
        hard = hard or (model == "hybrid" and change is not None and change <= switch)
        before = p
    likelihood = sum(max(x.values()) + math.log(sum(math.exp(s - max(x.values())) for s in x.values())) for x in scores.values())
    return {"labels": picks, "posterior": soft, "iterations": iteration, "log_likelihood": likelihood, "confusion": pi}


def iwmv(votes, seed=0, max_iter=100):
    options = sorted({v[2] for v in votes}, key=str)
    labels = majority(votes, seed)
    for _ in range(max_iter):
        cast, agreed = defaultdict(float), defaultdict(float)
        for task, worker, given, weight in votes:
            cast[worker] += weight
            agreed[worker] += weight * (given == labels[task])
        skill = {w: len(options) * agreed[w] / cast[w] - 1 for w in cast}
        scores = {t: dict.fromkeys(options, 0.0) for t in labels}
        for task, worker, given, weight in votes:
            scores[task][given] += weight * skill[worker]
        new = {t: winner(line, t, seed)[0] for t, line in scores.items()}
        same, labels = new == labels, new
        if same:
            break
    return {"labels": labels, "weights": skill}


class Votes:
    """Arrays of codes with weights, and sums: the reference of auto and honest confidence with w in place of 1."""

    def __init__(self, task, worker, label, weight, k):
        self.task, self.worker, self.label, self.w, self.K = task, worker, label, weight, k
        self.Q, self.A = task.max() + 1, worker.max() + 1
        self.shown = np.bincount(task * k + label, weight, minlength=self.Q * k).reshape(self.Q, k)
        self.size, self.given = self.shown.sum(axis=1), self.by_worker(np.ones(len(task)))

    def by_task(self, x):
        return np.bincount(self.task, x, minlength=self.Q)

    def by_worker(self, x):
        return np.bincount(self.worker, self.w * x, minlength=self.A)

    def pairs(self, x):
        """Sum over ordered pairs of different votes on one task of w x times w x."""
        x = self.w * x
        return sum(
            (np.outer(x[i], x[i]) - np.diag(x[i] ** 2)).sum() for i in (np.flatnonzero(self.task == t) for t in range(self.Q))
        )

    def alike(self):
        cell = self.task * self.K + self.label
        return sum(
            (np.outer(self.w[i], self.w[i]) - np.diag(self.w[i] ** 2)).sum()
            for i in (np.flatnonzero(cell == c) for c in np.unique(cell))
        )

    def counts(self, T):
        N = np.zeros((self.A, self.K, self.K))  # [a, true, given]
        np.add.at(N, (self.worker, slice(None), self.label), self.w[:, None] * T[self.task])
        return N

    def scores(self, log_table):
        lines = self.w[:, None] * log_table[self.worker, :, self.label]
        return np.stack([self.by_task(lines[:, c]) for c in range(self.K)], axis=1)


def softmax(scores):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def shared_error(v, majority):
    hit = (v.label == majority[v.task]).astype(float)
    mean = (v.w * hit).sum() / v.w.sum()
    q = np.clip((v.by_worker(hit) + 5 * mean) / (v.given + 5), 0.02, 0.98)[v.worker]
    rho = max(0.0, v.pairs(hit - q) / max(v.pairs(np.sqrt(q * (1 - q))), 1e-9))
    return rho, 1 + v.pairs(np.ones(len(hit))) / v.w.sum(), mean


def spread(hit, given, mean):
    several = given >= 2
    if several.sum() < 3:
        return 1 / 11
    hit, given, mean = hit[several], given[several], mean[several]
    var = np.maximum(mean * (1 - mean), 1e-9)
    between = (given * (hit / given - mean) ** 2).sum() - var.sum()
    return float(np.clip(between / max((var * (given - 1)).sum(), 1e-9), 1 / 201, 1 / 2))


def population(pooled, accuracy, floor=1e-6):
    K = len(pooled)
    own = np.arange(K)
    errors = pooled.copy()
    errors[own, own] = 0
    off = np.tile(errors.sum(axis=0) + 1e-9, (K, 1))
    off[own, own] = 0
    off += floor * (off.sum() + 1) / K
    off[own, own] = 0
    off /= off.sum(axis=1, keepdims=True)
    symmetric = (1 - accuracy) * off
    symmetric[own, own] = accuracy
    M = pooled + symmetric
    M = np.clip(0.2 * M / M.sum(axis=1, keepdims=True) + 0.8 * symmetric, 1e-4, None)
    return M / M.sum(axis=1, keepdims=True)


def worker_table(N, rho, phi, mean_k, kind):
    K = N.shape[1]
    own = np.arange(K)
    met = N.sum(axis=2)
    total, right = met.sum(axis=1), N[:, own, own].sum(axis=1)
    M = population(N.sum(axis=0), np.clip(right.sum() / total.sum(), 1 / K + 0.02, 0.995))
    d = np.clip(M[own, own], 0.01, 0.99)
    m = np.clip(met @ d / np.maximum(total, 1e-9), 0.02, 0.98)
    kappa = 1 / spread(right, total, m) - 1
    q = np.clip((right + kappa * m) / (total + kappa), 0.01, 0.995)
    g = 1 / (1 + rho * (kappa + 1))
    shift = (phi**-0.5 if kind == "A" else g) * (np.log(q / (1 - q)) - np.log(m / (1 - m)))
    D = 1 / (1 + np.exp(-(np.log(d / (1 - d)) + shift[:, None])))
    off = M.copy()
    off[own, own] = 0
    off /= off.sum(axis=1, keepdims=True)
    W = (1 - D)[:, :, None] * off
    W[:, own, own] = D
    if kind == "A":
        expected = np.einsum("ac,acl->al", met, W)
        lent = 10 * expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-9)
        W = W * (((N.sum(axis=1) + lent + 1e-3) / (expected + lent + 1e-3)) ** (0.6 * phi**-0.25))[:, None, :]
    else:
        effective = mean_k / phi
        mine = np.minimum(met / (met + 10), g * effective / (effective + 5))[:, :, None]
        W = (1 - mine) * W + mine * N / np.maximum(met, 1e-9)[:, :, None]
    W /= W.sum(axis=2, keepdims=True)
    return np.log(np.maximum(W, 1e-6))


def auto(v, majority, choose):
    """Labels, [tasks], and whether they are those of majority vote."""
    rho, mean_k, mean = shared_error(v, majority)
    phi = 1 + (mean_k - 1) * rho
    hit = v.by_worker((v.label == majority[v.task]).astype(float))
    if 1 / (1 + rho / spread(hit, v.given, np.full(v.A, mean))) < 0.25:
        return majority, True
    total = 0.0
    for kind, anchor in (("A", 0.2), ("B", 0.0)):
        part = v.shown / v.size[:, None]
        believed = part
        for _ in range(6):
            table = worker_table(v.counts(anchor * part + (1 - anchor) * believed), rho, phi, mean_k, kind)
            S = 0.8 * np.log(np.maximum(believed.mean(axis=0), 1e-9)) + v.scores(table)
            now = np.eye(v.K)[choose(S)]
            if (now == believed).all():
                break
            believed = now
        total = total + S / 2
    return choose(total), False


def judged(v, y, majority):
    """Scores of tasks, [tasks, K], what each vote adds to them, [votes, K], and by how much they are flattened, [tasks]."""
    K, rho = v.K, shared_error(v, majority)[0]
    agrees = (v.label == y[v.task]).astype(float)
    every = v.w.sum()
    chance = min(((np.bincount(v.label, v.w, minlength=K) / every) ** 2).sum(), 0.999)
    agree = (v.w * agrees).sum() / every
    skill = np.clip(((v.by_worker(agrees) + 2 * agree) / (v.given + 2) - chance) / (1 - chance), 0, 1)[v.worker]
    observed = (v.alike() - chance * v.pairs(np.ones(len(v.w)))) / (1 - chance)
    holds = np.clip((observed + 0.15) / (v.pairs(skill) + 1), 0, 1)
    N = np.zeros((v.A, K, K))  # [a, given, true]
    np.add.at(N, (v.worker, v.label, y[v.task]), v.w)
    pooled = N.sum(axis=0).T
    M = population(pooled, np.clip((np.trace(pooled) + 1 / K) / (every + 1), 1 / K + 0.02, 0.995), floor=1e-3)
    own = v.w[:, None] * np.eye(K)[y][v.task]  # the vote itself is left out, with all its weight
    L = np.log(
        (np.maximum(N[v.worker, v.label] - own, 0) + 5 * M.T[v.label]) / (np.maximum(N.sum(axis=1)[v.worker] - own, 0) + 5)
    )
    L[np.arange(len(v.label)), v.label] = L.max(axis=1)
    L *= v.w[:, None]
    S = 0.8 * np.log((np.bincount(y, minlength=K) + 1) / (v.Q + K))
    S = S + np.stack([v.by_task(L[:, c]) for c in range(K)], axis=1)
    return S, L, min(1.0, 2 * holds) / (2 * (1 + np.maximum(v.size - 1, 0) * rho))


def before(v, y, majority):
    """Probabilities before the label gets the largest, [tasks, K]."""
    S, _, cold = judged(v, y, majority)
    return 0.8 * softmax(S * cold[:, None]) + 0.2 * (v.shown + 1 / v.K) / (v.size + 1)[:, None]


def honest(v, y, majority):
    """Probabilities, [tasks, K]."""
    P = before(v, y, majority)
    P[np.arange(v.Q), y] = P.max(axis=1)
    return P / P.sum(axis=1, keepdims=True)


def below_chance(v, y, majority):
    """z of each worker, [workers]: the others' votes have weights, the worker's answers count once each."""
    S, L, cold = judged(v, y, majority)
    several = np.bincount(v.task, minlength=v.Q)[v.task] > 1
    P = softmax((S[v.task] - L) * cold[v.task][:, None])
    out = np.zeros(v.A)
    for a in range(v.A):
        mine = several & (v.worker == a)
        n = mine.sum()
        if n > 1:
            p, given = P[mine], v.label[mine]
            said = np.bincount(given, minlength=v.K) / n
            variance = (said * p.var(axis=0)).sum() / (n - 1)
            out[a] = (p[np.arange(n), given].mean() - said @ p.mean(axis=0)) / np.sqrt(max(variance, 1e-12))
    return out
