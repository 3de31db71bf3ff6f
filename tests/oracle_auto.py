"""Auto and honest confidence vote by vote, in plain Python: slow, and written apart from the package.

Votes are (task, worker, label) with codes from 0 on; every label below K is given at least once. `majority` and `choose`
decide ties as the package does.
"""

import math
from collections import defaultdict


def logit(p):
    return math.log(p / (1 - p))


def clip(x, low, high):
    return min(max(x, low), high)


def by_task(votes):
    out = defaultdict(list)
    for t, w, g in votes:
        out[t].append((w, g))
    return out


def pair_sum(tasks, value):
    """Sum over tasks and ordered pairs of different votes of value * value."""
    total = 0.0
    for t, ballots in tasks.items():
        x = [value(t, w, g) for w, g in ballots]
        total += sum(a * b for i, a in enumerate(x) for j, b in enumerate(x) if i != j)
    return total


def shared_error(votes, majority):
    tasks, given, right = by_task(votes), defaultdict(int), defaultdict(int)
    for t, w, g in votes:
        given[w] += 1
        right[w] += g == majority[t]
    mean = sum(right.values()) / len(votes)
    rate = {w: clip((right[w] + 5 * mean) / (given[w] + 5), 0.02, 0.98) for w in given}
    together = pair_sum(tasks, lambda t, w, g: (g == majority[t]) - rate[w])
    apart = pair_sum(tasks, lambda t, w, g: math.sqrt(rate[w] * (1 - rate[w])))
    pairs = sum(len(b) * (len(b) - 1) for b in tasks.values())
    spread = skill_spread({w: (right[w], given[w], mean) for w in given})
    return max(0.0, together / max(apart, 1e-9)), 1 + pairs / len(votes), spread


def skill_spread(workers):
    """Intraclass correlation of right votes within workers; `workers` has (right votes, votes, expected right votes)."""
    several = [(r, n, m) for r, n, m in workers.values() if n >= 2]
    if len(several) < 3:
        return 1 / 11
    variance = [max(m * (1 - m), 1e-9) for _, _, m in several]
    between = sum(n * (r / n - m) ** 2 for r, n, m in several) - sum(variance)
    within = sum(v * (n - 1) for v, (_, n, _) in zip(variance, several, strict=True))
    return clip(between / max(within, 1e-9), 1 / 201, 1 / 2)


def population(pooled, accuracy, floor):
    """Confusion of the mean worker, [true][given], of the votes of all, [true][given]."""
    k = len(pooled)
    labels = range(k)
    errors = [sum(pooled[c][g] for c in labels if c != g) + 1e-9 for g in labels]
    off = [[0.0 if c == g else errors[g] for g in labels] for c in labels]
    lift = floor * (sum(map(sum, off)) + 1) / k
    off = [[0.0 if c == g else off[c][g] + lift for g in labels] for c in labels]
    out = []
    for c in labels:
        total = sum(off[c])
        symmetric = [accuracy if c == g else (1 - accuracy) * off[c][g] / total for g in labels]
        mixed = [pooled[c][g] + symmetric[g] for g in labels]
        line = [max(0.2 * mixed[g] / sum(mixed) + 0.8 * symmetric[g], 1e-4) for g in labels]
        out.append([x / sum(line) for x in line])
    return out


def tables(counts, k, kind, rho, mean_k):
    """log W[w][c][g] of one of the two versions, of counts[w][c][g]."""
    labels, phi = range(k), 1 + (mean_k - 1) * rho
    pooled = [[sum(n[c][g] for n in counts.values()) for g in labels] for c in labels]
    total = sum(map(sum, pooled))
    mean = population(pooled, clip(sum(pooled[c][c] for c in labels) / total, 1 / k + 0.02, 0.995), 1e-6)
    own = [clip(mean[c][c], 0.01, 0.99) for c in labels]
    met = {w: [sum(n[c]) for c in labels] for w, n in counts.items()}
    votes = {w: sum(m) for w, m in met.items()}
    right = {w: sum(n[c][c] for c in labels) for w, n in counts.items()}
    expected = {w: clip(sum(m * o for m, o in zip(met[w], own, strict=True)) / max(votes[w], 1e-9), 0.02, 0.98) for w in met}
    kappa = 1 / skill_spread({w: (right[w], votes[w], expected[w]) for w in met}) - 1
    trust = 1 / (1 + rho * (kappa + 1))
    out = {}
    for w, n in counts.items():
        rate = clip((right[w] + kappa * expected[w]) / (votes[w] + kappa), 0.01, 0.995)
        shift = (phi**-0.5 if kind == "A" else trust) * (logit(rate) - logit(expected[w]))
        line = []
        for c in labels:
            d = 1 / (1 + math.exp(-(logit(own[c]) + shift)))
            off = sum(mean[c]) - mean[c][c]
            line.append([d if c == g else (1 - d) * mean[c][g] / off for g in labels])
        if kind == "A":
            said = [sum(n[c][g] for c in labels) for g in labels]
            foreseen = [sum(met[w][c] * line[c][g] for c in labels) for g in labels]
            lent = [10 * f / max(sum(foreseen), 1e-9) for f in foreseen]
            power = 0.6 * phi**-0.25
            taste = [((s + e + 1e-3) / (f + e + 1e-3)) ** power for s, e, f in zip(said, lent, foreseen, strict=True)]
            line = [[line[c][g] * taste[g] for g in labels] for c in labels]
        else:
            effective = mean_k / phi
            for c in labels:
                mine = min(met[w][c] / (met[w][c] + 10), trust * effective / (effective + 5))
                line[c] = [(1 - mine) * line[c][g] + mine * n[c][g] / max(met[w][c], 1e-9) for g in labels]
        out[w] = [[math.log(max(x / sum(line[c]), 1e-6)) for x in line[c]] for c in labels]
    return out


