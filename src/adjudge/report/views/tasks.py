"""Which tasks are in doubt: how confidence is spread, the least certain tasks, and those that most votes speak against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import piece
from adjudge.report import words
from adjudge.results.overview import least_certain_codes
from adjudge.results.result import Result

QUESTION: Final = "Which tasks are in doubt?"
BINS: Final = 20  # of equal width, from 0 to 1
DOUBT: Final = 0.7  # confidence below which a label is in doubt
MAX_LISTED: Final = 50
CHUNK: Final = 1 << 20  # tasks looked at at once, so that copies stay small
NUDGE: Final = 1e-9  # confidences are sums of floats: 0.7 belongs to the bin that begins there


@dataclass(frozen=True, eq=False)
class TasksView:
    """The tasks by confidence, and those to look at."""

    n_tasks: int
    counts: NDArray[np.int64]  # [BINS] tasks by confidence
    doubtful: int  # tasks with a confidence below `DOUBT`
    expected_wrong: float  # labels, if confidence is to be believed
    uncertain: NDArray[np.int64]  # codes of the least certain tasks, least first
    disputed: NDArray[np.int64]  # codes of the tasks that most votes speak against, most first
    against: NDArray[np.int64]  # [disputed] those votes
    is_listed: bool = True  # whether every task is among the least certain ones, or certain
    result: Result | None = None  # where the labels of these tasks are

    @cached_property
    def bins(self) -> pl.DataFrame:
        """Low, high, tasks, in_doubt: bins of equal width, from the lowest that has a task."""
        first = int(np.argmax(self.counts > 0)) if self.counts.any() else 0
        edges = np.arange(BINS + 1) / BINS
        low = edges[first:-1]
        return pl.DataFrame(
            {"low": low, "high": edges[first + 1 :], "tasks": self.counts[first:], "in_doubt": low < DOUBT - NUDGE}
        )

    @property
    def share_in_doubt(self) -> float:
        """The share of tasks with a confidence below `DOUBT`."""
        return self.doubtful / max(self.n_tasks, 1)

    def listed(self, codes: NDArray[np.int64]) -> pl.DataFrame:
        """Return code, task, label (text each), confidence and votes of some tasks."""
        assert self.result is not None
        votes, outcome = self.result.votes, self.result.fit.outcome
        rows = [
            (
                int(code),
                words.name(votes.tasks[int(code)]),
                words.name(votes.labels[int(piece(outcome.labels, slice(code, code + 1))[0])]),
                float(piece(outcome.confidence, slice(code, code + 1))[0]),
                votes.votes_on(int(code)),
            )
            for code in codes.tolist()
        ]
        kinds = {"code": pl.Int64, "task": pl.String, "label": pl.String, "confidence": pl.Float64, "votes": pl.Int64}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not self.n_tasks:
            return "There are no tasks."
        if self.n_tasks == 1:
            return "There is one task; below stand its votes."
        if not self.doubtful:
            return words.sentence(f"no label has a confidence below {words.percent(DOUBT)}")
        share = words.percent(self.share_in_doubt)
        have = "has" if self.doubtful == 1 else "have"
        of = words.counted(self.n_tasks, "label")
        return words.sentence(f"{words.count(self.doubtful)} of {of} ({share}) {have} a confidence below {words.percent(DOUBT)}")


def binned(confidence: NDArray[np.float64]) -> TasksView:
    """Return the view of confidences, [tasks], without tasks to look at."""
    none = np.zeros(0, np.int64)
    counts, doubtful, wrong = _counted(confidence)
    return TasksView(len(confidence), counts, doubtful, wrong, none, none, none)


def _counted(confidence: NDArray[np.float64]) -> tuple[NDArray[np.int64], int, float]:
    """Return the tasks in each bin, those in doubt, and how many are expected to be wrong."""
    at = np.clip(((confidence + NUDGE) * BINS).astype(np.int64), 0, BINS - 1)
    return np.bincount(at, minlength=BINS), int((confidence < DOUBT - NUDGE).sum()), float((1.0 - confidence).sum())


def tasks(result: Result, *, limit: int = MAX_LISTED) -> TasksView:
    """Return the view of the tasks of a result.

    - `result`: of any model, in memory or on disk.
    - `limit`: how many tasks each list holds at most.

    >>> import adjudge as adj
    >>> votes = [(t, w, "no" if (t, w) == (3, "eve") else "yes") for t in range(5) for w in ("ann", "bob", "eve")]
    >>> view = tasks(adj.aggregate(votes, model="mv"))
    >>> view.sentence, view.disputed.tolist()
    ('5 of 5 labels (100%) have a confidence below 70%.', [3])
    """
    votes, outcome = result.votes, result.fit.outcome
    counts, doubtful, wrong = np.zeros(BINS, np.int64), 0, 0.0
    for start in range(0, votes.n_tasks, CHUNK):
        some = _counted(np.asarray(piece(outcome.confidence, slice(start, start + CHUNK)), np.float64))
        counts, doubtful, wrong = counts + some[0], doubtful + some[1], wrong + some[2]
    least = [code for code, _ in least_certain_codes(result, limit)]
    disputed, against = _disputed(result, limit)
    return TasksView(
        n_tasks=votes.n_tasks,
        counts=counts,
        doubtful=doubtful,
        expected_wrong=wrong,
        uncertain=np.array(least, np.int64),
        disputed=disputed,
        against=against,
        is_listed=len(least) < limit,
        result=result,
    )


def _disputed(result: Result, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tasks that most votes speak against, and how many: of equally many first the least certain ones."""
    votes, outcome = result.votes, result.fit.outcome
    codes, against, sure = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    for part, ptr, row in votes.parts():
        label = piece(outcome.labels, part)
        if not len(label):
            continue
        differs = votes.row_label[row] != np.repeat(label, np.diff(ptr))
        number = np.add.reduceat(differs, ptr[:-1], dtype=np.int64)
        at = np.flatnonzero(number)
        confidence = np.asarray(piece(outcome.confidence, part), np.float64)[at]
        at = at[np.lexsort((confidence, -number[at]))[:limit]]
        codes, against = np.append(codes, at + part.start), np.append(against, number[at])
        sure = np.append(sure, np.asarray(piece(outcome.confidence, part), np.float64)[at])
        first = np.lexsort((codes, sure, -against))[:limit]
        codes, against, sure = codes[first], against[first], sure[first]
    return codes, against
