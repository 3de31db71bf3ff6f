"""What is evaluated: labels with their confidence, truth and probabilities, read from any source and matched by task id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, shown
from quorate.io.answers import is_dict, of_dict, one_each, read_answers, text_column, texts
from quorate.io.columns import REST
from quorate.io.read import read_frame
from quorate.io.sources import Source
from quorate.result import Result
from quorate.votes import FrameKind

BEYOND: Final = 1e-6  # how far a probability may leave 0 to 1 by rounding
ABOUT_ONE: Final = 0.01  # how far the probabilities of a task may be from 1 together: people round them
MARKS: Final = ("true", "false")  # as text files hold booleans


def read_labels(source: Result | Source, task: str | None, label: str | None) -> tuple[pl.DataFrame, FrameKind]:
    """Returns (task and label as text, confidence, gold; the kind of frame they came in) of the tasks with a label.

    Confidence is null where it is not known; gold is false where no column of that name says otherwise.
    """
    if isinstance(source, Result):
        frame, kind = source.labels_frame(), source.votes.frame_kind
    elif is_dict(source):
        frame, kind = of_dict(source), "polars"
    else:
        frame, kind = read_frame(source, {"task": task, "label": label, "confidence": None, "gold": None})
    known = frame["confidence"] if "confidence" in frame.columns else pl.repeat(None, len(frame), dtype=pl.Float64, eager=True)
    given = _marks(frame["gold"]) if "gold" in frame.columns else None
    out = texts(frame).with_columns(
        confidence=_probability(known, frame["task"], "confidence"),
        gold=pl.lit(False) if given is None else given,
    )
    return one_each(out, "labels", "label or confidence" if "confidence" in frame.columns else "label"), kind


def read_truth(source: Source, task: str | None, label: str | None) -> pl.DataFrame:
    """Returns task and label as text, of the tasks whose truth is known."""
    if isinstance(source, Result):
        return one_each(texts(source.labels_frame()), "truth", "label")
    return read_answers(source, "truth", task, label)[0]


def read_probabilities(source: Result | Source, tasks: pl.Series) -> tuple[dict[str, int], NDArray[np.float64]]:
    """Returns (column of each label, probabilities [tasks, K]) for these tasks; lines are NaN where nothing is known."""
    if isinstance(source, Result):
        frame = source.probabilities_frame()
    else:
        frame, _ = read_frame(source, {"task": None, REST: None})
    names = [name for name in frame.columns if name != "task"]
    if not names:
        raise InputError("the probabilities have no column beside the task: give one for each label")
    frame = frame.with_columns(text_column(frame["task"], "task"))
    if frame["task"].is_duplicated().any():
        again = frame.filter(pl.col("task").is_duplicated())["task"][0]
        raise InputError(f"the probabilities have task {shown(again)} twice: keep one line per task")
    found = pl.DataFrame({"task": tasks}).join(frame, on="task", how="left", maintain_order="left")
    if not isinstance(source, Result):
        found = found.with_columns(_probability(found[name], found["task"], f"probability of {name!r}") for name in names)
    matrix = found.select(pl.col(names).cast(pl.Float64).fill_null(np.nan)).to_numpy()
    odd = np.flatnonzero(np.abs(matrix.sum(axis=1) - 1) > ABOUT_ONE)  # NaN is not odd
    if len(odd) and not isinstance(source, Result):
        total, whose = matrix[odd[0]].sum(), shown(found["task"][int(odd[0])])
        raise InputError(f"the probabilities of task {whose} sum to {total:.4g}, not 1: give a column per label, and no other")
    return {name: place for place, name in enumerate(names)}, matrix


def places(labels: pl.Series, columns: Mapping[str, int]) -> NDArray[np.int64]:
    """Returns the column of each label, [n]; -1 for one that has none.

    >>> places(pl.Series(["dog", "task", "cow"]), {"dog": 0, "label task": 1}).tolist()
    [0, 1, -1]
    """
    # A label called like the column of tasks stands there as "label task" (`label_columns`).
    known = {name: columns.get(name, columns.get(f"label {name}", -1)) for name in labels.unique()}
    return labels.replace_strict(known, return_dtype=pl.Int64).to_numpy() if len(labels) else np.zeros(0, np.int64)


def _probability(series: pl.Series, tasks: pl.Series, what: str) -> pl.Series:
    """Returns a column of numbers from 0 to 1; null where nothing (or NaN) is given."""
    if series.dtype == pl.String:
        series = series.str.strip_chars().replace("", None)
    fits = series.dtype.is_numeric() or series.dtype in (pl.String, pl.Null)
    numbers = series.cast(pl.Float64, strict=False) if fits else pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    inside = (numbers.is_nan() | numbers.is_between(-BEYOND, 1 + BEYOND)).fill_null(False)
    odd = (series.is_not_null() & ~inside).arg_true()
    if len(odd):
        at = int(odd[0])
        raise InputError(f"the {what} of task {shown(tasks[at])} is {shown(series[at])}: give a number from 0 to 1")
    return numbers.fill_nan(None).clip(0.0, 1.0).alias(series.name)


def _marks(series: pl.Series) -> pl.Series | None:
    """Returns which tasks are marked; None where the column holds no marks (it may hold true labels)."""
    if series.dtype == pl.Boolean:
        return series.fill_null(False)
    if series.dtype != pl.String:
        return None
    lower = series.str.to_lowercase()
    return (lower == MARKS[0]).fill_null(False) if lower.drop_nulls().is_in(MARKS).all() else None
