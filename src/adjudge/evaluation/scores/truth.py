"""From what a panel says to the truth: an assumed validity, or gold scores, or gold labels; and the side of a threshold.

Judges share errors that no score shows. Without gold the share of their common signal that is true (the validity) is
assumed; gold scores measure it, and put scores on their own scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.intervals import quantile
from adjudge.evaluation.scores.fit import Flags, ScoreFit
from adjudge.kernels.scores_reference import Floats

DEFAULT_VALIDITY: Final = 0.5  # measured on nine families of sets: .09 .34 .34 .36 .64 .66 .76 .93 .99
MIN_GOLD_SCORES: Final = 3  # scores from which on gold tells more than a shift
LENT_ITEMS: Final = 2.0  # of belief in the plain ratio of scales, and in the default validity
LOGISTIC_RIDGE: Final = (0.05, 1.0)  # of the start and the gain
LOGISTIC_STEPS: Final = 50
MAX_LOGIT: Final = 30.0


@dataclass(frozen=True)
class GoldScale:
    """The line from the panel's scale to that of gold scores: truth = start + gain * score + error."""

    start: float
    gain: float
    shared: float  # variance of the error that judges share, on the gold's scale
    gold: int

    def apply(self, score: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return scores and standard deviations on the gold's scale."""
        sd = np.sqrt(self.gain**2 * variance + self.shared * (1.0 + 1.0 / max(self.gold, 1)))
        return self.start + self.gain * score, sd

    def validity(self, spread: float) -> float:
        """Return the share of the judges' common signal that is true, as gold measures it."""
        total = self.gain**2 * spread
        return total / (total + self.shared) if total > 0 else 0.0


def gold_scale(fit: ScoreFit, item: np.ndarray, gold: Floats) -> GoldScale:
    """Return the line to the scale of gold scores, of these items; below three of them only a shift."""
    s, v, m = fit.score[item], np.nan_to_num(fit.variance[item]), len(gold)
    gain, ridge = 1.0, LENT_ITEMS * fit.spread
    if m >= MIN_GOLD_SCORES:
        dx = s - s.mean()
        plain = float(np.std(gold)) / max(float(np.std(s)), 1e-12) * DEFAULT_VALIDITY**0.5
        below = float((dx**2).sum()) + ridge
        gain = (float((dx * (gold - gold.mean())).sum()) + ridge * plain) / below if below > 0 else 1.0
    start = float(gold.mean() - gain * s.mean())
    error = gold - start - gain * s
    typical = gain**2 * fit.spread * (1.0 / DEFAULT_VALIDITY - 1.0)
    shared = typical
    if m >= MIN_GOLD_SCORES:
        seen = float((error**2).sum() - gain**2 * v.sum()) + LENT_ITEMS * typical
        shared = max(seen / max(m - 2.0 + LENT_ITEMS, 1.0), 0.02 * typical)
    return GoldScale(start, float(gain), float(shared), m)


def panel_deviation(variance: Floats, spread: float, validity: float) -> Floats:
    """Return the standard deviation of the truth around scores, if judges have this validity."""
    return np.asarray(np.sqrt(variance + spread * (1.0 / validity - 1.0)))


def interval(score: Floats, sd: Floats, level: float) -> tuple[Floats, Floats]:
    """Return both ends of the interval of a normal law."""
    z = quantile(level, np.inf)
    return score - z * sd, score + z * sd


def fit_logistic(fit: ScoreFit, item: np.ndarray, label: Flags) -> tuple[float, float]:
    """Return start and gain of the log-odds that a gold label is true, by the standardised score; shrunk to 0 and 1."""
    s = standardise(fit.score, fit.centre, fit.spread)[item]
    design, target = np.stack([np.ones(len(s)), s], axis=1), label.astype(np.float64)
    beta, prior, ridge = np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array(LOGISTIC_RIDGE)
    for _ in range(LOGISTIC_STEPS):
        p = _logistic(design @ beta)
        information = (design * (p * (1.0 - p))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(information, design.T @ (target - p) - ridge * (beta - prior))
        beta = beta + step
        if np.abs(step).max() < 1e-8:
            break
    return float(beta[0]), float(beta[1])


def standardise(score: Floats, centre: float, spread: float) -> Floats:
    """Return scores in standard deviations of the items."""
    return np.asarray((score - centre) / max(spread, 1e-12) ** 0.5)


def label_probability(score: Floats, centre: float, spread: float, line: tuple[float, float]) -> Floats:
    """Return the probability of the label, [items], by the line of `fit_logistic`."""
    return _logistic(line[0] + line[1] * standardise(score, centre, spread))


def above(score: Floats, sd: Floats, threshold: float) -> Floats:
    """Return the probability that the truth is above a threshold, by the normal law."""
    return 0.5 * _erfc(-(score - threshold) / np.maximum(sd, 1e-12) / 2.0**0.5)


def _logistic(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -MAX_LOGIT, MAX_LOGIT))))


def _erfc(x: Floats) -> Floats:
    from math import erfc

    return np.fromiter(map(erfc, x.tolist()), np.float64, len(x))
