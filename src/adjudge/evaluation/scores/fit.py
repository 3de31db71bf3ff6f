"""The model of numeric scores: y = c + bias_j + slope_j (x_i - c) + e, with judges shrunk towards the typical one.

x_i ~ N(c, spread) is the mean that the whole panel would give an item: slopes average 1 and biases 0 over the scores.
e has the variance noise_j / u, and u is less than 1 for a score far from its judge's line. Biases shrink to 0 and slopes to 1
by empirical Bayes, and ten scores of the typical judge are lent to every judge's noise. Inside the fit scores are standardised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.cpu import cores
from adjudge.kernels.scores_reference import JUDGE_FIELDS, JUDGE_SUMS, Floats, ScoreArrays, score_kernels

LENT_SCORES: Final = 10.0  # of the typical judge, to every judge's noise
MAX_SLOPE_VARIANCE: Final = 0.05
CLIP_UNITS: Final = 6.0  # robust standard deviations from the median beyond which scores are drawn in
MIN_EQUAL_SCORES: Final = 10  # equal scores, and no other, that make a constant judge
HUBER: Final = 3.0  # noises beyond which a score counts less
MAX_SCORE_PASSES: Final = 50
MAX_ITEM_MOVE: Final = 1e-3  # largest move of an item, in standard deviations of the items, that ends the passes
MAX_TYPICAL_SCORES: Final = 50.0  # most scores of one judge that count towards the typical judge
RANGE_RATIO: Final = 5.0  # of standard deviations of judges' scores: beyond it each judge is put into units of its own
SHRUNK_SCORES: Final = 1.0  # of the typical judge, lent to a judge's standard deviation
MIN_RANGE_SCORES: Final = 10  # scores of a judge whose standard deviation is compared
MIN_AGREEMENT_SCORES: Final = 5
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class JudgeFigures:
    """Lines of judges, [judges] each."""

    bias: Floats
    slope: Floats  # 0 for a constant judge
    noise: Floats  # standard deviation
    bias_variance: Floats
    slope_variance: Floats
    constant: Flags
    count: Floats  # scores


@dataclass(frozen=True, eq=False)
class ScoreFit:
    """Items and judges in the units of the scores (or standard ones, where judges were put into units of their own)."""

    score: Floats  # [items]
    variance: Floats  # [items] of the mean that such judges would give; NaN if nothing tells
    centre: float
    spread: float  # variance of items
    judges: JudgeFigures
    clipped: Floats  # [items] scores that were drawn in
    passes: int
    converged: bool
    unit: float  # standard deviation of the scores, after clipping
    clip: tuple[float, float]  # scores beyond are drawn in
    typical_noise: float  # standard deviation of the typical judge
    bias_spread: float  # variance of biases
    agreement: Floats  # [judges] correlation with the other judges; NaN below five scores
    compared: Floats  # [judges] scores behind the agreement
    kind: str = "factor"  # or "constant" (all scores are equal) or "means" (items and judges cannot be separated)
    judge_mean: Floats | None = None  # [judges] of each judge's own units
    judge_sd: Floats | None = None

    @property
    def reliability(self) -> float:
        """The squared correlation of the scores with the mean of infinitely many such judges."""
        if not self.spread > 0 or self.kind != "factor":
            return float("nan")
        return float(np.clip(1.0 - self.variance.mean() / self.spread, 0.0, 1.0))


def fit(scores: ScoreArrays, n_judges: int, *, group: NDArray[np.int64] | None = None, kernels: Any = None) -> ScoreFit:
    """Return the fit of scores; items have one score or more.

    `group` has the group of every judge, [judges]: those of one group count as one voice on an item.
    """
    y = scores.y
    k = np.diff(scores.item_ptr).astype(np.float64)
    n = np.bincount(scores.judge, minlength=n_judges).astype(np.float64)
    q05, q10, median, q90, q95 = np.quantile(y, [0.05, 0.10, 0.50, 0.90, 0.95])
    unit = float((q90 - q10) / 2.563 or (q95 - q05) / 3.290 or y.std())
    if unit == 0.0:
        return _constant(len(k), n, float(median))
    if (k >= 2).sum() < 2 or (n >= 2).sum() < 2:
        return _means(scores, k, n, unit)
    clip = (float(median - CLIP_UNITS * unit), float(median + CLIP_UNITS * unit))
    kept = np.clip(y, *clip)
    clipped = _by_item(scores, kept != y)
    loc, unit = float(kept.mean()), float(kept.std())
    if not unit > 0.0:
        return _constant(len(k), n, float(median))
    standard = scores._replace(y=(kept - loc) / unit)
    fitted = _Passes(standard, k, n, kernels or score_kernels()).run(group)
    return replace(_rescale(fitted, loc, unit), clipped=clipped, clip=clip)


def fit_own_units(scores: ScoreArrays, n_judges: int, **options: Any) -> ScoreFit:
    """Return the fit in standard units: each judge's scores are first put into that judge's standard deviations."""
    mean, sd = own_units(scores, n_judges)
    own = scores._replace(y=(scores.y - mean[scores.judge]) / sd[scores.judge])
    return replace(fit(own, n_judges, **options), judge_mean=mean, judge_sd=sd)


def own_units(scores: ScoreArrays, n_judges: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of every judge's scores, [judges] each; the latter shrunk where they are alike."""
    n = np.bincount(scores.judge, minlength=n_judges).astype(np.float64)
    safe = np.maximum(n, 1.0)
    mean = np.bincount(scores.judge, scores.y, n_judges) / safe
    square = np.bincount(scores.judge, (scores.y - mean[scores.judge]) ** 2, n_judges)
    log_sd = 0.5 * np.log(np.maximum(square / safe, 1e-300))
    varied = square > 0
    known = log_sd[(n >= 2) & varied]
    typical = float(np.exp(np.median(known))) if len(known) else 1.0
    compared = log_sd[(n >= MIN_RANGE_SCORES) & varied]
    alike = len(compared) > 0 and float(np.ptp(compared)) < np.log(RANGE_RATIO)
    shrunk = np.sqrt((square + SHRUNK_SCORES * typical**2) / (n + SHRUNK_SCORES))
    return mean, shrunk if alike else np.where(varied, np.exp(log_sd), 1.0)


