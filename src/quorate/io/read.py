"""Any source of votes to `Votes`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from quorate.errors import InputError, OptionError, shown
from quorate.io import frames
from quorate.io.columns import find
from quorate.io.encode import Encoder
from quorate.io.files import read_file
from quorate.io.ids import series_of
from quorate.votes import FrameKind, Votes

# A path, a frame of pandas, polars or pyarrow, tuples, or a dict of columns.
Source: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | Iterable[object] | Any


def read(
    source: Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
) -> Votes:
    """Returns the votes of a file, a frame, tuples (task, worker, label) or a dict of columns.

    `task`, `worker` and `label` name the columns where their usual names do not tell; `labels` declares the
    label set and its order; `duplicates` says which of a worker's votes on one task count (all, last, first,
    or error).

    >>> import quorate as qr
    >>> qr.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    """
    frame, kind, is_text = table(source, {"task": task, "worker": worker, "label": label})
    encoder = Encoder(labels=labels, duplicates=duplicates, narrow=is_text)
    encoder.add(frame)
    return encoder.finish(kind)


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


def table(source: Source, wanted: Mapping[str, str | None]) -> tuple[pl.DataFrame, FrameKind, bool]:
    """Returns (a frame with a column per wanted role, the caller's kind of frame, whether the source is text)."""
    if isinstance(source, str | os.PathLike):
        frame, is_text = read_file(Path(source), wanted)
        return frame, "polars", is_text
    if isinstance(source, Mapping):
        columns = find(list(source), wanted, "the dict")
        series = {role: series_of(source[name], role) for role, name in columns.items()}
        lengths = {columns[role]: len(column) for role, column in series.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns have different lengths: {lengths}")
        return pl.DataFrame(series), "polars", False
    kind = frames.kind_of(source)
    if kind is not None:
        columns = find(frames.columns_of(source), wanted, f"the {kind} frame")
        return frames.select(source, columns), kind, False
    if isinstance(source, Iterable):
        return _from_tuples(source, tuple(wanted)), "polars", False
    raise InputError(
        f"cannot read votes from {shown(source)}: give a path, a frame of pandas, polars or pyarrow, "
        "tuples (task, worker, label) or a dict of columns"
    )


def _from_tuples(source: Iterable[object], roles: tuple[str, ...]) -> pl.DataFrame:
    columns: list[list[object]] = [[] for _ in roles]
    for number, item in enumerate(source, 1):
        if not isinstance(item, tuple | list) or len(item) != len(roles):
            raise InputError(f"item {number} is {shown(item)}: give tuples ({', '.join(roles)})")
        for column, value in zip(columns, item, strict=True):
            column.append(value)
    return pl.DataFrame({role: series_of(column, role) for role, column in zip(roles, columns, strict=True)})