def careful(votes, k, kind, rho, mean_k, choose):
    """Scores of the last pass, [task][label]."""
    tasks, labels, anchor = by_task(votes), range(k), 0.2 if kind == "A" else 0.0
    shares = {t: [sum(g == c for _, g in b) / len(b) for c in labels] for t, b in tasks.items()}
    believed = shares
    for _ in range(6):
        counts = {w: [[0.0] * k for _ in labels] for _, w, _ in votes}
        for t, w, g in votes:
            for c in labels:
                counts[w][c][g] += anchor * shares[t][c] + (1 - anchor) * believed[t][c]
        table = tables(counts, k, kind, rho, mean_k)
        prior = [0.8 * math.log(max(sum(b[c] for b in believed.values()) / len(tasks), 1e-9)) for c in labels]
        scores = {t: [prior[c] + sum(table[w][c][g] for w, g in b) for c in labels] for t, b in tasks.items()}
        now = {t: [float(c == choose(t, s)) for c in labels] for t, s in scores.items()}
        if now == believed:
            break
        believed = now
    return scores


def auto(votes, k, majority, choose):
    """Labels by task, and whether majority vote was the answer."""
    rho, mean_k, spread = shared_error(votes, majority)
    if 1 / (1 + rho / spread) < 0.25:
        return dict(majority), True
    a, b = (careful(votes, k, kind, rho, mean_k, choose) for kind in "AB")
    return {t: choose(t, [(x + y) / 2 for x, y in zip(a[t], b[t], strict=True)]) for t in a}, False


def agreement(votes, k, labels_of):
    """How far votes agree with each other as the labels say they should."""
    tasks, given, right = by_task(votes), defaultdict(int), defaultdict(int)
    for t, w, g in votes:
        given[w] += 1
        right[w] += g == labels_of[t]
    agree = sum(right.values()) / len(votes)
    chance = min(sum((sum(g == c for *_, g in votes) / len(votes)) ** 2 for c in range(k)), 0.999)
    skill = {w: clip(((right[w] + 2 * agree) / (given[w] + 2) - chance) / (1 - chance), 0, 1) for w in given}
    observed = sum(
        (a == b) - chance
        for ballots in tasks.values()
        for i, (_, a) in enumerate(ballots)
        for j, (_, b) in enumerate(ballots)
        if i != j
    )
    return clip((observed / (1 - chance) + 0.15) / (pair_sum(tasks, lambda t, w, g: skill[w]) + 1), 0, 1)


def honest(votes, k, labels_of, majority, gold=()):
    """Probabilities by task, and the same before the last step; how votes agree is measured on tasks without `gold`."""
    return judged(votes, k, labels_of, majority, gold)[:2]


def judged(votes, k, labels_of, majority, gold=()):
    """The same, with their ingredients: coldness by task, log-likelihoods by vote, scores by task."""
    labels, tasks = range(k), by_task(votes)
    measured = [vote for vote in votes if vote[0] not in gold]
    rho, _, _ = shared_error(measured, majority) if measured else (0.0, 1.0, None)
    holds = agreement(measured, k, labels_of) if measured else 1.0
    counts = defaultdict(lambda: [[0] * k for _ in labels])  # [given][true]
    for t, w, g in votes:
        counts[w][g][labels_of[t]] += 1
    pooled = [[sum(n[g][c] for n in counts.values()) for g in labels] for c in labels]
    accuracy = (sum(pooled[c][c] for c in labels) + 1 / k) / (len(votes) + 1)
    mean = population(pooled, clip(accuracy, 1 / k + 0.02, 0.995), 1e-3)
    prior = [0.8 * math.log((sum(y == c for y in labels_of.values()) + 1) / (len(tasks) + k)) for c in labels]
    out, earlier, colds, lines, every = {}, {}, {}, defaultdict(list), {}
    for t, ballots in tasks.items():
        scores = list(prior)
        for w, g in ballots:
            met = [sum(counts[w][x][c] for x in labels) for c in labels]
            own = [float(c == labels_of[t]) for c in labels]
            said = [math.log((counts[w][g][c] - own[c] + 5 * mean[c][g]) / (met[c] - own[c] + 5)) for c in labels]
            said[g] = max(said)
            lines[t].append(said)
            scores = [s + x for s, x in zip(scores, said, strict=True)]
        cold = min(1.0, 2 * holds) / (2 * (1 + (len(ballots) - 1) * rho))
        colds[t], every[t] = cold, scores
        weights = [math.exp((s - max(scores)) * cold) for s in scores]
        shares = [(sum(g == c for _, g in ballots) + 1 / k) / (len(ballots) + 1) for c in labels]
        before = [0.8 * x / sum(weights) + 0.2 * y for x, y in zip(weights, shares, strict=True)]
        last = list(before)
        last[labels_of[t]] = max(before)
        out[t], earlier[t] = [x / sum(last) for x in last], before
    left = {t: iter(said) for t, said in lines.items()}
    return out, earlier, (colds, [next(left[t]) for t, _, _ in votes], every)
