"""Bradley-Terry once more, in plain loops over games: slow, and sharing nothing with adjudge."""

import math

import numpy as np


def strengths(games, steps=20_000):
    """Maximum likelihood by Hunter's minorisation: games are (left, right, score of left); the mean of log strengths is 0."""
    won, met = {}, {}
    for left, right, score in games:
        won[left] = won.get(left, 0.0) + score
        won[right] = won.get(right, 0.0) + 1 - score
        for pair in ((left, right), (right, left)):
            met[pair] = met.get(pair, 0) + 1
    gamma = dict.fromkeys(won, 1.0)
    for _ in range(steps):
        new = {}
        for i in gamma:
            new[i] = won[i] / sum(n / (gamma[i] + gamma[j]) for (one, j), n in met.items() if one == i)
        mean = math.exp(sum(map(math.log, new.values())) / len(new))
        new = {i: value / mean for i, value in new.items()}
        moved = max(abs(new[i] - gamma[i]) for i in gamma)
        gamma = new
        if moved < 1e-13:
            break
    return {i: math.log(value) for i, value in gamma.items()}


def penalised(games, strength, reliability, position, common, prior, spreads):
    """The penalised log-likelihood of games (left, right, score, judge), by its definition."""
    out = 0.0
    for left, right, score, judge in games:
        odds = reliability[judge] * (strength[left] - strength[right]) + position[judge]
        out += score * -math.log1p(math.exp(-odds)) + (1 - score) * -math.log1p(math.exp(odds))
    for s in strength:
        out += prior / 2 * (-math.log1p(math.exp(-s)) - math.log1p(math.exp(s)))
    out -= sum((a - 1) ** 2 for a in reliability) / (2 * spreads[0] ** 2)
    for judge in range(len(reliability)):  # the reliability is integrated out: Laplace's determinant
        told = 0.0
        for left, right, _, who in games:
            if who == judge:
                gap = strength[left] - strength[right]
                chance = 1 / (1 + math.exp(-(reliability[judge] * gap + position[judge])))
                told += chance * (1 - chance) * gap**2
        out -= math.log(1 + spreads[0] ** 2 * told) / 2
    out -= sum((b - common) ** 2 for b in position) / (2 * spreads[1] ** 2)
    return out - common**2 / (2 * 2.0**2)


def sandwich(games, strength):
    """The cluster-robust covariance of strengths of games (left, right, score of left, cluster), without judges and position."""
    size = len(strength)
    whole = np.zeros((size, size))
    for left, right, _, _ in games:
        whole += fisher(strength, left, right)
    bread = np.linalg.pinv(whole)
    meat = np.zeros((size, size))
    for cluster in {game[3] for game in games}:
        own = [game for game in games if game[3] == cluster]
        inside = {item for game in own for item in game[:2]}
        information = sum(fisher(strength, left, right) for left, right, _, _ in own)
        leverage = {item: (information @ bread)[item, item] * len(inside) / (len(inside) - 1) for item in inside}
        score = np.zeros(size)
        for left, right, won, _ in own:
            far = min(max(leverage[left], leverage[right]), 1.0)
            residual = (won - 1 / (1 + math.exp(strength[right] - strength[left]))) / math.sqrt(1 - min(far, 0.5))
            score[left] += residual
            score[right] -= residual
            meat += max(2 * far - 1, 0.0) * fisher(strength, left, right)
        meat += np.outer(score, score)
    return bread @ meat @ bread


def fisher(strength, left, right):
    """The information of one game about strengths."""
    chance = 1 / (1 + math.exp(strength[right] - strength[left]))
    side = np.zeros(len(strength))
    side[left], side[right] = 1, -1
    return chance * (1 - chance) * np.outer(side, side)


def consistency(games):
    """Of one judge's games (left, right, score): pairs in the same order, those that agree, pairs swapped, those that agree."""
    out = [0, 0, 0, 0]
    for n, (left, right, score) in enumerate(games):
        for other_left, other_right, other in games[:n]:
            if (left, right) == (other_left, other_right):
                out[0] += 1
                out[1] += score == other
            elif (left, right) == (other_right, other_left):
                out[2] += 1
                out[3] += score == 1 - other
    return out
