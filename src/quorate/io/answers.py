"""One label per task, from any source: truth to measure by, gold to learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, listed, shown
from quorate.gold import Gold
from quorate.io.ids import matched, prepared, series_of, vocabulary
from quorate.io.read import read_frame
from quorate.io.sources import Source
from quorate.vocabulary import Vocabulary
from quorate.votes import FrameKind


def read_answers(source: Source, what: str, task: str | None = None, label: str | None = None) -> tuple[pl.DataFrame, FrameKind]:
    """Returns (frame of task and label as text, the kind of frame it came in); tasks without a label are left out.

    A dict task -> label is taken, too. A task with two labels is an error.
    """
    if isinstance(source, Mapping) and not any(isinstance(v, Iterable) and not isinstance(v, str) for v in source.values()):
        kind: FrameKind = "polars"
        frame = pl.DataFrame({"task": series_of(list(source), "task"), "label": series_of(list(source.values()), "label")})
    else:
        role = what if what in ("truth", "gold") else "label"
        frame, kind = read_frame(source, {"task": task, role: label})
        frame = frame.rename({role: "label"})
    return one_each(frame, what), kind


def one_each(frame: pl.DataFrame, what: str) -> pl.DataFrame:
    """Returns tasks and labels as text, each task once; a task with two labels is an error."""
    frame = frame.select(_text(frame["task"], "task"), _text(frame["label"], "label")).drop_nulls("label")
    frame = frame.unique(maintain_order=True)
    twice = frame["task"].is_duplicated()
    if twice.any():
        again = frame.filter(twice)
        first = again.filter(pl.col("task") == again["task"][0])["label"]
        raise InputError(
            f"the {what} give{'s' if what == 'gold' else ''} task {shown(again['task'][0])} more than one label "
            f"({listed(first)}): keep one per task"
        )
    return frame


def read_gold(source: Source, labels: Vocabulary) -> Gold:
    """Returns gold (a frame, a file or a dict task -> label) in codes; a label that is not known is an error."""
    frame, _ = read_answers(source, "gold")
    code = dict(zip(labels.texts(), range(len(labels)), strict=True))
    for task, label in frame.filter(~pl.col("label").is_in(list(code))).head(1).iter_rows():
        raise InputError(
            f"gold gives task {shown(task)} the label {shown(label)}, which is not among the labels: {listed(labels.ids())}; "
            "declare it with labels=… when no vote has it"
        )
    codes = frame["label"].replace_strict(code, return_dtype=pl.Int32) if len(frame) else pl.Series([], dtype=pl.Int32)
    return Gold(vocabulary(frame["task"]), codes.to_numpy())


def gold_codes(gold: Gold, tasks: Vocabulary) -> NDArray[np.int32]:
    """Returns the label of each of these tasks, [tasks]; -1 where gold does not tell."""
    place = matched(tasks, gold.tasks)
    codes = np.append(gold.labels, np.int32(-1))
    return codes[place]  # place -1, for tasks without gold, is the last one


def _text(series: pl.Series, name: str) -> pl.Series:
    return prepared(series, name).cast(pl.String).alias(name)
