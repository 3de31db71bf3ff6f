"""Any source of votes: files, patterns, standard input, frames, Arrow, iterators of batches, tuples, dicts, encoded folders."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import polars as pl

from quorate.data.options import DEFAULTS, Duplicates
from quorate.data.votes import FrameKind, Votes
from quorate.errors import InputError, OptionError, listed, shown
from quorate.io import files, frames
from quorate.io.columns import OPTIONAL, REST, find
from quorate.io.encode import Encoder
from quorate.io.files import Wanted, is_encoded
from quorate.io.ids import frame_of, series_of


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
Source: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | Iterable[object] | ArrowData | SparkFrame
ACCEPTED: Final = (
    "a path, a pattern or '-' for standard input, a frame of pandas, polars or pyarrow, anything with the Arrow "
    "interface, an iterator of record batches, tuples, or a dict of columns"
)
CHUNK: Final = 1 << 18  # tuples turned into a batch at once


@dataclass(frozen=True)
class Table:
    """A source opened: batches with a column per wanted role, in the source's order."""

    batches: Iterator[pl.DataFrame]
    frame_kind: FrameKind = "polars"  # what results should come back as
    is_text: bool = False  # whether ids are as written in a text file


def open_table(source: Votes | Source, wanted: Wanted) -> Table:
    """Return a source opened for reading the wanted roles; nothing is read but what is needed to know its kind."""
    names = _names(source)
    if names is not None:
        return _open_files(names, wanted)
    if isinstance(source, Votes):
        return Table(_from_frames([frame_of(source)], wanted, "the votes"), source.frame_kind)
    if is_spark_frame(source):
        raise InputError("a Spark frame is not read into memory: give it to aggregate, or give its toArrow() or toPandas()")
    if isinstance(source, Mapping):
        return Table(iter([_from_columns(source, wanted)]))
    kind = frames.kind_of(source)
    if kind is not None:
        return Table(_from_frames([source], wanted, f"the {kind} frame"), kind)
    if type(source).__module__.partition(".")[0] == "datasets":  # Hugging Face: batches as Arrow tables
        dataset: Any = source
        return Table(_from_frames(dataset.with_format("arrow").iter(batch_size=CHUNK), wanted, "the dataset"))
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, Iterator):
        try:
            frame = pl.DataFrame(cast(Any, source))
        except pl.exceptions.PolarsError as error:  # a single column, as a series of pandas
            raise InputError(f"cannot read from {shown(source)}: give {ACCEPTED}") from error
        return Table(_from_frames([frame], wanted, "the Arrow table"), _kind_of_producer(source))
    if isinstance(source, Iterable):
        return _open_items(iter(source), wanted)
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


def _open_files(names: list[str], wanted: Wanted) -> Table:
    if names == ["-"]:
        return _open_stdin(wanted)
    paths = list(chain.from_iterable(map(_matches, names)))
    opened = [_opened(path) for path in paths]
    is_text = {form.is_text for _, form in opened}
    if len(is_text) > 1:
        raise InputError(f"{listed(paths)}: text files and typed files cannot be read together; read them in two calls")
    parts = (files.batches(at, wanted, form, str(path)) for path, (at, form) in zip(paths, opened, strict=True))
    return Table(chain.from_iterable(parts), is_text=is_text.pop())


def _matches(name: str) -> list[Path]:
    """Return the files that match a name or pattern, in the order of their names."""
    if not glob.has_magic(name) or Path(name).exists():
        return [Path(name)]
    found = [Path(p) for p in sorted(glob.glob(name, recursive=True)) if Path(p).is_file()]
    if not found:
        raise InputError(f"no file matches {name}")
    return found


def _open_stdin(wanted: Wanted) -> Table:
    """Return standard input as a temporary file: a pipe cannot be read twice, and need not fit in memory."""
    if sys.stdin is None:
        raise InputError("standard input is closed: pipe votes into it, or name a file")
    try:
        spool = files.Spool(sys.stdin.buffer)
    except OSError as error:
        raise InputError(f"cannot read standard input: {error.strerror or error}") from error
    form = files.sniffed(spool.path, "standard input")
    return Table(files.batches(spool, wanted, form, name="standard input"), is_text=form.is_text)


def _opened(path: Path) -> tuple[Path | files.Spool, files.Format]:
    """Return a file and its format; a pipe is copied to disk, and its content shows the format if its name does not."""
    if not files.is_stream(path):
        return path, files.format_of(path)
    form = files.format_of(path) if path.suffix else None
    try:
        with path.open("rb") as stream:
            spool = files.Spool(stream)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return spool, form or files.sniffed(spool.path, str(path))


