"""Votes of one task, counted the ways policies ask for: by label, by group of workers, and those of experts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from adjudge.service.campaigns.decision import EXPERTS_DIFFER, NO_EXPERT, Evidence

Ballot: TypeAlias = tuple[int, str | None, bool]  # label, group of the worker, whether the worker is an expert


class Tally:
    """Counts of the votes on a task that count. Adding or removing a vote costs the same however many there are.

    - `votes_per_group`: votes for a label that make a group count for the quorum of that label.
    - `ballots`: the votes to begin with.

    >>> tally = Tally(1, [(0, "east", False), (0, "west", False), (1, None, True)])
    >>> tally.remove((0, "west", False))
    >>> tally.total, tally.share_against(0), tally.experts
    (2, 0.5, 1)
    """

    __slots__ = ("_by_expert", "_by_group", "_by_label", "_groups", "_votes_per_group", "experts", "total")

    def __init__(self, votes_per_group: int, ballots: Iterable[Ballot] = ()) -> None:
        self._votes_per_group = votes_per_group
        self._by_label: dict[int, int] = {}
        self._by_expert: dict[int, int] = {}
        self._by_group: dict[tuple[str, int], int] = {}
        self._groups: dict[int, int] = {}  # by label: groups with the votes that a quorum asks of each
        self.total = self.experts = 0
        for ballot in ballots:
            self.add(ballot)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def add(self, ballot: Ballot) -> None:
        """Count a vote."""
        label, group, is_expert = ballot
        self.total += 1
        _step(self._by_label, label, 1)
        if is_expert:
            self.experts += 1
            _step(self._by_expert, label, 1)
        if group is not None and _step(self._by_group, (group, label), 1) == self._votes_per_group:
            _step(self._groups, label, 1)

    def remove(self, ballot: Ballot) -> None:
        """Count a vote no longer."""
        label, group, is_expert = ballot
        self.total -= 1
        _step(self._by_label, label, -1)
        if is_expert:
            self.experts -= 1
            _step(self._by_expert, label, -1)
        if group is not None and _step(self._by_group, (group, label), -1) == self._votes_per_group - 1:
            _step(self._groups, label, -1)

    def share_against(self, label: int) -> float:
        """Return the share of votes for other labels than this one; 0 without votes."""
        return 1 - self._by_label.get(label, 0) / self.total if self.total else 0.0

    def fill(self, evidence: Evidence, labels: int) -> None:
        """Fill in the part of the evidence that only some policies look at; `labels` is how many labels there are."""
        counts, groups = [0.0] * labels, [0] * labels
        for label, votes in self._by_label.items():
            counts[label] = float(votes)
        for label, reached in self._groups.items():
            groups[label] = reached
        evidence.counts, evidence.groups, evidence.experts = counts, groups, self.experts
        evidence.expert = EXPERTS_DIFFER if len(self._by_expert) > 1 else next(iter(self._by_expert), NO_EXPERT)


def _step(counts: dict, key: object, by: int) -> int:  # type: ignore[type-arg]
    """Change a count by one, and return it; a count of 0 is left out."""
    count: int = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]
    return count
