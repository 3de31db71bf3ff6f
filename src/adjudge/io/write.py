"""Files written completely or not at all: to a temporary file, then renamed; and never over a file that is read.

The temporary file is next to the target, under a name derived from it, and its writer holds a lock on it. A killed
process leaves it there without a lock, and the next write to the same target reuses it. So no more are ever left than
there were concurrent writers, and no folder need be searched for them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain, combinations
from pathlib import Path
from typing import Any, BinaryIO, Final

import polars as pl
from polars.io.plugins import register_io_source

from adjudge.errors import InputError, itemize, write_error
from adjudge.io.files import descriptor, is_stream

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]
WRITE_CHUNK_LINES: Final = 1 << 16  # lines made into text at once
SHEET: Final = ".xlsx"
# Suffix -> the end of the method of polars (write_csv, sink_csv) and its options.
WRITERS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    ".csv": ("csv", {}),
    ".tsv": ("csv", {"separator": "\t"}),
    ".jsonl": ("ndjson", {}),
    ".ndjson": ("ndjson", {}),
    ".json": ("json", {}),  # an array of records, which polars does not write
    ".parquet": ("parquet", {"compression": "lz4"}),
    ".pq": ("parquet", {"compression": "lz4"}),
    SHEET: ("sheet", {}),  # by another library
}
NOT_PAGES: Final = (".pdf", ".docx", ".md", ".txt", ".png", ".svg")  # suffixes that people expect a report to have
Place = str | os.PathLike[str] | int  # a path, or an open descriptor
WRITERS_AT_ONCE: Final = 8  # writers of one target that take a name each; more of them take names that nobody reuses


def check_target(path: Path) -> None:
    """Raise if a frame cannot be written there, before any long work."""
    check_suffix(path)
    check_folder(path)


def check_files(outputs: Mapping[str, Place | None], inputs: Mapping[str, Any] | None = None) -> None:
    """Raise when an output is also an input, or two outputs are one file, by any route.

    Both are named as the user knows them. Inputs are anything `read` takes; those that are not files are ignored. Paths are
    compared with links and dots resolved, and by device and inode, so that hard links and other spellings are recognised.
    """
    written = {name: (place, identities(place)) for name, place in outputs.items() if place is not None}
    for (one, (first, some)), (other, (second, more)) in combinations(written.items(), 2):
        if some & more:
            raise InputError(
                f"two outputs have the same path: {one} {first} and {other} {second} are one file; give each its own"
            )
    for source, (path, read) in _inputs(inputs or {}):
        for name, (place, own) in written.items():
            where = name if isinstance(place, int) else f"{name} {place}"
            if own & read:
                raise InputError(f"{where} is read as well, as {source}, and would be lost: give another path to write to")
            if isinstance(path, Path) and not isinstance(place, int) and path.is_dir() and lies_in(place, path):
                raise InputError(f"{where} is inside {path}, which is read as {source}: give a path outside that folder")


def check_replaced(folder: Path, source: Any, what: str = "the votes") -> None:
    """Raise when an input is inside a folder that is about to be replaced."""
    for _, (path, _) in _inputs({what: source}):
        if isinstance(path, Path) and lies_in(path, folder):
            raise InputError(f"cannot write {folder}: {path}, read as {what}, is inside and would be lost; name another folder")


def _inputs(inputs: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Path | int, set[object]]]]:
    """Yield every file that is read, with the name of the input."""
    from adjudge.io.sources import Opened

    for name, source in inputs.items():
        for path in Opened.of(source).inputs:
            yield name, (path, identities(path))


def identities(place: Place) -> set[object]:
    """Return the identities of a file: its path with links resolved, and its device and inode.

    Devices (such as /dev/null) have none, because writing there replaces nothing. Nor have descriptors that are not files.
    """
    resolved: set[object] = set() if isinstance(place, int) else {os.path.normcase(os.path.realpath(place))}
    try:
        status = os.fstat(place) if isinstance(place, int) else os.stat(place)  # noqa: PTH116
    except OSError:
        return resolved
    if stat.S_ISCHR(status.st_mode) or (isinstance(place, int) and not stat.S_ISREG(status.st_mode)):
        return set()
    return resolved | {(status.st_dev, status.st_ino)}


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether a path is this folder, or anywhere below it, links resolved.

    >>> lies_in("votes/../crowd/a.csv", "crowd"), lies_in("crowd.csv", "crowd")
    (True, False)
    """
    inner, outer = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    own = identities(outer)
    return any(identities(place) & own for place in (inner, *inner.parents))


