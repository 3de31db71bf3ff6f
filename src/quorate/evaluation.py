"""How good labels are: against truth, aligned by task id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, shown
from quorate.io import frames
from quorate.io.ids import label_columns, prepared, series_of
from quorate.io.read import read_frame
from quorate.io.sources import Source
from quorate.multi import MultiResult
from quorate.result import Result
from quorate.set_evaluation import evaluate_sets
from quorate.votes import FrameKind


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Accuracy, the figures of every label, and the confusion of labels, on the tasks that have truth."""

    tasks: int  # tasks with both a label and truth
    correct: int
    without_truth: int  # labelled tasks left out because no truth is known
    without_label: int  # tasks with truth left out because they have no label
    label_names: tuple[str, ...]
    matrix: NDArray[np.int64]  # [true, chosen] tasks
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        return f"Evaluation(accuracy {self.accuracy:.4f} on {self.tasks} tasks)"

    @property
    def accuracy(self) -> float:
        """The share of right labels; NaN where no task has truth."""
        return self.correct / self.tasks if self.tasks else float("nan")

    @property
    def per_label(self) -> Any:
        """Label, precision, recall, f1, support (tasks whose truth it is); NaN where nothing can be said."""
        return frames.native(self.per_label_frame(), self.frame_kind)

    @property
    def confusion(self) -> Any:
        """A row per true label, a column per chosen label: numbers of tasks."""
        return frames.native(self.confusion_frame(), self.frame_kind)

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, over labels that are true or chosen somewhere."""
        f1 = self.per_label_frame()["f1"].drop_nans()
        return float(f1.mean()) if len(f1) else float("nan")  # type: ignore[arg-type]

    def per_label_frame(self) -> pl.DataFrame:
        """Returns `per_label` as a polars frame, whatever the caller's kind."""
        hit, support, chosen = np.diag(self.matrix), self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        with np.errstate(invalid="ignore"):
            figures = {"precision": hit / chosen, "recall": hit / support, "f1": 2 * hit / (support + chosen)}
        return pl.DataFrame({"label": pl.Series(self.label_names, dtype=pl.String), **figures, "support": support})

    def confusion_frame(self) -> pl.DataFrame:
        """Returns `confusion` as a polars frame, whatever the caller's kind."""
        columns = {n: self.matrix[:, i] for i, n in enumerate(label_columns(self.label_names, "true"))}
        return pl.DataFrame({"true": pl.Series(self.label_names, dtype=pl.String), **columns})

    def summary(self) -> dict[str, object]:
        """Returns every figure as plain Python values, ready for JSON."""
        return {
            "accuracy": _plain(self.accuracy),
            "macro_f1": _plain(self.macro_f1),
            "tasks": self.tasks,
            "correct": self.correct,
            "without_truth": self.without_truth,
            "without_label": self.without_label,
            "labels": [{k: _plain(v) for k, v in row.items()} for row in self.per_label_frame().to_dicts()],
            "confusion": self.matrix.tolist(),
        }


def evaluate(
    labels: Result | MultiResult | Source,
    truth: Source,
    *,
    task: str | None = None,
    label: str | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    multi: bool = False,
) -> Any:
    """Returns how well labels meet the truth. Either is a Result, a frame, a file or a dict task -> label.

    Tasks are matched by id, never by position; ids and labels are compared as text, so 1 meets "1". With `multi`
    labels are sets, and a `SetEvaluation` comes back: exact sets, (task, option) pairs, F1, Jaccard. `task`, `label`,
    `truth_task` and `truth_label` name the columns where their usual names do not tell.

    >>> import quorate as qr
    >>> qr.evaluate({"t1": "cat", "t2": "dog"}, {"t2": "dog", "t1": "dog", "t3": "cat"})
    Evaluation(accuracy 0.5000 on 2 tasks)
    """
    if multi or isinstance(labels, MultiResult):
        return evaluate_sets(labels, truth, task=task, label=label, truth_task=truth_task, truth_label=truth_label)
    chosen, kind = _pairs(labels, "labels", task, label)
    true, _ = _pairs(truth, "truth", truth_task, truth_label)
    both = chosen.join(true, on="task", how="inner", suffix="_true")
    names = tuple(sorted(set(both["label"]) | set(both["label_true"]), key=_natural))
    code = {name: n for n, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), np.int64)
    for row in both.group_by("label_true", "label").len().iter_rows():
        matrix[code[row[0]], code[row[1]]] = row[2]
    return Evaluation(
        tasks=len(both),
        correct=int(np.trace(matrix)),
        without_truth=len(chosen) - len(both),
        without_label=len(true) - len(both),
        label_names=names,
        matrix=matrix,
        frame_kind=kind,
    )


def _pairs(source: Result | Source, what: str, task: str | None, label: str | None) -> tuple[pl.DataFrame, FrameKind]:
    """Returns (frame of task and label as text, the kind of frame it came in); tasks without label are left out."""
    if isinstance(source, Result):
        frame, kind = source.labels_frame(), source.votes.frame_kind
    elif isinstance(source, Mapping) and not any(isinstance(v, Iterable) and not isinstance(v, str) for v in source.values()):
        kind = "polars"
        frame = pl.DataFrame({"task": series_of(list(source), "task"), "label": series_of(list(source.values()), "label")})
    else:
        role = "truth" if what == "truth" else "label"
        frame, kind = read_frame(source, {"task": task, role: label})
        frame = frame.rename({role: "label"})
    frame = frame.select(_text(frame["task"], "task"), _text(frame["label"], "label")).drop_nulls("label")
    frame = frame.unique(maintain_order=True)
    twice = frame["task"].is_duplicated()
    if twice.any():
        again = frame.filter(twice)["task"][0]
        raise InputError(f"the {what} give task {shown(again)} more than one label: keep one per task")
    return frame, kind


def _text(series: pl.Series, name: str) -> pl.Series:
    return prepared(series, name).cast(pl.String).alias(name)


def _natural(label: str) -> tuple[int, int, str]:
    """Orders whole numbers by value, and before other labels."""
    digits = label.removeprefix("-")
    return (0, int(label), "") if digits.isascii() and digits.isdigit() else (1, 0, label)


def _plain(value: object) -> object:
    return None if isinstance(value, float) and value != value else value
