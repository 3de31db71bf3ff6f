"""Class balance before and after: how often each label is given, and how often it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from adjudge.report import words
from adjudge.results.overview import label_shares
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.sets import MultiResult

QUESTION: Final = "Which labels are given, and which are chosen?"
MAX_LABELS: Final = 30
FEW_POINTS: Final = 0.02  # a shift of shares below this is none to speak of


@dataclass(frozen=True, eq=False)
class SharesView:
    """The shares of the labels, most frequently chosen first."""

    frame: pl.DataFrame  # label (text), given, chosen: all labels
    noun: str = "label"

    @property
    def top(self) -> pl.DataFrame:
        """The labels that a picture shows: at most `MAX_LABELS`."""
        return self.frame.head(MAX_LABELS)

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not len(self.frame):
            return f"There are no {self.noun}s."
        first = self.frame.row(0, named=True)
        unit = "tasks" if self.noun == "label" else "sets"
        often = f"chosen for {words.percent(first['chosen'])} of the {unit}"
        most = f"{words.quoted(first['label'])} is the most frequent {self.noun}, {often}"
        moved = self.frame.with_columns(by=pl.col("chosen") - pl.col("given")).sort(pl.col("by").abs(), descending=True)
        one = moved.row(0, named=True)
        if abs(one["by"]) < FEW_POINTS:
            return words.sentence(f"{most}; {self.noun}s are chosen about as often as they are given")
        way = "more" if one["by"] > 0 else "less"
        shift = f"{words.percent(one['given'])} of the votes, {words.percent(one['chosen'])} of the {unit}"
        if one["label"] == first["label"]:
            return words.sentence(f"{words.quoted(one['label'])} is chosen {way} often than it is given: {shift}")
        return words.sentence(f"{most}; {words.quoted(one['label'])} is chosen {way} often than it is given: {shift}")


def shares(result: Result | MultiResult) -> SharesView:
    """Return the view of the labels of a result, or of the options of sets.

    - `result`: of any model, in memory or on disk.

    >>> import adjudge as adj
    >>> votes = [(1, "ann", "cat"), (1, "bob", "cat"), (2, "eve", "dog"), (2, "ann", "cat")]
    >>> shares(adj.aggregate(votes, model="mv", seed=1)).sentence
    '‘cat’ is chosen more often than it is given: 75% of the votes, 100% of the tasks.'
    """
    found = label_shares(result) or []
    rows = [(words.name(one.label), one.of_votes, one.of_labels) for one in found]
    frame = pl.DataFrame(rows, schema={"label": pl.String, "given": pl.Float64, "chosen": pl.Float64}, orient="row")
    return SharesView(frame, "label" if isinstance(result, Result) else "option")
