"""How good labels are: labels, confidence and probabilities of any source, aligned with the truth by task id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypedDict, Unpack, cast, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.grades import Grades, check_order, grades_of, numbers_of
from adjudge.data.options import SET_SEPARATOR
from adjudge.data.votes import FrameKind, Votes
from adjudge.errors import InputError, OptionError, shown
from adjudge.evaluation.confidence import Calibration, calibration
from adjudge.evaluation.graded import FIGURES, GradeFigures, grade_figures
from adjudge.evaluation.sets import SetEvaluation, evaluate_sets
from adjudge.io import frames
from adjudge.io.answers import is_dict, of_dict, one_each, read_answers, text_column, texts
from adjudge.io.columns import REST
from adjudge.io.frames import Frame
from adjudge.io.ids import column, label_columns
from adjudge.io.shapes import Wanted
from adjudge.io.sources import Source, is_spark_frame, read_frame
from adjudge.io.suspicious import SOME, unmatched, warn_suspicious
from adjudge.results.result import Result
from adjudge.results.sets import MultiResult

BEYOND: Final = 1e-6  # how far a probability may leave 0 to 1 by rounding
ABOUT_ONE: Final = 0.01  # how far the probabilities of a task may be from 1 together: people round them
MARKS: Final = ("true", "false")  # as text files hold booleans


class Labelled(Protocol):
    """What learns votes, and has labels when it is asked: a stream (`adj.Online`)."""

    def learn(self, task: Any, worker: Any, label: Any) -> None:
        """Learn one vote."""
        ...

    def labels(self) -> Any:
        """Return task, label and confidence of every task, as a frame of the caller's kind."""
        ...

    def labels_frame(self) -> pl.DataFrame:
        """Return the same as a polars frame."""
        ...


def read_labels(source: Result | Labelled | Source, task: str | None, label: str | None) -> tuple[pl.DataFrame, FrameKind]:
    """Return (task and label as text, confidence, gold; the kind of frame they came in) of the tasks with a label.

    Confidence is null where it is not known; gold is false where no column of that name says otherwise.
    """
    if isinstance(source, Result):
        frame, kind = source.labels_frame(), source.votes.frame_kind
    elif callable(getattr(source, "labels", None)):
        frame, kind = cast(Labelled, source).labels_frame(), "polars"
    elif is_dict(source):
        frame, kind = of_dict(source), "polars"
    else:
        frame, kind = _columns(cast(Source, source), {"task": task, "label": label, "confidence": None, "gold": None})
    known = frame["confidence"] if "confidence" in frame.columns else pl.repeat(None, len(frame), dtype=pl.Float64, eager=True)
    given = _marks(frame["gold"]) if "gold" in frame.columns else None
    out = texts(frame).with_columns(
        confidence=_probability(known, frame["task"], "confidence"),
        gold=pl.lit(False) if given is None else given,
    )
    return one_each(out, "labels", "label or confidence" if "confidence" in frame.columns else "label"), kind


def read_truth(source: Result | Source, task: str | None, label: str | None) -> pl.DataFrame:
    """Return task and label as text, of the tasks whose truth is known."""
    if isinstance(source, Result):
        return one_each(texts(source.labels_frame()), "truth", "label")
    if is_spark_frame(source):
        frame = _columns(source, {"task": task, "truth": label})[0]
        return one_each(texts(frame.rename({"truth": "label"})), "truth", "label")
    return read_answers(source, "truth", task, label)[0]


def truth_codes(votes: Votes, truth: Result | Source, task: str | None = None, label: str | None = None) -> NDArray[np.int64]:
    """Return the true label of each task of votes, [tasks] codes: K for a label that nobody gave, -1 where it is not known.

    Tasks are matched by id as text. It is an error where none of them has truth.

    >>> import adjudge as adj
    >>> truth_codes(adj.read([(1, "ann", "cat"), (2, "ann", "dog"), (3, "ann", "dog")]), {"1": "dog", "3": "cow"}).tolist()
    [1, -1, 2]
    """
    known = read_truth(truth, task, label)
    tasks = pl.DataFrame({"task": column(votes.tasks).cast(pl.String)})
    names = pl.DataFrame({"label": pl.Series(votes.labels.texts(), dtype=pl.String)}).with_row_index("code")
    coded = known.join(names, on="label", how="left").with_columns(pl.col("code").cast(pl.Int64).fill_null(votes.n_labels))
    codes = tasks.join(coded, on="task", how="left", maintain_order="left")["code"].fill_null(-1).to_numpy()
    if not (codes >= 0).any():
        raise InputError(f"the truth has none of the {votes.n_tasks} tasks of the votes: are these their ids?")
    return codes


