"""What comparisons show of each judge beside the model: ties, agreement with the ranking, and whether it repeats itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adjudge.ranking.separation import EQUAL
from adjudge.ranking.tournament import Floats, Tournament, sums


@dataclass(frozen=True, eq=False)
class JudgeFigures:
    """Counts and shares of every judge, [judges] each; NaN where a share is of nothing."""

    comparisons: Floats
    ties: Floats
    left_share: Floats  # of comparisons that the left side won, ties as half
    agreement: Floats  # share of comparisons whose winner is the stronger item, ties as half
    repeats: Floats  # pairs of comparisons of the same two items in the same order
    consistency: Floats  # share of these with the same answer
    swapped_repeats: Floats  # pairs of comparisons of the same two items in opposite orders
    swapped_consistency: Floats  # share of these that prefer the same item, or tie twice


def judge_figures(t: Tournament, strength: Floats) -> JudgeFigures:
    """Return the figures of every judge, by the strengths of items, [items]."""
    gap = strength[t.left] - strength[t.right]
    right = np.where(np.abs(gap) <= EQUAL, 0.5 * t.count, np.where(gap > 0, t.points, t.count - t.points))
    count = t.per_judge(t.count)
    again, same = _same_order(t)
    met, alike = _other_order(t)
    return JudgeFigures(
        count,
        t.per_judge(t.ties),
        share(t.per_judge(t.points), count),
        share(t.per_judge(right), count),
        again,
        share(same, again),
        met,
        share(alike, met),
    )


def with_spread(variance: Floats, deviation: Floats, spread: float) -> Floats:
    """Return the variance of judges' estimates, [judges], with what an estimated spread of judges adds (Morris 1983).

    `deviation` is how far the estimates are from the mean judge, to which they were shrunk: B of the way, which is the variance
    over the square of the spread. A spread of K judges is known to about 2/(K - 2) of its square.
    """
    shrunk = np.minimum(variance / spread**2, 0.95)
    return np.asarray(variance + 2 / max(len(variance) - 2, 1) * np.square(shrunk * deviation / (1 - shrunk)))


def share(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and NaN for a part of nothing.

    >>> share(np.array([1.0, 0.0]), np.array([4.0, 0.0])).tolist()
    [0.25, nan]
    """
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def _same_order(t: Tournament) -> tuple[Floats, Floats]:
    """Return pairs of comparisons of the same items in the same order, and those that agree, [judges] each."""
    alike = sum(some * (some - 1) / 2 for some in (t.left_wins, t.right_wins, t.ties))
    return t.per_judge(t.count * (t.count - 1) / 2), t.per_judge(np.asarray(alike))


def _other_order(t: Tournament) -> tuple[Floats, Floats]:
    """Return pairs of comparisons of the same items in opposite orders, and those that agree, [judges] each."""
    pairs, pair = np.unique(np.minimum(t.left, t.right) * t.items + np.maximum(t.left, t.right), return_inverse=True)
    key = t.judge * len(pairs) + pair
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order[1:]] == key[order[:-1]])  # a judge has at most two rows of a pair
    here, there = order[twice], order[twice + 1]
    judge = t.judge[here]
    alike = t.left_wins[here] * t.right_wins[there] + t.right_wins[here] * t.left_wins[there] + t.ties[here] * t.ties[there]
    return sums(judge, t.count[here] * t.count[there], t.judges), sums(judge, alike, t.judges)