def ranges_differ(scores: ScoreArrays, n_judges: int) -> bool:
    """Return whether judges use ranges that differ more than fivefold, gross errors left aside."""
    ratio = _range_ratio(scores, n_judges)
    if ratio <= RANGE_RATIO:
        return False
    # A few gross errors widen the range of those who made them: what lies far from a judge's own median is drawn in.
    order = np.lexsort((scores.y, scores.judge))
    judge, y = scores.judge[order], scores.y[order]
    n = np.bincount(judge, minlength=n_judges)
    start = np.concatenate([[0], np.cumsum(n)[:-1]])
    at = [np.minimum(start + (share * np.maximum(n - 1, 0)).astype(np.int64), len(y) - 1) for share in (0.1, 0.5, 0.9)]
    low, middle, high = (y[place] for place in at)
    reach = CLIP_UNITS * (high - low) / 2.563
    reach = np.where(reach > 0, reach, np.inf)
    drawn = np.clip(y, (middle - reach)[judge], (middle + reach)[judge])
    return _range_ratio(ScoreArrays(scores.item_ptr, judge, drawn), n_judges) > RANGE_RATIO


def _range_ratio(scores: ScoreArrays, n_judges: int) -> float:
    n = np.bincount(scores.judge, minlength=n_judges)
    mean = np.bincount(scores.judge, scores.y, n_judges) / np.maximum(n, 1)
    variance = np.bincount(scores.judge, (scores.y - mean[scores.judge]) ** 2, n_judges) / np.maximum(n, 1)
    sd = np.sqrt(variance[(n >= MIN_RANGE_SCORES) & (variance > 0)])
    return float(sd.max() / sd.min()) if len(sd) > 1 else 1.0


def group_shares(scores: ScoreArrays, group: NDArray[np.int64]) -> Floats:
    """Return 1 over the scores that the group of each score's judge gave its item, [scores]."""
    item = np.repeat(np.arange(len(scores.item_ptr) - 1), np.diff(scores.item_ptr))
    pair = item * (int(group.max()) + 1) + group[scores.judge]
    _, place, count = np.unique(pair, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / count[place])


