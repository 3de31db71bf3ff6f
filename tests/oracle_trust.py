"""The passes of quorate.results.trust vote by vote, in dictionaries: slow, and written apart from them."""

import math
from collections import defaultdict

LENT, ALIKE = 10.0, 300.0


def tallied(votes, posterior, labels):
    """(counts[worker, given, true], totals[worker, true], priors[true], mean[true, given]) of (task, worker, label) votes."""
    counts, totals, pool = defaultdict(float), defaultdict(float), defaultdict(float)
    for task, worker, given in votes:
        for true in labels:
            counts[worker, given, true] += posterior[task][true]
            totals[worker, true] += posterior[task][true]
            pool[true, given] += posterior[task][true]
    used = {given for _, _, given in votes}
    shares = {true: 1 + sum(p[true] for p in posterior.values()) for true in labels if true in used}
    priors = {true: shares.get(true, 0.0) / sum(shares.values()) for true in labels}
    k, every = len(labels), sum(pool.values())
    overall = (sum(pool[true, true] for true in labels) + 1.0) / (every + 1.5)
    mean = {}
    for true in labels:
        met = sum(pool[true, given] for given in labels)
        right = (pool[true, true] + ALIKE * overall) / (met + ALIKE) if k > 1 else 1.0
        errors = {given: pool[true, given] + 0.3 / k for given in labels if given != true}
        for given in labels:
            mean[true, given] = right if given == true else errors[given] / sum(errors.values()) * (1 - right)
    return counts, totals, priors, mean


def chance(tables, vote, true, own):
    """The probability of a vote under a true label, by what its worker said elsewhere."""
    counts, totals, _, mean = tables
    _, worker, given = vote
    return max(counts[worker, given, true] + LENT * mean[true, given] - own, 1e-6) / (totals[worker, true] + LENT - own)


def judged(votes, posterior, labels):
    """The posterior after one pass, {task: {label: probability}}."""
    tables = tallied(votes, posterior, labels)
    out = {}
    for task in posterior:
        scores = {}
        for true in labels:
            if tables[2][true]:
                mine = [v for v in votes if v[0] == task]
                scores[true] = math.log(tables[2][true]) + sum(
                    math.log(chance(tables, v, true, posterior[task][true])) for v in mine
                )
        top = max(scores.values())
        weights = {true: math.exp(s - top) for true, s in scores.items()}
        out[task] = {true: weights.get(true, 0.0) / sum(weights.values()) for true in labels}
    return out


def without(votes, posterior, labels, vote):
    """The posterior of a vote's task without it, {label: probability}."""
    tables = tallied(votes, posterior, labels)
    weights = {true: posterior[vote[0]][true] / chance(tables, vote, true, posterior[vote[0]][true]) for true in labels}
    return {true: w / sum(weights.values()) for true, w in weights.items()}
