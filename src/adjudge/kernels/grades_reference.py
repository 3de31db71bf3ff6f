"""Judges of grades: bias, stretch and scale of each, fitted to its expected votes by given and true grade.

Grades are one step apart: grade c of K is at m_c = c - (K + 1) / 2, and the cuts between them are at the halves, t_l = l - K / 2.
A judge sees y = stretch * m_c + bias + noise, with logistic noise, and gives the grade whose interval holds y (McCullagh 1980,
the proportional odds model). With g = 1 / (scale of the noise), h = stretch * g and b = bias * g,

    P(grade <= l | c) = sigma(g t_l - h m_c - b),
    log P(l | c) = log sigma(g t_l - h m_c - b) + log sigma(h m_c + b - g t_{l-1}) + log(1 - e^-g),

where the lowest grade has no second and no third term, and the highest no first and no third. All terms are concave in (g, h, b),
and so is the prior: Newton's method finds the one maximum from any start.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import sums_of

Floats = NDArray[np.float64]
# The prior of a judge: SURE * (log g - g / SHARP), a normal one of b with mean 0, and one of h - g with mean 0 (stretch 1).
SURE: Final = 2.0  # votes that the usual sharpness is worth
SHARP: Final = 2.0  # g of a judge of whom nothing is known: noise with a standard deviation of 0.9 grades
B_VARIANCE: Final = 4.0
STRETCH_VARIANCE: Final = 1.0
GRADE_CHUNK_CELLS: Final = 1 << 16  # of votes by given and true grade, processed at a time
MOST_STEPS: Final = 60
MOST_HALVINGS: Final = 40
MIN_GAIN_PER_VOTE: Final = 1e-15  # a fit ends when a step promises less per vote
MAX_UNCHECKED_GAIN: Final = 1e-6  # and where it is right as it is: what it gains may be lost in rounding
SD: Final = float(np.pi / np.sqrt(3.0))  # standard deviation of logistic noise of scale 1


def positions(k: int) -> tuple[Floats, Floats]:
    """Return where grades are, [K], and the cuts between them, [K - 1]: one step apart, and symmetric about 0.

    >>> [part.tolist() for part in positions(3)]
    [[-1.0, 0.0, 1.0], [-0.5, 0.5]]
    """
    return np.arange(float(k)) - (k - 1) / 2.0, np.arange(k - 1.0) - (k - 2) / 2.0


def judge_lines(judges: Floats, given: NDArray[np.integer], k: int) -> Floats:
    """Return log P(given | true) for a judge and a given grade per line, [lines, K true].

    judges: IN [lines, 3] g, h and b. given: IN [lines] the place of the grade, 0 to K - 1.
    """
    return _lines(judges, given, k)[0]


def fit_judges(given: NDArray[np.integer], counts: Floats, worker_ptr: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return (g, h and b of each judge, [workers, 3]; the log-prior of each, [workers]) that maximise penalised likelihood.

    given: IN [rows] the place of the given grade, 0 to K - 1; rows are sorted by worker. counts: IN [rows, K true] expected
    votes. worker_ptr: IN [workers + 1] where the rows of each worker begin.
    """
    n, k = len(worker_ptr) - 1, counts.shape[1]
    judges = np.tile([SHARP, SHARP, 0.0], (n, 1))
    start = 0
    while start < n:  # workers are independent: some at a time, whose cells stay in the cache
        most = worker_ptr[start] + max(GRADE_CHUNK_CELLS // max(k, 1), 1)
        stop = max(int(np.searchsorted(worker_ptr, most, side="right")) - 1, start + 1)
        rows = slice(worker_ptr[start], worker_ptr[stop])
        judges[start:stop] = _newton(given[rows], counts[rows], worker_ptr[start : stop + 1] - worker_ptr[start])
        start = stop
    return judges, log_prior(judges)


def _newton(given: NDArray[np.integer], counts: Floats, ptr: NDArray[np.int64]) -> Floats:
    """Return g, h and b of some judges, [workers, 3]; a judge that has settled is left alone."""
    out = np.tile([SHARP, SHARP, 0.0], (len(ptr) - 1, 1))
    left, judges = np.arange(len(out)), out.copy()
    close = MIN_GAIN_PER_VOTE * (1.0 + sums_of(counts.sum(axis=1), ptr[:-1]))
    here = _objective(judges, given, counts, ptr)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(here.curvature, here.slope[:, :, None])[:, :, 0].astype(np.float64, copy=False)
        promised = np.einsum("wi,wi->w", here.slope, step)
        judges, here, moved = _line_search(judges, here, step, promised <= MAX_UNCHECKED_GAIN, (given, counts, ptr))
        out[left] = judges
        again = moved & (promised > close)
        if not again.any():
            break
        if not again.all():
            rows = np.repeat(again, np.diff(ptr))
            given, counts, left, judges, close = given[rows], counts[rows], left[again], judges[again], close[again]
            ptr = np.concatenate([[0], np.cumsum(np.diff(ptr)[again])])
            here = Objective(*(part[again] for part in here))
    return out


def _line_search(
    judges: Floats,
    here: Objective,
    step: Floats,
    is_near: NDArray[np.bool_],  # [workers] whose step is taken as it is
    votes: tuple[NDArray[np.integer], Floats, NDArray[np.int64]],
) -> tuple[Floats, Objective, NDArray[np.bool_]]:
    """Return judges after a step, or half of it, or a quarter, until none is worse; their objective, and which have moved."""
    share = np.ones(len(judges))
    # A step may not leave g > 0; it goes at most nine tenths of the way there.
    falls = step[:, 0] <= -0.9 * judges[:, 0]
    share[falls] = -0.9 * judges[falls, 0] / step[falls, 0]
    for _ in range(MOST_HALVINGS + 1):
        new = judges + share[:, None] * step
        found = _objective(new, *votes)
        worse = ~(is_near | (found.value >= here.value))
        if not worse.any():
            return new, found, ~worse
        share[worse] /= 2.0
    new[worse] = judges[worse]
    for after, before in zip(found, here, strict=True):
        after[worse] = before[worse]
    return new, found, ~worse


class Objective(NamedTuple):
    """The penalised expected log-likelihood of some judges."""

    value: Floats  # [workers]
    slope: Floats  # [workers, 3] by g, h and b
    curvature: Floats  # [workers, 3, 3] less its sign


def _objective(judges: Floats, given: NDArray[np.integer], counts: Floats, ptr: NDArray[np.int64]) -> Objective:
    """Return what these judges are worth, given their votes by row, [rows, K true]."""
    k = counts.shape[1]
    m, t = positions(k)
    lines, above, below = _lines(np.repeat(judges, np.diff(ptr), axis=0), given, k)
    upper, lower = np.append(t, 0.0)[given], np.append(0.0, t)[given]
    is_inner = (given > 0) & (given < k - 1)
    votes, with_m = counts.sum(axis=1), counts * m
    pull = counts * (above - below)  # of the cut above and of the cut below
    bend_up, bend_low = counts * above * (1.0 - above), counts * below * (1.0 - below)
    bend = bend_up + bend_low
    g_row = np.repeat(judges[:, 0], np.diff(ptr))
    with np.errstate(over="ignore"):
        odds = np.where(is_inner, 1.0 / np.expm1(g_row), 0.0)  # the slope of log(1 - e^-g)
    cuts = bend_up.sum(axis=1) * upper + bend_low.sum(axis=1) * lower
    by_row = np.stack(
        [
            (counts * lines).sum(axis=1),
            (counts * above).sum(axis=1) * upper - (counts * below).sum(axis=1) * lower + votes * odds,
            -(with_m * (above - below)).sum(axis=1),
            -pull.sum(axis=1),
            bend_up.sum(axis=1) * upper**2 + bend_low.sum(axis=1) * lower**2 + votes * odds * (1.0 + odds),
            -((bend_up * m).sum(axis=1) * upper + (bend_low * m).sum(axis=1) * lower),
            -cuts,
            (bend * m**2).sum(axis=1),
            (bend * m).sum(axis=1),
            bend.sum(axis=1),
        ],
        axis=1,
    )
    sums = sums_of(by_row, ptr[:-1])
    g, apart, b = judges[:, 0], judges[:, 1] - judges[:, 0], judges[:, 2]
    slope, curvature = sums[:, 1:4], np.empty((len(judges), 3, 3))
    slope[:, 0] += SURE * (1.0 / g - 1.0 / SHARP) + apart / STRETCH_VARIANCE
    slope[:, 1] -= apart / STRETCH_VARIANCE
    slope[:, 2] -= b / B_VARIANCE
    for at, (i, j) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)), start=4):
        curvature[:, i, j] = curvature[:, j, i] = sums[:, at]
    curvature[:, 0, 0] += SURE / g**2 + 1.0 / STRETCH_VARIANCE
    curvature[:, 1, 1] += 1.0 / STRETCH_VARIANCE
    curvature[:, 0, 1] -= 1.0 / STRETCH_VARIANCE
    curvature[:, 1, 0] -= 1.0 / STRETCH_VARIANCE
    curvature[:, 2, 2] += 1.0 / B_VARIANCE
    return Objective(sums[:, 0] + log_prior(judges), slope, curvature)


def _lines(judges: Floats, given: NDArray[np.integer], k: int) -> tuple[Floats, Floats, Floats]:
    """Return log P by line and true grade, and the probabilities of a y above the cut above, and below the cut below it."""
    m, t = positions(k)
    g, at = judges[:, :1], judges[:, 1:2] * m + judges[:, 2:3]
    up = np.append(t, np.inf)[given, None] * g - at
    low = np.append(-np.inf, t)[given, None] * g - at
    is_inner = (given > 0) & (given < k - 1)
    out = _log_sigma(up) + _log_sigma(-low)
    out += np.where(is_inner, np.log(-np.expm1(-judges[:, 0])), 0.0)[:, None]
    return out, _sigma(-up), _sigma(low)


def _log_sigma(x: Floats) -> Floats:
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def _sigma(x: Floats) -> Floats:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def log_prior(judges: Floats) -> Floats:
    """Return the logarithm of the prior of each judge, [workers], less constants."""
    g, h, b = judges.T
    out: Floats = SURE * (np.log(g) - g / SHARP) - (h - g) ** 2 / (2.0 * STRETCH_VARIANCE) - b**2 / (2.0 * B_VARIANCE)
    return out
