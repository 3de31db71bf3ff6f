"""A fit on Spark decoded for people: the same frames, as Spark frames; tasks never meet on the driver."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.engines.spark import FarOutcome, SparkPasses
from quorate.io import spark
from quorate.result import Result


class SparkResult(Result):
    """What `fit` and `aggregate` return for a Spark frame: a `Result` whose frames are Spark's.

    Labels and probabilities are computed on the executors whenever Spark asks for them, from the votes that these
    keep until `release()`. `labels_frame()` and `probabilities_frame()` gather everything on the driver.
    """

    if TYPE_CHECKING:
        session: SparkPasses

    def __repr__(self) -> str:
        return f"Spark{super().__repr__()}"

    @cached_property
    def labels(self) -> Any:
        """Task, label, confidence (posterior probability of the label), votes and tie, as a Spark frame.

        Tasks with nothing but abstentions are there, too, without label.
        """
        return self.session.labels()

    @cached_property
    def probabilities(self) -> Any:
        """Task and one column per label: the probability that it is the true one (for mv the vote share)."""
        return self.session.probabilities()

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong labels, if confidence is to be believed: the sum of 1 - confidence over the tasks."""
        return self.session.size.tasks - self._outcome.confidence_sum

    @property
    def gold_without_votes(self) -> int:
        """Gold tasks that nobody voted on: they teach nothing, and are ignored."""
        return self.gold_given - self.session.size.gold

    @property
    def ties(self) -> int:
        """The number of tasks whose label had to be picked among tied ones."""
        return self._outcome.ties

    @property
    def unvoted(self) -> int:
        """The number of tasks with nothing but abstentions."""
        return self.session.size.unvoted

    def labels_frame(self) -> pl.DataFrame:
        """Returns `labels` as a polars frame, gathered on the driver."""
        return spark.gather(self.labels)

    def probabilities_frame(self) -> pl.DataFrame:
        """Returns `probabilities` as a polars frame, gathered on the driver."""
        return spark.gather(self.probabilities)

    def release(self) -> None:
        """Gives back what the executors keep of the votes; labels not yet written are lost with it."""
        self.session.release()

    @property
    def _outcome(self) -> FarOutcome:
        outcome = self.fit.outcome
        assert isinstance(outcome, FarOutcome)
        return outcome

    def _agreeing(self) -> NDArray[np.int64]:
        return self._outcome.agreeing

    def _native(self, frame: pl.DataFrame) -> Any:
        return spark.spread(frame, self.session.spark)
