"""How good labels are: against truth, aligned by task id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import OptionError
from quorate.io import frames
from quorate.io.ids import label_columns
from quorate.io.sources import Source
from quorate.matching import places, read_labels, read_probabilities, read_truth
from quorate.multi import MultiResult
from quorate.reliability import Calibration, calibration
from quorate.result import Result
from quorate.set_evaluation import evaluate_sets
from quorate.votes import FrameKind


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Accuracy, the figures of every label, the confusion of labels, and what confidence is worth, on tasks with truth.

    Figures of confidence are NaN (the curve None) where no confidence is known. Tasks whose label was given as gold
    count in the accuracy, not in the figures of confidence.
    """

    tasks: int  # tasks with both a label and truth
    correct: int
    without_truth: int  # labelled tasks left out because no truth is known
    without_label: int  # tasks with truth left out because they have no label
    label_names: tuple[str, ...]
    matrix: NDArray[np.int64]  # [true, chosen] tasks
    frame_kind: FrameKind = "polars"
    gold: int = 0  # evaluated tasks whose label was given, not inferred
    gold_correct: int = 0
    calibration: Calibration = field(default_factory=Calibration)

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

    @property
    def accuracy_without_gold(self) -> float:
        """The share of right labels among those that were inferred."""
        inferred = self.tasks - self.gold
        return (self.correct - self.gold_correct) / inferred if inferred else float("nan")

    @property
    def reliability(self) -> Any:
        """The reliability curve, least sure first: lowest and highest confidence of a bin, tasks, confidence, accuracy."""
        return frames.native(self.reliability_frame(), self.frame_kind) if self.calibration.tasks else None

    @property
    def expected_calibration_error(self) -> float:
        """The mean over tasks of how far the confidence of their bin is from its accuracy."""
        return self.calibration.expected_calibration_error

    @property
    def brier(self) -> float:
        """The mean squared distance of all probabilities of a task from the truth, 0 to 2; needs all of them."""
        return self.calibration.brier

    @property
    def confidence_brier(self) -> float:
        """The mean squared distance of the confidence from 1 where the label is right and 0 where it is wrong, 0 to 1."""
        return self.calibration.confidence_brier

    @property
    def log_loss(self) -> float:
        """The mean of -log of the true label's probability (below 1e-12 it counts as 1e-12); needs all probabilities."""
        return self.calibration.log_loss

    @property
    def expected_errors(self) -> float:
        """The number of wrong labels that the confidence foretells: `calibration.errors` are there."""
        return self.calibration.expected_errors

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

    def reliability_frame(self) -> pl.DataFrame:
        """Returns `reliability` as a polars frame, whatever the caller's kind; without columns where nothing is known."""
        return pl.DataFrame(self.calibration.bins)

    def summary(self) -> dict[str, object]:
        """Returns every figure as plain Python values, ready for JSON."""
        figures = ("expected_errors", "expected_calibration_error", "brier", "confidence_brier", "log_loss")
        known = self.calibration.tasks > 0
        return {
            "accuracy": _plain(self.accuracy),
            "macro_f1": _plain(self.macro_f1),
            "tasks": self.tasks,
            "correct": self.correct,
            "without_truth": self.without_truth,
            "without_label": self.without_label,
            "labels": [{k: _plain(v) for k, v in row.items()} for row in self.per_label_frame().to_dicts()],
            "confusion": self.matrix.tolist(),
            "gold": self.gold,
            "accuracy_without_gold": _plain(self.accuracy_without_gold),
            "tasks_with_confidence": self.calibration.tasks,
            "errors": self.calibration.errors if known else None,
            **{name: _plain(getattr(self.calibration, name)) for name in figures},
            "reliability": self.reliability_frame().to_dicts() if known else None,
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
    probabilities: Result | Source | None = None,
) -> Any:
    """Returns how well labels meet the truth. Either is a Result, a frame, a file or a dict task -> label.

    Tasks are matched by id, never by position; ids and labels are compared as text, so 1 meets "1". With `multi`
    labels are sets, and a `SetEvaluation` comes back: exact sets, (task, option) pairs, F1, Jaccard. `task`, `label`,
    `truth_task` and `truth_label` name the columns where their usual names do not tell.

    Where confidence is known, the evaluation tells what it is worth. A Result knows the probabilities of all labels, a
    frame or file may have a column `confidence`. `probabilities` (a frame or file: the task and a column for each
    label) go before both, and the confidence of a label is then its probability there.

    >>> import quorate as qr
    >>> qr.evaluate({"t1": "cat", "t2": "dog"}, {"t2": "dog", "t1": "dog", "t3": "cat"})
    Evaluation(accuracy 0.5000 on 2 tasks)
    """
    if multi or isinstance(labels, MultiResult):
        if probabilities is not None:
            raise OptionError("probabilities are for labels, not for sets of options: leave them out")
        return evaluate_sets(labels, truth, task=task, label=label, truth_task=truth_task, truth_label=truth_label)
    chosen, kind = read_labels(labels, task, label)
    true = read_truth(truth, truth_task, truth_label)
    both = chosen.join(true, on="task", how="inner", suffix="_true")
    if probabilities is None and isinstance(labels, Result):
        probabilities = labels
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
        gold=int(both["gold"].sum()),
        gold_correct=int((both["gold"] & (both["label"] == both["label_true"])).sum()),
        calibration=_calibration(both.filter(~pl.col("gold")), probabilities),
    )


def _calibration(both: pl.DataFrame, probabilities: Result | Source | None) -> Calibration:
    """Returns the figures of confidence, on the tasks whose confidence is known."""
    right = (both["label"] == both["label_true"]).to_numpy()
    if probabilities is None or not len(both):
        confidence = both["confidence"].to_numpy()
        known = ~np.isnan(confidence)
        return calibration(confidence[known], right[known])
    columns, posterior = read_probabilities(probabilities, both["task"])
    chosen, true = places(both["label"], columns), places(both["label_true"], columns)
    confidence = np.where(chosen < 0, 0.0, posterior[np.arange(len(both)), chosen])
    known = ~np.isnan(posterior).any(axis=1)
    return calibration(confidence[known], right[known], posterior[known], true[known])


def _natural(label: str) -> tuple[int, int, str]:
    """Orders whole numbers by value, and before other labels."""
    digits = label.removeprefix("-")
    return (0, int(label), "") if digits.isascii() and digits.isdigit() else (1, 0, label)


def _plain(value: object) -> object:
    return None if isinstance(value, float) and value != value else value
