"""Worker blocks and parts on executors, and the messages between them, for rows that stay on the executors.

A worker's block is the hash of its id modulo the number of blocks. A part requests the rows it uses from each block, once.
The block numbers the rows that all parts request, and stores each request as indices. From then on messages hold numbers
only, in the order of the request. A part's own rows are sorted by block, so what it exchanges with a block is one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.exact import decode_coarse
from adjudge.data.fit import Others
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Gold, Votes, WorkerRows
from adjudge.engines.base import Recipe, WorkerBlock
from adjudge.engines.passes import Answers, PairSums, RowFunction
from adjudge.engines.session import DecidedBy
from adjudge.engines.shard import hashes
from adjudge.io.answers import gold_codes
from adjudge.io.encode import sort_order
from adjudge.io.frames import column, match_ids, vocabulary
from adjudge.kernels.cpu import compiled, fastest
from adjudge.kernels.reference import HonestRule
from adjudge.spark.executor import (
    Counted,
    DecisionPass,
    EStepTables,
    FitSettings,
    HonestTables,
    TaskSums,
    count_gold,
    count_majority,
    count_step,
    sum_votes,
)
from adjudge.spark.garbage import spare_loaded
from adjudge.spark.layout import PART_DTYPES, PART_SCHEMA, Packing, TaskPart, line
from adjudge.spark.session import ipc

ROUTED_SCHEMA = f"{PART_SCHEMA}, slices binary, requests binary"
Floats = NDArray[np.float64]
Items = Iterable[tuple[int, Any]]  # of a partition: pairs of a number (of a part or block) and an object


def block_of(workers: Vocabulary, blocks: int) -> NDArray[np.int64]:
    """Return the block of each worker, [workers]."""
    return (hashes(fastest(), workers) % np.uint64(blocks)).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockPanel(WorkerRows):
    """The panel of a worker block, without the workers' ids, and the routes to the parts that use its rows."""

    per_row: NDArray[np.int64]  # [rows] votes
    routes: dict[int, NDArray[np.uint32]]  # by part: the rows it requests, in its order
    history: Others | None = None  # pseudo-votes of these workers

    @classmethod
    def empty(cls, labels: Vocabulary) -> BlockPanel:
        """Return a block without workers."""
        none = np.zeros(0, np.int64)
        return cls(
            worker_ptr=np.zeros(1, np.int64),
            row_label=none.astype(np.int32),
            workers=Vocabulary("integer", none),
            labels=labels,
            per_row=none,
            routes={},
        )

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return the number of votes of each row, [rows]."""
        return self.per_row

    def worker_block(self) -> WorkerBlock:
        """Return what an M-step needs of these workers."""
        kernels: Any = fastest()
        return WorkerBlock(self, self.votes_per_row, self.history, kernels.confusion_table, threads=int(compiled() is not None))


class NamedBlock(NamedTuple):
    """A block, and the ids of its workers."""

    block: BlockPanel
    workers: Vocabulary

    def panel(self) -> WorkerRows:
        """Return the block with the ids of its workers."""
        return replace(self.block, workers=self.workers)


class RowRequest(NamedTuple):
    """The rows of one block that a part uses, in the part's order."""

    part: int
    rows: pl.DataFrame  # worker, label (its code), votes


def number_rows(requests: Iterable[RowRequest], labels: Vocabulary) -> NamedBlock:
    """Return the block of the requested rows, sorted by worker, then label; the order of the requests does not matter."""
    ordered = [request for request in sorted(requests, key=lambda request: request.part) if len(request.rows)]
    if not ordered:
        empty = BlockPanel.empty(labels)
        return NamedBlock(empty, empty.workers)
    every = pl.concat([request.rows for request in ordered])
    distinct = vocabulary(every["worker"].unique())
    workers = distinct.take(sort_order(distinct))
    k = max(len(labels), 1)
    keys, row = np.unique(match_ids(vocabulary(every["worker"]), workers) * k + every["label"].to_numpy(), return_inverse=True)
    ends = np.cumsum([len(request.rows) for request in ordered])
    routes = {one.part: row[end - len(one.rows) : end].astype(np.uint32) for one, end in zip(ordered, ends, strict=True)}
    block = BlockPanel(
        worker_ptr=np.searchsorted(keys, np.arange(len(workers) + 1) * k).astype(np.int64),
        row_label=(keys % k).astype(np.int32),
        workers=Vocabulary("integer", np.zeros(0, np.int64)),
        labels=labels,
        per_row=np.bincount(row, every["votes"].to_numpy(), minlength=len(keys)).astype(np.int64),
        routes=routes,
    )
    return NamedBlock(block, workers)


