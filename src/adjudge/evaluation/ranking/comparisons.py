"""Comparisons read from any source, and as arrays: equal ones added up, who was ever compared with whom."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, MissingLabels, OptionError, quote, warn
from adjudge.evaluation.intervals import Flags, Floats, Integers, sum_by
from adjudge.io.columns import ANYBODY, REMAINING_COLUMNS, SIDES, is_usual, normalize_name
from adjudge.io.encode import Codes, Dictionary, narrow_ids, sort_order
from adjudge.io.families import is_families, require_families
from adjudge.io.frames import prepare_ids, require_present, vocabulary
from adjudge.io.reading import Reading
from adjudge.io.records import OpenTable, concat
from adjudge.io.sources import Source, is_spark_frame, open_table
from adjudge.io.workers import ANSWERS_LIKE, plurality, read_groups, require_known
from adjudge.kernels.ranking_reference import RankRows

# Words for the winner beside ids of items, compared in lower case without spaces and punctuation.
THINGS: Final = ("", *SIDES.split())
LEFT: Final = frozenset({"left", "first", "leftitem", *(f"{thing}a" for thing in THINGS)})
RIGHT: Final = frozenset({"right", "second", "rightitem", *(f"{thing}b" for thing in THINGS)})
NO_WINNER: Final = "tie ties tied draw drawn both equal same even neither nopreference bothgood bothbad tiebothbad tiebothgood"
TIE_WORDS: Final = frozenset(NO_WINNER.split())
ACCEPTED_WINNERS: Final = "the id of one of the two, 'left', 'right', 'a', 'b', 'tie', 'draw' or 'both'"
OUTCOMES: Final = 3  # the right one won, a tie, the left one won
MAX_KEY: Final = 1 << 63  # beyond what an integer holds
MAX_TABLE_CELLS: Final = 8  # cells of a table of all pairs per comparison, up to which it is made
ANONYMOUS_JUDGE: Final = "everybody"  # the one judge of comparisons that do not say who gave them
INDEPENDENT: Final = ""  # as the column of clusters: there are none
TUPLES: Final = "give tuples (left, right, winner), or (left, right, winner, worker)"


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
        first, second = np.asarray(left, np.int64), np.asarray(right, np.int64)
        result = np.asarray(outcome, np.float64)
        who = np.zeros(len(first), np.int64) if judge is None else np.asarray(judge, np.int64)
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
        if people * n * n * OUTCOMES < MAX_KEY:
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


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons in codes, in the order of the source; ids are sorted."""

    items: Vocabulary
    judges: Vocabulary
    left: Integers  # [comparisons]
    right: Integers  # [comparisons]
    outcome: Floats  # [comparisons] 1 where the left item won, 0 where the right one did, 0.5 for a tie
    judge: Integers  # [comparisons]
    has_judges: bool  # whether the source says who compared
    abstentions: int  # comparisons without a winner, which are left out
    understood: Understood
    frame_kind: FrameKind = "polars"
    cluster: Integers | None = None  # [comparisons] codes from 0 on; None where no column says so
    has_sides: bool = True  # False for columns of winners and losers, which do not say who was on the left

    @property
    def clusters(self) -> int:
        """How many clusters there are; 0 where no column says so."""
        return 0 if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def tournament(self, *, judges: bool = True, style: Floats | None = None) -> Tournament:
        """Return equal comparisons added up, those of different judges alone where `judges`."""
        who, people = (self.judge, len(self.judges)) if judges else (None, 1)
        return Tournament.of(self.left, self.right, self.outcome, who, items=len(self.items), judges=people, style=style)


