"""Votes in memory as batches: frames of any kind, queries, datasets, iterators, tuples, records, dicts of columns, arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, cast

import numpy as np
import polars as pl

from adjudge.data.votes import FrameKind, Notes
from adjudge.errors import InputError, OptionError, one_line, quote
from adjudge.io import frames
from adjudge.io.columns import CELL, OPTIONAL_ROLES, REMAINING_COLUMNS, Shape, shape_of
from adjudge.io.frames import series_of
from adjudge.io.reading import Reading, Wanted

RECORD_BATCH_ITEMS: Final = 1 << 18  # items turned into a batch at once
MIN_LINES_PER_PAIR: Final = 2  # at most one line in this many may repeat the array's first two numbers
ROW_FIELDS: Final = "task, worker, label"
END_COLUMN: Final = "__adjudge_end"  # true in the row that follows the last one
Batches = Iterator[pl.DataFrame]


@dataclass(frozen=True)
class OpenTable:
    """A source opened: batches with a column per wanted role, in the source's order."""

    batches: Batches
    frame_kind: FrameKind = "polars"  # what results should come back as
    is_text: bool = False  # whether ids are as written in a text file
    notes: Notes = field(default_factory=lambda: Notes("table"))  # what is understood, as far as batches were read
    labels: Iterable[object] | None = None  # all labels in their order: declared, or as the type of their column says
    file: Callable[[int, int], Batches] | None = None  # of a number, without some first rows; None: no files
    gold: pl.DataFrame | None = None  # labels that an export itself gives: task, label
    question: str | None = None  # of an export that has questions


