"""Files of votes: one table of formats by suffix, batches in file order, and errors that name the line."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import json
import os
import re
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TextIO, cast

import polars as pl

from adjudge.data.votes import Notes
from adjudge.errors import InputError, OptionError, itemize, one_line, quote, read_error
from adjudge.io import spreadsheet, unsupported
from adjudge.io.columns import Shape, is_known, shape_of
from adjudge.io.quotes import quote_fault
from adjudge.io.reading import PLAIN_READING, Reading, Wanted
from adjudge.kernels.cpu import compiled, cores

COMPRESSED_SUFFIXES: Final = (".gz", ".zst")
STANDARD: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
START_BYTES: Final = 1 << 16  # bytes looked at before a file is read
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
ZIP: Final = b"PK\x03\x04"
# Byte order marks, the longer ones first: that of UTF-32 begins like that of UTF-16.
BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
NULS: Final = "{name} is not UTF-8: its first line has NUL bytes, as in UTF-16 without a byte order mark; save the file as UTF-8"
MIN_VOTE_BYTES: Final = 16  # of a line of text: few votes take less
TEXT_COMPRESSION_RATIO: Final = 8  # how far packed text unfolds
MAX_SHOWN_LINES: Final = 200  # of a text file, likewise
MANIFEST: Final = "manifest.json"  # what makes a folder one of encoded votes
SUSPICIOUS_COMPRESSION_RATIO: Final = 100  # text seldom packs better; what does is looked at before it is read
MAX_EXPANDED_LINE_BYTES: Final = 1 << 26  # bytes of a line in a file that is packed that densely
PANIC: Final[type[BaseException]] = pl.exceptions.PanicException  # no Exception, and raised for damaged Parquet and Arrow


@dataclass(frozen=True)
class FileFormat:
    """The format of a suffix; text formats have a separator, and numbers stay as written."""

    reader: Literal["text", "lines", "parquet", "arrow", "spreadsheet"]
    separator: str = ","
    name: str = "csv"  # as people call it

    @property
    def is_text(self) -> bool:
        """Whether ids are stored as text, even if they are numbers."""
        return self.reader == "text"


FILE_FORMATS: Final[Mapping[str, FileFormat]] = {
    ".csv": FileFormat("text"),
    ".tsv": FileFormat("text", "\t", name="tsv"),
    ".txt": FileFormat("text", name="txt"),  # the header shows the separator
    ".jsonl": FileFormat("lines", name="jsonl"),
    ".ndjson": FileFormat("lines", name="jsonl"),
    ".parquet": FileFormat("parquet", name="parquet"),
    ".pq": FileFormat("parquet", name="parquet"),
    ".arrow": FileFormat("arrow", name="arrow"),
    ".feather": FileFormat("arrow", name="arrow"),
    ".ipc": FileFormat("arrow", name="arrow"),
    ".xlsx": FileFormat("spreadsheet", name="xlsx"),
}


def format_of(path: Path) -> FileFormat:
    """Return the format that a path's suffix names; .gz or .zst may follow a text format's.

    >>> format_of(Path("votes.jsonl.gz")).reader
    'lines'
    """
    suffixes = [s.lower() for s in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in COMPRESSED_SUFFIXES
    form = FILE_FORMATS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if form is None or (packed and form.reader not in ("text", "lines")):
        raise InputError(
            f"{path}: the suffix {''.join(suffixes[-2:]) if packed else path.suffix!r} names no known format; "
            f"known are {itemize([*FILE_FORMATS, '.json'])}, and .gz or .zst after those of text{unsupported.of_file(path)}"
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
    path: Path,
    wanted: Wanted,
    form: FileFormat | None = None,
    name: str | None = None,
    *,
    reading: Reading = PLAIN_READING,
    notes: Notes | None = None,
    start: bytes = b"",
    spool: object = None,
    skip: int = 0,
) -> Iterator[pl.DataFrame]:
    """Yield the wanted columns of a file, named by their role, in file order, without the first `skip` rows (of votes).

    `name` is the file's in messages, `start` what `start_of` returned, if somebody has looked already, and `spool` what keeps
    a temporary file. `notes` take what is understood.
    """
    name = name or str(path)
    form = form or format_of(path)
    if path.is_dir():
        raise InputError(f"{name} is a folder: name a file, or a pattern like {name}/*.csv")
    before, start, decoded = _look(path, form, name, start)
    text = path if decoded is None else decoded.path
    try:
        form = _with_separator(form, start, reading, name)
        plain = _plain_header(path, start, form) if form.is_text and reading.header and decoded is None and not skip else None
        lazy = _scan(text, form, reading.header) if plain is None else None
        header = plain or list(cast(pl.LazyFrame, lazy).collect_schema())
        _check_header(header, form, name)
        # Batches of a damaged Parquet or Arrow file can end early without an error, because polars drops the panic of a
        # background thread. Its metadata declare the rows; `whole_batches`, which notices it in any query, is a tenth slower.
        declared = lazy.select(pl.len()).collect().item() if lazy is not None and form.reader in ("parquet", "arrow") else None
        described, shape = _describe(form, reading), _shape(header, wanted, reading, name, form)
        if notes is not None:
            shape.write_to(notes, described)
        rows, skipped, cut, is_whole = 0, skip, 0, False
        if skip and not shape.workers and not shape.is_counted:  # a line is one vote
            rows, skipped, cut = min(skip, declared or 0), 0, skip
        if lazy is None and not shape.is_numbered:
            with path.open("rb", buffering=0) as file:
                core: Any = compiled()
                places = [header.index(column) for column in shape.columns.values()]
                table = core.PlainCsv(file.fileno(), form.separator, len(header), places, [*shape.columns], cores())
                for batch in map(pl.DataFrame, iter(table.next, None)):
                    yield shape.votes(batch, rows)
                    cut = rows = rows + len(batch)
            is_whole = table.is_whole and rows > 0
        if not is_whole:
            chosen = shape.select(_scan(text, form) if lazy is None else lazy, has_blank_lines=form.is_text)
            # Of a line with too many fields the reader takes the first ones, unless it has to read all of them.
            whole, is_empty = pl.QueryOptFlags(projection_pushdown=not form.is_text), True
            for batch in (chosen.slice(cut) if cut else chosen).collect_batches(optimizations=whole):
                votes = shape.votes(batch, rows)
                rows, is_empty = rows + len(batch), False
                yield votes[skipped:]
                skipped = max(skipped - len(votes), 0)
            if is_empty:
                yield shape.votes(pl.DataFrame(schema=chosen.collect_schema()))
        if declared is not None and rows != declared:
            raise InputError(f"cannot read {name}: it is damaged ({rows} of its {declared} rows can be read)")
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise InputError(f"cannot read {name}: {_explain(text, form, error)}") from error
    except PANIC as error:
        raise InputError(f"cannot read {name}: it is damaged ({one_line(error, 200)})") from error
    if _stamp(path) != before:
        raise InputError(f"{name} changed while it was read: read it again when nothing writes to it")
    del spool, decoded  # the copies were needed until here


def _look(path: Path, form: FileFormat, name: str, start: bytes) -> tuple[tuple[int, int, int], bytes, Spool | None]:
    """Return the stamp of a file, its start unless that is known, and a UTF-8 copy if it needs one; raise if it is unreadable."""
    try:
        before = _stamp(path)
        if before[0] == 0:
            raise InputError(f"{name} is empty: a header line and a line per vote are expected")
        start = start or (start_of(path) if form.reader in ("text", "lines") else b"")
        return before, start, _decode(path, form, name, start)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise read_error(name, error) from error


def _plain_header(path: Path, start: bytes, form: FileFormat) -> list[str] | None:
    """Return the header of a text file whose first lines are plain: without quotation marks, and not packed; or None.

    The compiled core reads such lines several times faster than a parser of all that CSV allows, which reads the rest of the
    file, from its first line on that is not plain.
    """
    head, end, _ = start.partition(b"\n")
    with path.open("rb") as file:
        is_plain = end and b'"' not in start and file.read(len(start)) == start and hasattr(compiled(), "PlainCsv")
    # What is not UTF-8 becomes a surrogate, which is not printable.
    names = head.removeprefix(codecs.BOM_UTF8).removesuffix(b"\r").decode("utf-8", "surrogateescape").split(form.separator)
    is_usual = all(name.isprintable() and name for name in names) and len(set(names)) == len(names)
    return names if is_plain and is_usual and form.separator.isascii() and form.separator not in '"\r\n' else None


def sniff_format(start: bytes) -> FileFormat:
    """Return the format of a file whose name does not show it (standard input), from its first bytes."""
    encoding = encoding_of(start)
    if encoding is not None:
        start = start[: len(start) // 4 * 4].decode(encoding, "ignore").encode()
    marks = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ".arrow", ZIP: ".xlsx"}
    header = start.split(b"\n", 1)[0]
    text = ".jsonl" if start.lstrip().startswith(b"{") else ".tsv" if b"\t" in header and b"," not in header else ".csv"
    return FILE_FORMATS[next((suffix for mark, suffix in marks.items() if start.startswith(mark)), text)]


def scale_in(path: Path, form: FileFormat, wanted: Wanted, reading: Reading) -> list[object] | None:
    """Return the labels of a typed file in their order if the type of their column says it; reading says what is wrong."""
    try:
        schema = _scan(path, form).collect_schema()
        dtype = schema[shape_of(list(schema), wanted, reading, "").columns["label"]]
    except (InputError, OSError, KeyError, pl.exceptions.PolarsError, PANIC):
        return None
    return list(dtype.categories) if isinstance(dtype, pl.Enum) else None


def _with_separator(form: FileFormat, start: bytes, reading: Reading, name: str) -> FileFormat:
    """Return the format of a text file with the separator that is given, or else that of its header.

    A file whose header has one field under its own separator, and several under another, is separated by that one: a
    spreadsheet writes `;` where the comma stands before decimals.
    """
    if not form.is_text:
        if reading.separator is not None or (not reading.header and form.reader != "spreadsheet"):
            raise OptionError(f"{name}: separator and header are for text files, not for {form.name}: leave them out")
        return form
    if reading.separator is not None:
        return replace(form, separator=reading.separator)
    text = start.decode(encoding_of(start) or "utf-8", "replace")
    try:
        fields = separators_in(text.partition("\n")[0].strip("\r\ufeff"))
    except csv.Error as error:
        raise InputError(f"{name}: its lines end in a carriage return alone: save it with the line ends of today") from error
    other = max(fields, key=lambda mark: fields[mark])
    return replace(form, separator=other) if fields[form.separator] <= 1 < fields[other] else form


def _shape(header: list[str], wanted: Wanted, reading: Reading, name: str, form: FileFormat) -> Shape:
    """Return the shape of a table; if its columns are unclear, the error also says what the file looks like."""
    try:
        return shape_of(header, wanted, reading, name)
    except InputError as error:
        if not form.is_text or not reading.header:
            raise
        fields = separators_in(" ".join(form.separator.join(header).split("\n")))
        other = max(fields, key=lambda mark: fields[mark])
        hint = ""
        if reading.separator is None and fields[other] > len(header):
            hint = f"; the header looks separated by {quote(other)}: separator={quote(other)} (--separator)"
        elif reading.separator is not None and len(header) == 1:
            hint = f"; no line is separated by {quote(reading.separator)}: leave separator out, or give another"
        elif header[0].startswith(("#", "sep=")):
            hint = f"; the first line, {quote(header[0])}, is no header: remove it"
        elif reading.separator is None and len(header) == 1 and len(header[0].split()) > 1:
            hint = "; the header looks separated by spaces: separator=' ' (--separator ' ')"
        elif not any(map(is_known, header)) or any(map(is_number, header)):
            hint = "; where the first line is a vote already: header=False (--no-header)"
        raise InputError(f"{error}{hint}") from None


def _describe(form: FileFormat, reading: Reading) -> str:
    """Return the format of a file in words."""
    usual = {"csv": ",", "tsv": "\t", "txt": ","}.get(form.name)
    kind = form.name if usual in (None, form.separator) else f"{form.name}, separated by {quote(form.separator)}"
    kind += "" if reading.header else ", without header"
    return f"{'wide ' if reading.wide else ''}table{' of counts' if reading.count else ''} ({kind})"


def start_of(path: Path, size: int = START_BYTES) -> bytes:
    """Return the first bytes of a file, after decompression; of Zstandard only lines of text are seen."""
    with path.open("rb") as file:
        start = file.read(size)
    if start.startswith(GZIP):
        with gzip.open(path) as unpacked:
            return unpacked.read(size)
    return _zstandard_lines(path) if start.startswith(ZSTD) else start


def _zstandard_lines(path: Path) -> bytes:
    """Return the first lines of a text file that is packed with Zstandard; none if it is damaged, which reading will say."""
    text = pl.scan_csv(path, has_header=False, separator="\x1f", quote_char=None, infer_schema=False, glob=False)
    try:
        lines = text.head(MAX_SHOWN_LINES).collect().to_series()
    except (pl.exceptions.PolarsError, OSError, PANIC):
        return b""
    return "".join(f"{line or ''}\n" for line in lines).encode()


def encoding_of(start: bytes) -> str | None:
    """Return the encoding of the byte order mark; None without one."""
    return next((encoding for mark, encoding in BYTE_ORDER_MARKS if start.startswith(mark)), None)


def decode_error(name: str, error: UnicodeDecodeError) -> InputError:
    """Return the error for a file whose bytes are not of the encoding that its byte order mark names."""
    return InputError(f"{name} is not valid {error.encoding.upper()} ({error.reason}): save the file as UTF-8")


def _decode(path: Path, form: FileFormat, name: str, start: bytes) -> Spool | None:
    """Return a UTF-8 copy of a text file in another encoding; None for a file that needs no copy.

    A file that cannot be decoded is an error.
    """
    with path.open("rb") as file:  # or the system says now why not
        is_packed = file.read(2) == GZIP
    if form.reader not in ("text", "lines"):
        return None
    if is_packed:
        _refuse_dense(path, name)
    encoding = encoding_of(start)
    if encoding is None:
        if b"\0" in start.split(b"\n", 1)[0]:
            raise InputError(NULS.format(name=name))
        if form.reader == "lines":
            _refuse_repeated_keys(start, name)
        return None
    if encoding == "utf-8-sig" and form.is_text:
        return None  # the reader knows this mark
    try:
        with gzip.open(path) if is_packed else path.open("rb") as raw:
            return Spool(_Recoded(raw, encoding))  # type: ignore[arg-type]
    except UnicodeDecodeError as error:
        raise decode_error(name, error) from error


def recode(path: Path, name: str, encoding: str) -> Spool:
    """Return a UTF-8 copy of a text file in the encoding that the caller names; a byte order mark must agree with it."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(ZSTD))
        mark = encoding_of(start_of(path))
        if packed == ZSTD:
            raise InputError(f"{name} is packed with Zstandard, which is read as UTF-8 only: unpack it to read another encoding")
        if mark is not None and not mark.startswith(encoding.removesuffix("-sig")):
            raise InputError(f"{name} begins with the byte order mark of {mark.removesuffix('-sig').upper()}: leave encoding out")
        with gzip.open(path) if packed.startswith(GZIP) else path.open("rb") as raw:
            return Spool(_Recoded(raw, mark or encoding))  # type: ignore[arg-type]
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{name} is not valid {encoding.upper()} ({reason}): name its encoding (--encoding)") from error
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise read_error(name, error) from error


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


