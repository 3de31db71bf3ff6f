"""The engine of Spark: each partition keeps its votes as bytes, passes run where these are, their counts are summed here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.counts import Others
from quorate.data.options import Choice, Number
from quorate.data.votes import Gold, Panel, Votes
from quorate.engines.base import Checkpoint, PassSums
from quorate.engines.memory import cells_fit, most_pairs, require_cells
from quorate.engines.session import WorkerState
from quorate.engines.shard import Rules, Units, cuts
from quorate.errors import OptionError
from quorate.io.answers import gold_codes, read_gold
from quorate.io.ids import label_columns
from quorate.io.sources import Source, as_votes, is_spark_frame
from quorate.kernels.cpu import fastest
from quorate.kernels.reference import Sums
from quorate.spark import files as spark_files
from quorate.spark import session as spark
from quorate.spark import votes as spark_votes
from quorate.spark.distributed import DistributedSession
from quorate.spark.executor import Counted, Ends, Kept, Scores, Setting, Start, Step, Verdict, run
from quorate.spark.layout import FAR, NO_START, WHAT, FarOutcome, Size, partitions_for, size_of
from quorate.spark.packing import LINE, SCHEMA, Packing, Part, lines
from quorate.spark.result import SparkResult
from quorate.spark.session import Frame, arrow_batches, plain_errors, quoted
from quorate.spark.votes import SQL_KIND, FarGold, SparkVotes, WideVotes, beside
from quorate.spark.votes import read_gold as far_gold

TREE = 1 << 23  # cells of all partitions' counts together, beyond which they are summed in a tree


@dataclass(frozen=True)
class SparkEngine:
    """Runs passes on the executors of a Spark session: the frame's own, or the one at `master`."""

    name: str = "spark"
    threads: int = 1  # of the driver, for M-steps
    partitions: int | None = None  # None: as many as the votes ask for
    rows: str = "auto"  # where (worker, label) rows are: "driver", "executors", or the former where they fit
    blocks: int | None = None  # of workers, where rows are on the executors; None: as many as the rows ask for

    def __post_init__(self) -> None:
        Choice(("auto", "driver", "executors")).check("rows", self.rows)
        for name, value in (("partitions", self.partitions), ("blocks", self.blocks)):
            if value is not None:
                Number(least=1, whole=True).check(name, value)

    def read(self, source: Votes | Source | SparkVotes, **options: Any) -> Votes | SparkVotes:
        """Return votes where they lie: a Spark frame's, those of paths and URIs on Spark, others in memory."""
        if isinstance(source, SparkVotes):
            return spark_votes.widened(source) if self.rows == "executors" else source
        names = [source] if isinstance(source, str | os.PathLike) else source
        if is_spark_frame(source):
            return self._survey(source, narrow=False, **options)
        if isinstance(names, list | tuple) and names and all(isinstance(name, str | os.PathLike) for name in names):
            frame, is_text = spark_files.scan([os.fspath(name) for name in names])
            return self._survey(frame, narrow=is_text, **options)
        return as_votes(source, **options)

    def _survey(self, frame: Frame, **options: Any) -> SparkVotes:
        if self.rows == "driver":
            return spark_votes.read(frame, **options)
        most, fits = (most_pairs(), cells_fit) if self.rows == "auto" else (0, _never)
        return spark_votes.read(frame, most=most, fits=fits, **options)

    def load(
        self,
        votes: Votes | SparkVotes,
        *,
        seed: int,
        ties: str,
        gold: Any = None,
        history: Callable[[Panel], Others] | None = None,
    ) -> SparkSession | DistributedSession:
        """Return a session over these votes; a table that does not fit into the driver is foreseen and said."""
        given: Any = None
        if gold is not None:
            given = far_gold(gold, votes) if isinstance(votes, SparkVotes) else read_gold(gold, votes.labels)
        if isinstance(votes, WideVotes):
            return DistributedSession(votes, self.partitions, self.blocks, seed=seed, ties=ties, gold=given, history=history)
        if self.rows == "executors":
            raise OptionError("rows is 'executors', but the votes are in memory: leave rows out, or give a Spark frame")
        require_cells(votes.n_rows, votes.n_labels)
        return SparkSession(self, votes, seed=seed, ties=ties, gold=given, history=history)


