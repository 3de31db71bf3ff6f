"""How firm a ranking is: ranks within the errors of the strengths, and triples of items that beat each other in a circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.evaluation.intervals import Floats, Integers, sum_by
from adjudge.evaluation.ranking.errors import EstimateErrors
from adjudge.evaluation.ranking.tournament import Tournament

RANK_DRAWS: Final = 2000  # draws of all strengths within their errors
MAX_DRAWN_RANKS: Final = 1 << 23  # ranks that are held at once: beyond, there are fewer draws
MIN_RANK_DRAWS: Final = 100
MAX_CYCLE_ITEMS: Final = 2000  # items whose triples are counted: work grows with their cube, memory with their square
MAX_CYCLES: Final = 20  # cycles that are listed
MAX_CYCLES_LOOKED_AT: Final = 10_000  # of those that are equally strong
THRESHOLD_STEPS: Final = 16  # of a bisection for the strongest cycles


def draw_ranks(strength: Floats, component: Integers, errors: EstimateErrors, seed: int) -> NDArray[np.int32]:
    """Return the ranks of items within their components, [draws, items], for strengths drawn from the law of their errors.

    Beyond 2000 parameters these are the draws that the errors came from. With few clusters they have the tails of Student's law.
    """
    items = len(strength)
    rng = np.random.default_rng((seed, items))
    if errors.covariance is None:
        assert errors.draws is not None
        noise = errors.draws.found[:items].T * np.sqrt(errors.draws.count)
    else:
        values, vectors = np.linalg.eigh(errors.covariance[:items, :items])
        draws = int(np.clip(MAX_DRAWN_RANKS // max(items, 1), MIN_RANK_DRAWS, RANK_DRAWS))
        noise = rng.standard_normal((draws, items)) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    degrees = float(np.median(errors.degrees(items)))
    if np.isfinite(degrees):
        noise = noise * np.sqrt(degrees / rng.chisquare(degrees, len(noise)))[:, None]
    order = np.argsort(component, kind="stable")
    cuts = np.flatnonzero(np.diff(component[order], prepend=-1, append=-1))
    ranks = np.empty(noise.shape, np.int32)
    for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
        members = order[begin:end]
        place = np.argsort(-(strength[members] + noise[:, members]), axis=1)
        own = np.empty_like(place)
        np.put_along_axis(own, place, np.broadcast_to(np.arange(1, len(members) + 1), place.shape), axis=1)
        ranks[:, members] = own
    return ranks


class Cycle(NamedTuple):
    """Three items, each of which won most of its comparisons with the next, and the last with the first."""

    items: tuple[int, int, int]
    shares: tuple[float, float, float]  # of the points that each has of those with the next
    comparisons: tuple[int, int, int]
    z: float  # of the weakest of the three majorities: its standard errors beyond a half


@dataclass(frozen=True, eq=False)
class Cycles:
    """How many triples of items beat each other in a circle."""

    triples: int  # of items that were all compared with each other, with a majority each
    cycles: int
    expected: float  # of cycles, from chance alone, if the model holds and comparisons are independent
    strongest: tuple[Cycle, ...]  # by their weakest majority


def find_cycles(t: Tournament, chance: Floats) -> Cycles | None:
    """Return the cyclic triples of a tournament; None if there are too many items to count them.

    Parameters
    ----------
    t : Tournament
        Comparisons.
    chance : float array, [rows]
        Probability that the left item wins, by the model.

    Notes
    -----
    A triple is a cycle if i has more than half of the points against j, j against k, and k against i. With Q_ij, the probability
    of such a majority under the model, tr(Q³)/3 cycles are expected by chance.

    """
    if t.items > MAX_CYCLE_ITEMS:
        return None
    points, count, mean, variance, ties = (
        _by_pair(t, *sides)
        for sides in (
            (t.points, t.count - t.points),
            (t.count, t.count),
            (t.count * chance, t.count * (1 - chance)),
            (t.count * chance * (1 - chance),) * 2,
            (t.ties, t.ties),
        )
    )
    ahead = points - count / 2
    beats = ahead > 0
    met = beats | beats.T
    # Halves are possible where there are ties, so that a majority begins a quarter beyond a half, and else at a half or one.
    least = np.where(ties > 0, count / 2 + 0.25, np.floor(count / 2) + 0.5)
    likely = np.where(count > 0, _normal((mean - least) / np.sqrt(np.maximum(variance, 1e-12))), 0.0)
    z = np.where(beats, ahead / np.sqrt(np.maximum(count - ties, 1.0) / 4), 0.0)
    cycles = _count_cycles(beats)
    strongest = sorted(_strongest(z, cycles), key=lambda cycle: (-_weakest(z, cycle), cycle))[:MAX_CYCLES]
    share = points / np.maximum(count, 1.0)
    return Cycles(
        round(float(np.einsum("ij,ij->", met.astype(np.float32) @ met.astype(np.float32), met.astype(np.float64)) / 6)),
        cycles,
        float(np.einsum("ij,ji->", likely @ likely, likely) / 3),
        tuple(_describe(cycle, share, count, z) for cycle in strongest),
    )


def _describe(cycle: tuple[int, int, int], share: Floats, count: Floats, z: Floats) -> Cycle:
    (a, b), (c, d), (e, f) = _pairs(cycle)
    shares = float(share[a, b]), float(share[c, d]), float(share[e, f])
    return Cycle(cycle, shares, (int(count[a, b]), int(count[c, d]), int(count[e, f])), _weakest(z, cycle))


def _by_pair(t: Tournament, of_left: Floats, of_right: Floats) -> Floats:
    """Return sums over the rows of each pair, [items, items]: what the first has of the comparisons with the second."""
    n = t.items
    return (sum_by(t.left * n + t.right, of_left, n * n) + sum_by(t.right * n + t.left, of_right, n * n)).reshape(n, n)


def _normal(x: Floats) -> Floats:
    """Return the standard normal law, to four digits (Abramowitz and Stegun 26.2.17)."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    tail = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    tail = tail * k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    return np.asarray(np.where(x > 0, 1 - tail, tail))