def _refuse_dense(path: Path, name: str) -> None:
    """Raise for a gzip file with a line far too long for a vote: reading it would exhaust memory.

    The last four bytes of the file give its uncompressed length. Lines are checked, in little memory, only if that
    length is far beyond the usual compression of text.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(size, 4), io.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
    if length < max(MAX_EXPANDED_LINE_BYTES, SUSPICIOUS_COMPRESSION_RATIO * size):
        return
    line = 0
    with gzip.open(path) as unpacked:
        while block := unpacked.read(1 << 20):
            at = block.rfind(b"\n")
            line = line + len(block) if at < 0 else len(block) - at - 1
            if line > MAX_EXPANDED_LINE_BYTES:
                raise InputError(
                    f"{name} expands into a line of more than {MAX_EXPANDED_LINE_BYTES >> 20} MiB: it is not a file of votes"
                )


def _refuse_repeated_keys(start: bytes, name: str) -> None:
    """Raise when an object among the first lines has a key twice: readers differ in which value they use."""

    def keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [key for key, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(key for n, key in enumerate(names) if key in names[:n])
            raise InputError(f"{name}: the key {twice!r} occurs twice in line {number}: keep one of them")
        return dict(pairs)

    lines = start.split(b"\n")
    for number, line in enumerate(lines if len(start) < START_BYTES else lines[:-1], 1):  # noqa: B007
        try:
            json.loads(line, object_pairs_hook=keys)
        except InputError:
            raise
        except (ValueError, RecursionError):
            return  # the reader will say what is wrong


def _scan(path: Path, form: FileFormat, header: bool = True) -> pl.LazyFrame:
    if form.reader == "parquet":
        return pl.scan_parquet(path, glob=False)
    if form.reader == "arrow":
        with path.open("rb") as file:
            is_file = file.read(6) == b"ARROW1"
        return pl.scan_ipc(path, glob=False) if is_file else pl.read_ipc_stream(path).lazy()
    if form.reader == "lines":
        return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None)
    if form.reader == "spreadsheet":
        table = spreadsheet.read_sheet(path, header).lazy()
    else:  # everything is read as text: "007" is an id, not the number 7
        table = pl.scan_csv(path, separator=form.separator, infer_schema=False, glob=False, has_header=header)
    names = [] if header else list(table.collect_schema())  # columns without a header are called 1, 2, …
    return table.rename({name: str(number) for number, name in enumerate(names, 1)}) if names else table


def _check_header(header: list[str], form: FileFormat, name: str) -> None:
    """Raise if a header is not text, or a column of a text file occurs twice; the reader has renamed the second one."""
    if any("\0" in column for column in header):
        raise InputError(NULS.format(name=name))
    again = [c.partition("_duplicated_")[0] for c in header if "_duplicated_" in c]
    if form.is_text and any(c in header for c in again):
        hint = "; where the first line is a vote already: header=False (--no-header)" if any(map(is_number, header)) else ""
        raise InputError(f"{name}: the column {again[0]!r} occurs twice in the header: rename one of them{hint}")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return a file's size, modification time and identity, to detect changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _explain(path: Path, form: FileFormat, error: Exception) -> str:
    """Return the fault in one line, with the line number for text files."""
    plain = one_line(error)
    if form.reader not in ("text", "lines") or path.suffix.lower() == ".zst":
        return plain
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
            found = _bad_line(raw, form)
            if found is None and form.is_text:
                raw.seek(0)
                found = quote_fault((line.decode() for line in raw), form.separator)
            return found or plain
    except (OSError, EOFError, zlib.error):
        return plain  # the packing itself is damaged


def _bad_line(raw: Iterable[bytes], form: FileFormat) -> str | None:
    """Return the fault of the first line that is not UTF-8, not JSON, or has more fields than the header; None for quotes."""
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(raw, 1):  # noqa: B007
            yield line.decode("utf-8")

    try:
        if form.reader == "lines":
            for line in lines():
                if line.strip() and not isinstance(json.loads(line), dict):
                    return f"line {number} is not a JSON object: give one object per line"
            return None
        width, before = None, 0
        reader = csv.reader(lines(), delimiter=form.separator, strict=True)
        for fields in reader:
            width = width or len(fields)
            if len(fields) > width:
                if number > before + 1:  # a quoted field took several lines
                    return None
                return f"line {number} has {len(fields)} fields, the header {width}: correct or remove that line"
            before = number
    except UnicodeDecodeError as bad:
        value = bad.object[bad.start]
        return (
            f"line {number} is not valid UTF-8 (byte 0x{value:02x}): save the file as UTF-8, "
            "or name its encoding (encoding='cp1252', --encoding cp1252, for files from Windows)"
        )
    except csv.Error:
        return None
    except (json.JSONDecodeError, RecursionError) as bad:
        return f"line {number} is not JSON ({bad}): correct or remove that line"
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
                total += size * (TEXT_COMPRESSION_RATIO if path.suffix.lower() in COMPRESSED_SUFFIXES else 1) // MIN_VOTE_BYTES
        except (OSError, InputError, pl.exceptions.PolarsError, PANIC):
            continue  # the reader of the file will raise the proper error
    return total


def is_encoded(path: Path) -> bool:
    """Return whether this is (or claims to be) a folder of encoded votes."""
    return path.is_dir() and (path / MANIFEST).is_file()


def lines_in(start: bytes) -> list[str]:
    """Return the first lines of a text file with their ends, without one that is cut off."""
    text = start.decode(encoding_of(start) or "utf-8", "replace").lstrip("\ufeff")
    lines = text.splitlines()[: -1 if len(start) >= START_BYTES else None]
    return [f"{line}\n" for line in lines[:MAX_SHOWN_LINES]]


def header_in(start: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the separator that makes most fields of a header, the comma if it shows none, and these fields."""
    lines = lines_in(start)
    separators = separators_in(next((line for line in lines if line.strip()), ""))
    separator = max(separators, key=lambda mark: separators[mark])
    return separator, next((tuple(row) for row in csv.reader(lines, delimiter=separator) if row), ())


def separators_in(line: str) -> dict[str, int]:
    """Return how many fields each usual separator makes of a header line.

    >>> list(separators_in('task;"a, b";label').values())
    [2, 3, 1, 1]
    """
    return {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in (",", ";", "\t", "|")}


def is_number(name: str) -> bool:
    """Return whether a text is a number, as no name of a column is."""
    return re.fullmatch(r"\s*-?[0-9]+([.,][0-9]+)?\s*", name) is not None
