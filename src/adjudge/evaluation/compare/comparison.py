"""What `compare` returns: a line per model, every two of them side by side, the tasks in dispute, and advice in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import FrameKind, Votes
from adjudge.errors import visible
from adjudge.evaluation.compare.judged import JudgedBy
from adjudge.io import frames
from adjudge.io.frames import Frame
from adjudge.io.ids import column
from adjudge.results.higher import load
from adjudge.results.plotting import Chart, Theme

MODEL_COLUMNS: Final = {
    "model": pl.String,
    "accuracy": pl.Float64,
    "accuracy_low": pl.Float64,
    "accuracy_high": pl.Float64,
    "f1": pl.Float64,
    "calibration_error": pl.Float64,
    "log_loss": pl.Float64,
    "below_highest": pl.Boolean,
    "expected_wrong": pl.Float64,
    "agrees_with_mv": pl.Float64,
    "stable_workers": pl.Float64,
    "stable_tasks": pl.Float64,
    "converged": pl.Boolean,
    "seconds": pl.Float64,
    "refused": pl.String,
}
PAIR_COLUMNS: Final = {
    "model_a": pl.String,
    "model_b": pl.String,
    "differing": pl.Int64,
    "same": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "only_a": pl.Int64,
    "only_b": pl.Int64,
    "p_value": pl.Float64,
    "p_adjusted": pl.Float64,
    "significant": pl.Boolean,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison:
    """Models side by side on the same votes. Figures that need truth or gold are null without.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=12, seed=1)
    >>> c = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "auto", "fds"])
    >>> c
    Comparison(advises fds, 3 models, judged by the truth of 300 tasks)
    >>> c.models.select("model", "accuracy").rows()
    [('fds', 0.94), ('auto', 0.93), ('mv', 0.9133333333333333)]
    """

    best: str  # the name of the model that is advised
    advice: tuple[str, ...]  # sentences: which model, and on what evidence
    facts: Mapping[str, object]  # what was measured of the votes: see `result.facts`
    judged_by: JudgedBy | None  # what accuracies are measured by; None where nothing is known
    judged_tasks: int
    gold_tasks: int  # with votes; learned from in the fits of all models
    folds: int  # that gold was divided into, each hidden from the fit that it judges; 0 where accuracies are not of gold
    disputed: int  # tasks on which some model differs from majority vote
    resamples: int
    confidence: float  # of intervals
    seed: int
    votes: Votes
    labels_by_model: Mapping[str, NDArray[np.int32]]  # [tasks] codes
    model_table: pl.DataFrame
    pair_table: pl.DataFrame
    dispute_table: pl.DataFrame
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        by = "without truth" if self.judged_by is None else f"judged by the {self.judged_by} of {self.judged_tasks} tasks"
        return f"Comparison(advises {self.best}, {len(self.labels_by_model)} models, {by})"

    def __str__(self) -> str:
        """Return one screen of text: the advice first, then the figures."""
        columns, rows = self.overview()
        lines = [visible(sentence) for sentence in self.advice]
        return "\n".join([*lines, "", *_aligned([columns, *rows])])

    def _repr_html_(self) -> str:
        from adjudge.evaluation.cards import of_comparison

        return of_comparison(self)

    def plot(self, *, theme: Theme = "light") -> Chart:
        """Return the accuracy of the models with intervals, majority vote the rule to beat; needs the extra `report`.

        - `theme`: "light", "dark" or "none", which leaves the look to Altair's own themes.
        """
        return load("adjudge.report.plots:comparison")(self, theme=theme)

    @property
    def models(self) -> Frame:
        """A line per model, the most accurate first; without truth and gold in the order of the registry.

        - `accuracy`, `accuracy_low`, `accuracy_high`: share of right labels on the judged tasks, and its interval.
        - `f1`: mean of the labels' F1; `calibration_error`, `log_loss`: what confidence is worth there.
        - `below_highest`: whether it is significantly less accurate than the model with the highest accuracy.
        - `expected_wrong`: wrong labels among all tasks, as honest confidence foretells them.
        - `agrees_with_mv`: share of all tasks with the label of majority vote.
        - `stable_workers`, `stable_tasks`: share of labels that stay without a fifth of the workers, or of the tasks.
        - `converged`: whether its stopping rule was met; `seconds`: of one fit, beside others.
        - `refused`: why it could not run.
        """
        return self._native(self.models_frame())

    @property
    def differences(self) -> Frame:
        """A line for every two models, the more accurate one first.

        - `differing`, `same`: on how many tasks labels differ, and the share of those with the same label.
        - `difference`, `low`, `high`: of the accuracies of a and b on the same tasks, with its interval.
        - `only_a`, `only_b`: judged tasks on which one alone is right.
        - `p_value`: of McNemar's test (mid-p); `p_adjusted`: corrected for the number of pairs (Holm); `significant`: below .05.
        """
        return self._native(self.differences_frame())

    @property
    def disagreements(self) -> Frame:
        """A line for every task and label that some model gives against majority vote, most models first.

        - `task`, `votes`: the task, and how many votes it has.
        - `majority`, `majority_votes`, `majority_accuracy`: its label by majority vote, the votes for it, and the mean accuracy
          of those who gave them, as the advised model without truth ("auto") estimates it.
        - `label`, `label_votes`, `label_accuracy`: the same of what the `models` named say instead.
        - `confidence`: of that model in its own label; `known`: the label by truth or gold, where there is one.
        """
        return self._native(self.disagreements_frame())

    @property
    def labels(self) -> Frame:
        """Task, and the label by every model: a column each."""
        return self._native(self.labels_frame())

    def models_frame(self) -> pl.DataFrame:
        """Return `models` as a polars frame."""
        return self.model_table

    def differences_frame(self) -> pl.DataFrame:
        """Return `differences` as a polars frame."""
        return self.pair_table

    def disagreements_frame(self) -> pl.DataFrame:
        """Return `disagreements` as a polars frame."""
        return self.dispute_table

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame."""
        chosen = {name: column(self.votes.labels, codes.astype(np.int64)) for name, codes in self.labels_by_model.items()}
        return pl.DataFrame({"task": column(self.votes.tasks), **chosen})

    def overview(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and the rows of a table of models for people: of figures that are known alone."""
        frame = self.models_frame().filter(pl.col("refused").is_null())
        interval = f"{100 * self.confidence:g}% interval"
        columns, rows = ["model"], [[row["model"]] for row in frame.iter_rows(named=True)]
        spans = [_span(row["accuracy_low"], row["accuracy_high"]) for row in frame.iter_rows(named=True)]
        shown: list[tuple[str, Any, str]] = [("accuracy", "accuracy", ".1%"), (interval, spans, ""), ("F1", "f1", ".3f")]
        shown += [("calibration error", "calibration_error", ".3f"), ("log loss", "log_loss", ".3f")]
        shown += [("expected wrong", "expected_wrong", ".0f")]
        shown += [("as mv", "agrees_with_mv", ".1%")] if self.judged_by is None else []
        shown += [("without 1/5 workers", "stable_workers", ".1%"), ("without 1/5 tasks", "stable_tasks", ".1%")]
        shown += [("seconds", "seconds", ".2f")]
        for title, where, form in shown:
            cells = [_cell(value, form) for value in (frame[where] if isinstance(where, str) else where)]
            if any(cell != "–" for cell in cells):
                columns.append(title)
                for row, cell in zip(rows, cells, strict=True):
                    row.append(cell)
        return columns, rows

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON; of the disputed tasks their number."""
        return {
            "best": self.best,
            "advice": list(self.advice),
            "judged_by": self.judged_by,
            "judged_tasks": self.judged_tasks,
            "gold_tasks": self.gold_tasks,
            "folds": self.folds,
            "tasks": self.votes.n_tasks,
            "disputed_tasks": self.disputed,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
            "facts": {name: _plain(value) for name, value in self.facts.items()},
            "models": [{name: _plain(value) for name, value in row.items()} for row in self.models_frame().to_dicts()],
            "differences": [{name: _plain(value) for name, value in row.items()} for row in self.differences_frame().to_dicts()],
        }

    def _native(self, frame: pl.DataFrame) -> Frame:
        return frames.native(frame, self.frame_kind)


def table(rows: Iterable[Mapping[str, object]], schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Return rows as a frame of these columns; what a row lacks, and NaN, is null."""
    return pl.DataFrame([{name: _plain(row.get(name)) for name in schema} for row in rows], schema=dict(schema))


def _plain(value: object) -> object:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def _cell(value: object, form: str) -> str:
    return "–" if value is None else format(value, form)


def _span(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as lines of text: the first column to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    first, *others = widths
    return ["  ".join([line[0].ljust(first), *map(str.rjust, line[1:], others)]).rstrip() for line in lines]
