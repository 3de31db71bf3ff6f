"""Agreement as the books define it, in plain loops over dicts: the oracle of the tests."""

from itertools import combinations


def by_task(votes):
    out = {}
    for task, _, label in votes:
        out.setdefault(task, []).append(label)
    return out


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def corrected(observed, chance):
    return float("nan") if abs(1 - chance) < 1e-12 else (observed - chance) / (1 - chance)


def agreeing(given, weight):
    """The mean weight of two different votes of a task."""
    n = len(given)
    return sum(weight(given[i], given[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def shares(tasks, labels):
    """For each label the mean over all tasks of its share of the task's votes."""
    return {k: mean(given.count(k) / len(given) for given in tasks.values()) for k in labels}


def observed(tasks, weight):
    return mean(agreeing(given, weight) for given in tasks.values() if len(given) > 1)


def same(k, other):
    return float(k == other)


def percent(votes):
    return observed(by_task(votes), same)


def fleiss(votes, labels):
    tasks = by_task(votes)
    return corrected(observed(tasks, same), sum(p**2 for p in shares(tasks, labels).values()))


def gwet(votes, labels, weight=same):
    """AC1, or AC2 with these weights."""
    tasks, q = by_task(votes), len(labels)
    if q < 2:
        return float("nan")
    total = sum(weight(k, other) for k in labels for other in labels)
    chance = total / (q * (q - 1)) * sum(p * (1 - p) for p in shares(tasks, labels).values())
    return corrected(observed(tasks, weight), chance)


def linear(values):
    width = max(values.values()) - min(values.values())
    return lambda k, other: 1 - abs(values[k] - values[other]) / width


def quadratic(values):
    width = max(values.values()) - min(values.values())
    return lambda k, other: 1 - ((values[k] - values[other]) / width) ** 2


def pairs(votes):
    """{(a, b): list of what both said on the tasks they share}, for workers with at most one vote a task."""
    said = {}
    for task, worker, label in votes:
        said.setdefault(worker, {})[task] = label
    out = {}
    for a, b in combinations(sorted(said), 2):
        both = [(said[a][t], said[b][t]) for t in said[a] if t in said[b]]
        if both:
            out[a, b] = both
    return out


def scott(both):
    n = len(both)
    all_said = [k for pair in both for k in pair]
    chance = sum((all_said.count(k) / (2 * n)) ** 2 for k in set(all_said))
    return corrected(mean(a == b for a, b in both), chance)


def cohen(both):
    n = len(both)
    chance = sum(sum(a == k for a, _ in both) * sum(b == k for _, b in both) / n**2 for k in {k for p in both for k in p})
    return corrected(mean(a == b for a, b in both), chance)


def weighted(figure, votes):
    """The mean of a figure over pairs, weighted by shared tasks, undefined ones left out."""
    found = [(figure(both), len(both)) for both in pairs(votes).values()]
    found = [(value, n) for value, n in found if value == value]
    return sum(value * n for value, n in found) / sum(n for _, n in found) if found else float("nan")
