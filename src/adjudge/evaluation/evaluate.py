"""How good labels are: accuracy, the figures of every label, and what confidence is worth, aligned with the truth by task id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack, cast, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.grades import Grades, check_order, grades_of, numbers_of
from adjudge.data.options import SET_SEPARATOR
from adjudge.data.votes import FrameKind
from adjudge.errors import OptionError
from adjudge.evaluation.clusters import ClusterSource, TaskClusters, read_clusters
from adjudge.evaluation.inputs import TaskValues, places, read_labels, read_probabilities, read_truth
from adjudge.evaluation.intervals import Estimate, Flags, Floats, clustered_share, or_none, without_nan
from adjudge.evaluation.sets import SetEvaluation, evaluate_sets
from adjudge.io import frames
from adjudge.io.answers import is_dict
from adjudge.io.frames import Frame, label_columns, text_column, vocabulary
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, find_unmatched, warn_suspicious
from adjudge.io.reading import PLAIN_READING
from adjudge.io.sources import Source
from adjudge.models.temperature import log_loss
from adjudge.results.result import Result
from adjudge.results.sets import MultiResult

if TYPE_CHECKING:
    from adjudge.online import Online

MAX_CONFIDENCE_BINS: Final = 10  # at most
ENOUGH: Final = 20  # tasks to a bin: the accuracy of fewer says little
CONFIDENCE_DECIMALS: Final = 3  # confidences that differ by less are the same: else most bins of an EM model say "1.000"
NAN: Final = float("nan")
ACCURACY_LEVEL: Final = 0.9  # of the interval of the accuracy
MAX_CARD_LABELS: Final = 8  # lines of a card
FIGURES: Final = ("mean_absolute_error", "quadratic_kappa", "rank_correlation", "rank_correlation_of_means")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Confidence compared with accuracy, on the tasks that have confidence and truth and are not gold.

    Empty (no tasks, figures NaN) if no confidence is known.
    """

    tasks: int = 0
    errors: int = 0  # wrong labels
    expected_errors: float = NAN  # the sum of 1 - confidence
    expected_calibration_error: float = NAN
    confidence_brier: float = NAN
    brier: float = NAN  # NaN where only the confidence is known, as is log_loss
    log_loss: float = NAN
    bins: dict[str, NDArray[Any]] = field(default_factory=dict)  # lowest, highest, tasks, confidence, accuracy: [bins] each


def calibration(
    confidence: Floats, right: Flags, posterior: Floats | None = None, truth: NDArray[np.integer] | None = None
) -> Calibration:
    """Return the figures of labels given with this confidence, [n], of which some are right, [n].

    posterior [n, K] with truth [n] (codes; -1 for a label without column) are for the figures of all labels.

    >>> found = calibration(np.array([0.9, 0.9, 0.9, 0.6]), np.array([True, True, False, False]))
    >>> found.errors, round(found.expected_errors, 3), round(found.expected_calibration_error, 3)
    (2, 0.7, 0.325)
    """
    n = len(confidence)
    if not n:
        return Calibration()
    bins = reliability_bins(confidence, right)
    gap = np.abs(bins["confidence"] - bins["accuracy"])
    known = posterior is not None and truth is not None
    return Calibration(
        tasks=n,
        errors=int(n - right.sum()),
        expected_errors=float((1.0 - confidence).sum()),
        expected_calibration_error=float((bins["tasks"] * gap).sum() / n),
        confidence_brier=float(np.square(confidence - right).mean()),
        brier=brier(posterior, truth) if known else NAN,  # type: ignore[arg-type]
        log_loss=log_loss(posterior, truth) if known else NAN,  # type: ignore[arg-type]
        bins=bins,
    )


