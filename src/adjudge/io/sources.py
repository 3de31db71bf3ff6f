"""Any source of votes: files, patterns, standard input, frames, Arrow, iterators of batches, tuples, dicts, encoded folders."""

from __future__ import annotations

import glob
import io
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import numpy as np
import polars as pl

from adjudge.data.options import SET_SEPARATOR
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import FrameKind, Notes, Votes, WorkerRows
from adjudge.errors import InputError, OptionError, itemize, one_line, quote, read_error
from adjudge.io import files, frames, records
from adjudge.io.columns import OPTIONAL_ROLES, SCORE_ROLES, UNNAMED, VOTE_ROLES
from adjudge.io.formats import registry
from adjudge.io.formats.registry import Content, Format, look, recognise
from adjudge.io.moments import MOMENT_ROLE
from adjudge.io.reading import PLAIN_READING, Reading, Wanted
from adjudge.io.records import OpenTable
from adjudge.io.unsupported import of_columns


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
ACCEPTED_SOURCES: Final = (
    "a path, a pattern or '-' for standard input, an open file, a frame of pandas, polars or pyarrow, anything with the "
    "Arrow interface, an iterator of record batches, tuples, dicts, a dict of columns, or a NumPy array"
)
URL_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a path loses the second slash, a drive has one letter
FIELDS_PER_VOTE: Final = 3  # task, worker, label
ON_CUDA: Final = (2, 13)  # DLPack's codes for memory of CUDA devices, and for memory shared with the host
STANDARD_INPUT: Final = "-"


class Opened:
    """A source looked at once: to choose an engine, and then to read it. Each property is found on first access."""

    def __init__(self, source: Any) -> None:
        self.source = source  # votes, or anything that is read
        # The engine that already holds the votes: "spark" for a Spark frame, "cuda" for arrays on a device; mostly None.
        self.home: str | None = source.engine if isinstance(source, WorkerRows) else None
        if self.home is None:
            self.home = "spark" if is_spark_frame(source) else "cuda" if is_device_source(source) else None

    @classmethod
    def of(cls, source: Any) -> Opened:
        """Return a source opened; one that is stays as it is."""
        return source if isinstance(source, Opened) else cls(source)

    @cached_property
    def names(self) -> list[str] | None:
        """The names and patterns of files that the source has; None for what names no files."""
        source = self.source
        several = source if isinstance(source, list | tuple) else [source]
        return [os.fspath(s) for s in several] if several and all(isinstance(s, str | os.PathLike) for s in several) else None

    @cached_property
    def named(self) -> list[Path]:
        """All files that the source names, pipes among them; none for standard input and for what names no files."""
        return [] if self.names in (None, [STANDARD_INPUT]) else list(chain.from_iterable(map(_matches, self.names or ())))

    @cached_property
    def paths(self) -> list[Path] | None:
        """The files that the source names, in reading order; None if one can be read only once, and for anything else."""
        return None if not self.named or any(map(files.is_stream, self.named)) else self.named

    @cached_property
    def folder(self) -> Path | None:
        """The folder of encoded votes that the source names."""
        paths = self.paths
        return paths[0] if paths is not None and len(paths) == 1 and files.is_encoded(paths[0]) else None

    @cached_property
    def is_read(self) -> bool:
        """Whether these are votes already, in memory or encoded, so that reading options do not apply."""
        return isinstance(self.source, Votes) or self.folder is not None

    @property
    def inputs(self) -> list[Path | int]:
        """Everything that is read when the source is: paths, pipes too, and the descriptor of standard input."""
        return [0] if self.names == [STANDARD_INPUT] else list(self.named)

    @cached_property
    def contents(self) -> list[Content]:
        """What the start of each file shows."""
        if self.names == [STANDARD_INPUT]:
            if sys.stdin is None:
                raise InputError("standard input is closed: pipe votes into it, or name a file")
            return [_spool(sys.stdin.buffer, "standard input")]
        return [_look(path) for path in self.named]

    def votes(self) -> int:
        """Return about how many votes there are: in memory, in files, or in a frame; 0 if it takes long to say."""
        if isinstance(self.source, Votes):
            return len(self.source)
        if self.folder is not None:
            from adjudge.io.folder.encoded import open_encoded

            return len(open_encoded(self.folder, check=False))
        if self.paths is not None:
            return files.votes_in(self.paths)
        is_frame = hasattr(self.source, "columns") and hasattr(self.source, "__len__")
        return len(self.source) if is_frame else 0

    def is_export(self, reading: Reading) -> bool:
        """Return whether these are files of an export that is read as a whole; pipes and standard input are not looked at."""
        if self.paths is None or reading.table_option is not None:
            return False
        form = recognise(self.contents, reading.format)
        return form is not None and form.columns is None


