"""A fit on Spark decoded for people, and the session that serves it: frames are Spark frames, tasks stay on the executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import FitOutcome
from adjudge.engines.base import Checkpoint, PassSums, WorkerBlock
from adjudge.engines.passes import Probabilities, RowFunction, VotePass
from adjudge.errors import AdjudgeError, InputError, OptionError, quote
from adjudge.io.frames import Frame, label_columns
from adjudge.kernels.reference import HonestRule
from adjudge.models.careful import CarefulShared, apply_to, confusion_of, known_labels, shared_by_all
from adjudge.models.honest import Dependence
from adjudge.models.knowledge import Learned, over
from adjudge.results.result import Result
from adjudge.spark import session as spark
from adjudge.spark.executor import FitSettings, TaskSums
from adjudge.spark.votes import SQL_KIND, SparkVotes

START_UNSUPPORTED = "engine 'spark' takes no labels to start with: leave start out"
REMOTE_TASKS = "the tasks of a Spark fit stay on the executors: ask the result for probabilities"


@dataclass(frozen=True, eq=False)
class RemoteOutcome(FitOutcome):
    """The outcome of the last E-step without its tasks: these stay on the executors, and the arrays of tasks are empty."""

    agreeing: NDArray[np.int64]  # [rows] votes equal to the label of their task; empty where rows are remote, too
    ties: int
    confidence_sum: float

    @classmethod
    def of(cls, sums: TaskSums, right: NDArray[np.float64], agreeing: NDArray[np.int64]) -> RemoteOutcome:
        """Return the outcome with these sums over all tasks, and the expected right and the agreeing votes, [rows] each."""
        return cls(
            labels=np.zeros(0, np.int32),
            confidence=np.zeros(0),
            tie=np.zeros(0, np.bool_),
            right_votes=right,
            log_likelihood=sums.log_likelihood,
            agreeing=agreeing,
            ties=int(sums.ties),
            confidence_sum=sums.confidence,
        )


class RemoteSession:
    """The part of a session whose tasks are on executors that does not depend on where its rows are."""

    _votes: Any
    _settings: FitSettings
    _ended: Any  # how the fit decided tasks; None before its end

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: a fit on Spark is not resumed."""

    def restore(self) -> None:
        """Return None: a fit on Spark is not resumed."""

    def checkpoint(self, point: Checkpoint) -> None:
        """Do nothing: a fit on Spark is not resumed."""

    def labels_to_start(self, labels: Any) -> NoReturn:
        """Raise: the labels of all tasks are never on the driver."""
        raise OptionError(START_UNSUPPORTED)

    def recount(self, labels: NDArray[np.int32]) -> PassSums:
        """Count the labels that the fit decided, which are on the executors, and return their sums; no others can be given."""
        if self._ended is None or len(labels):
            raise OptionError(START_UNSUPPORTED)
        return self._recount()

    def _recount(self) -> PassSums:
        """Return the sums of the labels that the fit decided."""
        raise NotImplementedError

    def run(self, job: VotePass[Any], function: RowFunction) -> Any:
        """Return a Spark frame of task and a column per label for honest probabilities.

        Other figures of all tasks are never on the driver; `honest_outcome` computes confidence where the tasks are.
        """
        if isinstance(job, Probabilities):
            return self._probabilities(self._judge_honestly(function, job.rule))
        raise TypeError(REMOTE_TASKS)

    def honest_outcome(self, outcome: RemoteOutcome, function: RowFunction, rule: HonestRule) -> RemoteOutcome:
        """Return the outcome with honest confidence; frames of labels and probabilities are honest from now on."""
        self._ended = self._judge_honestly(function, rule)
        sums = self._ends(self._ended)
        return replace(outcome, ties=int(sums.ties), confidence_sum=sums.confidence)

    def _judge_honestly(self, function: RowFunction, rule: HonestRule) -> Any:
        """Return how the fit decided tasks, with honest confidence instead of its own."""
        raise NotImplementedError

    def _ends(self, ended: Any) -> TaskSums:
        """Return the sums over all tasks of a way to decide them."""
        raise NotImplementedError

    def posterior(self) -> NoReturn:
        """Raise: the probabilities of all tasks are never on the driver."""
        raise TypeError(REMOTE_TASKS)

    def gold(self) -> None:
        """Return None: `labels` says which tasks are gold."""

    def keep(self, pieces: Any) -> NoReturn:
        """Raise: figures of all tasks are never on the driver."""
        raise TypeError(REMOTE_TASKS)

    def labels(self) -> spark.Frame:
        """Return a Spark frame of task, label, confidence, votes, tie, as the fit decided."""
        schema = f"{self._task_column}, label {SQL_KIND[self._votes.labels.kind]}, confidence double, votes bigint, tie boolean"
        return self._by_task(self._ended, None, schema + (", gold boolean" if self._settings.with_gold else ""))

    def probabilities(self) -> spark.Frame:
        """Return a Spark frame of task and a column per label, as the fit decided."""
        return self._probabilities(self._ended)

    def own_probabilities(self) -> spark.Frame:
        """Return a Spark frame of task and a column per label: the model's own posterior, which decides labels."""
        return self._probabilities(self._own_decision())

    def _own_decision(self) -> Any:
        """Return how the fit decided tasks, with its own confidence."""
        raise NotImplementedError

    def _probabilities(self, ended: Any) -> spark.Frame:
        names = label_columns(self._votes.labels.texts(), "task")
        return self._by_task(ended, names, ", ".join([self._task_column, *(f"{spark.sql_name(name)} double" for name in names)]))

    @property
    def _task_column(self) -> str:
        votes = self._votes
        return f"task {SQL_KIND[votes.task_kind if isinstance(votes, SparkVotes) else votes.tasks.kind]}"

    def _by_task(self, ended: Any, names: list[str] | None, schema: str) -> spark.Frame:
        """Return a Spark frame with this schema, of tasks decided so: probabilities in columns of these names, or the labels."""
        raise NotImplementedError


