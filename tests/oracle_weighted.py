"""Naive versions of the weighted-majority methods and ZenCrowd, from their papers: dictionaries and loops, nothing shared.

Ties are decided by the documented hash (`oracle.winner`), so that labels can be compared one by one. Gold is a dictionary of
tasks and labels, which keep them.
"""

import math
from collections import defaultdict

from scipy.stats import chi2

from oracle import majority, mix, text_hash, winner


def labels_of(votes):
    return sorted({vote[2] for vote in votes}, key=str)


def agreement(votes, labels):
    """{worker: (votes that agree with the labels, all votes)}"""
    right, total = defaultdict(int), defaultdict(int)
    for task, worker, given in votes:
        total[worker] += 1
        right[worker] += given == labels[task]
    return {worker: (right[worker], total[worker]) for worker in total}


def weighted(votes, weight, seed, gold):
    """(labels, scores) of votes that weigh what their worker does."""
    options = labels_of(votes)
    scores = {task: dict.fromkeys(options, 0.0) for task, _, _ in votes}
    for task, worker, given in votes:
        scores[task][given] += weight[worker]
    return {task: gold.get(task) or winner(line, task, seed)[0] for task, line in scores.items()}, scores


def start(votes, seed, gold):
    return {task: gold.get(task, label) for task, label in majority(votes, seed).items()}


def wawa(votes, seed=0, gold=None):
    gold = gold or {}
    weight = {w: right / total for w, (right, total) in agreement(votes, start(votes, seed, gold)).items()}
    labels, scores = weighted(votes, weight, seed, gold)
    return {"labels": labels, "scores": scores, "weights": weight, "iterations": 1}


def zbs(votes, seed=0, gold=None, max_iter=100, rate=1.0, rate_steps=20, rate_factor=0.5, tol=1e-5):
    gold, labels = gold or {}, start(votes, seed, gold or {})
    skill = dict.fromkeys((worker for _, worker, _ in votes), 1 / len(labels_of(votes)))
    for iteration in range(1, max_iter + 1):
        if iteration % rate_steps == 0:
            rate *= rate_factor
        step = {w: rate * (right / total - skill[w]) for w, (right, total) in agreement(votes, labels).items()}
        skill = {w: skill[w] + step[w] for w in skill}
        labels, scores = weighted(votes, skill, seed, gold)
        if max(map(abs, step.values())) < tol:
            break
    return {"labels": labels, "scores": scores, "weights": skill, "iterations": iteration}


def goldmv(votes, gold, seed=0):
    known = agreement([vote for vote in votes if vote[0] in gold], gold)
    every = [sum(part) for part in zip(*known.values(), strict=True)] or [1, 1]
    weight = {}
    for _, worker, _ in votes:
        right, total = known.get(worker, every)
        weight[worker] = max(right / total, 1e-6)
    labels, scores = weighted(votes, weight, seed, gold)
    return {"labels": labels, "scores": scores, "weights": weight}


def catd(votes, seed=0, gold=None, alpha=0.05, max_iter=100):
    gold, labels = gold or {}, start(votes, seed, gold or {})
    bound = {total: chi2.ppf(alpha / 2, total) for _, total in agreement(votes, labels).values()}
    for iteration in range(1, max_iter + 1):
        weight = {w: bound[total] / max(total - right, 0.5) for w, (right, total) in agreement(votes, labels).items()}
        new, scores = weighted(votes, weight, seed, gold)
        same, labels = new == labels, new
        if same:
            break
    return {"labels": labels, "scores": scores, "weights": weight, "iterations": iteration}


def la(votes, seed=0, gold=None):
    gold, options = gold or {}, labels_of(votes)
    of_task = defaultdict(list)
    for task, worker, given in votes:
        of_task[task].append((worker, given))
    right, total = defaultdict(lambda: 1), defaultdict(lambda: 2)
    first = {}
    for task in sorted(of_task, key=lambda task: (task not in gold, mix(text_hash(task) ^ mix(seed)))):
        scores = defaultdict(float)
        for worker, given in of_task[task]:
            scores[given] += right[worker] / total[worker]
        first[task] = gold.get(task) or winner(scores, task, seed)[0]
        for worker, given in of_task[task]:
            total[worker] += 1
            right[worker] += given == first[task]
    weight = {worker: len(options) * right[worker] / total[worker] - 1 for worker in total}
    labels, scores = weighted(votes, weight, seed, gold)
    return {"labels": labels, "scores": scores, "weights": weight, "first": first, "iterations": 2}


def zc(votes, seed=0, reliability=0.8, tol=1e-4, max_iter=100):
    options = labels_of(votes)
    others = max(len(options) - 1, 1)
    skill = {worker: reliability for _, worker, _ in votes}
    before, iteration, change = None, 0, math.inf
    while True:
        scores = {task: dict.fromkeys(options, 0.0) for task, _, _ in votes}
        for task, worker, given in votes:
            for label in options:
                chance = skill[worker] if label == given else (1 - skill[worker]) / others
                scores[task][label] += math.log(chance) if chance > 0 else -math.inf
        posterior = {task: softmax(line) for task, line in scores.items()}
        if iteration and (iteration == max_iter or change < tol):
            break
        shares = [sum(line[label] for line in posterior.values()) / len(posterior) for label in options]
        if before is not None:
            change = sum(abs(a - b) for a, b in zip(shares, before, strict=True))
        before, iteration = shares, iteration + 1
        sums, counts = defaultdict(float), defaultdict(int)
        for task, worker, given in votes:
            sums[worker] += posterior[task][given]
            counts[worker] += 1
        skill = {worker: sums[worker] / counts[worker] for worker in sums}
    return {
        "labels": {task: winner(line, task, seed)[0] for task, line in scores.items()},
        "posterior": posterior,
        "skills": skill,
        "iterations": iteration,
    }


def softmax(line):
    best = max(line.values())
    parts = {label: math.exp(score - best) for label, score in line.items()}
    return {label: part / sum(parts.values()) for label, part in parts.items()}
