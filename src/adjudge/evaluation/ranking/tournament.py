"""Comparisons as arrays: equal ones added up, who was ever compared with whom, and whether strengths have a maximum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from adjudge.errors import InputError
from adjudge.evaluation.intervals import Flags, Floats, Integers, sum_by
from adjudge.kernels.ranking_reference import RankRows

OUTCOMES: Final = 3  # the right one won, a tie, the left one won
MAX_ROW_KEY: Final = 1 << 63  # beyond what an integer holds
MAX_TABLE_CELLS: Final = 8  # cells of a table of all pairs per comparison, up to which it is made


@dataclass(frozen=True, eq=False)
class Tournament:
    """Comparisons in codes, added up: one row per (left, right, judge) that occurs, sorted by judge, left and right."""

    items: int
    judges: int
    left: Integers  # [rows]
    right: Integers  # [rows]
    judge: Integers  # [rows]
    left_wins: Floats  # [rows] without ties
    right_wins: Floats  # [rows] without ties
    ties: Floats  # [rows]
    style: Floats  # [rows, styles] covariates; with some there is a row per comparison, in the order given

    @classmethod
    def of(
        cls,
        left: Any,
        right: Any,
        outcome: Any,
        judge: Any = None,
        *,
        items: int | None = None,
        judges: int | None = None,
        style: Any = None,
    ) -> Tournament:
        """Return the tournament of single comparisons.

        - `left`, `right`: the codes of the two items, whole numbers from 0 on, [comparisons].
        - `outcome`: 1 where the left item won, 0 where the right one did, 0.5 for a tie, [comparisons].
        - `judge`: the codes of who compared, [comparisons]; None for one judge.
        - `items`, `judges`: how many there are; the largest code and one more by default.
        - `style`: covariates that add to the log-odds of the left item, [comparisons, covariates]; None for none.

        >>> Tournament.of([0, 0, 1], [1, 1, 0], [1, 0.5, 0]).left_wins.tolist()
        [1.0, 0.0]
        """
        first, second = np.ascontiguousarray(left, np.int64), np.ascontiguousarray(right, np.int64)
        result = np.asarray(outcome, np.float64)
        who = np.zeros(len(first), np.int64) if judge is None else np.ascontiguousarray(judge, np.int64)
        if not len(first) == len(second) == len(result) == len(who):
            raise InputError(f"the arrays have {len(first)}, {len(second)}, {len(result)} and {len(who)} items: give one length")
        score = np.nan_to_num(2 * result, nan=-1.0)
        if not ((score == 0) | (score == 1) | (score == 2)).all():
            raise InputError("outcome holds another number than 1 (left won), 0 (right won) and 0.5 (a tie)")
        n = int(max(first.max(initial=-1), second.max(initial=-1))) + 1 if items is None else items
        people = int(who.max(initial=0)) + 1 if judges is None else judges
        for name, codes, limit in (("left", first, n), ("right", second, n), ("judge", who, people)):
            if len(codes) and not 0 <= codes.min() <= codes.max() < limit:
                raise InputError(f"{name} holds a code below 0, or beyond the last one, {limit - 1}")
        if (first == second).any():
            raise InputError(f"comparison {int((first == second).argmax()) + 1} is of an item with itself")
        if style is not None:
            wins, losses, ties = ((score == value).astype(np.float64) for value in (2, 0, 1))
            return cls(n, people, first, second, who, wins, losses, ties, np.ascontiguousarray(style, np.float64))
        if people * n * n * OUTCOMES < MAX_ROW_KEY:
            key = (who * n + first) * n + second
            key *= OUTCOMES
            key += score.astype(np.int64)
            key.sort()
            cell = key // OUTCOMES
            key -= cell * OUTCOMES  # the outcomes
            begin = np.flatnonzero(np.diff(cell, prepend=-1))
            cell = cell[begin]
            wins, losses, ties = (
                np.add.reduceat(key == value, begin, dtype=np.float64) if len(key) else np.zeros(0) for value in (2, 0, 1)
            )
            who, pair = np.divmod(cell, max(n * n, 1))
            left, right = np.divmod(pair, max(n, 1))
            return cls(n, people, left, right, who, wins, losses, ties, np.zeros((len(cell), 0)))
        # Pairs are numbered first: a number for judge, left and right at once can be larger than an integer holds.
        pairs, pair = np.unique(first * n + second, return_inverse=True)
        key, row = np.unique(who * len(pairs) + pair, return_inverse=True)
        who, of_row = np.divmod(key, max(len(pairs), 1))
        wins, losses, ties = (sum_by(row, (score == value).astype(np.float64), len(key)) for value in (2, 0, 1))
        return cls(n, people, pairs[of_row] // n, pairs[of_row] % n, who, wins, losses, ties, np.zeros((len(key), 0)))

    def __len__(self) -> int:
        return len(self.left)

    @cached_property
    def rows(self) -> RankRows:
        """The rows as the passes take them."""
        count, points = self.left_wins + self.right_wins + self.ties, self.left_wins + 0.5 * self.ties
        return RankRows(self.left, self.right, self.judge, count, points, self.style)

    @property
    def count(self) -> Floats:
        """Comparisons of every row, [rows]."""
        return self.rows.comparisons

    @property
    def points(self) -> Floats:
        """What the left item scored: its wins, and half of the ties, [rows]."""
        return self.rows.points

    @property
    def styles(self) -> int:
        """How many covariates there are."""
        return int(self.style.shape[1])

    def without_style(self) -> Tournament:
        """Return the same comparisons without covariates."""
        return replace(self, style=np.zeros((len(self), 0)))

    def rows_of(self, left: Integers, right: Integers, judge: Integers) -> Integers:
        """Return the row of each of the comparisons that were added up, [comparisons]."""
        if self.styles:
            return np.arange(len(self))
        pairs, pair = np.unique(self.left * self.items + self.right, return_inverse=True)
        of_comparison = np.searchsorted(pairs, left * self.items + right)
        return np.searchsorted(self.judge * len(pairs) + pair, judge * len(pairs) + of_comparison)

    def per_item(self, of_left: Floats, of_right: Floats | None = None) -> Floats:
        """Return sums over the rows of every item, [items]: one array for its rows on the left, one for those on the right."""
        other = of_left if of_right is None else of_right
        return sum_by(self.left, of_left, self.items) + sum_by(self.right, other, self.items)

    def per_judge(self, values: Floats) -> Floats:
        """Return sums over the rows of every judge, [judges]."""
        return sum_by(self.judge, values, self.judges)


def components(items: int, one: Integers, other: Integers) -> Integers:
    """Return the component of every item, [items], in a graph of edges `one`-`other`: 0 is the largest, then the next.

    Components of equal size are in the order of their first items.

    >>> components(5, np.array([3, 1, 2]), np.array([4, 2, 0])).tolist()
    [0, 0, 0, 1, 1]
    """
    label = np.arange(items)
    while True:
        least = label.copy()
        for a, b in ((one, other), (other, one)):
            np.minimum.at(least, label[a], label[b])
        least = least[label]
        while not np.array_equal(least, least[least]):  # follow pointers to the end
            least = least[least]
        if np.array_equal(least, label):
            break
        label = least
    first, group, size = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(first), np.int64)
    rank[np.lexsort((first, -size))] = np.arange(len(first))
    return rank[group]


def has_maximum(tournament: Tournament, component: Integers) -> Flags:
    """Return whether the strengths of every component have a finite maximum of the likelihood, [components].

    They have one exactly where everybody can be reached from everybody along wins and ties (Ford 1957): no group of items
    has won, or lost, all its comparisons with the others.

    >>> t = Tournament.of([0, 1, 2, 0], [1, 2, 0, 3], [1, 1, 1, 1])
    >>> has_maximum(t, np.zeros(4, int)).tolist(), has_maximum(Tournament.of([0, 1], [1, 0], [1, 1]), np.zeros(2, int)).tolist()
    ([False], [True])
    """
    above, below = tournament.left_wins + tournament.ties > 0, tournament.right_wins + tournament.ties > 0
    start = np.concatenate([tournament.left[above], tournament.right[below]])
    end = np.concatenate([tournament.right[above], tournament.left[below]])
    count, items = int(component.max(initial=-1)) + 1, tournament.items
    roots = np.unique(component, return_index=True)[1]
    out = np.ones(count, np.bool_)
    table = None
    if items**2 <= MAX_TABLE_CELLS * max(len(start), 1):
        table = np.zeros((items, items), np.bool_)
        table.ravel()[start * items + end] = True
    for a, b in ((start, end), (end, start)):
        seen = _reach(items, a, b, roots) if table is None else _reach_in_table(table if a is start else table.T, roots)
        out[component[~seen]] = False
    return out


def _reach_in_table(table: Flags, roots: Integers) -> Flags:
    """Return which items can be reached from the roots, [items]; `table` has True where an edge leads, [items, items]."""
    seen = np.zeros(len(table), np.bool_)
    seen[roots] = True
    frontier = seen
    while frontier.any():
        frontier = table[frontier].any(axis=0) & ~seen
        seen = seen | frontier
    return seen


def _reach(items: int, start: Integers, end: Integers, roots: Integers) -> Flags:
    """Return which items can be reached from the roots along edges, [items]; every edge is looked at once."""
    order = np.argsort(start, kind="stable")
    target = end[order]
    ptr = np.searchsorted(start[order], np.arange(items + 1))
    seen = np.zeros(items, np.bool_)
    seen[roots] = True
    frontier = roots
    while len(frontier):
        length = ptr[frontier + 1] - ptr[frontier]
        begin = np.repeat(ptr[frontier] - np.cumsum(length) + length, length)
        found = np.unique(target[begin + np.arange(int(length.sum()))])
        frontier = found[~seen[found]]
        seen[frontier] = True
    return seen
