"""Files of votes: one table of formats by suffix, and errors that name the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import polars as pl

from quorate.errors import InputError, listed
from quorate.io.columns import find


@dataclass(frozen=True)
class Format:
    """How a suffix is read."""

    reader: Literal["text", "lines", "parquet"]
    separator: str = ","


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        ".csv": Format("text"),
        ".tsv": Format("text", "\t"),
        ".jsonl": Format("lines"),
        ".ndjson": Format("lines"),
        ".parquet": Format("parquet"),
        ".pq": Format("parquet"),
    }
)


def read_file(path: Path, wanted: Mapping[str, str | None]) -> tuple[pl.DataFrame, bool]:
    """Returns the wanted columns of a file, named by their role, and whether it is text (numbers as written)."""
    form = format_of(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty: a header line and a line per vote are expected")
        with path.open("rb"):
            pass
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    try:
        return _read(path, form, wanted), form.reader == "text"
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {_place(path, form, error)}") from error


def format_of(path: Path) -> Format:
    """Returns the format that a path's suffix names."""
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: the suffix {path.suffix!r} names no known format; known are {listed(FORMATS)}")
    return form


def _read(path: Path, form: Format, wanted: Mapping[str, str | None]) -> pl.DataFrame:
    if form.reader == "parquet":
        columns = find(list(pl.read_parquet_schema(path)), wanted, str(path))
        frame = pl.read_parquet(path, columns=list(columns.values()), glob=False)
    elif form.reader == "lines":
        frame = pl.read_ndjson(path, infer_schema_length=None)
        columns = find(frame.columns, wanted, str(path))
    else:
        header = pl.read_csv(path, separator=form.separator, n_rows=0, infer_schema=False, glob=False)
        columns = find(header.columns, wanted, str(path))
        # Everything is read as text: "007" is an id, not the number 7.
        frame = pl.read_csv(path, separator=form.separator, columns=list(columns.values()), infer_schema=False, glob=False)
    return frame.select(pl.col(name).alias(role) for role, name in columns.items())


def _place(path: Path, form: Format, error: Exception) -> str:
    """Returns what is wrong in one line, with the line number where a text file is not UTF-8."""
    if form.reader != "parquet":
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as bad:
                    return f"line {number} is not valid UTF-8 (byte 0x{line[bad.start]:02x}): save the file as UTF-8"
    return " ".join(str(error).split())[:300]