class SparkResult(Result):
    """What `fit` and `aggregate` return for a Spark frame: a `Result` whose frames are Spark's.

    Executors compute labels and probabilities when Spark asks for them, from the votes that they keep until `release()`.
    `labels_frame()` and `probabilities_frame()` gather everything on the driver.
    """

    session: Any  # of Spark

    def __getstate__(self) -> dict[str, Any]:
        """Raise: what a fit on Spark knows is on the executors."""
        raise AdjudgeError(
            "a result on Spark cannot be pickled or deep-copied: its votes and labels are on the executors. Write result.labels "
            "with Spark, or keep what was learned with result.save(path), which adj.load reads"
        )

    def __repr__(self) -> str:
        return f"Spark{super().__repr__()}"

    @cached_property
    def labels(self) -> Frame:
        """Task, label, confidence (posterior probability of the label), votes and tie, as a Spark frame.

        Tasks with abstentions only are included, without label.
        """
        return cast(Frame, self.session.labels())

    @cached_property
    def probabilities(self) -> Frame:
        """Task and one column per label: the probability that it is the true one (for mv the vote share)."""
        return cast(Frame, self.session.probabilities())

    @cached_property
    def posterior(self) -> Frame:
        """Task and one column per label: the model's own posterior, which decides labels; see `probabilities`."""
        return cast(Frame, self.session.own_probabilities())

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong labels according to the confidence: the sum of 1 - confidence over the tasks."""
        return float(self.session.size.tasks - self._outcome.confidence_sum)

    @property
    def gold_without_votes(self) -> int:
        """The number of gold tasks without votes, which are ignored."""
        return int(self.gold_given - self.session.size.gold)

    @property
    def ties(self) -> int:
        """The number of tasks whose label was picked among tied labels."""
        return self._outcome.ties

    @property
    def unvoted(self) -> int:
        """The number of tasks with abstentions only."""
        return int(self.session.size.unvoted)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, gathered on the driver."""
        return spark.gather(self.labels)

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame, gathered on the driver."""
        return spark.gather(self.probabilities)

    def release(self) -> None:
        """Free the votes on the executors; labels not yet written are lost."""
        self.session.release()

    @property
    def _outcome(self) -> RemoteOutcome:
        outcome = self.fit.outcome
        assert isinstance(outcome, RemoteOutcome)
        return outcome

    def agreeing_votes(self) -> NDArray[np.int64]:
        """Return the votes of each row that equal the label of their task, [rows]: counted on the executors."""
        return self._outcome.agreeing

    def _native(self, frame: pl.DataFrame) -> Frame:
        return cast(Frame, spark.to_spark(frame, self.session.spark))


class DistributedResult(SparkResult):
    """A `SparkResult` whose workers are on the executors, too."""

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes, accuracy, agreement, abstained, and what else the model knows of a worker, as a Spark frame.

        `abstained` is 0 if all votes have a label, else null: abstentions are not counted by worker.

        With honest confidence, accuracy is honest, too, and has its 90% interval.
        """
        honest = self.fit.honest
        return cast(Frame, self.session.workers(None if honest is None else honest.honest.accuracy_law))

    def workers_frame(self, *, trust: bool = True) -> pl.DataFrame:
        """Return `workers` as a polars frame, gathered on the driver; without `trust` what costs no pass alone."""
        return spark.gather(self.workers if trust else self.session.workers()).sort("worker")

    def confusion_matrix(self, worker: object) -> NDArray[np.float64]:
        """Return pi_cl of one worker, [K true, K given]; zeros where the worker never met the true label."""
        careful = self.scoring == "careful"
        found: NDArray[np.float64] | None = (self.session.worker_counts if careful else self.session.confusion)(worker)
        if found is None:
            raise InputError(f"worker {quote(worker)} has no votes here; there are {self.votes.n_workers} workers")
        return confusion_of(found, *self._careful) if careful else found

    @cached_property
    def _careful(self) -> tuple[CarefulShared, Dependence, NDArray[np.bool_]]:
        """Return the shared inputs of a careful worker's confusion: sums over all workers, and the labels."""
        found, gather = Dependence.of(self.fit.facts), self.session.gather
        exists = self.votes.given_labels() | (self.fit.statistics.class_counts > 0)
        past = None if self.history is None else over(self.history, self.votes.labels)
        if past is None:
            return shared_by_all(gather, found, exists), found, exists
        here = self.session.workers_here(past.workers)  # whose history the blocks have
        elsewhere = replace(past, counts=np.where(here[past.row_worker()][:, None], 0.0, past.counts))

        def every(function: Callable[[WorkerBlock, Any], Any]) -> Any:
            return gather(function) + apply_to(elsewhere, function)

        exists |= known_labels(past)
        return shared_by_all(every, found, exists), found, exists

    def learned(self) -> Learned:
        """Raise: the parameters of the workers are on the executors, and a saved model is one file."""
        raise AdjudgeError(
            "what this fit has learned of its workers is on the executors, and a saved model is one file: write down "
            "result.workers, or fit with SparkEngine(rows='driver') where the tables fit"
        )
