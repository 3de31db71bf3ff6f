"""What the EM loop asks of an engine."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.fit import Outcome
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.votes import Votes


class Session(Protocol):
    """Votes laid out on an engine, with the current label of every task."""

    def start(self, *, hard: bool) -> Statistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        ...

    def recount(self, labels: NDArray[np.int32]) -> Statistics:
        """Returns the statistics of these labels, [tasks], and takes them as the current ones."""
        ...

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> Statistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount.

        Without `likelihood` a hard pass may leave the log-likelihood NaN, where that is faster.
        """
        ...

    def confusion_table(
        self, counts: NDArray[np.float64] | NDArray[np.int64], smoothing: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        ...

    def finish(self, params: Parameters) -> Outcome:
        """Returns what the E-step under `params` says of every task."""
        ...

    def majority(self) -> tuple[Outcome, Statistics]:
        """Returns what majority vote says of every task, and the statistics of its winners."""
        ...

    def posterior(self, params: Parameters) -> NDArray[np.float64]:
        """Returns T_qc under `params`, [tasks, K]."""
        ...

    def shares(self) -> NDArray[np.float64]:
        """Returns the share of each task's votes that each label has, [tasks, K]."""
        ...


class Engine(Protocol):
    """A place where passes run."""

    @property
    def name(self) -> str:
        """The engine's name."""
        ...

    def load(self, votes: Votes, *, seed: int, ties: str) -> Session:
        """Returns a session over these votes."""
        ...