class _Passes:
    """The iteration over standardised scores, and its state."""

    def __init__(self, scores: ScoreArrays, k: Floats, n: Floats, kernels: Any) -> None:
        self.scores, self.k, self.n, self.kernels = scores, k, n, kernels
        y, judge, judges = scores.y, scores.judge, len(n)
        self.x = _by_item(scores, y) / k
        several = max(len(y) - len(k), 0)
        within = float(((y - np.repeat(self.x, np.diff(scores.item_ptr))) ** 2).sum() / several) if several else 0.5
        within = min(max(within, 1e-4), 1.0)
        self.spread, self.centre = max(1.0 - within, 0.05), 0.0
        safe = np.maximum(n, 1.0)
        own = np.bincount(judge, y * y, judges) / safe - (np.bincount(judge, y, judges) / safe) ** 2
        self.mute: Flags = (own < 1e-9) & (n >= MIN_EQUAL_SCORES)
        self.bias, self.slope, self.noise = np.zeros(judges), np.ones(judges), np.full(judges, within)
        self.bias_variance, self.slope_variance = np.zeros(judges), np.zeros(judges)
        self.tau, self.omega, self.typical = 0.1 * within, MAX_SLOPE_VARIANCE, within
        self.lowest_noise = 1e-4 + 1e-3 * within
        self.variance, self.sums = np.empty(len(k)), np.empty((judges, JUDGE_SUMS))

    def run(self, group: NDArray[np.int64] | None) -> ScoreFit:
        moved, step, before = np.inf, 0, self.x.copy()
        for step in range(1, MAX_SCORE_PASSES + 1):
            self._pass(None, robust=step > 1)
            self._update_judges()
            self._fix_units()
            moved = float(np.abs(self.x - before).max() / self.spread**0.5)
            before = self.x.copy()
            if moved < MAX_ITEM_MOVE:
                break
        share = None if group is None else group_shares(self.scores, group)
        if share is not None:  # only now: inside the loop sharing would lose what holds the panel together
            self._pass(share, robust=True)
        self.kernels.score_agreement(*self.scores, self._lines(), share, **self._arrays())
        agreement, compared = _correlations(self.sums)
        agreement[self.mute & (compared >= MIN_AGREEMENT_SCORES)] = 0.0  # else what rounding leaves of no variance
        noise = np.sqrt(self.noise)
        slope = np.where(self.mute, 0.0, self.slope)
        return ScoreFit(
            score=self.x,
            variance=self.variance,
            centre=self.centre,
            spread=self.spread,
            judges=JudgeFigures(self.bias, slope, noise, self.bias_variance, self.slope_variance, self.mute, self.n),
            clipped=np.zeros(len(self.k)),
            passes=step,
            converged=moved < MAX_ITEM_MOVE,
            unit=1.0,
            clip=(-np.inf, np.inf),
            typical_noise=self.typical**0.5,
            bias_spread=self.tau,
            agreement=agreement,
            compared=compared,
        )

    def _lines(self) -> Floats:
        return judge_lines(self.bias, self.slope, self.noise, self.slope_variance, self.mute)

    def _arrays(self) -> dict[str, Any]:
        known = {"x": self.x, "variance": self.variance, "sums": self.sums, "threads": cores()}
        return known | {"centre": self.centre, "spread": self.spread, "huber": HUBER}

    def _pass(self, share: Floats | None, *, robust: bool) -> None:
        self.kernels.score_pass(*self.scores, self._lines(), share, robust=robust, **self._arrays())

    def _update_judges(self) -> None:
        """Move the centre to the items' mean, and fit a ridge line of each judge's scores on the items, from sums."""
        shift = float(self.x.mean()) - self.centre
        self.centre += shift
        self.spread = max(float(((self.x - self.centre) ** 2 + self.variance).mean()), 1e-3)
        s0, s1, s2, y0, y1, y2 = self.sums.T
        y1 = y1 - shift * (s1 + y0) + shift**2 * s0
        y2 = y2 - 2 * shift * y0 + shift**2 * s0
        s2 = s2 - 2 * shift * s1 + shift**2 * s0
        s1, y0 = s1 - shift * s0, y0 - shift * s0
        noise, n = self.noise, self.n
        a11, a22, r2 = s0 + noise / self.tau, s2 + noise / self.omega, y1 + noise / self.omega
        det = a11 * a22 - s1**2
        bias, slope = (a22 * y0 - s1 * r2) / det, (a11 * r2 - s1 * y0) / det
        self.bias, self.slope, self.bias_variance, self.slope_variance = bias, slope, noise * a22 / det, noise * a11 / det
        square = y2 + bias**2 * s0 + slope**2 * s2 - 2 * bias * y0 - 2 * slope * y1 + 2 * bias * slope * s1
        noise = (np.maximum(square, 0.0) + LENT_SCORES * self.typical) / (n + LENT_SCORES)
        self.noise = np.maximum(noise, self.lowest_noise)
        weight = np.minimum(n, MAX_TYPICAL_SCORES) * ~self.mute
        total = float(weight.sum())
        if total > 0:
            self.typical = float(np.exp((weight * np.log(self.noise)).sum() / total))
            self.tau = max(float((weight * (bias**2 + self.bias_variance)).sum() / total), 1e-4)
            omega = float((weight * ((slope - 1) ** 2 + self.slope_variance)).sum() / total)
            self.omega = min(max(omega, 1e-3), MAX_SLOPE_VARIANCE)

    def _fix_units(self) -> None:
        """Make slopes average 1 and biases 0 over the scores. Errors of scores stay as they are."""
        live = self.n * ~self.mute
        if not live.sum() > 0:
            return
        slope, bias = (float((live * part).sum() / live.sum()) for part in (self.slope, self.bias))
        if slope > 0.05:
            self.slope, self.slope_variance = self.slope / slope, self.slope_variance / slope**2
            self.spread, self.variance = self.spread * slope**2, self.variance * slope**2
            self.x = self.centre + (self.x - self.centre) * slope
        self.bias, self.centre, self.x = self.bias - bias, self.centre + bias, self.x + bias


