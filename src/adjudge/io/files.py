"""Files of votes: one table of formats by suffix, batches in file order, and errors that name the line."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import json
import logging
import os
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal, TextIO

import polars as pl

from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.io import not_votes
from adjudge.io.columns import is_known
from adjudge.io.shapes import PLAIN, Layout, Shape, Wanted, is_number, separators_in, shape_of
from adjudge.io.understood import Reading

PACKED: Final = (".gz", ".zst")
STANDARD: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
START: Final = 1 << 16  # bytes looked at before a file is read
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
ZIP: Final = b"PK\x03\x04"
# Byte order marks, the longer ones first: that of UTF-32 begins like that of UTF-16.
MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
NULS: Final = "{name} is not UTF-8: its first line has NUL bytes, as in UTF-16 without a byte order mark; save the file as UTF-8"
SHORTEST: Final = 16  # bytes of a line of text: few votes take less
UNPACKED: Final = 8  # how far packed text unfolds
MANIFEST: Final = "manifest.json"  # what makes a folder one of encoded votes
DENSE: Final = 100  # text seldom packs better than so many to one; what does is looked at before it is read
MAX_LINE: Final = 1 << 26  # bytes of a line in a file that is packed that densely
QUIET: Final = logging.NullHandler()
PANIC: Final[type[BaseException]] = pl.exceptions.PanicException  # no Exception, and raised for damaged Parquet and Arrow


@dataclass(frozen=True)
class Format:
    """The format of a suffix; text formats have a separator, and numbers stay as written."""

    reader: Literal["text", "lines", "parquet", "arrow", "spreadsheet"]
    separator: str = ","
    name: str = "csv"  # as people call it

    @property
    def is_text(self) -> bool:
        """Whether ids are stored as text, even if they are numbers."""
        return self.reader == "text"


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        ".csv": Format("text"),
        ".tsv": Format("text", "\t", name="tsv"),
        ".txt": Format("text", name="txt"),  # the header shows the separator
        ".jsonl": Format("lines", name="jsonl"),
        ".ndjson": Format("lines", name="jsonl"),
        ".parquet": Format("parquet", name="parquet"),
        ".pq": Format("parquet", name="parquet"),
        ".arrow": Format("arrow", name="arrow"),
        ".feather": Format("arrow", name="arrow"),
        ".ipc": Format("arrow", name="arrow"),
        ".xlsx": Format("spreadsheet", name="xlsx"),
    }
)


def format_of(path: Path) -> Format:
    """Return the format that a path's suffix names; .gz or .zst may follow a text format's.

    >>> format_of(Path("votes.jsonl.gz")).reader
    'lines'
    """
    suffixes = [s.lower() for s in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED
    form = FORMATS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if form is None or (packed and form.reader not in ("text", "lines")):
        raise InputError(
            f"{path}: the suffix {''.join(suffixes[-2:]) if packed else path.suffix!r} names no known format; "
            f"known are {listed([*FORMATS, '.json'])}, and .gz or .zst after those of text{not_votes.of_file(path)}"
        )
    return form


class Spool:
    """A temporary file with a copy of a stream that can be read only once, or of decoded text; removed with this object."""

    def __init__(self, stream: BinaryIO | TextIO) -> None:
        folder = tempfile.mkdtemp(prefix="adjudge-")
        self._removal = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "spool"
        with self.path.open("wb") as file:
            while data := stream.read(1 << 20):
                file.write(data.encode() if isinstance(data, str) else data)  # an open file may be of text


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device or an open descriptor: read once, written to directly, never replaced."""
    if descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path names, such as /dev/stdout or a shell's /dev/fd/63."""
    name = str(path)
    if name in STANDARD:
        return STANDARD[name]
    folder, number = os.path.split(name)
    return int(number) if folder in ("/dev/fd", "/proc/self/fd") and number.isdecimal() else None


