"""What one more vote on a task is worth: the expected gain in right labels.

A vote that cannot change a label alone may do so together with others. So the gain is looked for some votes ahead, and
divided by their number: the best rate counts. Votes on one task are alike beyond what its label explains, as some tasks are
hard or mislead: what was said on it so far tells a part of what will be said next.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOOK_AHEAD: Final = 5  # votes
GAIN_SHARE: Final = 0.5  # of the gain that confusions promise: what votes say counts half, as for honest confidence
LEAST_ALIKE: Final = 1 / 11  # correlation of the votes on a task beyond its label, at least: ten votes of the mean worker


def gain_rate(
    belief: Floats,  # [n, 2] probability of the two best labels, the label of the task first
    said: Floats,  # [n, 2] votes for either
    votes: Floats,  # [n] votes on the task
    channel: Floats,  # [n, 2 given, 2 true] how often a worker gives either label where either is true
    shared_error: float,
    *,
    two_labels: bool,  # whether there are no others that a vote could give
) -> Floats:
    """Return the expected gain in right labels per vote, [n], of the best number of votes ahead.

    >>> ready = np.array([[0.6, 0.4], [0.99, 0.01]]), np.ones((2, 2)), np.full(2, 2.0)
    >>> able = np.tile([[0.9, 0.1], [0.1, 0.9]], (2, 1, 1))
    >>> gain_rate(*ready, able, 0.0, two_labels=True).round(3).tolist()
    [0.117, 0.001]
    """
    alike = max(shared_error, LEAST_ALIKE)
    lent = (1.0 - alike) / alike  # votes of the worker's kind that an own vote of the task weighs against
    q = (lent * channel + said[:, :, None]) / (lent + votes)[:, None, None]
    chances = np.stack([q[:, 0], q[:, 1], np.maximum(1.0 - q.sum(axis=1), 0.0)], axis=1)  # [n, 3 given, 2 true]
    best = np.zeros(len(belief))
    powers = [np.ones_like(chances)]
    for ahead in range(1, LOOK_AHEAD + 1):
        powers.append(powers[-1] * chances)
        right = np.zeros(len(belief))
        for first, second, others, ways in _outcomes(ahead, two_labels):
            joint = belief * powers[first][:, 0] * powers[second][:, 1] * powers[others][:, 2]
            right += ways * np.maximum(joint[:, 0], joint[:, 1])
        np.maximum(best, (right - belief[:, 0]) / ahead, out=best)
    return GAIN_SHARE * best


@cache
def _outcomes(votes: int, two_labels: bool) -> tuple[tuple[int, int, int, int], ...]:
    """Return how votes can fall on the first label, the second and others, and in how many orders."""
    return tuple(
        (first, second, others, factorial(votes) // (factorial(first) * factorial(second) * factorial(others)))
        for first in range(votes + 1)
        for second in range(votes + 1 - first)
        for others in [votes - first - second]
        if not (two_labels and others)
    )


def first_vote_right(priors: Floats, confusion: Floats) -> float:
    """Return how likely a task without votes is right after its first one; priors [K], confusion [K given, K true].

    >>> first_vote_right(np.array([0.5, 0.5]), np.array([[0.8, 0.3], [0.2, 0.7]]))
    0.75
    """
    return float((priors * confusion).max(axis=1, initial=0.0).sum())