class TableMessage(NamedTuple):
    """From a block to a part: the requested lines of the table."""

    block: int
    table: Floats  # [requested rows, K], or other figures of these rows


class CountMessage(NamedTuple):
    """From a part to a block: the counts of its rows, without rows of zeros."""

    part: int
    indices: NDArray[np.uint32]  # [lines] in the part's request
    lines: NDArray[Any]  # [lines, …]


class TotalsMessage(NamedTuple):
    """From a part to one block: the part's labels, which the block stores until the next pass, and its sums."""

    part: int
    labels: NDArray[Any]  # [tasks]
    classes: NDArray[Any]  # [K]
    sums: NDArray[np.float64]  # [TaskSums]


class OtherCounts(NamedTuple):
    """From another state of the same block: counts that are added to its own, with weights."""

    counts: NDArray[Any]  # [rows, K]
    weight: float
    own: float  # the weight of the block's own counts


class OtherTable(NamedTuple):
    """From another state of the same block: its table."""

    table: Floats  # [rows, K]


ToBlock = CountMessage | TotalsMessage | OtherCounts | OtherTable


class BlockSummary(NamedTuple):
    """From a block to the driver; two of them can be added."""

    classes: NDArray[Any]  # [K]
    sums: NDArray[np.float64]  # [TaskSums]
    classification: float = 0.0  # of the votes, without the priors
    penalty: float = 0.0  # of the next table
    digests: tuple[tuple[int, bytes], ...] = ()  # of the counts, per block

    def plus(self, other: BlockSummary) -> BlockSummary:
        """Return the sum of both."""
        return BlockSummary(
            self.classes + other.classes,
            self.sums + other.sums,
            self.classification + other.classification,
            self.penalty + other.penalty,
            self.digests + other.digests,
        )


class BlockState(NamedTuple):
    """The state of a block after a pass."""

    counts: NDArray[Any]  # [rows, K] int64 when hard, float64 when soft
    table: Floats  # [rows, K] of the M-step on these counts; empty if none follows
    totals: tuple[TotalsMessage, ...]  # of the parts whose labels this block stores
    summary: BlockSummary


class BlockInput(NamedTuple):
    """A block, its last state, and its messages."""

    number: int
    block: BlockPanel
    state: BlockState | None
    messages: list[ToBlock]

    @property
    def before(self) -> BlockState:
        """The last state, which must exist."""
        assert self.state is not None
        return self.state

    @property
    def counts(self) -> Any:
        """The counts of the block, together with others that were sent to it, [rows, K]."""
        counts = self.before.counts
        for one in self.messages:
            if isinstance(one, OtherCounts):
                counts = one.weight * one.counts + one.own * counts
        return counts

    @property
    def tables(self) -> list[Floats]:
        """The tables that were sent, [rows, K] each."""
        return [one.table for one in self.messages if isinstance(one, OtherTable)]


AtBlock = Callable[[BlockInput], BlockState]  # what happens at a block: returns its next state


