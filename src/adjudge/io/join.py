"""Labels beside the rows that they belong to: the caller's own frame, or the table of a file, with columns added."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, cast

import polars as pl

from adjudge.data.understood import Understood
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.io import frames
from adjudge.io.columns import REST, find
from adjudge.io.formats.content import look
from adjudge.io.frames import Frame
from adjudge.io.ids import prepared
from adjudge.io.sources import Source, paths_of, read_frame

PREFIX: Final = "consensus"
# Columns of labels that are added, and what follows the prefix in the name of each.
ADDED: Final = {"label": "", "confidence": "_confidence", "votes": "_votes", "tie": "_tie"}
HEADERLESS: Final = "without header"  # as reading calls such a table
SCRIPT: Final = "fast-dawid-skene"  # the format whose files have none
FRAME: Final = "the frame"
SOME: Final = 3  # ids in a message


def join(
    labels: pl.DataFrame,
    frame: Any,
    understood: Understood | None = None,
    *,
    task: str | None = None,
    prefix: str = PREFIX,
    where: str = FRAME,
) -> Frame:
    """Return a frame of any kind, or the table of a file, with the label of each row's task beside it; see `Result.join`.

    `where` is the file that the frame was read from, in messages.

    >>> labels = pl.DataFrame({"task": [7, 8], "label": ["cat", "dog"], "confidence": [0.9, 0.8], "votes": [3, 2], "tie": False})
    >>> join(labels, pl.DataFrame({"item": ["8", "9"]}), task="item").rows()
    [('8', 'dog', 0.8, 2, False), ('9', None, None, None, None)]
    """
    if isinstance(frame, str | os.PathLike):
        where = os.fspath(frame)
        frame = table_at(where)
    elif isinstance(frame, pl.LazyFrame):
        return cast(Frame, join(labels, frame.collect(), understood, task=task, prefix=prefix).lazy())
    elif frames.kind_of(frame) is None:
        raise InputError(f"cannot join with {shown(frame)}: give a frame of pandas, polars or pyarrow, or the path of a table")
    with_index = frames.with_index(frame)
    columns = frames.columns_of(with_index)
    names = _names(columns, prefix, where)
    column = task_column(columns, task, understood, where)
    ids = task_texts(frames.select(with_index, {"task": column})["task"])
    known = task_texts(labels["task"])
    index = pl.DataFrame({"task": known}).with_row_index("index")
    row = pl.DataFrame({"task": ids}).join(index, on="task", how="left", maintain_order="left")["index"]
    if len(ids) and row.null_count() == len(ids):
        raise InputError(
            f"{where}: no value of the column {shown(column)} is a task of this result (the column has "
            f"{listed(ids.drop_nulls().head(SOME))}; tasks are {listed(known.head(SOME))}): say which column is with task=…"
        )
    return frames.beside(frame, pl.DataFrame({name: labels[what].gather(row) for what, name in names.items()}))


def table_at(source: Source) -> pl.DataFrame:
    """Return all columns of a file, or of several with the same columns; those of text files stay text, as written."""
    contents = [look(path, str(path)) for path in paths_of(source) or ()]
    if contents and all(content.kind == "array" for content in contents):  # of JSON records
        keys = dict.fromkeys(key for content in contents for record in content.records for key in record)
        return pl.concat([content.table(list(keys)) for content in contents], how="vertical_relaxed")
    return read_frame(source, {REST: None})[0]


def _names(columns: Sequence[object], prefix: str, where: str) -> dict[str, str]:
    """Return the name of each added column; one that is taken is an error."""
    if not isinstance(prefix, str) or not prefix:
        raise OptionError(f"prefix is {shown(prefix)}: give the name of the label's column, like {PREFIX!r}")
    names = {what: prefix + end for what, end in ADDED.items()}
    taken = [name for name in names.values() if name in {str(column) for column in columns}]
    if taken:
        raise InputError(f"{where} has a column {shown(taken[0])} already: choose another name for the new ones with prefix=…")
    return names


def task_column(columns: Sequence[Any], task: str | None, understood: Understood | None, where: str) -> Any:
    """Return the column of the task: as the caller says, as it was when the votes were read, or by its usual names."""
    by_name = {str(column): column for column in columns}
    if task is None and understood is not None:
        if where != FRAME and (HEADERLESS in understood.format or understood.format == SCRIPT):
            raise InputError(f"{where} has no header, so no column can be named: read it into a frame, and join with that")
        task = understood.columns.get("task")
        task = task if task in by_name else None
    return by_name[find(list(by_name), {"task": None if task is None else str(task)}, where)["task"]]


def task_texts(ids: pl.Series) -> pl.Series:
    """Return a column of tasks as the texts that identify them."""
    return prepared(ids, "task").cast(pl.String)
