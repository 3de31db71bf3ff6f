"""How votes lie on executors: how many parts there are, how much is in them, and what all engines of Spark say alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.data.fit import Outcome
from quorate.errors import InputError, QuorateError
from quorate.spark.packing import CHANGED, COUNTED
from quorate.spark.session import Frame, plain_errors

FEW, MANY = 1 << 18, 1 << 21  # votes in a partition: below few it is not worth its task, above many it is divided
WHAT = "the fit on Spark failed"
NO_START = "engine 'spark' takes no labels to start with: leave start out"
FAR = "the tasks of a Spark fit stay on the executors: ask the result for probabilities"


@dataclass(frozen=True, eq=False)
class FarOutcome(Outcome):
    """What the last E-step says, without the tasks: these stay on the executors, and the arrays of tasks are empty."""

    agreeing: NDArray[np.int64]  # [rows] votes equal to the label of their task; empty where rows are far, too
    ties: int
    confidence_sum: float


class Size(NamedTuple):
    """How much there is on the executors."""

    tasks: int
    votes: int
    unvoted: int
    gold: int  # tasks among them


def partitions_for(votes: int, context: Any, many: int = MANY) -> int:
    """Return how many parts so many votes are divided into."""
    cores: int = context.defaultParallelism
    return max(1, min(cores, votes // FEW), votes // many)


def size_of(packed: Frame, votes: int, release: Callable[[], None]) -> Size:
    """Return how much has been laid out; what a partition found wrong is said here, and so is another number of votes."""
    with plain_errors(WHAT):
        told = packed.select(*COUNTED, "problem").collect()
    for row in told:
        if row["problem"] is not None:
            release()
            raise InputError(row["problem"])
    size = Size(*(sum(row[name] for row in told) for name in COUNTED))
    if size.votes != votes:
        raise QuorateError(CHANGED)
    return size
