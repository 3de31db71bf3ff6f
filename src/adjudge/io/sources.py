"""Any source of votes: files, patterns, standard input, frames, Arrow, iterators of batches, tuples, dicts, encoded folders."""

from __future__ import annotations

import glob
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import numpy as np
import polars as pl

from adjudge.data.votes import FrameKind, Votes
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.io import files, frames, records
from adjudge.io.columns import OPTIONAL, REST
from adjudge.io.files import is_encoded
from adjudge.io.formats.content import Content, look, look_frame, look_records
from adjudge.io.formats.export import Export, expanded, find_export
from adjudge.io.formats.extract import Ask
from adjudge.io.formats.registry import AUTO, TABLE, recognise
from adjudge.io.ids import frame_of
from adjudge.io.shapes import PLAIN, UNNAMED, Layout, Wanted, layout_of, shape_of
from adjudge.io.understood import Reading


class ArrowData(Protocol):
    """Anything with the Arrow interface: a table of pyarrow, a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the data as a capsule."""
        ...


class SparkFrame(Protocol):
    """A frame of Spark."""

    @property
    def sparkSession(self) -> object:  # noqa: N802
        """The session that it belongs to."""
        ...


# A path or several, a pattern, "-", a frame, anything Arrow, an iterator of batches, tuples, or a dict of columns.
Source: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | Iterable[object] | ArrowData | SparkFrame | pl.LazyFrame
ACCEPTED: Final = (
    "a path, a pattern or '-' for standard input, an open file, a frame of pandas, polars or pyarrow, anything with the "
    "Arrow interface, an iterator of record batches, tuples, dicts, a dict of columns, or a NumPy array"
)
REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # https://, s3://; a path loses the second slash, a drive has one letter
CHUNK: Final = 1 << 18  # tuples turned into a batch at once
COLUMNS: Final = 3  # task, worker, label
ON_CUDA: Final = (2, 13)  # kinds of memory as DLPack numbers them: that of CUDA devices, and what they share with the host


@dataclass(frozen=True)
class Table:
    """A source opened: batches with a column per wanted role, in the source's order."""

    batches: Iterator[pl.DataFrame]
    frame_kind: FrameKind = "polars"  # what results should come back as
    is_text: bool = False  # whether ids are as written in a text file
    reading: Reading = field(default_factory=lambda: Reading("table"))  # what is understood, as far as batches were read
    labels: list[object] | None = None  # all labels in their order, where the type of their column says it
    file: Callable[[int, int], Iterator[pl.DataFrame]] | None = None  # of a number, without some first rows; None: no files
    gold: pl.DataFrame | None = None  # labels that an export itself gives: task, label
    question: str | None = None  # of an export that has questions


