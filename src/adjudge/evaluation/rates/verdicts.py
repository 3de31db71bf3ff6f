"""Whether one group is better than another, in a sentence; and how many known labels or tasks would show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from adjudge.errors import make_visible
from adjudge.evaluation.intervals import holm, quantile
from adjudge.evaluation.rates.planning import LabelPlan, search
from adjudge.evaluation.rates.shares import MIN_GOLD, ShareDifference

# What a label that is good to have may be called, and one that is not; of other labels there is only more and less.
GOOD_WORDS: Final = "pass passed good yes correct right true ok win accept accepted safe helpful 1"
BAD_WORDS: Final = "fail failed bad no incorrect wrong false lose reject rejected unsafe harmful 0"
MAX_TASKS: Final = 10**9  # needed to show a difference
CAVEAT: Final = (
    "by votes alone a difference takes judges to err alike in both groups: no votes show whether they share errors or favour one "
    "of them; 50 known labels of random tasks of each group would"
)


@dataclass(frozen=True)
class GroupVerdict:
    """What is shown of two groups."""

    better: str  # the group with the higher share of a good label, or the lower one of a bad label
    other: str
    word: str  # "better than", or "above" for a label that is neither good nor bad
    label: str
    difference: float  # at least 0, unless labels are bad
    low: float
    high: float
    p_adjusted: float  # corrected for the number of pairs
    is_shown: bool
    more: int | None  # known labels of each group that would decide; None if no number of them would
    level: float

    def sentence(self) -> str:
        """Return the verdict, with its interval in points."""
        value, low, high = (f"{100 * part:+.1f}" for part in (self.difference, self.low, self.high))
        of = f"points of {make_visible(self.label)}"
        who, other = make_visible(self.better), make_visible(self.other)
        what = f"{who} is {self.word} {other} at the {100 * self.level:g}% level"
        if self.is_shown:
            return f"{what}: {value} {of}, {low} to {high}"
        needed = "known labels of all these tasks would not decide it either, so more tasks are needed"
        needed = needed if self.more is None else f"{self.more} more known labels of each would decide"
        return f"not shown that {what}: {value} {of}, {low} to {high}; {needed}"


def is_good(label: str) -> bool | None:
    """Return whether a label is good to have by its name; None for names that do not say so.

    >>> is_good("Pass"), is_good("unsafe"), is_good("cat")
    (True, False, None)
    """
    name = label.strip().lower()
    return True if name in GOOD_WORDS.split() else False if name in BAD_WORDS.split() else None


def main_label(labels: Sequence[str]) -> int:
    """Return the label that sentences are about: the first with a good name, or else the last.

    >>> main_label(["fail", "pass"]), main_label(["yes", "no"]), main_label(["cat", "dog"])
    (1, 0, 1)
    """
    return next((code for code, label in enumerate(labels) if is_good(label)), len(labels) - 1)


def judge_pairs(
    compared: Sequence[ShareDifference],
    plans: Sequence[LabelPlan],
    groups: Sequence[str],
    labels: Sequence[str],
    good: str | None,
    level: float,
) -> list[GroupVerdict]:
    """Return a verdict on every pair of groups; a difference is shown if its p-value, corrected by Holm's method, says so."""
    if not compared:
        return []
    label = main_label(labels) if good is None else list(labels).index(good)
    name = labels[label]
    is_better = True if good is not None else is_good(name)
    adjusted = holm(np.array([pair.p_value[label] for pair in compared]))
    out = []
    for pair, p_value in zip(compared, adjusted, strict=True):
        value, low, high = (float(part[label]) for part in (pair.value, pair.low, pair.high))
        first, second = groups[pair.one], groups[pair.other]
        turned = value > 0 if is_better is False else value < 0  # the better one comes first
        if turned:
            first, second, value, low, high = second, first, -value, -high, -low
        is_shown = bool(p_value < 1.0 - level)
        more = None if is_shown else labels_that_decide(pair, plans[pair.one], plans[pair.other], label, level)
        word = "above" if is_better is None else "better than"
        out.append(GroupVerdict(first, second, word, name, value, low, high, float(p_value), is_shown, more, level))
    return out


def labels_that_decide(pair: ShareDifference, one: LabelPlan, other: LabelPlan, label: int, level: float) -> int | None:
    """Return how many more known labels of each group would show a difference as large as now; None if no number would."""
    wanted, have = abs(float(pair.value[label])), min(one.gold, other.gold)

    def shows(gold: int) -> bool:
        a, b = one.variance(label, gold), other.variance(label, gold)
        variance = max(a + b - 2.0 * float(pair.correlation[label]) * math.sqrt(a * b), 0.0)
        return quantile(level, max(2 * gold - 2, 1)) * math.sqrt(variance) < wanted

    least = search(max(have + 1, MIN_GOLD), min(one.tasks, other.tasks), shows)
    return None if least is None else least - have


def tasks_needed(pair: ShareDifference, tasks: int, label: int, difference: float, power: float, level: float) -> int | None:
    """Return how many tasks per group show a difference so often, if known labels grow with them; None beyond a billion.

    `tasks` are those of the smaller group now. Errors shrink with the square root of the number of tasks.
    """
    reach = (quantile(level, math.inf) + NormalDist().inv_cdf(power)) * float(pair.error[label])
    needed = tasks * (reach / difference) ** 2
    return math.ceil(needed) if needed <= MAX_TASKS else None
