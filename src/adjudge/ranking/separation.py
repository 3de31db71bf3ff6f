"""Who is better than whom beyond doubt: intervals of ranks, and what it would take to tell neighbours apart."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from adjudge.ranking.information import Errors
from adjudge.ranking.tournament import Floats, Integers

BLOCK: Final = 512  # items compared with all others at once
EQUAL: Final = 1e-9  # nats within which two strengths are one
MAX_FURTHER: Final = 10**9  # comparisons beyond which nobody will compare


def deviations(level: float, freedom: Floats | float = np.inf) -> Floats:
    """Return how many standard errors an interval of this level reaches to each side, in the shape of `freedom`.

    With finite degrees of freedom, from 2 on, it is the t quantile in the approximation of Peizer and Pratt (1968).

    >>> round(float(deviations(0.9)), 3), deviations(0.9, np.array([3.0, 20.0])).round(3).tolist()
    (1.645, [2.355, 1.725])
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = np.asarray(freedom, np.float64)
    finite = np.where(np.isinf(n), 1.0, n)
    t = np.sqrt(finite * np.expm1(z**2 * (finite - 5 / 6) / np.square(finite - 2 / 3 + 0.1 / finite)))
    return np.where(np.isinf(n), z, t)


def normal_scores(t: Floats, freedom: Floats) -> Floats:
    """Return standard normal deviates as likely to be exceeded as t statistics, [n]: the inverse of `deviations`.

    >>> normal_scores(deviations(0.9, np.array([3.0, np.inf])), np.array([3.0, np.inf])).round(3).tolist()
    [1.645, 1.645]
    """
    n = np.where(np.isinf(freedom), 1.0, freedom)
    z = (n - 2 / 3 + 0.1 / n) * np.sqrt(np.log1p(np.square(t) / n) / (n - 5 / 6))
    return np.where(np.isinf(freedom), t, np.sign(t) * z)


def order_of(strength: Floats, component: Integers) -> Integers:
    """Return the items by component, the strongest first, [items]; equal ones in the order of their codes."""
    return np.lexsort((-np.round(strength / EQUAL), component))


def ranks(strength: Floats, component: Integers) -> Integers:
    """Return the rank of every item within its component, from 1 on, [items]; equal strengths have one rank.

    >>> ranks(np.array([0.5, -1.0, 0.5, 3.0]), np.array([0, 0, 0, 1])).tolist()
    [1, 3, 1, 1]
    """
    order = order_of(strength, component)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (component[order[1:]] != component[order[:-1]]) | (strength[order[:-1]] - strength[order[1:]] > EQUAL)
    place = np.arange(len(order))
    of_component = np.searchsorted(component[order], component[order])
    out = np.empty(len(order), np.int64)
    out[order] = np.maximum.accumulate(np.where(begins, place, 0)) - of_component + 1
    return out


def rank_intervals(strength: Floats, component: Integers, errors: Errors, level: float) -> tuple[Integers, Integers]:
    """Return the best and the worst rank of every item that the comparisons allow, [items] each.

    The best rank is one more than the number of items of the component that are better beyond doubt, the worst one is left by
    those that are worse beyond doubt. "Beyond doubt" is a difference whose interval of this level does not hold 0.
    """
    z = deviations(level, errors.degrees(len(strength)))
    is_same = bool((z == z[0]).all())
    low, high = np.empty(len(strength), np.int64), np.empty(len(strength), np.int64)
    order = order_of(strength, component)
    cuts = np.flatnonzero(np.diff(component[order], prepend=-1, append=-1))
    for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
        members = order[begin:end]
        own, spread = strength[members], errors.variance[members]
        largest = float(spread.max())
        for start in range(0, len(members), BLOCK):
            some = np.arange(start, min(start + BLOCK, len(members)))
            # The variance of a difference is at most twice the sum of the two: who is farther is beyond doubt.
            reach = z[members].max() * np.sqrt(2 * (float(spread[some].max()) + largest)) + EQUAL
            first = int(np.searchsorted(-own, -(own[some[0]] + reach)))
            last = int(np.searchsorted(-own, -(own[some[-1]] - reach), side="right"))
            near = np.arange(first, last)
            gap = own[near][None, :] - own[some][:, None]
            sure = np.sqrt(errors.block(members[some], members[near]))
            sure *= z[0] if is_same else np.maximum(z[members[some]][:, None], z[members[near]][None, :])
            sure += EQUAL
            low[members[some]] = 1 + first + (gap > sure).sum(axis=1)
            high[members[some]] = last - (gap < -sure).sum(axis=1)
    return low, high


def find_rivals(strength: Floats, component: Integers, errors: Errors, level: float) -> Integers:
    """Return the items of the largest component that are not separated from its strongest one, strongest first, [rivals].

    If there are none, the strongest item is the winner. Each difference is tested alone. A winner has to pass every test, so
    among equal items a winner is found with probability 1 - level at most.
    """
    order = order_of(strength, component)
    order = order[component[order] == 0]
    leader, others = order[:1], order[1:]
    degrees = errors.degrees(len(strength))
    reach = deviations(level, np.minimum(degrees[leader], degrees[others]))
    gap = strength[leader] - strength[others]
    return np.asarray(others[gap <= reach * np.sqrt(errors.block(leader, others)[0]) + EQUAL])


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Every two items that follow each other in the ranking of a component, the strongest first."""

    upper: Integers  # [pairs] codes of items
    lower: Integers  # [pairs]
    difference: Floats  # [pairs] nats
    error: Floats  # [pairs] the standard error of it
    half_width: Floats  # [pairs] of its interval
    probability: Floats  # [pairs] that the upper one is the better
    further: Integers  # [pairs] comparisons of the two that would separate them; -1 where no number would


def neighbours(strength: Floats, component: Integers, errors: Errors, level: float) -> Neighbours:
    """Return what is known of neighbours in the ranking.

    A comparison of the two adds p (1 - p) to the information about their difference, where p is the probability that the upper
    one wins it. They are separated where the interval of the difference does not hold 0. So as many comparisons are needed as
    make the standard error small enough, if the difference stays what it is: an estimate.
    """
    order = order_of(strength, component)
    same = component[order[1:]] == component[order[:-1]]
    upper, lower = order[:-1][same], order[1:][same]
    gap = np.maximum(strength[upper] - strength[lower], 0.0)
    variance = np.maximum(errors.of_differences(upper, lower), 1e-300)
    chance = 0.5 * (1 + np.tanh(0.5 * gap))
    degrees = errors.degrees(len(strength))
    freedom = np.minimum(degrees[upper], degrees[lower])
    reach, law = deviations(level, freedom), NormalDist()
    probability = np.array([law.cdf(d) for d in normal_scores(gap / np.sqrt(variance), freedom).tolist()])
    equal = gap <= EQUAL
    wanted = np.square(reach / np.where(equal, 1.0, gap)) - 1 / variance
    more = np.ceil(np.maximum(wanted, 0.0) / (chance * (1 - chance)))
    further = np.where(equal | (more > MAX_FURTHER), -1, np.minimum(more, MAX_FURTHER)).astype(np.int64)
    return Neighbours(upper, lower, gap, np.sqrt(variance), reach * np.sqrt(variance), probability, further)
