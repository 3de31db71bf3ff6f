"""A result at a glance: shares of the labels, the least certain tasks, and the workers to look at.

Each figure is one look at arrays that the fit has left, so that any summary can afford it; verdicts on workers cost more, and
are taken from a frame of workers that exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Id
from adjudge.data.votes import piece
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.sets import MultiResult

SHARED_PATTERN: Final = "on ([0-9]+ of [0-9]+) shared tasks"  # in the reason of a worker who answers like another
BRIEF_LIST_LENGTH: Final = 3  # tasks or workers of a list
OVERVIEW_CHUNK_TASKS: Final = 1 << 18  # tasks per block, so that copies stay small
TO_LOOK_AT: Final = ("copy", "adversary", "spammer")  # verdicts that say something of a worker, gravest first
UNCLEAR_VERDICT: Final = "unclear"  # the verdict on workers of whom the votes tell too little
REVIEW_CONFIDENCE: Final = 0.95  # labels below it are those that a summary counts
FEW_EFFECTIVE: Final = 2 / 3  # of the votes on a task: with fewer effective votes, workers err together


def is_few(facts: Mapping[str, Any]) -> bool:
    """Return whether votes count for much less than their number, because workers err together.

    >>> is_few({"votes_per_task": 9, "effective_votes": 2.5}), is_few({})
    (True, False)
    """
    votes, effective = facts.get("votes_per_task"), facts.get("effective_votes")
    return votes is not None and effective is not None and effective < FEW_EFFECTIVE * votes


class LabelShare(NamedTuple):
    """A label's share of the votes (how often it was given) and of the labels (how often it was chosen)."""

    label: Id
    of_votes: float
    of_labels: float


class UncertainTask(NamedTuple):
    """A task with little confidence."""

    task: Id
    label: Id
    confidence: float
    votes: int


class FlaggedWorker(NamedTuple):
    """A worker to look at, and why."""

    worker: object
    verdict: str
    why: str


@dataclass(frozen=True)
class WorkersInBrief:
    """How many workers have each verdict, and the first of those to look at: the gravest, with most votes."""

    workers: int
    verdicts: Mapping[str, int]  # but "informative", which is nothing to look at; only those that occur
    flagged: tuple[FlaggedWorker, ...]
    alike: tuple[str, str, str] | None = None  # two workers who answer alike and are no copies, and on how many tasks
    others_alike: int = 0  # more workers who answer like another


def label_shares(result: Result | MultiResult) -> list[LabelShare] | None:
    """Return the share of every label, most frequent first; None if labels are not in this process.

    With several correct options, shares are of the sets that contain an option, and do not add up to 1.

    >>> import adjudge as adj
    >>> votes = [(1, "ann", "cat"), (1, "bob", "cat"), (2, "eve", "dog"), (2, "ann", "cat")]
    >>> label_shares(adj.aggregate(votes, model="mv", seed=1))
    [LabelShare(label='cat', of_votes=0.75, of_labels=1.0), LabelShare(label='dog', of_votes=0.25, of_labels=0.0)]
    """
    if not isinstance(result, Result):
        names, (given, chosen) = result.votes.options.ids(), _option_counts(result)
        votes, tasks = result.votes.n_votes, len(result.votes.tasks)
    else:
        if len(result.fit.outcome.labels) != result.votes.n_tasks:
            return None
        names, k = result.votes.labels.ids(), result.votes.n_labels
        given, chosen = np.bincount(result.votes.row_label, result.votes.votes_per_row(), minlength=k), np.zeros(k, np.int64)
        for cut in _cuts(result):
            chosen += np.bincount(piece(result.fit.outcome.labels, cut), minlength=k)
        votes, tasks = len(result.votes), result.votes.n_tasks
    shares = zip(names, (given / max(votes, 1)).tolist(), (chosen / max(tasks, 1)).tolist(), strict=True)
    return sorted((LabelShare(*share) for share in shares), key=lambda share: (-share.of_labels, -share.of_votes))