def open_table(
    source: Votes | Source | Opened,
    wanted: Wanted | None = None,
    reading: Reading = PLAIN_READING,
    *,
    sets: bool = False,
    timed: bool = False,  # whether votes have a number for when they were cast, if a column says so
) -> OpenTable:
    """Return a source opened for reading the wanted roles; nothing is read but what is needed to know its kind.

    Roles are those of votes by default. Exports of annotation tools are recognised, and read as a whole. With `sets` their
    labels are sets of options. The table's labels are those declared, or else as the type of their column orders them.
    """
    table = _open(source, wanted, reading, sets, timed)
    if reading.labels is not None or reading.normalize:
        return replace(table, labels=reading.labels)
    if table.labels is not None and reading.abstain:
        return replace(table, labels=[label for label in table.labels if text_of(label) not in reading.abstain])
    return table


def _open(source: Votes | Source | Opened, wanted: Wanted | None, reading: Reading, sets: bool, timed: bool) -> OpenTable:
    opened = Opened.of(source)
    source = opened.source
    if wanted is None:
        wanted = {role: getattr(reading, role) for role in VOTE_ROLES} | ({MOMENT_ROLE: None} if timed else {})
    if not sets and reading.set_separator != SET_SEPARATOR:
        raise OptionError("set_separator works only with multi=True")
    if type(source).__module__.startswith("pyspark.pandas"):
        raise InputError("this is a frame of pandas on Spark: give its to_spark(), or its to_pandas() to read it into memory")
    if opened.names is not None:
        contents = opened.contents
        del opened.contents  # an export holds a whole file: release it with the table
        if reading.encoding is not None:
            contents = [_recode(content, reading.encoding) for content in contents]
        return _open_contents(contents, wanted, reading, sets)
    if hasattr(source, "read") and callable(source.read):  # an open file, of text or of bytes; its name may tell its format
        name = getattr(source, "name", None)
        content = _spool(source, name if isinstance(name, str) else "the open file")
        if reading.encoding is not None:
            if isinstance(source, io.TextIOBase):
                raise OptionError("encoding is for files of bytes, and the open file is text: leave it out")
            content = _recode(content, reading.encoding)
        return _open_contents([content], wanted, reading, sets)
    if not reading.header or reading.separator is not None or reading.encoding is not None:
        raise OptionError("separator, encoding and header are for text files: leave them out for other sources")
    if isinstance(source, Votes):
        reading.refuse("read")
        own, votes = PLAIN_READING if source.row_weight is None else Reading(weight="weight"), frames.frame_of(source)
        return OpenTable(records.from_frames([votes], wanted, "the votes", own, Notes("votes")), source.frame_kind)
    if is_spark_frame(source):
        raise InputError(
            "a Spark frame is not read into memory: give its toArrow() or toPandas(); adj.aggregate and predict take one as votes"
        )
    if is_device_source(source):
        raise InputError(
            "arrays on a CUDA device are not read into memory: copy them to the host (array.get(), tensor.cpu()); "
            "adj.aggregate takes them as they are"
        )
    return _open_in_memory(source, wanted, reading, sets)


