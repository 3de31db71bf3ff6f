"""Any source of votes: files, patterns, standard input, frames, Arrow, iterators of batches, tuples, dicts, encoded folders."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypedDict, Unpack, cast

import numpy as np
import polars as pl

from quorate.data.options import DEFAULTS, Duplicates
from quorate.data.vocabulary import text_of
from quorate.data.votes import FrameKind, Votes
from quorate.errors import InputError, OptionError, listed, shown
from quorate.io import files, frames, records
from quorate.io.columns import OPTIONAL, REST
from quorate.io.encode import Encoder
from quorate.io.files import is_encoded
from quorate.io.ids import frame_of
from quorate.io.shapes import PLAIN, Layout, Wanted, layout_of, shape_of
from quorate.io.suspicious import named_twice, repeats, suspicions, warn_suspicious
from quorate.io.understood import Reading, Understood


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
CHUNK: Final = 1 << 18  # tuples turned into a batch at once


@dataclass(frozen=True)
class Table:
    """A source opened: batches with a column per wanted role, in the source's order."""

    batches: Iterator[pl.DataFrame]
    frame_kind: FrameKind = "polars"  # what results should come back as
    is_text: bool = False  # whether ids are as written in a text file
    reading: Reading = field(default_factory=lambda: Reading("table"))  # what is understood, as far as batches were read
    labels: list[object] | None = None  # all labels in their order, where the type of their column says it
    file: Callable[[int, int], Iterator[pl.DataFrame]] | None = None  # of a number, without some first rows; None: no files


def open_table(source: Votes | Source, wanted: Wanted, layout: Layout = PLAIN) -> Table:
    """Return a source opened for reading the wanted roles; nothing is read but what is needed to know its kind."""
    names = _names(source)
    if names is not None:
        return _open_files(names, wanted, layout)
    if hasattr(source, "read") and callable(source.read):
        return _open_stream(source, wanted, layout)
    if not layout.header or layout.separator is not None:
        raise OptionError("separator and header are for text files: leave them out for other sources")
    if isinstance(source, Votes):
        refuse_options("read", layout=layout)
        return Table(_from_frames([frame_of(source)], wanted, "the votes", PLAIN, Reading("votes")), source.frame_kind)
    if is_spark_frame(source):
        raise InputError("a Spark frame is not read into memory: give it to aggregate, or give its toArrow() or toPandas()")
    wide = "wide " if layout.wide else ""
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
    kind = frames.kind_of(source)
    if kind is not None:
        return _open_frames(iter([source]), wanted, f"the {kind} frame", layout, kind, Reading(f"{wide}{kind} frame"))
    if type(source).__module__.partition(".")[0] == "datasets":  # Hugging Face: batches as Arrow tables
        return _open_dataset(source, wanted, layout)
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, Iterator):
        try:
            frame = pl.DataFrame(cast(Any, source))
        except pl.exceptions.PolarsError as error:  # a single column, as a series of polars
            raise InputError(f"cannot read from {shown(source)}: give {ACCEPTED}") from error
        kind = _kind_of_producer(source)
        return _open_frames(iter([frame]), wanted, "the Arrow table", layout, kind, Reading(f"{wide}Arrow table"))
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


def _open_files(names: list[str], wanted: Wanted, layout: Layout) -> Table:
    if names == ["-"]:
        return _open_stdin(wanted, layout)
    paths = list(chain.from_iterable(map(_matches, names)))
    opened = [_opened(path) for path in paths]
    is_text = {form.is_text for _, form in opened}
    if len(is_text) > 1:
        raise InputError(f"{listed(paths)}: text files and typed files cannot be read together; read them in two calls")
    reading = Reading("table")

    def file(number: int, skip: int = 0) -> Iterator[pl.DataFrame]:
        at, form = opened[number]
        return files.batches(at, wanted, form, str(paths[number]), layout=layout, reading=reading, skip=skip)

    first, form = opened[0]
    labels = files.scale_in(first, form, wanted, layout) if isinstance(first, Path) else None
    every = chain.from_iterable(map(file, range(len(paths))))
    return Table(every, is_text=is_text.pop(), reading=reading, labels=labels, file=file)


