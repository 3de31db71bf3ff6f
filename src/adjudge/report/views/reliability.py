"""Is confidence true: what it promised beside what came true, where truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from adjudge.evaluation.truth import Evaluation
from adjudge.report import words

QUESTION: Final = "Is confidence true?"
CLOSE: Final = 0.03  # mean gap between confidence and accuracy that nobody need worry about


@dataclass(frozen=True, eq=False)
class ReliabilityView:
    """The reliability curve of labels with truth."""

    bins: pl.DataFrame  # lowest, highest, tasks, confidence, accuracy; empty where no confidence is known
    tasks: int
    wrong: int
    expected_wrong: float
    gap: float  # expected calibration error; NaN where no confidence is known

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not self.tasks:
            return "No task with truth has a confidence."
        found = f"of {words.counted(self.tasks, 'label')} with truth {words.count(self.wrong)} are wrong"
        expected = f"confidence expected {words.figure(self.expected_wrong)}"
        off = words.points(self.gap)
        if self.gap <= CLOSE:
            return words.sentence(f"{found}, {expected}: it is {off} off in the mean, and can be believed")
        too = "too sure" if self.expected_wrong < self.wrong else "too modest"
        return words.sentence(f"{found}, {expected}: it is {too}, by {off} in the mean")


def reliability(evaluation: Evaluation) -> ReliabilityView:
    """Return the view of what confidence is worth.

    - `evaluation`: what `adj.evaluate` returns for a result and truth.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=400, workers=10, seed=1)
    >>> view = reliability(adj.evaluate(adj.aggregate(crowd.votes), crowd.truth))
    >>> view.tasks, view.bins.columns
    (400, ['lowest', 'highest', 'tasks', 'confidence', 'accuracy'])
    """
    found = evaluation.calibration
    names = ("lowest", "highest", "tasks", "confidence", "accuracy")
    kinds = dict.fromkeys(names, pl.Float64) | {"tasks": pl.Int64}
    bins = pl.DataFrame({name: found.bins[name] for name in names}, schema=kinds) if found.bins else pl.DataFrame(schema=kinds)
    return ReliabilityView(bins, found.tasks, found.errors, found.expected_errors, found.expected_calibration_error)