def _option_counts(result: MultiResult) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how many of the sets cast, and how many of those chosen, contain each option, [K] both."""
    from adjudge.results.sets import YES

    binary, k = result.votes.binary, len(result.votes.options)
    if not k:  # every set is empty
        return np.zeros(0), np.zeros(0)
    option = np.repeat(np.arange(binary.n_tasks) % k, np.diff(binary.task_ptr))
    given = np.bincount(option, binary.row_label[binary.row] == YES, minlength=k)
    parts = [one.fit.outcome.labels == YES for one in result.results]
    chosen = parts[0].reshape(-1, k).sum(axis=0) if len(parts) == 1 else np.array([part.sum() for part in parts])
    return given, chosen


def least_certain(result: Result, limit: int = BRIEF_LIST_LENGTH) -> list[UncertainTask]:
    """Return the tasks with least confidence, at most `limit`, least first; none where tasks are not in this process.

    Tasks of which the model is certain are left out, gold ones among them.

    >>> import adjudge as adj
    >>> least_certain(adj.aggregate([(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "cat")], model="mv"), limit=1)
    [UncertainTask(task=1, label='dog', confidence=0.5, votes=2)]
    """
    votes, outcome = result.votes, result.fit.outcome
    return [
        UncertainTask(votes.tasks[at], votes.labels[int(piece(outcome.labels, slice(at, at + 1))[0])], value, votes.votes_on(at))
        for at, value in least_certain_codes(result, limit)
    ]


def least_certain_codes(result: Result, limit: int = BRIEF_LIST_LENGTH) -> list[tuple[int, float]]:
    """Return code and confidence of the tasks that `least_certain` lists."""
    votes, outcome = result.votes, result.fit.outcome
    if len(outcome.confidence) != votes.n_tasks:
        return []
    codes, values = np.zeros(0, np.int64), np.zeros(0)
    for cut in _cuts(result):
        part = np.asarray(piece(outcome.confidence, cut))
        better = np.flatnonzero(part < values[-1]) if len(values) == limit else np.arange(len(part))
        at = better[_smallest(part[better], limit)]
        codes, values = np.append(codes, at + cut.start), np.append(values, part[at])
        least = np.argsort(values, kind="stable")[:limit]
        codes, values = codes[least], values[least]
    return [(at, value) for at, value in zip(codes.tolist(), values.tolist(), strict=True) if value < 1.0]


def count_below(result: Result, confidence: float = REVIEW_CONFIDENCE) -> int | None:
    """Return how many labels have less confidence; None where tasks are not in this process.

    >>> import adjudge as adj
    >>> count_below(adj.aggregate([(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "cat")], model="mv"))
    2
    """
    values = result.fit.outcome.confidence
    if len(values) != result.votes.n_tasks:
        return None
    return sum(int(np.count_nonzero(np.asarray(piece(values, cut)) < confidence)) for cut in _cuts(result))


def workers_in_brief(workers: pl.DataFrame, limit: int = BRIEF_LIST_LENGTH) -> WorkersInBrief | None:
    """Return the verdicts of a frame of workers in brief, with at most `limit` to look at; None if it has no verdicts.

    >>> rows = [("ann", 9, "informative", "93% equal"), ("bob", 8, "spammer", "as guesses would")]
    >>> workers_in_brief(pl.DataFrame(rows, ["worker", "votes", "verdict", "why"], orient="row"))
    WorkersInBrief(workers=2, verdicts={'spammer': 1}, flagged=(FlaggedWorker(worker='bob', ... why='as guesses would'),), ...)
    """
    if "verdict" not in workers.columns:
        return None
    known = workers.filter(pl.col("verdict").is_not_null() & pl.col("why").is_not_null())
    if not len(known):
        return None
    counted = dict(known["verdict"].value_counts().iter_rows())
    order = {verdict: rank for rank, verdict in enumerate(TO_LOOK_AT)}
    gravest = known.filter(pl.col("verdict").is_in(TO_LOOK_AT)).sort(
        pl.col("verdict").replace_strict(order, return_dtype=pl.Int8), -pl.col("votes"), maintain_order=True
    )
    flagged = gravest.head(limit).select("worker", "verdict", "why").iter_rows()
    verdicts = {verdict: counted[verdict] for verdict in (*TO_LOOK_AT, UNCLEAR_VERDICT) if verdict in counted}
    return WorkersInBrief(len(workers), verdicts, tuple(FlaggedWorker(*row) for row in flagged), *_most_alike(known))


def _most_alike(known: pl.DataFrame) -> tuple[tuple[str, str, str] | None, int]:
    """Return two workers who answer alike, with the tasks, and how many more do; those called copies are reported as such."""
    if "answers_like" not in known.columns:
        return None, 0
    tasks = pl.col("why").str.extract(SHARED_PATTERN)
    alike = known.filter(pl.col("answers_like").is_not_null() & (pl.col("verdict") != "copy") & tasks.is_not_null())
    if not len(alike):
        return None, 0
    first = alike.select(pl.col("worker", "answers_like").cast(pl.String), tasks).row(0)
    return first, len(alike.filter(~pl.col("worker").cast(pl.String).is_in(first[:2])))


def _cuts(result: Result) -> list[slice]:
    """Return the tasks as slices that are processed at a time."""
    return [slice(start, start + OVERVIEW_CHUNK_TASKS) for start in range(0, result.votes.n_tasks, OVERVIEW_CHUNK_TASKS)]


def _smallest(values: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return where the smallest values are, at most `limit`; of equal ones the first."""
    if len(values) <= limit:
        return np.arange(len(values))
    last = np.partition(values, limit - 1)[limit - 1]
    below = np.flatnonzero(values < last)
    return np.append(below, np.flatnonzero(values == last)[: limit - len(below)])