def _matches(name: str) -> list[Path]:
    """Return the files that match a name or pattern, in the order of their names."""
    if not glob.has_magic(name) or Path(name).exists():
        return [Path(name)]
    found = [Path(p) for p in sorted(glob.glob(name, recursive=True)) if Path(p).is_file()]
    if not found:
        raise InputError(f"no file matches {name}")
    return found


def _open_stdin(wanted: Wanted, layout: Layout) -> Table:
    """Return standard input as a temporary file: a pipe cannot be read twice, and need not fit in memory."""
    if sys.stdin is None:
        raise InputError("standard input is closed: pipe votes into it, or name a file")
    return _open_spool(sys.stdin.buffer, "standard input", None, wanted, layout)


def _open_stream(source: Any, wanted: Wanted, layout: Layout) -> Table:
    """Return an open file, of text or of bytes, as a temporary file; its name may tell its format."""
    name = getattr(source, "name", None)
    named = isinstance(name, str) and Path(name).suffix.lower() in (*files.FORMATS, *files.PACKED)
    form = files.format_of(Path(name)) if named and isinstance(name, str) else None
    return _open_spool(source, name if isinstance(name, str) else "the open file", form, wanted, layout)


def _open_spool(source: Any, name: str, form: files.Format | None, wanted: Wanted, layout: Layout) -> Table:
    try:
        spool = files.Spool(source)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    form = form or files.sniffed(spool.path, name)
    reading = Reading("table")
    return Table(
        files.batches(spool, wanted, form, name=name, layout=layout, reading=reading), is_text=form.is_text, reading=reading
    )


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


