"""Tables that Spark reads and writes: paths, URIs and patterns, their format told by the suffix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from quorate.errors import InputError, listed
from quorate.spark.session import Frame, plain_errors, session

# An id keeps its spaces, and quotes are doubled within quotes, as everybody but Spark writes them.
TEXT: Final = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
SHAPES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = MappingProxyType(
    {
        ".parquet": ("parquet", {}),
        ".pq": ("parquet", {}),
        ".orc": ("orc", {}),
        ".csv": ("csv", TEXT),
        ".tsv": ("csv", {**TEXT, "sep": "\t"}),
        ".json": ("json", {}),
        ".jsonl": ("json", {}),
        ".ndjson": ("json", {}),
    }
)
PACKED: Final = (".gz", ".zst", ".bz2")


def scan(names: Sequence[str], master: str | None = None) -> tuple[Frame, bool]:
    """Returns the table that lies at these paths, URIs or patterns, and whether it is text (CSV), whose ids are all texts."""
    spark = session(master)
    shapes = {_shape(name, spark) for name in names}
    if len(shapes) > 1:
        raise InputError(f"{listed(names)}: files of several formats cannot be read together; read them in two calls")
    suffix = shapes.pop()
    form, options = SHAPES[suffix]
    with plain_errors(f"cannot read {listed(names)}"):
        reader = spark.read.format(form).options(**options)
        if form in ("csv", "json"):
            reader = reader.option("mode", "FAILFAST")  # a torn line is an error, not a vote
        if form == "csv":  # "007" is an id, not the number 7; and a line is torn in columns that nobody asks for, too
            reader = reader.options(inferSchema="false", columnPruning="false")
        return reader.load(list(names)), form == "csv"


def check_target(name: str, spark: Any) -> None:
    """Raises when a frame cannot be written there, so that it is known before long work."""
    suffix = PurePosixPath(name.rstrip("/")).suffix.lower()
    if suffix not in SHAPES:
        raise InputError(f"cannot write {name}: the suffix {suffix!r} names no known format; known are {listed(SHAPES)}")
    with plain_errors(f"cannot write {name}"):
        path, files = _hadoop(name, spark)
        if files.exists(path):
            raise InputError(f"cannot write {name}: it exists already; remove it, or name another folder")


def save(frame: Frame, name: str) -> None:
    """Writes a Spark frame as a folder of files, in the format its suffix names; what exists is never overwritten."""
    form, options = SHAPES[PurePosixPath(name.rstrip("/")).suffix.lower()]
    with plain_errors(f"cannot write {name}"):
        frame.write.format(form).options(**options).mode("errorifexists").save(name)


def _shape(name: str, spark: Any) -> str:
    """Returns the suffix that tells a name's format: its own, or that of the files in the folder."""
    suffix = _suffix(name)
    if suffix in SHAPES:
        return suffix
    with plain_errors(f"cannot read {name}"):
        path, files = _hadoop(name, spark)
        if not any(mark in name for mark in "*?[{") and not files.exists(path):
            raise InputError(f"cannot read {name}: there is no such file or folder")
        found = files.globStatus(path) or []
        inside = [s for status in found if status.isDirectory() for s in files.listStatus(status.getPath())]
        known = {_suffix(s.getPath().getName()) for s in inside} & SHAPES.keys()
    if len(known) != 1:
        raise InputError(f"{name}: neither its suffix nor its files tell the format; known are {listed(SHAPES)}")
    return known.pop()


def _suffix(name: str) -> str:
    path = PurePosixPath(name.rstrip("/"))
    return PurePosixPath(path.stem).suffix.lower() if path.suffix.lower() in PACKED else path.suffix.lower()


def _hadoop(name: str, spark: Any) -> tuple[Any, Any]:
    """Returns a path and its file system, as Hadoop knows them."""
    context = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(name)
    return path, path.getFileSystem(context._jsc.hadoopConfiguration())
