"""A source as formats see it: what its start shows, and its content as a table, as records, or as bytes."""

from __future__ import annotations

import csv
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from adjudge.errors import InputError, listed
from adjudge.io import files, frames
from adjudge.io.formats import archive
from adjudge.io.ids import prepared
from adjudge.io.shapes import separators_in

# "table": text with a header; "typed": Parquet and Arrow; "frame": in memory; the next three are JSON, and "records" is JSON
# in memory; "other" shows nothing that a format could be recognised by.
Kind = Literal["folder", "zip", "table", "typed", "frame", "array", "object", "lines", "records", "other"]
TABLES: Final = ("table", "typed", "frame")
JSON: Final = ("array", "lines", "records")  # of objects
LOOK: Final = 1 << 20  # bytes of JSON looked at: a first record may be long
# Strings and punctuation. A string that the end cuts off is one token: its quotes are not tried again and again.
TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}\[\]:]', re.DOTALL)
SHEET: Final = ".xlsx"
SHEET_MEMBER: Final = "xl/workbook.xml"  # that every such file has
LINES: Final = 200  # of a table looked at


@dataclass(frozen=True, eq=False)
class Content:
    """A source, and what its first bytes show."""

    name: str  # in messages
    kind: Kind
    path: Path | None = None
    fields: tuple[str, ...] = ()  # columns, the keys of the first record, or the files of a folder or archive
    values: Mapping[str, str] = field(default_factory=dict)  # JSON: the first character of each field's value
    inner: frozenset[str] = frozenset()  # JSON: the first characters of the values inside the fields
    rows: tuple[tuple[str, ...], ...] = ()  # text: the first lines, the header among them
    separator: str = ","
    held: Any = None  # a frame or records in memory; or what keeps the file of a pipe

    def has(self, *names: str) -> bool:
        """Return whether all these fields are there."""
        return set(names) <= set(self.fields)

    def require(self, *names: str, form: str) -> None:
        """Raise where a field that a format needs is missing."""
        missing = [name for name in names if name not in self.fields]
        if missing:
            raise InputError(f"{self.name}: {form} needs {listed(missing)}; the fields are: {listed(self.fields)}")

    def table(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return these columns; those of text files as text."""
        wanted = {name: name for name in columns}
        if self.kind == "frame":
            return frames.select(self.held, wanted)
        if self.kind in JSON:
            records = self.records
            return pl.DataFrame({name: _series([r.get(name) for r in records]) for name in columns}, strict=False)
        assert self.path is not None
        form = files.sniffed(self.path, self.name) if self.kind == "typed" else files.Format("text", self.separator)
        return pl.concat(list(files.batches(self.path, wanted, form, self.name)))

    def texts(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return these columns as text, without white space around it and with empty text as missing."""
        return pl.DataFrame([as_text(column) for column in self.table(columns).iter_columns()])

    @cached_property
    def data(self) -> bytes:
        """The bytes of a JSON file, as UTF-8 and unpacked."""
        assert self.path is not None
        data = archive.unpacked(self.path, self.name)
        encoding = files.encoding_of(data)
        try:
            return data if encoding is None else data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.name} is not valid {error.encoding.upper()} ({error.reason}): save the file as UTF-8"
            ) from error

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The objects of a JSON array, of JSON lines, or of a list in memory."""
        if self.kind == "records":
            for number, one in enumerate(self.held, 1):
                if not isinstance(one, dict):
                    raise InputError(
                        f"{self.name}: item {number} is a {type(one).__name__}, the first one a dict: give dicts throughout"
                    )
            return list(self.held)
        return list(self.decoded(dict[str, Any]))

    def decoded(self, kind: Any) -> list[Any]:
        """Return the records of a JSON array or of JSON lines, each of this type; what does not fit is an error."""
        if self.kind == "records":
            return list(converted(self.records, list[kind], self.name))
        try:
            many: list[Any] = (
                decode_lines(self.data, kind, self.name) if self.kind == "lines" else decode(self.data, list[kind], self.name)
            )
            return many
        finally:
            vars(self).pop("data", None)  # objects do not refer to it, and both would fill memory


def as_text(column: pl.Series) -> pl.Series:
    """Return a column as text, without white space around it and with empty text as missing."""
    plain = prepared(column, column.name).cast(pl.String).str.strip_chars()
    return plain.set(plain == "", None)


def decode(data: bytes, kind: Any, name: str) -> Any:
    """Return JSON as objects of this type."""
    import msgspec

    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{name} is damaged: {_reason(error)}") from error


def converted(records: object, kind: Any, name: str) -> Any:
    """Return objects in memory as this type."""
    import msgspec

    try:
        return msgspec.convert(records, kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"{name} is damaged: {error}") from error


def decode_lines(data: bytes, kind: Any, name: str) -> list[Any]:
    """Return JSON lines as objects of this type; a damaged line is an error that names it."""
    import msgspec

    decoder: Any = msgspec.json.Decoder(kind)
    try:
        return list(decoder.decode_lines(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as whole:
        for number, line in enumerate(data.split(b"\n"), 1):
            try:
                if line.strip():
                    decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"{name}: line {number} is damaged: {_reason(error)}") from error
        raise InputError(f"{name} is damaged: {_reason(whole)}") from whole


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def look(path: Path, name: str, held: object = None) -> Content:
    """Return what the start of a file or folder shows; a file that cannot be read shows nothing."""
    try:
        if path.is_dir():
            return Content(name, "folder", path, tuple(sorted(p.name for p in path.iterdir() if not p.name.startswith("."))))
        start = files.start_of(path) or (files.zstandard_lines(path, LINES) if files.is_zstandard(path) else b"")
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            start = files.start_of(path, LOOK) or start
    except (OSError, EOFError, ValueError, zlib.error):
        return Content(name, "other", path, held=held)
    if start.startswith(archive.ZIP):
        named = name.lower().endswith(SHEET)
        inside = () if named else tuple(archive.members(path, name))
        if named or SHEET_MEMBER in inside:  # spreadsheets are archives, too
            return Content(name, "typed", path, files.sheet_columns(path), held=held)
        return Content(name, "zip", path, inside, held=held)
    if start.startswith((b"PAR1", b"ARROW1")):
        return Content(name, "typed", path, _schema(path, start), held=held)
    encoding = files.encoding_of(start)
    if encoding is None and b"\0" in start.split(b"\n", 1)[0]:
        return Content(name, "other", path, held=held)
    text = start.decode(encoding or "utf-8", "replace").lstrip("\ufeff")
    plain = text.lstrip()
    if plain.startswith("{") or re.match(r"\[\s*[{\]]", plain):
        return _look_json(path, name, plain, held)
    return _look_table(path, name, text[: files.START], held)


def look_bytes(data: bytes, name: str) -> Content:
    """Return what the start of a JSON file in memory shows."""
    return _look_json(None, name, data[:LOOK].decode("utf-8", "replace").lstrip("\ufeff \t\r\n"), None)


def look_frame(frame: Any, name: str) -> Content:
    """Return what the columns of a frame show."""
    return Content(name, "frame", fields=tuple(frames.columns_of(frame)), held=frame)


def look_records(records: Sequence[Any], name: str) -> Content:
    """Return what the first of some records in memory shows."""
    first = records[0]
    values = {str(key): _first_character(value) for key, value in first.items()}
    return Content(name, "records", fields=tuple(values), values=values, held=records)


def _look_json(path: Path | None, name: str, text: str, held: object) -> Content:
    level = 2 if text.startswith("[") else 1
    values, inner, end = _first_object(text, level)
    kind: Kind = "array"
    if level == 1:
        rest = text[end:].strip()
        # A single object is a table of one line, unless all it has is objects.
        kind = "lines" if rest.startswith("{") or (values and set(values.values()) != {"{"}) else "object"
        if kind == "lines" and "\n" in text[:end].strip():  # spread over several lines
            kind = "object"
    return Content(name, kind, path, tuple(values), values, inner, held=held)


def _first_object(text: str, level: int) -> tuple[dict[str, str], frozenset[str], int]:
    """Return the keys of the first object and how their values begin, how values inside these begin, and where it ends."""
    values: dict[str, str] = {}
    inner: set[str] = set()
    depth, last = 0, '""'
    for token in TOKEN.finditer(text):
        mark = token[0][0]
        if mark == '"':
            last = token[0]
        elif mark == ":" and depth in (level, level + 1):
            begins = text[token.end() : token.end() + 64].lstrip()[:1]
            if not begins:  # cut off
                break
            if depth == level:
                values[_unquoted(last)] = begins
            else:
                inner.add(begins)
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth < level:
                return values, frozenset(inner), token.end()
    return values, frozenset(inner), len(text)


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _first_character(value: object) -> str:
    if isinstance(value, dict):
        return "{"
    if isinstance(value, list | tuple):
        return "["
    if value is None:
        return "n"
    return '"' if isinstance(value, str) else "0"


def _look_table(path: Path, name: str, text: str, held: object) -> Content:
    lines = text.splitlines()
    if len(text) >= files.START:
        lines = lines[:-1]
    header = next((line for line in lines if line.strip()), "")
    try:
        fields = separators_in(header)
        separator = max(fields, key=lambda mark: fields[mark])  # the comma, where the header shows none
        rows = tuple(tuple(row) for row in csv.reader(io.StringIO("\n".join(lines[:LINES])), delimiter=separator) if row)
    except csv.Error:
        return Content(name, "other", path, held=held)
    return Content(name, "table", path, rows[0] if rows else (), rows=rows, separator=separator, held=held)


def _schema(path: Path, start: bytes) -> tuple[str, ...]:
    try:
        return tuple(pl.read_parquet_schema(path) if start.startswith(b"PAR1") else pl.read_ipc_schema(path))
    except (pl.exceptions.PolarsError, OSError, files.PANIC):
        return ()  # whoever reads it says what is wrong


def _series(values: list[Any]) -> pl.Series:
    """Return a field of JSON records as a column; fields of several types as text, objects as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str} or kinds <= {int} or kinds <= {bool} or kinds <= {int, float}:
        return pl.Series(values, strict=False)
    if kinds <= {list}:
        return pl.Series(
            [None if v is None else [None if x is None else _text(x) for x in v] for v in values], dtype=pl.List(pl.String)
        )
    return pl.Series([None if value is None else _text(value) for value in values], dtype=pl.String)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
