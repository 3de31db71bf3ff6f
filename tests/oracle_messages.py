"""KOS and M-MSR from their papers: dictionaries and loops, nothing shared with adjudge."""

import math
from collections import Counter, defaultdict


def kos(votes, rounds, positive):
    """{task: score}, above 0 for the positive label; every message starts at 1. Votes are (task, worker, label), all distinct."""
    a = {(t, w): 1 if label == positive else -1 for t, w, label in votes}
    of_task, of_worker = defaultdict(list), defaultdict(list)
    for t, w in a:
        of_task[t].append(w)
        of_worker[w].append(t)
    y = dict.fromkeys(a, 1)  # whole numbers, of any size: nothing is rounded
    for _ in range(rounds):
        every = {t: sum(a[t, w] * y[t, w] for w in workers) for t, workers in of_task.items()}
        x = {(t, w): every[t] - a[t, w] * y[t, w] for t, w in a}
        every = {w: sum(a[t, w] * x[t, w] for t in tasks) for w, tasks in of_worker.items()}
        y = {(t, w): every[w] - a[t, w] * x[t, w] for t, w in a}
    return {t: sum(a[t, w] * y[t, w] for w in workers) for t, workers in of_task.items()}


def agreement(votes, k):
    """{worker: {other: agreement beyond chance}} and {(worker, other): pairs of votes on one task}."""
    by_task = defaultdict(list)
    for t, w, label in votes:
        by_task[t].append((w, label))
    common, agreed = Counter(), Counter()
    for cast in by_task.values():
        for one, mine in cast:
            for other, theirs in cast:
                if one != other:
                    common[one, other] += 1
                    agreed[one, other] += mine == theirs
    x = defaultdict(dict)
    for (one, other), n in common.items():
        x[one][other] = k / (k - 1) * agreed[one, other] / n - 1 / (k - 1)
    return x, common


def half_step(x, of, own, trim):
    """A worker's factor: the mean of ratios without up to `trim` of those above its own factor and of those below it."""
    out = {}
    for worker, line in x.items():
        ratios = sorted(abs(value) / of[other] for other, value in line.items() if of[other] > 1e-9)
        below = [r for r in ratios if r < own[worker]][trim[worker] :]
        above = [r for r in ratios if r > own[worker]]
        above = above[: max(len(above) - trim[worker], 0)]
        kept = below + [r for r in ratios if r == own[worker]] + above
        out[worker] = math.fsum(kept) / len(kept) if kept else own[worker]
    return out


def mmsr(votes, k, iterations=2000, tol=1e-12):
    """{worker: |skill|} before anything bounds it, leaving out a quarter of the colleagues on each side."""
    x, _ = agreement(votes, k)
    trim = {worker: len(line) // 4 for worker, line in x.items()}
    u, v = dict.fromkeys(x, 1.0), dict.fromkeys(x, 1.0)
    for _ in range(iterations):
        next_u = half_step(x, v, u, trim)
        next_v = half_step(x, next_u, v, trim)
        moved = max((abs(next_u[w] * next_v[w] - u[w] * v[w]) for w in x), default=0.0)
        u, v = next_u, next_v
        if moved < tol:
            break
    return {w: math.sqrt(u[w] * v[w]) for w in x}
