"""Circuit breakers: automatic decisions stop when their labels, their flips or the disagreement jump.

A flood of colluding or broken workers shows in the stream of decisions before anyone looks at a single one. What is
compared is a window of the last decisions with the longer past before it.
"""

from __future__ import annotations

import msgspec


class Breakers(msgspec.Struct):
    """Counts of decisions, of late and of the longer past, and whether they have tripped."""

    tripped: str | None = None  # why, as a sentence

    def decided(self, policy: object, label: int, *, is_flip: bool) -> None:
        """Note a decision."""

    def reset(self) -> None:
        """Forget that they tripped: a person has looked."""
        self.tripped = None
