"""One label per task, from any source: truth to measure by, gold to learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Gold
from adjudge.errors import InputError, listed, shown
from adjudge.io.ids import matched, prepared, series_of, vocabulary
from adjudge.io.sources import Source, read_frame
from adjudge.io.suspicious import SOME, unmatched, warn_suspicious


def read_answers(source: Source, what: str, task: str | None = None, label: str | None = None) -> tuple[pl.DataFrame, FrameKind]:
    """Return (frame of task and label as text, the kind of frame it came in); tasks without a label are left out.

    A dict task -> label is also accepted. A task with two labels is an error.
    """
    if is_dict(source):
        kind: FrameKind = "polars"
        frame = of_dict(source)
    else:
        role = {"truth": "truth", "gold": "gold label"}[what]
        frame, kind = read_frame(source, {"task": task, role: label})
        frame = frame.rename({role: "label"})
    return one_each(texts(frame), what, "label"), kind


def matching_answers(source: Source, what: str, tasks: Vocabulary, *, strict: bool = False) -> pl.DataFrame:
    """Return what `read_answers` does, of votes on these tasks: warn where most answers are of other tasks, raise where all are.

    `strict` makes an error of the warning.
    """
    frame, _ = read_answers(source, what)
    given = vocabulary(frame["task"])
    place = tasks.codes(given.ids()) if tasks.is_hashed else matched(given, tasks)
    strangers = given.take(np.flatnonzero(place < 0)[:SOME])
    ours = tasks.take(np.arange(min(len(tasks), SOME)))
    there = int((place >= 0).sum())
    signs = unmatched(what, (len(given), len(tasks), there), strangers.ids(), ours.ids())
    warn_suspicious(signs, strict=strict)
    return frame


def is_dict(source: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether this is a dict task -> label, not a dict of columns."""
    return isinstance(source, Mapping) and not any(isinstance(v, Iterable) and not isinstance(v, str) for v in source.values())


def of_dict(source: Mapping[object, object]) -> pl.DataFrame:
    """Return a dict task -> label as a frame."""
    return pl.DataFrame({"task": series_of(list(source), "task"), "label": series_of(list(source.values()), "label")})


def texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks and labels of a frame as text: ids are compared as such."""
    return frame.select(text_column(frame["task"], "task"), text_column(frame["label"], "label"))


def text_column(series: pl.Series, name: str) -> pl.Series:
    """Return a column of ids as text."""
    return prepared(series, name).cast(pl.String).alias(name)


def one_each(frame: pl.DataFrame, what: str, thing: str) -> pl.DataFrame:
    """Return the lines that have a label, without repeats; two labels of one task are an error."""
    frame = frame.drop_nulls("label").unique(maintain_order=True)
    twice = frame["task"].is_duplicated()
    if twice.any():
        again = frame.filter(twice)
        first = again.filter(pl.col("task") == again["task"][0])["label"].unique(maintain_order=True)
        raise InputError(
            f"the {what} give{'s' if what == 'gold' else ''} task {shown(again['task'][0])} more than one {thing} "
            f"({listed(first)}): keep one per task"
        )
    return frame


def read_gold(source: Source | Gold, labels: Vocabulary) -> Gold:
    """Return gold (a frame, a file or a dict task -> label) in codes; an unknown label is an error."""
    if isinstance(source, Gold):
        return source
    frame, _ = read_answers(source, "gold")
    code = dict(zip(labels.texts(), range(len(labels)), strict=True))
    for task, label in frame.filter(~pl.col("label").is_in(list(code))).head(1).iter_rows():
        raise InputError(
            f"gold gives task {shown(task)} the label {shown(label)}, which is not among the labels: "
            f"{listed(labels.ids()) or '(none)'}; declare it with labels=… when no vote has it"
        )
    codes = frame["label"].replace_strict(code, return_dtype=pl.Int32) if len(frame) else pl.Series([], dtype=pl.Int32)
    return Gold(vocabulary(frame["task"]), codes.to_numpy())


def gold_codes(gold: Gold, tasks: Vocabulary) -> NDArray[np.int32]:
    """Return the label of each of these tasks, [tasks]; -1 for tasks without gold."""
    if tasks.is_hashed:  # these may be too many for a table in memory
        place = tasks.codes(gold.tasks.ids())
        out = np.full(len(tasks), -1, np.int32)
        out[place[place >= 0]] = gold.labels[place >= 0]
        return out
    place = matched(tasks, gold.tasks)
    codes = np.append(gold.labels, np.int32(-1))
    return codes[place]  # place -1, for tasks without gold, is the last one