def _open_in_memory(source: Any, wanted: Wanted, reading: Reading, sets: bool) -> OpenTable:
    """Return the table of a source in memory: an export, recognised in frames and records, or anything else."""
    wide = "wide " if reading.wide else ""
    if isinstance(source, Mapping | pl.LazyFrame):
        is_query = isinstance(source, pl.LazyFrame)
        export = _open_collected(source, "the polars frame" if is_query else "the dict of columns", wanted, reading, sets)
        if export is not None:
            return export
        notes = Notes(f"{wide}{'polars frame' if is_query else 'dict of columns'}")
        read: Any = records.from_query if is_query else records.from_columns
        return OpenTable(read(source, wanted, reading, notes), notes=notes)
    if frames.is_series(source):
        roles = [role for role in wanted if role not in OPTIONAL_ROLES]
        columns, notes = frames.of_series(source, roles), Notes("pandas series")
        return OpenTable(records.from_columns(columns, dict.fromkeys(roles), reading, notes), "pandas", notes=notes)
    if isinstance(source, np.ndarray):
        notes = Notes(f"{wide}NumPy array")
        return OpenTable(records.from_array(source, wanted, reading, notes), notes=notes)
    wrapped = frames.wrap_frame(source)
    if wrapped is not None:
        kind = frames.kind_of(wrapped) or "polars"
        whole = frames.wrap_frame(frames.with_index(wrapped))
        return _open_frame(whole, f"{kind} frame", wanted, reading, sets, kind)
    if type(source).__module__.partition(".")[0] == "datasets":  # Hugging Face: batches as Arrow tables
        return _open_collected(source, "the dataset", wanted, reading, sets) or records.open_dataset(source, wanted, reading)
    if isinstance(source, list) and source and isinstance(source[0], dict):
        export = _open_export([registry.look_records(source, "the records")], wanted, reading, sets, "polars")
        if export is not None:
            return export
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, Iterator):
        try:
            frame = pl.DataFrame(source)
        except pl.exceptions.PolarsError as error:  # a single column, as a series of polars
            raise InputError(f"cannot read from {quote(source)}: give {ACCEPTED_SOURCES}") from error
        return _open_frame(frame, "Arrow table", wanted, reading, sets, records.kind_of_producer(source))
    if isinstance(source, Iterable):
        return records.open_items(iter(source), wanted, reading)
    raise InputError(f"cannot read from {quote(source)}: give {ACCEPTED_SOURCES}")


def _open_frame(frame: Any, what: str, wanted: Wanted, reading: Reading, sets: bool, kind: FrameKind) -> OpenTable:
    export = _open_export([registry.look_frame(frame, f"the {what}")], wanted, reading, sets, kind)
    notes = Notes(f"{'wide ' if reading.wide else ''}{what}")
    return export or records.open_frames(iter([frame]), wanted, f"the {what}", reading, kind, notes)


def _open_collected(source: Any, name: str, wanted: Wanted, reading: Reading, sets: bool) -> OpenTable | None:
    """Return the table of an export in a dict of columns, a query or a dataset; None for anything else, which is not read."""
    is_query, is_dict = isinstance(source, pl.LazyFrame), isinstance(source, Mapping)
    try:
        columns = source.collect_schema() if is_query else source if is_dict else getattr(source, "column_names", None) or ()
        content = Content(name, "frame", fields=tuple(map(str, columns)))
        if reading.table_option is not None or recognise([content], reading.format) is None:
            return None
        if is_query or is_dict:
            whole = source.collect() if is_query else pl.DataFrame(dict(source), strict=False)
        else:
            whole = pl.concat(records.dataset_batches(source))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {name}: {one_line(error)}") from error
    return _open_export([registry.look_frame(whole, name)], wanted, reading, sets, "polars")


def _look(path: Path) -> Content:
    if not files.is_stream(path):
        content = look(path, str(path))
        return registry.expand(content) if content.kind == "zip" else content
    try:
        with path.open("rb") as stream:
            return _spool(stream, str(path))
    except OSError as error:
        raise read_error(path, error) from error


def _spool(stream: Any, name: str) -> Content:
    """Return what a stream shows; it is copied to disk, as it can be read only once and need not fit in memory."""
    try:
        spool = files.Spool(stream)
    except (OSError, ValueError) as error:
        raise read_error(name, error) from error
    return registry.expand(look(spool.path, name, spool))


def _recode(content: Content, encoding: str) -> Content:
    """Return the content of a text file that was copied to UTF-8."""
    if content.path is None or content.kind in ("folder", "zip", "typed"):
        raise OptionError(f"{content.name} is not a text file: leave encoding out")
    spool = files.recode(content.path, content.name, encoding)
    return look(spool.path, content.name, spool)


def _open_contents(contents: list[Content], wanted: Wanted, reading: Reading, sets: bool) -> OpenTable:
    """Return files, or streams that were copied, as a table: an export, records of JSON, or the tables of all other files."""
    if reading.wide and len(contents) > 1 and wanted.get("task") == UNNAMED:
        raise OptionError("task='' calls tasks by the numbers of their lines, which several files have in common: name a column")
    export, wanted, notes = _export_of(contents, wanted, reading, sets, "polars")
    if export is not None:
        return export
    if all(content.kind == "array" for content in contents):
        notes.format = f"{'wide ' if reading.wide else ''}table (json)"
        every = chain.from_iterable(content.records for content in contents)
        return OpenTable(records.from_records(every, wanted, reading, notes, itemize(c.name for c in contents)), notes=notes)
    forms = [_form(content) for content in contents]
    is_text = {form.reader == "text" for form in forms}
    if len(is_text) > 1:
        names = itemize(content.name for content in contents)
        raise InputError(f"{names}: text files and typed files cannot be read together; read them in two calls")
    read = partial(files.batches, reading=reading, notes=notes)
    by_file = [
        partial(read, cast(Path, one.path), wanted, form, one.name, start=one.start, spool=one.held)
        for one, form in zip(contents, forms, strict=True)
    ]
    labels = None
    is_in_place = all(content.held is None for content in contents)
    if is_in_place and not reading.wide and forms[0].reader in ("parquet", "arrow"):
        labels = files.scale_in(cast(Path, contents[0].path), forms[0], wanted, reading)
    file = (lambda number, skip: by_file[number](skip=skip)) if is_in_place else None
    return OpenTable(
        chain.from_iterable(read() for read in by_file), is_text=is_text.pop(), notes=notes, labels=labels, file=file
    )


