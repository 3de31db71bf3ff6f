"""What was understood of a source of votes: its format, the columns used, and what became of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from adjudge.errors import listed, visible

NOT_COUNTED: Final = -1
ABSENT: Final = "(absent)"  # as the worker's column: votes do not say who gave them
SHORT: Final = 6  # columns of workers that a sentence names


@dataclass(frozen=True)
class Understood:
    """What reading made of a source of votes; `str()` of it is one line.

    >>> print(Understood("table (csv)", {"task": "item", "worker": "judge", "label": "score"}, votes=5, repeated=1))
    table (csv): task=item, worker=judge, label=score; 5 votes, 1 repeated vote
    """

    format: str  # "table (csv)", "pandas frame", "tuples", …
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column; empty where columns have no names
    votes: int = 0  # that count
    abstentions: int = 0  # votes without a label, which do not count
    repeated: int = 0  # votes beyond the first of a worker on a task, counted or dropped; -1 where nobody has counted them
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> lines left out
    gold: int = 0  # answers of the source that were taken as gold, not as votes

    def __post_init__(self) -> None:
        for name in ("columns", "skipped"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:  # views of dicts cannot be pickled
        return Understood, tuple(self.summary().values())

    def __str__(self) -> str:
        columns = ", ".join(f"{role}={visible(name)}" for role, name in self.columns.items())
        return f"{self.format}{': ' if columns else ''}{columns}; {self.counts()}"

    def counts(self) -> str:
        """Return what became of the lines, in words."""
        said = [_counted(self.votes, "vote")]
        said += [_counted(self.abstentions, "abstention")] if self.abstentions else []
        said += [_counted(self.repeated, "repeated vote")] if self.repeated > 0 else []
        said += [_counted(self.gold, "gold answer")] if self.gold else []
        said += [f"{count} skipped ({visible(reason)})" for reason, count in self.skipped.items()]
        return ", ".join(said)

    @property
    def has_workers(self) -> bool:
        """Whether votes say who gave them; those of majority vote need not."""
        return self.columns.get("worker") != ABSENT

    def summary(self) -> dict[str, Any]:
        """Return every field as plain Python values, ready for JSON."""
        return {
            "format": self.format,
            "columns": dict(self.columns),
            "votes": self.votes,
            "abstentions": self.abstentions,
            "repeated": self.repeated,
            "skipped": dict(self.skipped),
            "gold": self.gold,
        }


def workers_in_words(names: tuple[object, ...]) -> str:
    """Return the columns of a wide table that are workers, as `Understood.columns` names them.

    >>> workers_in_words(("a", "b"))
    'a, b'
    """
    return listed(names, SHORT)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
