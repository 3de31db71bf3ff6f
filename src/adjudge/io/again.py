"""Tasks to be labelled again, in the form that they came in: what a tool needs to show them, without the votes that they have.

A tool imports the file as new tasks. Its votes come back in an export, and are joined with the earlier ones by the caller.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import polars as pl

from adjudge.data.understood import Understood
from adjudge.errors import InputError, listed
from adjudge.io.back import encoded, read_as, target_of
from adjudge.io.formats.registry import AUTO, FORMATS, MODULES, TABLE
from adjudge.io.join import table_at, task_column, task_texts
from adjudge.io.sources import Source
from adjudge.io.write import write_aside, write_frame

WIDE = "wide"  # in what reading calls a table of one line per task
SOME = 3  # ids in a message


def write_again(
    tasks: Sequence[str],
    source: Source,
    path: str | os.PathLike[str],
    form: str = AUTO,
    understood: Understood | None = None,
) -> None:
    """Write tasks, given as texts of their ids, to `path` in the form of the file that the votes came from, in this order.

    `form` and `source` are as for `Result.write`; `understood` is what reading made of the source.
    """
    target = target_of(source, path, form, read_as(understood))
    if target.form == TABLE:
        write_frame(_rows(tasks, table_at(source), understood, target.where), target.path)
        return
    module = import_module(MODULES + FORMATS[target.form].back)
    found = module.without_votes(target.contents)
    if isinstance(found, pl.DataFrame):
        ids = [str(task) for task in found["id"]]
        write_frame(found[_positions(tasks, ids, target.where)], target.path)
        return
    ids = [str(module.id_of(record)) for record in found]
    rows = [found[at] for at in _positions(tasks, ids, target.where)]
    write_aside(target.path, lambda aside: aside.write_bytes(encoded(rows, target.path)))


def _rows(tasks: Sequence[str], frame: pl.DataFrame, understood: Understood | None, where: str) -> pl.DataFrame:
    """Return a row per task of a table: a line of a wide one as it is, else what a task's first line has beside the vote."""
    name = task_column(frame.columns, None, understood, where)
    ids = task_texts(frame[name]).to_list()
    rows = frame[_positions(tasks, ids, where)]
    if understood is None or WIDE in understood.format:
        return rows
    of_votes = {column for role, column in understood.columns.items() if role != "task" and column != name}
    return rows.drop(column for column in rows.columns if column in of_votes)


def _positions(tasks: Sequence[str], ids: Sequence[str], where: str) -> list[int]:
    """Return where each task first is among these ids; one that is not there is left out, all of them are an error."""
    first: dict[str, int] = {}
    for at, one in enumerate(ids):
        first.setdefault(one, at)
    found = [first[task] for task in tasks if task in first]
    if tasks and not found:
        raise InputError(
            f"{where}: none of its tasks ({listed(ids[:SOME])}) is one to be labelled again ({listed(tasks[:SOME])}): name the "
            "file that the votes came from"
        )
    return found
