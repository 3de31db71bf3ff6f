"""Which group a task is in, and which item it is about: from a dict, a table, or a column of the votes' own source."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.evaluation.rates.shares import Integers
from adjudge.io.answers import is_dict, one_each, text_column
from adjudge.io.columns import REST
from adjudge.io.files import FORMATS, PACKED
from adjudge.io.ids import column, matched, narrowed, series_of, sort_order, vocabulary
from adjudge.io.read import Shaping
from adjudge.io.shapes import Layout, layout_of
from adjudge.io.sources import Source, encoded_folder, open_table, read_frame

ALL: Final = "all"  # the group of all tasks, where nothing is said of groups
TABLES: Final = frozenset({*FORMATS, *PACKED, ".json"})  # suffixes of files: a column may be called "model.version"


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of the tasks that have votes."""

    names: Vocabulary  # of groups with votes, sorted
    group: Integers  # [tasks] code of the task's group; -1 for tasks in none
    empty: tuple[str, ...] = ()  # groups none of whose tasks has votes

    def tasks(self, group: int) -> Integers:
        """Return the tasks of a group, rising codes."""
        return np.flatnonzero(self.group == group)


@dataclass(frozen=True, eq=False)
class VotesSource:
    """Where votes come from, so that another column of their table can be read."""

    source: Any
    votes: Votes
    shaping: Shaping

    def column(self, name: str, what: str) -> pl.DataFrame:
        """Return task and value, by a column of the table that votes were read from; `what` is the option that names it."""
        source, thing = self.source, "group" if what == "by" else what
        if isinstance(source, Votes) or encoded_folder(source) is not None:
            raise OptionError(
                f"{what} is {shown(name)}, which is no file and so a column, but these votes have already been read: give what "
                f"they were read from, or a dict task -> {thing}"
            )
        if isinstance(source, Iterator) or hasattr(source, "read") or (isinstance(source, str) and source == "-"):
            raise OptionError(
                f"{what} is {shown(name)}, a column, and this source can be read only once: give a file or a frame, or a table "
                f"of task and {thing}"
            )
        if isinstance(source, np.ndarray) or (isinstance(source, list) and source and isinstance(source[0], tuple | list)):
            raise OptionError(f"{what} is {shown(name)}, a column, and these votes have none: give a dict task -> {thing}")
        known = {} if self.votes.understood is None else self.votes.understood.columns
        table = open_table(source, {"task": known.get("task"), thing: name}, self._layout())
        frame = pl.concat([batch.select("task", thing) for batch in table.batches], how="vertical_relaxed")
        return frame.rename({thing: "value"}).unique(maintain_order=True)

    def _layout(self) -> Layout:
        """Return how the table is laid out, as far as it matters to single columns."""
        kept = {name: value for name, value in self.shaping.items() if name in ("separator", "header", "format", "question")}
        return layout_of(**cast(Any, kept))


def read_grouping(by: object, source: VotesSource) -> tuple[Grouping, pl.DataFrame | None]:
    """Return the groups of tasks, and the table that they came from, where it was one.

    `by` is None, a dict task -> group, the name of a column of the votes' source, or a frame or file with a column for the task
    and one for the group: called "group", or the only other one.
    """
    votes = source.votes
    if by is None:
        return Grouping(Vocabulary.of([ALL]), np.zeros(votes.n_tasks, np.int64)), None
    table: pl.DataFrame | None = None
    if _is_column(by):
        frame = source.column(cast(str, by), "by")
    elif is_dict(by):
        frame = pl.DataFrame({"task": series_of(list(by), "task"), "value": series_of(list(by.values()), "group")})
    else:
        table, _ = read_frame(cast(Source, by), {"task": None, REST: None})
        frame = table.select("task", value=_only(table, "group", "by"))
    is_number = frame["value"].dtype.is_integer() or isinstance(by, str | os.PathLike)
    known = _one_each(frame, "groups", "group")
    names = vocabulary(known["value"].unique())
    names = narrowed(names) if is_number else names
    names = names.take(sort_order(names))
    group = _codes(known, names, votes, "groups")
    used = np.unique(group[group >= 0])
    place = np.full(len(names) + 1, -1)
    place[used] = np.arange(len(used))
    empty = [text for code, text in enumerate(names.texts()) if place[code] < 0]
    return Grouping(names.take(used), place[group], tuple(empty)), table


def read_items(item: object, source: VotesSource, table: pl.DataFrame | None) -> Integers:
    """Return which item each task is about, [tasks] codes; -1 where it is not said.

    `item` is a dict task -> item, the name of a column of the table of groups or of the votes' source, or a frame or file with a
    column for the task and one for the item.
    """
    if isinstance(item, str) and table is not None and item in table.columns:
        frame = table.select("task", value=item)
    elif _is_column(item):
        frame = source.column(cast(str, item), "item")
    elif is_dict(item):
        frame = pl.DataFrame({"task": series_of(list(item), "task"), "value": series_of(list(item.values()), "item")})
    else:
        own, _ = read_frame(cast(Source, item), {"task": None, REST: None})
        frame = own.select("task", value=_only(own, "item", "item"))
    known = _one_each(frame, "items", "item")
    return _codes(known, vocabulary(known["value"].unique()), source.votes, "items")


def _is_column(given: object) -> bool:
    """Return whether this names a column, not a file: no file of that name is there, and it does not look like a path."""
    if not isinstance(given, str):
        return False
    looks = os.sep in given or glob.has_magic(given) or given == "-" or Path(given).suffix.lower() in TABLES
    return not looks and not Path(given).is_file()


def _only(table: pl.DataFrame, name: str, option: str) -> pl.Series:
    """Return the column of this name, or the only one beside the task."""
    others = [one for one in table.columns if one != "task"]
    if name in others or len(others) == 1:
        return table[name if name in others else others[0]]
    raise InputError(
        f"{option} has the columns task, {listed(others)}: call one of them {name!r}, or leave one beside the task"
        if others
        else f"{option} has no column beside the task: give one that says the {name}"
    )


def _one_each(frame: pl.DataFrame, what: str, thing: str) -> pl.DataFrame:
    """Return task and value as texts, a line per task that has a value."""
    texts = pl.DataFrame({"task": text_column(frame["task"], "task"), "label": text_column(frame["value"], thing)})
    found = one_each(texts.drop_nulls("task"), what, thing).rename({"label": "value"})
    if not len(found):
        raise InputError(f"the {what} name no task: give each its {thing}")
    return found


def _codes(known: pl.DataFrame, names: Vocabulary, votes: Votes, what: str) -> Integers:
    """Return the code of the value of every task with votes, [tasks]; -1 for tasks without; it is an error where all are."""
    given = vocabulary(known["task"])
    place = matched(votes.tasks, given)
    if not (place >= 0).any():
        theirs, ours = (listed(map(shown, ids.take(np.arange(min(len(ids), 3))).ids())) for ids in (given, votes.tasks))
        raise InputError(
            f"none of the {len(given)} tasks of the {what} has votes: they have tasks like {theirs}, the votes like {ours}; "
            "use the same ids for both"
        )
    codes = pl.DataFrame({"value": column(names).cast(pl.String), "code": np.arange(len(names))})
    of_task = known.join(codes, on="value", how="left", maintain_order="left")["code"].to_numpy()
    return np.append(of_task, -1)[place]
