"""Any source of votes to `Votes`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from quorate.errors import OptionError
from quorate.io.encode import Encoder
from quorate.io.encoded.manifest import is_encoded
from quorate.io.files import Wanted
from quorate.io.sources import Source, concat, open_table
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
    """Returns the votes of files, a frame, Arrow data, tuples (task, worker, label), a dict of columns or an encoded folder.

    `task`, `worker` and `label` name the columns where their usual names do not tell; `labels` declares the
    label set and its order; `duplicates` says which of a worker's votes on one task count (all, last, first,
    or error). Sources are read batch by batch: memory stays near that of the encoded votes.

    >>> import quorate as qr
    >>> qr.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    """
    folder = encoded_folder(source)
    if folder is not None:
        refuse_options("encode", task, worker, label, labels, duplicates=duplicates)
        from quorate.io.encoded.mapped import open_encoded

        return open_encoded(folder, hold=True)
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
        refuse_options("read", task, worker, label, labels, duplicates=duplicates)
        return source
    return read(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)


def encoded_folder(source: object) -> Path | None:
    """Returns the folder of encoded votes that this names, or None."""
    if not isinstance(source, str | os.PathLike) or not is_encoded(Path(source)):
        return None
    return Path(source)


def refuse_options(by: str, *given: object, duplicates: str = "all") -> None:
    """Raise when options of reading are given for votes that are read already."""
    if any(option is not None for option in given) or duplicates != "all":
        raise OptionError(f"these votes are read already: give task, worker, label, labels and duplicates to {by}()")


def read_frame(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Returns the wanted columns of any source as one frame, and the caller's kind of frame."""
    table = open_table(source, wanted)
    return concat(table.batches), table.frame_kind