def _form(content: Content) -> files.FileFormat:
    """Return the format of an ordinary table by its name, or by its content if the name does not show it."""
    name = Path(content.name)
    if ".json" in [suffix.lower() for suffix in name.suffixes[-2:]]:
        if content.kind == "lines":
            return files.FILE_FORMATS[".jsonl"]
        if content.held is None:
            _refuse_json(content)
    if content.kind == "typed":
        return files.sniff_format(content.start)
    shows = name.suffix.lower() in (*files.FILE_FORMATS, *files.COMPRESSED_SUFFIXES)
    return files.format_of(name) if content.held is None or shows else files.sniff_format(content.start)


def _refuse_json(content: Content) -> None:
    """Raise for a file that is called JSON, and holds neither objects nor an array of them."""
    try:
        with cast(Path, content.path).open("rb") as file:
            is_zstandard = file.read(len(files.ZSTD)) == files.ZSTD
        is_empty = not files.start_of(cast(Path, content.path)).strip()
    except (OSError, EOFError, zlib.error) as error:
        raise read_error(content.name, error) from error
    if is_zstandard:
        raise InputError(f"{content.name} is JSON packed with Zstandard, which is not read: unpack it, or pack it with gzip")
    raise InputError(
        f"{content.name} {'is empty' if is_empty else 'is not a JSON array of objects'}: an array of objects with task, worker "
        "and label is expected, or an export of a tool"
    )


def _open_export(contents: list[Content], wanted: Wanted, reading: Reading, sets: bool, kind: FrameKind) -> OpenTable | None:
    """Return the table of an export in memory; None for anything else."""
    export, columns, notes = _export_of(contents, wanted, reading, sets, kind)
    if export is not None or not notes.export:
        return export
    if contents[0].kind == "records":
        return OpenTable(records.from_records(iter(contents[0].held), columns, reading, notes), notes=notes)
    return records.open_frames(iter([contents[0].held]), columns, contents[0].name, reading, kind, notes)


def _export_of(
    contents: list[Content], wanted: Wanted, reading: Reading, sets: bool, kind: FrameKind
) -> tuple[OpenTable | None, Wanted, Notes]:
    """Return the table of an export that is read as a whole, or None; and the columns and notes of a table read in pieces."""
    notes = Notes("table")
    if reading.table_option is not None:  # an option that lays out an ordinary table says that this is one
        if reading.format not in (registry.AUTO, registry.TABLE) or reading.question is not None or reading.predictions:
            raise OptionError(f"{reading.table_option} is for ordinary tables: leave it out, or format, question and predictions")
        return None, wanted, notes
    roles = {role for role in wanted if role not in OPTIONAL_ROLES}
    known = next((role for role in ("gold label", "truth") if roles == {"task", role}), None)
    named = {role: name or None for role, name in wanted.items()}  # exports say who gave an answer
    form, is_scored = None, roles == set(SCORE_ROLES)
    if roles == set(VOTE_ROLES) or is_scored:
        form = recognise(contents, reading.format)
    elif known is not None and not any(named.values()):
        form = recognise(contents)
    if form is None or (known is not None and known not in form.gives):
        _refuse_others(contents, form, known, reading, roles)
        return None, wanted, notes
    if form.columns is not None:
        if known is None and reading.question is not None:
            raise OptionError(f"{registry.join_names(contents)}: {form.name} has one question: leave question out")
        columns = form.columns_in(contents[0])
        of_export = {role: "label" if role == "score" else role for role in roles}
        return None, {role: named[role] or columns[of_export[role]] for role in roles}, Notes(form.name, export=form.name)
    if not is_scored:
        return _read_export(form, contents, named, known, reading, sets, kind), wanted, notes
    named["label"] = named.pop("score")
    table = _read_export(form, contents, named, known, reading, sets, kind, numbers=True)
    return replace(table, batches=(batch.rename({"label": "score"}) for batch in table.batches)), wanted, notes