def read_comparisons(
    source: Source,
    *,
    left: str | None = None,
    right: str | None = None,
    winner: str | None = None,
    worker: str | None = None,
    cluster: str | None = None,
    separator: str | None = None,
    header: bool = True,
) -> Comparisons:
    """Return the comparisons of a source; see `adjudge.rank` for the options."""
    if is_spark_frame(source):
        raise InputError("a ranking is not made on Spark: give the comparisons in memory (frame.toArrow())")
    reading = Reading.of({"separator": separator, "header": header, "format": "table"})
    wanted: dict[str, str | None] = {"left": left, "right": right, "winner": winner, "judge": worker or ANYBODY}
    if cluster != INDEPENDENT:
        wanted["cluster"] = cluster or ANYBODY
    won = _winner_and_loser(source, reading) if (left, right, winner) == (None, None, None) else None
    if won is not None:
        del wanted["winner"]
        wanted |= {"left": won[0], "right": won[1]}
    table = _open(source, wanted, reading)
    whole = concat(table.batches)
    if won is not None:
        whole = whole.with_columns(winner=pl.lit("left"))
    ids = {role: whole[role] if role == "cluster" else prepare_ids(whole[role], role) for role in whole.columns}
    has_judges = "judge" in ids
    for role, series in ids.items():
        if role not in ("winner", "cluster"):
            require_present(series, "worker" if role == "judge" else role, why=": every comparison needs one")
    sides = _unify(ids["left"], ids["right"])
    coded = _encode_all({"item": sides, "judge": (ids["judge"],) if has_judges else (), "winner": (ids["winner"],)})
    (one, other), things = coded["item"]
    same = np.flatnonzero(one == other)
    if len(same):
        row = int(same[0])
        raise InputError(f"row {row + 1} compares {quote(sides[0][row])} with itself: leave such lines out")
    outcome = _Winners.of(ids["winner"], *coded["winner"], things).outcomes(one, other, sides, table.notes.columns)
    judge, people = coded["judge"] if has_judges else ([np.zeros(len(one), np.uint32)], pl.Series([ANONYMOUS_JUDGE]))
    voted = ~np.isnan(outcome)
    missing = int(len(outcome) - voted.sum())
    if missing:
        warn(f"{missing} of {len(outcome)} comparisons have no winner: dropped as abstentions", MissingLabels)
        one, other, judge, outcome = one[voted], other[voted], [judge[0][voted]], outcome[voted]
    items, (first, second) = _sort_codes(things, [one, other], narrow=table.is_text)
    judges, (by,) = _sort_codes(people, judge, narrow=table.is_text)
    told = table.notes.understood(votes=len(outcome), abstentions=missing, repeated=0)
    clusters = (
        _encode_clusters(ids["cluster"].filter(pl.Series(voted)) if missing else ids["cluster"]) if "cluster" in ids else None
    )
    plain = (items, judges, first, second, outcome, by, has_judges, missing, told, table.frame_kind, clusters)
    return Comparisons(*plain, has_sides=won is None)


def _winner_and_loser(source: Any, reading: Reading) -> tuple[str, str] | None:
    """Return the columns of a table that has one for winners, one for losers, and none for sides; None for any other source."""
    if hasattr(source, "collect_schema"):
        names = list(source.collect_schema().names())
    elif isinstance(source, Mapping) or hasattr(source, "columns"):
        names = [str(name) for name in getattr(source, "columns", source)]
    elif isinstance(source, str | os.PathLike) and reading.header and Path(source).is_file():
        try:
            names = next(iter(open_table(source, {REMAINING_COLUMNS: None}, reading).batches)).columns
        except (InputError, StopIteration):  # which reading will explain
            return None
    else:
        return None
    by_name = {normalize_name(name): name for name in reversed(names)}
    has_sides = any(is_usual(name, side) for name in names for side in ("left", "right"))
    return None if has_sides or not {"winner", "loser"} <= by_name.keys() else (by_name["winner"], by_name["loser"])


def group_comparisons(known: Comparisons, groups: Source) -> Comparisons:
    """Return comparisons in which a group of judges counts once for each pair of a cluster, in one order."""
    if not known.has_judges:
        raise OptionError("groups are of judges, and no column says who compared: name it with worker=… (--worker)")
    if known.cluster is None:
        raise OptionError(
            "groups compare once per prompt, and no column says which comparisons are of one: name it with cluster=… (--cluster)"
        )
    if isinstance(groups, str) and groups == ANSWERS_LIKE:
        raise OptionError("groups='answers_like' is for votes; of comparisons give a table worker, group, or 'families'")
    judges = known.judges.texts()
    mapping = require_families(judges) if is_families(groups) else read_groups(groups)
    require_known(Vocabulary.of_texts(list(mapping)), known.judges, "groups")
    names = sorted({mapping.get(judge, judge) for judge in judges})
    lone = {judge for judge in judges if judge not in mapping}
    same = lone & set(mapping.values())
    if same:
        raise InputError(f"{quote(min(same))} is a group and a judge in no group: call the group otherwise")
    voter = np.array([names.index(mapping.get(judge, judge)) for judge in judges], np.int64)[known.judge]
    key = np.stack([known.cluster, known.left, known.right])
    pairs, pair = np.unique(key, axis=1, return_inverse=True)
    said = np.rint(2 * known.outcome).astype(np.int64)
    at, judge, outcome, tied = plurality(pair.ravel(), voter, said, len(names), 3)
    cluster, left, right = pairs[:, at]
    return replace(
        known,
        judges=Vocabulary.of_texts(names),
        left=left,
        right=right,
        outcome=outcome / 2,
        judge=judge,
        cluster=np.unique(cluster, return_inverse=True)[1].astype(np.int64),
        abstentions=known.abstentions + len(tied),
    )


