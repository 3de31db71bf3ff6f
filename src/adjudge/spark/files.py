"""Files and folders that Spark reads and writes: paths, URIs and patterns, also as streams."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from adjudge.errors import InputError, itemize
from adjudge.spark.session import Frame, plain_errors, session

# Ids keep their spaces, and a quote within quotes is doubled; Spark's defaults differ.
CSV_OPTIONS: Final = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
SPARK_FORMATS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = MappingProxyType(
    {
        ".parquet": ("parquet", {}),
        ".pq": ("parquet", {}),
        ".orc": ("orc", {}),
        ".csv": ("csv", CSV_OPTIONS),
        ".tsv": ("csv", {**CSV_OPTIONS, "sep": "\t"}),
        ".json": ("json", {}),
        ".jsonl": ("json", {}),
        ".ndjson": ("json", {}),
    }
)
SPARK_COMPRESSED_SUFFIXES: Final = (".gz", ".zst", ".bz2")
PATTERN: Final = "*?[{"  # what makes a path of Hadoop a pattern
# Where one of these variables is set, or one of these files is there, paths may be on another file system by default.
REMOTE_FILESYSTEM_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT")
SITE_FILES: Final = ("spark-env.sh", "core-site.xml", "hdfs-site.xml")
Sink = Callable[[Frame, int], object]  # takes decisions (task, label, confidence, votes, tie, batch_id) and the batch's id
# In CSV a torn line, another column or another order of columns is an error. A torn line of JSON is a row without a task.
STRICT: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {"mode": "FAILFAST", "enforceSchema": "false", "columnPruning": "false"},
    "json": {"primitivesAsString": "true"},
}
MAX_FILE_AGE: Final = "100000d"  # by default Spark ignores files that are a week older than the newest


def scan(names: Sequence[str], spark: Any) -> tuple[Frame, bool]:
    """Return the table at these paths, URIs or patterns, and whether it is text (CSV), whose ids are all texts."""
    suffixes = {_format_suffix(name, spark) for name in names}
    if len(suffixes) > 1:
        raise InputError(f"{itemize(names)}: files of several formats cannot be read together; read them in two calls")
    suffix = suffixes.pop()
    form, options = SPARK_FORMATS[suffix]
    with plain_errors(f"cannot read {itemize(names)}"):
        reader = spark.read.format(form).options(**options)
        if form in ("csv", "json"):
            reader = reader.option("mode", "FAILFAST")  # a torn line is an error, not a vote
        if form == "csv":  # "007" is an id, not the number 7; and a line may be torn in a column that is not used
            reader = reader.options(inferSchema="false", columnPruning="false")
        return reader.load(list(names)), form == "csv"


def check_names(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raise if a frame cannot be written to a path, or a source is absent, as far as that is known without Spark."""
    for name in targets:
        _output_format(name)
        path = local_path(name)
        if path is not None and path.exists():
            raise _exists(name)
    for name in sources:
        path = local_path(name)
        if path is not None and not any(mark in name for mark in PATTERN) and not path.exists():
            raise _absent(name)


def check_target(name: str, spark: Any) -> None:
    """Raise if a frame cannot be written to a path or URI; called before long work."""
    _output_format(name)
    with plain_errors(f"cannot write {name}"):
        path, files = _hadoop(name, spark)
        if files.exists(path):
            raise _exists(name)


def local_path(name: str) -> Path | None:
    """Return the path on this machine that a name stands for in Spark; None where only Spark knows the file system.

    >>> local_path("file:///tmp/votes.csv"), local_path("s3a://bucket/votes.csv")
    (PosixPath('/tmp/votes.csv'), None)
    """
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", name)
    if scheme is not None:
        return Path(urlsplit(name).path) if scheme[0].lower() == "file:" else None
    return Path(name) if _is_default_file_system_local() else None


def _is_default_file_system_local() -> bool:
    """Return whether nothing that Spark reads at its start could name another file system for paths without a scheme."""
    if any(name in os.environ for name in REMOTE_FILESYSTEM_VARIABLES):
        return False
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (None if home is None else f"{home}/conf")
    if folder is None:
        return True
    defaults = Path(folder) / "spark-defaults.conf"
    named = defaults.exists() and b"fs.default" in defaults.read_bytes()
    return not named and not any((Path(folder) / name).exists() for name in SITE_FILES)