def _count_cycles(beats: NDArray[np.bool_]) -> int:
    single = beats.astype(np.float32)  # counts below 2^24 are exact
    return round(float(np.einsum("ij,ji->", single @ single, single.astype(np.float64)) / 3))


def _strongest(z: Floats, cycles: int) -> list[tuple[int, int, int]]:
    """Return cycles among which are the strongest ones, by their weakest majority; each begins with its first item."""
    if not cycles:
        return []
    levels = np.unique(z[z > 0])
    low, high = 0, len(levels) - 1  # all cycles are there from the lowest level on
    for _ in range(THRESHOLD_STEPS):
        if high <= low:
            break
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _count_cycles(z >= levels[middle]) >= min(MAX_CYCLES, cycles) else (low, middle - 1)
    beats = z >= levels[low]
    first, second = np.nonzero(beats)
    found: set[tuple[int, int, int]] = set()
    for edge in np.argsort(-z[first, second], kind="stable").tolist():
        one, other = int(first[edge]), int(second[edge])
        for third in np.flatnonzero(beats[other] & beats[:, one]).tolist():
            cycle = (one, other, third)
            at = cycle.index(min(cycle))
            found.add((cycle[at], cycle[at - 2], cycle[at - 1]))
        if len(found) > MAX_CYCLES_LOOKED_AT:
            break
    return list(found)


def _pairs(cycle: tuple[int, int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(cycle, (*cycle[1:], cycle[0]), strict=True))


def _weakest(z: Floats, cycle: tuple[int, int, int]) -> float:
    return min(float(z[a, b]) for a, b in _pairs(cycle))


def summarise_ranks(drawn: NDArray[np.int32], rank: Integers, level: float) -> dict[str, Floats]:
    """Return what drawn ranks, [draws, items], say of each item, [items] each: mean, the ends of an interval, and two shares.

    `keeps` is the share of draws in which the item has its rank, and `first` that in which it has the first.
    """
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(drawn, ends, axis=0, method="inverted_cdf")
    return {
        "expected_rank": drawn.mean(axis=0),
        "low": low,
        "high": high,
        "keeps": (drawn == rank).mean(axis=0),
        "first": (drawn == 1).mean(axis=0),
    }
