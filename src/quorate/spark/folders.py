"""Folders of files as Spark streams them: votes in as files appear, decisions out with a folder for each batch."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Final

from quorate.errors import InputError, listed
from quorate.spark.files import SHAPES
from quorate.spark.session import Frame, plain_errors, session

Sink = Callable[[Frame, int], object]  # takes decisions (task, label, confidence, votes, tie, batch_id) and the batch's id

# A torn line of CSV is an error, and so are other columns, or columns in another order. One of JSON is a row without a task.
STRICT: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {"mode": "FAILFAST", "enforceSchema": "false", "columnPruning": "false"},
    "json": {"primitivesAsString": "true"},
}
EVER: Final = "100000d"  # by default Spark overlooks a file that is a week older than the newest


def watch(source: str, *, form: str | None = None, files: int | None = None, master: str | None = None) -> Frame:
    """Returns the votes in the files of a folder or pattern as a stream, with those to come; at most `files` a batch."""
    path = PurePosixPath(source)
    suffix = f".{form}" if form else path.suffix.lower()
    if suffix not in SHAPES:
        raise InputError(f"{source}: its suffix tells no format; name one with --format: {listed(s[1:] for s in SHAPES)}")
    kind, options = SHAPES[suffix]
    options = {**options, **STRICT.get(kind, {})}
    if glob.has_magic(path.name):
        source, options["pathGlobFilter"] = source[: -len(path.name)] or ".", path.name
    spark = session(master)
    with plain_errors(f"cannot read {source}"):
        first = spark.read.format("binaryFile").options(**options).load(source).select("path").first()
        if first is None:
            raise InputError(f"cannot read {source}: no file is there yet; the first one tells the columns")
        schema = spark.read.format(kind).options(**options).load(first.path).schema
        reader = spark.readStream.format(kind).options(**options).option("maxFileAge", EVER).schema(schema)
        return (reader.option("maxFilesPerTrigger", files) if files else reader).load(source)


def into_folder(target: str) -> Sink:
    """Returns the sink that writes each batch into `target/batch_id=N`, over what a killed write left there."""
    suffix = PurePosixPath(target).suffix.lower()
    if suffix not in SHAPES:
        raise InputError(f"cannot write {target}: the suffix {suffix!r} names no known format; known are {listed(SHAPES)}")
    form, options = SHAPES[suffix]

    def write(decisions: Frame, number: int) -> None:
        rows = decisions.drop("batch_id")  # the folder's name tells it, and readers take it from there
        rows.write.format(form).options(**options).mode("overwrite").save(f"{target.rstrip('/')}/batch_id={number}")

    return write