def concat(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the batches of a source as one frame; parts of different types are an error."""
    try:
        return pl.concat(list(batches))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"parts of the source do not fit together, use one type throughout: {one_line(error, 1000)}") from error


def open_frames(source: Iterator[Any], wanted: Wanted, where: str, reading: Reading, kind: FrameKind, notes: Notes) -> OpenTable:
    """Return the table of frames, which are batches of it; the first one tells the order of labels."""
    first = next(source)
    frame = _frame(first)
    labels = None
    if "label" in wanted and not reading.wide:
        with suppress(InputError, KeyError):  # which reading will raise
            labels = frames.scale_of(frame, shape_of(frames.columns_of(frame), wanted, reading, where).columns["label"])
    return OpenTable(from_frames(chain([first], source), wanted, where, reading, notes), kind, notes=notes, labels=labels)


def from_frames(source: Iterable[Any], wanted: Wanted, where: str, reading: Reading, notes: Notes) -> Batches:
    """Yield frames, or anything Arrow, as votes."""
    rows = 0
    for batch in source:
        frame = _frame(batch)
        shape = shape_of(frames.columns_of(frame), wanted, reading, where)
        shape.write_to(notes)
        selected = frames.select(frame, shape.columns)
        yield shape.votes(selected, rows)
        rows += len(selected)


def _frame(batch: Any) -> Any:
    return frames.with_index(batch) if frames.kind_of(batch) is not None else pl.DataFrame(batch)


def whole_batches(query: pl.LazyFrame, **options: Any) -> Batches:
    """Yield the batches of a query in order; raise `ComputeError` if it stops early.

    polars ends the batches without an error if one of its threads panics, as damaged Arrow and Parquet files make them do. So
    a row is added after the last one: without it, rows are missing.
    """
    schema = query.collect_schema()
    after = pl.DataFrame({**{name: pl.Series([None], dtype=dtype) for name, dtype in schema.items()}, END_COLUMN: [True]}).lazy()
    marked = pl.concat([query.with_columns(pl.lit(False).alias(END_COLUMN)), after])
    ended = False
    for batch in marked.collect_batches(maintain_order=True, **options):
        ended = bool(batch[-1, END_COLUMN]) if len(batch) else ended
        rows = batch[: len(batch) - ended].drop(END_COLUMN)
        if len(rows) or not ended:
            yield rows
    if not ended:
        raise pl.exceptions.ComputeError("it is damaged: polars stopped before the last row")


def from_query(source: pl.LazyFrame, wanted: Wanted, reading: Reading, notes: Notes) -> Batches:
    """Yield a query of polars, which is never collected as a whole, as votes."""
    try:
        shape = shape_of(list(source.collect_schema()), wanted, reading, "the polars frame")
        shape.write_to(notes)
        chosen = shape.select(source)
        rows, is_empty = 0, True
        for batch in whole_batches(chosen):
            yield shape.votes(batch, rows)
            rows, is_empty = rows + len(batch), False
        if is_empty:
            yield shape.votes(pl.DataFrame(schema=chosen.collect_schema()))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot read the polars frame: {one_line(error)}") from error


def open_dataset(source: Any, wanted: Wanted, reading: Reading) -> OpenTable:
    """Return a Hugging Face dataset as a table; a column of class labels has their names, in their order."""
    notes = Notes(f"{'wide ' if reading.wide else ''}Hugging Face dataset")
    features = (getattr(source, "features", None) or {}).items()
    names = {column: list(feature.names) for column, feature in features if type(feature).__name__ == "ClassLabel"}

    def name_classes(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(_class_names(frame[c], names[c]) for c in frame.columns if c in names)

    parts = map(name_classes, dataset_batches(source))
    first = next(parts, None)
    if first is None:
        return OpenTable(iter(()), notes=notes)
    return open_frames(chain([first], parts), wanted, "the dataset", reading, "polars", notes)


def dataset_batches(source: Any) -> Batches:
    """Yield a Hugging Face dataset in batches, as it is."""
    return map(pl.DataFrame, source.with_format("arrow").iter(batch_size=RECORD_BATCH_ITEMS))


def _class_names(codes: pl.Series, names: list[str]) -> pl.Series:
    """Return the names of class labels, as an ordered type; a code of -1 is a missing label."""
    known = pl.Series(names, dtype=pl.Enum(names))
    return known.gather(codes.cast(pl.Int64).set((codes < 0).fill_null(False), None)).alias(codes.name)


def open_items(items: Iterator[Any], wanted: Wanted, reading: Reading) -> OpenTable:
    """Return the table of an iterator: of record batches or frames, of dicts, of tuples, or of lines of a matrix."""
    end = object()
    first: Any = next(items, end)
    if first is end:
        empty = pl.DataFrame(schema=dict.fromkeys((role for role in wanted if role not in OPTIONAL_ROLES), pl.String))
        return OpenTable(iter([empty]), notes=Notes("tuples"))
    whole = chain([first], items)
    kind = frames.kind_of(first)
    if kind is not None or hasattr(first, "__arrow_c_array__") or hasattr(first, "__arrow_c_stream__"):
        return open_frames(whole, wanted, "the batch", reading, kind or kind_of_producer(first), Notes("batches"))
    if isinstance(first, Mapping):
        notes = Notes(f"{'wide ' if reading.wide else ''}records")
        return OpenTable(from_records(whole, wanted, reading, notes), notes=notes)
    if REMAINING_COLUMNS in wanted:
        raise InputError(f"{quote(first)} has no column names: give a file, a frame or a dict of columns")
    if reading.wide:
        notes = Notes("matrix")
        return OpenTable(from_matrix(whole, reading, notes), notes=notes)
    if reading.count is not None:
        raise OptionError("count names a column, and tuples have none: give a frame, a file or a dict of columns")
    notes = Notes("tuples" if reading.weight is None else "tuples with weights")
    return OpenTable(from_tuples(whole, wanted, reading), notes=notes)


def kind_of_producer(source: object) -> FrameKind:
    """Return the kind of frame that fits a producer of Arrow data: pyarrow's own for its batches, else polars."""
    return "pyarrow" if type(source).__module__.partition(".")[0] == "pyarrow" else "polars"


def from_columns(source: Mapping[Any, object], wanted: Wanted, reading: Reading, notes: Notes) -> Batches:
    """Yield a dict of columns as votes."""
    shape = shape_of(list(source), wanted, reading, "the dict")
    series = {role: series_of(source[name], _what(role)) for role, name in shape.columns.items()}
    lengths = {shape.columns[role]: len(column) for role, column in series.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns have different lengths: {lengths}")
    shape.write_to(notes)
    yield shape.votes(pl.DataFrame(series))


def from_records(items: Iterable[object], wanted: Wanted, reading: Reading, notes: Notes, where: str = "the records") -> Batches:
    """Yield dicts, one per line, as votes; a key that a record does not have is a missing value."""
    coming: Iterator[Any] = iter(items)
    shape, done = None, 0
    while some := list(islice(coming, RECORD_BATCH_ITEMS)):
        names: dict[Any, None] = {}
        for number, record in enumerate(some, done + 1):
            if not isinstance(record, Mapping):
                raise InputError(f"item {number} is {quote(record)}: the items before are dicts, give a dict for every line")
            if shape is None:
                names |= dict.fromkeys(record)
        if shape is None:
            shape = shape_of(list(names), wanted, reading, where)
            shape.write_to(notes)
        lists = {role: [record.get(name) for record in some] for role, name in shape.columns.items()}
        batch = pl.DataFrame({role: series_of(values, _what(role), done) for role, values in lists.items()})
        yield shape.votes(batch, done)
        done += len(some)
    if shape is None:
        raise InputError(f"{where} is empty: a record per vote, with task, worker and label, is expected")


def from_tuples(items: Iterable[object], wanted: Wanted, reading: Reading) -> Batches:
    """Yield tuples, with an item per role, as votes."""
    roles = _roles(wanted, reading)
    coming, done = iter(items), 0
    while some := list(islice(coming, RECORD_BATCH_ITEMS)):
        if not (set(map(type, some)) <= {tuple, list} and set(map(len, cast(Any, some))) == {len(roles)}):
            for number, item in enumerate(some, done + 1):  # of types like these
                is_line = isinstance(item, tuple | list)
                if not is_line or len(cast(Any, item)) != len(roles):
                    hint = "; where each item is a task and has a label per worker: wide=True" if is_line else ""
                    raise InputError(f"item {number} is {quote(item)}: give tuples ({', '.join(roles)}){hint}")
        columns = {role: list(map(itemgetter(n), cast(Any, some))) for n, role in enumerate(roles)}
        batch = pl.DataFrame({role: series_of(column, role, done) for role, column in columns.items()})
        yield reading.clean(batch)
        done += len(some)


def _roles(wanted: Wanted, reading: Reading) -> tuple[str, ...]:
    """Return the roles of the items of a tuple, in order: the weight is the last one."""
    return (*(role for role in wanted if role not in OPTIONAL_ROLES), *(() if reading.weight is None else ("weight",)))


def from_array(source: Any, wanted: Wanted, reading: Reading, notes: Notes) -> Batches:
    """Yield a NumPy array as votes: a record array has columns, a 2-D one is lines of votes, or a matrix of tasks x workers."""
    if source.dtype.names:
        columns = {name: source[name].ravel() for name in source.dtype.names}
        yield from from_columns(columns, wanted, reading, notes)
        return
    if source.ndim != 2:
        raise InputError(
            f"the array has {source.ndim} dimensions: give 2, lines of {ROW_FIELDS}, or tasks x workers with wide=True"
        )
    roles = _roles(wanted, reading)
    if reading.wide:
        yield from from_matrix(source, reading, notes)
        return
    if source.shape[1] != len(roles):
        raise InputError(
            f"the array is {source.shape[0]} x {source.shape[1]}: give lines of {', '.join(roles)}, or say wide=True for a "
            "matrix of tasks x workers"
        )
    if len(roles) == 3 and _is_matrix(source):  # a matrix of three workers looks like lines of votes
        raise InputError(
            f"the array is {source.shape[0]} x 3, and most of its lines repeat their first two numbers: say wide=True for a "
            f"matrix of tasks x workers, or give tuples ({ROW_FIELDS}) for lines of votes"
        )
    yield from from_tuples(map(tuple, source.tolist()), wanted, reading)


def from_matrix(source: Any, reading: Reading, notes: Notes) -> Batches:
    """Yield a matrix of tasks x workers, named by their indices, as votes; NaN and None mean no vote."""
    if not isinstance(source, np.ndarray):
        source = list(source)
        widths = {len(line) if isinstance(line, tuple | list | np.ndarray) else -1 for line in source}
        if len(widths) > 1 or -1 in widths:
            raise InputError("with wide=True every item is a task, with a label for each worker: give lists of one length")
        lines, source = source, np.empty((len(source), widths.pop() if widths else 0), object)
        for number, line in enumerate(lines):
            source[number, :] = list(line)
    height, width = source.shape
    workers = tuple(range(width))
    notes.columns = {"task": "row", "workers": f"0 to {width - 1}"}
    shape = Shape({"task": "row"}, workers, reading=reading)
    for start in range(0, height, max(RECORD_BATCH_ITEMS // max(width, 1), 1)):
        some = source[start : start + max(RECORD_BATCH_ITEMS // max(width, 1), 1)]
        cells = {CELL.format(n): _cells(some[:, n], start) for n in workers}
        yield shape.votes(pl.DataFrame({"task": pl.Series(range(start, start + len(some)), dtype=pl.Int64), **cells}))


def _cells(column: Any, first_row: int) -> pl.Series:
    hidden = isinstance(column, np.ma.MaskedArray)
    return series_of(column.tolist() if hidden or column.dtype == object else column, "label", first_row)


def _is_matrix(source: Any) -> bool:
    """Return whether most lines of an array repeat their first two numbers, as votes of workers on tasks seldom do."""
    pairs = {tuple(line) for line in source[:, :2].tolist()}
    return len(source) >= 12 and MIN_LINES_PER_PAIR * len(pairs) < len(source)


def _what(role: str) -> str:
    return "label" if role.startswith("worker ") else role
