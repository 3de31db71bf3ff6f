"""Has it converged: labels changed in each pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from adjudge.report import words
from adjudge.results.result import Result

QUESTION: Final = "Has the fit converged?"
MAX_PASSES: Final = 200  # that are drawn: the last ones


@dataclass(frozen=True, eq=False)
class TraceView:
    """The passes of a fit."""

    frame: pl.DataFrame  # iteration, phase, change, log_likelihood, labels_changed: at most `MAX_PASSES`
    model: str
    converged: bool
    iterations: int

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not self.iterations:
            return "Majority vote counts once: there is nothing to converge."
        passes = words.counted(self.iterations, "iteration")
        changed = self.frame["labels_changed"][-1]
        last = "the last one changed no label" if not changed else f"the last one changed {words.counted(int(changed), 'label')}"
        if self.model == "auto":
            return words.sentence(f"auto took {passes}, a few by design; {last}")
        if self.converged:
            return words.sentence(f"the fit converged after {passes}; {last}")
        return words.sentence(f"the fit has NOT converged after {passes}: raise max_iter; {last}")


def trace(result: Result) -> TraceView:
    """Return the view of the passes of a fit.

    - `result`: of any model.

    >>> import adjudge as adj
    >>> trace(adj.aggregate([(1, "ann", "cat"), (1, "bob", "dog")], model="mv")).sentence
    'Majority vote counts once: there is nothing to converge.'
    """
    names = ("iteration", "phase", "change", "log_likelihood", "labels_changed")
    kinds = {"iteration": pl.Int64, "phase": pl.String, "labels_changed": pl.Int64}
    rows = [tuple(getattr(row, name) for name in names) for row in result.fit.trace[-MAX_PASSES:]]
    frame = pl.DataFrame(rows, schema={name: kinds.get(name, pl.Float64) for name in names}, orient="row")
    return TraceView(frame, result.model, result.converged, result.iterations)