def _open(source: Any, wanted: dict[str, str | None], reading: Reading) -> OpenTable:
    """Return the source opened; tuples have three items, or four with the worker."""
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:  # lines, as tuples are
        source = source.tolist()
    is_text = isinstance(source, str) or (isinstance(source, list | tuple) and source and isinstance(source[0], str))
    plain_items = isinstance(source, list | tuple | Iterator) and not is_text and not hasattr(source, "read")
    if not plain_items:
        return open_table(source, wanted, reading)
    coming = iter(source)
    first = next(coming, None)
    if first is None:
        return open_table({role: [] for role in ("left", "right", "winner")}, wanted, reading)
    every = chain([first], coming)
    if not isinstance(first, tuple | list):
        return open_table(list(every) if isinstance(source, list | tuple) else every, wanted, reading)
    if len(first) not in (3, 4):
        raise InputError(f"item 1 is {quote(first)}: {TUPLES}")
    roles = list(wanted)[: len(first)]
    return open_table(_texts(every, len(first)), dict.fromkeys(roles), reading)


def _texts(items: Iterable[Any], width: int) -> Iterator[Any]:
    """Yield tuples whose winner is text where it is a word beside ids that are numbers."""
    for number, item in enumerate(items, 1):
        if not isinstance(item, tuple | list) or len(item) != width:
            raise InputError(f"item {number} is {quote(item)}: {TUPLES}, all of one length")
        winner = item[2]
        is_number = isinstance(winner, int | np.integer) and not isinstance(winner, bool)
        yield (*item[:2], str(winner) if is_number else winner, *item[3:])