def batches(
    path: Path | Spool,
    wanted: Wanted,
    form: Format | None = None,
    name: str | None = None,
    *,
    layout: Layout = PLAIN,
    reading: Reading | None = None,
    skip: int = 0,
) -> Iterator[pl.DataFrame]:
    """Yield the wanted columns of a file, named by their role, in file order, without the first `skip` rows (of votes).

    `name` is the file's in messages. `reading` is told what was understood.
    """
    spool, path = (path, path.path) if isinstance(path, Spool) else (None, path)
    name = name or str(path)
    form = form or format_of(path)
    if path.is_dir():
        raise InputError(f"{name} is a folder: name a file, or a pattern like {name}/*.csv")
    try:
        before = _stamp(path)
        if before[0] == 0:
            raise InputError(f"{name} is empty: a header line and a line per vote are expected")
        decoded = _decoded(path, form, name)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    text = path if decoded is None else decoded.path
    try:
        form = _separated(text, form, layout, name)
        lazy = _scan(text, form, layout.header)
        header = list(lazy.collect_schema())
        if any("\0" in column for column in header):
            raise InputError(NULS.format(name=name))
        _refuse_repeats(header, form, name)
        shape = _shape(header, wanted, layout, name, form)
        if reading is not None:
            reading.saw(shape, _described(form, layout))
        chosen = _chosen(lazy, shape, form)
        several = bool(shape.workers) or shape.is_counted  # a line is several votes, or none
        declared = _count_rows(lazy, form)
        if skip and not several:
            chosen, skip, declared = chosen.slice(skip), 0, declared and max(declared - skip, 0)
        empty, rows = True, 0
        # Of a line with too many fields the reader takes the first ones, unless it has to read all of them.
        whole = pl.QueryOptFlags(projection_pushdown=not form.is_text)
        for batch in chosen.collect_batches(optimizations=whole):
            empty = False
            votes = shape.votes(batch, rows)
            rows += len(batch)
            if skip:
                votes, skip = votes[skip:], max(skip - len(votes), 0)
            yield votes
        _require_rows(rows, declared, name)
        if empty:
            yield shape.votes(pl.DataFrame(schema=chosen.collect_schema()))
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise InputError(f"cannot read {name}: {_place(text, form, error)}") from error
    except PANIC as error:
        raise InputError(f"cannot read {name}: it is damaged ({' '.join(str(error).split())[:200]})") from error
    if _stamp(path) != before:
        raise InputError(f"{name} changed while it was read: read it again when nothing writes to it")
    del spool, decoded  # the copies were needed until here


def _count_rows(lazy: pl.LazyFrame, form: Format) -> int | None:
    """Return the number of rows that the metadata of a Parquet or Arrow file declare; None for other formats.

    Batches of a damaged file can end early without an error, because polars drops the panic of a background thread. Counting
    costs nothing here; `whole_batches`, which notices it in any query, makes reading a tenth slower.
    """
    return int(lazy.select(pl.len()).collect().item()) if form.reader in ("parquet", "arrow") else None


def _require_rows(rows: int, declared: int | None, name: str) -> None:
    if declared is not None and rows != declared:
        raise InputError(f"cannot read {name}: it is damaged ({rows} of its {declared} rows can be read)")


def _chosen(lazy: pl.LazyFrame, shape: Shape, form: Format) -> pl.LazyFrame:
    """Return the columns of a table that are read, by role, without the blank lines of a text file, which are no votes."""
    chosen = lazy.select(pl.col(c).alias(role) for role, c in shape.columns.items())
    blank = pl.all_horizontal(pl.all().is_null())
    if shape.is_numbered:  # before lines are left out
        chosen = chosen.with_row_index("task").cast({"task": pl.Int64})
        blank = pl.all_horizontal(pl.exclude("task").is_null())
    return chosen.filter(~blank) if form.is_text else chosen


