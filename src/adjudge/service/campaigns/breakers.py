"""Circuit breakers: automatic decisions stop when their labels, their flips or the disagreement jump.

A flood of colluding or broken workers shows in the stream of decisions before anyone looks at a single one. What is
compared is a window of the last decisions with all before it, since the campaign or the last reset began. Both are sums of
blocks, so memory does not grow with the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from adjudge.errors import quote
from adjudge.service.campaigns.policy import BreakerLimits as Limits

BLOCKS_PER_WINDOW: Final = 20  # of a window: it moves on, and is looked at, by a block
JUMP_TOLERANCE: Final = 1e-9
MIN_JUMP_STANDARD_ERRORS: Final = 5.0  # standard errors that a jump has to have as well: small windows jump by chance


class DecisionBlock(msgspec.Struct):
    """What some decisions that followed each other add up to."""

    decisions: int = 0
    flips: int = 0  # those that changed a decided label
    against: float = 0.0  # sum of the shares of votes against the decided label
    labels: dict[int, int] = {}  # decisions by label

    def add(self, other: DecisionBlock) -> None:
        """Add the decisions of another block."""
        self.decisions += other.decisions
        self.flips += other.flips
        self.against += other.against
        for label, number in other.labels.items():
            self.labels[label] = self.labels.get(label, 0) + number


class Breakers(msgspec.Struct):
    """Sums of decisions, of late and of all before, and whether they have tripped.

    They trip when something moves by more than its limit, and by more than chance explains: 5 standard errors of decisions
    that are independent of each other. Breakers stay silent until the past has as many decisions as the window, so nothing
    trips.

    - `tripped`: why, as a sentence; None while decisions are made.
    - `window`: the number of decisions in the window, by the policy.
    - `past`: the decisions before the window.
    - `blocks`: those in the window, the oldest first.
    - `latest`: those since the window was last looked at.

    >>> breakers, limits = Breakers(), Limits(window=100)
    >>> for number in range(600):
    ...     breakers.note_decision(limits, ["spam", "ok"], number % 2 if number < 500 else 0, against=0.1, is_flip=False)
    >>> breakers.tripped
    "the share of 'spam' in the last 100 decisions is 0.820, and 0.501 in the 465 before: more than 0.300 apart"
    """

    tripped: str | None = None
    window: int = 0
    past: DecisionBlock = msgspec.field(default_factory=DecisionBlock)
    blocks: list[DecisionBlock] = []
    latest: DecisionBlock = msgspec.field(default_factory=DecisionBlock)

    def note_decision(self, limits: Limits, labels: Sequence[str], label: int, *, against: float, is_flip: bool) -> None:
        """Note a decision that votes made.

        - `limits`: of the policy.
        - `labels`: ids of the labels, for the sentence.
        - `label`: the index of the decided one.
        - `against`: the share of the task's votes that are for another label.
        - `is_flip`: whether another label was decided before.
        """
        if self.window != limits.window:
            self._forget()
            self.window = limits.window
        latest = self.latest
        latest.decisions += 1
        latest.flips += is_flip
        latest.against += against
        latest.labels[label] = latest.labels.get(label, 0) + 1
        if latest.decisions * BLOCKS_PER_WINDOW >= self.window:
            self._look(limits, labels)

    def check_refit(self, limits: Limits, flips: int, settled: int) -> None:
        """Look at what a refit would do to the tasks that are decided, before it does.

        A refit changes many decisions at once, and only those that change. So they are compared with the decided tasks in
        memory, not with the decisions of late.

        - `limits`: of the policy.
        - `flips`: decided tasks whose label would become another.
        - `settled`: all decided tasks in memory.
        """
        limit = limits.flip_rate
        if self.tripped is None and limit is not None and settled >= limits.window and flips > limit * settled:
            self.tripped = f"a refit would change {flips} of {settled} decided labels: more than a share of {limit:.3f}"

    def hold(self, why: str) -> None:
        """Trip for a reason from elsewhere, unless they have tripped already."""
        self.tripped = self.tripped or why

    def release(self, cause: str) -> None:
        """Lift what was tripped for a reason that begins so: it is watched no longer."""
        if self.tripped is not None and self.tripped.startswith(cause):
            self.tripped = None

    def reset(self) -> None:
        """Start over after a review by a person: the next window is compared with decisions from now on."""
        self.tripped = None
        self._forget()

    def _forget(self) -> None:
        self.past, self.blocks, self.latest = DecisionBlock(), [], DecisionBlock()

    def _look(self, limits: Limits, labels: Sequence[str]) -> None:
        """Advance the window by a block, and compare it with the decisions before it."""
        self.blocks.append(self.latest)
        self.latest = DecisionBlock()
        while sum(block.decisions for block in self.blocks[1:]) >= self.window:
            self.past.add(self.blocks.pop(0))
        now, past = DecisionBlock(), self.past
        for block in self.blocks:
            now.add(block)
        if self.tripped is not None or past.decisions < self.window:
            return
        n, m = now.decisions, past.decisions
        for label in sorted({*now.labels, *past.labels}) if limits.label_share is not None else ():
            share, before = now.labels.get(label, 0) / n, past.labels.get(label, 0) / m
            if _jumps(abs(share - before), limits.label_share, share, before, n, m):
                self._trip(f"the share of {quote(labels[label])}", (share, before), (n, m), limits.label_share, "apart")
        for name, limit, share, before in (
            ("the mean share of votes against the decided label", limits.disagreement, now.against / n, past.against / m),
            ("the share of changed decisions", limits.flip_rate, now.flips / n, past.flips / m),
        ):
            if _jumps(share - before, limit, share, before, n, m):
                self._trip(name, (share, before), (n, m), limit, "higher")

    def _trip(self, what: str, shares: tuple[float, float], decisions: tuple[int, int], limit: float | None, moved: str) -> None:
        if self.tripped is None and limit is not None:
            now = f"{what} in the last {decisions[0]} decisions is {shares[0]:.3f}"
            self.tripped = f"{now}, and {shares[1]:.3f} in the {decisions[1]} before: more than {limit:.3f} {moved}"


def _jumps(jump: float, limit: float | None, share: float, before: float, n: int, m: int) -> bool:
    """Return whether a share has moved by more than its limit, and by more than chance explains."""
    if limit is None or jump <= limit + JUMP_TOLERANCE:
        return False
    pooled = (share * n + before * m) / (n + m)  # a mean of shares varies no more than a share of this size
    return jump > MIN_JUMP_STANDARD_ERRORS * math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