def _from_frames(source: Iterable[Any], wanted: Wanted, where: str, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    rows = 0
    for batch in source:
        frame = frames.with_index(batch) if frames.kind_of(batch) is not None else pl.DataFrame(batch)
        shape = shape_of(frames.columns_of(frame), wanted, layout, where)
        reading.columns, reading.has_workers = shape.told(), shape.has_workers
        selected = frames.select(frame, shape.columns)
        yield shape.votes(selected, rows)
        rows += len(selected)


def _from_lazy(source: pl.LazyFrame, wanted: Wanted, layout: Layout, reading: Reading) -> Iterator[pl.DataFrame]:
    try:
        shape = shape_of(list(source.collect_schema()), wanted, layout, "the polars frame")
        reading.columns, reading.has_workers = shape.told(), shape.has_workers
        chosen = source.select(pl.col(c).alias(role) for role, c in shape.columns.items())
        rows, empty = 0, True
        for batch in chosen.collect_batches(maintain_order=True):
            yield shape.votes(batch, rows)
            rows, empty = rows + len(batch), False
        if empty:
            yield shape.votes(pl.DataFrame(schema=chosen.collect_schema()))
    except pl.exceptions.PolarsError as error:
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


def _open_dataset(source: Any, wanted: Wanted, layout: Layout) -> Table:
    """Return a Hugging Face dataset as a table; a column of class labels has their names, in their order."""
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
    return Table(records.from_tuples(whole, wanted, layout), reading=Reading("tuples"))


def _kind_of_producer(source: object) -> FrameKind:
    """Return the kind of frame that fits a producer of Arrow data: pyarrow's own for its batches, else polars."""
    return "pyarrow" if type(source).__module__.partition(".")[0] == "pyarrow" else "polars"


def is_spark_frame(source: object) -> bool:
    """Return whether this is a Spark frame, without loading Spark to find out."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


class Shaping(TypedDict, total=False):
    """The options of `read` that say how a table is laid out, and what its labels mean."""

    wide: bool
    count: str | None
    abstain: Iterable[object] | object | None
    normalize: bool
    strict: bool
    separator: str | None
    header: bool


# What each is where nothing is said.
SHAPING: Final[Mapping[str, object]] = {
    "wide": False,
    "count": None,
    "abstain": None,
    "normalize": False,
    "strict": False,
    "separator": None,
    "header": True,
}


def read(
    source: Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    wide: bool = False,
    count: str | None = None,
    abstain: Iterable[object] | object | None = None,
    normalize: bool = False,
    strict: bool = False,
    separator: str | None = None,
    header: bool = True,
) -> Votes:
    """Return the votes of files, a frame, Arrow data, tuples (task, worker, label), a dict of columns or an encoded folder.

    Sources are read batch by batch: memory stays near that of the encoded votes. What was understood is in
    `votes.understood`; what looks wrong is warned of (`SuspiciousVotes`).

    - `source`: a path, several paths or a pattern (csv, tsv, jsonl, parquet, arrow, xlsx; .gz or .zst), "-" for standard
      input, an open file, a frame of pandas, polars or pyarrow, a series of pandas by task and worker, anything with the
      Arrow interface, an iterator of record batches, tuples, dicts, a dict of columns, a NumPy array, or a folder that
      `qr.encode` made.
    - `task`, `worker`, `label`: the columns, where their usual names (task, question, item…) do not tell.
    - `labels`: all labels, in their order; by default those of an ordered type, or those seen, sorted. A vote for another
      label is then an error.
    - `duplicates`: which of a worker's votes on one task count: "all", the "last", the "first", or "error" for none.
    - `wide`: True for a table with one line per task and one column per worker, or a matrix of tasks x workers. `worker`
      may then be a pattern or a list of columns: "judge_*" or "ann,bob". An empty cell is no vote.
    - `count`: the column that says how many votes a line stands for; the worker may then be absent (for model "mv").
    - `abstain`: labels that are abstentions, as ["NA", "skip"] or -1.
    - `normalize`: True joins labels that differ only in case or white space: they come in lower case, or as in `labels`.
    - `strict`: True makes errors of what would be warned of as suspicious.
    - `separator`: between the fields of a text file, where its header does not show it.
    - `header`: False for text files whose first line is a vote: their columns are called 1, 2, …, and three are task,
      worker and label.

    >>> import quorate as qr
    >>> votes = qr.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    >>> votes
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> print(votes.understood)
    dict of columns: task=question, worker=annotator, label=answer; 3 votes
    """
    folder = encoded_folder(source)
    given = list(labels) if labels is not None and not isinstance(labels, str) else labels
    layout = layout_of(
        wide=wide, count=count, abstain=abstain, normalize=normalize, separator=separator, header=header, labels=given
    )
    if folder is not None:
        refuse_options("encode", task, worker, label, labels, duplicates=duplicates, layout=layout)
        from quorate.io.folder.opened import open_encoded

        return open_encoded(folder, hold=True)
    table = open_table(source, {"task": task, "worker": worker, "label": label}, layout)
    declared = order_of(table, given, layout)
    encoder = Encoder(labels=declared, duplicates=duplicates, narrow=table.is_text)
    for batch in table.batches:
        encoder.add(batch)
    votes = encoder.finish(table.frame_kind, warn=not layout.abstain)
    repeated = encoder.dropped or repeats(votes)
    understood = table.reading.understood(votes=len(votes), abstentions=votes.abstentions, repeated=repeated)
    check_read(votes, source, understood, declared=declared is not None, has_workers=table.reading.has_workers, strict=strict)
    return votes.with_understood(understood)


def order_of(table: Table, labels: Iterable[object] | None, layout: Layout) -> Iterable[object] | None:
    """Return the labels of a table in their order: as declared, or as the type of their column says; None where neither does."""
    if labels is not None or table.labels is None or layout.normalize:
        return labels
    return [label for label in table.labels if text_of(label) not in layout.abstain]


def check_read(
    votes: Votes, source: Source, understood: Understood, *, declared: bool, has_workers: bool, strict: bool, stacklevel: int = 3
) -> None:
    """Warn of what looks wrong about votes that were read, or raise where the caller is strict."""
    signs = suspicions(votes, understood.columns, repeated=understood.repeated, declared=declared, has_workers=has_workers)
    twice = named_twice(paths_of(source) if _names(source) is not None else None)
    warn_suspicious(chain(twice, signs), strict=strict, stacklevel=stacklevel + 1)


def as_votes(
    source: Votes | Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    **shaping: Unpack[Shaping],
) -> Votes:
    """Return votes unchanged, and read anything else; reading options are refused for votes."""
    if isinstance(source, Votes):
        is_strict = shaping.pop("strict", False)
        refuse_options("read", task, worker, label, labels, duplicates=duplicates, layout=layout_of(**cast(Any, shaping)))
        del is_strict  # votes that were read are not judged again
        return source
    rule = cast(Duplicates, duplicates)
    return read(source, task=task, worker=worker, label=label, labels=labels, duplicates=rule, **shaping)


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
