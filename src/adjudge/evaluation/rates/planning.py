"""How many known labels a share or a difference of shares needs: for half the width, or for an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adjudge.evaluation.intervals import Floats, quantile
from adjudge.evaluation.rates.shares import GOLD_METHOD, MIN_GOLD, PPI, ShareEstimate, TaskBeliefs, most_likely


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """What known labels would do for the shares of a group.

    With n known labels of N tasks a corrected share has the variance e / n + v / N: e is that of the errors of predictions, and v
    that of predictions, whose part only more tasks make smaller. For the share among these very tasks it is (1 - n / N) e / n.
    """

    tasks: int
    gold: int
    share: Floats  # [K]
    errors: Floats  # [K] variance of the error of a prediction
    spread: Floats  # [K] variance of predictions
    sample: bool

    def variance(self, label: int, gold: int) -> float:
        """Return the variance of the share of a label, if so many labels are known."""
        open_part = 1.0 if self.sample else 1.0 - gold / self.tasks
        errors, share = float(self.errors[label]), float(self.share[label])
        predicted = open_part * errors / gold + (float(self.spread[label]) / self.tasks if self.sample else 0.0)
        alone = open_part * share * (1.0 - share) / gold  # of known labels without any prediction
        return max(min(predicted, alone), 0.0)

    def half_width(self, label: int, gold: int, level: float) -> float:
        """Return half the width of the interval of a label's share, if so many labels are known."""
        return quantile(level, max(gold - 1, 1)) * math.sqrt(self.variance(label, gold))

    def least(self, label: int, wanted: float, level: float) -> int | None:
        """Return the smallest number of known labels for at most this half width; None if no number is enough."""
        return search(max(self.gold + 1, MIN_GOLD), self.tasks, lambda gold: self.half_width(label, gold, level) <= wanted)


def search(low: int, high: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number from `low` to `high` that is enough; None if `high` is not. Larger numbers are enough, too.

    >>> search(1, 100, lambda n: n * n >= 50), search(1, 5, lambda n: n * n >= 50)
    (8, None)
    """
    if low > high or not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return high


def plan_labels(found: TaskBeliefs, estimate: ShareEstimate, gold: int, *, sample: bool) -> LabelPlan:
    """Return the plan of a group with so many known labels."""
    whole, posterior = len(found), most_likely(found)[1]
    spread, errors = posterior.var(axis=0), (found.honest * (1.0 - found.honest)).mean(axis=0)
    if estimate.method in (PPI, GOLD_METHOD) and gold > 1:  # what gold has shown of errors
        left = estimate.variance - (spread / whole if sample else 0.0)
        shown = np.maximum(left * gold / (1.0 if sample else max(1.0 - gold / whole, 1e-9)), 0.0)
        errors = np.where(shown > 0, shown, errors)
    return LabelPlan(whole, gold, estimate.share, errors, spread, sample)


@dataclass(frozen=True)
class Needed:
    """How many more known labels would halve the widest interval of a group."""

    label: int  # whose interval is the widest
    half_width: float  # of it
    more: int | None  # known labels; None if no number of them is enough
    why: str


def gold_needed(plan: LabelPlan, half_width: Floats, level: float) -> Needed:
    """Return how many more random tasks of a group must be labelled for half the width; `half_width` is that of now, [K]."""
    label = int(np.argmax(half_width.round(9)))  # of two labels that mirror each other the first
    now, whole = float(half_width[label]), plan.tasks
    if now == 0.0:
        return Needed(label, now, 0, "every label is known")
    least = plan.least(label, now / 2.0, level)
    if least is None:
        most = max(whole, 2)
        return Needed(label, now, None, f"all {whole} tasks known leave ±{100 * plan.half_width(label, most, level):.1f} points")
    return Needed(label, now, least - plan.gold, f"{least} of {whole} tasks known, drawn at random")
