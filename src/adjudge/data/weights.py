"""Weights of votes: rows that differ in weight alone, pooled into (worker, given label) pairs.

Votes of one worker for one label that have different weights are in different rows. Passes see rows: the line of a row is the
line of its pair times its weight, and a row's count is a number of votes. Models see pairs: the count of a pair is the sum of
weight x count over its rows. So neither kernels nor models know of weights, and counts of votes stay whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, whole
from adjudge.data.votes import Panel, Votes
from adjudge.errors import OptionError

Floats = NDArray[np.float64]
DECIMALS: Final = 9  # of sums that people see
REMEDY: Final = "leave the weight out"


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The weights of the rows of votes, and the (worker, given label) pairs that the rows belong to."""

    panel: Panel  # whose rows are the pairs
    starts: NDArray[np.int64]  # [pairs] the first row of each
    pair: NDArray[np.int64]  # [rows] the pair of each
    weight: Floats  # [rows]

    @classmethod
    def of(cls, votes: Panel) -> RowWeights | None:
        """Return the weights of votes; None where every vote counts once."""
        weight = votes.row_weight
        if weight is None:
            return None
        worker, label = votes.row_worker(), votes.row_label
        first = np.ones(votes.n_rows, np.bool_)
        first[1:] = (worker[1:] != worker[:-1]) | (label[1:] != label[:-1])
        starts = np.flatnonzero(first)
        panel = Panel(
            worker_ptr=np.searchsorted(starts, votes.worker_ptr).astype(np.int64),
            row_label=label[starts],
            workers=votes.workers,
            labels=votes.labels,
        )
        return cls(panel, starts, np.cumsum(first) - 1, weight)

    @property
    def worker_ptr(self) -> NDArray[np.int64]:
        """Where each worker's rows begin, [workers + 1]."""
        return np.append(self.starts, len(self.pair))[self.panel.worker_ptr]

    def pooled(self, by_row: NDArray[Any]) -> Floats:
        """Return the sum of weight x value over the rows of each pair, [pairs, …], of values per row, [rows, …].

        The rows of a pair are sorted by weight: the order of the sum does not depend on that of the votes.
        """
        weighted = by_row * self.weight.reshape(-1, *(1,) * (by_row.ndim - 1))
        return np.add.reduceat(weighted, self.starts, axis=0) if len(self.starts) else weighted.astype(np.float64)

    def lines(self, by_pair: Floats) -> Floats:
        """Return the lines of all rows, [rows, K]: those of their pairs, [pairs, K], times the weight."""
        return whole(by_pair[self.pair] * self.weight[:, None], LOG_UNIT)


def pairs_of(votes: Votes) -> Panel:
    """Return the panel of (worker, given label) pairs: the votes' own where every vote counts once."""
    weights = RowWeights.of(votes)
    return votes if weights is None else weights.panel


def unweighted(votes: Votes) -> Votes:
    """Return the same votes, each of which counts once; votes on disk are read."""
    weights = RowWeights.of(votes)
    if weights is None:
        return votes
    return Votes(
        task_ptr=votes.task_ptr,
        row=weights.pair.astype(np.uint32)[votes.row],
        worker_ptr=weights.panel.worker_ptr,
        row_label=weights.panel.row_label,
        tasks=votes.tasks,
        workers=votes.workers,
        labels=votes.labels,
        unvoted=votes.unvoted,
        abstentions=votes.abstentions,
        frame_kind=votes.frame_kind,
        duplicates=votes.duplicates,
        understood=votes.understood,
    )


def weight_sums(votes: Votes, task_ptr: NDArray[np.int64], row: NDArray[np.uint32]) -> Floats:
    """Return the sum of the weights of the votes of each task, [tasks], for some tasks of these votes (see `Votes.parts`).

    Sums are for people: what the unit of weights adds to them is rounded off.
    """
    assert votes.row_weight is not None
    some = votes.row_weight[row[task_ptr[0] : task_ptr[-1]]]
    sums = np.add.reduceat(some, task_ptr[:-1] - task_ptr[0]) if len(some) else np.zeros(len(task_ptr) - 1)
    return np.round(sums, DECIMALS)


def total_weight(votes: Votes) -> float | None:
    """Return the sum of the weights of all votes; None where every vote counts once."""
    return None if votes.row_weight is None else round(float(votes.votes_per_row() @ votes.row_weight), DECIMALS)


def require_unweighted(votes: Panel, what: str, remedy: str = REMEDY) -> None:
    """Raise where something that counts every vote once is given weighted votes."""
    if votes.row_weight is not None:
        raise refused(what, remedy)


def refused(what: str, remedy: str = REMEDY) -> OptionError:
    """Return the error of something that counts every vote once, and is asked for weights.

    >>> print(refused("model 'glad'"))
    model 'glad' counts every vote once: leave the weight out
    """
    return OptionError(f"{what} counts every vote once: {remedy}")