def sniffed(path: Path, name: str) -> Format:
    """Return the format of a file whose name does not show it (standard input), from its first bytes."""
    try:
        start = start_of(path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {name}: {error}") from error
    encoding = encoding_of(start)
    if encoding is not None:
        start = start[: len(start) // 4 * 4].decode(encoding, "ignore").encode()
    if start.startswith(b"PAR1"):
        return FORMATS[".parquet"]
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return FORMATS[".arrow"]
    if start.lstrip().startswith(b"{"):
        return FORMATS[".jsonl"]
    if start.startswith(ZIP):
        return FORMATS[".xlsx"]
    header = start.split(b"\n", 1)[0]
    return FORMATS[".tsv" if b"\t" in header and b"," not in header else ".csv"]


def scale_in(path: Path, form: Format, wanted: Wanted, layout: Layout) -> list[object] | None:
    """Return the labels in their order where the type of their column says it; whatever is wrong is said by reading."""
    if form.reader not in ("parquet", "arrow") or layout.wide:
        return None
    try:
        schema = _scan(path, form).collect_schema()
        dtype = schema[shape_of(list(schema), wanted, layout, "").columns["label"]]
    except (InputError, OSError, KeyError, pl.exceptions.PolarsError, PANIC):
        return None
    return list(dtype.categories) if isinstance(dtype, pl.Enum) else None


def _separated(path: Path, form: Format, layout: Layout, name: str) -> Format:
    """Return the format of a text file with the separator that is given, or else that of its header.

    A file whose header has one field under its own separator, and several under another, is separated by that one: a
    spreadsheet writes `;` where the comma stands before decimals.
    """
    if not form.is_text:
        if layout.separator is not None or (not layout.header and form.reader != "spreadsheet"):
            raise OptionError(f"{name}: separator and header are for text files, not for {form.name}: leave them out")
        return form
    if layout.separator is not None:
        return replace(form, separator=layout.separator)
    try:
        fields = separators_in(_header_line(path))
    except csv.Error as error:
        raise InputError(f"{name}: its lines end in a carriage return alone: save it with the line ends of today") from error
    other = max(fields, key=lambda mark: fields[mark])
    return replace(form, separator=other) if fields[form.separator] <= 1 < fields[other] else form


def _header_line(path: Path) -> str:
    start = start_of(path).split(b"\n", 1)[0]
    return start.decode("utf-8", "replace").strip("\r\ufeff")


def _shape(header: list[str], wanted: Wanted, layout: Layout, name: str, form: Format) -> Shape:
    """Return the shape of a table; where its columns cannot be told, an error that also says what the file looks like."""
    try:
        return shape_of(header, wanted, layout, name)
    except InputError as error:
        if not form.is_text or not layout.header:
            raise
        fields = separators_in(" ".join(form.separator.join(header).split("\n")))
        other = max(fields, key=lambda mark: fields[mark])
        hint = ""
        if layout.separator is None and fields[other] > len(header):
            hint = f"; the header looks separated by {shown(other)}: separator={shown(other)} (--separator)"
        elif layout.separator is not None and len(header) == 1:
            hint = f"; no line is separated by {shown(layout.separator)}: leave separator out, or give another"
        elif header[0].startswith(("#", "sep=")):
            hint = f"; the first line, {shown(header[0])}, is no header: remove it"
        elif layout.separator is None and len(header) == 1 and len(header[0].split()) > 1:
            hint = "; the header looks separated by spaces: separator=' ' (--separator ' ')"
        elif not any(map(is_known, header)) or any(map(is_number, header)):
            hint = "; where the first line is a vote already: header=False (--no-header)"
        raise InputError(f"{error}{hint}") from None


def _described(form: Format, layout: Layout) -> str:
    """Return the format of a file in words."""
    usual = {"csv": ",", "tsv": "\t", "txt": ","}.get(form.name)
    kind = form.name if usual in (None, form.separator) else f"{form.name}, separated by {shown(form.separator)}"
    kind += "" if layout.header else ", without header"
    return f"{'wide ' if layout.wide else ''}table{' of counts' if layout.count else ''} ({kind})"


def start_of(path: Path, size: int = START) -> bytes:
    """Return the first bytes of a file, after gzip decompression; none for Zstandard files."""
    with path.open("rb") as file:
        start = file.read(size)
    if start.startswith(GZIP):
        with gzip.open(path) as unpacked:
            return unpacked.read(size)
    return b"" if start.startswith(ZSTD) else start


def is_zstandard(path: Path) -> bool:
    """Return whether a file is packed with Zstandard."""
    try:
        return _raw(path, len(ZSTD)) == ZSTD
    except OSError:
        return False


def zstandard_lines(path: Path, lines: int) -> bytes:
    """Return the first lines of a text file that is packed with Zstandard; none where it is damaged, which reading will say."""
    text = pl.scan_csv(path, has_header=False, separator="\x1f", quote_char=None, infer_schema=False, glob=False)
    try:
        found = text.head(lines).collect().to_series()
    except (pl.exceptions.PolarsError, OSError, PANIC):
        return b""
    return "".join(f"{line or ''}\n" for line in found).encode()


def encoding_of(start: bytes) -> str | None:
    """Return the encoding of the byte order mark; None without one."""
    return next((encoding for mark, encoding in MARKS if start.startswith(mark)), None)


def _decoded(path: Path, form: Format, name: str) -> Spool | None:
    """Return a UTF-8 copy of a text file in another encoding; None for a file that needs no copy.

    A file that cannot be decoded is an error.
    """
    if form.reader not in ("text", "lines"):
        with path.open("rb"):  # or it is told now why not
            return None
    try:
        start = start_of(path)
        _refuse_dense(path, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"cannot read {name}: {error}") from error
    encoding = encoding_of(start)
    if encoding is None:
        if b"\0" in start.split(b"\n", 1)[0]:
            raise InputError(NULS.format(name=name))
        if form.reader == "lines":
            _refuse_repeated_keys(start, name)
        return None
    if encoding == "utf-8-sig" and form.is_text:
        return None  # the reader knows this mark
    packed = start[:2] != _raw(path, 2)
    try:
        with gzip.open(path) if packed else path.open("rb") as raw:
            return Spool(_Recoded(raw, encoding))  # type: ignore[arg-type]
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not valid {error.encoding.upper()} ({error.reason}): save the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"cannot read {name}: {error}") from error


class _Recoded:
    """A stream in another encoding as a stream of UTF-8, decoded in chunks."""

    def __init__(self, raw: BinaryIO | gzip.GzipFile, encoding: str) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int) -> bytes:
        """Return some more bytes; none at the end."""
        while data := self._raw.read(size):
            if text := self._decoder.decode(data).encode():
                return text
        return self._decoder.decode(b"", final=True).encode()


