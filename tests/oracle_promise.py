"""Promises in plain loops over dicts and lists: the oracle of the tests."""

import math


def binomial_tail(k, n, rate):
    """P(at most k errors of n)."""
    return sum(math.comb(n, i) * rate**i * (1 - rate) ** (n - i) for i in range(k + 1))


def passing_probability(allowed, error):
    """P(a walk of independent errors has at most allowed[m] errors among its first m tasks, for some m)."""
    alive, passed = {0: 1.0}, 0.0
    for m in range(1, len(allowed)):
        following = {}
        for errors, chance in alive.items():
            for more, rate in ((0, 1 - error), (1, error)):
                if errors + more <= allowed[m]:
                    passed += chance * rate
                else:
                    following[errors + more] = following.get(errors + more, 0.0) + chance * rate
        alive = following
    return passed


def allowed_at(n, error, level):
    allowed = []
    for m in range(n + 1):
        count = -1
        if m >= max(n // 3, 1):
            while count < m and binomial_tail(count + 1, m, error) <= level:
                count += 1
            count = min(count, m - n // 3)
        allowed.append(count)
    return allowed


def certify(confidence, drawn, wrong, error, allowed, floor=0.0):
    """Return (threshold or None, accepted tasks, gold among them, wrong among these); all by task, `drawn` a list of tasks."""
    for threshold in sorted({value for value in confidence.values() if value >= floor}):
        gold = [task for task in drawn if confidence[task] >= threshold]
        errors = sum(wrong[task] for task in gold)
        if errors <= allowed[len(gold)]:
            return threshold, sum(value >= threshold for value in confidence.values()), len(gold), errors
    return None, 0, 0, 0