def reliability_bins(confidence: Floats, right: Flags) -> dict[str, NDArray[Any]]:
    """Return the reliability curve: lowest and highest confidence, tasks, mean confidence and accuracy of each bin.

    Bins hold about the same number of tasks; confidences equal to three digits share a bin, so the order of the tasks
    does not matter. The number of less certain tasks decides the bin of a task.
    """
    n = len(confidence)
    wanted = max(1, min(MAX_CONFIDENCE_BINS, n // ENOUGH))
    _, value, count = np.unique(confidence.round(CONFIDENCE_DECIMALS), return_inverse=True, return_counts=True)
    less_sure = np.cumsum(count) - count
    _, place = np.unique((less_sure * wanted // max(n, 1))[value], return_inverse=True)
    tasks = np.bincount(place)
    order = np.argsort(place, kind="stable")
    starts = np.cumsum(tasks) - tasks
    return {
        "lowest": np.minimum.reduceat(confidence[order], starts),
        "highest": np.maximum.reduceat(confidence[order], starts),
        "tasks": tasks,
        "confidence": np.bincount(place, confidence) / tasks,
        "accuracy": np.bincount(place, right) / tasks,
    }


def brier(posterior: Floats, truth: NDArray[np.integer]) -> float:
    """Return the mean over tasks of the squared distance of all probabilities, [n, K], from the truth, [n]: 0 to 2.

    >>> brier(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1]))
    1.25
    """
    of_truth = np.where(truth < 0, 0.0, posterior[np.arange(len(truth)), truth])
    return float((np.square(posterior).sum(axis=1) - 2 * of_truth + 1).mean())


@dataclass(frozen=True)
class GradeFigures:
    """Figures of labels with an order; NaN if they are not known.

    Grades count as the numbers they are, if these rise or fall in the order; else as their places in it, from 1 on.
    """

    mean_absolute_error: float = NAN  # of labels, in grades
    quadratic_kappa: float = NAN  # Cohen's kappa with quadratic weights: 1 is agreement, 0 what chance gives
    rank_correlation: float = NAN  # Spearman's, of labels with truth
    rank_correlation_of_means: float = NAN  # the same of the mean grade of each task


def grade_figures(
    matrix: NDArray[np.int64],  # [true, chosen] tasks, by the labels of these grades
    grades: Grades,
    true: Sequence[int] | NDArray[np.integer] = (),  # [some tasks] codes
    means: Sequence[float] | Floats = (),  # [some tasks] of the same tasks
) -> GradeFigures:
    """Return the figures of a confusion of grades, and of the mean grades of tasks where they are known.

    >>> from adjudge.data.grades import grades_of
    >>> grade_figures(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]]), grades_of(["1", "2", "3"]))
    GradeFigures(mean_absolute_error=0.16..., quadratic_kappa=0.88..., rank_correlation=0.9..., rank_correlation_of_means=nan)
    """
    total = matrix.sum()
    if not total:
        return GradeFigures()
    values = grades.values
    apart = np.abs(values[:, None] - values[None, :])
    of_true, of_chosen = matrix.sum(axis=1), matrix.sum(axis=0)
    by_chance = float(of_true @ apart**2 @ of_chosen) / total
    of_rank, (true_label, chosen) = grades.rank(), np.nonzero(matrix)
    ranks = (np.repeat(of_rank[labels], matrix[true_label, chosen]) for labels in (true_label, chosen))
    return GradeFigures(
        mean_absolute_error=float((matrix * apart).sum() / total),
        quadratic_kappa=float(1.0 - (matrix * apart**2).sum() / by_chance) if by_chance > 0 else NAN,
        rank_correlation=_spearman(*ranks),
        # Means are in the numbers of the grades, which may fall from the lowest grade to the highest: so must the truth be.
        rank_correlation_of_means=_spearman(values[np.asarray(true, np.int64)], np.asarray(means)),
    )


def _spearman(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return Spearman's rank correlation of two lists of numbers, [n] each; NaN if one of them does not vary."""
    correlation = pl.DataFrame({"first": first, "second": second}).select(pl.corr("first", "second", method="spearman")).item()
    return NAN if correlation is None else float(correlation)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Accuracy, figures per label, the confusion of labels, and calibration, on tasks with truth.

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
    grades: GradeFigures | None = None  # where labels have an order
    interval: Estimate = field(default_factory=lambda: Estimate(NAN))  # the accuracy with its 90% interval (Wilson's)
    clusters: tuple[str, int] | None = None  # of tasks, which the interval allows for: what they are called, how many

    def __repr__(self) -> str:
        return f"Evaluation(accuracy {self.accuracy:.4f} on {self.tasks} tasks)"

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        known, warnings = self.calibration, []
        shown = f"{self.accuracy:.4g} ({self.interval.low:.3g} to {self.interval.high:.3g})" if self.tasks else "–"
        figures: list[tuple[str, Any]] = [("accuracy", shown), ("macro F1", self.macro_f1), ("tasks with truth", self.tasks)]
        if known.tasks:
            figures += [("wrong labels", known.errors), ("predicted by confidence", known.expected_errors)]
            figures.append(("calibration error", known.expected_calibration_error))
        if self.without_truth or self.without_label:
            warnings.append(f"left out: {self.without_truth} labels without truth, {self.without_label} tasks without label")
        if self.gold:
            warnings.append(f"{self.gold} labels were given as gold: accuracy without them is {self.accuracy_without_gold:.3f}")
        frame = self.per_label_frame().sort("support", descending=True, maintain_order=True)
        table = CardTable.cut("labels", frame.columns, frame.rows(), "evaluation.per_label", MAX_CARD_LABELS)
        steps = ["evaluation.confusion", "evaluation.reliability"]
        return Card(repr(self), figures, tables=[table], warnings=warnings, next_steps=steps).html()

    @property
    def accuracy(self) -> float:
        """The share of right labels; NaN if no task has truth."""
        return self.correct / self.tasks if self.tasks else float("nan")

    @property
    def per_label(self) -> Frame:
        """Label, precision, recall, f1, support (tasks with this true label); NaN if undefined."""
        return frames.to_native(self.per_label_frame(), self.frame_kind)

    @property
    def confusion(self) -> Frame:
        """A row per true label, a column per chosen label: numbers of tasks."""
        return frames.to_native(self.confusion_frame(), self.frame_kind)

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
    def reliability(self) -> Frame | None:
        """The reliability curve, least sure first: lowest and highest confidence of a bin, tasks, confidence, accuracy."""
        return frames.to_native(self.reliability_frame(), self.frame_kind) if self.calibration.tasks else None

    @property
    def expected_calibration_error(self) -> float:
        """The mean over tasks of the distance between the confidence and the accuracy of their bin."""
        return self.calibration.expected_calibration_error

    @property
    def brier(self) -> float:
        """The mean squared distance of all probabilities of a task from the truth, 0 to 2; needs all of them."""
        return self.calibration.brier

    @property
    def confidence_brier(self) -> float:
        """The mean squared distance of the confidence from 1 if the label is right and 0 if it is wrong, 0 to 1."""
        return self.calibration.confidence_brier

    @property
    def log_loss(self) -> float:
        """The mean of -log of the true label's probability (below 1e-12 it counts as 1e-12); needs all probabilities."""
        return self.calibration.log_loss

    @property
    def expected_errors(self) -> float:
        """The number of wrong labels that confidence predicts; compare it with `calibration.errors`."""
        return self.calibration.expected_errors

    @property
    def mean_absolute_error(self) -> float:
        """The mean distance of labels with an order from the truth, in grades; NaN for labels without order."""
        return (self.grades or GradeFigures()).mean_absolute_error

    @property
    def quadratic_kappa(self) -> float:
        """Cohen's kappa of labels and truth with quadratic weights; NaN for labels without order."""
        return (self.grades or GradeFigures()).quadratic_kappa

    @property
    def rank_correlation(self) -> float:
        """Spearman's rank correlation of labels and truth; NaN for labels without order."""
        return (self.grades or GradeFigures()).rank_correlation

    @property
    def rank_correlation_of_means(self) -> float:
        """The same for the mean grades of a result that has them (model "ordinal"); otherwise NaN."""
        return (self.grades or GradeFigures()).rank_correlation_of_means

    def per_label_frame(self) -> pl.DataFrame:
        """Return `per_label` as a polars frame, regardless of the caller's frame library."""
        hit, support, chosen = np.diag(self.matrix), self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        with np.errstate(invalid="ignore"):
            figures = {"precision": hit / chosen, "recall": hit / support, "f1": 2 * hit / (support + chosen)}
        return pl.DataFrame({"label": pl.Series(self.label_names, dtype=pl.String), **figures, "support": support})

    def confusion_frame(self) -> pl.DataFrame:
        """Return `confusion` as a polars frame, regardless of the caller's frame library."""
        columns = {n: self.matrix[:, i] for i, n in enumerate(label_columns(self.label_names, "true"))}
        return pl.DataFrame({"true": pl.Series(self.label_names, dtype=pl.String), **columns})

    def reliability_frame(self) -> pl.DataFrame:
        """Return `reliability` as a polars frame, without columns if no confidence is known."""
        return pl.DataFrame(self.calibration.bins)

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON."""
        figures = ("expected_errors", "expected_calibration_error", "brier", "confidence_brier", "log_loss")
        known = self.calibration.tasks > 0
        return {
            "accuracy": or_none(self.accuracy),
            "accuracy_low": or_none(self.interval.low),
            "accuracy_high": or_none(self.interval.high),
            "clusters": None if self.clusters is None else self.clusters[1],
            "macro_f1": or_none(self.macro_f1),
            "tasks": self.tasks,
            "correct": self.correct,
            "without_truth": self.without_truth,
            "without_label": self.without_label,
            "labels": [without_nan(row) for row in self.per_label_frame().to_dicts()],
            "confusion": self.matrix.tolist(),
            "gold": self.gold,
            "accuracy_without_gold": or_none(self.accuracy_without_gold),
            "tasks_with_confidence": self.calibration.tasks,
            "errors": self.calibration.errors if known else None,
            **{name: or_none(getattr(self.calibration, name)) for name in figures},
            "reliability": self.reliability_frame().to_dicts() if known else None,
            **{name: or_none(getattr(self, name)) for name in FIGURES},
        }


Labels: TypeAlias = "Result | Online | Source"
AnyLabels: TypeAlias = "Labels | MultiResult"
Truth: TypeAlias = Result | Source


class Columns(TypedDict, total=False):
    """The columns of labels and of truth, where their usual names do not tell; what joins options; and the order of grades."""

    task: str | None
    label: str | None
    truth_task: str | None
    truth_label: str | None
    set_separator: str
    order: Sequence[object] | None
    cluster: ClusterSource | None


@overload
def evaluate(
    labels: Labels, truth: Truth, *, multi: Literal[False] = ..., probabilities: Truth | None = ..., **columns: Unpack[Columns]
) -> Evaluation: ...


@overload
def evaluate(labels: MultiResult, truth: Source, *, multi: bool = ..., **columns: Unpack[Columns]) -> SetEvaluation: ...


@overload
def evaluate(
    labels: MultiResult | Source, truth: Source, *, multi: Literal[True], **columns: Unpack[Columns]
) -> SetEvaluation: ...


@overload
def evaluate(
    labels: AnyLabels, truth: Truth, *, multi: bool = ..., probabilities: Truth | None = ..., **columns: Unpack[Columns]
) -> Evaluation | SetEvaluation: ...


def evaluate(
    labels: AnyLabels,
    truth: Truth,
    *,
    task: str | None = None,
    label: str | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    multi: bool = False,
    set_separator: str = SET_SEPARATOR,
    probabilities: Truth | None = None,
    order: Sequence[object] | None = None,
    cluster: ClusterSource | None = None,
) -> Evaluation | SetEvaluation:
    """Measure labels against the truth.

    Tasks are matched by id, never by position; ids and labels are compared as text, so 1 matches "1".

    Parameters
    ----------
    labels : AnyLabels
        A result, a stream (`adj.Online`), a frame, a file or a dict task -> label. A frame or file may have a column
        `confidence`; the evaluation then measures calibration, as for a result.
    truth : Truth
        Known labels in any of these forms; never learned from. Spark frames are collected.
    task, label, truth_task, truth_label : str, optional
        The columns of the labels and of the truth, if they do not have usual names.
    multi : bool, default False
        True if labels are sets of options; returns a `SetEvaluation`: exact sets, (task, option) pairs, F1, Jaccard. For a
        `MultiResult` this is the default.
    set_separator : str, default "|"
        Separator of the options in sets written as text.
    probabilities : Truth, optional
        Probabilities of all labels (a frame or file with the task and a column per label, or a result), which then give the
        confidence. A result has its own.
    order : sequence of object, optional
        Labels from the lowest to the highest grade, for `mean_absolute_error`, `quadratic_kappa` and `rank_correlation`; see
        docs/grades.md. Numbers order themselves, and a result of model "ordinal" has its order.
    cluster : ClusterSource, optional
        The prompt, document or conversation of each task (a dict task -> cluster, a table, or a column of them), as for
        `adj.rates`: the interval of the accuracy allows for tasks that depend on each other.

    Returns
    -------
    Evaluation or SetEvaluation
        Accuracy, figures per label, the confusion, and calibration if confidence is known.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
    >>> import adjudge as adj
    >>> adj.evaluate({"t1": "cat", "t2": "dog"}, {"t2": "dog", "t1": "dog", "t3": "cat"})
    Evaluation(accuracy 0.5000 on 2 tasks)

    """
    if multi or isinstance(labels, MultiResult):
        if probabilities is not None:
            raise OptionError("probabilities are for labels, not for sets of options: leave them out")
        if order is not None:
            raise OptionError("order is for labels, not for sets of options: leave it out")
        if cluster is not None:
            raise OptionError("cluster is for labels, not for sets of options: leave it out")
        columns: Any = {"task": task, "label": label, "truth_task": truth_task, "truth_label": truth_label}
        return evaluate_sets(cast(Any, labels), cast(Any, truth), **columns, set_separator=set_separator)
    chosen, kind = read_labels(labels, task, label)
    true = read_truth(truth, truth_task, truth_label)
    both = chosen.join(true, on="task", how="inner", suffix="_true")
    examples = true["task"].head(MAX_MESSAGE_EXAMPLES), chosen["task"].head(MAX_MESSAGE_EXAMPLES)
    warn_suspicious(find_unmatched("truth", (len(true), len(chosen), len(both)), *examples, among="labels"))
    if probabilities is None and isinstance(labels, Result):
        probabilities = labels
    names = tuple(sorted(set(both["label"]) | set(both["label_true"]), key=_natural))
    in_order = _order(names, order, labels)
    grades = None if in_order is None else grades_of(names, in_order)
    if grades is not None:
        names = tuple(names[place] for place in grades.codes)
        grades = grades_of(names, in_order)
    code = {name: n for n, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), np.int64)
    for row in both.group_by("label_true", "label").len().iter_rows():
        matrix[code[row[0]], code[row[1]]] = row[2]
    clusters = _clusters(labels, both, task, cluster)
    right = (both["label"] == both["label_true"]).to_numpy()
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
        interval=clustered_share(right, None if clusters is None else clusters.code, ACCURACY_LEVEL),
        clusters=None if clusters is None else (clusters.column, clusters.number),
        calibration=_calibration(both.filter(~pl.col("gold")), probabilities),
        grades=None if grades is None else _grade_figures(matrix, names, grades, labels, both),
    )


def _clusters(labels: object, both: pl.DataFrame, task: str | None, cluster: ClusterSource | None) -> TaskClusters | None:
    """Return the clusters of the tasks that have a label and truth."""
    if not len(both) or (cluster is None and is_dict(labels)):
        return None
    source = labels.votes if isinstance(labels, Result) else labels
    usual = "task" if cluster is None else None  # as `adjudge aggregate` calls it
    return read_clusters(TaskValues(source, vocabulary(both["task"]), PLAIN_READING, task or usual), cluster)


def _order(names: Sequence[str], order: Sequence[object] | None, labels: object) -> tuple[str, ...] | None:
    """Return the order of labels: the given one, the result's own, or that of numbers; None if they have none."""
    if order is not None:
        return check_order(order)
    own: Any = labels.settings.get("order") if isinstance(labels, Result) else None
    if own is not None and set(names) <= set(check_order(own)):
        return check_order(own)
    if not names or numbers_of(names) is None:
        return None
    return tuple(names[place] for place in grades_of(names).codes)


def _grade_figures(
    matrix: NDArray[np.int64], names: Sequence[str], grades: Grades, labels: object, both: pl.DataFrame
) -> GradeFigures:
    """Return the figures of labels with an order, and of the mean grades of a result that has them."""
    if not isinstance(labels, Result) or "mean" not in labels.fit.task_columns:
        return grade_figures(matrix, grades)
    told = labels.labels_frame()
    means = told.select(text_column(told["task"], "task"), "mean")
    found = both.join(means, on="task", how="inner").drop_nulls("mean")
    true = places(found["label_true"], {name: at for at, name in enumerate(names)})
    return grade_figures(matrix, grades, true, found["mean"].to_numpy())


def _calibration(both: pl.DataFrame, probabilities: Truth | None) -> Calibration:
    """Return the figures of confidence, on the tasks whose confidence is known."""
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
    """Order whole numbers by value, and before other labels."""
    digits = label.removeprefix("-")
    return (0, int(label), "") if digits.isascii() and digits.isdigit() else (1, 0, label)
