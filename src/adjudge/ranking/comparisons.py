"""Comparisons read from any source: who was on the left, who on the right, who won, and who says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.understood import Understood
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind
from adjudge.errors import InputError, MissingLabels, shown, warn
from adjudge.io.columns import SIDES, plain
from adjudge.io.ids import narrowed, prepared, require_present, vocabulary
from adjudge.io.shapes import ANYBODY, Layout, layout_of
from adjudge.io.sources import Source, Table, concat, is_spark_frame, open_table
from adjudge.ranking.tournament import Floats, Integers, Tournament

# Words for the winner beside ids of items, compared in lower case without spaces and punctuation.
THINGS: Final = ("", *SIDES.split())
LEFT: Final = frozenset({"left", "first", "leftitem", *(f"{thing}a" for thing in THINGS)})
RIGHT: Final = frozenset({"right", "second", "rightitem", *(f"{thing}b" for thing in THINGS)})
NO_WINNER: Final = "tie ties tied draw drawn both equal same even neither nopreference bothgood bothbad tiebothbad tiebothgood"
TIE: Final = frozenset(NO_WINNER.split())
ACCEPTED: Final = "the id of one of the two, 'left', 'right', 'a', 'b', 'tie', 'draw' or 'both'"
NOBODY: Final = "everybody"  # the one judge of comparisons that do not say who gave them
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

    @property
    def clusters(self) -> int:
        """How many clusters there are; 0 where no column says so."""
        return 0 if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def tournament(self) -> Tournament:
        """Return equal comparisons added up."""
        items, judges = len(self.items), len(self.judges)
        return Tournament.of(self.left, self.right, self.outcome, self.judge, items=items, judges=judges)


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
    layout = layout_of(separator=separator, header=header, format="table")
    wanted = {"left": left, "right": right, "winner": winner, "judge": worker or ANYBODY}
    if cluster != INDEPENDENT:
        wanted["cluster"] = cluster or ANYBODY
    table = _opened(source, wanted, layout)
    whole = concat(table.batches)
    ids = {role: whole[role] if role == "cluster" else prepared(whole[role], role) for role in whole.columns}
    has_judges = "judge" in ids
    for role, series in ids.items():
        if role not in ("winner", "cluster"):
            require_present(series, "worker" if role == "judge" else role, why=": every comparison needs one")
    if not has_judges:
        ids["judge"] = pl.Series([NOBODY]).new_from_index(0, len(whole))
    outcome = _outcomes(ids["winner"], ids["left"], ids["right"], table.reading.columns)
    _refuse_same(*_alike(ids["left"], ids["right"]))
    voted = ~np.isnan(outcome)
    missing = int(len(outcome) - voted.sum())
    if missing:
        warn(f"{missing} of {len(outcome)} comparisons have no winner: dropped as abstentions", MissingLabels)
        ids = {role: series.filter(pl.Series(voted)) for role, series in ids.items()}
    items, codes = _coded(pl.concat(_alike(ids["left"], ids["right"])), narrow=table.is_text)
    judges, judge = _coded(ids["judge"], narrow=table.is_text)
    first, second = np.split(codes, 2)
    told = table.reading.understood(votes=int(voted.sum()), abstentions=missing, repeated=0)
    clusters = _encode_clusters(ids["cluster"]) if "cluster" in ids else None
    return Comparisons(items, judges, first, second, outcome[voted], judge, has_judges, missing, told, table.frame_kind, clusters)


def _opened(source: Any, wanted: dict[str, str | None], layout: Layout) -> Table:
    """Return the source opened; tuples have three items, or four with the worker."""
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:  # lines, as tuples are
        source = source.tolist()
    is_text = isinstance(source, str) or (isinstance(source, list | tuple) and source and isinstance(source[0], str))
    plain_items = isinstance(source, list | tuple | Iterator) and not is_text and not hasattr(source, "read")
    if not plain_items:
        return open_table(source, wanted, layout)
    coming = iter(source)
    first = next(coming, None)
    if first is None:
        return open_table({role: [] for role in ("left", "right", "winner")}, wanted, layout)
    every = chain([first], coming)
    if not isinstance(first, tuple | list):
        return open_table(list(every) if isinstance(source, list | tuple) else every, wanted, layout)
    if len(first) not in (3, 4):
        raise InputError(f"item 1 is {shown(first)}: {TUPLES}")
    roles = list(wanted)[: len(first)]
    return open_table(_texts(every, len(first)), dict.fromkeys(roles), layout)


def _texts(items: Iterable[Any], width: int) -> Iterator[Any]:
    """Yield tuples whose winner is text where it is a word beside ids that are numbers."""
    for number, item in enumerate(items, 1):
        if not isinstance(item, tuple | list) or len(item) != width:
            raise InputError(f"item {number} is {shown(item)}: {TUPLES}, all of one length")
        winner = item[2]
        is_number = isinstance(winner, int | np.integer) and not isinstance(winner, bool)
        yield (*item[:2], str(winner) if is_number else winner, *item[3:])


def _alike(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the ids of both sides as series of one kind: as text where they differ."""
    if left.dtype != right.dtype:
        left, right = left.cast(pl.String), right.cast(pl.String)
    return left.alias("item"), right.alias("item")


