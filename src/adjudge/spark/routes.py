"""The layout of votes and rows on executors: parts of tasks, worker blocks, the routes between them, and their final frames.

A part requests the rows it uses from each block; a block numbers the rows that all parts request. That takes one shuffle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Others, Parameters, TableLines, lay_out
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import Recipe
from adjudge.io.frames import column, match_ids
from adjudge.kernels.reference import ANSWER_UNIT
from adjudge.models.honest import AccuracyLaw, accuracy_columns, worker_law
from adjudge.spark import session as spark
from adjudge.spark.blocks import (
    ROUTED_SCHEMA,
    BlockPanel,
    BlockState,
    Items,
    NamedBlock,
    RoutedDecision,
    RoutedPacking,
    RoutedPart,
    RowRequest,
    number_rows,
    part_inputs,
)
from adjudge.spark.executor import FitSettings
from adjudge.spark.layout import FIT_FAILED, Size, partitions_for, size_of
from adjudge.spark.session import Frame, arrow_batches, functions, ipc, partition_of, plain_errors, serialized_like
from adjudge.spark.votes import DistributedVotes, with_gold

FINAL_STATE = "end"  # the name of the state with the final counts
TABLE_STATE = "own"  # the name of the state with the counts that the table was made of
ANSWERS_STATE = "answers"  # the name of the state with the honest probabilities of answers
MAX_PART_VOTES = 1 << 20  # each vote may request a row of its own
MAX_BLOCK_CELLS = 1 << 21  # rows x labels
MIN_BLOCK_ROWS = 1 << 16  # a smaller block is not worth its task
Rdd = Any  # pyspark is optional, so its types are not named


class TaskIds(NamedTuple):
    """The ids of a part's tasks."""

    data: bytes


class TaggedState(NamedTuple):
    """One of several states of a block."""

    name: str
    state: BlockState


def task_frames(settings: FitSettings, decide: RoutedDecision, names: list[str] | None, items: Items) -> Iterator[bytes]:
    """Yield frames of a part's tasks as bytes: probabilities in columns of these names, or the labels."""
    every = list(items)
    ids = next((item.data for _, item in every if isinstance(item, TaskIds)), None)
    for _, _, given in part_inputs(settings, (one for one in every if not isinstance(one[1], TaskIds))):
        assert ids is not None
        for frame in decide.on(given).frames(given.settings, given.part, ids, names):
            yield ipc(frame)


def worker_frames(
    recipe: Recipe | None, names: tuple[str, ...], law: AccuracyLaw | None, abstentions: int, items: Items
) -> Iterator[bytes]:
    """Yield the frame of a block's workers as bytes, with the columns of the recipe that have these names.

    With `law` accuracy is honest, and has its interval. `abstentions` of all workers are not counted by worker.
    """
    for named, states in _blocks_with_states(items):
        block, end = named.block, states[FINAL_STATE].counts
        if end.dtype == np.float64:  # expected right and agreeing votes; otherwise the counts of hard labels
            right, agreeing = end[:, 0], end[:, 1]
        else:
            right = agreeing = end[np.arange(block.n_rows), block.row_label]
        votes = block.by_worker(block.per_row)
        columns = {
            "worker": column(named.workers),
            "votes": votes,
            "accuracy": block.by_worker(right) / votes,
            "agreement": block.by_worker(agreeing) / votes,
            "abstained": pl.repeat(None if abstentions else 0.0, len(votes), dtype=pl.Float64, eager=True),
        }
        if law is not None:
            sums = (states[ANSWERS_STATE].counts * ANSWER_UNIT).T
            columns |= accuracy_columns(*worker_law(block, sums, votes, law))
        if names and recipe is not None:
            known = recipe.on(block.worker_block())(states[TABLE_STATE].counts, None).columns
            columns |= {name: known[name] for name in names}
        yield ipc(pl.DataFrame(columns))


def worker_confusion(recipe: Recipe | None, worker: str, items: Items) -> list[NDArray[np.float64]]:
    """Return pi_cl of the worker of this id, [K true, K given], if this block has it; without recipe, of the state's table."""
    for named, states in _blocks_with_states(items):
        code, block = _index_of(named.workers, worker), named.block
        if code is not None:
            if recipe is None:
                lines = TableLines(states[FINAL_STATE].table, np.zeros((block.n_workers, block.n_labels)))
            else:
                lines = recipe.on(block.worker_block())(states[FINAL_STATE].counts, None)
            return [Parameters.of(np.zeros(block.n_labels), lines).confusion(block, code)]
    return []


def worker_counts(worker: str, items: Items) -> list[NDArray[np.float64]]:
    """Return the votes of the worker of this id, those of its history included, [K given, K true], if this block has it."""
    for named, states in _blocks_with_states(items):
        code, block = _index_of(named.workers, worker), named.block
        if code is not None:
            past = lay_out(block, None, block.history)
            own = np.zeros((block.n_labels, block.n_labels)) if past is None else past.matrix(block, code)
            rows = slice(block.worker_ptr[code], block.worker_ptr[code + 1])
            own[block.row_label[rows]] += states[FINAL_STATE].counts[rows]
            return [own]
    return []


def workers_here(workers: Vocabulary, items: Items) -> Iterator[NDArray[np.bool_]]:
    """Yield which of these workers a block has, [workers]."""
    for _, named in items:
        yield match_ids(workers, named.workers) >= 0


