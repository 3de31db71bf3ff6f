"""Requirements as people type them: 'accuracy>=0.9', 'rate(pass)>=80%', 'alpha', and whether an interval meets one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from adjudge.errors import OptionError, make_visible, quote
from adjudge.evaluation.intervals import Estimate

Verdict: TypeAlias = Literal["holds", "fails", "inconclusive"]
VERDICT_HOLDS: Final[Verdict] = "holds"
FAILS: Final[Verdict] = "fails"
INCONCLUSIVE: Final[Verdict] = "inconclusive"
# The figures, and whether they are shares.
IS_SHARE: Final = {
    "accuracy": True,
    "rate": True,
    "alpha": False,
    "effective_votes": False,
    "votes_per_task": False,
    "tasks": False,
}
COMPARED: Final = ("accuracy", "rate", "alpha")  # with a baseline: the margin is one of shares and the like
AT_LEAST: Final = ">="
AT_MOST: Final = "<="
REQUIREMENT_PATTERN: Final = re.compile(r"\s*([a-z_]+)\s*(?:\((.*)\))?\s*(?:(>=|<=|≥|≤)\s*([-+0-9.eE]+)\s*(%?))?\s*", re.DOTALL)
ACCEPTED_REQUIREMENTS: Final = (
    "'accuracy>=0.9', 'rate(pass)>=80%', 'alpha>=0.6', 'effective_votes>=2', 'votes_per_task>=3' or 'tasks>=100'"
)


@dataclass(frozen=True)
class Requirement:
    """What is required of a figure; without a threshold it is only compared with a baseline."""

    figure: str  # a name of IS_SHARE
    label: str = ""  # whose rate it is
    relation: str = AT_LEAST
    threshold: float | None = None

    @property
    def name(self) -> str:
        """The figure with its label: rate(pass)."""
        return f"{self.figure}({make_visible(self.label)})" if self.figure == "rate" else self.figure

    def __str__(self) -> str:
        return self.name if self.threshold is None else f"{self.name} {self.relation} {self.show(self.threshold)}"

    def show(self, value: float) -> str:
        """Return a value of the figure as people read it: shares in percent."""
        if value != value:
            return "not measured"
        return f"{100 * value:.1f}%" if IS_SHARE[self.figure] else f"{value:.4g}"

    def show_difference(self, value: float) -> str:
        """Return a difference of two values of the figure with its sign: that of shares in points."""
        return f"{100 * value:+.1f}" if IS_SHARE[self.figure] else f"{value:+.3g}"

    def judge(self, estimate: Estimate, threshold: float | None = None) -> Verdict:
        """Return whether the whole interval meets the threshold, misses it, or contains it.

        >>> need = parse_requirement("accuracy >= 90%")
        >>> need.judge(Estimate(0.95, 0.92, 0.97)), need.judge(Estimate(0.95, 0.85, 0.99)), need.judge(Estimate(0.8, 0.7, 0.85))
        ('holds', 'inconclusive', 'fails')
        """
        limit = self.threshold if threshold is None else threshold
        assert limit is not None
        low, high = (estimate.low, estimate.high) if self.relation == AT_LEAST else (-estimate.high, -estimate.low)
        limit = limit if self.relation == AT_LEAST else -limit
        if low >= limit:
            return VERDICT_HOLDS
        return FAILS if high < limit else INCONCLUSIVE  # NaN is neither


def parse_requirement(text: object) -> Requirement:
    """Return a requirement that was typed.

    >>> parse_requirement("rate(toxic) <= 5%")
    Requirement(figure='rate', label='toxic', relation='<=', threshold=0.05)
    >>> str(parse_requirement("alpha>=0.6"))
    'alpha >= 0.6'
    """
    match = REQUIREMENT_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[1] not in IS_SHARE:
        raise OptionError(f"require is {quote(text)}: give a figure and its limit, like {ACCEPTED_REQUIREMENTS}")
    figure, label, relation, number, percent = match.groups()
    if (figure == "rate") != bool(label and label.strip()):
        raise OptionError(f"require is {quote(text)}: a rate names its label, as in 'rate(pass)>=0.8', and nothing else does")
    if number is None:
        return Requirement(figure, (label or "").strip())
    try:
        threshold = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        raise OptionError(f"require is {quote(text)}: {quote(number)} is no number") from None
    if not math.isfinite(threshold):
        raise OptionError(f"require is {quote(text)}: {quote(number)} is no number that {figure} can have")
    if figure == "alpha" and not percent and not -1.0 <= threshold <= 1.0:
        raise OptionError(f"require is {quote(text)}: alpha takes a number from -1 to 1")
    if (percent or IS_SHARE[figure]) and not (IS_SHARE[figure] and 0.0 <= threshold <= 1.0):
        accepted = "a share from 0 to 1, or 0% to 100%" if IS_SHARE[figure] else "a number without %"
        raise OptionError(f"require is {quote(text)}: {figure} takes {accepted}")
    return Requirement(figure, (label or "").strip(), AT_LEAST if relation in (AT_LEAST, "≥") else AT_MOST, threshold)
