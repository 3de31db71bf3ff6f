"""Files of votes: one table of formats by suffix, batches in file order, and errors that name the place."""

from __future__ import annotations

import csv
import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import polars as pl

from quorate.errors import InputError, listed
from quorate.io.columns import find

Wanted = Mapping[str, str | None]  # role -> the column the caller named, if any
PACKED: Final = (".gz", ".zst")


@dataclass(frozen=True)
class Format:
    """How a suffix is read; text has a separator and numbers as written."""

    reader: Literal["text", "lines", "parquet", "arrow"]
    separator: str = ","

    @property
    def is_text(self) -> bool:
        """Whether ids come as text, whatever they mean."""
        return self.reader == "text"


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        ".csv": Format("text"),
        ".tsv": Format("text", "\t"),
        ".jsonl": Format("lines"),
        ".ndjson": Format("lines"),
        ".parquet": Format("parquet"),
        ".pq": Format("parquet"),
        ".arrow": Format("arrow"),
        ".feather": Format("arrow"),
        ".ipc": Format("arrow"),
    }
)


def format_of(path: Path) -> Format:
    """Returns the format that a path's suffix names; .gz or .zst may stand behind a text format's.

    >>> format_of(Path("votes.jsonl.gz")).reader
    'lines'
    """
    suffixes = [s.lower() for s in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED
    form = FORMATS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if form is None or (packed and form.reader in ("parquet", "arrow")):
        raise InputError(
            f"{path}: the suffix {''.join(suffixes[-2:]) if packed else path.suffix!r} names no known format; "
            f"known are {listed(FORMATS)}, and .gz or .zst behind those of text"
        )
    return form


def batches(
    path: Path, wanted: Wanted, form: Format | None = None, name: str | None = None, *, skip: int = 0
) -> Iterator[pl.DataFrame]:
    """Yields the wanted columns of a file, named by their role, in file order, but for the first `skip` rows.

    `name` is the file's in messages.
    """
    name = name or str(path)
    form = form or format_of(path)
    if path.is_dir():
        raise InputError(f"{name} is a folder: name a file, or a pattern like {name}/*.csv")
    try:
        before = _stamp(path)
        if before[0] == 0:
            raise InputError(f"{name} is empty: a header line and a line per vote are expected")
        with path.open("rb"):
            pass
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    try:
        lazy = _scan(path, form)
        header = list(lazy.collect_schema())
        _refuse_repeats(header, form, name)
        columns = find(header, wanted, name)
        chosen = lazy.select(pl.col(c).alias(role) for role, c in columns.items())
        if form.is_text:  # a blank line is no vote
            chosen = chosen.filter(~pl.all_horizontal(pl.all().is_null()))
        if skip:
            chosen = chosen.slice(skip)
        empty = True
        for batch in chosen.collect_batches():
            empty = False
            yield batch
        if empty:
            yield pl.DataFrame(schema=chosen.collect_schema())
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise InputError(f"cannot read {name}: {_place(path, form, error)}") from error
    if _stamp(path) != before:
        raise InputError(f"{name} changed while it was read: read it again when nothing writes to it")


def sniffed(path: Path, name: str) -> Format:
    """Returns the format of a file without a telling name (standard input), from its first bytes."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path) as unpacked:
                start = unpacked.read(1 << 16)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"cannot read {name}: {error}") from error
    if start.startswith(b"PAR1"):
        return FORMATS[".parquet"]
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return FORMATS[".arrow"]
    if start.lstrip().startswith(b"{"):
        return FORMATS[".jsonl"]
    header = start.split(b"\n", 1)[0]
    return FORMATS[".tsv" if b"\t" in header and b"," not in header else ".csv"]


def _scan(path: Path, form: Format) -> pl.LazyFrame:
    if form.reader == "parquet":
        return pl.scan_parquet(path, glob=False)
    if form.reader == "arrow":
        with path.open("rb") as file:
            is_file = file.read(6) == b"ARROW1"
        return pl.scan_ipc(path, glob=False) if is_file else pl.read_ipc_stream(path).lazy()
    if form.reader == "lines":
        return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None)
    # Everything is read as text: "007" is an id, not the number 7.
    return pl.scan_csv(path, separator=form.separator, infer_schema=False, glob=False)


def _refuse_repeats(header: list[str], form: Format, name: str) -> None:
    """Raises when a column stands twice in a text file; the reader has renamed the second one."""
    again = [c.partition("_duplicated_")[0] for c in header if "_duplicated_" in c]
    if form.is_text and any(c in header for c in again):
        raise InputError(f"{name}: the column {again[0]!r} stands twice in the header: rename one of them")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Returns what changes when a file does: size, time of change, identity."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _place(path: Path, form: Format, error: Exception) -> str:
    """Returns what is wrong in one line, with the line number where a text file is to blame."""
    plain = " ".join(str(error).split())[:300]
    if form.reader in ("parquet", "arrow") or path.suffix.lower() == ".zst":
        return plain
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
            return _bad_line(raw, form) or plain
    except (OSError, EOFError, zlib.error):
        return plain  # the packing itself is damaged


def _bad_line(raw: Iterable[bytes], form: Format) -> str | None:
    """Returns what is wrong with the first line that is not UTF-8 or has another number of fields than the header."""
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(raw, 1):  # noqa: B007
            yield line.decode("utf-8")

    try:
        if form.reader == "lines":
            for _ in lines():
                pass
            return None
        width = None
        reader = csv.reader(lines(), delimiter=form.separator, strict=True)
        for fields in reader:
            width = width or len(fields)
            if len(fields) > width:
                return f"line {number} has {len(fields)} fields, the header {width}: mend or remove that line"
    except UnicodeDecodeError as bad:
        value = bad.object[bad.start]
        return f"line {number} is not valid UTF-8 (byte 0x{value:02x}): save the file as UTF-8"
    except csv.Error as bad:
        return f"line {number}: {bad}: mend or remove that line"
    return None
