"""Votes and rows on the executors: parts of tasks, blocks of workers, the ways between them, and what both say in the end.

A part lists the rows it uses, block by block; a block numbers what all parts list. That is one shuffle, once.
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

from quorate.data.counts import Others, Parameters
from quorate.data.vocabulary import Vocabulary
from quorate.data.votes import Panel
from quorate.engines.base import Recipe
from quorate.io.ids import column
from quorate.spark import session as spark
from quorate.spark.blocks import Ask, Block, Named, State, number
from quorate.spark.executor import Setting
from quorate.spark.layout import WHAT, Size, partitions_for, size_of
from quorate.spark.messages import WIDE_SCHEMA, Decide, WidePacking, WidePart, tasks_of
from quorate.spark.session import Frame, alike, arrow_batches, functions, ipc, place, plain_errors
from quorate.spark.votes import WideVotes, beside

END = "end"  # the name of the counts that a fit ended with
OWN = "own"  # the name of the counts that its table was made of
MANY = 1 << 20  # votes in a part, above which it is divided: each may ask for a row of its own
CELLS = 1 << 21  # of a block's table, beyond which there are more blocks
FEW = 1 << 16  # rows in a block, below which it is not worth its task
Rdd = Any  # pyspark is optional, so its types are not named


class Ids(NamedTuple):
    """The ids of a part's tasks."""

    data: bytes


class Tagged(NamedTuple):
    """One of several states of a block."""

    name: str
    state: State


