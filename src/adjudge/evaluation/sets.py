"""How good chosen sets are: against true sets, aligned by task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import SET_SEPARATOR
from adjudge.errors import InputError, quote
from adjudge.evaluation.intervals import without_nan
from adjudge.io.frames import prepare_ids
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, find_unmatched, warn_suspicious
from adjudge.io.records import concat
from adjudge.io.sets import sets_of
from adjudge.io.sources import Source, open_table
from adjudge.results.sets import MultiResult


@dataclass(frozen=True, eq=False, repr=False)
class SetEvaluation:
    """Figures of chosen sets, on the tasks that have truth."""

    tasks: int
    without_truth: int
    without_label: int
    options: tuple[str, ...]
    chosen: NDArray[np.bool_]  # [tasks, K]
    true: NDArray[np.bool_]  # [tasks, K]

    def __repr__(self) -> str:
        return f"SetEvaluation(option accuracy {self.option_accuracy:.4f}, exact {self.exact_accuracy:.4f} on {self.tasks} tasks)"

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card

        names = {"exact_accuracy": "exact sets", "option_accuracy": "right options", "jaccard": "Jaccard", "micro_f1": "micro F1"}
        figures = [*((title, getattr(self, name)) for name, title in names.items()), ("tasks with truth", self.tasks)]
        left = f"left out: {self.without_truth} sets without truth, {self.without_label} tasks without set"
        warnings = [left] if self.without_truth + self.without_label else []
        return Card(repr(self), figures, warnings=warnings, next_steps=["evaluation.summary()"]).html()

    @property
    def exact_accuracy(self) -> float:
        """The share of tasks whose whole set is right."""
        return _mean((self.chosen == self.true).all(axis=1))

    @property
    def accuracy(self) -> float:
        """The share of tasks whose whole set is right, as for single labels."""
        return self.exact_accuracy

    @property
    def option_accuracy(self) -> float:
        """The share of right yes-or-no answers over all (task, option) pairs: the paper's measure."""
        return _mean(self.chosen == self.true)

    @property
    def jaccard(self) -> float:
        """The mean over tasks of common options / options in either set; two empty sets agree."""
        either, both = (self.chosen | self.true).sum(axis=1), (self.chosen & self.true).sum(axis=1)
        return _mean(np.where(either > 0, both / np.maximum(either, 1), 1.0))

    @property
    def micro_f1(self) -> float:
        """F1 over all (task, option) pairs together."""
        return _f1((self.chosen & self.true).sum(), self.chosen.sum() + self.true.sum())

    @property
    def macro_f1(self) -> float:
        """The mean of the options' F1, over options that are chosen or true somewhere."""
        hit, both = (self.chosen & self.true).sum(axis=0), self.chosen.sum(axis=0) + self.true.sum(axis=0)
        return _mean(np.array([_f1(h, b) for h, b in zip(hit, both, strict=True) if b]))

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON."""
        figures = ("exact_accuracy", "option_accuracy", "jaccard", "micro_f1", "macro_f1")
        return without_nan({name: getattr(self, name) for name in ("tasks", "without_truth", "without_label", *figures)})


def evaluate_sets(
    labels: MultiResult | Source,
    truth: Source,
    *,
    task: str | None = None,
    label: str | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    set_separator: str = SET_SEPARATOR,
    with_gold: bool = True,
) -> SetEvaluation:
    """Return how well chosen sets meet the true ones; either is a result, a frame, a file or tuples.

    Without `with_gold`, sets of a result that were given to it are left out.
    """
    chosen = _sets(labels, "labels", task, label, set_separator)
    true = _sets(truth, "truth", truth_task, truth_label, set_separator)
    both = chosen.join(true, on="task", how="inner", suffix="_true")
    examples = true["task"].head(MAX_MESSAGE_EXAMPLES), chosen["task"].head(MAX_MESSAGE_EXAMPLES)
    warn_suspicious(find_unmatched("truth", (len(true), len(chosen), len(both)), *examples, among="labels"))
    if not with_gold and isinstance(labels, MultiResult):
        given = labels.gold_tasks().cast(pl.String)
        both = both.filter(~pl.col("task").is_in(given.implode()))
    options = tuple(sorted({o for name in ("label", "label_true") for o in both[name].explode().drop_nulls()}))
    if isinstance(labels, MultiResult):
        options = tuple(dict.fromkeys([*labels.votes.options.texts(), *options]))
    return SetEvaluation(
        tasks=len(both),
        without_truth=len(chosen) - len(both),
        without_label=len(true) - len(both),
        options=options,
        chosen=_matrix(both["label"], options),
        true=_matrix(both["label_true"], options),
    )


def _sets(source: MultiResult | Source, what: str, task: str | None, label: str | None, separator: str) -> pl.DataFrame:
    if isinstance(source, MultiResult):
        frame = source.labels_frame()
        labels = frame["label"]
    else:
        role = "truth" if what == "truth" else "label"
        table = open_table(source, {"task": task, role: label})
        frame = concat(table.batches)
        labels = sets_of(frame[role], table.is_text, separator=separator)
    out = pl.DataFrame({"task": prepare_ids(frame["task"], "task").cast(pl.String), "label": labels}).drop_nulls("label")
    if out["task"].is_duplicated().any():
        again = out.filter(pl.col("task").is_duplicated())["task"][0]
        raise InputError(f"the {what} give task {quote(again)} more than one set: keep one per task")
    return out


def _matrix(sets: pl.Series, options: tuple[str, ...]) -> NDArray[np.bool_]:
    place = {o: n for n, o in enumerate(options)}
    out = np.zeros((len(sets), len(options)), np.bool_)
    for row, chosen in enumerate(sets.to_list()):
        out[row, [place[o] for o in chosen if o is not None]] = True
    return out


def _f1(hit: float, both: float) -> float:
    return float(2 * hit / both) if both else float("nan")


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if values.size else float("nan")