@dataclass(frozen=True)
class Receive:
    """Adds up the counts of the parts, and takes the M-step."""

    recipe: Recipe | None
    hard: bool
    delta: bool  # whether counts are added to those of the last pass
    width: int  # numbers per line
    digest: bool = False  # whether counts are compared with those of earlier passes
    unit: float | None = None  # of soft counts, which are rescaled
    of_labels: bool = True  # whether hard counts are those of labels, so that C2 is known

    def __call__(self, given: BlockInput) -> BlockState:
        """Return the state after a pass."""
        number, block, before, messages = given
        kind = np.int64 if self.hard else np.float64
        counts: NDArray[Any] = np.zeros((block.n_rows, self.width), kind)
        if self.delta and before is not None:
            counts += before.counts
        # In the order of the parts, so that a sum computed again after a loss is the same to the last bit.
        sent = [one for one in messages if isinstance(one, CountMessage | TotalsMessage)]
        ordered = sorted(sent, key=lambda message: message.part)
        for one in ordered:
            if isinstance(one, CountMessage):
                counts[block.routes[one.part][one.indices]] += one.lines
        if self.unit is not None:
            counts = decode_coarse(counts, self.unit)
        totals = tuple(one for one in ordered if isinstance(one, TotalsMessage))
        classes = sum((one.classes for one in totals), np.zeros(block.n_labels, kind))
        sums = sum((one.sums for one in totals), np.zeros(len(TaskSums._fields)))
        summary = BlockSummary(classes, sums)
        if self.hard and self.of_labels and before is not None and len(before.table):
            summary = summary._replace(classification=_vote_classification(counts, before.table))
        table = np.zeros((0, block.n_labels))
        if self.recipe is not None:
            lines = self.recipe.on(block.worker_block())(counts, None)
            table, summary = lines.table, summary._replace(penalty=lines.penalty)
        if self.digest:
            summary = summary._replace(digests=((number, blake2b(counts.tobytes(), digest_size=16).digest()),))
        return BlockState(counts, table, totals, summary)


def tabulate(recipe: Recipe, shared: Any, given: BlockInput) -> BlockState:
    """Take the M-step of a recipe that was unknown during the last pass, or that needs sums over all workers."""
    lines = recipe.on(given.block.worker_block())(given.counts, shared)
    return given.before._replace(table=lines.table, summary=given.before.summary._replace(penalty=lines.penalty))


def recall(given: BlockInput) -> BlockState:
    """Take counts that were sent for the block's own; labels stay as they are."""
    return given.before._replace(counts=given.counts)


def blend(given: BlockInput) -> BlockState:
    """Take the mean of the block's table and the one that was sent."""
    (other,) = given.tables
    return given.before._replace(table=(other + given.before.table) / 2.0)


def pair_values(function: RowFunction, given: BlockInput) -> BlockState:
    """Put what a function says of a block's rows and counts, [quantities, 2, rows], in the place of the table."""
    block = given.block.worker_block()
    pairs = PairSums()
    values = pairs.by_row(**pairs.inputs(function(block, given.counts), block))
    return given.before._replace(table=values.reshape(2 * len(values), given.block.n_rows).T)


def honest_table(function: RowFunction, given: BlockInput) -> BlockState:
    """Add the lines of honest confidence to the table that decided, which was sent; alone if votes decided."""
    lines = function(given.block.worker_block(), given.before.counts)
    return BlockState(given.before.counts[:0], np.hstack([*given.tables, *lines]), (), given.before.summary)


def _vote_classification(counts: NDArray[Any], table: Floats) -> float:
    """Return C2 of the votes, without the priors."""
    kernels: Any = fastest()
    none = np.zeros(counts.shape[1], counts.dtype)
    return float(kernels.classification(counts, none, table, np.zeros(counts.shape[1])))


@dataclass(frozen=True)
class RoutedPacking(Packing):
    """Makes parts whose rows are sorted by block, with their requests to the blocks."""

    blocks: int = 1

    @property
    def schema(self) -> dict[str, Any]:
        """The columns of a line."""
        return {**PART_DTYPES, "slices": pl.Binary, "requests": pl.Binary}

    def _line(self, votes: Votes, gold: Gold | None) -> dict[str, Any]:
        rank = np.empty(votes.n_workers, np.int64)
        rank[sort_order(votes.workers)] = np.arange(votes.n_workers)
        worker, block = votes.row_worker(), block_of(votes.workers, self.blocks)
        order = np.lexsort((votes.row_label, rank[worker], block[worker]))
        own = np.empty(votes.n_rows, np.uint32)
        own[order] = np.arange(votes.n_rows)
        codes = gold_codes(gold, votes.tasks) if gold is not None else self.no_gold(votes.n_tasks)
        # Votes stay in the order of their workers within a task: every engine adds scores in this order.
        part = line(votes.tasks, votes.task_ptr, own[votes.row], votes.row_label[order].astype(np.uint32), votes.unvoted, codes)
        requests = pl.DataFrame(
            {
                "worker": column(votes.workers, worker[order]),
                "label": votes.row_label[order].astype(np.int64),
                "votes": votes.votes_per_row()[order].astype(np.int64),
            }
        )
        slices = np.searchsorted(block[worker][order], np.arange(self.blocks + 1))
        return {**part, "slices": slices.astype(np.int64).tobytes(), "requests": ipc(requests, packed=True)}

    def _nothing(self, problem: str) -> dict[str, Any]:
        return {**super()._nothing(problem), "slices": b"", "requests": b""}