def _unify(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the ids of both sides as series of one kind: as text where they differ."""
    if left.dtype != right.dtype:
        left, right = left.cast(pl.String), right.cast(pl.String)
    return left.alias("item"), right.alias("item")


def _encode_all(columns: Mapping[str, tuple[pl.Series, ...]]) -> dict[str, tuple[list[Codes], pl.Series]]:
    """Return the codes of every column, in order of first appearance, and the distinct ids behind them, per dictionary."""

    def encode(role: str) -> tuple[list[Codes], pl.Series]:
        dictionary = Dictionary(role)
        codes = [dictionary.encode(column) for column in columns[role]]
        return codes, dictionary.ids()

    with ThreadPoolExecutor(len(columns)) as pool:  # the dictionaries of the core let other threads run
        return dict(zip(columns, pool.map(encode, columns), strict=True))


def _sort_codes(ids: pl.Series, codes: list[Codes], *, narrow: bool) -> tuple[Vocabulary, list[Integers]]:
    """Return the ids that have codes, sorted, and the codes in this order; texts become whole numbers where `narrow`."""
    used = np.flatnonzero(sum(np.bincount(one, minlength=len(ids)) for one in codes))
    known = vocabulary(ids[used] if len(used) < len(ids) else ids)
    if narrow:
        known = narrow_ids(known)
    order = sort_order(known)
    rank = np.zeros(len(ids), np.int64)
    rank[used[order]] = np.arange(len(order))
    return known.take(order), [rank[one] for one in codes]


def _encode_clusters(values: pl.Series) -> Integers:
    """Return the code of every cluster, from 0 on, [n]; a comparison without one is a cluster of its own."""
    if values.dtype == pl.Object:
        values = pl.Series([None if value is None else repr(value) for value in values.to_list()], dtype=pl.String)
    if values.dtype == pl.String:
        values = values.replace("", None)
    alone = values.is_null().to_numpy()
    known = np.unique(values.hash().to_numpy(), return_inverse=True)[1]  # hashes: a prompt may be text of any length, or a list
    return np.unique(np.where(alone, len(values) + np.arange(len(values)), known), return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Winners:
    """What the winners are called: distinct texts, compared with the items and with the words for sides and ties."""

    given: pl.Series  # [comparisons] as read
    code: Codes  # [comparisons] of its text; MISSING_CODE for none
    item: Integers  # [texts] code of the item of this name; -1 for none, as of all that follow for a missing one
    word: Integers  # [texts] code of it as a word
    item_word: Integers  # [items] likewise
    words: list[str]  # [texts]
    is_tie: Flags  # [texts]
    is_empty: Flags  # [texts]

    @classmethod
    def of(cls, given: pl.Series, codes: list[Codes], distinct: pl.Series, items: pl.Series) -> _Winners:
        """Return the winners, given their codes and the distinct ids of winners and items; the last text is the missing one."""
        texts, names = distinct.cast(pl.String), items.cast(pl.String)
        known = pl.DataFrame({"name": names}).with_row_index("code")
        at = pl.DataFrame({"name": texts}).join(known, on="name", how="left", maintain_order="left")["code"]
        words, item_words = _words(texts), _words(names)
        dictionary = Dictionary("word")
        codes_of = [dictionary.encode(part).astype(np.int64) for part in (words, item_words)]
        return cls(
            given,
            np.minimum(codes[0], len(texts)),
            np.append(at.cast(pl.Int64).fill_null(-1).to_numpy(), -1),
            np.append(codes_of[0], -1),
            codes_of[1],
            [*words.to_list(), ""],
            np.append(_is_among(words, TIE_WORDS), False),
            np.append(texts.str.strip_chars().eq("").to_numpy(), True),
        )

    def outcomes(self, left: Codes, right: Codes, sides: tuple[pl.Series, pl.Series], columns: Mapping[str, str]) -> Floats:
        """Return what the left item scored in every comparison, [comparisons]; NaN where nobody is said to have won.

        Winners are ids of items where all of them can be, and words for the sides otherwise: an item may be called "a".
        """
        item = self.item[self.code]
        is_left, is_right = item == left, item == right
        tie, empty = self.is_tie[self.code] & ~is_left & ~is_right, self.is_empty[self.code]
        named = is_left | is_right | tie | empty
        if not named.all():
            names = {side: normalize_name(columns[side]) for side in ("left", "right") if side in columns}
            by_side = [self._is_side(some | {names.get(side, side)}) for side, some in (("left", LEFT), ("right", RIGHT))]
            sided = by_side[0] | by_side[1] | tie | empty
            if (named | sided).all() and not sided.all():
                row, side = int((~sided).argmax()), int((~named).argmax())
                raise InputError(
                    f"winner in row {row + 1} is {quote(self.given[row])}, an item, and in row {side + 1} "
                    f"{quote(self.given[side])}, a side: give items throughout, or sides"
                )
            if sided.all() or sided.sum() > named.sum():
                is_left, is_right, named = by_side[0], by_side[1], sided
                word = self.word[self.code]
                other = (is_left & (word == self.item_word[right])) | (is_right & ~is_left & (word == self.item_word[left]))
                if other.any():
                    row = int(other.argmax())
                    quoted = quote(sides[1][row] if is_left[row] else sides[0][row])
                    raise InputError(
                        f"winner in row {row + 1} is {quote(self.given[row])}: that may be the item {quoted}, or the other side; "
                        "give ids of items throughout, or 'left' and 'right'"
                    )
        if not named.all():
            row = int((~named).argmax())
            raise InputError(
                f"winner in row {row + 1} is {quote(self.given[row])}, which is neither {quote(sides[0][row])} (left) nor "
                f"{quote(sides[1][row])} (right): give {ACCEPTED_WINNERS}"
            )
        outcome = np.full(len(left), 0.5)
        outcome[is_right] = 0.0
        outcome[is_left] = 1.0
        outcome[empty] = np.nan
        return outcome

    def _is_side(self, some: Iterable[str]) -> Flags:
        accepted = set(some)
        return np.array([word in accepted for word in self.words], np.bool_)[self.code]


def _words(ids: pl.Series) -> pl.Series:
    """Return ids in lower case without spaces and punctuation."""
    return ids.cast(pl.String).str.to_lowercase().str.replace_all("[^a-z0-9]", "")


def _is_among(words: pl.Series, some: Iterable[str]) -> Flags:
    return cast(Flags, words.is_in(sorted(some)).fill_null(False).to_numpy())