def open_table(source: Votes | Source, wanted: Wanted, layout: Layout = PLAIN, *, sets: bool = False) -> Table:
    """Return a source opened for reading the wanted roles; nothing is read but what is needed to know its kind.

    Exports of annotation tools are recognised, and read as a whole. With `sets` their labels are sets of options.
    """
    if type(source).__module__.startswith("pyspark.pandas"):
        raise InputError("this is a frame of pandas on Spark: give its to_spark(), or its to_pandas() to read it into memory")
    names = _names(source)
    if names is not None:
        return _open_contents(_contents(names), wanted, layout, sets)
    if hasattr(source, "read") and callable(source.read):
        return _open_contents([_of_open_file(source)], wanted, layout, sets)
    if not layout.header or layout.separator is not None:
        raise OptionError("separator and header are for text files: leave them out for other sources")
    if isinstance(source, Votes):
        refuse_options("read", layout=layout)
        own = PLAIN if source.row_weight is None else layout_of(weight="weight")
        return Table(_from_frames([frame_of(source)], wanted, "the votes", own, Reading("votes")), source.frame_kind)
    if is_spark_frame(source):
        raise InputError(
            "a Spark frame is not read into memory: give its toArrow() or toPandas(); adj.aggregate and predict take one as votes"
        )
    if is_device_source(source):
        raise InputError(
            "arrays on a CUDA device are not read into memory: copy them to the host (array.get(), tensor.cpu()); "
            "adj.aggregate takes them as they are"
        )
    wide = "wide " if layout.wide else ""
    if isinstance(source, Mapping | pl.LazyFrame):  # collected only where it is an export, which is read as a whole
        export = _open_collected(source, wanted, layout, sets)
        if export is not None:
            return export
    if isinstance(source, Mapping):
        reading = Reading(f"{wide}dict of columns")
        return Table(records.from_columns(source, wanted, layout, reading), reading=reading)
    if frames.is_series(source):
        roles = [role for role in wanted if role not in OPTIONAL]
        columns, reading = frames.of_series(source, roles), Reading("pandas series")
        return Table(records.from_columns(columns, dict.fromkeys(roles), layout, reading), "pandas", reading=reading)
    if isinstance(source, np.ndarray):
        reading = Reading(f"{wide}NumPy array")
        return Table(records.from_array(source, wanted, layout, reading), reading=reading)
    if isinstance(source, pl.LazyFrame):
        reading = Reading(f"{wide}polars frame")
        return Table(_from_lazy(source, wanted, layout, reading), reading=reading)
    wrapped = frames.wrapped_frame(source)
    if wrapped is not None:
        kind, whole = frames.kind_of(wrapped) or "polars", frames.wrapped_frame(frames.with_index(wrapped))
        given = [look_frame(whole, f"the {kind} frame")]
        return _open_export(given, wanted, layout, sets, kind) or _open_frames(
            iter([whole]), wanted, f"the {kind} frame", layout, kind, Reading(f"{wide}{kind} frame")
        )
    if type(source).__module__.partition(".")[0] == "datasets":  # Hugging Face: batches as Arrow tables
        return _open_dataset(source, wanted, layout, sets)
    if isinstance(source, list) and source and isinstance(source[0], dict):
        export = _open_export([look_records(source, "the records")], wanted, layout, sets, "polars")
        if export is not None:
            return export
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, Iterator):
        try:
            frame = pl.DataFrame(cast(Any, source))
        except pl.exceptions.PolarsError as error:  # a single column, as a series of polars
            raise InputError(f"cannot read from {shown(source)}: give {ACCEPTED}") from error
        kind, name = _kind_of_producer(source), "the Arrow table"
        return _open_export([look_frame(frame, name)], wanted, layout, sets, kind) or _open_frames(
            iter([frame]), wanted, name, layout, kind, Reading(f"{wide}Arrow table")
        )
    if isinstance(source, Iterable):
        return _open_items(iter(source), wanted, layout)
    raise InputError(f"cannot read from {shown(source)}: give {ACCEPTED}")


def paths_of(source: Source) -> list[Path] | None:
    """Return the files that a source names, in reading order; None for anything else.

    Standard input and pipes are not files here: they can be read only once.
    """
    names = _names(source)
    if names is None or names == ["-"]:
        return None
    paths = list(chain.from_iterable(map(_matches, names)))
    return None if any(map(files.is_stream, paths)) else paths


def files_of(source: Source) -> list[Path | int]:
    """Return everything that is read when a source is: paths, pipes too, and the descriptor of standard input."""
    names = _names(source) or []
    return [0] if names == ["-"] else list(chain.from_iterable(map(_matches, names)))


def _names(source: object) -> list[str] | None:
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    if isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        return [os.fspath(s) for s in source]
    return None


def _contents(names: list[str]) -> list[Content]:
    """Return what the start of each file shows."""
    if names == ["-"]:
        if sys.stdin is None:
            raise InputError("standard input is closed: pipe votes into it, or name a file")
        return [_spooled(sys.stdin.buffer, "standard input")]
    return [_content(path) for path in chain.from_iterable(map(_matches, names))]