class SparkSession(WorkerState):
    """Votes on executors. The driver has the panel, the table and the counts; nothing here grows with the tasks."""

    result = SparkResult

    def __init__(
        self,
        engine: SparkEngine,
        votes: Any,
        *,
        seed: int,
        ties: str,
        gold: Gold | FarGold | None,
        history: Callable[[Panel], Others] | None,
    ) -> None:
        kernels, units = fastest(), Units.of(len(votes))
        rules = Rules.of(kernels, engine.threads, votes.row_label, votes.labels, ties, lambda: units)
        super().__init__(votes, rules, history)
        self.spark = votes.frame.sparkSession if isinstance(votes, SparkVotes) else spark.session()
        self.gold_given = 0 if gold is None else len(gold)
        self._engine = engine
        self._votes = votes
        weights = self._rules.tie_weights(self._block)
        self._settings = Setting(votes.row_label, votes.labels, seed, ties, gold is not None, weights, units)
        self._gold: Any = gold
        self._before: Any = None  # what the current labels follow from: a broadcast table, "heads", or nothing yet
        self._verdict: Any = None  # how the fit ended

    @cached_property
    def size(self) -> Size:
        """How many tasks, votes and tasks without votes there are; laid out on the executors when first asked."""
        return size_of(self._packed, len(self._votes), self.release)

    @property
    def votes(self) -> Any:
        """The votes, with how many tasks they are on."""
        told = self._votes
        return replace(told, n_tasks=self.size.tasks, n_unvoted=self.size.unvoted) if isinstance(told, SparkVotes) else told

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        tally = self._sum(Start(self._setting, hard)).add_to(self._rules.empty(hard=hard))
        self._follow("heads")
        return self._counted_now(tally, hard=hard)

    def labels_to_start(self, labels: Any) -> NoReturn:
        """Raise: labels of all tasks never meet on the driver."""
        raise OptionError(NO_START)

    recount = labels_to_start

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take nothing: a fit on Spark is not resumed."""

    def restore(self) -> None:
        """Return that no fit was interrupted."""

    def checkpoint(self, point: Checkpoint) -> None:
        """Store nothing."""

    def e_step(self, *, hard: bool, likelihood: bool = True) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount."""
        tally, delta = self._count_into(hard=hard)
        now = self._broadcast_scores()
        counted = self._sum(Step(self._setting, self._before, now, hard, delta, likelihood))
        counted.add_to(tally)
        self._follow(now)
        ends = Ends(*counted.sums)
        sums = Sums(ends.log_likelihood, float("nan"), int(ends.changed), int(ends.impossible))
        return self._pass_sums(tally, sums, hard=hard)

    def finish(self) -> FarOutcome:
        """Return what the E-step under the current table says, summed over all tasks."""
        counted = self._decide("scores")
        told = np.zeros((self._votes.n_rows, 2))
        if len(counted.rows):
            told[counted.rows] = counted.lines
        return self._outcome(counted, told[:, 0], told[:, 1].astype(np.int64))

    def majority(self) -> FarOutcome:
        """Return what majority vote says, summed over all tasks."""
        return self._by_labels("heads")

    def weighted_majority(self) -> FarOutcome:
        """Return what weighted votes say, summed over all tasks."""
        return self._by_labels("weights")

    def posterior(self) -> NoReturn:
        """Raise: probabilities of all tasks never meet on the driver."""
        raise TypeError(FAR)

    def gold(self) -> None:
        """Return nothing: which tasks are gold is in `labels`."""

    def keep(self, pieces: Any) -> NoReturn:
        """Raise: figures of all tasks never meet on the driver."""
        raise TypeError(FAR)

    def labels(self) -> Frame:
        """Return a Spark frame of task, label, confidence, votes, tie, under what the fit ended with."""
        kind = SQL_KIND[self._votes.labels.kind]
        schema = f"task {self._task_kind}, label {kind}, confidence double, votes bigint, tie boolean"
        schema += ", gold boolean" if self._settings.with_gold else ""
        return spark.map_arrow(self._packed.select("part", "ids"), partial(_labels, self._verdict), schema)

    def probabilities(self) -> Frame:
        """Return a Spark frame of task and a column per label, under what the fit ended with."""
        names = label_columns(self._votes.labels.texts(), "task")
        schema = ", ".join([f"task {self._task_kind}", *(f"{quoted(name)} double" for name in names)])
        return spark.map_arrow(self._packed.select("part", "ids"), partial(_probabilities, self._verdict, names), schema)

    def release(self) -> None:
        """Give back what the executors keep; frames that were not written down cannot be made afterwards."""
        for kept in ("_parts", "_packed"):
            if kept in self.__dict__:
                self.__dict__[kept].unpersist()

    def _by_labels(self, by: Any) -> FarOutcome:
        counted = self._decide(by)
        tally = counted.add_to(self._rules.empty(hard=True))
        self._counted_now(tally, hard=False)
        own = tally[0][np.arange(self._votes.n_rows), self._votes.row_label]
        return replace(self._outcome(counted, own.astype(np.float64), own), log_likelihood=float("nan"))

    def _decide(self, by: Any) -> Counted:
        self._verdict = Verdict(self._setting, by, None if by == "heads" else self._broadcast_scores())
        self._follow(None)
        self._is_current = False
        return self._sum(self._verdict)

    def _outcome(self, counted: Counted, right: NDArray[np.float64], agreeing: NDArray[np.int64]) -> FarOutcome:
        ends = Ends(*counted.sums)
        return FarOutcome(
            labels=np.zeros(0, np.int32),
            confidence=np.zeros(0),
            tie=np.zeros(0, np.bool_),
            right=right,
            log_likelihood=ends.log_likelihood,
            agreeing=agreeing,
            ties=int(ends.ties),
            confidence_sum=ends.confidence,
        )

    def _sum(self, work: Any) -> Counted:
        """Return what the parts of all partitions add up to."""
        cells = self._votes.n_rows * self._votes.n_labels
        with plain_errors(WHAT):
            counts = self._parts.mapPartitions(partial(run, work))
            # A tree costs a stage of its own: worth it where the driver would have much to add up.
            depth = 2 if counts.getNumPartitions() * cells > TREE else 1
            total = counts.treeAggregate(None, _plus, _plus, depth)
        return total or Counted.nothing(self._votes.n_labels)

    def _follow(self, scores: Any) -> None:
        """Take what the labels now follow from, and let go of what they followed from before."""
        if self._before is not None and self._before != "heads":
            self._before.destroy()
        self._before = scores

    def _broadcast_scores(self) -> Kept:
        params = self._scored_by
        return self._broadcast(Scores(params.priors, params.table, params.uses_prior))

    def _broadcast(self, value: Any) -> Kept:
        with plain_errors(WHAT):
            return self.spark.sparkContext.broadcast(value)

    @cached_property
    def _setting(self) -> Kept:
        return self._broadcast(self._settings)

    @property
    def _task_kind(self) -> str:
        votes = self._votes
        return SQL_KIND[votes.task_kind if isinstance(votes, SparkVotes) else votes.tasks.kind]

    @cached_property
    def _packed(self) -> Frame:
        """The votes on the executors' disks, a line per partition, with the ids of its tasks."""
        votes, context = self._votes, self.spark.sparkContext
        n = self._engine.partitions or partitions_for(len(votes), context)
        with plain_errors(WHAT):
            if isinstance(votes, SparkVotes):
                panel = Panel(worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers, labels=votes.labels)
                packing = self._broadcast(Packing(panel, votes.duplicates, self._gold is not None))
                source = votes.frame if self._gold is None else beside(votes, self._gold)
                frame = spark.map_arrow(source.repartition(n, "task"), partial(_pack, packing), SCHEMA)
            else:
                pieces = cuts(votes.task_ptr, max(len(votes) // n, 1)) or [slice(0, 0)]
                gold = None if self._gold is None else gold_codes(self._gold, votes.tasks)
                parts = [tuple(one[name] for name in LINE) for one in lines(votes, pieces, gold)]
                frame = self.spark.createDataFrame(context.parallelize(parts, len(parts)), SCHEMA)
            return frame.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def _parts(self) -> Any:
        """The votes alone, as passes want them: in memory, and on disk what does not fit."""
        assert self.size is not None  # laid out, and found to be sound
        return self._packed.select("part").rdd.map(_first).persist(spark.storage("MEMORY_AND_DISK"))


def _never(*_: int) -> bool:
    return False


def _first(row: Any) -> bytes:
    return bytes(row[0])


def _plus(a: Counted | None, b: Counted | None) -> Counted | None:
    return b if a is None else a if b is None else a.plus(b)


def _pack(packing: Kept, batches: Iterator[Any]) -> Iterator[Any]:
    return packing.value(batches)  # type: ignore[no-any-return]


def _labels(verdict: Verdict, batches: Iterator[Any]) -> Iterator[Any]:
    for part, ids in _parts_in(batches):
        for frame in verdict.labels(part, ids):
            yield from arrow_batches(frame)


def _probabilities(verdict: Verdict, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    for part, ids in _parts_in(batches):
        for frame in verdict.probabilities(part, ids, names):
            yield from arrow_batches(frame)


def _parts_in(batches: Iterator[Any]) -> Iterator[tuple[Part, bytes]]:
    for batch in batches:
        for part, ids in pl.DataFrame(batch).iter_rows():
            yield Part.unpack(part), ids


def spark_engine(threads: int) -> SparkEngine:
    """Return the engine of Spark, whose driver may use so many threads."""
    return SparkEngine(threads=threads)