def read_probabilities(source: Result | Source, tasks: pl.Series) -> tuple[dict[str, int], NDArray[np.float64]]:
    """Return (column of each label, probabilities [tasks, K]) for these tasks; lines are NaN where nothing is known."""
    if isinstance(source, Result):
        frame = source.probabilities_frame()
    else:
        frame, _ = _columns(source, {"task": None, REST: None})
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


def _columns(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return the wanted columns of any source as one frame, and the caller's kind of frame; those of Spark are gathered."""
    if not is_spark_frame(source):
        return read_frame(source, wanted)
    from adjudge.spark.votes import gathered  # loaded for its frames alone

    return gathered(source, wanted), "polars"


def places(labels: pl.Series, columns: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the column of each label, [n]; -1 for one that has none.

    >>> places(pl.Series(["dog", "task", "cow"]), {"dog": 0, "label task": 1}).tolist()
    [0, 1, -1]
    """
    # A label called like the column of tasks stands there as "label task" (`label_columns`).
    known = {name: columns.get(name, columns.get(f"label {name}", -1)) for name in labels.unique()}
    return labels.replace_strict(known, return_dtype=pl.Int64).to_numpy() if len(labels) else np.zeros(0, np.int64)


def _probability(series: pl.Series, tasks: pl.Series, what: str) -> pl.Series:
    """Return a column of numbers from 0 to 1; null where nothing (or NaN) is given."""
    if series.dtype == pl.String:
        series = series.str.strip_chars().replace("", None).str.replace(r"^([0-9]*),([0-9]+)$", "${1}.${2}")  # decimal commas
    fits = series.dtype.is_numeric() or series.dtype in (pl.String, pl.Null)
    numbers = series.cast(pl.Float64, strict=False) if fits else pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    inside = (numbers.is_nan() | numbers.is_between(-BEYOND, 1 + BEYOND)).fill_null(False)
    odd = (series.is_not_null() & ~inside).arg_true()
    if len(odd):
        at = int(odd[0])
        raise InputError(f"the {what} of task {shown(tasks[at])} is {shown(series[at])}: give a number from 0 to 1")
    return numbers.fill_nan(None).clip(0.0, 1.0).alias(series.name)


def _marks(series: pl.Series) -> pl.Series | None:
    """Return which tasks are marked; None where the column holds no marks (it may hold true labels)."""
    if series.dtype == pl.Boolean:
        return series.fill_null(False)
    if series.dtype != pl.String:
        return None
    lower = series.str.to_lowercase()
    return (lower == MARKS[0]).fill_null(False) if lower.drop_nulls().is_in(MARKS).all() else None


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
    grades: GradeFigures | None = None  # where labels have an order

    def __repr__(self) -> str:
        return f"Evaluation(accuracy {self.accuracy:.4f} on {self.tasks} tasks)"

    def _repr_html_(self) -> str:
        from adjudge.evaluation.cards import of_evaluation

        return of_evaluation(self)

    @property
    def accuracy(self) -> float:
        """The share of right labels; NaN where no task has truth."""
        return self.correct / self.tasks if self.tasks else float("nan")

    @property
    def per_label(self) -> Frame:
        """Label, precision, recall, f1, support (tasks whose truth it is); NaN where nothing can be said."""
        return frames.native(self.per_label_frame(), self.frame_kind)

    @property
    def confusion(self) -> Frame:
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
    def reliability(self) -> Frame | None:
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

    @property
    def mean_absolute_error(self) -> float:
        """How far labels with an order are from the truth, in grades; NaN for labels without order."""
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
        """The same of the mean grades of a result that has them, as those of model "ordinal"; else NaN."""
        return (self.grades or GradeFigures()).rank_correlation_of_means

    def per_label_frame(self) -> pl.DataFrame:
        """Return `per_label` as a polars frame, whatever the caller's kind."""
        hit, support, chosen = np.diag(self.matrix), self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        with np.errstate(invalid="ignore"):
            figures = {"precision": hit / chosen, "recall": hit / support, "f1": 2 * hit / (support + chosen)}
        return pl.DataFrame({"label": pl.Series(self.label_names, dtype=pl.String), **figures, "support": support})

    def confusion_frame(self) -> pl.DataFrame:
        """Return `confusion` as a polars frame, whatever the caller's kind."""
        columns = {n: self.matrix[:, i] for i, n in enumerate(label_columns(self.label_names, "true"))}
        return pl.DataFrame({"true": pl.Series(self.label_names, dtype=pl.String), **columns})

    def reliability_frame(self) -> pl.DataFrame:
        """Return `reliability` as a polars frame, whatever the caller's kind; without columns where nothing is known."""
        return pl.DataFrame(self.calibration.bins)

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON."""
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
            **{name: _plain(getattr(self, name)) for name in FIGURES},
        }


class Columns(TypedDict, total=False):
    """The columns of labels and of truth, where their usual names do not tell; what joins options; and the order of grades."""

    task: str | None
    label: str | None
    truth_task: str | None
    truth_label: str | None
    set_separator: str
    order: Sequence[object] | None


@overload
def evaluate(
    labels: Result | Labelled | Source,
    truth: Result | Source,
    *,
    multi: Literal[False] = ...,
    probabilities: Result | Source | None = ...,
    **columns: Unpack[Columns],
) -> Evaluation: ...


@overload
def evaluate(labels: MultiResult, truth: Source, *, multi: bool = ..., **columns: Unpack[Columns]) -> SetEvaluation: ...


@overload
def evaluate(
    labels: MultiResult | Source, truth: Source, *, multi: Literal[True], **columns: Unpack[Columns]
) -> SetEvaluation: ...


@overload
def evaluate(
    labels: Result | MultiResult | Labelled | Source,
    truth: Result | Source,
    *,
    multi: bool = ...,
    probabilities: Result | Source | None = ...,
    **columns: Unpack[Columns],
) -> Evaluation | SetEvaluation: ...


def evaluate(
    labels: Result | MultiResult | Labelled | Source,
    truth: Result | Source,
    *,
    task: str | None = None,
    label: str | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    multi: bool = False,
    set_separator: str = SET_SEPARATOR,
    probabilities: Result | Source | None = None,
    order: Sequence[object] | None = None,
) -> Evaluation | SetEvaluation:
    """Return how well labels meet the truth.

    Tasks are matched by id, never by position; ids and labels are compared as text, so 1 meets "1".

    - `labels`: a result, a stream (`adj.Online`), a frame, a file or a dict task -> label. A frame or file may have a column
      `confidence`: then, as for a result, the evaluation says what confidence is worth.
    - `truth`: the known labels, as any of these; never learned from. Spark frames of either are gathered.
    - `task`, `label`: the columns of the labels, where their usual names do not tell; `truth_task`, `truth_label` those
      of the truth.
    - `multi`: labels are sets of options, and a `SetEvaluation` comes back: exact sets, (task, option) pairs, F1, Jaccard.
      A `MultiResult` needs no saying.
    - `set_separator`: what joins the options of sets written as text.
    - `probabilities`: of all labels (a frame or file: the task and a column for each label, or a result). The confidence
      of a label is then its probability there; a result knows its own.
    - `order`: the labels from the lowest to the highest grade. Numbers order themselves, and a result of model "ordinal" knows
      its order. Then there are `mean_absolute_error`, `quadratic_kappa` and `rank_correlation`, too; see docs/grades.md.

    >>> import adjudge as adj
    >>> adj.evaluate({"t1": "cat", "t2": "dog"}, {"t2": "dog", "t1": "dog", "t3": "cat"})
    Evaluation(accuracy 0.5000 on 2 tasks)
    """
    if multi or isinstance(labels, MultiResult):
        if probabilities is not None:
            raise OptionError("probabilities are for labels, not for sets of options: leave them out")
        if order is not None:
            raise OptionError("order is for labels, not for sets of options: leave it out")
        sets = cast(MultiResult | Source, labels)
        columns: Any = {"task": task, "label": label, "truth_task": truth_task, "truth_label": truth_label}
        return evaluate_sets(sets, cast(Source, truth), **columns, set_separator=set_separator)
    chosen, kind = read_labels(labels, task, label)
    true = read_truth(truth, truth_task, truth_label)
    both = chosen.join(true, on="task", how="inner", suffix="_true")
    examples = true["task"].head(SOME), chosen["task"].head(SOME)
    warn_suspicious(unmatched("truth", (len(true), len(chosen), len(both)), *examples, among="labels"))
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
        grades=None if grades is None else _grade_figures(matrix, names, grades, labels, both),
    )


def _order(names: Sequence[str], order: Sequence[object] | None, labels: object) -> tuple[str, ...] | None:
    """Return the order of labels: the given one, the result's own, or that of numbers; None where they have none."""
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


def _calibration(both: pl.DataFrame, probabilities: Result | Source | None) -> Calibration:
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


def _plain(value: object) -> object:
    return None if isinstance(value, float) and value != value else value