def _index_of(workers: Vocabulary, worker: str) -> int | None:
    found = column(workers).cast(pl.String) if workers.kind != "boolean" else pl.Series(workers.texts(), dtype=pl.String)
    where = (found == worker).arg_true()
    return int(where[0]) if len(where) else None


def _blocks_with_states(items: Items) -> Iterator[tuple[NamedBlock, dict[str, BlockState]]]:
    named: NamedBlock | None = None
    states: dict[str, BlockState] = {}
    for _, item in items:
        if isinstance(item, NamedBlock):
            named = item
        elif isinstance(item, TaggedState):
            states[item.name] = item.state
    if named is not None and named.block.n_rows:
        yield named, states


class Routes:
    """Parts and blocks, laid out on first access."""

    def __init__(self, votes: DistributedVotes, partitions: int | None, blocks: int | None, gold: Any) -> None:
        self.past: Callable[[WorkerRows], Others] | None = None  # prior knowledge of workers; set before blocks are laid out
        self._spark = votes.frame.sparkSession
        self._votes, self._partitions, self._gold = votes, partitions, gold
        cells, cores = votes.n_rows * votes.n_labels, self._spark.sparkContext.defaultParallelism
        self.n_blocks: int = blocks or max(1, min(cores, votes.n_rows // MIN_BLOCK_ROWS), cells // MAX_BLOCK_CELLS)

    @cached_property
    def size(self) -> Size:
        """The numbers of tasks, votes and tasks without votes."""
        return size_of(self.packed, len(self._votes), self.release)

    @cached_property
    def packed(self) -> Frame:
        """The votes on the executors' disks, a line per partition, with the ids of its tasks and its requests."""
        votes = self._votes
        n = self._partitions or partitions_for(len(votes), self._spark.sparkContext, MAX_PART_VOTES)
        panel = WorkerRows(worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers, labels=votes.labels)
        packing = RoutedPacking(panel, votes.duplicates, self._gold is not None, self.n_blocks)
        with plain_errors(FIT_FAILED):
            source = votes.frame if self._gold is None else with_gold(votes, self._gold)
            frame = spark.map_arrow(source.repartition(n, "task"), packing.__call__, ROUTED_SCHEMA)
            return frame.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def parts(self) -> Rdd:
        """(part, its votes), as passes read them."""
        assert self.size is not None  # the layout was checked
        lines = self.packed.select("part", "slices").rdd
        parts = lines.mapPartitionsWithIndex(_parts).partitionBy(lines.getNumPartitions(), partition_of)
        return parts.persist(spark.storage("MEMORY_AND_DISK"))

    @cached_property
    def named(self) -> Rdd:
        """(block, its rows, their routes, and the ids of its workers)."""
        whole = self.packed.select(functions().spark_partition_id().alias("part"), "slices", "requests")
        # A line per block: a whole request would be copied several times on its way from Java to Python.
        requests = spark.map_arrow(whole, _requests, "block bigint, part bigint, rows binary")
        requests = requests.rdd.map(_request).partitionBy(self.n_blocks, partition_of)
        make = partial(_number_block, self._votes.labels, self.past)
        named = serialized_like(requests.mapPartitionsWithIndex(make, preservesPartitioning=True), self.parts)
        return named.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def blocks(self) -> Rdd:
        """(block, its rows and their routes), as passes read them."""
        return serialized_like(self.named.mapValues(_block), self.parts).persist(spark.storage("DISK_ONLY"))

    @cached_property
    def n_workers(self) -> int:
        """The number of workers."""
        with plain_errors(FIT_FAILED):
            return int(self.named.mapPartitions(_count_workers).sum())

    def ids(self) -> Rdd:
        """Return (part, the ids of its tasks)."""
        lines = self.packed.select("ids").rdd
        return lines.mapPartitionsWithIndex(_ids).partitionBy(self.parts.getNumPartitions(), partition_of)

    def release(self) -> None:
        """Free what the executors store."""
        for name in ("blocks", "named", "parts", "packed"):
            if name in self.__dict__:
                self.__dict__[name].unpersist()


def _parts(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, RoutedPart]]:
    for line in lines:
        yield index, RoutedPart(bytes(line["part"]), np.frombuffer(bytes(line["slices"]), np.int64))


def _ids(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, TaskIds]]:
    for line in lines:
        yield index, TaskIds(bytes(line["ids"]))


def _requests(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for part, bounds, requests in pl.DataFrame(batch).iter_rows():
            rows, slices = pl.read_ipc(requests), np.frombuffer(bounds, np.int64).tolist()
            for block, (start, end) in enumerate(itertools.pairwise(slices)):
                if end > start:
                    line = {"block": [block], "part": [part], "rows": [ipc(rows[start:end], packed=True)]}
                    yield from arrow_batches(pl.DataFrame(line))


def _request(line: Any) -> tuple[int, tuple[int, bytes]]:
    return line["block"], (line["part"], bytes(line["rows"]))


def _number_block(
    labels: Vocabulary,
    past: Callable[[WorkerRows], Others] | None,
    index: int,
    requests: Iterable[tuple[int, tuple[int, bytes]]],
) -> Iterator[tuple[int, NamedBlock]]:
    named = number_rows((RowRequest(part, pl.read_ipc(rows)) for _, (part, rows) in requests), labels)
    if past is not None:
        named = named._replace(block=replace(named.block, history=past(named.panel())))
    yield index, named


def _block(named: NamedBlock) -> BlockPanel:
    return named.block


def _count_workers(items: Iterable[tuple[int, NamedBlock]]) -> Iterator[int]:
    for _, named in items:
        yield named.block.n_workers