def _read_export(
    form: Format,
    contents: list[Content],
    named: Wanted,
    known: str | None,
    reading: Reading,
    sets: bool,
    kind: FrameKind,
    *,
    numbers: bool = False,
) -> OpenTable:
    from adjudge.io.formats.export import Ask, read_export

    declared = reading.labels is not None
    ask = Ask(reading.format, reading.question, reading.predictions, named, sets, numbers, declared)
    extract = read_export(form, contents, ask, votes=known is None)
    if known is not None:
        given = extract.gold if known == "gold label" or extract.truth is None else extract.truth
        if given is None:
            where = registry.join_names(contents)
            raise InputError(f"{where} is an export of {form.name} that gives no task its right label: name a file that does")
        return OpenTable(iter([given.rename({"label": known})]), kind, is_text=True, notes=Notes(form.name))
    if reading.weight is not None:
        raise OptionError(f"weight names a column, and {form.name} has none: leave it out, or format='table' (--format)")
    gold = None if extract.gold is None else reading.clean(extract.gold)
    notes = Notes(form.name, extract.columns, {reason: number for reason, number in extract.skipped.items() if number})
    notes.gold = 0 if gold is None else gold["task"].n_unique()
    return OpenTable(iter([reading.clean(extract.votes)]), kind, is_text=True, notes=notes, gold=gold, question=extract.question)


def _refuse_others(contents: list[Content], form: Format | None, known: str | None, reading: Reading, roles: set[str]) -> None:
    """Raise if the input is neither a table nor an export that gives the wanted votes or labels."""
    if form is not None and contents[0].kind not in (*registry.TABLE_KINDS, *registry.JSON_KINDS):
        what = "whose truth only evaluates (--truth)" if "truth" in form.gives else "that gives no task its right label"
        raise InputError(
            f"{registry.join_names(contents)} is an export of {form.name} {what}: name a file with the labels of tasks"
        )
    option = "question" if reading.question is not None else "predictions" if reading.predictions else None
    if known is None and option is not None and roles in (set(VOTE_ROLES), set(SCORE_ROLES)):
        raise OptionError(
            f"{option} is for exports of annotation tools, and this is read as an ordinary table: leave it out, "
            f"or name the format (known are {itemize(registry.FORMATS, 20)})"
        )
    for content in contents:
        if content.kind == "zip":
            raise InputError(
                f"{content.name} is an archive of {len(content.fields)} files ({itemize(content.fields, 4)}), "
                "which is not a known export: unpack it"
            )
        if content.kind == "object":
            raise InputError(
                f"{content.name} is one JSON object with {itemize(content.fields, 6) or 'nothing in it'}: an array of objects "
                f"with task, worker and label is expected, JSON lines, or an export of {itemize(registry.FORMATS, 20)}"
                f"{of_columns(content.fields)}"
            )
        if content.kind == "folder" and not files.is_encoded(content.path or Path()):
            raise InputError(
                f"{content.name} is a folder that is not a known export: name a file, or a pattern like {content.name}/*.csv"
            )


def _matches(name: str) -> list[Path]:
    """Return the files that match a name or pattern, in the order of their names."""
    if URL_PATTERN.match(name) and not Path(name).exists():
        raise InputError(
            f"{name} is a remote address, and files are read from this machine: download it first, open it with a library of "
            "yours (adj.aggregate(polars.read_parquet(address))), or use engine='spark', which reads addresses that it knows"
        )
    if not glob.has_magic(name) or Path(name).exists():
        return [Path(name)]
    matches = [Path(p) for p in sorted(glob.glob(name, recursive=True)) if Path(p).is_file()]
    if not matches:
        raise InputError(f"no file matches {name}")
    return matches


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
    except Exception:  # a library may refuse to name the device of something that is not a plain array
        return False


def is_device_source(source: object) -> bool:
    """Return whether these are columns of votes of which some are on a CUDA device: three arrays, or a dict of them."""
    if isinstance(source, Mapping):
        return any(map(is_device_array, source.values()))
    return isinstance(source, tuple | list) and len(source) == FIELDS_PER_VOTE and any(map(is_device_array, source))


def read_frame(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return the wanted columns of any source as one frame, and the caller's kind of frame."""
    table = open_table(source, wanted)
    return records.concat(table.batches), table.frame_kind