class RoutedPart(NamedTuple):
    """A part in bytes, with the slices of its rows that belong to each block."""

    data: bytes  # of a `TaskPart`, whose `rows` are the labels of its own rows
    slices: NDArray[np.int64]  # [blocks + 1] first row of each block

    def unpack(self, settings: FitSettings) -> tuple[FitSettings, TaskPart]:
        """Return the settings over the own rows, and the part, whose panel is its own rows."""
        part = TaskPart.unpack(self.data)
        rows = np.arange(len(part.rows), dtype=np.uint32)
        return replace(settings, row_label=part.rows.astype(np.int32)), part._replace(rows=rows)

    def join(self, messages: Iterable[TableMessage], labels: int) -> Floats:
        """Return the table over the own rows, [own rows, K] or as wide as the messages are, from the messages of the blocks."""
        every = list(messages)
        table = np.zeros((int(self.slices[-1]), every[0].table.shape[1] if every else labels))
        for block, lines in every:
            table[self.slices[block] : self.slices[block + 1]] = lines
        return table


class LocalBroadcast(NamedTuple):
    """A value instead of a broadcast."""

    value: Any


class PartInput(NamedTuple):
    """A part, and the blocks' messages to it."""

    settings: FitSettings
    part: TaskPart
    table: Floats | None  # [own rows, K], or other figures of these rows
    labels: NDArray[Any] | None  # [tasks] after the last pass


def start_part(hard: bool, given: PartInput) -> Counted:
    """Count majority vote: by winner (hard) or by vote shares (soft)."""
    return count_majority(given.settings, given.part, hard=hard)


def step_part(priors: Floats, uses_prior: bool, how: Mapping[str, bool], given: PartInput) -> Counted:
    """Count an E-step under the received table; `how` has `hard`, `likelihood`, and `delta`: only labels that change count."""
    assert given.table is not None
    scores = LocalBroadcast(EStepTables(priors, given.table, uses_prior))
    return count_step(given.settings, given.part, before=given.labels, scores=scores, **how)


@dataclass(frozen=True)
class RoutedDecision:
    """How a fit decides tasks at its end."""

    by: DecidedBy
    priors: Floats  # [K]
    uses_prior: bool
    hard: bool = False  # whether scores count the labels they decide, instead of probabilities
    rule: HonestRule | None = None  # of honest confidence, whose lines then follow the table

    @property
    def is_hard(self) -> bool:
        """Whether labels are counted."""
        return self.hard or self.by != "scores"

    def on(self, given: PartInput) -> DecisionPass:
        """Return the decision on the tasks of a part."""
        table, k = given.table, len(self.priors)
        scores = honest = None
        if self.by != "votes" and table is not None:
            scores = LocalBroadcast(EStepTables(self.priors, np.ascontiguousarray(table[:, :k]), self.uses_prior))
        if self.rule is not None and table is not None:
            lines, without = (np.ascontiguousarray(part) for part in (table[:, -2 * k : -k], table[:, -k:]))
            honest = LocalBroadcast(HonestTables(lines, without, self.rule))
        return DecisionPass(self.by, scores, self.hard, honest)

    def __call__(self, given: PartInput) -> Counted:
        """Count a part's labels; for EM, of each row the expected right votes and the agreeing votes instead."""
        return self.on(given)(given.settings, given.part)