def check_suffix(path: Path) -> None:
    """Raise when a path's suffix names no format that can be written."""
    if _form(path) not in WRITERS:
        raise InputError(f"cannot write {path}: the suffix {path.suffix!r} names no known format; known are {itemize(WRITERS)}")
    if _form(path) == SHEET:
        from adjudge.io.spreadsheet import require_writer

        require_writer(path)


def _form(path: Path) -> str:
    """Return the suffix of the format to write; CSV for a pipe or device without a suffix."""
    return ".csv" if not path.suffix and is_stream(path) else path.suffix.lower()


def check_folder(path: Path) -> None:
    """Raise when no file can be written at this path."""
    try:
        is_folder = path.is_dir()
        real = path if is_stream(path) else _resolve(path)
    except (OSError, ValueError) as error:  # too long, links in a circle, a NUL
        raise InputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    if is_folder:
        raise InputError(f"cannot write {path}: it is a folder")
    if not is_stream(path):
        check_parent(real)


def check_page(path: Path) -> None:
    """Raise when no HTML page can be written at this path, or its suffix promises another format."""
    if path.suffix.lower() in (*WRITERS, *NOT_PAGES):
        raise InputError(f"cannot write {path}: the page is HTML; name it {path.with_suffix('.html').name}")
    check_folder(path)


def _resolve(path: Path) -> Path:
    """Return the file to replace: the target of a link, which need not exist yet."""
    if not path.is_symlink():
        return path
    with suppress(FileNotFoundError):
        path.stat()  # raises for links in a circle
    return Path(os.path.realpath(path))


def check_parent(path: Path) -> None:
    """Raise if the folder of this path does not exist or is not writable."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission in the folder {path.parent}")


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame in the format its suffix names; a failure or Ctrl-C leaves the old file unchanged."""
    check_target(path)
    write_aside(path, lambda aside: _write(frame, [frame], path, aside))


def write_batches(batches: Iterable[pl.DataFrame], path: Path, progress: Callable[[int], object] | None = None) -> None:
    """Write frames one after the other into one file, in the memory of a few of them."""
    check_target(path)

    def write(aside: Path) -> None:
        coming = iter(batches)
        first = next(coming, None)
        if first is None:
            _write(pl.DataFrame(), [], path, aside)
            return
        counted = _report(chain([first], coming), progress)
        query = register_io_source(lambda *_: counted, schema=first.schema, validate_schema=False)
        _write(query, counted, path, aside)

    write_aside(path, write)


def _report(batches: Iterable[pl.DataFrame], progress: Callable[[int], object] | None) -> Iterator[pl.DataFrame]:
    for batch in batches:
        if progress is not None:
            progress(len(batch))
        yield batch


def _write(frame: pl.DataFrame | pl.LazyFrame, batches: Iterable[pl.DataFrame], path: Path, aside: Path) -> None:
    """Write a frame, or a query, in the format of the target's suffix; `batches` are the same rows."""
    name, options = WRITERS[_form(path)]
    if name == "json":
        _write_json(batches, aside)
    elif name == "sheet":
        from adjudge.io.spreadsheet import write_sheet

        write_sheet(batches, path, aside)
    else:
        getattr(frame, f"{'sink' if isinstance(frame, pl.LazyFrame) else 'write'}_{name}")(aside, **options)


