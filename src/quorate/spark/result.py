"""A fit on Spark decoded for people: the same frames, as Spark frames; tasks never meet on the driver."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, QuorateError, shown
from quorate.io.frames import Frame
from quorate.results.knowledge import Learned
from quorate.results.result import Result
from quorate.spark import session as spark
from quorate.spark.layout import FarOutcome


class SparkResult(Result):
    """What `fit` and `aggregate` return for a Spark frame: a `Result` whose frames are Spark's.

    Labels and probabilities are computed on the executors whenever Spark asks for them, from the votes that these
    keep until `release()`. `labels_frame()` and `probabilities_frame()` gather everything on the driver.
    """

    session: Any  # of Spark

    def __getstate__(self) -> dict[str, Any]:
        """Raise: what a fit on Spark knows is on the executors."""
        raise QuorateError(
            "a result on Spark cannot be pickled or deep-copied: its votes and labels are on the executors. Write result.labels "
            "with Spark, or keep what was learned with result.save(path), which qr.load reads"
        )

    def __repr__(self) -> str:
        return f"Spark{super().__repr__()}"

    @cached_property
    def labels(self) -> Frame:
        """Task, label, confidence (posterior probability of the label), votes and tie, as a Spark frame.

        Tasks with nothing but abstentions are there, too, without label.
        """
        return cast(Frame, self.session.labels())

    @cached_property
    def probabilities(self) -> Frame:
        """Task and one column per label: the probability that it is the true one (for mv the vote share)."""
        return cast(Frame, self.session.probabilities())

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong labels, if confidence is to be believed: the sum of 1 - confidence over the tasks."""
        return float(self.session.size.tasks - self._outcome.confidence_sum)

    @property
    def gold_without_votes(self) -> int:
        """Gold tasks that nobody voted on: they teach nothing, and are ignored."""
        return int(self.gold_given - self.session.size.gold)

    @property
    def ties(self) -> int:
        """The number of tasks whose label had to be picked among tied ones."""
        return self._outcome.ties

    @property
    def unvoted(self) -> int:
        """The number of tasks with nothing but abstentions."""
        return int(self.session.size.unvoted)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, gathered on the driver."""
        return spark.gather(self.labels)

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame, gathered on the driver."""
        return spark.gather(self.probabilities)

    def release(self) -> None:
        """Give back what the executors keep of the votes; labels not yet written are lost with it."""
        self.session.release()

    @property
    def _outcome(self) -> FarOutcome:
        outcome = self.fit.outcome
        assert isinstance(outcome, FarOutcome)
        return outcome

    def _agreeing(self) -> NDArray[np.int64]:
        return self._outcome.agreeing

    def _native(self, frame: pl.DataFrame) -> Frame:
        return cast(Frame, spark.spread(frame, self.session.spark))


class DistributedResult(SparkResult):
    """A `SparkResult` whose workers are on the executors, too: there are no more of them here than are asked for."""

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes, accuracy, agreement, and what else the model knows of a worker, as a Spark frame."""
        return cast(Frame, self.session.workers())

    def workers_frame(self, *, trust: bool = True) -> pl.DataFrame:
        """Return `workers` as a polars frame, gathered on the driver, in the order of their ids."""
        return spark.gather(self.workers).sort("worker")

    def confusion_matrix(self, worker: object) -> NDArray[np.float64]:
        """Return pi_cl of one worker, [K true, K given]; zeros where the worker never met the true label."""
        found: NDArray[np.float64] | None = self.session.confusion(worker)
        if found is None:
            raise InputError(f"worker {shown(worker)} has no votes here; there are {self.votes.n_workers} workers")
        return found

    def learned(self) -> Learned:
        """Raise: what was learned of all workers is on the executors, and a saved model is one file."""
        raise QuorateError(
            "what this fit has learned of its workers is on the executors, and a saved model is one file: write down "
            "result.workers, or fit with SparkEngine(rows='driver') where the tables fit"
        )
