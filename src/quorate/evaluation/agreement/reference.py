"""What the votes are measured against: given truth, or the labels of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.votes import Votes
from quorate.errors import InputError
from quorate.evaluation.truth import read_truth
from quorate.io.ids import column
from quorate.io.sources import Source
from quorate.models.base import make
from quorate.results.result import Result


@dataclass(frozen=True, eq=False)
class Reference:
    """The label each task is taken to have."""

    labels: NDArray[np.int64]  # [tasks] codes; K: a label that nobody gave; -1: not known
    source: str  # truth, or the name of the model


def from_truth(
    votes: Votes, truth: Result | Source, *, truth_task: str | None = None, truth_label: str | None = None
) -> Reference:
    """Return the given labels of the votes' tasks, matched by id as text."""
    known = read_truth(truth, truth_task, truth_label)
    tasks = pl.DataFrame({"task": column(votes.tasks).cast(pl.String)})
    names = pl.DataFrame({"label": pl.Series(votes.labels.texts(), dtype=pl.String)}).with_row_index("code")
    coded = known.join(names, on="label", how="left").with_columns(pl.col("code").cast(pl.Int64).fill_null(votes.n_labels))
    labels = tasks.join(coded, on="task", how="left", maintain_order="left")["code"].fill_null(-1).to_numpy()
    if not (labels >= 0).any():
        raise InputError(f"the truth has none of the {votes.n_tasks} tasks of the votes: are these their ids?")
    return Reference(labels, "truth")


def from_fit(votes: Votes, model: str, seed: int) -> Reference:
    """Return the labels of a fit of these votes."""
    fitted = make(model, {"seed": 0}, {"seed": seed}).fit(votes, trace="light")
    return Reference(fitted.fit.outcome.labels.astype(np.int64), model)
