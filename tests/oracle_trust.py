"""The passes of adjudge.results.trust vote by vote, in dictionaries: slow, and written apart from them."""

import math
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np

PSEUDO_VOTES, ALIKE = 10.0, 300.0


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
    return max(counts[worker, given, true] + PSEUDO_VOTES * mean[true, given] - own, 1e-6) / (
        totals[worker, true] + PSEUDO_VOTES - own
    )


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


def below_chance(votes, k, labels_of, judged):
    """z of each worker: does it avoid what the others say, given its own mix of labels?

    Votes are (task, worker, label) in codes; `judged` is what `oracle_auto.judged` returns third.
    """
    cold_of, said, scores = judged
    mine, shown = defaultdict(list), defaultdict(list)
    sizes = Counter(t for t, _, _ in votes)
    for v, (t, w, g) in enumerate(votes):
        if sizes[t] < 2:
            continue
        left = [(s - x) * cold_of[t] for s, x in zip(scores[t], said[v], strict=True)]
        weights = [math.exp(x - max(left)) for x in left]
        shown[w].append([x / sum(weights) for x in weights])
        mine[w].append(g)
    out = {}
    for w in {w for _, w, _ in votes}:
        n = len(mine[w])
        if n < 2:
            out[w] = 0.0
            continue
        mix = Counter(mine[w])
        got = sum(p[g] for p, g in zip(shown[w], mine[w], strict=True)) / n
        expected = variance = 0.0
        for c, number in mix.items():
            mean = sum(p[c] for p in shown[w]) / n
            expected += number / n * mean
            variance += number / n * max(sum(p[c] ** 2 for p in shown[w]) / n - mean**2, 0.0)
        out[w] = (got - expected) / math.sqrt(max(variance / (n - 1), 1e-12))
    return out


def ring_proof(votes, ring, chance, k):
    """(agreeing pairs, pairs, accuracy that explains them, likeliest accuracy, log-likelihood ratio) of a ring.

    Votes are (task, worker, label), each worker once per task; `chance` gives the probability of a label of a task, None where
    nobody else has voted.
    """
    by_task = defaultdict(list)
    for t, w, g in votes:
        if w in ring:
            by_task[t].append(g)
    pairs = [a == b for given in by_task.values() for a, b in combinations(given, 2)]
    share = quantile(sum(pairs) + 0.5, len(pairs) - sum(pairs) + 0.5, 0.5)
    e = 1 / (k - 1)
    needed = (e + math.sqrt(share * (1 + e) - e)) / (1 + e)
    p = []
    for t, given in by_task.items():
        (label, most), *rest = Counter(given).most_common()
        if (not rest or rest[0][1] < most) and chance(t, label) is not None:
            p.append(chance(t, label))

    def fit(x):
        return sum(math.log(x * q + (1 - x) * (1 - q) / (k - 1)) for q in p)

    best = max((i / 20000 for i in range(1, 20000)), key=fit) if p else math.nan
    return sum(pairs), len(pairs), needed, best, fit(best) - fit(needed) if best < needed else 0.0


def quantile(a, b, level, points=200_000):
    """A quantile of the beta distribution, by adding up slices of equal width in the arc sine of the square root."""
    u = (np.arange(points) + 0.5) / points * math.pi / 2
    height = (2 * a - 1) * np.log(np.sin(u)) + (2 * b - 1) * np.log(np.cos(u))
    area = np.cumsum(np.exp(height - height.max()))
    return math.sin(u[np.searchsorted(area, level * area[-1])]) ** 2


def experts_among_weak(seed, *, tasks=120, weak=25, experts=5, labels=3, per_task=15, weak_skill=0.40, expert_skill=0.97):
    """Votes (task, worker, label) of workers below `experts` who know, independently, in a crowd that mostly does not."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, labels, tasks)
    lure = (truth + draw.integers(1, labels, tasks)) % labels  # the favourite of those who do not know
    votes = []
    for task in range(tasks):
        for worker in draw.permutation(experts + weak)[:per_task].tolist():
            wrong = lure[task] if draw.random() < 0.7 else (truth[task] + draw.integers(1, labels)) % labels
            knows = draw.random() < (expert_skill if worker < experts else weak_skill)
            votes.append((task, worker, int(truth[task] if knows else wrong)))
    return votes
