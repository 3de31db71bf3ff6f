"""Votes that are plain Python or NumPy: tuples, records, dicts of columns, arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, cast

import numpy as np
import polars as pl

from adjudge.errors import InputError, shown
from adjudge.io.columns import OPTIONAL
from adjudge.io.ids import series_of
from adjudge.io.shapes import CELL, Layout, Shape, Wanted, shape_of
from adjudge.io.understood import Reading

CHUNK: Final = 1 << 18  # items turned into a batch at once
MANY_REPEATS: Final = 2  # one in so many lines of an array may repeat its first two numbers
ROWS: Final = "task, worker, label"


def from_columns(source: Mapping[Any, object], wanted: Wanted, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    """Yield a dict of columns as votes."""
    shape = shape_of(list(source), wanted, layout, "the dict")
    series = {role: series_of(source[name], _what(role)) for role, name in shape.columns.items()}
    lengths = {shape.columns[role]: len(column) for role, column in series.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns have different lengths: {lengths}")
    reading.saw(shape)
    yield shape.votes(pl.DataFrame(series))


def from_records(
    items: Iterable[object], wanted: Wanted, layout: Layout, reading: Reading, where: str = "the records"
) -> Iterator[pl.DataFrame]:
    """Yield dicts, one per line, as votes; a key that a record does not have is a missing value."""
    coming: Iterator[Any] = iter(items)
    shape, done = None, 0
    while some := list(islice(coming, CHUNK)):
        names: dict[Any, None] = {}
        for number, record in enumerate(some, done + 1):
            if not isinstance(record, Mapping):
                raise InputError(f"item {number} is {shown(record)}: the items before are dicts, give a dict for every line")
            if shape is None:
                names |= dict.fromkeys(record)
        if shape is None:
            shape = shape_of(list(names), wanted, layout, where)
            reading.saw(shape)
        lists = {role: [record.get(name) for record in some] for role, name in shape.columns.items()}
        batch = pl.DataFrame({role: series_of(values, _what(role), done) for role, values in lists.items()})
        yield shape.votes(batch, done)
        done += len(some)
    if shape is None:
        raise InputError(f"{where} is empty: a record per vote, with task, worker and label, is expected")


def from_tuples(items: Iterable[object], wanted: Wanted, layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield tuples, with an item per role, as votes."""
    roles = _roles(wanted, layout)
    coming, done = iter(items), 0
    while some := list(islice(coming, CHUNK)):
        if not (set(map(type, some)) <= {tuple, list} and set(map(len, cast(Any, some))) == {len(roles)}):
            _require_items(some, roles, done)
        columns = {role: list(map(itemgetter(n), cast(Any, some))) for n, role in enumerate(roles)}
        batch = pl.DataFrame({role: series_of(column, role, done) for role, column in columns.items()})
        yield layout.cleaned(batch)
        done += len(some)


def _require_items(items: Iterable[object], roles: Sequence[str], done: int) -> None:
    """Raise unless every item is a tuple, or of a type like it, with an item per role."""
    for number, item in enumerate(items, done + 1):
        if not isinstance(item, tuple | list) or len(item) != len(roles):
            raise InputError(f"item {number} is {shown(item)}: give tuples ({', '.join(roles)}){_other_shape(item)}")


def _roles(wanted: Wanted, layout: Layout) -> tuple[str, ...]:
    """Return the roles of the items of a tuple, in order: the weight is the last one."""
    return (*(role for role in wanted if role not in OPTIONAL), *(() if layout.weight is None else ("weight",)))


def _other_shape(item: object) -> str:
    return "; where each item is a task and has a label per worker: wide=True" if isinstance(item, tuple | list) else ""


def from_array(source: Any, wanted: Wanted, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    """Yield a NumPy array as votes: a record array has columns, a 2-D one is lines of votes, or a matrix of tasks x workers."""
    if source.dtype.names:
        columns = {name: source[name].ravel() for name in source.dtype.names}
        yield from from_columns(columns, wanted, layout, reading)
        return
    if source.ndim != 2:
        raise InputError(f"the array has {source.ndim} dimensions: give 2, lines of {ROWS}, or tasks x workers with wide=True")
    roles = _roles(wanted, layout)
    if layout.wide:
        yield from from_matrix(source, layout, reading)
        return
    if source.shape[1] != len(roles):
        raise InputError(
            f"the array is {source.shape[0]} x {source.shape[1]}: give lines of {', '.join(roles)}, or say wide=True for a "
            "matrix of tasks x workers"
        )
    if len(roles) == 3 and _is_matrix(source):  # a matrix of three workers looks like lines of votes
        raise InputError(
            f"the array is {source.shape[0]} x 3, and most of its lines repeat their first two numbers: say wide=True for a "
            f"matrix of tasks x workers, or give tuples ({ROWS}) for lines of votes"
        )
    yield from from_tuples(map(tuple, source.tolist()), wanted, layout)


def from_matrix(source: Any, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    """Yield a matrix of tasks x workers, which are called by their indices, as votes; NaN and None are no votes."""
    if not isinstance(source, np.ndarray):
        source = list(source)
        widths = {len(line) if isinstance(line, tuple | list | np.ndarray) else -1 for line in source}
        if len(widths) > 1 or -1 in widths:
            raise InputError("with wide=True every item is a task, with a label for each worker: give lists of one length")
        source = _matrix(source, widths.pop() if widths else 0)
    height, width = source.shape
    workers = tuple(range(width))
    reading.columns = {"task": "row", "workers": f"0 to {width - 1}"}
    shape = Shape({"task": "row"}, workers, layout=layout)
    for start in range(0, height, max(CHUNK // max(width, 1), 1)):
        some = source[start : start + max(CHUNK // max(width, 1), 1)]
        cells = {CELL.format(n): _cells(some[:, n], start) for n in workers}
        yield shape.votes(pl.DataFrame({"task": pl.Series(range(start, start + len(some)), dtype=pl.Int64), **cells}))


def _matrix(lines: Sequence[Any], width: int) -> Any:
    out = np.empty((len(lines), width), object)
    for number, line in enumerate(lines):
        out[number, :] = list(line)
    return out


def _cells(column: Any, first_row: int) -> pl.Series:
    hidden = isinstance(column, np.ma.MaskedArray)
    return series_of(column.tolist() if hidden or column.dtype == object else column, "label", first_row)


def _is_matrix(source: Any) -> bool:
    """Return whether most lines of an array repeat their first two numbers, as votes of workers on tasks seldom do."""
    pairs = {tuple(line) for line in source[:, :2].tolist()}
    return len(source) >= 12 and MANY_REPEATS * len(pairs) < len(source)


def _what(role: str) -> str:
    return "label" if role.startswith("worker ") else role