def _content(path: Path) -> Content:
    if not files.is_stream(path):
        return expanded(look(path, str(path)))
    try:
        with path.open("rb") as stream:
            return _spooled(stream, str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _of_open_file(source: Any) -> Content:
    """Return what an open file, of text or of bytes, shows; its name may tell its format."""
    name = getattr(source, "name", None)
    return _spooled(source, name if isinstance(name, str) else "the open file")


def _spooled(stream: Any, name: str) -> Content:
    """Return what a stream shows; it is copied to disk, as it can be read only once and need not fit in memory."""
    try:
        spool = files.Spool(stream)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    return expanded(look(spool.path, name, spool))


def _open_contents(contents: list[Content], wanted: Wanted, layout: Layout, sets: bool) -> Table:
    """Return files, or streams that were copied, as a table: an export, records of JSON, or the tables of all other files."""
    if layout.wide and len(contents) > 1 and wanted.get("task") == UNNAMED:
        raise OptionError("task='' calls tasks by the numbers of their lines, which several files have in common: name a column")
    export = _export_of(contents, wanted, layout, sets)
    if export is not None and export.frame is not None:
        return _of_export(export, layout, "polars")
    wanted = wanted if export is None or export.columns is None else export.columns
    reading = Reading("table", export="" if export is None else export.format)
    if all(content.kind == "array" for content in contents):
        reading.format = f"{'wide ' if layout.wide else ''}table (json)"
        every = chain.from_iterable(content.records for content in contents)
        return Table(records.from_records(every, wanted, layout, reading, listed(c.name for c in contents)), reading=reading)
    forms = [_form(content) for content in contents]
    is_text = {form.is_text for form in forms}
    if len(is_text) > 1:
        names = listed(content.name for content in contents)
        raise InputError(f"{names}: text files and typed files cannot be read together; read them in two calls")

    def file(number: int, skip: int = 0) -> Iterator[pl.DataFrame]:
        one, form = contents[number], forms[number]
        return files.batches(_place(one), wanted, form, one.name, layout=layout, reading=reading, skip=skip)

    first, in_place = contents[0], all(content.held is None for content in contents)
    labels = files.scale_in(first.path, forms[0], wanted, layout) if in_place and first.path is not None else None
    batches = chain.from_iterable(map(file, range(len(contents))))
    return Table(batches, is_text=is_text.pop(), reading=reading, labels=labels, file=file if in_place else None)


def _form(content: Content) -> files.Format:
    """Return the format of an ordinary table: by its name, or by its content for what has no name that shows it."""
    assert content.path is not None
    name = Path(content.name)
    if content.kind == "lines" and ".json" in [suffix.lower() for suffix in name.suffixes[-2:]]:
        return files.FORMATS[".jsonl"]
    if content.held is None and ".json" in [suffix.lower() for suffix in name.suffixes[-2:]]:
        raise InputError(_no_json(content))
    if content.kind == "typed":
        return files.sniffed(content.path, content.name)
    shows = name.suffix.lower() in (*files.FORMATS, *files.PACKED)
    return files.format_of(name) if content.held is None or shows else files.sniffed(content.path, content.name)


def _no_json(content: Content) -> str:
    """Return what is wrong with a file that is called JSON, and holds neither objects nor an array of them."""
    assert content.path is not None
    if files.is_zstandard(content.path):
        return f"{content.name} is JSON packed with Zstandard, which is not read: unpack it, or pack it with gzip"
    try:
        is_empty = not files.start_of(content.path).strip()
    except (OSError, EOFError, zlib.error) as error:
        return f"cannot read {content.name}: {getattr(error, 'strerror', None) or error}"
    found = "is empty" if is_empty else "is no JSON array of objects"
    return f"{content.name} {found}: an array of objects with task, worker and label is expected, or an export of a tool"


def _place(content: Content) -> Path | files.Spool:
    assert content.path is not None
    return content.held if isinstance(content.held, files.Spool) else content.path


def _export_of(contents: list[Content], wanted: Wanted, layout: Layout, sets: bool) -> Export | None:
    """Return what these contents give as an export; an option that lays out an ordinary table says that they are none."""
    if layout.table_option is None:
        named = {role: name or None for role, name in wanted.items()}  # exports say who gave an answer
        export = find_export(contents, named, Ask.of(layout, sets=sets))
        if export is not None and export.frame is not None and layout.weight is not None:
            raise OptionError(f"weight names a column, and {export.format} has none: leave it out, or format='table' (--format)")
        return export
    if layout.format not in (AUTO, TABLE) or layout.question is not None or layout.predictions:
        raise OptionError(f"{layout.table_option} is for ordinary tables: leave it out, or format, question and predictions")
    return None


def _open_export(contents: list[Content], wanted: Wanted, layout: Layout, sets: bool, kind: FrameKind) -> Table | None:
    """Return the table of an export in memory; None for anything else."""
    export = _export_of(contents, wanted, layout, sets)
    if export is None:
        return None
    if export.frame is not None:
        return _of_export(export, layout, kind)
    reading, columns = Reading(export.format, export=export.format), export.columns or wanted
    if contents[0].kind == "records":
        return Table(records.from_records(iter(contents[0].held), columns, layout, reading), reading=reading)
    return _open_frames(iter([contents[0].held]), columns, contents[0].name, layout, kind, reading)


def _open_collected(source: Mapping[Any, Any] | pl.LazyFrame, wanted: Wanted, layout: Layout, sets: bool) -> Table | None:
    """Return the table of an export in a dict of columns or a lazy frame; None for anything else, of which nothing is read."""
    is_lazy = isinstance(source, pl.LazyFrame)
    name = "the polars frame" if is_lazy else "the dict of columns"
    try:
        fields = tuple(map(str, source.collect_schema() if isinstance(source, pl.LazyFrame) else source))
        if layout.table_option is not None or recognise([Content(name, "frame", fields=fields)], layout.format) is None:
            return None
        whole = source.collect() if isinstance(source, pl.LazyFrame) else pl.DataFrame(dict(source), strict=False)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())[:300]}") from error
    return _open_export([look_frame(whole, name)], wanted, layout, sets, "polars")


