"""The session of a fit whose rows stay on the executors: worker blocks and parts of tasks that exchange messages.

A pass is one job. Blocks send lines of the table to the parts that requested them. Parts pass over their votes and send
counts back. Blocks add the counts up and take the M-step. The driver sees sums only, and runs `models/em.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Others, Parameters, Statistics, TableLines
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import FitEstimate, PassSums, Recipe, WorkerBlock
from adjudge.engines.passes import Answers, PairSums, RowFunction, VotePass
from adjudge.engines.shard import Units, class_totals
from adjudge.errors import OptionError
from adjudge.kernels import reference
from adjudge.kernels.reference import HonestRule
from adjudge.models.honest import AccuracyLaw
from adjudge.spark import session as spark
from adjudge.spark.blocks import (
    AtBlock,
    BlockPanel,
    BlockState,
    BlockSummary,
    Items,
    NamedBlock,
    OtherCounts,
    OtherTable,
    Receive,
    RoutedDecision,
    RoutedPart,
    answers_of_part,
    at_block,
    blend,
    block_inputs,
    block_of,
    ends_of_part,
    from_block,
    from_part,
    gold_of_part,
    honest_table,
    pair_values,
    pairs_of_part,
    recall,
    start_part,
    step_part,
    tabulate,
)
from adjudge.spark.executor import FitSettings, TaskSums, gold_tasks
from adjudge.spark.layout import FIT_FAILED, Size, TaskPart
from adjudge.spark.result import DistributedResult, RemoteOutcome, RemoteSession
from adjudge.spark.routes import (
    ANSWERS_STATE,
    FINAL_STATE,
    TABLE_STATE,
    Routes,
    TaggedState,
    task_frames,
    worker_confusion,
    worker_counts,
    worker_frames,
    workers_here,
)
from adjudge.spark.session import Frame, partition_of, plain_errors, serialized_like, sql_name
from adjudge.spark.votes import SQL_KIND, DistributedVotes

INTERVAL = ("accuracy_low", "accuracy_high")  # columns of honest accuracy
PASSES_PER_SWEEP = 8  # after this many, Java collects garbage: the messages of earlier passes on its disks
Floats = NDArray[np.float64]
T = TypeVar("T")
Rdd = Any  # pyspark is optional, so its types are not named
ROWS_ON_EXECUTORS = (
    "the rows of this fit are on the executors, and this needs them here: use SparkEngine(rows='driver') where they fit"
)


class PassState(NamedTuple):
    """The state of the blocks after a pass, and its sums on the driver."""

    state: Rdd  # (block, BlockState)
    hard: bool
    class_counts: NDArray[Any]  # [K]
    sums: TaskSums
    summary: BlockSummary


class DistributedTable(NamedTuple):
    """The current table: the state of the blocks that has it, and the priors of the scores."""

    state: Rdd  # (block, BlockState) with this table
    priors: Floats  # [K]
    uses_prior: bool
    penalty: float = 0.0
    recipe: Recipe | None = None  # None if the table was learned elsewhere
    names: tuple[str, ...] = ()  # of the columns that the recipe has for workers

    @property
    def log_prior(self) -> Floats:
        """The first term of the scores, [K]."""
        none = np.zeros((0, len(self.priors)))
        return Parameters(self.priors, none, none, uses_prior=self.uses_prior).log_prior


class DistributedSession(RemoteSession):
    """Votes and rows on executors. The driver has labels and sums: its memory does not grow with tasks or workers."""

    result = DistributedResult

    def __init__(
        self,
        votes: DistributedVotes,
        partitions: int | None,
        blocks: int | None,
        *,
        seed: int,
        ties: str,
        gold: Any,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> None:
        self.spark = votes.frame.sparkSession
        self.gold_given = 0 if gold is None else len(gold)
        self._votes, self._routes = votes, Routes(votes, partitions, blocks, gold)
        self._routes.past = history
        weights = votes.given.astype(np.float64) if ties == "prior" else None
        self._settings = FitSettings(
            np.zeros(0, np.int32), votes.labels, seed, ties, gold is not None, weights, Units.of(len(votes))
        )
        self._recipe: Recipe | None = None  # of the last M-step; the next pass also makes the next table with it
        self._made: Recipe | None = None  # the recipe whose table is already in the state of the last pass
        self._pass_state: PassState | None = None  # the last pass
        self._scored: DistributedTable | None = None  # the current table
        self._ended: tuple[RoutedDecision, Rdd] | None = None  # how the fit decided tasks, and the state with its table
        self._decided: tuple[RoutedDecision, Rdd] | None = None  # the same without honest confidence
        self._end: Rdd = None  # (block, BlockState) with the right and the agreeing votes per row, or the counts of the labels
        # The recipe of confusions, and the state with its counts; None and the state with the table where no recipe made it.
        self._confusion_source: tuple[Recipe | None, Rdd] | None = None
        self._kept: PassState | None = None  # see `remember`
        self._aside: DistributedTable | None = None  # see `set_aside`
        self._on_gold: PassState | None = None  # the votes on gold tasks
        self._states: list[Rdd] = []  # that are stored
        self._passes = 0

    @property
    def size(self) -> Size:
        """The numbers of tasks, votes and tasks without votes; the first access lays the votes out on the executors."""
        return self._routes.size

    @property
    def votes(self) -> Any:
        """The votes, with the numbers of tasks and workers."""
        size = self.size
        return replace(self._votes, n_tasks=size.tasks, n_unvoted=size.unvoted, worker_count=self._routes.n_workers)

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        self._pass_state = self._pass(partial(start_part, hard), self._receive(hard=hard), None)
        self._keep_only()
        return PassSums(self._pass_state.class_counts)

    def adopt(self, parameters: Callable[[WorkerRows], Parameters], priors: Floats) -> None:
        """Take parameters that were learned elsewhere, as a function of a panel."""
        with plain_errors(FIT_FAILED):
            state = self._store(self._routes.named.mapValues(partial(_with_table, parameters)))
        uses_prior = parameters(BlockPanel.empty(self._votes.labels)).uses_prior
        self._scored, self._pass_state = DistributedTable(state, priors, uses_prior), None  # these votes are not counted

    def gather(self, function: Callable[[WorkerBlock, Any], T], *, gold: bool = True) -> T:
        """Return the sum of a function over all worker blocks and their counts; without `gold`, those on other tasks alone."""
        return self._gather([] if gold else self._less_gold(), function)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Make the table of the counts of the last pass on the executors, unless that pass has already made it."""
        others = self._anchor(recipe.anchor)
        shared, last, k = recipe.shared(priors, partial(self._gather, others)), self._last_pass, self._votes.n_labels
        state, penalty = last.state, last.summary.penalty
        if shared is not None or others or self._made is not recipe:
            with plain_errors(FIT_FAILED):
                state = self._store(self._at_blocks(partial(tabulate, recipe, shared), state, others))
                penalty = reduce(BlockSummary.plus, state.map(_summary).collect()).penalty
        empty: TableLines = recipe.on(BlockPanel.empty(self._votes.labels).worker_block())(np.zeros((0, k)), shared)
        self._recipe = recipe if shared is None and not others else None
        self._scored = DistributedTable(state, priors, empty.uses_prior, penalty, recipe, tuple(empty.columns))
        self._confusion_source = recipe, state
        self._digests = recipe.may_cycle

    def remember(self) -> None:
        """Keep the counts of the last pass, to start from again, and as the anchor of M-steps."""
        self._kept = self._last_pass

    def recall(self) -> PassSums:
        """Take the counts that were kept as those of the last pass, and return its sums; labels stay as they are."""
        kept, last = self._kept, self._last_pass
        assert kept is not None
        if last is not kept:
            with plain_errors(FIT_FAILED):
                others = self._others(kept.state, partial(_counts, 1, 0))
                self._pass_state = kept._replace(state=self._store(self._at_blocks(recall, last.state, others)))
        self._made = None
        return PassSums(kept.class_counts)

    def set_aside(self) -> None:
        """Keep the current table and priors, to be averaged with others."""
        self._aside = self._table

    def blend(self) -> None:
        """Take the mean of the table and log priors that were set aside and of the current ones."""
        one, two = self._aside, self._table
        assert one is not None
        with plain_errors(FIT_FAILED):
            state = self._store(self._at_blocks(blend, two.state, self._others(one.state, _table)))
            state.count()  # before the states it is made of are dropped
        self._scored = DistributedTable(state, np.sqrt(one.priors * two.priors), two.uses_prior)
        self._confusion_source = None, state
        self._aside, self._kept = None, None
        self._keep_only()

    def e_step(self, *, hard: bool, likelihood: bool = True, last: bool = False) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount."""
        scored, before = self._table, self._pass_state
        past = before.class_counts if hard and before is not None and before.hard else None
        delta = past is not None
        how = {"hard": hard, "delta": delta, "likelihood": likelihood}
        work = partial(step_part, scored.priors, scored.uses_prior, how)
        found = self._pass(work, self._receive(hard=hard, delta=delta), scored.state)
        if past is not None:
            found = found._replace(class_counts=np.asarray(past, np.int64) + found.class_counts.astype(np.int64))
        self._pass_state = found
        self._keep_only()
        classification = float("nan")
        if hard:
            none = np.zeros((0, self._votes.n_labels))
            of_priors = reference.classification(none, found.class_counts, none, scored.log_prior)
            classification = found.summary.classification + of_priors
        sums = found.sums
        return PassSums(
            found.class_counts, sums.log_likelihood, classification, int(sums.changed), int(sums.impossible), scored.penalty
        )

    def fingerprint(self) -> bytes:
        """Return bytes that are equal if the counts of two passes are."""
        return b"".join(digest for _, digest in sorted(self._last_pass.summary.digests))

    def finish(self, *, hard: bool = False) -> RemoteOutcome:
        """Return the outcome of the E-step under the current table, summed over all tasks; `hard` counts its labels."""
        scored = self._table
        decide = RoutedDecision("scores", scored.priors, scored.uses_prior, hard)
        found = self._decide(decide, scored.state, width=self._votes.n_labels if hard else 2)
        if hard:
            self._pass_state = found
        return _outcome(found)

    def gold_tasks(self, *, votes: int) -> int:
        """Return the number of gold tasks with at least `votes` votes."""
        if not self._settings.with_gold:
            return 0
        with plain_errors(FIT_FAILED):
            return int(self._routes.parts.values().map(partial(_gold_tasks, votes)).sum())

    def run(self, job: VotePass[Any], function: RowFunction) -> Any:
        """Return the result of a pass: sums over pairs of votes, or a frame of probabilities.

        Sums by row would be on the driver: `workers` computes what is made of them on the executors.
        """
        if isinstance(job, Answers):
            raise OptionError(ROWS_ON_EXECUTORS)
        if not isinstance(job, PairSums):
            return super().run(job, function)
        others = self._less_gold()
        with plain_errors(FIT_FAILED):
            state = self._at_blocks(partial(pair_values, function), self._last_pass.state, others)
            items = self._with_messages(self._routes.parts, state)
            found: list[Floats] = items.mapPartitions(partial(pairs_of_part, self._settings)).collect()
        return reduce(operator.add, found)

    def majority(self) -> RemoteOutcome:
        """Return the outcome of majority vote, summed over all tasks."""
        k = self._votes.n_labels
        self._pass_state = self._decide(RoutedDecision("votes", np.zeros(k), False), None, width=k)
        return replace(_outcome(self._pass_state), log_likelihood=float("nan"))

    def weighted_majority(self) -> RemoteOutcome:
        """Return the outcome of weighted majority vote, summed over all tasks."""
        scored = self._table
        self._pass_state = self._decide(RoutedDecision("weights", scored.priors, False), scored.state, width=self._votes.n_labels)
        return replace(_outcome(self._pass_state), log_likelihood=float("nan"))

    def estimate(self, shown: Recipe | None = None) -> FitEstimate:
        """Return what the fit knows of labels; the parameters of workers stay on the executors."""
        none, last = np.zeros((0, self._votes.n_labels)), self._last_pass
        priors = None if self._scored is None else self._scored.priors
        if shown is not None:
            self._confusion_source = shown, last.state
            priors = shown.class_priors(last.class_counts).priors
        assert priors is not None
        return FitEstimate(Parameters(priors, none, none), Statistics(none, last.class_counts), {})

    def workers(self, law: AccuracyLaw | None = None) -> Frame:
        """Return a Spark frame of worker, votes, accuracy, agreement, abstained, and further columns of the model.

        With `law`, of a fit whose confidence is honest, accuracy is the honest mean, and has its interval.
        """
        scored = self._scored
        names: tuple[str, ...] = () if scored is None else scored.names
        states = {FINAL_STATE: self._end} if scored is None or not names else {FINAL_STATE: self._end, TABLE_STATE: scored.state}
        if law is not None:
            states[ANSWERS_STATE] = self._answers
        recipe = None if scored is None else scored.recipe
        found = self._named_with(states).mapPartitions(partial(worker_frames, recipe, names, law, self._votes.abstentions))
        schema = f"worker {SQL_KIND[self._votes.workers.kind]}, votes bigint, accuracy double, agreement double"
        shown = ["abstained", *(INTERVAL if law is not None else ()), *names]
        return spark.frame_of(found, schema + "".join(f", {sql_name(name)} double" for name in shown), self.spark)

    @cached_property
    def _answers(self) -> Rdd:
        """(block, BlockState) with the honest probabilities of answers and of wrong labels per row, in units of ANSWER_UNIT."""
        assert self._ended is not None
        decide, state = self._ended
        return self._pass(partial(answers_of_part, decide), Receive(None, True, False, 2, of_labels=False), state).state

    def confusion(self, worker: object) -> Floats | None:
        """Return pi_cl of one worker, [K true, K given]; None if there is no such worker."""
        assert self._confusion_source is not None
        recipe, state = self._confusion_source
        return self._of_worker(worker, state, partial(worker_confusion, recipe))

    def worker_counts(self, worker: object) -> Floats | None:
        """Return the votes of one worker under the final labels, history included, [K given, K true]; None if there is none."""
        return self._of_worker(worker, self._last_pass.state, worker_counts)

    def workers_here(self, workers: Vocabulary) -> NDArray[np.bool_]:
        """Return which of these workers have votes, [workers]."""
        with plain_errors(FIT_FAILED):
            found: NDArray[np.bool_] = self._routes.named.mapPartitions(partial(workers_here, workers)).reduce(operator.or_)
        return found

    def _of_worker(self, worker: object, state: Rdd, look: Callable[[str, Items], list[Floats]]) -> Floats | None:
        """Return what a function finds in the block of one worker, with one of its states; None if there is no such worker."""
        text = text_of(worker)
        block = int(block_of(Vocabulary.of_texts([text]), self._routes.n_blocks)[0])
        with plain_errors(FIT_FAILED):
            found = self.spark.sparkContext.runJob(self._named_with({FINAL_STATE: state}), partial(look, text), [block])
        return found[0] if found else None

    def release(self) -> None:
        """Free what the executors store; frames that were not written before cannot be computed afterwards."""
        for state in self._states:
            spark.drop_stored(state)
        self._states.clear()
        self._routes.release()

    @property
    def _last_pass(self) -> PassState:
        assert self._pass_state is not None  # a pass came before
        return self._pass_state

    @property
    def _table(self) -> DistributedTable:
        assert self._scored is not None  # an M-step came before
        return self._scored

    def _receive(self, *, hard: bool, delta: bool = False) -> Receive:
        self._made = self._recipe
        unit = None if hard else self._settings.units.unit
        return Receive(self._recipe, hard, delta, self._votes.n_labels, digest=self._digests, unit=unit)

    _digests = False  # whether counts are compared with those of earlier passes

    def _decide(self, decide: RoutedDecision, state: Rdd, *, width: int) -> PassState:
        found = self._pass(decide, Receive(None, decide.is_hard, False, width), state)
        self._ended = self._decided = decide, state
        self._end = found.state
        return found

    def _pass(self, work: Any, receive: Receive, state: Rdd) -> PassState:
        """Return the state after a pass of all parts under the table of a state; one job."""
        parts, blocks = self._routes.parts, self._routes.blocks
        with plain_errors(FIT_FAILED):
            sent = self._with_messages(parts, state).mapPartitions(partial(from_part, self._settings, work))
            items = blocks.union(sent.partitionBy(self._routes.n_blocks, partition_of))
            items = items if state is None else items.union(state)
            after = self._store(items.mapPartitions(partial(at_block, receive), preservesPartitioning=True))
            summary = reduce(BlockSummary.plus, after.map(_summary).collect())
            self._passes += 1
            if self._passes % PASSES_PER_SWEEP == 0:
                self.spark.sparkContext._jvm.System.gc()
        classes = summary.classes if receive.hard else class_totals(summary.classes, self._settings.units.unit)
        return PassState(after, receive.hard, classes, TaskSums(*summary.sums), summary)

    def _store(self, state: Rdd) -> Rdd:
        state = serialized_like(state, self._routes.parts)
        spark.store(state)
        self._states.append(state)
        return state

    def _with_messages(self, parts: Rdd, state: Rdd) -> Rdd:
        """Return the parts, each with the lines of the table and the labels that blocks send to it."""
        if state is None:
            return parts
        sent = self._routes.blocks.union(state).mapPartitions(from_block)
        return parts.union(sent.partitionBy(parts.getNumPartitions(), partition_of))

    def _at_blocks(self, act: AtBlock, state: Rdd, others: list[Rdd]) -> Rdd:
        """Return the state that blocks make of a state and of what others send to it."""
        items = reduce(lambda one, other: one.union(other), others, self._routes.blocks.union(state))
        return serialized_like(items.mapPartitions(partial(at_block, act), preservesPartitioning=True), self._routes.parts)

    def _others(self, state: Rdd, message: Callable[[BlockState], OtherCounts | OtherTable]) -> list[Rdd]:
        """Return what another state sends to the same blocks."""
        return [serialized_like(state.mapValues(message), self._routes.parts)]

    def _gather(self, others: list[Rdd], function: Callable[[WorkerBlock, Any], T]) -> T:
        with plain_errors(FIT_FAILED):
            items = reduce(lambda one, other: one.union(other), others, self._routes.blocks.union(self._last_pass.state))
            found: list[T] = items.mapPartitions(partial(_of_counts, function)).collect()
        return reduce(operator.add, found)

    def _anchor(self, share: float) -> list[Rdd]:
        """Return what adds a share of the counts that were kept to those of a pass."""
        if not share:
            return []
        assert self._kept is not None
        return self._others(self._kept.state, partial(_counts, share, 1.0 - share))

    def _less_gold(self) -> list[Rdd]:
        """Return what takes the votes on gold tasks from the counts of a pass."""
        if not self._settings.with_gold:
            return []
        if self._on_gold is None:
            self._on_gold = self._pass(gold_of_part, Receive(None, True, False, self._votes.n_labels), None)
        return self._others(self._on_gold.state, partial(_counts, -1, 1))

    def _recount(self) -> PassSums:
        assert self._ended is not None
        decide, state = self._ended
        if not decide.is_hard:  # otherwise they were counted when they were decided
            hard = replace(decide, hard=True)
            self._pass_state = self._pass(hard, Receive(None, True, False, self._votes.n_labels), state)
        return PassSums(self._last_pass.class_counts)

    def _judge_honestly(self, function: RowFunction, rule: HonestRule) -> tuple[RoutedDecision, Rdd]:
        assert self._decided is not None
        decide, state = self._decided
        others = [] if state is None else self._others(state, _table)
        with plain_errors(FIT_FAILED):
            lines = self._store(self._at_blocks(partial(honest_table, function), self._last_pass.state, others))
        return replace(decide, rule=rule), lines

    def _own_decision(self) -> tuple[RoutedDecision, Rdd]:
        assert self._decided is not None
        return self._decided

    def _ends(self, ended: tuple[RoutedDecision, Rdd]) -> TaskSums:
        decide, state = ended
        with plain_errors(FIT_FAILED):
            items = self._with_messages(self._routes.parts, state)
            found = items.mapPartitions(partial(ends_of_part, self._settings, decide)).collect()
        return TaskSums(*reduce(operator.add, found))

    def _by_task(self, ended: tuple[RoutedDecision, Rdd], names: list[str] | None, schema: str) -> Frame:
        decide, state = ended
        parts = self._routes.parts
        with plain_errors(FIT_FAILED):
            ids = self._routes.ids()
            items = self._with_messages(parts.union(ids), state)
            return spark.frame_of(items.mapPartitions(partial(task_frames, self._settings, decide, names)), schema, self.spark)

    def _named_with(self, states: Mapping[str, Rdd]) -> Rdd:
        items = self._routes.named
        for name, state in states.items():
            items = items.union(serialized_like(state.mapValues(partial(TaggedState, name)), self._routes.parts))
        return items

    def _keep_only(self) -> None:
        """Drop the stored states that are no longer used."""
        states = (self._pass_state, self._scored, self._kept, self._aside, self._on_gold)
        used = [None if one is None else one.state for one in states]
        for state in self._states:
            if all(state is not one for one in used):
                spark.drop_stored(state)
        self._states = [state for state in self._states if any(state is one for one in used)]


def _with_table(parameters: Callable[[WorkerRows], Parameters], named: NamedBlock) -> BlockState:
    k = named.block.n_labels
    none = BlockSummary(np.zeros(k), np.zeros(len(TaskSums._fields)))
    return BlockState(np.zeros((0, k)), parameters(named.panel()).table, (), none)


def _outcome(found: PassState) -> RemoteOutcome:
    return RemoteOutcome.of(found.sums, np.zeros(0), np.zeros(0, np.int64))


def _summary(item: tuple[int, BlockState]) -> BlockSummary:
    return item[1].summary


def _of_counts(function: Callable[[WorkerBlock, NDArray[Any]], T], items: Iterable[tuple[int, Any]]) -> Iterator[T]:
    for given in block_inputs(items):
        yield function(given.block.worker_block(), given.counts)


def _counts(weight: float, own: float, state: BlockState) -> OtherCounts:
    return OtherCounts(state.counts, weight, own)


def _table(state: BlockState) -> OtherTable:
    return OtherTable(state.table)


def _gold_tasks(votes: int, part: RoutedPart) -> int:
    return gold_tasks(votes, TaskPart.unpack(part.data))
