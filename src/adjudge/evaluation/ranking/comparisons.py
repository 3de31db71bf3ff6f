"""Comparisons read from any source, with their winners, judges, clusters and covariates, as codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, cast

import numpy as np
import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, MissingLabels, OptionError, quote, warn
from adjudge.evaluation.intervals import Flags, Floats, Integers, sum_by
from adjudge.evaluation.ranking.covariates import Effect, columns_by_role, encode_covariates, find_covariates
from adjudge.evaluation.ranking.tournament import Tournament
from adjudge.io.columns import ANYBODY, REMAINING_COLUMNS, SIDES, is_usual, normalize_name
from adjudge.io.encode import Codes, Dictionary, narrow_ids, sort_order
from adjudge.io.families import is_families, require_families
from adjudge.io.frames import prepare_ids, require_present, vocabulary
from adjudge.io.reading import Reading
from adjudge.io.records import OpenTable, concat
from adjudge.io.sources import Opened, Source, is_spark_frame, open_table
from adjudge.io.workers import ANSWERS_LIKE, plurality, read_groups, require_known

# Words for the winner beside ids of items, compared in lower case without spaces and punctuation.
THINGS: Final = ("", *SIDES.split())
LEFT: Final = frozenset({"left", "first", "leftitem", *(f"{thing}a" for thing in THINGS)})
RIGHT: Final = frozenset({"right", "second", "rightitem", *(f"{thing}b" for thing in THINGS)})
NO_WINNER: Final = "tie ties tied draw drawn both equal same even neither nopreference bothgood bothbad tiebothbad tiebothgood"
TIE_WORDS: Final = frozenset(NO_WINNER.split())
ACCEPTED_WINNERS: Final = "the id of one of the two, 'left', 'right', 'a', 'b', 'tie', 'draw' or 'both'"
ANONYMOUS_JUDGE: Final = "everybody"  # the one judge of comparisons that do not say who gave them
INDEPENDENT: Final = ""  # as the column of clusters: there are none
TUPLES: Final = "give tuples (left, right, winner), or (left, right, winner, worker)"


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
    style: Floats | None = None  # [comparisons, effects] covariates; None without any
    effects: tuple[Effect, ...] = ()  # what their numbers stand for

    @property
    def clusters(self) -> int:
        """How many clusters there are; 0 where no column says so."""
        return 0 if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def tournament(self, *, judges: bool = True, style: bool = False) -> Tournament:
        """Return equal comparisons added up, those of different judges apart if `judges`; all of them apart if `style`."""
        who, people = (self.judge, len(self.judges)) if judges else (None, 1)
        given = self.style if style else None
        return Tournament.of(self.left, self.right, self.outcome, who, items=len(self.items), judges=people, style=given)

    def within_clusters(self) -> Tournament | None:
        """Return comparisons of one cluster added up, with an item per cluster that it occurs in; None without clusters."""
        if self.cluster is None:
            return None
        items, cluster = len(self.items), self.cluster.astype(np.int64)
        _, code = np.unique(np.concatenate([cluster * items + self.left, cluster * items + self.right]), return_inverse=True)
        left, right = np.split(code, 2)
        return Tournament.of(left, right, self.outcome, self.judge, judges=len(self.judges))


def read_comparisons(
    source: Source,
    *,
    left: str | None = None,
    right: str | None = None,
    winner: str | None = None,
    worker: str | None = None,
    cluster: str | None = None,
    covariates: Sequence[str] = (),
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
    names = _column_names(source, reading) if covariates or (left, right, winner) == (None, None, None) else None
    won = _winner_and_loser(names) if (left, right, winner) == (None, None, None) else None
    if won is not None:
        del wanted["winner"]
        wanted |= {"left": won[0], "right": won[1]}
    known = find_covariates(covariates, names, (wanted["left"], wanted["right"])) if names is not None else []
    if covariates and names is None:
        raise InputError("covariates need a table with named columns: give one file with a header, a frame, or a dict of columns")
    table = _open(source, {**wanted, **columns_by_role(known)}, reading)
    whole = concat(table.batches)
    if won is not None:
        whole = whole.with_columns(winner=pl.lit("left"))
    given = whole.select(list(columns_by_role(known)))
    whole = whole.drop(given.columns)
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
    style, effects = encode_covariates(known, given, voted) if known else (None, ())
    return Comparisons(*plain, has_sides=won is None, style=style, effects=effects)


def _column_names(source: Any, reading: Reading) -> list[str] | None:
    """Return the names of a table's columns; None for a source that has to be read to know them."""
    if hasattr(source, "collect_schema"):
        return list(source.collect_schema().names())
    if isinstance(source, Mapping) or hasattr(source, "column_names"):
        return [str(name) for name in getattr(source, "column_names", source)]
    if hasattr(source, "columns"):
        return [str(name) for name in source.columns]
    try:
        paths = Opened(source).paths
        if paths is None or not reading.header:
            return None
        return list(next(iter(open_table(paths[0], {REMAINING_COLUMNS: None}, reading).batches)).columns)
    except (InputError, StopIteration):  # which reading will explain
        return None


def _winner_and_loser(names: list[str] | None) -> tuple[str, str] | None:
    """Return the columns of a table that has one for winners, one for losers, and none for sides; None for any other."""
    by_name = {normalize_name(name): name for name in reversed(names or ())}
    has_sides = any(is_usual(name, side) for name in names or () for side in ("left", "right"))
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
    style = known.style
    if style is not None:  # members see the same pair: any difference between them is averaged
        size = sum_by(pair.ravel(), np.ones(len(voter)), pairs.shape[1])
        style = np.stack([sum_by(pair.ravel(), own, len(size)) / size for own in style.T], axis=1)[at]
    return replace(
        known,
        style=style,
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
        """Return the points of the left item in every comparison, [comparisons]; NaN if the winner is missing.

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