def _output_format(name: str) -> tuple[str, Mapping[str, str]]:
    """Return the format in which Spark writes to a path or URI, and its options; raise if its suffix names none."""
    suffix = PurePosixPath(name.rstrip("/")).suffix.lower()
    if suffix not in SPARK_FORMATS:
        raise InputError(f"cannot write {name}: the suffix {suffix!r} names no known format; known: {itemize(SPARK_FORMATS)}")
    return SPARK_FORMATS[suffix]


def _exists(name: str) -> InputError:
    return InputError(f"cannot write {name}: it exists already; remove it, or name another folder")


def _absent(name: str) -> InputError:
    return InputError(f"cannot read {name}: there is no such file or folder")


def save(frame: Frame, name: str) -> None:
    """Write a Spark frame as a folder of files, in the format of its suffix; never overwrite."""
    form, options = _output_format(name)
    with plain_errors(f"cannot write {name}"):
        frame.write.format(form).options(**options).mode("errorifexists").save(name)


def _format_suffix(name: str, spark: Any) -> str:
    """Return the suffix that names the format: of the path, or of the files in the folder."""
    suffix = _suffix(name)
    if suffix in SPARK_FORMATS:
        return suffix
    with plain_errors(f"cannot read {name}"):
        path, files = _hadoop(name, spark)
        if not any(mark in name for mark in PATTERN) and not files.exists(path):
            raise _absent(name)
        found = files.globStatus(path) or []
        inside = [s for status in found if status.isDirectory() for s in files.listStatus(status.getPath())]
        known = {_suffix(s.getPath().getName()) for s in inside} & SPARK_FORMATS.keys()
    if len(known) != 1:
        raise InputError(f"{name}: neither its suffix nor its files tell the format; known are {itemize(SPARK_FORMATS)}")
    return known.pop()


def _suffix(name: str) -> str:
    path = PurePosixPath(name.rstrip("/"))
    return PurePosixPath(path.stem).suffix.lower() if path.suffix.lower() in SPARK_COMPRESSED_SUFFIXES else path.suffix.lower()


def _hadoop(name: str, spark: Any) -> tuple[Any, Any]:
    """Return a path and its file system as objects of Hadoop."""
    context = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(name)
    return path, path.getFileSystem(context._jsc.hadoopConfiguration())


def watch(
    source: str, *, form: str | None = None, files: int | None = None, master: str | None = None, quiet: bool = False
) -> Frame:
    """Return the files of a folder or pattern, present and future, as a stream of votes; at most `files` per batch.

    `master` and `quiet` are as for `session`.
    """
    path = PurePosixPath(source)
    suffix = f".{form}" if form else path.suffix.lower()
    if suffix not in SPARK_FORMATS:
        raise InputError(f"{source}: its suffix tells no format; name one with --format: {itemize(s[1:] for s in SPARK_FORMATS)}")
    kind, options = SPARK_FORMATS[suffix]
    options = {**options, **STRICT.get(kind, {})}
    if glob.has_magic(path.name):
        source, options["pathGlobFilter"] = source[: -len(path.name)] or ".", path.name
    spark = session(master, quiet=quiet)
    with plain_errors(f"cannot read {source}"):
        first = spark.read.format("binaryFile").options(**options).load(source).select("path").first()
        if first is None:
            raise InputError(f"cannot read {source}: no file is there yet; the first one tells the columns")
        schema = spark.read.format(kind).options(**options).load(first.path).schema
        reader = spark.readStream.format(kind).options(**options).option("maxFileAge", MAX_FILE_AGE).schema(schema)
        return (reader.option("maxFilesPerTrigger", files) if files else reader).load(source)


def into_folder(target: str) -> Sink:
    """Return the sink that writes each batch into `target/batch_id=N`, and overwrites the rest of an interrupted write."""
    form, options = _output_format(target)

    def write(decisions: Frame, number: int) -> None:
        rows = decisions.drop("batch_id")  # readers take it from the name of the folder
        rows.write.format(form).options(**options).mode("overwrite").save(f"{target.rstrip('/')}/batch_id={number}")

    return write