def _write_json(batches: Iterable[pl.DataFrame], path: Path) -> None:
    """Write frames as one JSON array of records, a record per line."""
    with path.open("wb") as file:
        before = b"[\n"
        for batch in batches:
            for piece in batch.iter_slices(WRITE_CHUNK_LINES):
                lines = piece.write_ndjson().rstrip("\n").replace("\n", ",\n")
                file.write(before + lines.encode())
                before = b",\n"
        file.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def write_stream(frames: pl.DataFrame | Iterable[pl.DataFrame], stream: BinaryIO) -> None:
    """Write frames one after the other as CSV to a stream; a closed reader raises BrokenPipeError."""
    for number, frame in enumerate([frames] if isinstance(frames, pl.DataFrame) else frames):
        if not number:
            stream.write(frame.clear().write_csv().encode())
        for piece in frame.iter_slices(WRITE_CHUNK_LINES):
            stream.write(piece.write_csv(include_header=False).encode())
    stream.flush()


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path next to the target, then rename it to the target.

    A link is kept, and its target is replaced. A pipe, a device or an open descriptor is written to directly.
    """
    try:
        if is_stream(path):
            _write_through(path, write)
            return
        target = _resolve(path)
        with _aside(target) as aside:
            write(aside)
            aside.replace(target)
    except BrokenPipeError:
        raise  # the reader has left: not an error of the write
    except (OSError, pl.exceptions.PolarsError) as error:
        raise write_error(path, error) from error


def _write_through(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a pipe or device through a temporary file, since not every format can be written sequentially."""
    with tempfile.TemporaryDirectory(prefix="adjudge-") as folder:
        aside = Path(folder) / f"out{path.suffix or '.csv'}"
        write(aside)
        number = descriptor(path)
        with aside.open("rb") as file, path.open("wb") if number is None else os.fdopen(os.dup(number), "wb") as target:
            shutil.copyfileobj(file, target, 1 << 20)


@contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """Yield an empty temporary file next to the target that no other writer uses; its name is removed afterwards."""
    handle, aside = _claim(target)
    if not hasattr(fcntl, "flock"):  # Windows does not rename an open file
        os.close(handle)
        try:
            yield aside
        finally:
            aside.unlink(missing_ok=True)
        return
    try:
        yield aside
    finally:
        try:
            _unlink(aside, handle)
        except KeyboardInterrupt:  # Ctrl-C may arrive twice: once in polars, once here
            _unlink(aside, handle)
            raise
        finally:
            os.close(handle)  # and the lock with it


def _unlink(aside: Path, handle: int) -> None:
    """Remove a temporary file, unless it was renamed: its name may belong to another writer by now."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), os.lstat(aside)):
            aside.unlink()


def _claim(target: Path) -> tuple[int, Path]:
    """Return a locked and empty file next to the target, and its name; files of killed writers are reused or removed."""
    start = f".adjudge-{blake2b(os.fsencode(target.name), digest_size=6).hexdigest()}-"
    claimed = None
    for number in range(WRITERS_AT_ONCE if fcntl is not None else 0):
        path = target.parent / f"{start}{number}{target.suffix}"
        handle = _lock(path, os.O_RDWR | (os.O_CREAT if claimed is None else 0))
        if handle is None:
            continue
        if claimed is None:
            os.ftruncate(handle, 0)
            claimed = handle, path
        else:  # left by one of two writers, both killed
            path.unlink(missing_ok=True)
            os.close(handle)
    if claimed is not None:
        return claimed
    path = target.parent / f"{start}{secrets.token_hex(8)}{target.suffix}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), path


def _lock(path: Path, flags: int) -> int | None:
    """Return a descriptor of this file that holds its lock; None if there is no such file, or it cannot be locked."""
    try:
        # The system applies the process's mode mask, which no thread may touch.
        handle = os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except (FileNotFoundError, PermissionError):
        if flags & os.O_CREAT and not os.path.lexists(path):
            raise
        return None
    except OSError:
        if flags & os.O_CREAT and not path.is_symlink():
            raise  # a full disk, a folder that is gone
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own, there = os.fstat(handle), os.lstat(path)  # its previous owner may have renamed or removed it
        if os.path.samestat(own, there) and stat.S_ISREG(own.st_mode) and own.st_nlink == 1 and own.st_uid == os.geteuid():
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass  # somebody writes there, or has finished
    except OSError:  # a file system without locks: names that tell the target are of no use there
        path.unlink(missing_ok=True)
    os.close(handle)
    return None
