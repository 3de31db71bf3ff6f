"""Naive LFC, IBCC, EBCC and MACE from their papers: dictionaries, loops and SciPy's functions, nothing shared with adjudge.

Votes are (task, worker, given) tuples of texts.
"""

import math
from collections import Counter, defaultdict

from scipy.special import digamma, gammaln


def names(votes):
    """Sorted tasks, workers and labels."""
    return (sorted({vote[i] for vote in votes}) for i in range(3))


def vote_shares(votes):
    """{task: {label: share}}"""
    tasks, _, labels = names(votes)
    given = Counter((t, c) for t, _, c in votes)
    size = Counter(t for t, _, _ in votes)
    return {t: {c: given[t, c] / size[t] for c in labels} for t in tasks}


def softmax(line):
    """({key: probability}, log of the sum)"""
    best = max(line.values())
    total = sum(math.exp(s - best) for s in line.values())
    return {c: math.exp(s - best) / total for c, s in line.items()}, best + math.log(total)


def lfc(votes, diagonal=4.0, other=1.0, iterations=10):
    """(posterior, penalised log-likelihood after every iteration)"""
    _, workers, labels = names(votes)
    T, objective = vote_shares(votes), []
    for _ in range(iterations):
        prior = {c: sum(line[c] for line in T.values()) / len(T) for c in labels}
        n = {(w, c, g): diagonal if c == g else other for w in workers for c in labels for g in labels}
        penalty = 0.0
        believed = dict(n)
        for t, w, g in votes:
            for c in labels:
                n[w, c, g] += T[t][c]
        pi = {(w, c, g): n[w, c, g] / sum(n[w, c, h] for h in labels) for w, c, g in n}
        penalty = sum(believed[cell] * math.log(pi[cell]) for cell in pi)
        scores = {t: {c: math.log(prior[c]) for c in labels} for t in T}
        for t, w, g in votes:
            for c in labels:
                scores[t][c] += math.log(pi[w, c, g])
        T, sums = {}, 0.0
        for t, line in scores.items():
            T[t], log_sum = softmax(line)
            sums += log_sum
        objective.append(sums + penalty)
    return T, objective


def log_beta(a):
    return sum(gammaln(x) for x in a) - gammaln(sum(a))


def expected_logs(a):
    """{key: E log share} of a Dirichlet {key: concentration}"""
    total = digamma(sum(a.values()))
    return {key: digamma(x) - total for key, x in a.items()}


def free_energy(a, prior):
    """E log p - E log q of a Dirichlet q with concentrations a, under a Dirichlet p: {key: concentration} each."""
    logs = expected_logs(a)
    log_p = sum((prior[i] - 1) * logs[i] for i in a) - log_beta(prior.values())
    log_q = sum((a[i] - 1) * logs[i] for i in a) - log_beta(a.values())
    return log_p - log_q


def mean_field(votes, q, prior_classes, subtypes, subtype_weight, diagonal=4.0, other=1.0, iterations=10):
    """(q, bounds) of EBCC from q: {task: {(label, subtype): probability}}; IBCC has one subtype.

    The bound is E log p(votes, tasks' cells, parameters) - E log q(cells, parameters), term by term.
    """
    _, workers, labels = names(votes)
    cells = [(c, m) for c in labels for m in range(subtypes)]
    of_worker = {c: {g: diagonal if g == c else other for g in labels} for c in labels}
    of_subtypes = dict.fromkeys(range(subtypes), subtype_weight / subtypes)
    bounds = []
    for _ in range(iterations):
        classes = {c: prior_classes[c] + sum(line[c, m] for line in q.values() for m in range(subtypes)) for c in labels}
        kinds = {c: {m: of_subtypes[m] + sum(line[c, m] for line in q.values()) for m in range(subtypes)} for c in labels}
        answers = {(w, *cell): dict(of_worker[cell[0]]) for w in workers for cell in cells}
        for t, w, g in votes:
            for cell in cells:
                answers[(w, *cell)][g] += q[t][cell]
        log_classes = expected_logs(classes)
        log_kinds = {c: expected_logs(kinds[c]) for c in labels}
        log_answers = {key: expected_logs(a) for key, a in answers.items()}
        joint = {t: {(c, m): log_classes[c] + log_kinds[c][m] for c, m in cells} for t in q}
        for t, w, g in votes:
            for cell in cells:
                joint[t][cell] += log_answers[(w, *cell)][g]
        q = {t: softmax(line)[0] for t, line in joint.items()}
        bound = sum(p * (joint[t][cell] - math.log(p)) for t, line in q.items() for cell, p in line.items() if p > 0)
        bound += free_energy(classes, prior_classes) + sum(free_energy(kinds[c], of_subtypes) for c in labels)
        bound += sum(free_energy(a, of_worker[key[1]]) for key, a in answers.items())
        bounds.append(bound)
    return q, bounds


def mace(votes, spam, habit, *, method, iterations, smoothing=0.0, alpha=0.5, beta=0.5, prior=10.0):
    """(posterior, spam, habit, log-likelihood) from spam: {worker: (spamming, knowing)} and habit: {worker: {label: p}}."""
    _, workers, labels = names(votes)
    for n in range(iterations + 1):
        scores = {t: dict.fromkeys(labels, -math.log(len(labels))) for t, _, _ in votes}
        for t, w, g in votes:
            for c in labels:
                scores[t][c] += math.log(spam[w][0] * habit[w][g] + (spam[w][1] if c == g else 0.0))
        T = {t: softmax(line)[0] for t, line in scores.items()}
        likelihood = sum(softmax(line)[1] for line in scores.values())
        if n == iterations:
            return T, spam, habit, likelihood
        known, spammed = defaultdict(float), defaultdict(float)
        for t, w, g in votes:
            knew = T[t][g] * spam[w][1] / (spam[w][1] + spam[w][0] * habit[w][g])
            known[w] += knew
            spammed[w, g] += 1 - knew
        everything = {w: sum(spammed[w, g] for g in labels) for w in workers}
        if method == "em":
            s = smoothing
            spam = {w: ((everything[w] + s), (known[w] + s)) for w in workers}
            spam = {w: (a / (a + b), b / (a + b)) for w, (a, b) in spam.items()}
            habit = {w: {g: (spammed[w, g] + s) / (everything[w] + len(labels) * s) for g in labels} for w in workers}
        else:
            pair = {w: expected_logs({0: everything[w] + alpha, 1: known[w] + beta}) for w in workers}
            spam = {w: (math.exp(logs[0]), math.exp(logs[1])) for w, logs in pair.items()}
            logs = {w: expected_logs({g: spammed[w, g] + prior for g in labels}) for w in workers}
            habit = {w: {g: math.exp(x) for g, x in line.items()} for w, line in logs.items()}
    raise AssertionError("not reached")