def _of_export(export: Export, layout: Layout, kind: FrameKind) -> Table:
    assert export.frame is not None
    batch, found = layout.cleaned(export.frame), export.extract
    if found is None:
        return Table(iter([batch]), kind, is_text=True, reading=Reading(export.format))
    gold = None if found.gold is None else layout.cleaned(found.gold)
    told = Reading(export.format, found.columns, {reason: number for reason, number in found.skipped.items() if number})
    told.gold = 0 if gold is None else gold["task"].n_unique()
    return Table(iter([batch]), kind, is_text=True, reading=told, gold=gold, question=found.question)


def _matches(name: str) -> list[Path]:
    """Return the files that match a name or pattern, in the order of their names."""
    if REMOTE.match(name) and not Path(name).exists():
        raise InputError(
            f"{name} is a remote address, and files are read from this machine: download it first, open it with a library of "
            "yours (adj.aggregate(polars.read_parquet(address))), or use engine='spark', which reads addresses that it knows"
        )
    if not glob.has_magic(name) or Path(name).exists():
        return [Path(name)]
    found = [Path(p) for p in sorted(glob.glob(name, recursive=True)) if Path(p).is_file()]
    if not found:
        raise InputError(f"no file matches {name}")
    return found


def concat(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the batches of a source as one frame; parts of different types are an error."""
    try:
        return pl.concat(list(batches))
    except pl.exceptions.PolarsError as error:
        why = " ".join(str(error).split())
        raise InputError(f"parts of the source do not fit together, use one type throughout: {why}") from error


def _from_frames(source: Iterable[Any], wanted: Wanted, where: str, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    rows = 0
    for batch in source:
        frame = frames.with_index(batch) if frames.kind_of(batch) is not None else pl.DataFrame(batch)
        shape = shape_of(frames.columns_of(frame), wanted, layout, where)
        reading.saw(shape)
        selected = frames.select(frame, shape.columns)
        yield shape.votes(selected, rows)
        rows += len(selected)


def _from_lazy(source: pl.LazyFrame, wanted: Wanted, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    from adjudge.io.batches import whole_batches

    try:
        shape = shape_of(list(source.collect_schema()), wanted, layout, "the polars frame")
        reading.saw(shape)
        chosen = source.select(pl.col(c).alias(role) for role, c in shape.columns.items())
        rows, empty = 0, True
        for batch in whole_batches(chosen):
            yield shape.votes(batch, rows)
            rows, empty = rows + len(batch), False
        if empty:
            yield shape.votes(pl.DataFrame(schema=chosen.collect_schema()))
    except (pl.exceptions.PolarsError, files.PANIC) as error:
        raise InputError(f"cannot read the polars frame: {' '.join(str(error).split())[:300]}") from error


def _open_frames(source: Iterator[Any], wanted: Wanted, where: str, layout: Layout, kind: FrameKind, reading: Reading) -> Table:
    """Return the table of frames, which are batches of it; the first one tells the order of labels."""
    first = next(source)
    frame = frames.with_index(first) if frames.kind_of(first) is not None else pl.DataFrame(first)
    labels = None
    if "label" in wanted and not layout.wide:
        with suppress(InputError, KeyError):  # which reading will raise
            labels = frames.scale_of(frame, shape_of(frames.columns_of(frame), wanted, layout, where).columns["label"])
    return Table(_from_frames(chain([first], source), wanted, where, layout, reading), kind, reading=reading, labels=labels)


def _open_dataset(source: Any, wanted: Wanted, layout: Layout, sets: bool) -> Table:
    """Return a Hugging Face dataset as a table; a column of class labels has their names, in their order."""
    there = Content("the dataset", "frame", fields=tuple(getattr(source, "column_names", None) or ()))
    if layout.table_option is None and recognise([there], layout.format) is not None:
        whole = pl.concat([pl.DataFrame(batch) for batch in source.with_format("arrow").iter(batch_size=CHUNK)])
        export = _open_export([look_frame(whole, "the dataset")], wanted, layout, sets, "polars")
        if export is not None:
            return export
    reading = Reading(f"{'wide ' if layout.wide else ''}Hugging Face dataset")
    names = {
        column: list(feature.names)
        for column, feature in (getattr(source, "features", None) or {}).items()
        if type(feature).__name__ == "ClassLabel"
    }

    def named(batch: Any) -> pl.DataFrame:
        frame = pl.DataFrame(batch)
        known = {c: names[c] for c in frame.columns if c in names}
        return frame.with_columns(_class_names(frame[c], words) for c, words in known.items())

    parts = map(named, source.with_format("arrow").iter(batch_size=CHUNK))
    first = next(parts, None)
    if first is None:
        return Table(iter(()), reading=reading)
    return _open_frames(chain([first], parts), wanted, "the dataset", layout, "polars", reading)


def _class_names(codes: pl.Series, names: list[str]) -> pl.Series:
    """Return the names of class labels, as an ordered type; a code of -1 is a missing label."""
    known = pl.Series(names, dtype=pl.Enum(names))
    return known.gather(codes.cast(pl.Int64).set((codes < 0).fill_null(False), None)).alias(codes.name)


def _open_items(items: Iterator[Any], wanted: Wanted, layout: Layout) -> Table:
    """Return the table of an iterator: of record batches or frames, of dicts, of tuples, or of lines of a matrix."""
    end = object()
    first: Any = next(items, end)
    roles = tuple(role for role in wanted if role not in OPTIONAL)
    if first is end:
        nothing: dict[str, list[object]] = {role: [] for role in roles}
        return Table(records.from_columns(nothing, dict.fromkeys(roles), PLAIN, Reading("tuples")), reading=Reading("tuples"))
    whole = chain([first], items)
    kind = frames.kind_of(first)
    if kind is not None or hasattr(first, "__arrow_c_array__") or hasattr(first, "__arrow_c_stream__"):
        of_producer: FrameKind = kind or _kind_of_producer(first)
        return _open_frames(whole, wanted, "the batch", layout, of_producer, Reading("batches"))
    if isinstance(first, Mapping):
        reading = Reading(f"{'wide ' if layout.wide else ''}records")
        return Table(records.from_records(whole, wanted, layout, reading), reading=reading)
    if REST in wanted:
        raise InputError(f"{shown(first)} has no column names: give a file, a frame or a dict of columns")
    if layout.wide:
        reading = Reading("matrix")
        return Table(records.from_matrix(whole, layout, reading), reading=reading)
    if layout.count is not None:
        raise OptionError("count names a column, and tuples have none: give a frame, a file or a dict of columns")
    kind_of_items = "tuples" if layout.weight is None else "tuples with weights"
    return Table(records.from_tuples(whole, wanted, layout), reading=Reading(kind_of_items))


def _kind_of_producer(source: object) -> FrameKind:
    """Return the kind of frame that fits a producer of Arrow data: pyarrow's own for its batches, else polars."""
    return "pyarrow" if type(source).__module__.partition(".")[0] == "pyarrow" else "polars"


def is_spark_frame(source: object) -> bool:
    """Return whether this is a Spark frame, without loading Spark to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def is_device_array(value: object) -> bool:
    """Return whether this is an array on a CUDA device: of CuPy, PyTorch, JAX or any other library, of which none is loaded.

    >>> is_device_array(np.zeros(3))
    False
    """
    if isinstance(value, np.ndarray | str | list | tuple):
        return False
    try:
        where: Any = getattr(value, "__dlpack_device__", None)
        return hasattr(value, "__cuda_array_interface__") if where is None else int(where()[0]) in ON_CUDA
    except Exception:  # a library may refuse to say where something is that is no plain array
        return False


def is_device_source(source: object) -> bool:
    """Return whether these are columns of votes of which some are on a CUDA device: three arrays, or a dict of them."""
    if isinstance(source, Mapping):
        return any(map(is_device_array, source.values()))
    return isinstance(source, tuple | list) and len(source) == COLUMNS and any(map(is_device_array, source))


def is_export(source: Source, layout: Layout) -> bool:
    """Return whether a source is files of an export that is read as a whole; nothing is said of pipes and standard input."""
    paths = paths_of(source)
    if paths is None or layout.table_option is not None:
        return False
    form = recognise([_content(path) for path in paths], layout.format)
    return form is not None and not hasattr(form.load(), "columns")


def encoded_folder(source: object) -> Path | None:
    """Return the folder of encoded votes that this names, or None."""
    if not isinstance(source, str | os.PathLike) or not is_encoded(Path(source)):
        return None
    return Path(source)


def refuse_options(by: str, *given: object, duplicates: str = "all", layout: Layout = PLAIN) -> None:
    """Raise when reading options are given for votes that have already been read."""
    if any(option is not None for option in given) or duplicates != "all":
        raise OptionError(f"these votes have already been read: give task, worker, label, labels and duplicates to {by}()")
    if not layout.is_plain:
        raise OptionError(f"these votes have already been read: give options about their table or their labels to {by}()")


def read_frame(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return the wanted columns of any source as one frame, and the caller's kind of frame."""
    table = open_table(source, wanted)
    return concat(table.batches), table.frame_kind
