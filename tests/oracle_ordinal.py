"""Ordinal grades written naively from the model's definition: dicts, plain loops, and SciPy's minimiser for each judge.

True grade c of K is at m_c = c - (K + 1) / 2, the cut above grade l at t_l = l - K / 2. A judge (g, h, b) gives at most grade l
with probability 1 / (1 + exp(-(g t_l - h m_c - b))). Judges have the prior 2 (log g - g / 2) - (h - g)^2 / 2 - b^2 / 8, and
every grade is lent three tasks.
"""

import math

from scipy.optimize import minimize


def chance(judge, given, true, k):
    """Return P(given | true), grades from 1 to k."""
    g, h, b = judge

    def at_most(grade):
        if grade in (0, k):
            return float(grade == k)
        x = g * (grade - k / 2) - h * (true - (k + 1) / 2) - b
        return 1 / (1 + math.exp(-x)) if x > -700 else 0.0

    # From the side on which numbers are small, so that differences keep their digits.
    if at_most(given - 1) > 0.5:
        return chance((g, h, -b), k + 1 - given, k + 1 - true, k)
    return at_most(given) - at_most(given - 1)


def log_prior(judge):
    g, h, b = judge
    return 2 * (math.log(g) - g / 2) - (h - g) ** 2 / 2 - b**2 / 8


def fitted(cells, k):
    """Return the judge of expected votes {(given, true): number}."""

    def loss(x):
        judge = (math.exp(x[0]), x[1], x[2])
        likelihood = sum(n * math.log(max(chance(judge, given, c, k), 1e-300)) for (given, c), n in cells.items() if n > 0)
        return -likelihood - log_prior(judge)

    best = minimize(loss, [math.log(2.0), 2.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    again = minimize(loss, best.x, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000})
    return math.exp(again.x[0]), again.x[1], again.x[2]


def fit(votes, grades, iterations):
    """Return (posterior {task: {grade: p}}, judges) of votes (task, worker, grade) after `iterations` iterations.

    `grades` are those that occur, low to high.
    """
    k, place = len(grades), {grade: n + 1 for n, grade in enumerate(grades)}
    tasks = {}
    for task, worker, grade in votes:
        tasks.setdefault(task, []).append((worker, place[grade]))
    belief = {
        task: {c: sum(grade == c for _, grade in given) / len(given) for c in range(1, k + 1)} for task, given in tasks.items()
    }
    for _ in range(iterations):
        prior = {c: (3 + sum(belief[task][c] for task in tasks)) / (3 * k + len(tasks)) for c in range(1, k + 1)}
        cells = {}
        for task, given in tasks.items():
            for worker, grade in given:
                mine = cells.setdefault(worker, {})
                for c in range(1, k + 1):
                    mine[grade, c] = mine.get((grade, c), 0.0) + belief[task][c]
        judges = {worker: fitted(mine, k) for worker, mine in cells.items()}
        for task, given in tasks.items():
            score = {}
            for c in range(1, k + 1):
                score[c] = math.log(prior[c]) + sum(math.log(chance(judges[worker], grade, c, k)) for worker, grade in given)
            top = max(score.values())
            total = sum(math.exp(one - top) for one in score.values())
            belief[task] = {c: math.exp(one - top) / total for c, one in score.items()}
    return {task: {grades[c - 1]: p for c, p in known.items()} for task, known in belief.items()}, judges
