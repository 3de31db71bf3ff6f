"""The engine of Spark: passes run on the executors that store the votes, and the driver adds up their counts."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Others
from adjudge.data.votes import WEIGHT_REMEDY, Gold, Votes, WorkerRows, require_unweighted
from adjudge.engines.base import PassSums
from adjudge.engines.memory import cells_fit, most_pairs, require_cells
from adjudge.engines.passes import Answers, PairSums, RowFunction, VotePass
from adjudge.engines.session import DecidedBy, WorkerState
from adjudge.engines.shard import PassRules, Units, cuts
from adjudge.errors import OptionError
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.read import as_votes
from adjudge.io.reading import ABOUT_VOTES, PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source, is_spark_frame
from adjudge.kernels.cpu import fastest
from adjudge.kernels.reference import HonestRule, Sums
from adjudge.spark import files as spark_files
from adjudge.spark import session as spark
from adjudge.spark import votes as spark_votes
from adjudge.spark.distributed import DistributedSession
from adjudge.spark.executor import (
    Broadcast,
    DecisionPass,
    EStepTables,
    FitSettings,
    HonestTables,
    PartCounts,
    TableChange,
    TableSource,
    TaskSums,
    count_gold,
    count_gold_tasks,
    count_majority,
    count_step,
    sum_votes,
)
from adjudge.spark.layout import FIT_FAILED, PART_DTYPES, PART_SCHEMA, Packing, Size, TaskPart, lines, partitions_for, size_of
from adjudge.spark.result import RemoteOutcome, RemoteSession, SparkResult
from adjudge.spark.session import Frame, arrow_batches, plain_errors
from adjudge.spark.stored import MAX_STORED_VOTES, Found, remove, run, store
from adjudge.spark.votes import DistributedVotes, RemoteGold, SparkVotes, with_gold
from adjudge.spark.votes import read_gold as remote_gold

TREE_CELLS = 1 << 23  # of the counts of all partitions; beyond that, they are summed in a tree
MIN_CHANGE_SAVING = 4  # a table is broadcast whole unless at most one line in four has changed
ENDED_FITS: list[str] = []  # whose votes nobody released: the next fit removes their files from executors
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SparkEngine:
    """Runs passes on the executors of a Spark session: the frame's own, or the one at `master`.

    Votes at paths and URIs, and votes in memory, have no session of their own: the running one is used, or one is started,
    after all that can be checked without it.
    """

    name: str = "spark"
    threads: int = 1  # of the driver, for M-steps
    partitions: int | None = None  # None: according to the number of votes
    rows: str = "auto"  # where (worker, label) rows are: "driver", "executors", or the former where they fit
    blocks: int | None = None  # of workers, where rows are on the executors; None: according to the number of rows
    master: str | None = None  # of the session that is started; None: spark-submit's, else this machine
    quiet: bool = False  # whether what Java and Spark log is kept off the screen
    on_start: Callable[[Any], None] | None = None  # called with a session before votes are read by it

    def read(self, source: Votes | Source | SparkVotes | Opened, reading: Reading = PLAIN_READING) -> Votes | SparkVotes:
        """Return votes where they lie: a Spark frame's, those of paths and URIs on Spark, others in memory."""
        source = Opened.of(source).source
        if isinstance(source, SparkVotes):
            return spark_votes.leave_workers(source) if self.rows == "executors" else source
        names = [source] if isinstance(source, str | os.PathLike) else source
        given = next((name for name in reading.given() if name not in ABOUT_VOTES), None)
        if given is not None and (is_spark_frame(source) or isinstance(names, list | tuple)):
            raise OptionError(f"{given} is for votes that are read into memory or onto disk, not by Spark: leave it out")
        if is_spark_frame(source):
            return self._survey(source, reading, narrow=False)
        if isinstance(names, list | tuple) and names and all(isinstance(name, str | os.PathLike) for name in names):
            spark_votes.require_no_order(reading.duplicates)
            frame, is_text = spark_files.scan([os.fspath(name) for name in names], self.start())
            return self._survey(frame, reading, narrow=is_text)
        return as_votes(source, reading)

    def start(self) -> Any:
        """Return the running session, or a new one."""
        running = spark.session(self.master, quiet=self.quiet)
        if self.on_start is not None:
            self.on_start(running)
        return running

    def _survey(self, frame: Frame, reading: Reading, *, narrow: bool) -> SparkVotes:
        options: dict[str, Any] = {name: getattr(reading, name) for name in ABOUT_VOTES}
        if self.rows == "driver":
            return spark_votes.read(frame, narrow=narrow, **options)
        max_pairs, fits = (most_pairs(), cells_fit) if self.rows == "auto" else (0, lambda *_: False)
        return spark_votes.read(frame, max_pairs=max_pairs, fits=fits, narrow=narrow, **options)

    def load(
        self,
        votes: Votes | SparkVotes,
        *,
        seed: int,
        ties: str,
        gold: Any = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> SparkSession | DistributedSession:
        """Return a session over these votes; raise if its table would not fit into the memory of the driver."""
        require_unweighted(votes, "engine 'spark'", f"{WEIGHT_REMEDY}, or use engine='disk'")
        given: Any = None
        if gold is not None:
            given = remote_gold(gold, votes) if isinstance(votes, SparkVotes) else read_gold(gold, votes.labels)
        if isinstance(votes, DistributedVotes):
            return DistributedSession(votes, self.partitions, self.blocks, seed=seed, ties=ties, gold=given, history=history)
        if self.rows == "executors":
            raise OptionError("rows is 'executors', but the votes are in memory: leave rows out, or give a Spark frame")
        require_cells(votes.n_rows, votes.n_labels)
        return SparkSession(self, votes, seed=seed, ties=ties, gold=given, history=history)


class SparkSession(RemoteSession, WorkerState):
    """Votes on executors. The driver has the panel, the table and the counts: its memory does not grow with the tasks."""

    result = SparkResult

    def __init__(
        self,
        engine: SparkEngine,
        votes: Any,
        *,
        seed: int,
        ties: str,
        gold: Gold | RemoteGold | None,
        history: Callable[[WorkerRows], Others] | None,
    ) -> None:
        kernels, units = fastest(), Units.of(len(votes))
        rules = PassRules.of(kernels, engine.threads, votes.row_label, votes.labels, ties, lambda: units)
        super().__init__(votes, rules, history)
        self.spark = votes.frame.sparkSession if isinstance(votes, SparkVotes) else engine.start()
        self.gold_given = 0 if gold is None else len(gold)
        self._engine = engine
        self._votes = votes
        weights = self._tie_weights()
        self._settings = FitSettings(votes.row_label, votes.labels, seed, ties, gold is not None, weights, units)
        self._gold: Any = gold
        self._before: Any = None  # source of the current labels: a `TableSource`, "votes" (majority vote) or None
        self._last_table: tuple[Floats, TableSource] | None = None  # the table that was broadcast last, and how
        self._base: tuple[Floats, Broadcast] | None = None  # the table that was broadcast last as a whole
        self._tables_made = 0
        self._is_stored = False  # whether executors have files of votes
        self._fit_id = uuid.uuid4().hex
        weakref.finalize(self, ENDED_FITS.append, self._fit_id)
        self._ended: DecisionPass | None = None  # on the tasks, once the fit has ended
        self._on_gold: Any = None  # [rows, K] votes on gold tasks

    @cached_property
    def size(self) -> Size:
        """The numbers of tasks, votes and tasks without votes; the first access lays the votes out on the executors."""
        return size_of(self._packed, len(self._votes), self.release)

    @property
    def votes(self) -> Any:
        """The votes, with the number of tasks."""
        votes = self._votes
        if not isinstance(votes, SparkVotes):
            return votes
        return replace(votes, n_tasks=self.size.tasks, n_unvoted=self.size.unvoted)

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        tally = self._sum(partial(count_majority, hard=hard)).add_to(self._rules.empty(hard=hard))
        self._follow("votes")
        return self._counted_now(tally, hard=hard)

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount."""
        tally, delta = self._count_into(hard=hard)
        now = self._broadcast_scores()
        step = partial(count_step, before=self._before, scores=now, hard=hard, delta=delta, likelihood=likelihood)
        counted = self._sum(step)
        counted.add_to(tally)
        self._follow(now)
        found = TaskSums(*counted.sums)
        sums = Sums(found.log_likelihood, float("nan"), int(found.changed), int(found.impossible))
        return self._pass_sums(tally, sums, hard=hard)

    def finish(self, *, hard: bool = False) -> RemoteOutcome:
        """Return the outcome of the E-step under the current table, summed over all tasks; `hard` counts its labels."""
        if hard:
            return self._by_labels("scores", hard=True)
        counted = self._decide("scores")
        right_and_agreeing = np.zeros((self._votes.n_rows, 2))
        if len(counted.rows):
            right_and_agreeing[counted.rows] = counted.lines
        right, agreeing = right_and_agreeing.T
        return RemoteOutcome.of(TaskSums(*counted.sums), right, agreeing.astype(np.int64))

    def majority(self) -> RemoteOutcome:
        """Return the outcome of majority vote, summed over all tasks."""
        return replace(self._by_labels("votes"), log_likelihood=float("nan"))

    def weighted_majority(self) -> RemoteOutcome:
        """Return the outcome of weighted majority vote, summed over all tasks."""
        return replace(self._by_labels("weights"), log_likelihood=float("nan"))

    def gold_tasks(self, *, votes: int) -> int:
        """Return the number of gold tasks with at least `votes` votes."""
        return 0 if self._gold is None else int(self._sum(partial(count_gold_tasks, votes=votes)).sums[0])

    def run(self, job: VotePass[Any], function: RowFunction) -> Any:
        """Return the result of a pass: sums over pairs of votes or by row, or a frame of probabilities."""
        if not isinstance(job, PairSums | Answers):
            return super().run(job, function)
        counts = self._open_counts() if job.skips_gold else self._counted[0]
        inputs = self._broadcast(job.inputs(function(self._block, counts), self._block))
        counted = self._sum(partial(sum_votes, source=self._source, job=job, inputs=inputs))
        inputs.destroy()
        if isinstance(job, PairSums):
            return job.result(counted.sums)
        sums = np.zeros((2, self._votes.n_rows), np.int64)
        if len(counted.rows):
            sums[:, counted.rows] = counted.lines.T
        return job.result(sums)

    def _open_counts(self) -> Any:
        counts = self._counted[0]
        if self._gold is None:
            return counts
        if self._on_gold is None:
            self._on_gold = self._sum(count_gold).add_to(self._rules.empty(hard=True))[0]
        return counts - self._on_gold

    @property
    def _source(self) -> Any:
        """What the current labels follow from: a broadcast table, or "votes"."""
        return self._before if self._before is not None or self._ended is None else self._ended.source

    def _recount(self) -> PassSums:
        assert self._ended is not None
        if not self._ended.is_hard:  # otherwise they were counted when they were decided
            counted = self._sum(replace(self._ended, hard=True))
            self._counted_now(counted.add_to(self._rules.empty(hard=True)), hard=False)
        return PassSums(self._counted[1])

    def _judge_honestly(self, function: RowFunction, rule: HonestRule) -> DecisionPass:
        assert self._ended is not None
        lines, without = function(self._block, self._counted[0])
        judged = HonestTables(lines, without, rule)
        return replace(self._ended, honest=self._broadcast(judged), temperature=1.0)

    def _own_decision(self) -> DecisionPass:
        assert self._ended is not None
        return replace(self._ended, honest=None, temperature=1.0)

    def tempered_outcome(self, outcome: RemoteOutcome, temperature: float) -> RemoteOutcome:
        """Return the outcome with probabilities raised to 1 / temperature; frames are tempered from now on."""
        assert self._ended is not None
        self._ended = replace(self._ended, temperature=temperature)
        return replace(outcome, confidence_sum=self._ends(self._ended).confidence)

    def _ends(self, ended: DecisionPass) -> TaskSums:
        return TaskSums(*self._sum(ended.ends).sums)

    def release(self) -> None:
        """Free what the executors store; frames that were not written before cannot be computed afterwards."""
        if self._is_stored:
            with plain_errors("cannot free the votes on the executors"):
                self._stored.mapPartitions(partial(remove, self._fit_id)).count()
            self._is_stored = False
        for name in ("_stored", "_packed"):
            if name in self.__dict__:
                self.__dict__[name].unpersist()

    def _by_labels(self, by: DecidedBy, *, hard: bool = False) -> RemoteOutcome:
        counted = self._decide(by, hard=hard)
        tally = counted.add_to(self._rules.empty(hard=True))
        self._counted_now(tally, hard=False)
        own = tally[0][np.arange(self._votes.n_rows), self._votes.row_label]
        return RemoteOutcome.of(TaskSums(*counted.sums), own.astype(np.float64), own)

    def _decide(self, by: DecidedBy, *, hard: bool = False) -> PartCounts:
        self._ended = DecisionPass(by, None if by == "votes" else self._broadcast_scores(), hard)
        self._follow(None)
        self._is_current = False
        return self._sum(self._ended)

    def _by_task(self, ended: DecisionPass, names: list[str] | None, schema: str) -> Frame:
        batches = partial(_task_batches, self._shared_settings, ended, names)
        return spark.map_arrow(self._packed.select("part", "ids"), batches, schema)

    def _sum(self, work: Any) -> PartCounts:
        """Return the sum over the parts of all partitions; one job, unless an executor lacks the files of a part."""
        act = partial(run, self._shared_settings, self._fit_id, work)
        cells = self._votes.n_rows * self._votes.n_labels
        with plain_errors(FIT_FAILED):
            found = self._stored.mapPartitions(act)
            # A tree costs a stage of its own: worth it where the driver would have much to add up.
            depth = 2 if found.getNumPartitions() * cells > TREE_CELLS else 1
            total: Found = found.treeAggregate(Found(), Found.plus, Found.plus, depth)
            self._is_stored = True
            if total.missing:
                again = self._laid_out.mapPartitionsWithIndex(self._store).mapPartitions(act)
                context = self.spark.sparkContext
                total = reduce(Found.plus, context.runJob(again, list, sorted(total.missing)), total)
        return total.counts or PartCounts.nothing(self._votes.n_labels)

    def _follow(self, scores: Any) -> None:
        """Set the source of the current labels, and free the one before."""
        before, self._before = self._before, scores
        if isinstance(before, TableSource) and (self._ended is None or self._ended.scores is not before):
            self._free(before)

    def _free(self, source: TableSource) -> None:
        """Free a table that was broadcast, except for what others still use."""
        if source.change is not None:
            source.change.destroy()
        others = [one for one in (self._before, self._last_table and self._last_table[1]) if isinstance(one, TableSource)]
        if (self._base is None or self._base[1] is not source.base) and all(one.base is not source.base for one in others):
            source.base.destroy()

    def _broadcast_scores(self) -> TableSource:
        """Return the current table on the executors, to which only its changed lines are sent if these are few."""
        params = self._scored_by
        if self._last_table is not None and self._last_table[0] is params.table:
            return self._last_table[1]
        self._tables_made += 1
        change = None
        if self._base is not None:
            rows = np.flatnonzero((self._base[0] != params.table).any(axis=1))
            if len(rows) * MIN_CHANGE_SAVING <= len(params.table):
                change = self._broadcast(TableChange(rows, params.table[rows], params.priors, params.uses_prior))
        if change is None:
            self._base = params.table, self._broadcast(EStepTables(params.priors, params.table, params.uses_prior))
        assert self._base is not None
        source = TableSource(str(self._tables_made), self._base[1], change)
        self._last_table = params.table, source
        return source

    def _broadcast(self, value: Any) -> Broadcast:
        with plain_errors(FIT_FAILED):
            return self.spark.sparkContext.broadcast(value)

    @cached_property
    def _shared_settings(self) -> Broadcast:
        return self._broadcast(self._settings)

    @cached_property
    def _packed(self) -> Frame:
        """The votes on the executors' disks, a line per partition, with the ids of its tasks."""
        votes, context = self._votes, self.spark.sparkContext
        n = self._engine.partitions or partitions_for(len(votes), context)
        with plain_errors(FIT_FAILED):
            if isinstance(votes, SparkVotes):
                panel = WorkerRows(
                    worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers, labels=votes.labels
                )
                packing = self._broadcast(Packing(panel, votes.duplicates, self._gold is not None))
                source = votes.frame if self._gold is None else with_gold(votes, self._gold)
                frame = spark.map_arrow(source.repartition(n, "task"), partial(_pack, packing), PART_SCHEMA)
            else:
                pieces = cuts(votes.task_ptr, max(len(votes) // n, 1)) or [slice(0, 0)]
                gold = None if self._gold is None else gold_codes(self._gold, votes.tasks)
                parts = [tuple(one[name] for name in PART_DTYPES) for one in lines(votes, pieces, gold)]
                frame = self.spark.createDataFrame(context.parallelize(parts, len(parts)), PART_SCHEMA)
            return frame.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def _laid_out(self) -> Any:
        """The votes that Spark stores, as bytes, in as many partitions as a pass has tasks."""
        assert self.size is not None  # the layout was checked
        parts, cores = self._packed.select("part").rdd.map(_first), self.spark.sparkContext.defaultParallelism
        tasks = cores * -(-len(self._votes) // (cores * MAX_STORED_VOTES))
        return parts if self._engine.partitions else parts.coalesce(min(max(tasks, 1), parts.getNumPartitions()))

    @cached_property
    def _store(self) -> Any:
        """What writes a partition to files of its executor."""
        ended = tuple(ENDED_FITS)
        ENDED_FITS.clear()
        return partial(store, self._shared_settings, self._fit_id, ended)

    @cached_property
    def _stored(self) -> Any:
        """The numbers of the partitions whose votes are in files, on the executors that have the files."""
        return self._laid_out.mapPartitionsWithIndex(self._store).persist(spark.storage("MEMORY_AND_DISK"))


def _first(row: Any) -> bytes:
    return bytes(row[0])


def _pack(packing: Broadcast, batches: Iterator[Any]) -> Iterator[Any]:
    return packing.value(batches)  # type: ignore[no-any-return]


def _task_batches(settings: Broadcast, decision: DecisionPass, names: list[str] | None, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for data, ids in pl.DataFrame(batch).iter_rows():
            for frame in decision.frames(settings.value, TaskPart.unpack(data), ids, names):
                yield from arrow_batches(frame)


def spark_engine(threads: int, **settings: Any) -> SparkEngine:
    """Return the engine of Spark, whose driver uses so many threads."""
    return SparkEngine(threads=threads, **settings)
