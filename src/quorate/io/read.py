"""Any source of votes to `Votes`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import polars as pl

from quorate.errors import OptionError
from quorate.io.encode import Encoder
from quorate.io.files import Wanted
from quorate.io.sources import Source, concat, open_table
from quorate.io.spark import is_frame
from quorate.io.spark_files import scan
from quorate.io.spark_votes import SparkVotes
from quorate.io.spark_votes import read as read_spark
from quorate.votes import FrameKind, Votes


def read(
    source: Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
) -> Votes:
    """Returns the votes of files, a frame, Arrow data, tuples (task, worker, label) or a dict of columns.

    `task`, `worker` and `label` name the columns where their usual names do not tell; `labels` declares the
    label set and its order; `duplicates` says which of a worker's votes on one task count (all, last, first,
    or error). Sources are read batch by batch: memory stays near that of the encoded votes.

    >>> import quorate as qr
    >>> qr.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    """
    table = open_table(source, {"task": task, "worker": worker, "label": label})
    encoder = Encoder(labels=labels, duplicates=duplicates, narrow=table.is_text)
    for batch in table.batches:
        encoder.add(batch)
    return encoder.finish(table.frame_kind)


def as_votes(
    source: Votes | Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
) -> Votes:
    """Returns votes as they are, and anything else read; options of reading make no sense for the former."""
    if isinstance(source, Votes):
        if any(option is not None for option in (task, worker, label, labels)) or duplicates != "all":
            raise OptionError("these votes are read already: give task, worker, label, labels and duplicates to read()")
        return source
    return read(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)


def as_panel(source: Votes | SparkVotes | Source, engine: object = "auto", **options: Any) -> Votes | SparkVotes:
    """Returns votes in memory, or on Spark: those of a Spark frame, and of paths or URIs that its engine is to read."""
    if isinstance(source, SparkVotes):
        return source
    if is_frame(source):
        return read_spark(source, **options)
    names: Any = [source] if isinstance(source, str | os.PathLike) else source
    are_names = isinstance(names, list | tuple) and bool(names) and all(isinstance(n, str | os.PathLike) for n in names)
    if are_names and getattr(engine, "name", engine) == "spark":
        frame, is_text = scan([os.fspath(name) for name in names])
        return read_spark(frame, narrow=is_text, **options)
    return as_votes(source, **options)


def read_frame(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Returns the wanted columns of any source as one frame, and the caller's kind of frame."""
    table = open_table(source, wanted)
    return concat(table.batches), table.frame_kind
