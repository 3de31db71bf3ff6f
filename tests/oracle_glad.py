"""A naive GLAD from the formulas: dictionaries and loops, another optimiser, nothing shared with adjudge.

Its M-step moves one ability, then one log ease at a time, by Newton's method with halvings.
"""

import math
from collections import defaultdict


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def sigmoid(x):
    return math.exp(log_sigmoid(x))


def log_vote(x, right, k):
    """log P(vote): right, or one of the k - 1 other labels."""
    return log_sigmoid(x) if right else log_sigmoid(-x) - math.log(k - 1)


def scores(votes, ability, log_ease, priors):
    """{task: {label: log prior + sum of log P(vote)}}"""
    out = {}
    for task, worker, given in votes:
        line = out.setdefault(task, {c: math.log(p) for c, p in priors.items()})
        x = ability[worker] * math.exp(log_ease[task])
        for c in line:
            line[c] += log_vote(x, c == given, len(priors))
    return out


def log_sum(line):
    best = max(line.values())
    return best + math.log(sum(math.exp(s - best) for s in line.values()))


def posterior(line):
    total = log_sum(line)
    return {c: math.exp(s - total) for c, s in line.items()}


def expected(votes, T, ability, log_ease, k):
    """The expected log-likelihood of the votes under T[task][label]."""
    total = 0.0
    for task, worker, given in votes:
        x = ability[worker] * math.exp(log_ease[task])
        for c, p in T[task].items():
            if p > 0:
                total += p * log_vote(x, c == given, k)
    return total


def gradient(votes, T, ability, log_ease):
    """(d/d ability, d/d log ease) of `expected`, by the rules of the derivative, label by label."""
    by_worker, by_task = defaultdict(float), defaultdict(float)
    for task, worker, given in votes:
        ease = math.exp(log_ease[task])
        s = sigmoid(ability[worker] * ease)
        for c, p in T[task].items():
            slope = p * ((1 - s) if c == given else -s)
            by_worker[worker] += slope * ease
            by_task[task] += slope * ability[worker] * ease
    return by_worker, by_task


def newton(value, slope, bend, at):
    """One step uphill from `at`, halved until it is one."""
    step = slope(at) / max(bend(at), 1e-3)
    before = value(at)
    while abs(step) > 1e-13:
        if value(at + step) >= before:
            return at + step
        step /= 2
    return at


def normal(z):
    return -0.5 * (z - 1) ** 2


def improve_ability(votes, at):
    """votes: [(ease, probability of being right)] of one worker."""
    return newton(
        lambda a: normal(a) + sum(r * log_sigmoid(a * e) + (1 - r) * log_sigmoid(-a * e) for e, r in votes),
        lambda a: 1 - a + sum((r - sigmoid(a * e)) * e for e, r in votes),
        lambda a: 1 + sum(sigmoid(a * e) * sigmoid(-a * e) * e * e for e, _ in votes),
        at,
    )


def improve_ease(votes, at):
    """votes: [(ability, probability of being right)] of one task."""

    def value(b):
        e = math.exp(b)
        return normal(b) + sum(r * log_sigmoid(a * e) + (1 - r) * log_sigmoid(-a * e) for a, r in votes)

    def slope(b):
        e = math.exp(b)
        return 1 - b + sum((r - sigmoid(a * e)) * a * e for a, r in votes)

    def bend(b):
        e = math.exp(b)
        return 1 + sum(sigmoid(a * e) * sigmoid(-a * e) * (a * e) ** 2 - (r - sigmoid(a * e)) * a * e for a, r in votes)

    return newton(value, slope, bend, at)


def fit(votes, *, tol=1e-8, max_iter=1000, sweeps=2):
    """EM from the means of the priors until the penalised log-likelihood gains less than tol."""
    labels = sorted({v[2] for v in votes}, key=str)
    priors = {c: 1 / len(labels) for c in labels}
    by_worker, by_task = defaultdict(list), defaultdict(list)
    for vote in votes:
        by_worker[vote[1]].append(vote)
        by_task[vote[0]].append(vote)
    ability, log_ease = dict.fromkeys(by_worker, 1.0), dict.fromkeys(by_task, 1.0)
    before = -math.inf
    for _ in range(max_iter):
        lines = scores(votes, ability, log_ease, priors)
        T = {t: posterior(line) for t, line in lines.items()}
        likelihood = sum(map(log_sum, lines.values()))
        objective = likelihood + sum(map(normal, ability.values())) + sum(map(normal, log_ease.values()))
        if objective - before < tol:
            break
        before = objective
        for _ in range(sweeps):
            for w, own in by_worker.items():
                ability[w] = improve_ability([(math.exp(log_ease[t]), T[t][c]) for t, _, c in own], ability[w])
            for t, own in by_task.items():
                log_ease[t] = improve_ease([(ability[w], T[t][c]) for _, w, c in own], log_ease[t])
    return {"posterior": T, "ability": ability, "log_ease": log_ease, "log_likelihood": likelihood, "objective": objective}