def _raw(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _refuse_dense(path: Path, name: str) -> None:
    """Raise for a compressed file with a line far too long for a vote: reading it would exhaust memory.

    The last four bytes of a gzip file give its uncompressed length. Lines are checked, in little memory, only if that
    length is far beyond the usual compression of text.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(2) != GZIP or size < 18:
            return
        file.seek(-4, io.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
    if length < max(MAX_LINE, DENSE * size):
        return
    line = 0
    with gzip.open(path) as unpacked:
        while block := unpacked.read(1 << 20):
            at = block.rfind(b"\n")
            line = line + len(block) if at < 0 else len(block) - at - 1
            if line > MAX_LINE:
                raise InputError(f"{name} expands into a line of more than {MAX_LINE >> 20} MiB: it is not a file of votes")


def _refuse_repeated_keys(start: bytes, name: str) -> None:
    """Raise when an object among the first lines has a key twice: readers differ in which value they use."""

    def keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputError(f"{name}: the key {twice!r} occurs twice in line {number}: keep one of them")
        return found

    lines = start.split(b"\n")
    for number, line in enumerate(lines if len(start) < START else lines[:-1], 1):  # noqa: B007
        try:
            json.loads(line, object_pairs_hook=keys)
        except InputError:
            raise
        except (ValueError, RecursionError):
            return  # the reader will say what is wrong


def _scan(path: Path, form: Format, header: bool = True) -> pl.LazyFrame:
    if form.reader == "parquet":
        return pl.scan_parquet(path, glob=False)
    if form.reader == "arrow":
        with path.open("rb") as file:
            is_file = file.read(6) == b"ARROW1"
        return pl.scan_ipc(path, glob=False) if is_file else pl.read_ipc_stream(path).lazy()
    if form.reader == "lines":
        return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None)
    if form.reader == "spreadsheet":
        return _numbered(_sheet(path, header).lazy(), header)
    # Everything is read as text: "007" is an id, not the number 7.
    table = pl.scan_csv(path, separator=form.separator, infer_schema=False, glob=False, has_header=header)
    return table if header else _numbered(table, header)


def _numbered(table: pl.LazyFrame, header: bool) -> pl.LazyFrame:
    """Return a table whose columns, where it has no header, are called 1, 2, …."""
    names = [] if header else list(table.collect_schema())
    return table.rename({name: str(number) for number, name in enumerate(names, 1)}) if names else table


def _sheet(path: Path, header: bool, **more: Any) -> pl.DataFrame:
    """Return the first sheet of a spreadsheet; the library that reads it is an extra."""
    logging.getLogger("fastexcel").addHandler(QUIET)  # it warns of every column that is empty
    try:
        found: Any = pl.read_excel(path, engine="calamine", has_header=header, raise_if_empty=False, **more)
    except (ImportError, ModuleNotFoundError) as error:
        raise InputError(
            f"{path.name} is a spreadsheet, which needs the library fastexcel: pip install 'adjudge[excel]', or save it as CSV"
        ) from error
    except Exception as error:  # fastexcel has errors of its own, with no base in common with others
        raise InputError(f"cannot read {path}: it is no spreadsheet ({' '.join(str(error).split())[:200]})") from error
    frame: pl.DataFrame = found
    return frame


def sheet_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of a spreadsheet; none where it cannot be read, which reading will say."""
    try:
        return tuple(_sheet(path, header=True, read_options={"n_rows": 1}).columns)
    except InputError:
        return ()


def _refuse_repeats(header: list[str], form: Format, name: str) -> None:
    """Raise when a column occurs twice in a text file; the reader has renamed the second one."""
    again = [c.partition("_duplicated_")[0] for c in header if "_duplicated_" in c]
    if form.is_text and any(c in header for c in again):
        hint = "; where the first line is a vote already: header=False (--no-header)" if any(map(is_number, header)) else ""
        raise InputError(f"{name}: the column {again[0]!r} occurs twice in the header: rename one of them{hint}")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return a file's size, modification time and identity, to detect changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _place(path: Path, form: Format, error: Exception) -> str:
    """Return the fault in one line, with the line number for text files."""
    plain = " ".join(str(error).split())[:300]
    if form.reader not in ("text", "lines") or path.suffix.lower() == ".zst":
        return plain
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
            return _bad_line(raw, form) or plain
    except (OSError, EOFError, zlib.error):
        return plain  # the packing itself is damaged


def _bad_line(raw: Iterable[bytes], form: Format) -> str | None:
    """Return the fault of the first line that is not UTF-8 or has a different number of fields from the header."""
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
                return f"line {number} has {len(fields)} fields, the header {width}: correct or remove that line"
    except UnicodeDecodeError as bad:
        value = bad.object[bad.start]
        return (
            f"line {number} is not valid UTF-8 (byte 0x{value:02x}): save the file as UTF-8 "
            "(from Windows or in Latin-1: iconv -f WINDOWS-1252 -t UTF-8)"
        )
    except csv.Error as bad:
        return f"line {number}: {bad}: correct or remove that line"
    return None


def votes_in(paths: Sequence[Path]) -> int:
    """Return an upper estimate of the votes in these files: from Parquet's metadata, otherwise from the file size."""
    total = 0
    for path in paths:
        try:
            if format_of(path).reader == "parquet":
                total += pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
            else:
                size = path.stat().st_size
                total += size * (UNPACKED if path.suffix.lower() in PACKED else 1) // SHORTEST
        except (
            OSError,
            InputError,
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
        ):  # whoever reads the file will say what is wrong with it
            continue
    return total


def is_encoded(path: Path) -> bool:
    """Return whether this is (or claims to be) a folder of encoded votes."""
    return path.is_dir() and (path / MANIFEST).is_file()