def _coded(ids: pl.Series, *, narrow: bool) -> tuple[Vocabulary, Integers]:
    """Return the distinct ids, sorted, and the code of every one, [n]."""
    distinct = ids.unique()
    if narrow:
        known = narrowed(vocabulary(distinct))
        if known.kind == "integer":
            ids, distinct = ids.cast(pl.Int64), pl.Series(known.values, dtype=pl.Int64)
    distinct = distinct.sort()
    table = pl.DataFrame({"id": distinct}).with_row_index("code")
    codes = ids.to_frame("id").join(table, on="id", how="left", maintain_order="left")["code"]
    return vocabulary(distinct), codes.cast(pl.Int64).to_numpy()


def _encode_clusters(values: pl.Series) -> Integers:
    """Return the code of every cluster, from 0 on, [n]; a comparison without one is a cluster of its own."""
    if values.dtype == pl.Object:
        values = pl.Series([None if value is None else repr(value) for value in values.to_list()], dtype=pl.String)
    if values.dtype == pl.String:
        values = values.replace("", None)
    alone = values.is_null().to_numpy()
    known = np.unique(values.hash().to_numpy(), return_inverse=True)[1]  # hashes: a prompt may be text of any length, or a list
    return np.unique(np.where(alone, len(values) + np.arange(len(values)), known), return_inverse=True)[1].astype(np.int64)


def _refuse_same(left: pl.Series, right: pl.Series) -> None:
    same = _equal(left, right)
    if same.any():
        row = int(same.argmax())
        raise InputError(f"row {row + 1} compares {shown(left[row])} with itself: leave such lines out")


def _outcomes(winner: pl.Series, left: pl.Series, right: pl.Series, columns: Mapping[str, str]) -> Floats:
    """Return what the left item scored in every comparison, [comparisons]; NaN where nobody is said to have won.

    Winners are ids of items where all of them can be, and words for the sides otherwise: an item may be called "a".
    """
    texts = winner.cast(pl.String)
    words = _words(texts)
    is_left, is_right = (_equal(texts, side.cast(pl.String)) for side in (left, right))
    tie = _among(words, TIE) & ~is_left & ~is_right
    empty = texts.is_null().to_numpy() | (texts.str.strip_chars() == "").fill_null(True).to_numpy()
    named = is_left | is_right | tie | empty
    if not named.all():
        names = {side: plain(columns[side]) for side in ("left", "right") if side in columns}
        by_side = [_among(words, some | {names.get(side, side)}) for side, some in (("left", LEFT), ("right", RIGHT))]
        sided = by_side[0] | by_side[1] | tie | empty
        if (named | sided).all() and not sided.all():
            item, side = int((~sided).argmax()), int((~named).argmax())
            raise InputError(
                f"winner in row {item + 1} is {shown(winner[item])}, an item, and in row {side + 1} {shown(winner[side])}, a "
                "side: give items throughout, or sides"
            )
        if sided.all() or sided.sum() > named.sum():
            is_left, is_right, named = by_side[0], by_side[1], sided
            other_item = np.where(is_left, _equal(words, _words(right)), is_right & _equal(words, _words(left)))
            if other_item.any():
                row = int(other_item.argmax())
                item = right[row] if is_left[row] else left[row]
                raise InputError(
                    f"winner in row {row + 1} is {shown(winner[row])}: that may be the item {shown(item)}, or the other side; "
                    "give ids of items throughout, or 'left' and 'right'"
                )
    if not named.all():
        row = int((~named).argmax())
        raise InputError(
            f"winner in row {row + 1} is {shown(winner[row])}, which is neither {shown(left[row])} (left) nor "
            f"{shown(right[row])} (right): give {ACCEPTED}"
        )
    return np.select([empty, is_left, is_right], [np.nan, 1.0, 0.0], 0.5)


def _words(ids: pl.Series) -> pl.Series:
    """Return ids in lower case without spaces and punctuation."""
    return ids.cast(pl.String).str.to_lowercase().str.replace_all("[^a-z0-9]", "")


def _equal(one: pl.Series, other: pl.Series) -> NDArray[np.bool_]:
    return cast(NDArray[np.bool_], (one == other).fill_null(False).to_numpy())


def _among(words: pl.Series, some: Iterable[str]) -> NDArray[np.bool_]:
    return cast(NDArray[np.bool_], words.is_in(sorted(some)).fill_null(False).to_numpy())