def tell_tasks(setting: Setting, decide: Decide, names: list[str] | None, items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yield frames of a part's tasks: probabilities by these names of labels, or the labels; as bytes."""
    every = list(items)
    ids = next((item.data for _, item in every if isinstance(item, Ids)), None)
    for _, _, at in tasks_of(setting, (one for one in every if not isinstance(one[1], Ids))):
        assert ids is not None
        verdict = decide.verdict(at)
        told = verdict.labels(at.part, ids) if names is None else verdict.probabilities(at.part, ids, names)
        for frame in told:
            yield ipc(frame)


def tell_workers(recipe: Recipe | None, names: tuple[str, ...], items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yield the frame of a block's workers, as bytes; the names are of columns that the recipe knows."""
    for named, states in _named_in(items):
        block, end = named.block, states[END].counts
        if end.dtype == np.float64:  # right and agreeing votes; else the counts of hard labels
            right, agreeing = end[:, 0], end[:, 1]
        else:
            right = agreeing = end[np.arange(block.n_rows), block.row_label]
        votes = block.by_worker(block.per_row)
        columns = {
            "worker": column(named.workers),
            "votes": votes,
            "accuracy": block.by_worker(right) / votes,
            "agreement": block.by_worker(agreeing) / votes,
        }
        if names and recipe is not None:
            known = recipe.on(block.workers_here())(states[OWN].counts, None).columns
            columns |= {name: known[name] for name in names}
        yield ipc(pl.DataFrame(columns))


def tell_confusion(recipe: Recipe, worker: str, items: Iterable[tuple[int, Any]]) -> list[NDArray[np.float64]]:
    """Return pi_cl of a worker of this block, [K true, K given], if there is one of this id."""
    for named, states in _named_in(items):
        code, block = _place(named.workers, worker), named.block
        if code is not None:
            lines = recipe.on(block.workers_here())(states[END].counts, None)
            return [Parameters.of(np.zeros(block.n_labels), lines).confusion(block, code)]
    return []


def _place(workers: Vocabulary, worker: str) -> int | None:
    found = column(workers).cast(pl.String) if workers.kind != "boolean" else pl.Series(workers.texts(), dtype=pl.String)
    where = (found == worker).arg_true()
    return int(where[0]) if len(where) else None


def _named_in(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[Named, dict[str, State]]]:
    named: Named | None = None
    states: dict[str, State] = {}
    for _, item in items:
        if isinstance(item, Named):
            named = item
        elif isinstance(item, Tagged):
            states[item.name] = item.state
    if named is not None and named.block.n_rows:
        yield named, states


class Routes:
    """Parts and blocks, laid out when first asked for."""

    def __init__(self, votes: WideVotes, partitions: int | None, blocks: int | None, gold: Any) -> None:
        self.past: Callable[[Panel], Others] | None = None  # what is known of workers beforehand; before anything is laid out
        self._spark = votes.frame.sparkSession
        self._votes, self._partitions, self._gold = votes, partitions, gold
        cells, cores = votes.n_rows * votes.n_labels, self._spark.sparkContext.defaultParallelism
        self.n_blocks: int = blocks or max(1, min(cores, votes.n_rows // FEW), cells // CELLS)

    @cached_property
    def size(self) -> Size:
        """How many tasks, votes and tasks without votes there are; laid out on the executors when first asked."""
        return size_of(self.packed, len(self._votes), self.release)

    @cached_property
    def packed(self) -> Frame:
        """The votes on the executors' disks, a line per partition, with the ids of its tasks and the rows it uses."""
        votes = self._votes
        n = self._partitions or partitions_for(len(votes), self._spark.sparkContext, MANY)
        panel = Panel(worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers, labels=votes.labels)
        packing = WidePacking(panel, votes.duplicates, self._gold is not None, self.n_blocks)
        with plain_errors(WHAT):
            source = votes.frame if self._gold is None else beside(votes, self._gold)
            frame = spark.map_arrow(source.repartition(n, "task"), packing.__call__, WIDE_SCHEMA)
            return frame.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def parts(self) -> Rdd:
        """(part, its votes), as passes want them."""
        assert self.size is not None  # laid out, and found to be sound
        lines = self.packed.select("part", "slices").rdd
        parts = lines.mapPartitionsWithIndex(_parts).partitionBy(lines.getNumPartitions(), place)
        return parts.persist(spark.storage("MEMORY_AND_DISK"))

    @cached_property
    def named(self) -> Rdd:
        """(block, its rows, who asks for them, and the ids of its workers)."""
        lists = self.packed.select(functions().spark_partition_id().alias("part"), "slices", "asks")
        # A line for each block: a list as a whole would be copied several times on its way from Java to Python.
        asks = spark.map_arrow(lists, _asks, "block bigint, part bigint, rows binary")
        asks = asks.rdd.map(_ask).partitionBy(self.n_blocks, place)
        make = partial(_numbered, self._votes.labels, self.past)
        named = alike(asks.mapPartitionsWithIndex(make, preservesPartitioning=True), self.parts)
        return named.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def blocks(self) -> Rdd:
        """(block, its rows and who asks for them), as passes want them."""
        return alike(self.named.mapValues(_block), self.parts).persist(spark.storage("DISK_ONLY"))

    @cached_property
    def n_workers(self) -> int:
        """The number of workers."""
        with plain_errors(WHAT):
            return int(self.named.mapPartitions(_count_workers).sum())

    def ids(self) -> Rdd:
        """Return (part, the ids of its tasks)."""
        lines = self.packed.select("ids").rdd
        return lines.mapPartitionsWithIndex(_ids).partitionBy(self.parts.getNumPartitions(), place)

    def release(self) -> None:
        """Give back what the executors keep."""
        for kept in ("blocks", "named", "parts", "packed"):
            if kept in self.__dict__:
                self.__dict__[kept].unpersist()


def _parts(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, WidePart]]:
    for line in lines:
        yield index, WidePart(bytes(line["part"]), np.frombuffer(bytes(line["slices"]), np.int64))


def _ids(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, Ids]]:
    for line in lines:
        yield index, Ids(bytes(line["ids"]))


def _asks(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for part, bounds, asks in pl.DataFrame(batch).iter_rows():
            rows, slices = pl.read_ipc(asks), np.frombuffer(bounds, np.int64).tolist()
            for block, (start, end) in enumerate(itertools.pairwise(slices)):
                if end > start:
                    line = {"block": [block], "part": [part], "rows": [ipc(rows[start:end], packed=True)]}
                    yield from arrow_batches(pl.DataFrame(line))


def _ask(line: Any) -> tuple[int, tuple[int, bytes]]:
    return line["block"], (line["part"], bytes(line["rows"]))


def _numbered(
    labels: Vocabulary,
    past: Callable[[Panel], Others] | None,
    index: int,
    asks: Iterable[tuple[int, tuple[int, bytes]]],
) -> Iterator[tuple[int, Named]]:
    named = number((Ask(part, pl.read_ipc(rows)) for _, (part, rows) in asks), labels)
    if past is not None:
        named = named._replace(block=replace(named.block, history=past(named.panel())))
    yield index, named


def _block(named: Named) -> Block:
    return named.block


def _count_workers(items: Iterable[tuple[int, Named]]) -> Iterator[int]:
    for _, named in items:
        yield named.block.n_workers
