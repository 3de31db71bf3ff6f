"""What a worker, or the crowd, confuses: votes by the label of their task and the label given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes, piece
from adjudge.errors import InputError, shown
from adjudge.report import words
from adjudge.results.groups import as_members
from adjudge.results.result import Result

QUESTION: Final = "What is confused with what?"
MAX_MATRIX: Final = 20  # labels that a matrix is drawn of; beyond, the worst pairs are listed
MAX_PAIRS: Final = 20
CHUNK: Final = 1 << 20  # votes counted at once
UNKNOWN: Final = -1  # a task whose true label is not known
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ConfusionView:
    """Votes by true and given label, as the cells that are not empty."""

    labels: tuple[str, ...]  # [K]
    true: Integers  # [cells] codes of labels
    given: Integers  # [cells]
    votes: Integers  # [cells]
    worker: str | None = None  # whose votes; None: of all
    against: str = "the chosen label"  # what true labels are

    @property
    def is_matrix(self) -> bool:
        """Whether labels are few enough to draw all of them."""
        return len(self.labels) <= MAX_MATRIX

    @cached_property
    def support(self) -> Integers:
        """Votes on tasks of each true label, [K]."""
        return np.bincount(self.true, self.votes, minlength=len(self.labels)).astype(np.int64)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The share of each given label among the votes on tasks of a true label, [K true, K given]; NaN without votes."""
        k = len(self.labels)
        out = np.zeros((k, k))
        out[self.true, self.given] = self.votes
        with np.errstate(invalid="ignore"):
            return np.asarray(out / np.where(self.support > 0, self.support, np.nan)[:, None])

    @cached_property
    def cells(self) -> pl.DataFrame:
        """True, given, votes, share: all pairs of labels of a matrix that has votes in their row, else the worst pairs."""
        if not self.is_matrix:
            return self.worst
        k, matrix = len(self.labels), self.matrix
        true, given = np.divmod(np.arange(k * k), k)
        counts = np.zeros((k, k), np.int64)
        counts[self.true, self.given] = self.votes
        frame = pl.DataFrame({"votes": counts.ravel(), "share": matrix.ravel()})
        names = pl.Series(self.labels, dtype=pl.String)
        return frame.select(names.gather(true).alias("true"), names.gather(given).alias("given"), "votes", "share").filter(
            pl.col("share").is_not_nan()
        )

    @cached_property
    def worst(self) -> pl.DataFrame:
        """The pairs of different labels that most votes confuse: true, given, votes, share; at most `MAX_PAIRS`."""
        wrong = np.flatnonzero(self.true != self.given)
        order = wrong[np.argsort(-self.votes[wrong], kind="stable")][:MAX_PAIRS]
        names = pl.Series(self.labels, dtype=pl.String)
        return pl.DataFrame(
            {
                "true": names.gather(self.true[order]),
                "given": names.gather(self.given[order]),
                "votes": self.votes[order],
                "share": self.votes[order] / np.maximum(self.support[self.true[order]], 1),
            }
        )

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        who = "the crowd" if self.worker is None else words.shortened(self.worker)
        if not self.votes.sum():
            return words.sentence(f"{who} has no votes on tasks whose label is known")
        right = self.votes[self.true == self.given].sum() / self.votes.sum()
        what = "the truth" if self.against == "the truth" else "the chosen labels"
        if not len(self.worst):
            return words.sentence(f"every vote of {who} equals {what}")
        one = self.worst.row(0, named=True)
        true, given = words.apart(one["true"], one["given"])
        most = f"most often {true} is called {given} ({words.percent(one['share'])})"
        return words.sentence(f"{words.percent(float(right))} of the votes of {who} equal {what}; {most}")


def confusion(result: Result, worker: object = None, *, truth: NDArray[np.int64] | None = None) -> ConfusionView:
    """Return the view of what a worker confuses, or the crowd.

    - `result`: of any model.
    - `worker`: the id; None for all workers together.
    - `truth`: the code of the true label of each task, [tasks], -1 where it is not known; the chosen labels by default.

    >>> import adjudge as adj
    >>> votes = [(1, "ann", "cat"), (1, "bob", "cat"), (1, "eve", "dog"), (2, "ann", "dog"), (2, "bob", "dog")]
    >>> view = confusion(adj.aggregate(votes, model="mv"), "eve")
    >>> view.sentence, view.support.tolist()
    ('0% of the votes of eve equal the chosen labels; most often ‘cat’ is called ‘dog’ (100%).', [1, 0])
    """
    people = result if result.grouping is None else as_members(result)
    if worker is None:
        return confusions(people, None, truth=truth)[0]
    code = int(people.votes.workers.codes([worker])[0])
    if code < 0:
        raise InputError(f"worker {shown(worker)} has no votes here; there are {people.votes.n_workers} workers")
    return confusions(people, [code], truth=truth)[0]


def confusions(people: Result, workers: Sequence[int] | None, *, truth: NDArray[np.int64] | None = None) -> list[ConfusionView]:
    """Return the view of each of some workers, given by their codes, from one pass over the votes; None: of all together."""
    votes, k = people.votes, people.votes.n_labels
    names, against = tuple(votes.labels.texts()), "the chosen label" if truth is None else "the truth"
    number = np.zeros(votes.n_rows, np.int64)  # of each row among the workers asked for; -1 for others
    if workers is not None:
        of_worker = np.full(votes.n_workers, UNKNOWN, np.int64)
        of_worker[np.asarray(workers, np.int64)] = np.arange(len(workers))
        number = of_worker[votes.row_worker()]
    keys: list[Integers] = []
    counts: list[Integers] = []
    for row, label in voted(votes, people.fit.outcome.labels if truth is None else truth):
        kept = (number[row] >= 0) & (label >= 0) & (label < k)  # a true label that nobody gives has no row
        row, label = row[kept], label[kept]  # noqa: PLW2901
        found, times = np.unique((number[row] * k + label) * k + votes.row_label[row], return_counts=True)
        keys.append(found)
        counts.append(times)
    every, where = np.unique(np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True)
    total = np.bincount(where, np.concatenate([np.zeros(0, np.int64), *counts]), minlength=len(every)).astype(np.int64)
    of, cell = np.divmod(every, max(k * k, 1))
    true, given = np.divmod(cell, max(k, 1))
    ends = np.searchsorted(of, np.arange((1 if workers is None else len(workers)) + 1))
    ids = [None] if workers is None else [words.name(votes.workers[w]) for w in workers]
    return [
        ConfusionView(names, true[a:b], given[a:b], total[a:b], who, against)
        for who, a, b in zip(ids, ends[:-1], ends[1:], strict=True)
    ]


def voted(votes: Votes, labels: NDArray[np.integer]) -> Iterator[tuple[NDArray[np.uint32], Integers]]:
    """Yield (row, label of the task) of all votes, [votes] each, some at a time; labels are [tasks]."""
    for part, whole_ptr, whole_row in votes.parts():
        of_part = piece(labels, part)
        start = 0
        while start < len(of_part):
            end = max(int(np.searchsorted(whole_ptr, whole_ptr[start] + CHUNK, side="right")) - 1, start + 1)
            ptr = whole_ptr[start : end + 1]
            yield (
                whole_row[ptr[0] - whole_ptr[0] : ptr[-1] - whole_ptr[0]],
                np.repeat(of_part[start:end].astype(np.int64), np.diff(ptr)),
            )
            start = end