def answers_of_part(decide: RoutedDecision, given: PartInput) -> Counted:
    """Sum by row the honest probability of every vote's answer, and of its task's label being wrong, in units of ANSWER_UNIT.

    `decide` has a rule of honest confidence.
    """
    decision = decide.on(given)
    honest, inputs = decision.honest.value, LocalBroadcast(decision.honest.value.inputs)
    return sum_votes(given.settings, given.part, source=decision.source, job=Answers(honest.rule), inputs=inputs)


def gold_of_part(given: PartInput) -> Counted:
    """Count the votes on a part's gold tasks."""
    return count_gold(given.settings, given.part)


def pairs_of_part(settings: FitSettings, items: Items) -> Iterator[Floats]:
    """Yield sums over pairs of votes on one task of a partition, [quantities + 2], if it has any votes."""
    for _, _, given in part_inputs(settings, items):
        if given.table is not None and len(given.table):
            inputs = LocalBroadcast({"values": np.ascontiguousarray(given.table.T).reshape(-1, 2, len(given.table))})
            yield sum_votes(given.settings, given.part, source=given.labels, job=PairSums(), inputs=inputs)[0].sums


def ends_of_part(settings: FitSettings, decide: RoutedDecision, items: Items) -> Iterator[Floats]:
    """Yield the sums over the tasks of a partition, [TaskSums]."""
    for _, _, given in part_inputs(settings, items):
        yield decide(given)[0].sums


def from_part(settings: FitSettings, work: Any, items: Items) -> Iterator[tuple[int, ToBlock]]:
    """Yield (block, message) of a partition: the counts of each block's rows, then the labels and sums of the part."""
    for number, routed, given in part_inputs(settings, items):
        counted, shards = work(given)
        labels = np.concatenate([np.zeros(0, np.int32), *(shard.labels for _, shard in shards)])
        bounds = np.searchsorted(counted.rows, routed.slices)
        for block in np.flatnonzero(np.diff(bounds)).tolist():
            some = slice(bounds[block], bounds[block + 1])
            indices = (counted.rows[some] - routed.slices[block]).astype(np.uint32)
            yield block, CountMessage(number, indices, counted.lines[some])
        small = labels.astype(np.min_scalar_type(max(len(settings.labels), 1)))
        yield number % (len(routed.slices) - 1), TotalsMessage(number, small, counted.classes, counted.sums)


def part_inputs(settings: FitSettings, items: Items) -> Iterator[tuple[int, RoutedPart, PartInput]]:
    """Yield (its number, the part, its input) of a partition, if it has a part."""
    spare_loaded()
    routed: RoutedPart | None = None
    number, messages, labels = 0, list[TableMessage](), None
    for key, item in items:
        if isinstance(item, RoutedPart):
            number, routed = key, item
        elif isinstance(item, TableMessage):
            messages.append(item)
        else:
            labels = item
    if routed is not None:
        own, part = routed.unpack(settings)
        has_table = bool(messages) or not routed.slices[-1]  # a part without votes requests no line
        table = routed.join(messages, len(settings.labels)) if has_table else None
        yield number, routed, PartInput(own, part, table, labels)


def from_block(items: Items) -> Iterator[tuple[int, Any]]:
    """Yield (part, message) of a partition: the requested lines of the table, and the stored labels."""
    for number, block, state, _ in block_inputs(items):
        if state is None:
            continue
        for part, rows in block.routes.items():
            yield part, TableMessage(number, state.table[rows])
        for one in state.totals:
            yield one.part, one.labels


def at_block(receive: AtBlock, items: Items) -> Iterator[tuple[int, BlockState]]:
    """Yield (block, its state after a pass) of a partition, if it has a block."""
    for given in block_inputs(items):
        yield given.number, receive(given)


def block_inputs(items: Items) -> Iterator[BlockInput]:
    """Yield the block of a partition with its state and messages, if it has a block."""
    spare_loaded()
    block: BlockPanel | None = None
    number, state, messages = 0, None, []
    for key, item in items:
        if isinstance(item, BlockPanel):
            number, block = key, item
        elif isinstance(item, BlockState):
            state = item
        else:
            messages.append(item)
    if block is not None:
        yield BlockInput(number, block, state, messages)
