"""What is understood of a source while it is read, and what it amounts to in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adjudge.data.understood import NOT_COUNTED, Understood
from adjudge.io.shapes import Shape

__all__ = ["NOT_COUNTED", "Reading", "Understood"]


@dataclass
class Reading:
    """A source being read: fields are filled when its first lines are, and final with its last."""

    format: str
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> lines left out
    gold: int = 0  # answers taken as gold
    has_workers: bool = True  # whether votes say who gave them
    export: str = ""  # the format of an export that was recognised
    ignored: str | None = None  # a column that looks like weights or counts, and is not used

    def saw(self, shape: Shape, described: str | None = None) -> None:
        """Take what is known once the columns of a table are: these, and its format where it is described."""
        self.columns, self.has_workers, self.ignored = shape.told(), shape.has_workers, shape.ignored
        self.format = self.export or described or self.format

    def understood(self, *, votes: int, abstentions: int, repeated: int) -> Understood:
        """Return what was understood in the end; without workers no vote is a repeated one.

        >>> print(Reading("tuples").understood(votes=2, abstentions=1, repeated=0))
        tuples; 2 votes, 1 abstention
        """
        repeated = repeated if self.has_workers else 0
        return Understood(self.format, self.columns, votes, abstentions, repeated, self.skipped, self.gold)