def judge_lines(bias: Floats, slope: Floats, noise: Floats, slope_variance: Floats, mute: Flags) -> Floats:
    """Return the table that the passes read, [judges, 5]; `noise` are variances."""
    line = np.empty((len(bias), JUDGE_FIELDS))
    for place, column in enumerate((bias, slope, noise, slope**2 + slope_variance, ~mute / noise)):
        line[:, place] = column
    return line


def _correlations(sums: Floats) -> tuple[Floats, Floats]:
    """Return the correlation of each judge's scores with those of the others, NaN below five, and their number."""
    n, y, o, yy, oo, yo = sums.T
    safe = np.maximum(n, 1.0)
    own, others = np.maximum(yy - y * y / safe, 0.0), np.maximum(oo - o * o / safe, 0.0)
    r = (yo - y * o / safe) / np.sqrt(np.maximum(own * others, 1e-300))
    return np.where(n < MIN_AGREEMENT_SCORES, np.nan, r), n


def _rescale(fitted: ScoreFit, loc: float, unit: float) -> ScoreFit:
    """Return the fit of standardised scores in the units of the scores."""
    judges = fitted.judges
    return replace(
        fitted,
        score=fitted.score * unit + loc,
        variance=fitted.variance * unit**2,
        centre=fitted.centre * unit + loc,
        spread=fitted.spread * unit**2,
        judges=replace(judges, bias=judges.bias * unit, noise=judges.noise * unit, bias_variance=judges.bias_variance * unit**2),
        unit=unit,
        typical_noise=fitted.typical_noise * unit,
        bias_spread=fitted.bias_spread * unit**2,
    )


def _by_item(scores: ScoreArrays, values: NDArray[Any]) -> Floats:
    return np.add.reduceat(values, scores.item_ptr[:-1], dtype=np.float64)


def _constant(items: int, n: Floats, value: float) -> ScoreFit:
    """Return the fit of scores that are all equal: there is nothing to learn."""
    zero, nothing = np.zeros(len(n)), np.zeros(items)
    return ScoreFit(
        score=np.full(items, value),
        variance=nothing,
        centre=value,
        spread=0.0,
        judges=JudgeFigures(zero, zero, zero, zero, zero, np.ones(len(n), np.bool_), n),
        clipped=nothing,
        passes=0,
        converged=True,
        unit=0.0,
        clip=(-np.inf, np.inf),
        typical_noise=0.0,
        bias_spread=0.0,
        agreement=np.full(len(n), np.nan),
        compared=zero,
        kind="constant",
    )


def _means(scores: ScoreArrays, k: Floats, n: Floats, unit: float) -> ScoreFit:
    """Return plain means, and a variance only where items have two scores or more: items and judges cannot be separated."""
    mean = _by_item(scores, scores.y) / k
    free = len(scores.y) - len(k)
    errors = scores.y - np.repeat(mean, np.diff(scores.item_ptr))
    within = float((errors**2).sum() / free) if free > 0 else np.nan
    flat = _constant(len(k), n, float(scores.y.mean()))
    same = np.zeros(len(n), np.bool_)
    return replace(
        flat,
        score=mean,
        variance=within / k,
        spread=float(np.var(mean)),
        judges=replace(flat.judges, slope=np.ones(len(n)), noise=np.full(len(n), within**0.5), constant=same),
        unit=unit,
        typical_noise=float(np.nan_to_num(within**0.5)),
        kind="means",
    )
