"""A second, naive implementation from the paper's equations: dictionaries and loops, nothing shared with adjudge.

It decides ties by the documented hash, so that labels can be compared one by one.
"""

import math
from collections import defaultdict

MASK = 2**64 - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def text_hash(text):
    h = 0xCBF29CE484222325
    for byte in str(text).encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return mix(h)


def winner(scores, task, seed):
    """The best label; among the tied ones that with the largest hash of (seed, task, label)."""
    best = max(scores.values())
    tied = [c for c, s in scores.items() if s >= best - 1e-9 * max(1.0, abs(best))]
    key = mix(text_hash(task) ^ mix(seed))
    return max(tied, key=lambda c: mix(key ^ text_hash(c))), len(tied) > 1


def shares(votes):
    """{task: {label: share of its votes}}"""
    count = defaultdict(lambda: defaultdict(int))
    for task, _, label in votes:
        count[task][label] += 1
    return {t: {c: n / sum(ls.values()) for c, n in ls.items()} for t, ls in count.items()}


def majority(votes, seed=0):
    return {t: winner(ls, t, seed)[0] for t, ls in shares(votes).items()}


def m_step(votes, T, labels, smoothing=0.0):
    """Equations 9 and 10: (p, pi) from T[task][label]."""
    p = {c: sum(T[t].get(c, 0.0) for t in T) / len(T) for c in labels}
    top, bottom = defaultdict(float), defaultdict(float)
    for task, worker, given in votes:
        for c in labels:
            weight = T[task].get(c, 0.0)
            top[worker, c, given] += weight
            bottom[worker, c] += weight
    pi = {}
    for worker, c in bottom:
        for given in labels:
            below = bottom[worker, c] + len(labels) * smoothing
            pi[worker, c, given] = (top[worker, c, given] + smoothing) / below if below > 0 else 0.0
    return p, pi


def log(x):
    return math.log(x) if x > 0 else -math.inf


def e_step(votes, p, pi, labels):
    """Equation 11 in logarithms: {task: {label: log p_c + sum log pi}}"""
    scores = {}
    for task, worker, given in votes:
        line = scores.setdefault(task, {c: log(p[c]) for c in labels})
        for c in labels:
            line[c] += log(pi[worker, c, given])
    return scores


def posterior(line):
    best = max(line.values())
    weight = {c: math.exp(s - best) for c, s in line.items()}
    total = sum(weight.values())
    return {c: w / total for c, w in weight.items()}


def fit(votes, model, *, seed=0, tol=1e-4, max_iter=100, switch=0.005, smoothing=0.0):
    """Algorithms 1 and 3 and Dawid-Skene; returns a dict of everything a test may ask."""
    labels = sorted({v[2] for v in votes}, key=str)
    T = {t: {c: 1.0} for t, c in majority(votes, seed).items()} if model == "fds" else shares(votes)
    hard, before, c2, likelihoods = model == "fds", None, [], []
    for iteration in range(1, max_iter + 1):
        p, pi = m_step(votes, T, labels, smoothing)
        scores = e_step(votes, p, pi, labels)
        picks = {t: winner(line, t, seed)[0] for t, line in scores.items()}
        soft = {t: posterior(line) for t, line in scores.items()}
        T = {t: {c: 1.0} for t, c in picks.items()} if hard else soft
        c2.append(sum(scores[t][c] for t, c in picks.items()) if hard else None)
        likelihoods.append(
            sum(max(x.values()) + math.log(sum(math.exp(s - max(x.values())) for s in x.values())) for x in scores.values())
        )
        change = None if before is None else sum(abs(p[c] - before[c]) for c in labels)
        if change is not None and change < tol:
            break
        if model == "hybrid" and change is not None and change <= switch:
            hard = True
        before = p
    return {
        "labels": picks,
        "posterior": soft,
        "iterations": iteration,
        "log_likelihood": likelihoods[-1],
        "likelihoods": likelihoods,
        "c2": c2,
        "priors": p,
        "confusion": pi,
        "tie": {t: winner(line, t, seed)[1] for t, line in scores.items()},
    }


def iwmv(votes, seed=0, max_iter=100):
    """Li and Yu: weights L * accuracy - 1 from agreement with the current labels, until these stop changing."""
    options = sorted({v[2] for v in votes}, key=str)
    labels = majority(votes, seed)
    for iteration in range(1, max_iter + 1):
        cast, agreed = defaultdict(int), defaultdict(int)
        for task, worker, given in votes:
            cast[worker] += 1
            agreed[worker] += given == labels[task]
        weight = {w: len(options) * agreed[w] / cast[w] - 1 for w in cast}
        scores = {t: dict.fromkeys(options, 0.0) for t in labels}
        for task, worker, given in votes:
            scores[task][given] += weight[worker]
        new = {t: winner(line, t, seed)[0] for t, line in scores.items()}
        same, labels = new == labels, new
        if same:
            break
    return {"labels": labels, "weights": weight, "iterations": iteration, "scores": scores}
