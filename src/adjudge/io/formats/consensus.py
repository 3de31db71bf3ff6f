"""What a writer of labels is given: the labels of a result, and how the tool itself writes each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from adjudge.data.understood import Understood
from adjudge.errors import InputError, listed
from adjudge.io.ids import prepared
from adjudge.io.shapes import normal

SOME = 3  # ids in a message


class Answer(NamedTuple):
    """The label of a task: one option, or a set of them."""

    options: list[str]
    confidence: float
    scores: list[float]  # the probability of each option


@dataclass(frozen=True, eq=False)
class Consensus:
    """The labels of a result, for writers."""

    labels: pl.DataFrame  # as `Result.labels` has them, or `MultiResult.labels`
    model: str  # its name
    understood: Understood | None = None  # what reading made of the votes
    scores: Sequence[Mapping[str, float]] | None = None  # of sets: the probability of every option, by line of `labels`

    @property
    def by(self) -> str:
        """Who says so, as tools show it."""
        return f"adjudge {self.model}"

    @property
    def is_set(self) -> bool:
        """Whether labels are sets of options."""
        return isinstance(self.labels.schema["label"], pl.List)

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """The label of every task that has one, by the text of the task's id."""
        found = self.labels.filter(pl.col("label").is_not_null())
        tasks = prepared(found["task"], "task").cast(pl.String).to_list()
        confidence = found["confidence"].to_list()
        if not self.is_set:
            texts = prepared(found["label"], "label").cast(pl.String).to_list()
            each = zip(tasks, texts, confidence, strict=True)
            return {task: Answer([label], sure, [sure]) for task, label, sure in each}
        scores = self.scores or [{}] * len(found)  # tasks without a label come last
        every = zip(tasks, found["label"].to_list(), confidence, scores, strict=False)
        return {task: Answer(options, sure, [one[o] for o in options]) for task, options, sure, one in every}

    def column(self, form: str, role: str = "label") -> str | None:
        """Return the field that had a role when the votes were read as this format; None where they were read otherwise."""
        known = self.understood
        return None if known is None or known.format != form else known.columns.get(role)

    def require_some(self, tasks: Sequence[str], where: str) -> None:
        """Raise where none of these tasks has a label here: the file is another one than that of the votes."""
        if tasks and self.answers.keys().isdisjoint(tasks):
            raise InputError(
                f"{where}: none of its {len(tasks)} tasks ({listed(tasks, SOME)}) has a label in this result, whose tasks are "
                f"{listed(self.answers, SOME)}: name the file that the votes came from"
            )


class Values:
    """The labels of a question as the tool writes them, by their text: 4 for "4", a path of names for "a / b"."""

    def __init__(self, otherwise: Callable[[str], Any] = str) -> None:
        self._known: dict[str, Any] = {}
        self._otherwise = otherwise  # what a label that nobody has given becomes
        self._normal: dict[str, Any] | None = None

    def add(self, text: str, value: object) -> None:
        """Take a value as somebody has given it."""
        self._known.setdefault(text, value)

    def of(self, label: str) -> Any:
        """Return a label as the tool writes it; one that was normalised in reading has its own spelling again.

        >>> values = Values()
        >>> values.add("Very good", "Very good")
        >>> values.of("Very good"), values.of("very good"), values.of("bad")
        ('Very good', 'Very good', 'bad')
        """
        if label in self._known:
            return self._known[label]
        if self._normal is None:
            forms = normal(pl.Series(list(self._known), dtype=pl.String)).to_list()
            self._normal = dict(zip(reversed(forms), reversed(self._known.values()), strict=True))  # the first one counts
        return self._normal[label] if label in self._normal else self._otherwise(label)
