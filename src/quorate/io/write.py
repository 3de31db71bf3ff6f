"""Files written whole or not at all: aside, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl
from polars.io.plugins import register_io_source

from quorate.errors import InputError, QuorateError, listed

WRITERS: Final[Mapping[str, Callable[[pl.DataFrame, Path], object]]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    ".jsonl": lambda frame, path: frame.write_ndjson(path),
    ".ndjson": lambda frame, path: frame.write_ndjson(path),
    ".parquet": lambda frame, path: frame.write_parquet(path, compression="lz4"),
    ".pq": lambda frame, path: frame.write_parquet(path, compression="lz4"),
}
SINKS: Final[Mapping[str, Callable[[pl.LazyFrame, Path], object]]] = {
    ".csv": lambda frame, path: frame.sink_csv(path),
    ".tsv": lambda frame, path: frame.sink_csv(path, separator="\t"),
    ".jsonl": lambda frame, path: frame.sink_ndjson(path),
    ".ndjson": lambda frame, path: frame.sink_ndjson(path),
    ".parquet": lambda frame, path: frame.sink_parquet(path),
    ".pq": lambda frame, path: frame.sink_parquet(path),
}


def check_target(path: Path) -> None:
    """Raises when a frame cannot be written there, so that it is known before long work."""
    check_suffix(path)
    check_folder(path)


def check_targets(*frames: Path | None, other: Path | None = None) -> None:
    """Raises when frames (and one other file) cannot be written to these paths, or two of them are the same."""
    given = [path for path in frames if path is not None]
    for path in given:
        check_target(path)
    if other is not None:
        check_folder(other)
        given.append(other)
    if len({path.absolute() for path in given}) < len(given):
        raise InputError("two outputs have the same path: give each its own")


def check_suffix(path: Path) -> None:
    """Raises when a path's suffix names no format that can be written."""
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"cannot write {path}: the suffix {path.suffix!r} names no known format; known are {listed(WRITERS)}")


def check_folder(path: Path) -> None:
    """Raises when no file can be written at this path."""
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    if is_folder:
        raise InputError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission in the folder {path.parent}")


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Writes a frame in the format its suffix names; a failure or Ctrl-C leaves what was there before."""
    check_target(path)
    write_aside(path, lambda aside: WRITERS[path.suffix.lower()](frame, aside))


def write_batches(batches: Iterable[pl.DataFrame], path: Path, progress: Callable[[int], object] | None = None) -> None:
    """Writes frames one after the other into one file, in the memory of a few of them."""
    check_target(path)

    def write(aside: Path) -> None:
        coming = iter(batches)
        first = next(coming, None)
        if first is None:
            WRITERS[path.suffix.lower()](pl.DataFrame(), aside)
            return
        counted = _reported(chain([first], coming), progress)
        source = register_io_source(lambda *_: counted, schema=first.schema, validate_schema=False)
        SINKS[path.suffix.lower()](source, aside)

    write_aside(path, write)


def _reported(batches: Iterable[pl.DataFrame], progress: Callable[[int], object] | None) -> Iterator[pl.DataFrame]:
    for batch in batches:
        if progress is not None:
            progress(len(batch))
        yield batch


def write_stream(frame: pl.DataFrame, stream: BinaryIO) -> None:
    """Writes a frame as CSV to a stream, piece by piece; a reader that has left raises BrokenPipeError."""
    stream.write(frame.clear().write_csv().encode())
    for piece in frame.iter_slices(1 << 16):
        stream.write(piece.write_csv(include_header=False).encode())
    stream.flush()


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with a path beside the target, then renames it onto the target."""
    try:
        handle, name = tempfile.mkstemp(prefix=".quorate-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise QuorateError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    aside = Path(name)
    try:
        write(aside)
        aside.chmod(0o666 & ~_umask())
        aside.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise QuorateError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        try:
            aside.unlink(missing_ok=True)
        except KeyboardInterrupt:  # Ctrl-C may be told twice: once by polars, once here
            aside.unlink(missing_ok=True)
            raise


def _umask() -> int:
    """Returns the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