def concat(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the batches of a source as one frame; parts of different types are an error."""
    try:
        return pl.concat(list(batches))
    except pl.exceptions.PolarsError as error:
        why = " ".join(str(error).split())
        raise InputError(f"parts of the source do not fit together, use one type throughout: {why}") from error


def _from_columns(source: Mapping[str, object], wanted: Wanted) -> pl.DataFrame:
    columns = find(list(source), wanted, "the dict")
    series = {role: series_of(source[name], role) for role, name in columns.items()}
    lengths = {columns[role]: len(column) for role, column in series.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns have different lengths: {lengths}")
    return pl.DataFrame(series)


def _from_frames(source: Iterable[Any], wanted: Wanted, where: str) -> Iterator[pl.DataFrame]:
    for batch in source:
        frame = batch if frames.kind_of(batch) is not None else pl.DataFrame(batch)
        yield frames.select(frame, find(frames.columns_of(frame), wanted, where))


def _open_items(items: Iterator[Any], wanted: Wanted) -> Table:
    """Return the table of an iterator: of record batches or frames, or of tuples."""
    end = object()
    first: Any = next(items, end)
    roles = tuple(role for role in wanted if role not in OPTIONAL)
    if first is end:
        return Table(iter([_from_columns({role: [] for role in roles}, dict.fromkeys(roles))]))
    whole = chain([first], items)
    kind = frames.kind_of(first)
    if kind is not None or hasattr(first, "__arrow_c_array__") or hasattr(first, "__arrow_c_stream__"):
        return Table(_from_frames(whole, wanted, "the batch"), kind or _kind_of_producer(first))
    if REST in wanted:
        raise InputError(f"{shown(first)} has no column names: give a file, a frame or a dict of columns")
    return Table(_from_tuples(whole, roles))


def _from_tuples(source: Iterable[object], roles: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    columns: list[list[object]] = [[] for _ in roles]
    for number, item in enumerate(source, 1):
        if not isinstance(item, tuple | list) or len(item) != len(roles):
            raise InputError(f"item {number} is {shown(item)}: give tuples ({', '.join(roles)})")
        for column, value in zip(columns, item, strict=True):
            column.append(value)
        if number % CHUNK == 0:
            yield _frame(columns, roles, number - CHUNK)
            columns = [[] for _ in roles]
    yield _frame(columns, roles, number - len(columns[0]))


def _frame(columns: list[list[object]], roles: tuple[str, ...], first_row: int) -> pl.DataFrame:
    return pl.DataFrame({role: series_of(column, role, first_row) for role, column in zip(roles, columns, strict=True)})


def _kind_of_producer(source: object) -> FrameKind:
    """Return the kind of frame that fits a producer of Arrow data: pyarrow's own for its batches, else polars."""
    return "pyarrow" if type(source).__module__.partition(".")[0] == "pyarrow" else "polars"


def is_spark_frame(source: object) -> bool:
    """Return whether this is a Spark frame, without loading Spark to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def read(
    source: Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
) -> Votes:
    """Return the votes of files, a frame, Arrow data, tuples (task, worker, label), a dict of columns or an encoded folder.

    Sources are read batch by batch: memory stays near that of the encoded votes.

    - `source`: a path, several paths or a pattern (csv, tsv, jsonl, parquet, arrow; .gz or .zst), "-" for standard input,
      a frame of pandas, polars or pyarrow, anything with the Arrow interface, an iterator of record batches, tuples, a
      dict of columns, or a folder that `qr.encode` made.
    - `task`, `worker`, `label`: the columns, where their usual names (task, question, item…) do not tell.
    - `labels`: all labels, in their order; by default those seen, sorted. A vote for another label is then an error.
    - `duplicates`: which of a worker's votes on one task count: "all", the "last", the "first", or "error" for none.

    >>> import quorate as qr
    >>> qr.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    """
    folder = encoded_folder(source)
    if folder is not None:
        refuse_options("encode", task, worker, label, labels, duplicates=duplicates)
        from quorate.io.folder.opened import open_encoded

        return open_encoded(folder, hold=True)
    table = open_table(source, {"task": task, "worker": worker, "label": label})
    encoder = Encoder(labels=labels, duplicates=duplicates, narrow=table.is_text)
    for batch in table.batches:
        encoder.add(batch)
    return encoder.finish(table.frame_kind)


def as_votes(
    source: Votes | Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
) -> Votes:
    """Return votes unchanged, and read anything else; reading options are refused for votes."""
    if isinstance(source, Votes):
        refuse_options("read", task, worker, label, labels, duplicates=duplicates)
        return source
    return read(source, task=task, worker=worker, label=label, labels=labels, duplicates=cast(Duplicates, duplicates))


def encoded_folder(source: object) -> Path | None:
    """Return the folder of encoded votes that this names, or None."""
    if not isinstance(source, str | os.PathLike) or not is_encoded(Path(source)):
        return None
    return Path(source)


def refuse_options(by: str, *given: object, duplicates: str = "all") -> None:
    """Raise when reading options are given for votes that have already been read."""
    if any(option is not None for option in given) or duplicates != "all":
        raise OptionError(f"these votes have already been read: give task, worker, label, labels and duplicates to {by}()")


def read_frame(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return the wanted columns of any source as one frame, and the caller's kind of frame."""
    table = open_table(source, wanted)
    return concat(table.batches), table.frame_kind
